"""Record batches hold the messages, as another reader of Kafka's format finds them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from kafka import TopicPartition
from kafka.record.memory_records import MemoryRecords

from binlog_connector.kafka.producer import Headers, Messages
from binlog_connector.kafka.python_producer import HEADER_SIZE, filled_batch
from binlog_connector.kafka.record_batches import key_partitions, record_batches

if TYPE_CHECKING:
    from collections.abc import Sequence

_SIZE_MAX = 2000
_NONE, _GZIP = 0, 1
_BYTES = st.binary(max_size=300) | st.integers(0, 9000).map(bytes)
_HEADERS = st.lists(st.tuples(st.text(max_size=70), st.binary(max_size=70)), max_size=3)
_MESSAGES = st.lists(st.tuples(st.none() | st.binary(max_size=80), st.none() | _BYTES, _HEADERS), max_size=70)

Read = tuple[bytes | None, bytes | None, Headers]


@given(_MESSAGES, st.integers(0, 3), st.integers(1, 4), st.booleans(), st.sampled_from([_NONE, _GZIP]), st.booleans())
def test_a_reader_finds_the_messages(
    some: list[Read], skipped: int, partition_count: int, has_headers: bool, compression: int, is_large: bool
) -> None:
    """In the partitions of their keys, in their order; a batch is no larger than it may be, unless of one message."""
    kind = pa.large_binary() if is_large else pa.binary()
    keys, values = (pa.array([one[column] for one in some], kind)[skipped:] for column in (0, 1))
    wanted = [(key, value, headers if has_headers else []) for key, value, headers in some[skipped:]]
    messages = Messages("topic", keys, values, [headers for *_, headers in wanted] if has_headers else None)
    found: dict[int, list[Read]] = {}
    for batch in record_batches(messages, partition_count, _SIZE_MAX, before=HEADER_SIZE):
        assert batch.count == 1 or len(batch.records) <= HEADER_SIZE + _SIZE_MAX
        records = filled_batch(TopicPartition("topic", batch.partition), compression, batch).records
        records.set_producer_state(7, 1, 100, True)
        records.close()
        found.setdefault(batch.partition, []).extend(_read(records.buffer(), batch.count))
    places = key_partitions(keys, partition_count).tolist()
    assert found == {
        place: [one for one, its in zip(wanted, places, strict=True) if its == place] for place in set(places)
    }


@given(_MESSAGES)
def test_a_partition_that_is_asked_for_gets_all(some: list[Read]) -> None:
    keys, values = (pa.array([one[column] for one in some], pa.binary()) for column in (0, 1))
    batches = list(record_batches(Messages("topic", keys, values, partition=2), 3, _SIZE_MAX, before=0))
    assert {batch.partition for batch in batches} <= {2}
    assert sum(batch.count for batch in batches) == len(some)


def _read(batch: bytearray, count: int) -> Sequence[Read]:
    (found,) = list(_batches(batch))
    assert found.validate_crc()
    assert (found.producer_id, found.producer_epoch, found.base_sequence, found.is_transactional) == (7, 1, 100, True)
    records = list(found)
    assert [record.offset for record in records] == list(range(count))
    assert {record.timestamp for record in records} == {records[0].timestamp}
    return [(record.key, record.value, [tuple(header) for header in record.headers]) for record in records]


def _batches(data: bytearray) -> list[Any]:
    reader, batches = MemoryRecords(data), []
    while reader.has_next():
        batches.append(reader.next_batch())
    return batches
