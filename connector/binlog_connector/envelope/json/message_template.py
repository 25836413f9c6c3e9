"""Parts of messages beside their rows: `MessageTemplate`, filled in for the events of a block by `EventTexts`."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from binlog_connector.envelope.connect_schema import SOURCE_FIELDS, attribute_name, compact, connector_name
from binlog_connector.envelope.json import template_kernels as kernels
from binlog_connector.envelope.options import EnvelopeFormat
from binlog_format.kernels import empty_bytes
from binlog_format.views.columns import gtid_bytes
from binlog_format.views.row_images import JsonTexts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from binlog_connector.envelope.connect_schema import SourceField
    from binlog_connector.envelope.message_context import BlockContext
    from binlog_connector.envelope.options import EnvelopeOptions
    from binlog_format.block import Block
    from binlog_format.kernels import Bytes, Int64s
    from binlog_format.vendor import Vendor

_OPS, _COPIED_OPS = ("c", "u", "d"), ("r", "r", "r")
NO_SNAPSHOT, OF_SNAPSHOT = "false", "incremental"
"""`source.snapshot` of a change, and of a row that a snapshot has copied."""

METADATA_NAMES = frozenset(
    ["__db", "__table", "__source_ts_ms", "__source_sequence", "__source_gtid", "__op", "__deleted"]
)
"""Fields of flat rows beside the table's columns."""


@dataclass(frozen=True, slots=True)
class MessageTemplate:
    """Literals with a field after each; the same fields for all tables.

    Attributes:
        fields: Of `template_kernels`; the last one may be `NOTHING`.
    """

    literals: tuple[str, ...]
    fields: tuple[int, ...]

    @classmethod
    def of(
        cls, database: str, table: str | None, vendor: Vendor, options: EnvelopeOptions, *, is_copied: bool = False
    ) -> MessageTemplate:
        """Make the part after the row in the values of a table's changes, or of its copied rows."""
        if options.format is EnvelopeFormat.FLAT:
            return _flat(compact(database), compact(table))
        source = source_template(database, table, vendor, options, OF_SNAPSHOT if is_copied else NO_SNAPSHOT)
        if not options.transaction_metadata or is_copied:
            return source.extended((',"transaction":null,"op":', kernels.OP))
        return source.extended(
            (',"transaction":{"id":', kernels.TRANSACTION_ID),
            (',"total_order":', kernels.TOTAL_ORDER),
            (',"data_collection_order":', kernels.TABLE_ORDER),
            ('},"op":', kernels.OP),
        )

    @classmethod
    def of_attributes(
        cls, database: str, table: str, vendor: Vendor, options: EnvelopeOptions, *, is_copied: bool = False
    ) -> MessageTemplate:
        """Make the attributes that Debezium's converter gives CloudEvents: an object that is still open."""
        connector, name = connector_name(vendor), options.topic_prefix
        event_type = f"io.debezium.connector.{connector}.DataChangeEvent"
        place = compact(f"/debezium/{connector}/{name}")
        has_transaction = options.transaction_metadata and not is_copied
        same = _same_in_table(database, table, vendor, options, OF_SNAPSHOT if is_copied else NO_SNAPSHOT)
        # Debezium's own id is the same for all rows of an event, and CloudEvents wants one for each.
        start = _template(
            (f'{{"id":{compact(f"name:{name};sequence:")[:-1]}', kernels.SEQUENCE_START),
            ("", kernels.SEQUENCE_ROW),
            (";op:", kernels.OP),
            (f'","source":{place},"specversion":"1.0","type":"{event_type}","time":', kernels.ISO_TIME),
            (',"datacontenttype":"application/json","iodebeziumop":"', kernels.OP),
            ('",', kernels.NOTHING),
        )
        of_source = (part for field in SOURCE_FIELDS for part in _attribute(field, same))
        return start.extended(*of_source, *(_TRANSACTION_ATTRIBUTES if has_transaction else _NO_TRANSACTION_ATTRIBUTES))

    @property
    def message_fields(self) -> Int64s:
        """Fields that are filled in for each message."""
        return np.array([field for field in self.fields if field >= kernels.SEQUENCE_ROW], dtype=np.int64)

    def extended(self, *parts: tuple[str, int]) -> MessageTemplate:
        """This template with *parts* after it; its last field is `NOTHING`, and fields of *parts* may be."""
        literals, fields = list(self.literals), list(self.fields)
        for text, field in parts:
            if fields[-1] == kernels.NOTHING:
                literals[-1] += text
                fields[-1] = field
            else:
                literals.append(text)
                fields.append(field)
        return MessageTemplate(tuple(literals), tuple(fields))


def _template(*parts: tuple[str, int]) -> MessageTemplate:
    return MessageTemplate(tuple(literal for literal, _ in parts), tuple(field for _, field in parts))


_TRANSACTION_ATTRIBUTES = (
    ('"iodebeziumtxid":', kernels.TRANSACTION_ID),
    (',"iodebeziumtxtotalorder":"', kernels.TOTAL_ORDER),
    ('","iodebeziumtxdatacollectionorder":"', kernels.TABLE_ORDER),
    ('"', kernels.NOTHING),
)
_NO_TRANSACTION_ATTRIBUTES = (
    (
        '"iodebeziumtxid":null,"iodebeziumtxtotalorder":null,"iodebeziumtxdatacollectionorder":null',
        kernels.NOTHING,
    ),
)
_AS_TEXTS = {kernels.POSITION: kernels.POSITION_TEXT, kernels.THREAD: kernels.THREAD_TEXT}
"""Fields that are numbers or null, and those that are the same as texts."""

_Parts = list[tuple[str, int]]


def _field(name: str, field: SourceField, same: Mapping[str, str | None], quote: str = "") -> _Parts:
    # With a comma after it.
    if field.field == kernels.NOTHING:
        return [(f'"{name}":{compact(same[field.name])},', kernels.NOTHING)]
    if field.field == kernels.SEQUENCE_START:
        return [(f'"{name}":"', field.field), ("", kernels.SEQUENCE_ROW), ('",', kernels.NOTHING)]
    return [(f'"{name}":{quote}', field.field), (f"{quote},", kernels.NOTHING)]


def _attribute(field: SourceField, same: Mapping[str, str | None]) -> _Parts:
    # CloudEvents have no numbers of 64 bits: they are texts.
    name = attribute_name(field.name)
    if field.field in _AS_TEXTS:
        return _field(name, field._replace(field=_AS_TEXTS[field.field]), same)
    return _field(name, field, same, '"' if field.type == "int64" else "")


def _same_in_table(
    database: str, table: str | None, vendor: Vendor, options: EnvelopeOptions, snapshot: str
) -> dict[str, str | None]:
    return {
        "version": str(options.version),
        "connector": connector_name(vendor),
        "name": options.topic_prefix,
        "snapshot": snapshot,
        "db": database,
        "table": table,
    }


def source_template(
    database: str, table: str | None, vendor: Vendor, options: EnvelopeOptions, snapshot: str = NO_SNAPSHOT
) -> MessageTemplate:
    """Debezium's `source`; the last field is `NOTHING`."""
    same = _same_in_table(database, table, vendor, options, snapshot)
    parts = [part for field in SOURCE_FIELDS for part in _field(field.name, field, same)]
    made = _template(('"source":{', kernels.NOTHING)).extended(*parts)
    return MessageTemplate((*made.literals[:-1], made.literals[-1].removesuffix(",") + "}"), made.fields)


def _flat(database: str, table: str) -> MessageTemplate:
    return _template(
        (f'"__db":{database},"__table":{table},"__source_ts_ms":', kernels.MILLISECONDS),
        (',"__source_sequence":"', kernels.SEQUENCE_START),
        ("", kernels.SEQUENCE_ROW),
        ('","__source_gtid":', kernels.GTID),
        (',"__op":', kernels.OP),
    )


def op_letters(*, are_copied: bool) -> JsonTexts:
    """Texts for `OP` in attributes of CloudEvents, as `op_texts`."""
    return JsonTexts.of(_COPIED_OPS if are_copied else _OPS)


def op_texts(options: EnvelopeOptions, now_ns: int, *, are_copied: bool) -> JsonTexts:
    """Texts for `OP`, by `CREATE`, `UPDATE` and `DELETE`, up to the end of the value; rows may be copied ones."""
    ops = _COPIED_OPS if are_copied else _OPS
    if options.format is EnvelopeFormat.FLAT:
        return JsonTexts.of([f'"{op}","__deleted":"{"true" if op == "d" else "false"}"' for op in ops])
    made = f'"ts_ms":{now_ns // 1_000_000},"ts_us":{now_ns // 1000},"ts_ns":{now_ns}'
    return JsonTexts.of([f'"{op}",{made}' for op in ops])


class EventTexts(NamedTuple):
    """Templates with the fields of events filled in.

    Attributes:
        data: The segments.
        segments: Where each begins, and the last one ends; of each event one more than there are *message_fields*.
        slots: Of each event of the block its number here.
        message_fields: `MessageTemplate.message_fields`.
    """

    data: Bytes
    segments: Int64s
    slots: Int64s
    message_fields: Int64s

    @classmethod
    def of(cls, context: BlockContext, parts: Sequence[tuple[MessageTemplate, Int64s]]) -> EventTexts:
        """Fill in the values of events.

        Args:
            parts: Templates, at least one, and the rows of the events that they are for.
        """
        block = context.block
        rows = np.concatenate([events for _, events in parts])
        templates = np.repeat(np.arange(len(parts), dtype=np.int64), [len(events) for _, events in parts])
        known = _known_parts(tuple(template for template, _ in parts))
        gtid_offsets, gtids = gtid_bytes(block.groups, block.gtid_sources)
        group_files, files = _file_names(block)
        event_queries, queries, query_offsets = context.query_texts()
        sources = kernels.EventSources(
            known.literals.data,
            known.literals.offsets,
            known.fields,
            gtids,
            gtid_offsets,
            files.data,
            files.offsets,
            group_files,
            context.threads,
            queries,
            query_offsets,
            event_queries,
            context.options.files_before,
        )
        data = empty_bytes(kernels.room_for_events(sources, rows, known.literal_sizes.take(templates)))
        segments = np.empty(len(rows) * (len(known.message_fields) + 1) + 1, dtype=np.int64)
        kernels.fill_events(block.events, block.groups, sources, rows, templates, data, segments)
        slots = np.full(len(block.events), -1, dtype=np.int64)
        slots[rows] = np.arange(len(rows))
        return cls(data, segments, slots, known.message_fields)


class _KnownParts(NamedTuple):
    # Of some templates, whatever the events.
    literals: JsonTexts
    literal_sizes: Int64s  # of all literals of each template
    fields: Int64s
    message_fields: Int64s


@functools.lru_cache(maxsize=256)
def _known_parts(templates: tuple[MessageTemplate, ...]) -> _KnownParts:
    literals = JsonTexts.of([literal for template in templates for literal in template.literals])
    sizes = literals.sizes.reshape(len(templates), -1).sum(axis=1)
    return _KnownParts(literals, sizes, np.array(templates[0].fields, dtype=np.int64), templates[0].message_fields)


def _file_names(block: Block) -> tuple[Int64s, JsonTexts]:
    # Of each group the number of its file's name, and the names.
    file_nos = block.groups["file_no"]
    if (file_nos == file_nos[:1]).all():
        known, group_files = file_nos[:1], np.zeros(len(file_nos), dtype=np.int64)
    else:
        known, group_files = np.unique(file_nos, return_inverse=True)
    names = [block.path_of(int(number)).rsplit("/", 1)[-1] for number in known]
    return group_files, JsonTexts.of([compact(name) for name in names])
