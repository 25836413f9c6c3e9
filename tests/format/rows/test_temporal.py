"""Dates and times: what a reader can choose, and the formats of `mysql56_temporal_format=OFF`."""

from __future__ import annotations

import datetime
import gzip
import json
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_format.errors import CorruptError, SchemaError, UnsupportedError
from binlog_format.events.table_map_layout import ColumnType
from binlog_format.rows.column_types import value_widths
from binlog_format.rows.decoding import Decoding, TimeType, ZeroDates
from binlog_format.rows.images import ImageKind, read_images
from binlog_format.rows.table_events import TableMaps
from tests.chance import examples
from tests.corpus import SERVER_CASES
from tests.format.rows.columns import make_column, read, read_array
from tests.format.rows.plain_blocks import plain_block, plain_groups
from tests.format.rows.plain_rows import date_bytes, datetime_bytes, time_bytes, timestamp_bytes
from tests.format.rows.server_truth import expected_value

if TYPE_CHECKING:
    from binlog_format.events.table_map import TableLayout

MICROS = Decoding(time_type=TimeType.MICROS)
STRICT = Decoding(zero_dates=ZeroDates.ERROR)
OLD_WIDTHS = {"TIME": (3, 4, 4, 5, 5, 5, 6), "DATETIME": (8, 6, 6, 7, 7, 7, 8), "TIMESTAMP": (4, 5, 5, 6, 6, 7, 7)}
UNITS = (1_000_000, 100_000, 10_000, 1_000, 100, 10, 1)
"""Microseconds of the last of so many digits of a fraction."""

TIME_ZERO = (838 * 3600 + 59 * 60 + 59 + 1) * 1_000_000


def old_column(name: str, digits: int) -> Any:
    return make_column(ColumnType[name], declared=f"{name.lower()}({digits})" if digits else name.lower())


def old_time(micros: int, digits: int) -> bytes:
    if not digits:
        sign, seconds = (-1 if micros < 0 else 1), abs(micros) // 1_000_000
        number = sign * (seconds // 3600 * 10_000 + seconds // 60 % 60 * 100 + seconds % 60)
        return number.to_bytes(3, "little", signed=True)
    unit = UNITS[digits]
    return ((micros + TIME_ZERO) // unit).to_bytes(OLD_WIDTHS["TIME"][digits], "big")


def old_datetime(parts: tuple[int, ...], digits: int) -> bytes:
    year, month, day, hour, minute, second, micros = parts
    if not digits:
        return int(f"{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}").to_bytes(8, "little")
    packed = (((((year * 13 + month) * 32 + day) * 24 + hour) * 60 + minute) * 60 + second) * 1_000_000 + micros
    return (packed // UNITS[digits]).to_bytes(OLD_WIDTHS["DATETIME"][digits], "big")


def old_timestamp(seconds: int, micros: int, digits: int) -> bytes:
    if not digits:
        return seconds.to_bytes(4, "little")
    return seconds.to_bytes(4, "big") + (micros // UNITS[digits]).to_bytes((digits + 1) // 2, "big")


def time_text(micros: int, digits: int) -> str:
    seconds, fraction = divmod(abs(micros), 1_000_000)
    text = f"{'-' if micros < 0 else ''}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return text + (f".{fraction:06}"[: digits + 1] if digits else "")


def times(digits: int) -> st.SearchStrategy[int]:
    unit = UNITS[digits]
    return st.integers(-(TIME_ZERO // unit - 1), TIME_ZERO // unit - 1).map(lambda number: number * unit)


@given(st.integers(0, 6), st.data())
@settings(max_examples=examples(150))
def test_old_times(digits: int, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.none() | times(digits), max_size=8))
    encoded = [None if v is None else old_time(v, digits) for v in values]
    wanted = [None if v is None else time_text(v, digits) for v in values]
    assert read(old_column("TIME", digits), encoded) == wanted
    assert read(old_column("TIME", digits), encoded, MICROS) == values


@given(st.integers(0, 6), st.lists(st.none() | st.datetimes(), max_size=8))
@settings(max_examples=examples(150))
def test_old_datetimes(digits: int, values: list[datetime.datetime | None]) -> None:
    unit = UNITS[digits]
    wanted = [None if v is None else v.replace(microsecond=v.microsecond // unit * unit) for v in values]
    encoded = [None if v is None else old_datetime((*v.timetuple()[:6], v.microsecond), digits) for v in wanted]
    assert read(old_column("DATETIME", digits), encoded) == wanted


@given(st.integers(0, 6), st.lists(st.tuples(st.integers(1, 2**32 - 1), st.integers(0, 999_999)), max_size=8))
def test_old_timestamps(digits: int, values: list[tuple[int, int]]) -> None:
    unit = UNITS[digits]
    start = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    wanted = [start + datetime.timedelta(seconds=s, microseconds=us // unit * unit) for s, us in values]
    encoded = [old_timestamp(s, us, digits) for s, us in values]
    assert read(old_column("TIMESTAMP", digits), encoded) == wanted


@pytest.mark.parametrize("digits", range(7))
def test_old_zero_and_partial_dates_are_null(digits: int) -> None:
    column = old_column("DATETIME", digits)
    values = [old_datetime(parts, digits) for parts in ((0,) * 7, (2024, 0, 1, 1, 2, 3, 0), (2023, 2, 29, 0, 0, 0, 0))]
    assert read(column, values) == [None, None, None]
    assert read(old_column("TIMESTAMP", digits), [old_timestamp(0, 0, digits)]) == [None]
    with pytest.raises(UnsupportedError, match=r"ZERO_DATE\] shop\.orders\.c: value 0: "):
        read(column, values, STRICT)


@pytest.mark.parametrize("name", OLD_WIDTHS)
def test_old_type_without_a_schema_is_refused(name: str) -> None:
    """Nothing records how many bytes a value has; that there are no digits is not assumed."""
    for declared in (None, "int", "date", f"{name.lower()}(7)"):
        with pytest.raises(SchemaError, match=rf"NO_COLUMN_METADATA\] shop\.orders\.c.*{name}.*schema file"):
            read(make_column(ColumnType[name], declared=declared), [])


@pytest.mark.parametrize("digits", range(7))
@pytest.mark.parametrize("name", OLD_WIDTHS)
def test_old_values_have_the_width_of_their_digits(name: str, digits: int) -> None:
    from binlog_format.events.table_map import TableLayout

    layout = TableLayout("shop", "orders", (old_column(name, digits),), (), "", b"")
    assert value_widths(layout).tolist() == [OLD_WIDTHS[name][digits]]
    with pytest.raises(CorruptError, match="value 0"):
        read(old_column(name, digits), [bytes(OLD_WIDTHS[name][digits] - 1)])


@pytest.mark.parametrize(
    ("column", "value"),
    [
        (old_column("TIME", 0), (8385960).to_bytes(3, "little", signed=True)),
        (old_column("TIME", 0), (-6000).to_bytes(3, "little", signed=True)),
        (old_column("TIME", 3), b"\xff" * 5),
        (old_column("TIME", 3), b"\x00" * 5),
        (old_column("DATETIME", 0), (20241301000000).to_bytes(8, "little")),
        (old_column("DATETIME", 0), (20240101240000).to_bytes(8, "little")),
        (old_column("DATETIME", 0), b"\xff" * 8),
        (old_column("DATETIME", 6), b"\xff" * 8),
        (old_column("DATETIME", 3), b"\xff" * 7),
        (old_column("TIMESTAMP", 3), b"\x00\x00\x00\x01\xff\xff"),
    ],
)
def test_old_bytes_that_are_no_time_are_damage(column: Any, value: bytes) -> None:
    with pytest.raises(CorruptError, match="value 0: it is no date or time"):
        read(column, [value])


def declared_layout(layout: TableLayout, columns: list[dict[str, str]]) -> TableLayout:
    assert len(columns) == len(layout.columns)
    told = [
        replace(column, declared=said["column_type"].split(" /*")[0], name=said["name"], unsigned=False)
        for column, said in zip(layout.columns, columns, strict=True)
    ]
    return replace(layout, columns=tuple(told))


def test_old_types_of_a_server() -> None:
    case = SERVER_CASES / "mariadb-10.11" / "types_oldtemporal"
    truth = json.loads(gzip.decompress((case / "expected.json.gz").read_bytes()))
    schemas = {s["table"]: s["columns"] for s in reversed(truth["schemas"]) if not s.get("dropped")}
    wanted: dict[str, list[Any]] = {}
    for change in truth["changes"]:
        for row in (change["before"], change["after"]):
            if row is not None:
                wanted.setdefault(change["table"], []).append(row)
    block = plain_block(plain_groups(case / "mysql-bin.000001"))
    compared = old = 0
    for touched in TableMaps().resolve(block):
        if not {c.type.name for c in touched.layout.columns} & set(OLD_WIDTHS):
            continue
        old += 1
        columns = schemas[touched.layout.full_name]
        layout = declared_layout(touched.layout, columns)
        images = read_images(block.data, block.events, touched.events, layout)
        arrays = [images.column(i).to_pylist() for i in range(len(columns))]
        assert len(images.table) <= len(wanted[layout.full_name])
        for index in range(len(images.table)):
            row = wanted[layout.full_name][index]
            assert [a[index] for a in arrays] == [expected_value(v, c) for v, c in zip(row, columns, strict=True)]
            compared += len(columns)
        assert set(images.table["kind"].tolist()) <= set(ImageKind)
    assert old == 3
    assert compared > 100


# --- what a reader can choose ----------------------------------------------------------------------------------------


@given(st.integers(0, 6), st.data())
def test_times_as_microseconds(digits: int, data: st.DataObject) -> None:
    values = data.draw(st.lists(times(digits), max_size=8))
    encoded = []
    for value in values:
        seconds, micros = divmod(abs(value), 1_000_000)
        sign = -1 if value < 0 else 1
        encoded.append(time_bytes(sign, seconds // 3600, seconds // 60 % 60, seconds % 60, micros, digits))
    column = make_column(ColumnType.TIME2, bytes([digits]))
    array = read_array(column, [*encoded, None], MICROS)
    assert array.type == pa.int64()
    assert array.to_pylist() == [*values, None]
    assert read(column, encoded) == [time_text(value, digits) for value in values]


def test_negative_time_keeps_its_sign() -> None:
    """Peers stop, or make 03:29:08 of it."""
    value = time_bytes(-1, 12, 34, 56, 0, 0)
    column = make_column(ColumnType.TIME2, b"\x00")
    assert read(column, [value]) == ["-12:34:56"]
    assert read(column, [value], MICROS) == [-(12 * 3600 + 34 * 60 + 56) * 1_000_000]
    assert read(make_column(ColumnType.TIME2, b"\x03"), [time_bytes(-1, 0, 0, 0, 500_000, 3)]) == ["-00:00:00.500"]


def test_timestamps_reach_2106() -> None:
    last = datetime.datetime(2106, 2, 7, 6, 28, 15, tzinfo=datetime.UTC)
    assert read(make_column(ColumnType.TIMESTAMP2, b"\x00"), [timestamp_bytes(2**32 - 1, 0, 0)]) == [last]


@pytest.mark.parametrize(
    ("column", "good", "zero"),
    [
        (make_column(ColumnType.DATE), date_bytes(2024, 1, 31), date_bytes(0, 0, 0)),
        (make_column(ColumnType.DATE), date_bytes(2024, 1, 31), date_bytes(2024, 1, 0)),
        (
            make_column(ColumnType.DATETIME2, b"\x00"),
            datetime_bytes(datetime.datetime(2024, 1, 31, 12), 0),  # noqa: DTZ001 - a DATETIME has no zone
            (0x8000000000).to_bytes(5, "big"),
        ),
        (make_column(ColumnType.TIMESTAMP2, b"\x00"), timestamp_bytes(1, 0, 0), timestamp_bytes(0, 0, 0)),
    ],
)
def test_zero_dates_are_null_or_an_error(column: Any, good: bytes, zero: bytes) -> None:
    assert read(column, [None, good, zero])[2] is None
    assert read(column, [None, good], STRICT)[1] is not None
    with pytest.raises(UnsupportedError) as raised:
        read(column, [None, good, zero], STRICT)
    assert raised.value.condition == "BINLOG_UNSUPPORTED.ZERO_DATE"
    assert "shop.orders.c: value 2: a zero or partial date" in str(raised.value)


def test_old_values_are_exact_decimals_of_their_unit() -> None:
    """The last digit of a fraction is the unit: nothing is rounded."""
    for digits in range(1, 7):
        micros = int(Decimal("1.123456") * 10**6) // UNITS[digits] * UNITS[digits]
        assert read(old_column("TIME", digits), [old_time(-micros, digits)], MICROS) == [-micros]
