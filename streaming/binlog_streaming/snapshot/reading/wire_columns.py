"""Conversion of values that come over a connection, and row images made of them: `wire_table`."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.errors import ServerError
from binlog_format.events.table_map_layout import ColumnType
from binlog_format.rows.column_types import column_name, decimal_size, size_prefix, value_widths
from binlog_format.rows.columns import arrow_type
from binlog_streaming.snapshot.reading import wire_kernels as kinds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_format.events.table_map import Column, TableLayout
    from binlog_format.kernels import Int32s

_TEXT_PREFIX = 4
_TEXT_CHARSET = "utf8mb4"
_DECIMALS = frozenset({0, 246})
# Types of answers (include/mysql_com.h: enum_field_types), and bytes of their values.
_NUMBER_WIDTHS = {1: 1, 2: 2, 3: 4, 4: 4, 5: 8, 8: 8, 9: 4}
_YEAR, _BIT = 13, 16
_TEMPORAL = {
    10: (kinds.DATE, {ColumnType.DATE, ColumnType.NEWDATE}),
    14: (kinds.DATE, {ColumnType.DATE, ColumnType.NEWDATE}),
    12: (kinds.DATETIME, {ColumnType.DATETIME2}),
    7: (kinds.TIMESTAMP, {ColumnType.TIMESTAMP2}),
    11: (kinds.TIME, {ColumnType.TIME2}),
}
_NUMBERS = frozenset(
    {
        ColumnType.TINY,
        ColumnType.SHORT,
        ColumnType.INT24,
        ColumnType.LONG,
        ColumnType.LONGLONG,
        ColumnType.FLOAT,
        ColumnType.DOUBLE,
    }
)
# In a log they are texts of other kinds, numbers of labels, or documents in a form of their own.
_SHOWN_AS_TEXT = frozenset(
    {
        ColumnType.STRING,
        ColumnType.VARCHAR,
        ColumnType.VAR_STRING,
        ColumnType.TINY_BLOB,
        ColumnType.BLOB,
        ColumnType.MEDIUM_BLOB,
        ColumnType.LONG_BLOB,
        ColumnType.ENUM,
        ColumnType.SET,
        ColumnType.JSON,
    }
)
_PRINTED = ("uuid", "inet4", "inet6")
"""The server sends text of ASCII characters, whatever the log has."""


@dataclass(frozen=True, slots=True)
class WireTable:
    """Forms of a table's values on the connection, and the layout of images made of them.

    Attributes:
        layout: Of the images: values of each column become those of the log, of the same types.
        kinds: As `wire_kernels.write_images` takes them, and so are the others.
        wire: The same.
        image: The same.
        growth: Bytes by which a row's image is larger than its packet, at most.
    """

    layout: TableLayout
    kinds: Int32s
    wire: Int32s
    image: Int32s
    growth: int


def image_layout(logged: TableLayout) -> TableLayout:
    """The layout of images that are made of rows of a table.

    Args:
        logged: The table as a log has it, with names and all that tells types.
    """
    columns = tuple(map(_image_column, logged.columns))
    digest = hashlib.sha256(repr((logged.columns, logged.primary_key)).encode()).hexdigest()[:16]
    return replace(logged, columns=columns, digest=digest, table_map=b"", completion="", hidden=())


def _image_column(column: Column) -> Column:
    declared = (column.declared or "").partition("(")[0]
    if declared == "vector" or column.type not in _SHOWN_AS_TEXT:
        return column
    is_ours = declared in _PRINTED or column.type is ColumnType.JSON
    charset = _TEXT_CHARSET if is_ours else column.charset
    return replace(
        column, type=ColumnType.BLOB, metadata=_TEXT_PREFIX, charset=charset, declared=None, enum_values=None
    )


def wire_table(logged: TableLayout, types: Sequence[int]) -> WireTable:
    """Choose how rows of a table are read. *types*: of the columns, as the server announces its answer."""
    layout = image_layout(logged)
    widths = value_widths(layout)
    rules = []
    for index, (column, type_) in enumerate(zip(layout.columns, types, strict=True)):
        found = _rule(column, type_, abs(int(widths[index])))
        if found is None or arrow_type(layout, index) != arrow_type(logged, index):
            reason = f"{column_name(logged, index)}: the server sends type {type_} for {column.type.name}"
            raise ServerError("TABLE_REFUSED", reason, hint="Take this table with --method log")
        rules.append(found)
    columns = np.ascontiguousarray(np.array(rules, dtype=np.int32).reshape(-1, 4).T)
    return WireTable(layout, columns[0], columns[1], columns[2], int(columns[3].sum()))


def _rule(column: Column, type_: int, width: int) -> tuple[int, int, int, int] | None:
    # Kind, wire, image, and bytes that a value grows by at most.
    if column.type in _NUMBERS:
        return (kinds.NUMBER, _NUMBER_WIDTHS[type_], width, 0) if _NUMBER_WIDTHS.get(type_, 0) >= width else None
    if column.type is ColumnType.YEAR:
        # Of a YEAR(2), MariaDB sends two digits.
        return (kinds.YEAR, 0, 1, 0) if type_ == _YEAR and column.declared != "year(2)" else None
    if column.type is ColumnType.BIT:
        return (kinds.BITS, 0, width, width) if type_ == _BIT else None
    if column.type is ColumnType.NEWDECIMAL:
        precision, scale = column.metadata & 0xFF, column.metadata >> 8
        size = decimal_size(precision - scale) + decimal_size(scale)
        return (kinds.DECIMAL, precision, scale, size) if type_ in _DECIMALS else None
    if type_ in _TEMPORAL:
        kind, known = _TEMPORAL[type_]
        fraction = 0 if kind == kinds.DATE else ((column.metadata & 0xFF) + 1) // 2
        return (kind, 0, fraction, width) if column.type in known else None
    if column.type in (ColumnType.BLOB, ColumnType.GEOMETRY, ColumnType.VARCHAR, ColumnType.VECTOR):
        is_text = type_ in (ColumnType.VARCHAR, ColumnType.VECTOR, ColumnType.JSON) or type_ >= 247
        return (kinds.TEXT, 0, size_prefix(column), _TEXT_PREFIX) if is_text else None
    return None
