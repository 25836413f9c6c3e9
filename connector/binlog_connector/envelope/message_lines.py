"""Messages as lines of JSON, for people and for tests: `MessageLines`; `topic_names` and `text_batches` of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from binlog_connector.envelope.message_batch import MessageKind
from binlog_format.errors import UnsupportedError
from binlog_format.rows.column_types import TEXT_SIZE_MAX
from binlog_format.rows.json.json_rows import JsonStyle

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from binlog_connector.envelope.messages import MessagesView
    from binlog_format.block import Block

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
