"""Values of every type family, written in plain Python and read by the kernels."""

from __future__ import annotations

import datetime
import struct
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_format.errors import CorruptError, SchemaError, UnsupportedError
from binlog_format.events.table_map import Column, TableLayout
from binlog_format.events.table_map_layout import ColumnType
from binlog_format.kernels import as_bytes
from binlog_format.rows.columns import column_array
from binlog_format.rows.values.text import set_text
from tests.chance import examples
from tests.format.rows.columns import make_column, read
from tests.format.rows.plain_rows import (
    date_bytes,
    datetime_bytes,
    decimal_bytes,
    sized,
    time_bytes,
    timestamp_bytes,
)

pytestmark = pytest.mark.usefixtures("shown_values")

FLOAT_STRUCT, DOUBLE_STRUCT = struct.Struct("<f"), struct.Struct("<d")


INTEGER_SIZES = {
    ColumnType.TINY: 1,
    ColumnType.SHORT: 2,
    ColumnType.INT24: 3,
    ColumnType.LONG: 4,
    ColumnType.LONGLONG: 8,
}


@pytest.mark.parametrize("type_", INTEGER_SIZES)
@pytest.mark.parametrize("unsigned", [False, True])
@given(data=st.data())
@settings(max_examples=examples(40))
def test_integers(type_: ColumnType, unsigned: bool, data: st.DataObject) -> None:
    bits = 8 * INTEGER_SIZES[type_]
    low, high = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    numbers = data.draw(st.lists(st.none() | st.integers(low, high) | st.sampled_from([low, high]), max_size=20))
    encoded = [None if n is None else n.to_bytes(bits // 8, "little", signed=not unsigned) for n in numbers]
    assert read(make_column(type_, unsigned=unsigned), encoded) == numbers


def test_integer_without_signedness_is_refused() -> None:
    with pytest.raises(SchemaError, match=r"NO_COLUMN_METADATA.*shop\.orders\.c.*UNSIGNED"):
        read(make_column(ColumnType.LONG), [b"\0\0\0\0"])


@given(st.lists(st.none() | st.floats(allow_nan=False), max_size=20))
def test_doubles(numbers: list[float | None]) -> None:
    encoded = [None if n is None else DOUBLE_STRUCT.pack(n) for n in numbers]
    assert read(make_column(ColumnType.DOUBLE, b"\x08"), encoded) == numbers


@given(st.lists(st.none() | st.floats(allow_nan=False, width=32), max_size=20))
def test_floats(numbers: list[float | None]) -> None:
    encoded = [None if n is None else FLOAT_STRUCT.pack(n) for n in numbers]
    assert read(make_column(ColumnType.FLOAT, b"\x04"), encoded) == numbers


def test_years() -> None:
    assert read(make_column(ColumnType.YEAR), [b"\x00", b"\x01", b"\xff", None]) == [0, 1901, 2155, None]


@given(st.integers(1, 64), st.data())
def test_bits(count: int, data: st.DataObject) -> None:
    numbers = data.draw(st.lists(st.none() | st.integers(0, 2**count - 1), max_size=10))
    encoded = [None if n is None else n.to_bytes((count + 7) // 8, "big") for n in numbers]
    assert read(make_column(ColumnType.BIT, bytes([count % 8, count // 8])), encoded) == numbers


def test_bits_beyond_the_width_are_damage() -> None:
    with pytest.raises(CorruptError, match=r"BAD_EVENT.*shop\.orders\.c.*more than 3 bits"):
        read(make_column(ColumnType.BIT, b"\x03\x00"), [b"\x08"])


@st.composite
def decimals(draw: st.DrawFn, precision_min: int, precision_max: int) -> tuple[int, int, list[Decimal | None]]:
    precision = draw(st.integers(precision_min, precision_max))
    scale = draw(st.integers(0, min(precision, 38)))
    limit = 10**precision - 1
    unscaled = st.integers(-limit, limit) | st.sampled_from([0, 1, -1, limit, -limit])
    numbers = draw(st.lists(st.none() | unscaled, max_size=10))
    return precision, scale, [None if n is None else Decimal(f"{n}e-{scale}") for n in numbers]


@given(decimals(1, 38))
@settings(max_examples=examples(300))
def test_decimals(case: tuple[int, int, list[Decimal | None]]) -> None:
    precision, scale, numbers = case
    encoded = [None if n is None else decimal_bytes(n, precision, scale) for n in numbers]
    assert read(make_column(ColumnType.NEWDECIMAL, bytes([precision, scale])), encoded) == numbers


@given(decimals(39, 65))
@settings(max_examples=examples(200))
def test_decimals_beyond_38_digits_are_text(case: tuple[int, int, list[Decimal | None]]) -> None:
    precision, scale, numbers = case
    encoded = [None if n is None else decimal_bytes(n, precision, scale) for n in numbers]
    texts = [None if n is None else f"{n if n else n.copy_abs():f}" for n in numbers]
    assert read(make_column(ColumnType.NEWDECIMAL, bytes([precision, scale])), encoded) == texts


@pytest.mark.parametrize("precision", [9, 20, 45])
def test_decimal_with_ten_digits_in_a_group_is_damage(precision: int) -> None:
    value = bytearray(decimal_bytes(Decimal(5), precision, 0))
    value[-4:] = (10**9).to_bytes(4, "big")
    if precision == 9:
        value[-4] ^= 0x80
    with pytest.raises(CorruptError, match=r"shop\.orders\.c: value 0: .*digits"):
        read(make_column(ColumnType.NEWDECIMAL, bytes([precision, 0])), [bytes(value)])


@given(st.lists(st.none() | st.dates(), max_size=20))
def test_dates(days: list[datetime.date | None]) -> None:
    encoded = [None if d is None else date_bytes(d.year, d.month, d.day) for d in days]
    assert read(make_column(ColumnType.DATE), encoded) == days


@pytest.mark.parametrize(
    "day",
    [(0, 0, 0), (2024, 0, 1), (2024, 1, 0), (0, 1, 1), (2023, 2, 29), (1900, 2, 29), (2024, 2, 30), (2024, 4, 31)],
)
def test_day_that_is_in_no_calendar_is_null(day: tuple[int, int, int]) -> None:
    assert read(make_column(ColumnType.DATE), [date_bytes(2024, 2, 29), date_bytes(*day)])[1] is None
    packed = ((day[0] * 13 + day[1]) * 32 + day[2]) * 2**17 + 0x8000000000
    assert read(make_column(ColumnType.DATETIME2, b"\x00"), [packed.to_bytes(5, "big")]) == [None]


def test_month_13_is_damage() -> None:
    with pytest.raises(CorruptError, match=r"BAD_EVENT.*shop\.orders\.c"):
        read(make_column(ColumnType.DATE), [date_bytes(2024, 13, 1)])


def _micros(digits: int) -> st.SearchStrategy[int]:
    return st.integers(0, 10**digits - 1).map(lambda fraction: fraction * 10 ** (6 - digits))


@given(st.integers(0, 6), st.data())
@settings(max_examples=examples(200))
def test_datetimes(digits: int, data: st.DataObject) -> None:
    moments = data.draw(
        st.lists(st.builds(lambda d, us: d.replace(microsecond=us), st.datetimes(), _micros(digits)), max_size=10)
    )
    encoded = [datetime_bytes(moment, digits) for moment in moments]
    assert read(make_column(ColumnType.DATETIME2, bytes([digits])), encoded) == moments


@given(st.integers(0, 6), st.data())
def test_timestamps(digits: int, data: st.DataObject) -> None:
    cases = data.draw(st.lists(st.tuples(st.integers(1, 2**32 - 1), _micros(digits)), max_size=10))
    start = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    moments = [start + datetime.timedelta(seconds=s, microseconds=us) for s, us in cases]
    encoded = [timestamp_bytes(s, us, digits) for s, us in cases]
    assert read(make_column(ColumnType.TIMESTAMP2, bytes([digits])), encoded) == moments


def test_zero_timestamp_is_null() -> None:
    column = make_column(ColumnType.TIMESTAMP2, b"\x06")
    first = datetime.datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=datetime.UTC)
    assert read(column, [timestamp_bytes(0, 0, 6), timestamp_bytes(0, 1, 6)]) == [None, first]


@given(st.integers(0, 6), st.data())
@settings(max_examples=examples(200))
def test_times(digits: int, data: st.DataObject) -> None:
    part = st.integers(0, 59)
    cases = data.draw(
        st.lists(st.tuples(st.sampled_from([1, -1]), st.integers(0, 838), part, part, _micros(digits)), max_size=10)
    )
    texts = []
    for sign, hour, minute, second, micros in cases:
        is_negative = sign < 0 and (hour or minute or second or micros)
        fraction = f".{micros:06d}"[: digits + 1] if digits else ""
        texts.append(f"{'-' if is_negative else ''}{hour:02d}:{minute:02d}:{second:02d}{fraction}")
    encoded = [time_bytes(*case, digits) for case in cases]
    assert read(make_column(ColumnType.TIME2, bytes([digits])), encoded) == texts


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (ColumnType.DATETIME2, b"\x00" * 5),
        (ColumnType.DATETIME2, b"\xff" * 5),
        (ColumnType.TIME2, b"\xff" * 3),
        (ColumnType.TIME2, b"\x00" * 3),
    ],
)
def test_bytes_that_are_no_time_are_damage(type_: ColumnType, value: bytes) -> None:
    with pytest.raises(CorruptError, match=r"BAD_EVENT.*shop\.orders\.c: value 0: it is no date or time"):
        read(make_column(type_, b"\x00"), [value])


@pytest.mark.parametrize("prefix", [1, 2, 3, 4])
@given(st.lists(st.none() | st.text(max_size=50), max_size=10))
def test_utf8_texts(prefix: int, texts: list[str | None]) -> None:
    column = make_column(ColumnType.BLOB, bytes([prefix]), charset="utf8mb4")
    encoded = [None if t is None or len(t.encode()) > 255 else sized(t.encode(), prefix) for t in texts]
    wanted = [None if e is None else t for t, e in zip(texts, encoded, strict=True)]
    assert read(column, encoded) == wanted


@pytest.mark.parametrize(("metadata", "prefix"), [(b"\xff\x00", 1), (b"\x00\x01", 2), (b"\xdc\xff", 2)])
def test_varchar_size_has_two_bytes_from_256_on(metadata: bytes, prefix: int) -> None:
    column = make_column(ColumnType.VARCHAR, metadata, charset="ascii")
    assert read(column, [sized(b"abc", prefix), sized(b"", prefix)]) == ["abc", ""]


@pytest.mark.parametrize(
    ("size", "metadata", "prefix"),
    [(10, b"\xfe\x0a", 1), (255, b"\xfe\xff", 1), (256, b"\xee\x00", 2), (1020, b"\xce\xfc", 2)],
)
def test_char_hides_two_bits_of_its_size_in_its_type(size: int, metadata: bytes, prefix: int) -> None:
    column = make_column(ColumnType.STRING, metadata, charset="utf8mb4")
    assert column.size_max == size
    assert read(column, [sized(b"x" * size, prefix)]) == ["x" * size]


def test_every_byte_of_latin1() -> None:
    column = make_column(ColumnType.VARCHAR, b"\x00\x02", charset="latin1")
    wanted = "".join(chr(b) if b in (0x81, 0x8D, 0x8F, 0x90, 0x9D) else bytes([b]).decode("cp1252") for b in range(256))
    values = [sized(b"plain", 2), sized(bytes(range(256)), 2), None, sized("é€".encode("cp1252"), 2)]
    assert read(column, values) == ["plain", wanted, None, "é€"]


@given(st.lists(st.binary(max_size=12), max_size=6))
@settings(max_examples=examples(300))
def test_utf8_is_accepted_exactly_where_python_accepts_it(values: list[bytes]) -> None:
    encoded = [sized(value, 1) for value in values]
    column = make_column(ColumnType.TINY_BLOB, b"\x01", charset="utf8mb4")
    try:
        wanted = [value.decode() for value in values]
    except UnicodeDecodeError:
        with pytest.raises(UnsupportedError, match=r"INVALID_TEXT.*shop\.orders\.c: value \d+: .*are not utf8mb4"):
            read(column, encoded)
    else:
        assert read(column, encoded) == wanted


@pytest.mark.parametrize(
    "text",
    [
        b"\xc0\x80",
        b"\xc1\xbf",
        b"\xe0\x9f\xbf",
        b"\xed\xa0\x80",
        b"\xf0\x8f\xbf\xbf",
        b"\xf4\x90\x80\x80",
        b"\xf5\x80\x80\x80",
        b"\xe6\x97",
        b"\x80",
        b"ab\xff",
    ],
)
@pytest.mark.parametrize("charset", ["utf8mb3", "utf8mb4", "ascii"])
def test_text_in_another_character_set_is_refused(text: bytes, charset: str) -> None:
    column = make_column(ColumnType.VARCHAR, b"\x40\x00", charset=charset)
    with pytest.raises(UnsupportedError, match=rf"shop\.orders\.c: value 1: .*{text.hex()} are not {charset}"):
        read(column, [sized(b"good", 1), sized(text, 1)])


def test_character_of_four_bytes_is_refused_in_utf8mb3() -> None:
    text = sized("a😀".encode(), 1)
    assert read(make_column(ColumnType.VARCHAR, b"\x40\x00", charset="utf8mb4"), [text]) == ["a😀"]
    with pytest.raises(UnsupportedError, match="are not utf8mb3"):
        read(make_column(ColumnType.VARCHAR, b"\x40\x00", charset="utf8mb3"), [text])


def test_binary_gets_its_zeros_back() -> None:
    column = make_column(ColumnType.STRING, b"\xfe\x04", charset="binary")
    values = [sized(b"", 1), sized(b"\x01\x00\x02", 1), None, sized(b"abcd", 1)]
    assert read(column, values) == [bytes(4), b"\x01\x00\x02\x00", None, b"abcd"]


def test_binary_longer_than_declared_is_damage() -> None:
    column = make_column(ColumnType.STRING, b"\xfe\x04", charset="binary")
    with pytest.raises(CorruptError, match="value 1: it is longer than 4 bytes"):
        read(column, [sized(b"abcd", 1), sized(b"abcde", 1)])


@given(st.lists(st.none() | st.binary(max_size=300), max_size=10))
def test_varbinary(values: list[bytes | None]) -> None:
    column = make_column(ColumnType.VARCHAR, b"\x2c\x01", charset="binary")
    assert read(column, [None if v is None else sized(v, 2) for v in values]) == values


@pytest.mark.parametrize(("metadata", "size"), [(b"\xf7\x01", 1), (b"\xf7\x02", 2)])
def test_enums(metadata: bytes, size: int) -> None:
    column = make_column(ColumnType.ENUM, metadata, charset="utf8mb4", enum_values=("new", "日本", ""))
    values = [None if n is None else n.to_bytes(size, "little") for n in (1, 2, 3, 0, None)]
    assert read(column, values) == ["new", "日本", "", "", None]
    with pytest.raises(CorruptError, match="value 0: number 4 of 3 labels"):
        read(column, [(4).to_bytes(size, "little")])
    assert read(replace(make_column(ColumnType.ENUM, metadata), name=None), values) == ["1", "2", "3", "0", None]


def test_labels_that_no_server_has_take_no_memory() -> None:
    """A table map states what a byte of a row becomes: here each of them a mebibyte, three gigabytes in all."""
    column = make_column(ColumnType.ENUM, b"\xf7\1", charset="utf8mb4", enum_values=("x" * (1 << 20),))
    with pytest.raises(UnsupportedError, match="ROW_IMAGE"):
        read(column, [b"\1"] * 3000)
    assert len(read(column, [b"\1", None, b"\0"])) == 3


@given(st.integers(1, 64), st.data())
def test_sets(count: int, data: st.DataObject) -> None:
    size = next(size for size in (1, 2, 3, 4, 8) if count <= 8 * size)
    masks = data.draw(st.lists(st.none() | st.integers(0, 2**count - 1), max_size=8))
    labels = tuple(f"é{i}" for i in range(count))
    encoded = [None if m is None else m.to_bytes(size, "little") for m in masks]
    column = make_column(ColumnType.SET, bytes([248, size]), charset="utf8mb4", enum_values=labels)
    wanted = [None if m is None else ",".join(x for i, x in enumerate(labels) if m >> i & 1) for m in masks]
    assert read(column, encoded) == wanted
    numbers = [None if m is None else str(m) for m in masks]
    assert read(replace(make_column(ColumnType.SET, bytes([248, size])), name=None), encoded) == numbers


def test_sets_with_an_empty_label() -> None:
    """Servers write no comma after an empty label that is the first (MariaDB 10.1 to 11.8, MySQL 5.6 to 9.7)."""
    labels = ("x", "", "z")
    texts = ["", "x", "", "x,", "z", "x,z", "z", "x,,z"]
    column = make_column(ColumnType.SET, b"\xf8\x01", charset="utf8mb4", enum_values=labels)
    assert read(column, [bytes([mask]) for mask in range(8)]) == texts
    assert [set_text(label for bit, label in enumerate(labels) if mask >> bit & 1) for mask in range(8)] == texts


def test_set_bit_without_label_is_damage() -> None:
    column = make_column(ColumnType.SET, b"\xf8\x01", charset="utf8mb4", enum_values=("a", "b"))
    with pytest.raises(CorruptError, match="value 0: bits 0x4 of 2 labels"):
        read(column, [b"\x04"])


@pytest.mark.parametrize(
    "column",
    [
        make_column(ColumnType.DECIMAL),
        make_column(ColumnType.VARCHAR, b"\x10\x00", charset="collation 999"),
        make_column(ColumnType.BLOB_COMPRESSED, b"\x02", charset="collation 999"),
    ],
    ids=lambda column: f"{column.type.name}-{column.charset}",
)
def test_type_that_is_not_read_names_table_and_column(column: Column) -> None:
    with pytest.raises(UnsupportedError, match=r"COLUMN_TYPE.*shop\.orders\.c: columns of type .* are not read"):
        read(column, [b"\x01\x00\x00\x00\x00"])


def test_labels_that_are_no_text_are_named() -> None:
    column = make_column(ColumnType.ENUM, b"\xf7\x01", charset="gbk")
    with pytest.raises(
        UnsupportedError, match=r"COLUMN_TYPE.*shop\.orders\.c: the bytes of its labels are no text in gbk"
    ):
        read(column, [b"\x01"])


def test_labels_in_a_character_set_that_is_not_logged_are_named() -> None:
    column = make_column(ColumnType.ENUM, b"\xf7\x01")
    with pytest.raises(UnsupportedError, match=r"COLUMN_TYPE.*shop\.orders\.c: its labels are not ASCII"):
        read(column, [b"\x01"])


@pytest.mark.parametrize("charset", ["binary", "utf8mb4", "latin1"])
@pytest.mark.parametrize(
    ("type_", "metadata"),
    [
        (ColumnType.LONG, b""),
        (ColumnType.DOUBLE, b"\x08"),
        (ColumnType.NEWDECIMAL, b"\x0a\x02"),
        (ColumnType.NEWDECIMAL, b"\x1e\x02"),
        (ColumnType.NEWDECIMAL, b"\x40\x02"),
        (ColumnType.DATE, b""),
        (ColumnType.DATETIME2, b"\x03"),
        (ColumnType.TIMESTAMP2, b"\x03"),
        (ColumnType.TIME2, b"\x03"),
        (ColumnType.BLOB, b"\x04"),
        (ColumnType.STRING, b"\xfe\x04"),
        (ColumnType.ENUM, b"\xf7\x02"),
        (ColumnType.SET, b"\xf8\x08"),
        (ColumnType.BIT, b"\x00\x03"),
    ],
)
def test_value_that_starts_near_the_end_of_the_data_is_damage(type_: ColumnType, metadata: bytes, charset: str) -> None:
    """The kernels do not trust offsets, even though `read_images` has checked them."""
    column = make_column(type_, metadata, unsigned=False, charset=charset, enum_values=("a",))
    layout = TableLayout("shop", "orders", (column,), (), "", b"")
    with pytest.raises(CorruptError, match=r"shop\.orders\.c: value 0"):
        column_array(layout, 0, as_bytes(b"\x09"), np.array([0], dtype=np.int32))
