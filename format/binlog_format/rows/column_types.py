"""Common parts of all type families: `Family`, and `value_widths`, the bytes of a column's value in a row image."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from binlog_format.errors import BinlogError, CorruptError, SchemaError, UnsupportedError
from binlog_format.events.table_map_layout import ColumnType
from binlog_format.rows.declared.declared_types import split_declared
from binlog_format.rows.values.value_kernels import gather_numbers

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from numpy.typing import DTypeLike, NDArray

    from binlog_format.events.table_map import Column, TableLayout
    from binlog_format.kernels import Bytes, Int32s
    from binlog_format.rows.decoding import Decoding

INTEGER_WIDTHS = {
    ColumnType.TINY: 1,
    ColumnType.SHORT: 2,
    ColumnType.INT24: 3,
    ColumnType.LONG: 4,
    ColumnType.LONGLONG: 8,
}
"""Bytes of whole numbers."""
_FIXED_WIDTHS = {
    **INTEGER_WIDTHS,
    ColumnType.NULL: 0,
    ColumnType.YEAR: 1,
    ColumnType.DATE: 3,
    ColumnType.NEWDATE: 3,
    ColumnType.FLOAT: 4,
    ColumnType.DOUBLE: 8,
}
# Bytes without the fraction of a second; that takes a byte for each two digits.
_TEMPORAL_WIDTHS = {ColumnType.TIME2: 3, ColumnType.TIMESTAMP2: 4, ColumnType.DATETIME2: 5}
FRACTION_DIGITS_MAX = 6
# MariaDB sql/field.cc: the types of mysql56_temporal_format=OFF, by digits of the fraction.
_OLD_TEMPORAL_WIDTHS = {
    ColumnType.TIME: (3, 4, 4, 5, 5, 5, 6),
    ColumnType.DATETIME: (8, 6, 6, 7, 7, 7, 8),
    ColumnType.TIMESTAMP: (4, 5, 5, 6, 6, 7, 7),
}
_LABEL_WIDTHS = {ColumnType.ENUM: 2, ColumnType.SET: 8}  # at most; the metadata state how many

TEXT_SIZE_MAX = (1 << 31) - 1  # offsets of Arrow's string type are 32-bit numbers

_SIZED_BY_LONGEST = frozenset(
    {ColumnType.VARCHAR, ColumnType.VAR_STRING, ColumnType.STRING, ColumnType.VARCHAR_COMPRESSED}
)
_SIZED_BY_METADATA = frozenset(
    {
        ColumnType.BLOB,
        ColumnType.TINY_BLOB,
        ColumnType.MEDIUM_BLOB,
        ColumnType.LONG_BLOB,
        ColumnType.BLOB_COMPRESSED,
        ColumnType.JSON,
        ColumnType.GEOMETRY,
        ColumnType.VECTOR,
        ColumnType.TYPED_ARRAY,
    }
)

# MariaDB sql/sql_const.h, strings/decimal.c: nine digits are packed into four bytes, fewer into as many as they need.
DECIMAL_DIGITS_MAX = 65
DECIMAL_GROUP_DIGITS = 9
DECIMAL_GROUP_SIZE = 4
DECIMAL_REST_SIZES = (0, 1, 1, 2, 2, 3, 3, 4, 4)


NO_METADATA_HINT = "Set binlog_row_metadata=FULL on the server, or give a schema file (option schemaFile)"


class Family(NamedTuple):
    """Functions that convert the columns of some types to Arrow.

    Attributes:
        arrow_type: Of a column of a layout, as a `Decoding` wants it; raises a `BinlogError` where it is not read.
        decode: Makes the array of that type from the data and the places of the values; raises `BadValueError`.
    """

    arrow_type: Callable[[TableLayout, int, Decoding], pa.DataType]
    decode: Callable[[Column, Bytes, Int32s, Decoding], pa.Array]


DEFINITION_HINT = (
    "A statement that changed the table is not in this log (a session with sql_log_bin=0, a filter, a replica's own "
    "ALTER): start after it with a schema file made then; binlog_row_metadata=FULL on the server makes schemas needless"
)


class BadValueError(Exception):
    """A value that no server writes into such a column; `column_array` makes an error with the column's name of it."""

    def __init__(self, index: int, reason: str, *, hint: str | None = None) -> None:
        super().__init__(index, reason)
        self.index = index
        self.reason = reason
        self.hint = hint

    def named(self, name: str, *, is_defined: bool) -> BinlogError:
        """The error for a value of the column *name*.

        Args:
            is_defined: A definition beside the log's own tells what the column is: it may be one of another time.
        """
        what = f"{name}: value {self.index}: {self.reason}"
        if not is_defined:
            return CorruptError("BAD_EVENT", what, hint=self.hint)
        return SchemaError(
            "COLUMN_MISMATCH",
            f"{what}: the definition is not that of the table in the log, or the value is damaged",
            hint=DEFINITION_HINT,
        )


class UnsupportedValueError(BadValueError):
    """A value that a server stores, and that is not read as `Decoding` is; `column_array` makes an `UnsupportedError`.

    Args:
        subclass: Of that error.
    """

    def __init__(self, subclass: str, index: int, reason: str, *, hint: str | None = None) -> None:
        super().__init__(index, reason, hint=hint)
        self._subclass = subclass

    def named(self, name: str, *, is_defined: bool) -> BinlogError:  # noqa: ARG002 - a sound value of any definition
        """The error for a value of the column *name*."""
        return UnsupportedError(self._subclass, f"{name}: value {self.index}: {self.reason}", hint=self.hint)


def value_widths(layout: TableLayout) -> Int32s:
    """Bytes of a value, for each column, hidden ones too; where values carry their size, minus the bytes of that."""
    declared = [_width(layout, index) for index in range(len(layout.columns))]
    return np.array([*declared, *(_FIXED_WIDTHS[column.type] for column in layout.hidden)], dtype=np.int32)


def _width(layout: TableLayout, index: int) -> int:
    column = layout.columns[index]
    type_, low, high = column.type, column.metadata & 0xFF, column.metadata >> 8
    if type_ in _FIXED_WIDTHS:
        return _FIXED_WIDTHS[type_]
    if type_ in _SIZED_BY_LONGEST:
        return -size_prefix(column)
    if type_ in _SIZED_BY_METADATA:
        fits, width = 1 <= low <= 4, -low
    elif type_ in _TEMPORAL_WIDTHS:
        fits, width = low <= FRACTION_DIGITS_MAX, _TEMPORAL_WIDTHS[type_] + (low + 1) // 2
    elif type_ in _LABEL_WIDTHS:
        fits, width = 1 <= high <= _LABEL_WIDTHS[type_], high
    elif type_ is ColumnType.BIT:
        fits, width = low < 8 and 0 < low + 8 * high <= 64, high + (low > 0)
    elif type_ is ColumnType.NEWDECIMAL:
        fits, width = 0 < low <= DECIMAL_DIGITS_MAX and high <= low, decimal_size(low - high) + decimal_size(high)
    elif type_ in _OLD_TEMPORAL_WIDTHS:
        return old_width(type_, old_digits(layout, index))
    else:
        raise UnsupportedError("COLUMN_TYPE", f"{column_name(layout, index)}: the type {type_.name} is too old")
    if not fits:
        raise CorruptError(
            "BAD_EVENT",
            f"table map event: {column_name(layout, index)}: type {type_.name} with metadata {column.metadata:#x}",
        )
    return width


def old_width(type_: ColumnType, digits: int) -> int:
    """Bytes of a value of an old TIME, DATETIME or TIMESTAMP with that many digits of a fraction."""
    return _OLD_TEMPORAL_WIDTHS[type_][digits]


def old_digits(layout: TableLayout, index: int) -> int:
    """Digits of the fraction of a second of a TIME, DATETIME or TIMESTAMP column with `mysql56_temporal_format=OFF`."""
    column = layout.columns[index]
    name, numbers = split_declared(column.declared or "")
    digits = numbers[0] if numbers else 0
    if name != column.type.name.lower() or digits > FRACTION_DIGITS_MAX:
        raise SchemaError(
            "NO_COLUMN_METADATA",
            f"{column_name(layout, index)}: the log does not record how many digits a {column.type.name} of "
            "mysql56_temporal_format=OFF has",
            hint="Give a schema file (option schemaFile); or set mysql56_temporal_format=ON and ALTER TABLE ... FORCE",
        )
    return digits


def decimal_size(digits: int) -> int:
    """Bytes of the digits on one side of a decimal's point."""
    groups, rest = divmod(digits, DECIMAL_GROUP_DIGITS)
    return groups * DECIMAL_GROUP_SIZE + DECIMAL_REST_SIZES[rest]


def gathered(data: Bytes, offsets: Int32s, dtype: DTypeLike) -> NDArray[Any]:
    """Numbers of 1, 2, 4 or 8 bytes; 0 where the offset is below 0."""
    values: NDArray[Any] = np.empty(len(offsets), dtype=dtype)
    check_gathered(gather_numbers(data, offsets, values.view(f"u{values.itemsize}")))
    return values


def check_gathered(bad_index: int) -> None:
    """Raise for what a gather kernel returned, unless it is -1.

    `read_images` has checked all places, so this needs data that changed meanwhile.
    """
    if bad_index >= 0:
        raise BadValueError(bad_index, "it is not in the data")


def check_text_size(size: int) -> None:
    """Raise where texts are more than an Arrow array of them can hold."""
    if size > TEXT_SIZE_MAX:
        raise UnsupportedError(
            "ROW_IMAGE",
            f"a column with more than {TEXT_SIZE_MAX} bytes of text at once",
            hint="Read fewer events at once",
        )


def size_prefix(column: Column) -> int:
    """Bytes of the size that comes before each value of a text or binary column."""
    if column.type in _SIZED_BY_LONGEST:
        return 1 if column.size_max < 256 else 2
    return column.metadata & 0xFF


def no_metadata(layout: TableLayout, index: int, what: str) -> SchemaError:
    """The error for a column whose table map does not record *what*."""
    return SchemaError(
        "NO_COLUMN_METADATA", f"{column_name(layout, index)}: the log does not record {what}", hint=NO_METADATA_HINT
    )


def unsupported(layout: TableLayout, index: int) -> UnsupportedError:
    """The error for a column of a type, or in a character set, that is not read."""
    column = layout.columns[index]
    type_ = column.type.name if column.charset is None else f"{column.type.name} in {column.charset}"
    return UnsupportedError("COLUMN_TYPE", f"{column_name(layout, index)}: columns of type {type_} are not read")


def column_name(layout: TableLayout, index: int) -> str:
    """`database.table.column`, for messages; the number of the column where its name is not known."""
    column = (*layout.columns, *layout.hidden)[index]
    return f"{layout.full_name}.{column.name or f'column {index}'}"
