"""Columns of tables as parts of Avro records: `column_part`.

Fields of values about the event that a change is in: `EventParts`; attributes of CloudEvents: `AttributeParts`.
"""

from __future__ import annotations

import base64
from functools import cached_property
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_connector.envelope.avro.parts import (
    NULL_BRANCH,
    SEQUENCE_SIZE,
    VALUE_BRANCH,
    AvroTexts,
    Chosen,
    Encoded,
    Fixed,
    Longs,
    SameParts,
    Sequences,
    array_parts,
    encoded_long,
    encoded_text,
    plain_states,
    union_states,
)
from binlog_connector.envelope.connect_schema import SOURCE_FIELDS, TRANSACTION_FIELDS, connector_name
from binlog_connector.envelope.connect_times import present_mask
from binlog_connector.envelope.json.message_template import NO_SNAPSHOT, OF_SNAPSHOT
from binlog_connector.envelope.message_batch import OPS
from binlog_connector.envelope.metadata_messages import EventGroups
from binlog_format.errors import UnsupportedError
from binlog_format.kernels import empty_bytes
from binlog_format.rows.arrow_arrays import numbers_array
from binlog_format.rows.json.json_rows import JsonRows, json_column
from binlog_format.views.row_images import JsonTexts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from binlog_connector.envelope.avro.parts import AvroPart
    from binlog_connector.envelope.connect_schema import Schema
    from binlog_connector.envelope.connect_values import ConnectColumn
    from binlog_connector.envelope.encoding import Orders, ValueRows
    from binlog_connector.envelope.message_context import BlockContext
    from binlog_format.events.table_map import TableLayout
    from binlog_format.kernels import Bytes, Int32s, Int64s, Mask
    from binlog_format.rows.json.json_rows import JsonStyle


_HEAD, _TAIL = len('{"":"'), len('"}')


def column_part(column: ConnectColumn, schema: Schema, values: pa.Array) -> AvroPart:
    """A column as a field of each row, or of each key.

    Args:
        schema: Its field in the schema of rows, or of keys.
        values: Made by `ConnectColumn.values`.
    """
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if values.null_count and not schema["optional"]:
        reason = f"{column.full_name}: value {values.is_null().index(True)}: NULL in a column that is NOT NULL"
        raise UnsupportedError("MESSAGE_VALUE", reason, hint='Leave the table out, or publish with format = "json"')
    return _part(schema, values, column.style)


def _part(schema: Schema, values: pa.Array, style: JsonStyle | None = None) -> AvroPart:
    kind = schema["type"]
    if kind in ("struct", "array"):
        return _nested(schema, values)
    states = union_states(present_mask(values)) if schema["optional"] else plain_states(len(values))
    if kind == "bytes":
        return AvroTexts.of(values, pa.binary(), states)
    if kind == "string":
        return _text(values, states, style)
    if kind == "boolean":
        return Fixed(_numbers(values.cast(pa.uint8())), states)
    numbers = _numbers(values)
    return Fixed(numbers, states) if kind in ("float", "double") else Longs(numbers, states)


def _text(values: pa.Array, states: Bytes, style: JsonStyle | None) -> AvroTexts:
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        return AvroTexts.of(values, pa.string(), states)
    # Moments, digits and what stands for bytes: as in JSON, where it has no escapes, without the quotes.
    assert style is not None, "only columns have such values"
    nothing = empty_bytes(0)
    texts = JsonTexts.of_rows(JsonRows([json_column("", values, style=style)], len(values)), nothing, nothing)
    return AvroTexts(texts.data, texts.offsets[:-1] + _HEAD, texts.sizes - _HEAD - _TAIL, states)


def _nested(schema: Schema, values: pa.Array) -> AvroPart:
    # Only what is there is encoded: the fields of a null are no values.
    present = present_mask(values)
    there = values.drop_null()
    if schema["type"] == "struct":
        fields = zip(schema["fields"], there.flatten(), strict=True)
        parts = [_part(field, kids) for field, kids in fields]
    else:
        parts = _floats(there)
    chosen = np.where(present, np.cumsum(present) - 1, -1).astype(np.int64)
    return Chosen(Encoded.of(parts, len(there)), chosen, in_union=schema["optional"])


def _floats(lists: pa.Array) -> list[AvroPart]:
    offsets = lists.offsets.to_numpy().astype(np.int64)
    numbers = _numbers(lists.values)
    items = Encoded(np.array(numbers).view(np.uint8), offsets * numbers.itemsize)
    return array_parts(np.diff(offsets), items)


def _numbers(values: pa.Array) -> NDArray[Any]:
    """The values in memory; of a null: anything."""
    dtype = values.type.to_pandas_dtype()
    content = np.frombuffer(values.buffers()[1] or b"", dtype=dtype)
    return content[values.offset : values.offset + len(values)]


def _snapshot(value: str) -> bytes:
    return b"\x00" + encoded_text(value)  # the first branch of a union


class EventParts:
    """Fields of values, encoded once for each event of a block, and then chosen for each value.

    Args:
        rows: The events, by their rows in its event table, each once.
        are_copied: Their rows are no changes: a snapshot has copied them.
    """

    def __init__(self, context: BlockContext, rows: Int64s, *, are_copied: bool = False) -> None:
        block = context.block
        self._occasion, self._rows = context, rows
        self._groups = EventGroups(block, rows)
        self._slots = np.empty(len(block.events), dtype=np.int64)
        self._slots[rows] = np.arange(len(rows))
        self._seconds = seconds = block.events["timestamp"][rows].astype(np.int64)
        sure = union_states(np.ones(len(seconds), dtype=np.bool_))
        gtids = self._groups.gtids()
        self._of_events: dict[str, AvroPart] = {
            "version": SameParts(encoded_text(str(context.options.version))),
            "connector": SameParts(encoded_text(connector_name(block.vendor))),
            "name": SameParts(encoded_text(context.options.topic_prefix)),
            "ts_ms": Longs(seconds * 1000),
            "snapshot": SameParts(_snapshot(OF_SNAPSHOT if are_copied else NO_SNAPSHOT)),
            "ts_us": Longs(seconds * 1_000_000, sure),
            "ts_ns": Longs(seconds * 1_000_000_000, sure),
            "server_id": Longs(block.events["server_id"][rows]),
            "gtid": AvroTexts.of(gtids, pa.string(), union_states(gtids.is_valid().to_numpy(zero_copy_only=False))),
            "file": AvroTexts.of(self._groups.file_names(), pa.string()),
            "pos": Longs(self._groups.file_offsets()),
            "thread": self._threads(),
            "query": self._queries(),
        }
        self._source = self._in_order(self._of_events)

    def _in_order(self, of_events: Mapping[str, AvroPart]) -> list[Encoded | str]:
        # Of `source`; names of fields that are not the same for a whole event.
        fields: list[Encoded | str] = []
        for is_of_event, names in groupby((field.name for field in SOURCE_FIELDS), of_events.__contains__):
            if is_of_event:
                fields.append(self._encoded(*map(of_events.__getitem__, names)))
            else:
                fields.extend(names)
        return fields

    def source(self, database: str, table: str | None, events: Int64s, row_nos: Int32s) -> list[AvroPart]:
        """The fields of `source`.

        Args:
            database: Of the values' table; may be empty.
            table: Its name; None: none.
            events: Of each value its event.
            row_nos: Number of its row in the event.
        """
        return self._filled(self._source, database, table, events, row_nos)

    def _filled(
        self, fields: list[Encoded | str], database: str, table: str | None, events: Int64s, row_nos: Int32s
    ) -> list[AvroPart]:
        slots = self._slots[events]
        sequence = SameParts(VALUE_BRANCH + encoded_long(SEQUENCE_SIZE))
        of_values: dict[str, list[AvroPart]] = {
            "db": [SameParts(encoded_text(database))],
            "sequence": [sequence, Sequences(self._occasion, events, row_nos)],
            "table": [SameParts(NULL_BRANCH if table is None else VALUE_BRANCH + encoded_text(table))],
            "row": [Longs(row_nos)],
        }
        parts = (of_values[field] if isinstance(field, str) else [Chosen(field, slots)] for field in fields)
        return list(chain.from_iterable(parts))

    def transaction(self, events: Int64s, orders: Orders | None) -> list[AvroPart]:
        """The field `transaction`.

        Args:
            events: Of each value its event.
            orders: Of the values; None: they do not tell them.
        """
        if orders is None:
            return [SameParts(NULL_BRANCH)]
        ids = Chosen(self._transaction_ids, self._slots[events])
        return [SameParts(VALUE_BRANCH), ids, Longs(orders.total), Longs(orders.of_table)]

    @cached_property
    def _transaction_ids(self) -> Encoded:
        return self._encoded(AvroTexts.of(self._groups.transaction_ids(), pa.string()))

    def _encoded(self, *parts: AvroPart) -> Encoded:
        return Encoded.of(parts, len(self._rows))

    def _threads(self) -> AvroPart:
        threads = self._occasion.threads[self._groups.rows]
        return Longs(threads, union_states(threads >= 0))

    def _queries(self) -> AvroPart:
        queries = self._occasion.queries
        if queries is None:
            return SameParts(NULL_BRANCH)
        of_events, texts = queries
        encoded = Encoded.of([AvroTexts.of(texts, pa.string())], len(texts))
        return Chosen(encoded, of_events[self._rows].astype(np.int64), in_union=True)


def with_avro_default(field: Schema) -> Schema:
    """A field with the default that Avro has: null where it may be null, and for bytes a text."""
    if "default" not in field:
        return field
    if field["optional"]:
        return {name: value for name, value in field.items() if name != "default"}
    if field["type"] == "bytes":
        return {**field, "default": base64.b64decode(field["default"]).decode("latin-1")}
    return field


class AttributeParts(EventParts):
    """Also what CloudEvents have before `data`, in the order of `event_schema`; numbers of 64 bits are texts."""

    def __init__(self, context: BlockContext, rows: Int64s, *, are_copied: bool) -> None:
        super().__init__(context, rows, are_copied=are_copied)
        self._are_copied = are_copied
        letters = ["r" if are_copied else op for op in OPS]
        self._letters = Encoded.of([SameParts(b";op:"), _letters(letters)], len(letters))
        self._ops = Encoded.of([SameParts(encoded_long(1)), _letters(letters)], len(letters))

    def attributes(self, layout: TableLayout, schema_url: str, rows: ValueRows) -> list[AvroPart]:
        """All of them. *layout*: of the values' table. *schema_url*: of the schema of their data."""
        connector, name = connector_name(layout.vendor), self._occasion.options.topic_prefix
        start = f"name:{name};sequence:".encode()
        source, kind = f"/debezium/{connector}/{name}", f"io.debezium.connector.{connector}.DataChangeEvent"
        return [
            SameParts(encoded_long(len(start) + SEQUENCE_SIZE + len(";op:") + 1) + start),
            Sequences(self._occasion, rows.events, rows.row_nos),
            Chosen(self._letters, rows.ops),
            SameParts(b"".join(map(encoded_text, (source, "1.0", kind)))),
            Chosen(self._times, self._slots[rows.events]),
            SameParts(encoded_text("application/avro") + encoded_text(schema_url)),
            Chosen(self._ops, rows.ops),
            *self._filled(self._attributes, layout.database, layout.table, rows.events, rows.row_nos),
            *self._transaction(rows),
        ]

    def _transaction(self, rows: ValueRows) -> list[AvroPart]:
        if rows.orders is None:
            return [SameParts(NULL_BRANCH * len(TRANSACTION_FIELDS))]
        ids = Chosen(self._transaction_ids, self._slots[rows.events])
        return [SameParts(VALUE_BRANCH), ids, _optional(rows.orders.total), _optional(rows.orders.of_table)]

    @cached_property
    def _times(self) -> Encoded:
        moments = numbers_array(self._seconds).cast(pa.timestamp("s"))
        return self._encoded(AvroTexts.of(pc.strftime(moments, "%Y-%m-%dT%H:%M:%S.000Z"), pa.string()))

    @cached_property
    def _attributes(self) -> list[Encoded | str]:
        threads = self._occasion.threads[self._groups.rows]
        snapshot = OF_SNAPSHOT if self._are_copied else NO_SNAPSHOT
        return self._in_order(
            self._of_events
            | {
                "ts_ms": _number_text(self._seconds * 1000),
                "snapshot": SameParts(VALUE_BRANCH + encoded_text(snapshot)),
                "ts_us": _optional(self._seconds * 1_000_000),
                "ts_ns": _optional(self._seconds * 1_000_000_000),
                "server_id": _number_text(self._occasion.block.events["server_id"][self._rows].astype(np.int64)),
                "pos": _number_text(self._groups.file_offsets()),
                "thread": _optional(threads, threads >= 0),
            }
        )


def _letters(letters: list[str]) -> AvroPart:
    offsets = np.arange(len(letters) + 1, dtype=np.int64)
    whole = Encoded(np.frombuffer("".join(letters).encode(), dtype=np.uint8), offsets)
    return Chosen(whole, offsets[:-1])


def _number_text(numbers: Int64s) -> AvroPart:
    return AvroTexts.of(numbers_array(numbers).cast(pa.string()), pa.string())


def _optional(numbers: Int64s, present: Mask | None = None) -> AvroPart:
    there = np.ones(len(numbers), dtype=np.bool_) if present is None else present
    return AvroTexts.of(numbers_array(numbers).cast(pa.string()), pa.string(), union_states(there))
