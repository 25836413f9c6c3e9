"""Data that all messages of a block share: `BlockContext`; `logged_statements` selects the statements for messages.

Parts that all messages of one table layout share, made once: `TableEnvelope`, of `TableEnvelopes`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from binlog_connector.envelope.connect_schema import data_schema, envelope_schema, flat_schema, key_schema, wrapping
from binlog_connector.envelope.connect_values import connect_column, declared_columns
from binlog_connector.envelope.json.message_template import METADATA_NAMES, MessageTemplate
from binlog_connector.envelope.message_kernels import UNKNOWN_THREAD
from binlog_connector.envelope.options import EnvelopeFormat
from binlog_connector.schema.log_ddl import table_statements
from binlog_connector.schema.parsing.row_statements import ddl_operations
from binlog_connector.schema.table_names import folded
from binlog_format.errors import OptionError, UnsupportedError
from binlog_format.kernels import empty_bytes
from binlog_format.rows.columns import arrow_schema
from binlog_format.rows.json.json_rows import json_column, text_buffers

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_connector.envelope.connect_values import ConnectColumn
    from binlog_connector.envelope.options import EnvelopeOptions
    from binlog_connector.schema.log_ddl import DdlStatement
    from binlog_connector.schema.operations import Operation
    from binlog_format.block import Block
    from binlog_format.events.table_map import TableLayout
    from binlog_format.kernels import Bytes, Int32s, Int64s
    from binlog_format.rows.decoding import Decoding
    from binlog_format.rows.images import Images
    from binlog_format.rows.json.json_rows import JsonColumn
    from binlog_format.views.filters import GroupFilter

    EventQueries = tuple[Int32s, pa.Array]

_LAYOUTS_MAX = 2_000
"""Table layouts whose envelopes are kept: with schemas of wide tables, tens of kilobytes each."""


@dataclass(frozen=True, slots=True)
class BlockContext:
    """Data that all messages of a block share.

    Attributes:
        threads: `GroupThreads.of_groups`.
        queries: `StatementTexts.of_rows`: of each event its statement (or -1), and the statements; None: not wanted.
        now_ns: When the messages are made, nanoseconds since 1970 UTC.
    """

    block: Block
    options: EnvelopeOptions
    threads: Int64s
    queries: EventQueries | None
    now_ns: int

    def of_copied_rows(self) -> BlockContext:
        """The same for rows that a snapshot has copied: its session and its statement are not those of changes."""
        return replace(self, threads=np.full_like(self.threads, UNKNOWN_THREAD), queries=None)

    def query_texts(self) -> tuple[Int32s, Bytes, Int32s]:
        """Statement of each event (or -1); the texts of the statements, and where each begins and the last one ends."""
        if self.queries is None:
            none = np.full(len(self.block.events), -1, dtype=np.int32)
            return none, empty_bytes(0), np.zeros(1, dtype=np.int32)
        return self.queries[0], *text_buffers(self.queries[1], pa.string())


class LoggedStatement(NamedTuple):
    """A statement about tables.

    Attributes:
        event: Row of its event.
        statement: Its text, and what it is to be read with.
        operations: What it does to tables, in order.
    """

    event: int
    statement: DdlStatement
    operations: list[Operation]


def logged_statements(block: Block, groups: GroupFilter, *, folds_names: bool) -> list[LoggedStatement]:
    """DDL and TRUNCATE in the wanted event groups of a block, in order.

    Args:
        block: Of plain events.
        folds_names: Operations have names in small letters, as those of rows.
    """
    keep = groups.keep(block)
    as_rows: Callable[[Operation], Operation] = folded if folds_names else lambda operation: operation
    return [
        LoggedStatement(event, statement, [as_rows(operation) for operation in ddl_operations(statement)])
        for event, _, statement in table_statements(block)
        if keep is None or keep[int(block.events["group"][event])]
    ]


@dataclass(frozen=True, slots=True)
class TableEnvelope:
    """Conversion of a layout's rows to keys and values.

    Attributes:
        key: Indices of the key's columns; empty: messages have no key.
        key_wrapping: Before and after each key.
        value_wrapping: Before and after each value.
        template: What comes after the rows.
        attributes: What comes before them in CloudEvents, or is in headers; None: it is none.
        is_copied: Its rows are no changes: a snapshot has copied them.
    """

    layout: TableLayout
    columns: tuple[ConnectColumn, ...]
    key: tuple[int, ...]
    key_wrapping: tuple[Bytes, Bytes]
    value_wrapping: tuple[Bytes, Bytes]
    template: MessageTemplate
    attributes: MessageTemplate | None = None
    is_copied: bool = False

    @classmethod
    def of(
        cls, layout: TableLayout, options: EnvelopeOptions, decoding: Decoding, *, is_copied: bool = False
    ) -> TableEnvelope:
        """Make the envelope of *layout* with *options*."""
        kinds = arrow_schema(layout, decoding).types
        facts = declared_columns(layout, decoding) if (options.schemas and not options.is_first_version) else ()
        columns = tuple(
            connect_column(layout, index, kind, options, decoding.zero_dates, *facts[index : index + 1])
            for index, kind in enumerate(kinds)
        )
        key = _key(layout, options)
        taken = METADATA_NAMES.intersection(column.name for column in columns)
        if options.format is EnvelopeFormat.FLAT and taken:
            raise UnsupportedError(
                "COLUMN_TYPE",
                f"{layout.full_name}: columns {', '.join(sorted(taken))} have names that flat rows use for metadata",
                hint="Leave the table out, or take the debezium envelope",
            )
        named = layout.database, layout.table, layout.vendor, options
        template = MessageTemplate.of(*named, is_copied=is_copied)
        is_event = options.format.is_event
        attributes = MessageTemplate.of_attributes(*named, is_copied=is_copied) if is_event else None
        if not options.schemas:
            return cls(layout, columns, key, wrapping(None), wrapping(None), template, attributes, is_copied)
        name = options.schema_name(layout.full_name)
        fields = [column.schema for column in columns]
        of_key = key_schema([columns[index].key_schema for index in key], name)
        is_flat = options.format is EnvelopeFormat.FLAT
        value_schema = flat_schema(fields, name) if is_flat else envelope_schema(fields, name, layout.vendor)
        if is_event:
            value_schema = data_schema(value_schema, layout.vendor)
        return cls(layout, columns, key, wrapping(of_key), wrapping(value_schema), template, attributes, is_copied)

    def values(self, images: Images) -> list[pa.Array]:
        """Values in messages of all columns of *images*."""
        if images.has_absent():
            raise self._incomplete(images)
        return [self._column_values(images, index) for index in range(len(self.columns))]

    def row_columns(self, images: Images) -> list[JsonColumn]:
        """All columns of *images*, ready to be written as JSON."""
        named = zip(self.columns, self.values(images), strict=True)
        return [json_column(column.name, values, style=column.style) for column, values in named]

    def column(self, images: Images, index: int) -> JsonColumn:
        """One of them."""
        column = self.columns[index]
        return json_column(column.name, self._column_values(images, index), style=column.style)

    def _column_values(self, images: Images, index: int) -> pa.Array:
        values = self.columns[index].values(images.column(index))
        if index in self.key and not self.layout.columns[index].nullable and values.null_count:
            self._refuse_zero_dates(images, index, values)
        return values

    def _refuse_zero_dates(self, images: Images, index: int, values: pa.Array) -> None:
        # Rows with different zero dates in their keys would be one row for consumers.
        zero = values.is_null().to_numpy(zero_copy_only=False) & ~images.absent_mask(index)
        if zero.any():
            raise UnsupportedError(
                "MESSAGE_VALUE",
                f"{self.columns[index].full_name}: {int(zero.sum())} row images have zero dates, or such that no "
                "calendar has, in this column of the key; they become null, and a key would not tell its rows apart",
                hint='Begin a new job with zeroDates = "text" (dates are texts then, as the server prints them), name '
                "other keys for the table in [[tables]], or leave it out (option excludeTables)",
            )

    def _incomplete(self, images: Images) -> UnsupportedError:
        names = [column.name for index, column in enumerate(self.columns) if images.absent_mask(index).any()]
        return UnsupportedError(
            "ROW_IMAGE",
            f"{self.layout.full_name}: row images without {', '.join(names)}; a message is about the whole row",
            hint="Set binlog_row_image=FULL on the server, and start after rows that were logged before. Generated "
            'columns, which MariaDB leaves out all the same, are null with generated = "null" in the rule of its '
            'table, and not shown with generated = "drop"',
        )


def _key(layout: TableLayout, options: EnvelopeOptions) -> tuple[int, ...]:
    wanted = options.key_columns.get(layout.full_name)
    if wanted is None:
        return layout.primary_key
    numbers = {column.name: index for index, column in enumerate(layout.columns)}
    unknown = [name for name in wanted if name not in numbers]
    if unknown:
        raise OptionError(
            "INVALID_VALUE",
            f"option message.key.columns: {layout.full_name} has no column {', '.join(unknown)}",
            hint=f"Its columns are {', '.join(name for name in numbers if name)}",
        )
    return tuple(numbers[name] for name in wanted)


class TableEnvelopes:
    """Envelopes of all layouts that a log has had, with the same options for all."""

    def __init__(self, options: EnvelopeOptions, decoding: Decoding) -> None:
        self._options = options
        self._decoding = replace(decoding, schemas=None)  # layouts have what these say
        self._made: dict[tuple[TableLayout, bool], TableEnvelope] = {}

    def of(self, layout: TableLayout, *, is_copied: bool) -> TableEnvelope:
        """That of *layout*."""
        key = layout, is_copied
        found = self._made.get(key)
        if found is None:
            if len(self._made) >= _LAYOUTS_MAX:
                self._made.clear()
            found = self._made[key] = TableEnvelope.of(layout, self._options, self._decoding, is_copied=is_copied)
        return found
