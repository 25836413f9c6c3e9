"""A table map made from a schema alone: `declared_layout`; of one column, `column_of`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.errors import SchemaError
from binlog_format.events.table_map import Column, TableLayout
from binlog_format.events.table_map_layout import ColumnType
from binlog_format.rows.declared.declared_types import character_size, fits, split_declared

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_format.rows.declared.completion import ColumnCompletion, LayoutCompletion
    from binlog_format.vendor import Vendor


def declared_layout(database: str, table: str, said: LayoutCompletion, vendor: Vendor) -> TableLayout:
    """The layout with which rows of a table will come that was declared so.

    It has no table map; its digest is empty. Types are those that servers write today.

    Args:
        database: Name of the database.
        table: Name of the table.
        said: All its columns.
        vendor: Whose server writes the log.

    Raises:
        SchemaError: `NO_COLUMN_METADATA`: a column has a type that is not known here, or no character set is given.
    """
    try:
        columns = tuple(column_of(column, vendor) for column in said.columns)
    except SchemaError as error:
        raise SchemaError(
            "NO_COLUMN_METADATA",
            f"{database}.{table}: {error.reason}, and the log has no rows of the table",
            hint="Start the query when the table has rows, or without the option table",
        ) from error
    key = said.keys[0] if said.keys else ()
    return TableLayout(database, table, columns, key, "", b"", vendor, said.to_json())


def column_of(said: ColumnCompletion, vendor: Vendor, *, nullable: bool = True) -> Column:
    """A column as a table map has it.

    Args:
        said: All that a schema contains of it.
        vendor: Whose server writes the log. Types are those that servers write today; a COMPRESSED column is one of the
            same type that is not.
        nullable: Whether it can be NULL.

    Raises:
        SchemaError: `NO_COLUMN_METADATA`: it has a type that is not known here, or its character set is not given.
    """
    declared = said.declared or ""
    labels = None if said.enum_values is None else len(said.enum_values)
    fitting = []
    for type_, metadata in _candidates(declared, said.charset, labels):
        column = Column(
            name=said.name,
            type=type_,
            metadata=metadata,
            nullable=nullable,
            unsigned=said.unsigned,
            charset=_charset(type_, declared, said.charset),
            enum_values=said.enum_values,
            declared=declared,
        )
        if fits(column, declared, said.charset, labels, vendor):
            fitting.append(column)
    # A type that is not known (a plugin's) fits everything, a known one no two numbers.
    if fitting and not {ColumnType.TINY, ColumnType.SHORT} <= {column.type for column in fitting}:
        return fitting[0]
    raise SchemaError("NO_COLUMN_METADATA", f"column {said.name}: the type {declared or 'nothing'} is not known here")


def _charset(type_: ColumnType, declared: str, charset: str | None) -> str | None:
    if type_ not in (ColumnType.BLOB, ColumnType.VARCHAR, ColumnType.STRING, ColumnType.ENUM, ColumnType.SET):
        return None
    name, _ = split_declared(declared)
    if name == "json":
        return "utf8mb4"
    return charset if name.endswith(("char", "text")) or name in ("enum", "set") else "binary"


def _candidates(declared: str, charset: str | None, labels: int | None) -> Iterator[tuple[ColumnType, int]]:
    # The newest way to write a type first; `fits` tells which one is right on whose server.
    _, numbers = split_declared(declared)
    first = numbers[0] if numbers else 0
    characters = first or 1
    size = characters * character_size(charset or "binary")
    label_size = 1 if labels is None or labels < 1 << 8 else 2
    set_size = ((labels or 1) + 7) // 8
    yield ColumnType.TINY, 0
    yield ColumnType.SHORT, 0
    yield ColumnType.INT24, 0
    yield ColumnType.LONG, 0
    yield ColumnType.LONGLONG, 0
    yield ColumnType.FLOAT, 4
    yield ColumnType.DOUBLE, 8
    yield ColumnType.YEAR, 0
    yield ColumnType.DATE, 0
    yield ColumnType.ENUM, ColumnType.ENUM | label_size << 8
    yield ColumnType.SET, ColumnType.SET | (8 if set_size > 4 else set_size) << 8
    yield ColumnType.TIME2, first
    yield ColumnType.DATETIME2, first
    yield ColumnType.TIMESTAMP2, first
    precision, scale = (*numbers, 0)[:2] if numbers else (10, 0)
    yield ColumnType.NEWDECIMAL, (precision | scale << 8) & 0xFFFF
    yield ColumnType.BIT, characters % 8 | (characters // 8) << 8
    for prefix in (1, 2, 3, 4):
        yield ColumnType.BLOB, prefix
    yield ColumnType.GEOMETRY, 4
    yield ColumnType.JSON, 4
    yield ColumnType.VECTOR, 4
    for string_size in (size, 16, 4):
        yield ColumnType.STRING, _string_metadata(string_size)
    for varchar_size in (size, 4 * characters):
        yield ColumnType.VARCHAR, varchar_size
    if numbers == (0,):
        yield ColumnType.STRING, _string_metadata(0)
        yield ColumnType.VARCHAR, 0


def _string_metadata(size: int) -> int:
    # Sizes over 255 borrow two bits of the type byte, inverted (MariaDB sql/field.cc: Field_string).
    high = (size & 0x300) >> 4
    return ((ColumnType.STRING ^ high) & 0xFF) | (size & 0xFF) << 8
