"""Types as tables are declared with, beside what a table map contains: `fits(column, declared, ...)`.

The default of a column, as a statement declares it: `DeclaredDefault`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from binlog_format.events.table_map_layout import ColumnType
from binlog_format.vendor import Vendor

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_format.events.table_map import Column


_DECLARED = re.compile(r"([a-z_0-9 ]+?)\s*(?:\(([0-9, ]*)\))?")

# Bytes of the longest character (SHOW CHARACTER SET: Maxlen); 1 for those that are not here.
_CHARACTER_SIZES = {
    "utf8mb4": 4,
    "utf8": 3,  # or 4
    "utf8mb3": 3,
    "utf16": 4,
    "utf16le": 4,
    "utf32": 4,
    "gb18030": 4,
    "ucs2": 2,
    "ujis": 3,
    "eucjpms": 3,
    "sjis": 2,
    "cp932": 2,
    "gbk": 2,
    "gb2312": 2,
    "big5": 2,
    "euckr": 2,
}

_EXACT: dict[str, frozenset[ColumnType]] = {
    "tinyint": frozenset({ColumnType.TINY}),
    "smallint": frozenset({ColumnType.SHORT}),
    "mediumint": frozenset({ColumnType.INT24}),
    "int": frozenset({ColumnType.LONG}),
    "bigint": frozenset({ColumnType.LONGLONG}),
    "float": frozenset({ColumnType.FLOAT}),
    "double": frozenset({ColumnType.DOUBLE}),
    "year": frozenset({ColumnType.YEAR}),
    "date": frozenset({ColumnType.DATE, ColumnType.NEWDATE}),
    "enum": frozenset({ColumnType.ENUM}),
    "set": frozenset({ColumnType.SET}),
}

# The old type has no metadata: the digits of its fraction stand in the declaration alone.
_TEMPORAL = {
    "time": (ColumnType.TIME2, ColumnType.TIME),
    "datetime": (ColumnType.DATETIME2, ColumnType.DATETIME),
    "timestamp": (ColumnType.TIMESTAMP2, ColumnType.TIMESTAMP),
}

_BLOBS = frozenset({ColumnType.BLOB, ColumnType.BLOB_COMPRESSED})
_BLOB_PREFIXES = {
    "tinytext": 1,
    "text": 2,
    "mediumtext": 3,
    "longtext": 4,
    "tinyblob": 1,
    "blob": 2,
    "mediumblob": 3,
    "longblob": 4,
}

_STRINGS = frozenset({ColumnType.STRING, ColumnType.VAR_STRING})
_VARCHARS = frozenset({ColumnType.VARCHAR, ColumnType.VAR_STRING})

# MariaDB: types of its own that are in the log as BINARY(n).
_BINARY_SIZES = {"uuid": 16, "inet6": 16, "inet4": 4}

GEOMETRIES = frozenset(
    {
        "geometry",
        "point",
        "linestring",
        "polygon",
        "multipoint",
        "multilinestring",
        "multipolygon",
        "geometrycollection",
        "geomcollection",
    }
)


def character_size(charset: str) -> int:
    """Bytes of the longest character of a character set, as the server reckons with it."""
    return _CHARACTER_SIZES.get(charset, 1)


def split_declared(declared: str) -> tuple[str, tuple[int, ...]]:
    """Name and numbers of a declared type: `decimal(10,2)` -> `("decimal", (10, 2))`."""
    match = _DECLARED.fullmatch(declared)
    if match is None:
        return declared, ()
    numbers = match.group(2)
    return match.group(1), tuple(int(number) for number in numbers.split(",")) if numbers else ()


def fits(column: Column, declared: str, charset: str | None, label_count: int | None, vendor: Vendor) -> bool:
    """True if a column of a table map can have this declaration.

    Args:
        declared: Type name and numbers, in lower case, as the server spells them (`int(11)`, `varchar(50)`).
        charset: Of the declared column, where known; what the table map contains goes first.
        label_count: Of an ENUM or SET, where known.

    Returns:
        False only for what cannot be; a type that is not known here (a plugin's) may be anything.
    """
    name, numbers = split_declared(declared)
    if name in _EXACT:
        known = column.type in _EXACT[name]
        return known and (label_count is None or column.metadata >> 8 == _label_size(name, label_count))
    if name in _TEMPORAL:
        return _temporal_fits(column, name, numbers)
    if name in _BLOB_PREFIXES:
        return column.type in _BLOBS and column.metadata == _BLOB_PREFIXES[name]
    if name in GEOMETRIES:
        return column.type is ColumnType.GEOMETRY
    if name in _BINARY_SIZES:
        return column.type is ColumnType.STRING and column.size_max == _BINARY_SIZES[name]
    check = _CHECKS.get(name)
    return check is None or check(column, numbers, column.charset or charset, vendor)


def _label_size(name: str, count: int) -> int:
    if name == "enum":
        return 1 if count < 1 << 8 else 2
    size = (count + 7) // 8
    return 8 if size > 4 else size


def _temporal_fits(column: Column, name: str, numbers: tuple[int, ...]) -> bool:
    new, old = _TEMPORAL[name]
    return column.type is old or (column.type is new and column.metadata == (numbers[0] if numbers else 0))


def _decimal_fits(column: Column, numbers: tuple[int, ...], _charset: str | None, _vendor: Vendor) -> bool:
    precision, scale = (*numbers, 0)[:2] if numbers else (10, 0)
    return column.type is ColumnType.NEWDECIMAL and column.metadata == precision | scale << 8


def _bit_fits(column: Column, numbers: tuple[int, ...], _charset: str | None, _vendor: Vendor) -> bool:
    bits = numbers[0] if numbers else 1
    return column.type is ColumnType.BIT and (column.metadata & 0xFF) + 8 * (column.metadata >> 8) == bits


def _char_fits(column: Column, numbers: tuple[int, ...], charset: str | None, _vendor: Vendor) -> bool:
    return column.type in _STRINGS and _size_fits(column.size_max, numbers[0] if numbers else 1, charset)


def _varchar_fits(column: Column, numbers: tuple[int, ...], charset: str | None, _vendor: Vendor) -> bool:
    if not numbers:
        return column.type in _VARCHARS or column.type is ColumnType.VARCHAR_COMPRESSED
    if column.type is ColumnType.VARCHAR_COMPRESSED:
        return _size_fits(column.size_max - 1, numbers[0], charset)  # a byte that states how it is compressed
    return column.type in _VARCHARS and _size_fits(column.size_max, numbers[0], charset)


def _size_fits(size: int, characters: int, charset: str | None) -> bool:
    sizes = {None: (1, 2, 3, 4), "utf8": (3, 4)}.get(charset) or (character_size(charset or ""),)
    return any(size == characters * each for each in sizes)


def _binary_fits(column: Column, numbers: tuple[int, ...], _charset: str | None, vendor: Vendor) -> bool:
    return _char_fits(column, numbers, "binary", vendor)


def _varbinary_fits(column: Column, numbers: tuple[int, ...], _charset: str | None, vendor: Vendor) -> bool:
    return _varchar_fits(column, numbers, "binary", vendor)


def _json_fits(column: Column, _numbers: tuple[int, ...], _charset: str | None, vendor: Vendor) -> bool:
    if vendor is Vendor.MYSQL:
        return column.type is ColumnType.JSON
    return column.type in _BLOBS and column.metadata == _BLOB_PREFIXES["longtext"]


def _vector_fits(column: Column, numbers: tuple[int, ...], _charset: str | None, vendor: Vendor) -> bool:
    if vendor is Vendor.MYSQL:
        return column.type is ColumnType.VECTOR
    return column.type is ColumnType.VARCHAR and (not numbers or column.size_max == 4 * numbers[0])


_CHECKS: dict[str, Callable[[Column, tuple[int, ...], str | None, Vendor], bool]] = {
    "decimal": _decimal_fits,
    "bit": _bit_fits,
    "char": _char_fits,
    "varchar": _varchar_fits,
    "binary": _binary_fits,
    "varbinary": _varbinary_fits,
    "json": _json_fits,
    "vector": _vector_fits,
}


class DefaultKind(StrEnum):
    """Kind of the expression after DEFAULT."""

    NULL = "null"
    TEXT = "text"  # '...', DATE'...', and bytes in a character set
    NUMBER = "number"  # with its sign; TRUE is 1
    BITS = "bits"  # 0x..., b'...': a number where one is wanted
    BYTES = "bytes"  # x'...'
    NOW = "now"  # CURRENT_TIMESTAMP and its other names
    UNKNOWN = "unknown"


class Generated(StrEnum):
    """Way in which a column is computed from others."""

    VIRTUAL = "virtual"
    VIRTUAL_OUTSIDE_INNODB = "virtual outside innodb"
    """VIRTUAL, in a table of MyISAM, Aria or another engine that a statement names."""
    VIRTUAL_NUMBERED = "virtual numbered"
    """VIRTUAL, computed of an AUTO_INCREMENT column: MariaDB computes what it logs before a new row has its number."""
    VIRTUAL_INDEXED = "virtual indexed"
    """VIRTUAL in InnoDB, a BLOB or JSON that an index needs: MySQL logs with a new row what another row had there."""
    STORED = "stored"
    UNLOGGED = "unlogged"
    """VIRTUAL, in rows of a server that logs NULL for it (`Block.logs_virtual_values`)."""
    STALE = "stale"
    """VIRTUAL outside of InnoDB, in rows of such a server: `''`, 0 or an earlier value, but in inserts."""
    MISLOGGED = "mislogged"
    """VIRTUAL_NUMBERED or VIRTUAL_INDEXED, in rows of such a server: what it logs with an INSERT tells nothing."""
    WITHOUT_VALUES = "without values"
    """The same, where nothing that is logged tells anything."""
    REPLICATED = "replicated"
    """VIRTUAL, in rows that came by replication, where some values tell nothing (`Block.is_replicated`)."""


@dataclass(frozen=True, slots=True)
class DeclaredDefault:
    """A default.

    Attributes:
        text: Of a TEXT what is meant; of a NUMBER what is there; of BITS and BYTES hexadecimal digits, two for a
            byte; of NOW the digits of the fraction of a second; of UNKNOWN why, in a few words; else empty.
        time_zone: Of the session that declared it, where a TIMESTAMP needs it; None: not known.
    """

    kind: DefaultKind
    text: str = ""
    time_zone: str | None = None

    def to_list(self) -> list[str | None]:
        """Convert to a list for JSON; `from_list` reads it."""
        parts: list[str | None] = [self.kind.value, self.text]
        return parts if self.time_zone is None else [*parts, self.time_zone]

    @classmethod
    def from_list(cls, parts: list[str]) -> DeclaredDefault:
        """Read what `to_list` gave.

        Raises:
            ValueError: *parts* are something else.
            TypeError: They are too few or too many.
        """
        kind, *rest = parts
        return cls(DefaultKind(kind), *rest)


AUTO_INCREMENT = DeclaredDefault(DefaultKind.UNKNOWN, "AUTO_INCREMENT")


class UnknownValueError(Exception):
    """A value that a server computes cannot be computed here: a default, a time in its time zone."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Moment:
    """Time and time zone of a statement.

    Attributes:
        seconds: Since 1970 UTC.
        microseconds: Beyond those; None: the log does not record it.
        time_zone: Of the session: `+02:00`, a name, `SYSTEM`; None: the log does not record it.
    """

    seconds: int
    microseconds: int | None = None
    time_zone: str | None = None
