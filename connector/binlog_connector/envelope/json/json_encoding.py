"""Messages in JSON, as Kafka Connect's JSON converter has them: `JsonEncoding`."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_connector.envelope.connect_schema import (
    HEARTBEAT_KEY,
    HEARTBEAT_VALUE,
    TRANSACTION_KEY,
    TRANSACTION_VALUE,
    compact,
    envelope_schema,
    flat_schema,
    schema_change_schemas,
    wrapping,
)
from binlog_connector.envelope.json.change_values import DebeziumValues, FlatValues, MessageFields
from binlog_connector.envelope.json.message_template import EventTexts, op_texts, source_template
from binlog_connector.envelope.json.template_kernels import SEQUENCE_WIDTHS
from binlog_connector.envelope.message_kernels import DELETE
from binlog_connector.envelope.options import EnvelopeFormat
from binlog_format.rows.arrow_arrays import numbers_array, strings_array
from binlog_format.rows.json.json_rows import JsonRows, JsonStyle, json_column
from binlog_format.views.json.json_texts import JsonTexts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from binlog_connector.envelope.block_context import BlockContext
    from binlog_connector.envelope.connect_schema import Schema
    from binlog_connector.envelope.encoding import Collections, SchemaChangeMessage, ValueRows
    from binlog_connector.envelope.json.change_values import ChangeValues
    from binlog_connector.envelope.options import EnvelopeOptions
    from binlog_connector.envelope.table_envelope import TableEnvelope
    from binlog_connector.schema.definitions import TableName
    from binlog_format.rows.images import Images

    Int64s = NDArray[np.int64]


_READY = JsonStyle(ready=True)


class JsonEncoding:
    """See `MessageEncoding`.

    Args:
        options: What messages look like.
    """

    def __init__(self, options: EnvelopeOptions) -> None:
        self._options = options
        self._transaction_key = wrapping(TRANSACTION_KEY if options.schemas else None)
        self._transaction_value = wrapping(TRANSACTION_VALUE if options.schemas else None)

    def block(self, context: BlockContext, tables: Sequence[tuple[TableEnvelope, Int64s]]) -> _JsonBlock:
        """See `MessageEncoding`."""
        texts = EventTexts.of(context, [(envelope.template, events) for envelope, events in tables])
        return _JsonBlock(self._options, texts, op_texts(self._options, context.now_ns))

    def transaction_keys(self, ids: pa.Array) -> JsonTexts:
        """See `MessageEncoding`."""
        return JsonTexts.of_rows(JsonRows([json_column("id", ids)], len(ids)), *self._transaction_key)

    def transaction_values(
        self, status: str, ids: pa.Array, counts: pa.Array, collections: Collections | None, milliseconds: pa.Array
    ) -> JsonTexts:
        """See `MessageEncoding`."""
        count = len(ids)
        listed = pa.nulls(count, pa.string()) if collections is None else _listed(collections)
        columns = [
            json_column("status", strings_array([status]).take(numbers_array(np.zeros(count, dtype=np.int64)))),
            json_column("id", ids),
            json_column("event_count", counts),
            json_column("data_collections", listed, style=_READY),
            json_column("ts_ms", milliseconds),
        ]
        return JsonTexts.of_rows(JsonRows(columns, count), *self._transaction_value)

    def schema_change(self, context: BlockContext, change: SchemaChangeMessage) -> tuple[JsonTexts, JsonTexts]:
        """See `MessageEncoding`."""
        database = strings_array([change.database])
        listed = [{"type": kind, "id": f'"{name.database}"."{name.table}"'} for kind, name in change.tables]
        source = self._source(context, change.event, change.database, change.table)
        columns = [
            json_column("source", strings_array([source]), style=_READY),
            json_column("ts_ms", numbers_array(np.array([context.now_ns // 1_000_000], dtype=np.int64))),
            json_column("databaseName", database),
            json_column("schemaName", pa.nulls(1, pa.string())),
            json_column("ddl", pa.array([change.statement], pa.string())),
            json_column("tableChanges", strings_array([compact(listed)]), style=_READY),
        ]
        key, value = schema_change_schemas(context.block.vendor) if self._options.schemas else (None, None)
        keys = JsonRows([json_column("databaseName", database)], 1)
        return JsonTexts.of_rows(keys, *wrapping(key)), JsonTexts.of_rows(JsonRows(columns, 1), *wrapping(value))

    def truncate(self, context: BlockContext, event: int, name: TableName) -> JsonTexts:
        """See `MessageEncoding`."""
        source = self._source(context, event, name.database, name.table)
        is_flat = self._options.format is EnvelopeFormat.FLAT
        value = _flat_truncate(source) if is_flat else _debezium_truncate(source, context.now_ns)
        head, tail = wrapping(self._truncate_schema(context, name))
        return JsonTexts.of([f"{head.tobytes().decode()}{value}{tail.tobytes().decode()}"])

    def heartbeat(self, now_ns: int) -> tuple[bytes, bytes]:
        """See `MessageEncoding`."""
        return heartbeat(self._options, now_ns)

    def _source(self, context: BlockContext, event: int, database: str, table: str | None) -> str:
        """The object `source` of a message about a statement."""
        template = source_template(database, table, context.block.vendor, context.options)
        texts = EventTexts.of(context, [(template, np.array([event], dtype=np.int64))])
        segments = [bytes(texts.data[start:end]).decode() for start, end in itertools.pairwise(texts.segments)]
        row_in_sequence, row = "0" * SEQUENCE_WIDTHS[-1], "0"
        return f"{segments[0]}{row_in_sequence}{segments[1]}{row}{segments[2]}".removeprefix('"source":')

    def _truncate_schema(self, context: BlockContext, name: TableName) -> Schema | None:
        # Of a row without columns: the statement tells nothing about them.
        if not self._options.schemas:
            return None
        full_name = f"{self._options.topic_prefix}.{name}"
        if self._options.format is EnvelopeFormat.FLAT:
            return flat_schema([], full_name)
        return envelope_schema([], full_name, context.block.vendor)


class _JsonBlock:
    # See `BlockEncoder`.
    def __init__(self, options: EnvelopeOptions, texts: EventTexts, ops: JsonTexts) -> None:
        self._options, self._texts, self._ops = options, texts, ops

    def changes(self, envelope: TableEnvelope, images: Images) -> _JsonChanges:
        return _JsonChanges(self._options, self._texts, self._ops, envelope, images)


class _JsonChanges:
    # See `ChangeEncoder`.
    def __init__(
        self, options: EnvelopeOptions, texts: EventTexts, ops: JsonTexts, envelope: TableEnvelope, images: Images
    ) -> None:
        self._options, self._texts, self._ops = options, texts, ops
        self._envelope, self._images = envelope, images
        self.keys = None
        if options.format is EnvelopeFormat.FLAT:
            key = [envelope.column(images, index) for index in envelope.key]
        else:
            self._rows = envelope.row_columns(images)
            key = [self._rows[index] for index in envelope.key]
        if key:
            self.keys = JsonTexts.of_rows(JsonRows(key, len(images)), *envelope.key_wrapping)

    def values(self, rows: ValueRows) -> ChangeValues:
        orders = (rows.events, rows.events) if rows.orders is None else (rows.orders.total, rows.orders.of_table)
        fields = MessageFields(self._texts, rows.events, rows.row_nos, *orders, rows.ops, self._ops)
        wrapped = self._envelope.value_wrapping
        if self._options.format is EnvelopeFormat.FLAT:
            images = self._images.select(np.where(rows.ops == DELETE, rows.before, rows.after))
            return FlatValues(JsonRows(self._envelope.row_columns(images), len(images)), fields, wrapped)
        images_rows = JsonRows(self._rows, len(self._images))
        return DebeziumValues(images_rows, rows.before, rows.after, fields, wrapped)


def _listed(collections: Collections) -> pa.Array:
    labels = strings_array([compact(name) for name in collections.names]).take(numbers_array(collections.tables))
    counts = numbers_array(collections.counts).cast(pa.string())
    entries = pc.binary_join_element_wise('{"data_collection":', labels, ',"event_count":', counts, "}", "")
    bounds = numbers_array(collections.bounds.astype(np.int32))
    joined = pc.binary_join(pa.ListArray.from_arrays(bounds, entries), ",")
    return pc.binary_join_element_wise("[", joined, "]", "")


def _debezium_truncate(source: str, now_ns: int) -> str:
    made = f'"ts_ms":{now_ns // 1_000_000},"ts_us":{now_ns // 1000},"ts_ns":{now_ns}'
    return f'{{"before":null,"after":null,"source":{source},"transaction":null,"op":"t",{made}}}'


def _flat_truncate(source: str) -> str:
    told = json.loads(source)
    return compact(
        {
            "__db": told["db"],
            "__table": told["table"],
            "__source_ts_ms": told["ts_ms"],
            "__source_sequence": told["sequence"],
            "__source_gtid": told["gtid"],
            "__op": "t",
            "__deleted": "false",
        }
    )


def heartbeat(options: EnvelopeOptions, now_ns: int) -> tuple[bytes, bytes]:
    """Key and value.

    Args:
        options: What messages look like.
        now_ns: Nanoseconds since 1970 UTC.
    """
    key = _message({"serverName": options.topic_prefix}, HEARTBEAT_KEY if options.schemas else None)
    return key, _message({"ts_ms": now_ns // 1_000_000}, HEARTBEAT_VALUE if options.schemas else None)


def _message(payload: dict[str, object], schema: Schema | None) -> bytes:
    return compact(payload if schema is None else {"schema": schema, "payload": payload}).encode()
