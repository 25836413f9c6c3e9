"""Messages as rows that Spark's Kafka sink writes as they are: `MessageView`.

Messages as lines of JSON, for people and for tests: `MessageLines`; `topic_names` and `text_batches` of a batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_connector.envelope.message_batch import MESSAGES_SCHEMA, MessageKind
from binlog_connector.kafka.topic_names import TopicNames
from binlog_format.errors import UnsupportedError
from binlog_format.rows.arrow_arrays import numbers_array, strings_array
from binlog_format.rows.column_types import TEXT_SIZE_MAX
from binlog_format.rows.json.json_rows import JsonStyle

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from binlog_connector.envelope.messages import MessagesView
    from binlog_connector.kafka.topic_names import TopicTemplates
    from binlog_format.block import Block
    from binlog_format.kernels import Int64s


OLD_KEY_HEADER = "__debezium.oldkey"
NEW_KEY_HEADER = "__debezium.newkey"

_SCHEMA = pa.schema([("topic", pa.string())] + [(name, pa.binary()) for name in ("key", "value", "headers")])
_READY = JsonStyle(ready=True)


class MessageLines:
    """A view whose rows are messages: `topic`, `key`, `value` and `headers`, all but the first as JSON."""

    def __init__(self, messages: MessagesView, prefix: str) -> None:
        self._messages = messages
        self._prefix = prefix

    def schema(self, _layout: object = None) -> pa.Schema:
        """Schema of the batches."""
        return _SCHEMA

    def json_styles(self) -> dict[str, JsonStyle]:
        """JSON styles for `json_lines` of this view."""
        return {"key": _READY, "value": _READY, "headers": _READY}

    def batches(self, blocks: Iterable[Block]) -> Iterator[pa.RecordBatch]:
        """The messages of *blocks*."""
        for batch in self._messages.batches(blocks):
            yield from map(self._lines, text_batches(batch))

    def _lines(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        key, value, old_key, new_key = (
            batch.column(name).cast(pa.binary()) for name in ("key", "value", "old_key", "new_key")
        )
        headers = pc.coalesce(_header(NEW_KEY_HEADER, new_key), _header(OLD_KEY_HEADER, old_key))
        columns = [topic_names(batch, self._prefix), key, value, headers]
        return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


def text_batches(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The messages of *batch* in parts whose values fit into a column with offsets of 32 bits."""
    size = batch.column("value").nbytes
    if size > TEXT_SIZE_MAX // 2 and batch.num_rows > 1:
        middle = batch.num_rows // 2
        yield from text_batches(batch.slice(0, middle))
        yield from text_batches(batch.slice(middle))
        return
    if size > TEXT_SIZE_MAX:
        raise UnsupportedError("ROW_IMAGE", f"a message of {size} bytes, at most {TEXT_SIZE_MAX} are written")
    yield batch


def topic_names(batch: pa.RecordBatch, prefix: str) -> pa.Array:
    """The topic of each message of a `MESSAGES_SCHEMA`, as Debezium names it.

    `<prefix>.<database>.<table>` for changes, `<prefix>.transaction` for transactions, `<prefix>` for statements.
    """
    kind, database, table = (batch.column(name).cast(pa.string()) for name in ("kind", "database", "table"))
    of_table = pc.binary_join_element_wise(prefix, database, table, ".")
    others = pc.if_else(pc.equal(kind, MessageKind.TRANSACTION.value), f"{prefix}.transaction", prefix)
    return pc.if_else(pc.equal(kind, MessageKind.CHANGE.value), of_table, others)


def _header(name: str, keys: pa.Array) -> pa.Array:
    head, tail, between = (pa.scalar(text, pa.binary()) for text in (f'{{"{name}":'.encode(), b"}", b""))
    return pc.binary_join_element_wise(head, keys, tail, between)


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
