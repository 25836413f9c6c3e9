"""The default of a column as an Arrow value: `default_value`; of all columns, `layout_defaults`."""

from __future__ import annotations

import decimal
import ipaddress
import math
import re
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_format.errors import BinlogError
from binlog_format.events.table_map_layout import ColumnType
from binlog_format.kernels import as_bytes
from binlog_format.rows.column_types import INTEGER_WIDTHS
from binlog_format.rows.columns import arrow_type, column_array
from binlog_format.rows.declared.completion import ColumnCompletion, LayoutCompletion
from binlog_format.rows.declared.declared_types import DeclaredDefault, DefaultKind, UnknownValueError, split_declared
from binlog_format.rows.declared.default_literals import (
    DATE_TYPES,
    DATETIME_TYPES,
    TIME_TYPES,
    TIMESTAMP_TYPES,
    declared_label,
    declared_set,
    declared_text,
    declared_time,
)
from binlog_format.rows.decoding import DEFAULT_DECODING, Decoding
from binlog_format.rows.json.json_document import BadJsonError, document_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_format.events.table_map import Column, TableLayout
    from binlog_format.rows.declared.declared_types import Moment

_TIMES = DATE_TYPES | DATETIME_TYPES | TIMESTAMP_TYPES | TIME_TYPES
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?", re.ASCII)
_SCALE_MAX = 30
_BITS_DIGITS_MAX = 16
_DIGITS = decimal.Context(prec=200, rounding=decimal.ROUND_HALF_UP)
_EMPTY_ADDRESSES = {"uuid": str(uuid.UUID(int=0)), "inet4": "0.0.0.0", "inet6": "::"}
_UNSAID = "the log has no statement that sets its default"
_FLOAT_DIGITS = 6
_ROUNDED = "a FLOAT of more than six digits, which a server may have rounded since"
_NO_DEFAULT = "NOT NULL, without a default that its type would have"


@dataclass(frozen=True, slots=True)
class ColumnDefault:
    """Value of a column that a row's image leaves out.

    Attributes:
        value: A scalar of the column's Arrow type; None: it is not known.
        unknown: Why it is not known; None: it is.
        generated: `virtual` or `stored` for a column that is computed from others; empty for others.
    """

    value: pa.Scalar | None
    unknown: str | None
    generated: str = ""


def layout_defaults(layout: TableLayout, decoding: Decoding = DEFAULT_DECODING) -> tuple[ColumnDefault, ...]:
    """The defaults of all columns, as far as DDL or a schema file said them (`LayoutCompletion`)."""
    if not layout.completion:
        return tuple(ColumnDefault(None, _UNSAID) for _ in layout.columns)
    said = LayoutCompletion.from_json(layout.completion).columns
    return tuple(_layout_default(layout, index, completion, decoding) for index, completion in enumerate(said))


def _layout_default(layout: TableLayout, index: int, said: ColumnCompletion, decoding: Decoding) -> ColumnDefault:
    if said.declared is None:
        return ColumnDefault(None, _UNSAID)
    if said.generated:
        return ColumnDefault(None, "a generated column", said.generated)
    try:
        value = default_value(layout, index, said.default, decoding)
    except UnknownValueError as error:
        return ColumnDefault(None, error.reason)
    if _is_rounded_later(layout.columns[index], value):
        return ColumnDefault(None, _ROUNDED)
    return ColumnDefault(value, None)


def _is_rounded_later(column: Column, value: pa.Scalar) -> bool:
    """True if a server changes the default when it makes the table anew: it reads the six digits that it shows.

    Nearly every ALTER TABLE, CREATE TABLE ... LIKE and OPTIMIZE TABLE do. Seen on MariaDB 10.5 to 11.8 and MySQL 9.7.
    """
    if column.type is not ColumnType.FLOAT or not value.is_valid or len(split_declared(column.declared or "")[1]) == 2:
        return False
    return bool(np.float32(f"{value.as_py():.{_FLOAT_DIGITS}g}") != np.float32(value.as_py()))


def default_value(
    layout: TableLayout,
    index: int,
    default: DeclaredDefault | None,
    decoding: Decoding,
    moment: Moment | None = None,
) -> pa.Scalar:
    """Compute the value of a column in rows that were written without one.

    Args:
        default: As it was declared; None: it has none, so it is NULL or, where it must not be, that of its type.
        moment: When the statement ran that gives the rows the value; None: that is not known.

    Returns:
        A scalar of the type that `arrow_type` gives.

    Raises:
        UnknownValueError: It cannot be computed.
    """
    column = layout.columns[index]
    try:
        type_ = arrow_type(layout, index, decoding)
    except BinlogError as error:
        raise UnknownValueError(f"a type that is not read: {error.reason}") from error
    if default is None:
        default = DeclaredDefault(DefaultKind.NULL) if column.nullable else _implicit(column)
    if default.kind is DefaultKind.UNKNOWN:
        raise UnknownValueError(default.text)
    if default.kind is DefaultKind.NULL:
        return pa.scalar(None, type_)
    name = split_declared(column.declared or "")[0]
    if name in _EMPTY_ADDRESSES:
        return _address(layout, index, name, default, decoding)
    if column.type in _TIMES:
        return pa.scalar(declared_time(column, default, decoding, moment), type_)
    convert = _CONVERSIONS.get(column.type)
    if convert is None or name in ("vector", "json"):
        return _json(layout, index, name, default, decoding)
    if default.kind is DefaultKind.NOW:
        raise UnknownValueError("CURRENT_TIMESTAMP for another type")
    try:
        return pa.scalar(convert(column, default), type_)
    except (decimal.InvalidOperation, pa.ArrowException) as error:
        raise UnknownValueError("a value that the column does not hold") from error


def _implicit(column: Column) -> DeclaredDefault:
    """The value that the server writes into a NOT NULL column without a default, if it allows such rows."""
    name = split_declared(column.declared or "")[0]
    if name in _EMPTY_ADDRESSES:
        return DeclaredDefault(DefaultKind.TEXT, _EMPTY_ADDRESSES[name])
    if column.type in TIMESTAMP_TYPES | DATETIME_TYPES | DATE_TYPES:
        return DeclaredDefault(DefaultKind.TEXT, "0000-00-00")
    if column.type in TIME_TYPES or column.type in INTEGER_WIDTHS or column.type in _NUMBERS:
        return DeclaredDefault(DefaultKind.NUMBER, "0")
    if column.type is ColumnType.ENUM and column.enum_values:
        return DeclaredDefault(DefaultKind.TEXT, column.enum_values[0])
    if column.type is ColumnType.JSON:
        return DeclaredDefault(DefaultKind.TEXT, "null")
    if column.type in _CONVERSIONS and column.type is not ColumnType.ENUM and name != "vector":
        return DeclaredDefault(DefaultKind.TEXT)
    return DeclaredDefault(DefaultKind.UNKNOWN, _NO_DEFAULT)


def _number(default: DeclaredDefault) -> decimal.Decimal:
    if default.kind is DefaultKind.BITS:
        if len(default.text) > _BITS_DIGITS_MAX:
            # MySQL takes the largest number, MariaDB the last 64 bits.
            raise UnknownValueError("more than 64 bits for a number")
        return decimal.Decimal(int(default.text or "0", 16))
    text = default.text.strip()
    if default.kind is DefaultKind.BYTES or _NUMBER.fullmatch(text) is None:
        raise UnknownValueError("no number")
    return decimal.Decimal(repr(float(text)) if _is_double(default) else text)


def _is_double(default: DeclaredDefault) -> bool:
    return default.kind is DefaultKind.NUMBER and "e" in default.text.casefold()


def _check_held(is_held: bool) -> None:
    if not is_held:
        raise UnknownValueError("a number that the column does not hold")


def _with_sign(column: Column, number: decimal.Decimal) -> decimal.Decimal:
    _check_held(not column.unsigned or number >= 0)
    return number


def _rounded(default: DeclaredDefault, number: decimal.Decimal, unit: decimal.Decimal) -> decimal.Decimal:
    rounded = number.quantize(unit, context=_DIGITS)
    if rounded != number and _is_double(default):
        raise UnknownValueError("a double that is rounded")  # up, down or to even, as the type of the column says
    return rounded


def _whole(default: DeclaredDefault, least: int, most: int) -> int:
    number = _number(default)
    _check_held(abs(number) <= 1 << 65)
    if _is_double(default):
        number = decimal.Decimal(float(number))  # all its digits, where a DECIMAL gets those that are shown
    whole = int(_rounded(default, number, decimal.Decimal(1)))
    _check_held(least <= whole <= most)
    return whole


def _integer(column: Column, default: DeclaredDefault) -> int:
    bits = 8 * INTEGER_WIDTHS[column.type]
    if column.unsigned:
        return _whole(default, 0, (1 << bits) - 1)
    return _whole(default, -(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def _year(_column: Column, default: DeclaredDefault) -> int:
    year = _whole(default, 0, 2155)
    if year == 0 and default.kind is DefaultKind.TEXT and len(default.text.strip()) < 4:
        return 2000
    if 0 < year < 100:
        return year + (2000 if year < 70 else 1900)
    if 0 < year < 1901:
        raise UnknownValueError("no YEAR")
    return year


def _bits(column: Column, default: DeclaredDefault) -> int | bool:
    count = (column.metadata & 0xFF) + 8 * (column.metadata >> 8)
    if default.kind in (DefaultKind.TEXT, DefaultKind.BYTES):
        raise UnknownValueError("a text for BIT")
    number = _whole(default, 0, (1 << min(count, 63 if _is_double(default) else 64)) - 1)  # servers differ beyond
    return bool(number) if count == 1 else number


def _decimal(column: Column, default: DeclaredDefault) -> decimal.Decimal | str:
    precision, scale = column.metadata & 0xFF, column.metadata >> 8
    number = _with_sign(column, _number(default))
    end = decimal.Decimal(10) ** (precision - scale)
    _check_held(abs(number) < end)
    rounded = _rounded(default, number, decimal.Decimal(1).scaleb(-scale))
    _check_held(abs(rounded) < end)
    rounded = abs(rounded) if rounded == 0 else rounded
    return rounded if precision <= 38 else f"{rounded:f}"


def _float(column: Column, default: DeclaredDefault) -> float:
    value = float(_with_sign(column, _number(default)))
    if value == 0 and math.copysign(1, value) < 0:
        if default.kind is not DefaultKind.NUMBER or _is_double(default):
            raise UnknownValueError("a zero with a sign, which newer servers leave out")
        value = 0.0  # servers take -0.0 for a decimal number, which has no sign there
    _, numbers = split_declared(column.declared or "")
    if len(numbers) == 2:
        value = _rounded_by_server(value, *numbers)
    with np.errstate(over="ignore"):
        held = float(np.float32(value)) if column.type is ColumnType.FLOAT else value
    _check_held(bool(np.isfinite(held)))
    return held


def _rounded_by_server(value: float, digits: int, scale: int) -> float:
    """*value* as FLOAT(digits, scale) and DOUBLE(digits, scale) hold it; 1.005 is 1.0 with two places.

    MariaDB sql/field.cc: truncate_double; MySQL sql/field.cc: Field_real::truncate. Both were asked for 1,000 values.
    """
    if scale > _SCALE_MAX:
        raise UnknownValueError("a value that the column does not hold")
    _check_held(abs(value) < 10.0 ** (digits - scale))
    whole, power = math.floor(value), 10.0**scale
    return whole + round((value - whole) * power) / power


def _json(layout: TableLayout, index: int, name: str, default: DeclaredDefault, decoding: Decoding) -> pa.Scalar:
    column = layout.columns[index]
    if name != "json" or default.kind is not DefaultKind.TEXT:
        raise UnknownValueError(f"a default of {name or column.type.name.lower()}")
    if column.type is not ColumnType.JSON:  # MariaDB's is a text, kept as it was written
        return pa.scalar(default.text, arrow_type(layout, index, decoding))
    try:
        document = document_of(default.text)
    except BadJsonError as error:
        raise UnknownValueError(error.reason) from error
    return _decoded(layout, index, len(document).to_bytes(column.metadata, "little") + document, decoding)


def _address(layout: TableLayout, index: int, name: str, default: DeclaredDefault, decoding: Decoding) -> pa.Scalar:
    try:
        if default.kind in (DefaultKind.BITS, DefaultKind.BYTES):
            packed = bytes.fromhex(default.text)
        elif name == "uuid":
            packed = uuid.UUID(default.text).bytes
        else:
            packed = (ipaddress.IPv4Address if name == "inet4" else ipaddress.IPv6Address)(default.text).packed
    except ValueError as error:
        raise UnknownValueError(f"no {name.upper()}") from error
    if len(packed) != layout.columns[index].size_max:
        raise UnknownValueError(f"no {name.upper()}")
    return _decoded(layout, index, bytes([len(packed)]) + packed, decoding)


def _decoded(layout: TableLayout, index: int, image: bytes, decoding: Decoding) -> pa.Scalar:
    # Through the decoder, for its spelling.
    return column_array(layout, index, as_bytes(image), np.zeros(1, dtype=np.int32), decoding=decoding)[0]


_NUMBERS: dict[ColumnType, Callable[[Column, DeclaredDefault], object]] = {
    ColumnType.YEAR: _year,
    ColumnType.BIT: _bits,
    ColumnType.NEWDECIMAL: _decimal,
    ColumnType.FLOAT: _float,
    ColumnType.DOUBLE: _float,
}
_TEXTS = (
    ColumnType.STRING,
    ColumnType.VARCHAR,
    ColumnType.VAR_STRING,
    ColumnType.BLOB,
    ColumnType.TINY_BLOB,
    ColumnType.MEDIUM_BLOB,
    ColumnType.LONG_BLOB,
    ColumnType.VARCHAR_COMPRESSED,
    ColumnType.BLOB_COMPRESSED,
)
_CONVERSIONS: dict[ColumnType, Callable[[Column, DeclaredDefault], object]] = {
    **dict.fromkeys(INTEGER_WIDTHS, _integer),
    **_NUMBERS,
    **dict.fromkeys(_TEXTS, declared_text),
    ColumnType.ENUM: declared_label,
    ColumnType.SET: declared_set,
}
