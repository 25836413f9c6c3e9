"""Messages in JSON, as Kafka Connect's JSON converter has them: `JsonEncoding`."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_connector.envelope.connect_schema import (
    HEARTBEAT_KEY,
    HEARTBEAT_VALUE,
    TRANSACTION_KEY,
    compact,
    data_schema,
    envelope_schema,
    flat_schema,
    has_whole_envelope,
    schema_change_schemas,
    transaction_value_schema,
    wrapping,
)
from binlog_connector.envelope.json.change_values import AttributeValues, DebeziumValues, FlatValues, TextValues
from binlog_connector.envelope.json.message_template import (
    EventTexts,
    MessageTemplate,
    op_letters,
    op_texts,
    source_template,
)
from binlog_connector.envelope.json.template_kernels import (
    OP,
    ROW,
    SEQUENCE_ROW,
    SEQUENCE_WIDTHS,
    MessageFields,
)
from binlog_connector.envelope.message_kernels import DELETE
from binlog_connector.envelope.options import EnvelopeFormat
from binlog_format.rows.arrow_arrays import numbers_array, strings_array
from binlog_format.rows.json.json_rows import JsonRows, JsonStyle, json_column
from binlog_format.views.row_images import JsonTexts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_connector.envelope.connect_schema import Schema
    from binlog_connector.envelope.encoding import Collections, SchemaChangeMessage, ValueRows
    from binlog_connector.envelope.json.change_values import ChangeValues
    from binlog_connector.envelope.message_context import BlockContext, TableEnvelope
    from binlog_connector.envelope.options import EnvelopeOptions
    from binlog_connector.schema.definitions import TableName
    from binlog_format.kernels import Int64s
    from binlog_format.rows.images import Images

_READY = JsonStyle(ready=True)
_NO_ROWS = '{"before":null,"after":null}'


class JsonEncoding:
    """See `MessageEncoding`."""

    def __init__(self, options: EnvelopeOptions) -> None:
        self._options = options
        self._transaction_key = wrapping(TRANSACTION_KEY if options.schemas else None)
        value = transaction_value_schema(is_first_version=options.is_first_version) if options.schemas else None
        self._transaction_value = wrapping(value)

    def block(self, context: BlockContext, tables: Sequence[tuple[TableEnvelope, Int64s]]) -> _JsonBlock:
        """See `MessageEncoding`."""
        are_copied = tables[0][0].is_copied
        parts: list[_Part | None] = [None, None]
        if not self._options.format.is_event or has_whole_envelope(context.block.vendor):
            texts = EventTexts.of(context, [(envelope.template, events) for envelope, events in tables])
            parts[0] = texts, op_texts(self._options, context.now_ns, are_copied=are_copied)
        with_attributes = [(table.attributes, events) for table, events in tables if table.attributes is not None]
        if with_attributes:
            parts[1] = EventTexts.of(context, with_attributes), op_letters(are_copied=are_copied)
        return _JsonBlock(self._options, *parts)

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

    def truncate(self, context: BlockContext, event: int, name: TableName) -> TextValues:
        """See `MessageEncoding`."""
        source = self._source(context, event, name.database, name.table)
        value = _flat_truncate(source) if self._is(EnvelopeFormat.FLAT) else _debezium_truncate(source, context.now_ns)
        head, tail = (part.tobytes().decode() for part in wrapping(self._truncate_schema(context, name)))
        if not self._options.format.is_event:
            return TextValues(JsonTexts.of([f"{head}{value}{tail}"]))
        options, vendor = replace(self._options, transaction_metadata=False), context.block.vendor
        template = MessageTemplate.of_attributes(name.database, name.table, vendor, options)
        attributes = _of_one_event(context, event, template)
        data = f"{head}{value if has_whole_envelope(vendor) else _NO_ROWS}{tail}"
        if self._is(EnvelopeFormat.CLOUDEVENTS):
            return TextValues(JsonTexts.of([f'{attributes},"data":{data}}}']))
        return TextValues(JsonTexts.of([data]), TextValues(JsonTexts.of([f"{attributes}}}"])))

    def heartbeat(self, now_ns: int) -> tuple[bytes, bytes]:
        """See `MessageEncoding`."""
        return heartbeat(self._options, now_ns)

    def _source(self, context: BlockContext, event: int, database: str, table: str | None) -> str:
        """The object `source` of a message about a statement."""
        template = source_template(database, table, context.block.vendor, context.options)
        return _of_one_event(context, event, template).removeprefix('"source":')

    def _truncate_schema(self, context: BlockContext, name: TableName) -> Schema | None:
        # Of a row without columns: the statement tells nothing about them.
        if not self._options.schemas:
            return None
        full_name = self._options.schema_name(str(name))
        if self._is(EnvelopeFormat.FLAT):
            return flat_schema([], full_name)
        schema = envelope_schema([], full_name, context.block.vendor)
        return data_schema(schema, context.block.vendor) if self._options.format.is_event else schema

    def _is(self, form: EnvelopeFormat) -> bool:
        return self._options.format is form


_Part = tuple[EventTexts, JsonTexts]


class _JsonBlock:
    # See `BlockEncoder`; texts of the events, with those of operations: after rows, and before them.
    def __init__(self, options: EnvelopeOptions, fields: _Part | None, attributes: _Part | None) -> None:
        self.options, self.fields, self.attributes = options, fields, attributes

    def changes(self, envelope: TableEnvelope, images: Images) -> _JsonChanges:
        return _JsonChanges(self, envelope, images)


class _JsonChanges:
    # See `ChangeEncoder`.
    def __init__(self, block: _JsonBlock, envelope: TableEnvelope, images: Images) -> None:
        self._block, self._envelope, self._images = block, envelope, images
        self._is_flat = block.options.format is EnvelopeFormat.FLAT
        self.keys = None
        if self._is_flat:
            key = [envelope.column(images, index) for index in envelope.key]
        else:
            self._rows = envelope.row_columns(images)
            key = [self._rows[index] for index in envelope.key]
        if key:
            self.keys = JsonTexts.of_rows(JsonRows(key, len(images)), *envelope.key_wrapping)

    def values(self, rows: ValueRows) -> ChangeValues:
        wrapped = self._envelope.value_wrapping
        fields, attributes = _filled(self._block.fields, rows), _filled(self._block.attributes, rows)
        if self._is_flat and fields is not None:
            images = self._images.select(np.where(rows.ops == DELETE, rows.before, rows.after))
            return FlatValues(JsonRows(self._envelope.row_columns(images), len(images)), fields, wrapped)
        images_rows = JsonRows(self._rows, len(self._images))
        both = rows.before, rows.after
        if attributes is not None and self._block.options.format is EnvelopeFormat.CLOUDEVENTS_BINARY:
            return DebeziumValues(images_rows, *both, fields, wrapped, attributes=AttributeValues(attributes))
        return DebeziumValues(images_rows, *both, fields, wrapped, attributes)


def _filled(part: _Part | None, rows: ValueRows) -> MessageFields | None:
    if part is None:
        return None
    orders = (rows.events, rows.events) if rows.orders is None else (rows.orders.total, rows.orders.of_table)
    texts, ops = part
    return MessageFields(texts, rows.events, rows.row_nos, *orders, rows.ops, ops.data, ops.offsets)


def _listed(collections: Collections) -> pa.Array:
    labels = strings_array([compact(name) for name in collections.names]).take(numbers_array(collections.tables))
    counts = numbers_array(collections.counts).cast(pa.string())
    entries = pc.binary_join_element_wise('{"data_collection":', labels, ',"event_count":', counts, "}", "")
    bounds = numbers_array(collections.bounds.astype(np.int32))
    joined = pc.binary_join(pa.ListArray.from_arrays(bounds, entries), ",")
    return pc.binary_join_element_wise("[", joined, "]", "")


_OF_STATEMENTS = {SEQUENCE_ROW: "0" * SEQUENCE_WIDTHS[-1], ROW: "0", OP: "t"}


def _of_one_event(context: BlockContext, event: int, template: MessageTemplate) -> str:
    """*template* with the fields of a statement's event, which has no rows."""
    texts = EventTexts.of(context, [(template, np.array([event], dtype=np.int64))])
    segments = [bytes(texts.data[start:end]).decode() for start, end in itertools.pairwise(texts.segments)]
    fields = [_OF_STATEMENTS[int(field)] for field in template.message_fields]
    return "".join(itertools.chain.from_iterable(zip(segments, [*fields, ""], strict=True)))


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
    """Key and value. *now_ns*: nanoseconds since 1970 UTC."""
    key = _message({"serverName": options.topic_prefix}, HEARTBEAT_KEY if options.schemas else None)
    return key, _message({"ts_ms": now_ns // 1_000_000}, HEARTBEAT_VALUE if options.schemas else None)


def _message(payload: dict[str, object], schema: Schema | None) -> bytes:
    return compact(payload if schema is None else {"schema": schema, "payload": payload}).encode()
