"""Messages in Avro, each with the id of its schema, as Confluent's serializers write them: `AvroEncoding`.

A message is a zero byte, the id (4 bytes, the high one first), and the value. Schemas are registered before the first
message that needs them, under the subjects `<topic>-key` and `<topic>-value`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from binlog_connector.envelope.avro.avro_schema import avro_schema
from binlog_connector.envelope.avro.message_parts import AttributeParts, EventParts, column_part, with_avro_default
from binlog_connector.envelope.avro.parts import (
    NULL_BRANCH,
    VALUE_BRANCH,
    AvroTexts,
    Chosen,
    Encoded,
    Longs,
    PartValues,
    SameParts,
    array_parts,
    encoded_long,
    encoded_text,
    plain_states,
)
from binlog_connector.envelope.connect_schema import (
    HEARTBEAT_KEY,
    HEARTBEAT_VALUE,
    TRANSACTION_KEY,
    data_schema,
    envelope_schema,
    event_schema,
    has_whole_envelope,
    key_schema,
    schema_change_schemas,
    transaction_value_schema,
)
from binlog_connector.envelope.message_batch import OPS, MessageKind
from binlog_format.errors import OptionError
from binlog_format.kernels import as_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from binlog_connector.envelope.avro.parts import AvroPart
    from binlog_connector.envelope.connect_schema import Schema
    from binlog_connector.envelope.encoding import Collections, SchemaChangeMessage, ValueRows
    from binlog_connector.envelope.message_context import BlockContext, TableEnvelope
    from binlog_connector.envelope.options import EnvelopeOptions
    from binlog_connector.schema.definitions import TableName
    from binlog_format.kernels import Int64s
    from binlog_format.rows.images import Images

    TopicOf = Callable[[MessageKind, str | None, str | None], str]


AVRO_MAGIC = b"\x00"
"""First byte of what Confluent's AvroConverter writes; the id of the schema follows, of four bytes."""
DATA = "data-value"
"""Subject of the data of CloudEvents, after the topic: Debezium has it as in another topic, `<topic>-data`."""
_LAYOUTS_MAX = 10_000
"""Table layouts whose schemas' ids are kept."""


class SchemaIds(Protocol):
    """A registry of schemas."""

    @property
    def url(self) -> str:
        """Its address."""

    def id_of(self, subject: str, schema: str) -> int:
        """The id of *schema*, which is registered under *subject* if it is not yet."""

    def latest(self, subject: str) -> tuple[int, str] | None:
        """Id and text of the newest schema of *subject*; None: it has none."""


class _Heads(NamedTuple):
    # What keys and values of a table begin with.
    key: bytes
    value: bytes
    data: bytes = b""  # of CloudEvents


class AvroEncoding:
    """See `MessageEncoding`; one for all blocks of a log.

    Args:
        topic_of: The topic of messages, by their kind, database and table.
    """

    def __init__(self, options: EnvelopeOptions, ids: SchemaIds, topic_of: TopicOf, heartbeat_topic: str) -> None:
        if not options.format.may_be_avro:
            reason = f"envelope {options.format} is not written in Avro"
            raise OptionError("INVALID_VALUE", reason, hint='Set envelope = "debezium"')
        self._options, self._ids = options, ids
        self._topic_of, self._heartbeat_topic = topic_of, heartbeat_topic
        self._heads: dict[tuple[object, ...], _Heads] = {}

    def block(self, context: BlockContext, tables: Sequence[tuple[TableEnvelope, Int64s]]) -> _AvroBlock:
        """See `MessageEncoding`."""
        for envelope, _ in tables:
            self.heads_of(envelope)  # before a TRUNCATE in the same block asks for them
        rows = np.concatenate([events for _, events in tables])
        return _AvroBlock(self, context, rows, are_copied=tables[0][0].is_copied)

    def transaction_keys(self, ids: pa.Array) -> Encoded:
        """See `MessageEncoding`."""
        head = self._head(self._topic_of(MessageKind.TRANSACTION, None, None), "key", TRANSACTION_KEY)
        return Encoded.of([SameParts(head), AvroTexts.of(ids, pa.string())], len(ids))

    def transaction_values(
        self, status: str, ids: pa.Array, counts: pa.Array, collections: Collections | None, milliseconds: pa.Array
    ) -> Encoded:
        """See `MessageEncoding`."""
        is_first = self._options.is_first_version
        schema = transaction_value_schema(is_first_version=is_first)
        head = self._head(self._topic_of(MessageKind.TRANSACTION, None, None), "value", schema)
        parts: list[AvroPart] = [SameParts(head + encoded_text(status)), AvroTexts.of(ids, pa.string())]
        if collections is None:
            parts.append(SameParts(NULL_BRANCH + NULL_BRANCH))
        else:
            listed = _listed(collections, b"" if is_first else VALUE_BRANCH)
            parts += [SameParts(VALUE_BRANCH), Longs(counts.to_numpy()), SameParts(VALUE_BRANCH), *listed]
        return Encoded.of([*parts, Longs(milliseconds.to_numpy())], len(ids))

    def schema_change(self, context: BlockContext, change: SchemaChangeMessage) -> tuple[Encoded, Encoded]:
        """See `MessageEncoding`."""
        topic = self._topic_of(MessageKind.SCHEMA_CHANGE, change.database or None, change.table)
        of_key, of_value = schema_change_schemas(context.block.vendor)
        keys = self._head(topic, "key", of_key) + encoded_text(change.database)
        changed = [
            encoded_text(kind) + encoded_text(f'"{name.database}"."{name.table}"') for kind, name in change.tables
        ]
        array = encoded_long(len(changed)) + b"".join(changed) if changed else b""
        rest = (
            encoded_long(context.now_ns // 1_000_000)
            + (VALUE_BRANCH + encoded_text(change.database) + NULL_BRANCH)
            + (NULL_BRANCH if change.statement is None else VALUE_BRANCH + encoded_text(change.statement))
            + (array + encoded_long(0))
        )
        source = _statement_source(context, change.event, change.database, change.table)
        values = [SameParts(self._head(topic, "value", of_value)), *source, SameParts(rest)]
        return Encoded.of([SameParts(keys)], 1), Encoded.of(values, 1)

    def truncate(self, context: BlockContext, event: int, name: TableName) -> PartValues | None:
        """See `MessageEncoding`; None if no change of the table is published, so there is nothing to remove."""
        assert not self._options.format.is_event, "settings are checked"
        head = self._truncate_head(context, name)
        if head is None:
            return None
        source = _statement_source(context, event, name.database, name.table)
        rest = NULL_BRANCH + _op("t", context.now_ns)
        return PartValues([SameParts(head + NULL_BRANCH + NULL_BRANCH), *source, SameParts(rest)], 1)

    def heartbeat(self, now_ns: int) -> tuple[bytes, bytes]:
        """See `MessageEncoding`."""
        key = self._head(self._heartbeat_topic, "key", HEARTBEAT_KEY) + encoded_text(self._options.topic_prefix)
        value = self._head(self._heartbeat_topic, "value", HEARTBEAT_VALUE) + encoded_long(now_ns // 1_000_000)
        return key, value

    def heads_of(self, envelope: TableEnvelope) -> _Heads:
        """Starts of the keys and values of a table; its schemas are registered."""
        layout = envelope.layout
        identity = layout.database, layout.table, layout.vendor, layout.digest, layout.completion
        found = self._heads.get(identity)
        if found is None:
            if len(self._heads) >= _LAYOUTS_MAX:
                self._heads.clear()
            topic = self._topic_of(MessageKind.CHANGE, layout.database, layout.table)
            schemas = table_schemas(envelope, self._options)
            heads = {part: self._head(topic, part, schema) for part, schema in schemas.items()}
            found = self._heads[identity] = _Heads(heads.get("key", b""), heads["value"], heads.get(DATA, b""))
        return found

    def schema_url(self, head: bytes) -> str:
        """Address of the schema that values with *head* have."""
        return f"{self._ids.url.rstrip('/')}/schemas/ids/{int.from_bytes(head[len(AVRO_MAGIC) :], 'big')}"

    def _head(self, topic: str, part: str, schema: Schema) -> bytes:
        return _head_of(self._ids.id_of(f"{topic}-{part}", avro_schema(schema)))

    def _truncate_head(self, context: BlockContext, name: TableName) -> bytes | None:
        # The statement tells nothing about columns. But a value without rows is the same bytes whatever they are: any
        # schema of this table reads it.
        subject = f"{self._topic_of(MessageKind.CHANGE, name.database, name.table)}-value"
        latest = self._ids.latest(subject)
        if latest is None:
            return None
        number, known = latest
        ours = avro_schema(envelope_schema([], self._options.schema_name(str(name)), context.block.vendor))
        if _without_columns(json.loads(known)) == json.loads(ours):
            return _head_of(number)
        return _head_of(self._ids.id_of(subject, ours))


class _AvroBlock:
    # See `BlockEncoder`.
    def __init__(self, encoding: AvroEncoding, context: BlockContext, rows: Int64s, *, are_copied: bool) -> None:
        self._encoding, self.schema_url = encoding, encoding.schema_url
        self.events = AttributeParts(context, rows, are_copied=are_copied)
        self.ops = _runs([_op("r" if are_copied else op, context.now_ns) for op in OPS])

    def changes(self, envelope: TableEnvelope, images: Images) -> _AvroChanges:
        return _AvroChanges(self, self._encoding.heads_of(envelope), envelope, images)


class _AvroChanges:
    # See `ChangeEncoder`.
    def __init__(self, block: _AvroBlock, heads: _Heads, envelope: TableEnvelope, images: Images) -> None:
        self._block, self._layout, self._heads = block, envelope.layout, heads
        columns, values = envelope.columns, envelope.values(images)
        parts = [column_part(column, column.schema, of_rows) for column, of_rows in zip(columns, values, strict=True)]
        self._images = Encoded.of(parts, len(images))
        key = [
            parts[index]
            if columns[index].key_schema == columns[index].schema
            else column_part(columns[index], columns[index].key_schema, values[index])
            for index in envelope.key
        ]
        self.keys = Encoded.of([SameParts(heads.key), *key], len(images)) if key else None

    def values(self, rows: ValueRows) -> PartValues:
        layout, events = self._layout, self._block.events
        is_event, count = bool(self._heads.data), len(rows.events)
        parts: list[AvroPart] = [
            SameParts(self._heads.data or self._heads.value),
            Chosen(self._images, rows.before, in_union=True),
            Chosen(self._images, rows.after, in_union=True),
        ]
        if not is_event or has_whole_envelope(layout.vendor):
            parts += events.source(layout.database, layout.table, rows.events, rows.row_nos)
            parts += [*events.transaction(rows.events, rows.orders), Chosen(self._block.ops, rows.ops)]
        if not is_event:
            return PartValues(parts, count)
        data = Encoded.of(parts, count)
        attributes = events.attributes(layout, self._block.schema_url(self._heads.data), rows)
        whole = AvroTexts(data.data, data.offsets[:-1], np.diff(data.offsets), plain_states(count))
        return PartValues([SameParts(self._heads.value), *attributes, whole], count)


def table_schemas(envelope: TableEnvelope, options: EnvelopeOptions) -> dict[str, Schema]:
    """The Connect schemas of a table's messages, by what comes after the topic in the names of their subjects."""
    layout = envelope.layout
    name = options.schema_name(layout.full_name)
    fields = [with_avro_default(column.schema) for column in envelope.columns]
    of_key = [with_avro_default(envelope.columns[index].key_schema) for index in envelope.key]
    keys = {"key": key_schema(of_key, name)} if of_key else {}
    value = envelope_schema(fields, name, layout.vendor)
    if not options.format.is_event:
        return {**keys, "value": value}
    return {**keys, DATA: data_schema(value, layout.vendor), "value": event_schema(layout.database, options)}


def _head_of(schema_id: int) -> bytes:
    return AVRO_MAGIC + schema_id.to_bytes(4, "big")


def _without_columns(envelope: Any) -> Any:
    for field in envelope["fields"] if isinstance(envelope, dict) else ():
        if field["name"] == "before" and isinstance(field["type"], list) and isinstance(field["type"][-1], dict):
            field["type"][-1]["fields"] = []
    return envelope


def _statement_source(context: BlockContext, event: int, database: str, table: str | None) -> list[AvroPart]:
    events, row_nos = np.array([event], dtype=np.int64), np.zeros(1, dtype=np.int32)
    return EventParts(context, events).source(database, table, events, row_nos)


def _op(op: str, now_ns: int) -> bytes:
    moments = (now_ns // 1_000_000, now_ns // 1000, now_ns)
    return encoded_text(op) + b"".join(VALUE_BRANCH + encoded_long(moment) for moment in moments)


def _runs(contents: Sequence[bytes]) -> Encoded:
    offsets = np.cumsum([0, *map(len, contents)], dtype=np.int64)
    return Encoded(as_bytes(b"".join(contents)), offsets)


def _listed(collections: Collections, branch: bytes) -> list[AvroPart]:
    names = _runs([branch + encoded_text(name) for name in collections.names])
    entries = Encoded.of([Chosen(names, collections.tables), Longs(collections.counts)], len(collections.counts))
    bounds = collections.bounds
    return array_parts(np.diff(bounds), Encoded(entries.data, entries.offsets[bounds]))
