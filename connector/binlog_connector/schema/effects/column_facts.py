"""A column that a statement defines, and what rows hold in it that were there before: `column_facts(...)`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_connector.schema.definitions import ColumnDefinition, TableName
from binlog_format.events.table_map import Column, TableLayout
from binlog_format.rows.column_types import value_widths
from binlog_format.rows.columns import arrow_type
from binlog_format.rows.declared.completion import column_of
from binlog_format.rows.declared.declared_types import UnknownValueError
from binlog_format.rows.declared.default_values import ColumnDefault, default_value
from binlog_format.rows.decoding import DEFAULT_DECODING, Decoding

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from binlog_format.rows.declared.declared_types import Moment
    from binlog_format.vendor import Vendor

_GENERATED = ColumnDefault(None, "a generated column")
_KEPT = ColumnDefault(None, "what they held before, in its new type")


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """A column, and what rows hold in it that were there before the statement.

    Attributes:
        column: As a table map has it.
        existing: A scalar of the column's Arrow type; None: it is not known.
        unknown: Why it is not known, in a few words; None: it is.
        generated: `virtual` or `stored` where it is computed from others; empty for others.
        if_missing: IF NOT EXISTS: where there is a column of this name, it stays as it is.
    """

    column: Column
    existing: pa.Scalar | None
    unknown: str | None
    generated: str = ""
    if_missing: bool = False

    @property
    def name(self) -> str:
        """Name of the column."""
        return self.column.name or ""


@dataclass(frozen=True, slots=True)
class ColumnContext:
    """Context of columns: table, server, decoding and time."""

    name: TableName
    vendor: Vendor
    decoding: Decoding
    moment: Moment | None = None


def column_facts(
    columns: Sequence[ColumnDefinition], about: ColumnContext, *, kept: bool = False
) -> tuple[ColumnFacts, ...]:
    """Facts of columns as a statement defines them.

    Args:
        kept: They were there before it, perhaps with other types.

    Raises:
        BinlogError: A column's type is not understood, or no server admits it.
    """
    made = tuple(column_of(column.completion(), about.vendor, nullable=column.nullable) for column in columns)
    layout = TableLayout(about.name.database, about.name.table, made, (), "", b"", about.vendor)
    value_widths(layout)  # refuses numbers that no server admits
    facts = []
    for index, (definition, column) in enumerate(zip(columns, made, strict=True)):
        arrow_type(layout, index, about.decoding)
        held = _KEPT if kept else _held(layout, index, definition, about)
        facts.append(ColumnFacts(column, held.value, held.unknown, definition.generated or ""))
    return tuple(facts)


def _held(layout: TableLayout, index: int, definition: ColumnDefinition, about: ColumnContext) -> ColumnDefault:
    if definition.generated is not None:
        return _GENERATED
    try:
        return ColumnDefault(default_value(layout, index, definition.default, about.decoding, about.moment), None)
    except UnknownValueError as error:
        return ColumnDefault(None, error.reason)


def default_facts(definition: ColumnDefinition, vendor: Vendor, decoding: Decoding = DEFAULT_DECODING) -> ColumnFacts:
    """A column of a known definition; `existing` is what new rows hold in it by default."""
    return column_facts([definition], ColumnContext(TableName("", ""), vendor, decoding))[0]
