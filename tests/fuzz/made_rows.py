"""Tables of any columns and rows of any bytes, as events: `MADE_TABLES`; single columns of them: `COLUMNS`."""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

from hypothesis import strategies as st

from binlog_format.errors import BinlogError
from binlog_format.events.layout import EventType
from binlog_format.events.table_map import parse_table_map
from binlog_format.events.table_map_layout import (
    CHARACTER_TYPES,
    NUMERIC_TYPES,
    STRING_TYPE_BITS,
    TYPE_METADATA_SIZES,
    ColumnType,
    MetadataField,
)
from binlog_format.rows.column_types import old_width, value_widths
from binlog_format.vendor import Vendor
from tests.format.events.test_gtid import with_header
from tests.fuzz.seeds import mysql_documents

_T = ColumnType

_POINT = struct.pack("<IBIdd", 4326, 1, 1, 1.5, -2.5)
_TEXTS = ("Grüße, Jürgen ❤ 😀", "日本語テキスト", "한국어", "漢字測試")
_TEXT_CODECS = ("utf-8", "utf-16-be", "utf-32-be", "shift_jis", "euc_jp", "gb18030", "big5", "euc_kr", "cp1251")


def _special_values() -> list[bytes]:
    """Values that mean something in one type or another."""
    texts = [text.encode(codec, "replace") for text in _TEXTS for codec in _TEXT_CODECS]
    deflated = [bytes([0x81 | raw << 3, 30]) + _deflated(b"abc" * 10, raw=bool(raw)) for raw in (0, 1)]
    numbers = [struct.pack("<d", number) for number in (0.0, -0.0, 1e308, 5e-324, float("nan"), float("-inf"), 0.1)]
    moments = [bytes(8), b"\x80" + bytes(7), bytes.fromhex("99b2c34567000000"), bytes.fromhex("4f0d2900b0000000")]
    return [
        *moments,
        *texts,
        *deflated,
        *numbers,
        *mysql_documents(),
        _POINT,
        struct.pack("<fff", 1, -2.5, float("nan")),
    ]


def _deflated(content: bytes, *, raw: bool) -> bytes:
    compressor = zlib.compressobj(wbits=-15 if raw else 15)
    return compressor.compress(content) + compressor.flush()


VALUES = st.one_of(st.binary(max_size=24), st.sampled_from(_special_values()), st.just(b""))


class MadeColumn(NamedTuple):
    """A column as a table map has it.

    Attributes:
        type: Code in the table map.
        metadata: Bytes of its type metadata.
        collation: Of a text, ENUM or SET column.
        number: Decides the rest: signs, labels, dimensions.
    """

    type: ColumnType
    metadata: bytes
    collation: int
    number: int

    @property
    def real_type(self) -> ColumnType:
        """ENUM and SET stand in the log as STRING."""
        first = self.metadata[0] if self.metadata else 0
        return ColumnType(first) if self.type is _T.STRING and first in (_T.ENUM, _T.SET) else self.type


def _metadata(type_: ColumnType) -> st.SearchStrategy[bytes]:
    digits = st.integers(0, 6).map(lambda number: bytes([number]))
    sizes = st.sampled_from([1, 3, 255, 256, 1000, 65535]).map(lambda number: number.to_bytes(2, "little"))
    usual: dict[ColumnType, st.SearchStrategy[bytes]] = {
        _T.FLOAT: st.just(b"\4"),
        _T.DOUBLE: st.just(b"\10"),
        _T.BIT: st.tuples(st.integers(0, 7), st.integers(0, 8)).map(bytes),
        _T.NEWDECIMAL: st.tuples(st.integers(1, 65), st.integers(0, 38)).map(lambda pair: bytes(sorted(pair)[::-1])),
        _T.TIMESTAMP2: digits,
        _T.DATETIME2: digits,
        _T.TIME2: digits,
        _T.VARCHAR: sizes,
        _T.VAR_STRING: sizes,
        _T.VARCHAR_COMPRESSED: sizes,
        _T.STRING: st.one_of(
            st.sampled_from([(0xFE, 4), (0xFE, 16), (0xFE, 255), (0xFE ^ STRING_TYPE_BITS, 0)]),
            st.tuples(st.just(_T.ENUM), st.integers(1, 2)),
            st.tuples(st.just(_T.SET), st.integers(1, 8)),
        ).map(bytes),
        _T.TYPED_ARRAY: st.just(bytes([_T.LONG])),
    }
    size = TYPE_METADATA_SIZES.get(type_, 0)
    if type_ in usual:
        return st.one_of(*[usual[type_]] * 5, st.binary(min_size=size, max_size=size)) if size else usual[type_]
    return st.integers(1, 4).map(lambda number: bytes([number]) * size)


_CODES = [type_ for type_ in ColumnType if type_ not in (_T.ENUM, _T.SET, _T.DECIMAL)]
_COLLATIONS = st.one_of(st.integers(1, 320), st.sampled_from([33, 45, 63, 13, 28, 35, 54, 60, 62, 91, 97, 250, 2000]))
# Each strategy is made once: that takes longer than what it draws.
_OF_TYPE = {
    type_: st.builds(MadeColumn, st.just(type_), _metadata(type_), _COLLATIONS, st.integers(0, 255)) for type_ in _CODES
}
COLUMNS: st.SearchStrategy[MadeColumn] = st.sampled_from(_CODES).flatmap(_OF_TYPE.__getitem__)


class MadeTable(NamedTuple):
    """A table map and a row event after it, without checksums."""

    vendor: Vendor
    table_map: bytes
    event: bytes


def _packed(number: int) -> bytes:
    return bytes([number]) if number < 0xFB else b"\xfc" + number.to_bytes(2, "little")


def _text(content: bytes) -> bytes:
    return _packed(len(content)) + content


def table_map_of(columns: list[MadeColumn], vendor: Vendor) -> bytes:
    """A table map event with all the metadata that these columns can have."""
    metadata = b"".join(column.metadata for column in columns)
    types = [column.real_type for column in columns]
    character = set(CHARACTER_TYPES) | ({_T.GEOMETRY} if vendor is Vendor.MARIADB else set())

    def chosen(*wanted: ColumnType) -> list[MadeColumn]:
        return [column for column, type_ in zip(columns, types, strict=True) if type_ in wanted]

    def labels(type_: ColumnType) -> bytes:
        made = [[b"a%d" % number for number in range(column.number % 70)] for column in chosen(type_)]
        return b"".join(_packed(len(texts)) + b"".join(map(_text, texts)) for texts in made)

    signs = bytes(column.number for column in chosen(*NUMERIC_TYPES))
    fields = {
        MetadataField.SIGNEDNESS: signs,
        MetadataField.COLUMN_CHARSET: b"".join(_packed(column.collation) for column in chosen(*character)),
        MetadataField.COLUMN_NAME: b"".join(_text(b"c%d" % number) for number in range(len(columns))),
        MetadataField.SET_STR_VALUE: labels(_T.SET),
        MetadataField.ENUM_STR_VALUE: labels(_T.ENUM),
        MetadataField.ENUM_AND_SET_COLUMN_CHARSET: b"".join(
            _packed(column.collation) for column in chosen(_T.ENUM, _T.SET)
        ),
        MetadataField.VECTOR_DIMENSIONALITY: b"".join(_packed(column.number) for column in chosen(_T.VECTOR)),
    }
    body = b"\7\0\0\0\0\0\0\0" + b"\4shop\0" + b"\5items\0" + _packed(len(columns))
    body += bytes(column.type for column in columns) + _text(metadata) + b"\xff" * ((len(columns) + 7) // 8)
    body += b"".join(bytes([kind]) + _text(content) for kind, content in fields.items())
    return with_header(EventType.TABLE_MAP, body)


def value_bytes(width: int, value: bytes) -> bytes:
    """*value* as a row has it, where the column has this width (`value_widths`)."""
    if width >= 0:
        return value[:width].ljust(width, b"\x81")
    value = value[: (1 << 8 * -width) - 1]
    return len(value).to_bytes(-width, "little") + value


def _widths(table_map: bytes, columns: list[MadeColumn], vendor: Vendor, digits: int) -> list[int]:
    # Of damaged metadata no width is known, and any will do.
    try:
        layout = parse_table_map(table_map, vendor)
    except BinlogError:
        return [1] * len(columns)
    widths = []
    for column in layout.columns:
        if column.type in (_T.TIME, _T.DATETIME, _T.TIMESTAMP):
            widths.append(old_width(column.type, min(digits, 6)))
            continue
        try:
            widths += value_widths(type(layout)("", "", (column,), (), "", b"")).tolist()
        except BinlogError:
            widths.append(1)
    return widths


class _Form(NamedTuple):
    # What a row event looks like beside its columns.
    kind: int
    digits: int
    rows: int
    present: tuple[int, int]
    nulls: int
    is_update: bool


_BITS = st.one_of(st.just(-1), st.integers(0, (1 << 16) - 1))
_FORMS = st.builds(
    lambda kind, digits, rows, present, nulls: _Form(kind, digits, rows, present, nulls, kind in (21, 24, 31, 39)),
    st.sampled_from([20, 21, 22, 23, 24, 25, 30, 31, 32, 39]),
    st.integers(0, 6),
    st.integers(0, 4),
    st.tuples(_BITS, _BITS),
    st.one_of(st.just(0), st.integers(0, 0xFFFFFFFF)),
)


def _made_table(vendor: Vendor, columns: list[MadeColumn], form: _Form, values: list[bytes]) -> MadeTable:
    table_map = table_map_of(columns, vendor)
    widths = _widths(table_map, columns, vendor, form.digits)
    bitmap_size = (len(columns) + 7) // 8
    all_bits = (1 << len(columns)) - 1
    present = [bits & all_bits for bits in form.present[: 1 + form.is_update]]
    body = b"\7\0\0\0\0\0\1\0" + (b"\2\0" if form.kind >= EventType.WRITE_ROWS_V2 else b"") + _packed(len(columns))
    body += b"".join(bits.to_bytes(bitmap_size, "little") for bits in present)
    for image in range(form.rows * len(present)):
        there = [column for column in range(len(columns)) if present[image % len(present)] >> column & 1]
        nulls = form.nulls >> 3 * image & (1 << len(there)) - 1
        body += b"\0" if form.kind == EventType.PARTIAL_UPDATE_ROWS and image % 2 else b""
        body += nulls.to_bytes((len(there) + 7) // 8, "little")
        for place, column in enumerate(there):
            if not nulls >> place & 1:
                body += value_bytes(widths[column], values[(image + column) % len(values)])
    return MadeTable(vendor, table_map, with_header(EventType(form.kind), body))


MADE_TABLES: st.SearchStrategy[MadeTable] = st.builds(
    _made_table,
    st.sampled_from(Vendor),
    st.one_of(st.lists(COLUMNS, min_size=1, max_size=4), st.lists(COLUMNS, min_size=9, max_size=10)),
    _FORMS,
    st.lists(VALUES, min_size=1, max_size=6),
)
"""Any bytes may be put into their events: nothing but the widths of the values is made to fit."""
