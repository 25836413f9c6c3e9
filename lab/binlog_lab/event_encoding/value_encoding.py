"""Values as they are in row images: `codec_of` gives the `ValueCodec` of a column's SQL type."""

from __future__ import annotations

import datetime
import functools
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, cast

from binlog_format.events.table_map_layout import STRING_TYPE_BITS, ColumnType
from binlog_lab.event_encoding.encoding_layout import (
    DATETIME_OFFSET,
    DECIMAL_GROUP_DIGITS,
    DECIMAL_GROUP_SIZE,
    DECIMAL_PART_SIZES,
    DOUBLE_STRUCT,
    FLOAT_STRUCT,
    TIME_OFFSET,
)

if TYPE_CHECKING:
    from collections.abc import Callable

Value = int | float | str | bytes | Decimal | datetime.date | datetime.timedelta | None
"""A column's value: DATETIME is a datetime without a zone, TIMESTAMP one in UTC, TIME a timedelta; None is NULL."""


@dataclass(frozen=True, slots=True)
class Charset:
    """A character set: the server's default collation of it, its widest character, and Python's name."""

    collation_id: int
    width: int
    python: str


CHARSETS = {
    "utf8mb4": Charset(45, 4, "utf-8"),
    "utf8mb3": Charset(33, 3, "utf-8"),
    "latin1": Charset(8, 1, "cp1252"),
    "ascii": Charset(11, 1, "ascii"),
    "binary": Charset(63, 1, "latin-1"),
}


@dataclass(frozen=True, slots=True)
class ValueCodec:
    """Description of a column in a table map, and encoding of its values.

    Attributes:
        pack: Bytes of a value; NULL is not one.
        numeric: Whether the column has a bit in the signedness field.
        unsigned: That bit.
        charset: Of a column of characters or bytes; of ENUM too.
        enum_values: Of ENUM.
    """

    type_code: ColumnType
    metadata: bytes
    pack: Callable[[Value], bytes]
    numeric: bool = False
    unsigned: bool = False
    charset: Charset | None = None
    enum_values: tuple[str, ...] | None = None

    @property
    def is_text(self) -> bool:
        """True if the column has a character set; columns of bytes have none."""
        return self.charset is not None and self.charset is not CHARSETS["binary"]


_SQL_TYPE = re.compile(
    r"(?P<name>[a-z]+)\s*(?:\((?P<arguments>.*)\))?(?P<unsigned>\s+unsigned)?(?:\s+zerofill)?",
    re.IGNORECASE | re.DOTALL,
)
_QUOTED = re.compile(r"'((?:[^']|'')*)'")
_NUMBERS = re.compile(r"\s*\d+\s*(,\s*\d+\s*)?")
_INTEGERS = {
    "tinyint": (ColumnType.TINY, 1),
    "smallint": (ColumnType.SHORT, 2),
    "mediumint": (ColumnType.INT24, 3),
    "int": (ColumnType.LONG, 4),
    "bigint": (ColumnType.LONGLONG, 8),
}
_LOB_LENGTH_SIZES = {"tiny": 1, "": 2, "medium": 3, "long": 4}


@functools.cache
def codec_of(sql_type: str, charset: str = "utf8mb4") -> ValueCodec:
    """The codec of a type as `SHOW CREATE TABLE` writes it, for example `decimal(10,2)` or `enum('a','b')`.

    Args:
        sql_type: Lengths that have defaults may be left out.
        charset: Of types that hold characters.
    """
    match = _SQL_TYPE.fullmatch(sql_type.strip())
    if match is None:
        raise ValueError(f"column type {sql_type!r}: not understood")
    name, arguments = match["name"].lower(), match["arguments"] or ""
    unsigned = match["unsigned"] is not None
    if name == "enum":
        return _enum(tuple(value.replace("''", "'") for value in _QUOTED.findall(arguments)), CHARSETS[charset])
    if arguments and _NUMBERS.fullmatch(arguments) is None:
        raise ValueError(f"column type {sql_type!r}: not understood")
    numbers = [int(part) for part in arguments.split(",") if part]
    if name in _INTEGERS:
        return _integer(*_INTEGERS[name], unsigned)
    if name in ("decimal", "numeric"):
        precision, scale = (*numbers, 0)[:2] if numbers else (10, 0)
        return _decimal(precision, scale, unsigned)
    if name in ("float", "double"):
        return _floating(name, unsigned)
    temporal = _temporal(name, numbers[0] if numbers else 0)
    if temporal is not None:
        return temporal
    text = _characters(name, numbers[0] if numbers else 1, CHARSETS[charset])
    if text is not None:
        return text
    raise ValueError(f"column type {sql_type!r}: not one that is written here")


def _integer(type_code: ColumnType, size: int, unsigned: bool) -> ValueCodec:
    def pack(value: Value) -> bytes:
        return cast("int", value).to_bytes(size, "little", signed=not unsigned)

    return ValueCodec(type_code, b"", pack, numeric=True, unsigned=unsigned)


def _floating(name: str, unsigned: bool) -> ValueCodec:
    form, type_code = (FLOAT_STRUCT, ColumnType.FLOAT) if name == "float" else (DOUBLE_STRUCT, ColumnType.DOUBLE)

    def pack(value: Value) -> bytes:
        return form.pack(value)

    return ValueCodec(type_code, bytes([form.size]), pack, numeric=True, unsigned=unsigned)


def _decimal_cuts(digits: int, *, short_first: bool) -> list[tuple[int, int]]:
    # (digits, bytes) of each group; the group that is not full is at the end away from the point.
    full = [(DECIMAL_GROUP_DIGITS, DECIMAL_GROUP_SIZE)] * (digits // DECIMAL_GROUP_DIGITS)
    rest = digits % DECIMAL_GROUP_DIGITS
    short = [(rest, DECIMAL_PART_SIZES[rest])] if rest else []
    return short + full if short_first else full + short


def _decimal(precision: int, scale: int, unsigned: bool) -> ValueCodec:
    whole = precision - scale
    cuts = _decimal_cuts(whole, short_first=True) + _decimal_cuts(scale, short_first=False)
    size = sum(width for _, width in cuts)
    sign_bit = 0x80 << 8 * (size - 1)
    ones = (1 << 8 * size) - 1

    def pack(value: Value) -> bytes:
        number = cast("Decimal", value)
        digits = f"{number.copy_abs():.{scale}f}".replace(".", "") if scale else f"{number.copy_abs():.0f}"
        digits = digits.lstrip("0").rjust(precision, "0")
        if len(digits) > precision:
            raise ValueError(f"decimal({precision},{scale}): {number} does not fit")
        packed = 0
        start = 0
        for count, width in cuts:
            packed = packed << 8 * width | int(digits[start : start + count])
            start += count
        # The first bit is turned so that bytes sort as numbers do; negative numbers are turned as a whole.
        packed ^= sign_bit
        if number < 0:
            packed ^= ones
        return packed.to_bytes(size, "big")

    return ValueCodec(ColumnType.NEWDECIMAL, bytes([precision, scale]), pack, numeric=True, unsigned=unsigned)


_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_SECOND = datetime.timedelta(seconds=1)
_MICROSECOND = datetime.timedelta(microseconds=1)


def _temporal(name: str, precision: int) -> ValueCodec | None:
    # Fractions take (precision + 1) // 2 bytes and count hundredths, ten-thousandths or microseconds.
    size = (precision + 1) // 2
    kept: int = 10 ** (6 - precision)
    unit: int = 10 ** (6 - 2 * size)

    def fraction(microseconds: int) -> int:
        return microseconds // kept * kept // unit

    def pack_date(value: Value) -> bytes:
        day = cast("datetime.date", value)
        return (day.day | day.month << 5 | day.year << 9).to_bytes(3, "little")

    def pack_datetime(value: Value) -> bytes:
        at = cast("datetime.datetime", value)
        days = (at.year * 13 + at.month) << 5 | at.day
        packed = (days << 17 | at.hour << 12 | at.minute << 6 | at.second) + DATETIME_OFFSET
        return (packed << 8 * size | fraction(at.microsecond)).to_bytes(5 + size, "big")

    def pack_timestamp(value: Value) -> bytes:
        at = cast("datetime.datetime", value)
        since = (at if at.tzinfo is not None else at.replace(tzinfo=datetime.UTC)) - _EPOCH
        return (since // _SECOND << 8 * size | fraction(since.microseconds)).to_bytes(4 + size, "big")

    def pack_time(value: Value) -> bytes:
        span = cast("datetime.timedelta", value)
        seconds, microseconds = divmod(abs(span) // _MICROSECOND, 1_000_000)
        clock = seconds // 3600 << 12 | seconds // 60 % 60 << 6 | seconds % 60
        packed = clock << 8 * size | fraction(microseconds)
        signed = -packed if span < datetime.timedelta(0) else packed
        return (signed + (TIME_OFFSET << 8 * size)).to_bytes(3 + size, "big")

    if name == "date":
        return ValueCodec(ColumnType.DATE, b"", pack_date)
    packers = {
        "datetime": (ColumnType.DATETIME2, pack_datetime),
        "timestamp": (ColumnType.TIMESTAMP2, pack_timestamp),
        "time": (ColumnType.TIME2, pack_time),
    }
    if name not in packers:
        return None
    type_code, pack = packers[name]
    return ValueCodec(type_code, bytes([precision]), pack)


def _characters(name: str, length: int, charset: Charset) -> ValueCodec | None:
    lob = re.fullmatch(r"(tiny|medium|long|)(text|blob)", name)
    if lob is not None:
        used = CHARSETS["binary"] if lob[2] == "blob" else charset
        length_size = _LOB_LENGTH_SIZES[lob[1]]
        return ValueCodec(ColumnType.BLOB, bytes([length_size]), _text_packer(length_size, used), charset=used)
    if name not in ("char", "varchar", "binary", "varbinary"):
        return None
    used = CHARSETS["binary"] if name.endswith("binary") else charset
    size_max = length * used.width
    if name.startswith("var"):
        metadata = size_max.to_bytes(2, "little")
        pack = _text_packer(1 if size_max < 256 else 2, used)
        return ValueCodec(ColumnType.VARCHAR, metadata, pack, charset=used)
    metadata = bytes([ColumnType.STRING ^ (size_max >> 4 & STRING_TYPE_BITS), size_max & 0xFF])
    padding = b"\0" if name == "binary" else b" "
    pack = _text_packer(1 if size_max < 256 else 2, used, padding)
    return ValueCodec(ColumnType.STRING, metadata, pack, charset=used)


def _text_packer(length_size: int, charset: Charset, padding: bytes = b"") -> Callable[[Value], bytes]:
    def pack(value: Value) -> bytes:
        data = value if isinstance(value, bytes) else cast("str", value).encode(charset.python)
        if padding:
            data = data.rstrip(padding)
        return len(data).to_bytes(length_size, "little") + data

    return pack


def _enum(values: tuple[str, ...], charset: Charset) -> ValueCodec:
    size = 1 if len(values) < 256 else 2
    numbers: dict[Value, bytes] = {value: (i + 1).to_bytes(size, "little") for i, value in enumerate(values)}
    metadata = bytes([ColumnType.ENUM, size])
    return ValueCodec(ColumnType.STRING, metadata, numbers.__getitem__, charset=charset, enum_values=values)
