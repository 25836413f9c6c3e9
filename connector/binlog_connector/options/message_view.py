"""Messages as rows that Spark's Kafka sink writes as they are: `MessageView`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_connector.envelope.message_batch import MESSAGES_SCHEMA, MessageKind
from binlog_connector.envelope.message_lines import NEW_KEY_HEADER, OLD_KEY_HEADER, text_batches
from binlog_connector.kafka.topic_names import TopicNames
from binlog_format.rows.arrow_arrays import numbers_array, strings_array

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from binlog_connector.envelope.messages import MessagesView
    from binlog_connector.kafka.topic_names import TopicTemplates
    from binlog_format.block import Block
    from binlog_format.kernels import Int64s

_HEADER_TYPE = pa.struct([("key", pa.string()), ("value", pa.binary())])
_SAME_NAMES = ("position", "event_no", "row_no", "commit_time")

MESSAGE_ROWS_SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        ("partition", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(_HEADER_TYPE)),
        ("op", pa.string()),
        ("database", pa.string()),
        ("table", pa.string()),
        *(MESSAGES_SCHEMA.field(name) for name in _SAME_NAMES[:3]),
        pa.field("message_no", pa.int32(), nullable=False),
        MESSAGES_SCHEMA.field(_SAME_NAMES[3]),
    ]
)
"""The first five are those that Spark's Kafka sink knows; it passes over the others.

`partition` is 0 for messages without a key, which so stay in their order, else null: by the key. `message_no` counts
the messages of a changed row: what sorts by `position`, `event_no`, `row_no` and `message_no` has the order of the log.
"""


class MessageView:
    """A view whose rows are messages, in the order of the log."""

    def __init__(self, messages: MessagesView, topics: TopicTemplates) -> None:
        self._messages = messages
        self._names = TopicNames(topics)

    def schema(self, _layout: object = None) -> pa.Schema:
        """`MESSAGE_ROWS_SCHEMA`."""
        return MESSAGE_ROWS_SCHEMA

    def batches(self, blocks: Iterable[Block]) -> Iterator[pa.RecordBatch]:
        """The messages of *blocks*."""
        for batch in self._messages.batches(blocks):
            numbers = _message_numbers(batch)
            for part in text_batches(batch):
                yield self._rows(part, numbers[: len(part)])
                numbers = numbers[len(part) :]

    def _rows(self, batch: pa.RecordBatch, numbers: Int64s) -> pa.RecordBatch:
        key = batch.column("key").cast(pa.binary())
        columns = {
            "topic": self._topics(batch),
            "partition": pc.if_else(key.is_null(), pa.scalar(0, pa.int32()), None),
            "key": key,
            "value": batch.column("value").cast(pa.binary()),
            "headers": _headers(batch),
            **{name: batch.column(name).cast(pa.string()) for name in ("op", "database", "table")},
            **{name: batch.column(name) for name in _SAME_NAMES},
            "message_no": numbers_array(numbers.astype(np.int32)),
        }
        return pa.RecordBatch.from_arrays(
            [columns[name] for name in MESSAGE_ROWS_SCHEMA.names], schema=MESSAGE_ROWS_SCHEMA
        )

    def _topics(self, batch: pa.RecordBatch) -> pa.Array:
        columns = [batch.column(name) for name in ("kind", "database", "table")]
        # A number for each combination of kind, database and table, and its topic once.
        codes = np.zeros(len(batch), dtype=np.int64)
        for column in columns:
            index = column.indices.fill_null(len(column.dictionary)).to_numpy()
            codes = codes * (len(column.dictionary) + 1) + index
        _, rows, found = np.unique(codes, return_index=True, return_inverse=True)
        topics = []
        for row in rows.tolist():
            kind, database, table = (column[row].as_py() for column in columns)
            topics.append(self._names.of(MessageKind(kind), database, table))
        return strings_array(topics).take(numbers_array(found.astype(np.int64)))


def _message_numbers(batch: pa.RecordBatch) -> Int64s:
    # Of each message its number among those before it that are of the same row of the same event.
    position = batch.column("position")
    places = [
        *(position.field(name) for name in ("file_no", "page", "chunk")),
        *map(batch.column, ("event_no", "row_no")),
    ]
    is_first = np.ones(len(batch), dtype=np.bool_)
    is_first[1:] = np.any([np.diff(place.to_numpy()) != 0 for place in places], axis=0)
    rows = np.arange(len(batch), dtype=np.int64)
    numbers: Int64s = rows - np.maximum.accumulate(np.where(is_first, rows, 0))
    return numbers


def _headers(batch: pa.RecordBatch) -> pa.Array:
    # A message has one header, or none.
    old, new = (batch.column(name).cast(pa.binary()) for name in ("old_key", "new_key"))
    value = pc.coalesce(new, old)
    name = pc.if_else(new.is_valid(), NEW_KEY_HEADER, OLD_KEY_HEADER)
    there = value.is_valid()
    each = pa.StructArray.from_arrays([name.filter(there), value.filter(there)], fields=list(_HEADER_TYPE))
    counts = np.cumsum(there.to_numpy(zero_copy_only=False))
    offsets = pa.array([0, *counts], pa.int32())
    return pa.ListArray.from_arrays(offsets, each, type=pa.list_(_HEADER_TYPE), mask=value.is_null())
