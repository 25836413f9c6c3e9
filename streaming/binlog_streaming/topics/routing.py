"""Messages of a log for one topic: `messages_of`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from binlog_connector.envelope.message_batch import OPS
from binlog_connector.envelope.message_lines import NEW_KEY_HEADER, OLD_KEY_HEADER
from binlog_connector.kafka.messages import Headers, Messages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    PartitionCount = Callable[[str], int]


def messages_of(batch: pa.RecordBatch, topic: str, partition_count: PartitionCount) -> Iterator[Messages]:
    """The messages of *batch* (`MESSAGES_SCHEMA`), all of them for *topic*, in their order.

    A TRUNCATE goes to each partition: it is about rows of all of them, and has its place in the order of each.

    Args:
        batch: Messages of one topic.
        topic: Its name.
        partition_count: Tells how many partitions a topic has.
    """
    start = 0
    for row in _truncates(batch):
        yield from _part(batch[start:row], topic)
        truncate = batch[row : row + 1]
        for partition in range(partition_count(topic)):
            yield Messages(topic, truncate.column("key"), truncate.column("value"), partition=partition)
        start = row + 1
    yield from _part(batch[start:], topic)


def _truncates(batch: pa.RecordBatch) -> list[int]:
    is_truncate = pc.equal(batch.column("op").indices, OPS.index("t")).fill_null(False)
    rows: list[int] = np.flatnonzero(is_truncate.to_numpy(zero_copy_only=False)).tolist()
    return rows


def _part(batch: pa.RecordBatch, topic: str) -> Iterator[Messages]:
    if len(batch):
        yield Messages(topic, batch.column("key"), batch.column("value"), _headers(batch))


def _headers(batch: pa.RecordBatch) -> list[Headers] | None:
    old_keys, new_keys = batch.column("old_key"), batch.column("new_key")
    if old_keys.null_count == new_keys.null_count == len(batch):
        return None
    pairs = zip(old_keys.to_pylist(), new_keys.to_pylist(), strict=True)
    return [
        [(name, key) for name, key in ((OLD_KEY_HEADER, old), (NEW_KEY_HEADER, new)) if key is not None]
        for old, new in pairs
    ]
