"""Values of columns in messages are what the same Python values give one by one, for every type and mode."""

from __future__ import annotations

import datetime
import json
import traceback
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_connector.envelope.connect_values import connect_column
from binlog_connector.envelope.options import (
    CURRENT_MESSAGES,
    FIRST_MESSAGES,
    BinaryHandling,
    DecimalHandling,
    EnvelopeOptions,
    TimePrecision,
    UnsignedBigintHandling,
)
from binlog_format.errors import UnsupportedError
from binlog_format.events.table_map import Column, TableLayout
from binlog_format.events.table_map_layout import ColumnType as T
from binlog_format.kernels import empty_bytes
from binlog_format.messages import HIDDEN, SHOW_VALUES
from binlog_format.rows.columns import arrow_type
from binlog_format.rows.decoding import Decoding, TimeType, ZeroDates
from binlog_format.rows.json.json_rows import JsonRows, json_column
from tests.chance import examples
from tests.connector.envelope.naive_values import message_value

TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
DATES = st.dates(datetime.date(1, 1, 1))
MOMENTS = st.datetimes(datetime.datetime(1, 1, 1))  # noqa: DTZ001 - a DATETIME has no zone
ZONED = st.datetimes(datetime.datetime(1970, 1, 1), timezones=st.just(datetime.UTC))  # noqa: DTZ001 - as Hypothesis asks
UUID = st.uuids().map(str)
MODES = [
    EnvelopeOptions("p"),
    EnvelopeOptions(
        "p",
        decimal_handling=DecimalHandling.DOUBLE,
        unsigned_bigint_handling=UnsignedBigintHandling.PRECISE,
        binary_handling=BinaryHandling.BASE64,
        time_precision=TimePrecision.CONNECT,
    ),
    EnvelopeOptions(
        "p",
        decimal_handling=DecimalHandling.STRING,
        binary_handling=BinaryHandling.BASE64_URL_SAFE,
        time_precision=TimePrecision.MICROSECONDS,
    ),
    EnvelopeOptions("p", binary_handling=BinaryHandling.HEX, time_precision=TimePrecision.NANOSECONDS),
    EnvelopeOptions("p", time_precision=TimePrecision.ISOSTRING, version=FIRST_MESSAGES),
]


def _column(type_: T, low: int = 0, high: int = 0, **details: Any) -> Column:
    return Column("c", type_, low | high << 8, nullable=True, **details)


def _ints(bits: int, *, unsigned: bool = False) -> st.SearchStrategy[int]:
    return st.integers(0, 2**bits - 1) if unsigned else st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    limit = 10**precision - 1
    return st.integers(-limit, limit).map(lambda number: Decimal(f"{number}e-{scale}"))


def _wkb_point(point: tuple[str, float, float]) -> bytes:
    order, x, y = point
    head = b"\1" + (1).to_bytes(4, "little") if order == "<" else b"\0" + (1).to_bytes(4, "big")
    return head + np.array([x, y], dtype=f"{order}f8").tobytes()


def _geometry(is_point: bool) -> st.SearchStrategy[dict[str, Any]]:
    axis = st.floats(allow_nan=False, allow_infinity=False)
    points = st.tuples(st.sampled_from("<>"), axis, axis).map(_wkb_point)
    wkb = points if is_point else st.binary(max_size=40)
    return st.fixed_dictionaries({"srid": st.integers(0, 2**31 - 1), "wkb": wkb})


CASES: dict[str, tuple[Column, st.SearchStrategy[Any]]] = {
    "tinyint": (_column(T.TINY, unsigned=False), _ints(8)),
    "tinyint unsigned": (_column(T.TINY, unsigned=True), _ints(8, unsigned=True)),
    "smallint unsigned": (_column(T.SHORT, unsigned=True), _ints(16, unsigned=True)),
    "mediumint": (_column(T.INT24, unsigned=False), _ints(24)),
    "int": (_column(T.LONG, unsigned=False), _ints(32)),
    "int unsigned": (_column(T.LONG, unsigned=True), _ints(32, unsigned=True)),
    "bigint": (_column(T.LONGLONG, unsigned=False), _ints(64)),
    "bigint unsigned": (_column(T.LONGLONG, unsigned=True), _ints(63, unsigned=True)),
    "year": (_column(T.YEAR), st.integers(1901, 2155)),
    "bit(1)": (_column(T.BIT, 1), st.booleans()),
    "bit(13)": (_column(T.BIT, 5, 1), _ints(13, unsigned=True)),
    "bit(64)": (_column(T.BIT, 0, 8), _ints(64, unsigned=True)),
    "float": (_column(T.FLOAT, 4), st.floats(width=32, allow_nan=False, allow_infinity=False)),
    "double": (_column(T.DOUBLE, 8), st.floats(allow_nan=False, allow_infinity=False)),
    "decimal(10,2)": (_column(T.NEWDECIMAL, 10, 2), _decimals(10, 2)),
    "decimal(38,0)": (_column(T.NEWDECIMAL, 38, 0), _decimals(38, 0)),
    "decimal(65,30)": (_column(T.NEWDECIMAL, 65, 30), _decimals(65, 30)),
    "date": (_column(T.DATE), DATES),
    "datetime": (_column(T.DATETIME2, 0), MOMENTS.map(lambda moment: moment.replace(microsecond=0))),
    "datetime(6)": (_column(T.DATETIME2, 6), MOMENTS),
    "timestamp": (_column(T.TIMESTAMP2, 0), ZONED.map(lambda moment: moment.replace(microsecond=0))),
    "timestamp(6)": (_column(T.TIMESTAMP2, 6), ZONED),
    "time(6)": (_column(T.TIME2, 6), st.integers(-3_020_399_999_999, 3_020_399_999_999)),
    "varchar": (_column(T.VARCHAR, 200, charset="utf8mb4"), TEXT),
    "enum": (_column(T.ENUM, 247, 1, charset="utf8mb4", enum_values=("a", "b,")), st.sampled_from(["a", "b,", ""])),
    "set": (_column(T.SET, 248, 1, charset="utf8mb4", enum_values=("x", "y")), st.sampled_from(["", "x", "x,y"])),
    "varbinary": (_column(T.VARCHAR, 200, charset="binary"), st.binary(max_size=20)),
    "json": (_column(T.JSON, 4), st.just('{"a": [1, "é"]}')),
    "geometry": (_column(T.GEOMETRY, 4), _geometry(is_point=False)),
    "point": (_column(T.GEOMETRY, 4, geometry_type=1), _geometry(is_point=True)),
    "vector": (_column(T.VECTOR, 4), st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), max_size=4)),
    "uuid": (_column(T.STRING, 254, 16, charset="binary", declared="uuid"), UUID),
    "inet6": (_column(T.STRING, 254, 16, charset="binary", declared="inet6"), st.just("::1")),
}


def arrow_kind(column: Column) -> pa.DataType:
    layout = TableLayout("shop", "orders", (column,), (), "", b"")
    return arrow_type(layout, 0, Decoding(time_type=TimeType.MICROS))


def column_array(column: Column, values: list[Any]) -> pa.Array:
    kind = arrow_kind(column)
    if pa.types.is_string(kind) and column.type is T.NEWDECIMAL:
        values = [None if value is None else f"{value:f}" for value in values]
    elif pa.types.is_decimal(kind):
        values = [None if value is None else Decimal(value) for value in values]
    return pa.array(values, kind)


def _connect(column: Column, options: EnvelopeOptions, zero_dates: ZeroDates = ZeroDates.NULL) -> Any:
    layout = TableLayout("shop", "orders", (column,), (), "", b"")
    return connect_column(layout, 0, arrow_kind(column), options, zero_dates)


def _written(column: Column, values: list[Any], options: EnvelopeOptions) -> list[str]:
    connect = _connect(column, options)
    converted = connect.values(column_array(column, values))
    converted.validate(full=True)
    rows = JsonRows([json_column("c", converted, style=connect.style)], len(values))
    ends = np.cumsum(rows.sizes)
    out = empty_bytes(int(ends[-1]) if len(values) else 0)
    rows.write(out, ends - rows.sizes)
    return [bytes(out[end - size : end]).decode() for end, size in zip(ends, rows.sizes, strict=True)]


def fits(column: Column, value: Any, options: EnvelopeOptions) -> bool:
    """Whether the mode's type holds the value; what happens else is another test's."""
    if isinstance(value, datetime.datetime) and options.time_precision is TimePrecision.NANOSECONDS:
        return value.tzinfo is not None or 1678 <= value.year <= 2261
    of_day = (TimePrecision.CONNECT, TimePrecision.ISOSTRING)
    is_time = column.type is T.TIME2 and options.time_precision in of_day
    return not is_time or value is None or 0 <= value < 86_400_000_000


@pytest.mark.parametrize("options", MODES, ids=lambda mode: f"{mode.decimal_handling}-{mode.time_precision}")
@pytest.mark.parametrize("name", CASES)
@settings(max_examples=examples(40))
@given(data=st.data())
def test_values_are_those_of_json_dumps(name: str, options: EnvelopeOptions, data: st.DataObject) -> None:
    column, strategy = CASES[name]
    fitting = strategy.filter(lambda value: fits(column, value, options))
    values = data.draw(st.lists(st.none() | fitting, max_size=6))
    expected = [{"c": message_value(column, value, options)} for value in values]
    written = _written(column, values, options)
    is_double = column.type is T.NEWDECIMAL and options.decimal_handling is DecimalHandling.DOUBLE
    if is_double or column.type in (T.FLOAT, T.DOUBLE, T.VECTOR, T.GEOMETRY):
        # Texts of a float are many; they are read as the same number.
        assert [json.loads(text) for text in written] == expected
    else:
        assert written == [json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in expected]


@pytest.mark.parametrize("name", CASES)
def test_schemas_say_the_type_and_the_name(name: str) -> None:
    column, _ = CASES[name]
    schema = _connect(column, EnvelopeOptions("p")).schema
    assert schema["field"] == "c"
    assert schema["optional"] is True
    expected = {
        "tinyint": ("int16", None),
        "tinyint unsigned": ("int16", None),
        "smallint unsigned": ("int32", None),
        "mediumint": ("int32", None),
        "int": ("int32", None),
        "int unsigned": ("int64", None),
        "bigint": ("int64", None),
        "bigint unsigned": ("int64", None),
        "year": ("int32", "io.debezium.time.Year"),
        "bit(1)": ("boolean", None),
        "bit(13)": ("bytes", "io.debezium.data.Bits"),
        "bit(64)": ("bytes", "io.debezium.data.Bits"),
        "float": ("float", None),
        "double": ("double", None),
        "date": ("int32", "io.debezium.time.Date"),
        "datetime": ("int64", "io.debezium.time.Timestamp"),
        "datetime(6)": ("int64", "io.debezium.time.MicroTimestamp"),
        "timestamp": ("string", "io.debezium.time.ZonedTimestamp"),
        "timestamp(6)": ("string", "io.debezium.time.ZonedTimestamp"),
        "time(6)": ("int64", "io.debezium.time.MicroTime"),
        "enum": ("string", "io.debezium.data.Enum"),
        "set": ("string", "io.debezium.data.EnumSet"),
        "varbinary": ("bytes", None),
        "json": ("string", "io.debezium.data.Json"),
        "geometry": ("struct", "io.debezium.data.geometry.Geometry"),
        "point": ("struct", "io.debezium.data.geometry.Point"),
        "vector": ("array", "io.debezium.data.FloatVector"),
        "uuid": ("string", "io.debezium.data.Uuid"),
    }
    decimal = ("bytes", "org.apache.kafka.connect.data.Decimal")
    plain = decimal if name.startswith("decimal") else ("string", None)
    assert (schema["type"], schema.get("name")) == expected.get(name, plain)


def test_a_point_that_statements_declare_is_one_as_of_the_second_version() -> None:
    declared = _column(T.GEOMETRY, 4, declared="point")
    names = [_connect(declared, EnvelopeOptions("p", version=at)).schema["name"] for at in (FIRST_MESSAGES, 2)]
    assert [name.rpartition(".")[2] for name in names] == ["Geometry", "Point"]


def test_parameters_say_scale_length_and_labels() -> None:
    options = EnvelopeOptions("p")
    parameters = {name: _connect(column, options).schema.get("parameters") for name, (column, _) in CASES.items()}
    assert parameters["decimal(65,30)"] == {"scale": "30", "connect.decimal.precision": "65"}
    assert parameters["bit(13)"] == {"length": "13"}
    assert parameters["enum"] == {"allowed": r"a,b\,"}
    assert parameters["set"] == {"allowed": "x,y"}
    first = EnvelopeOptions("p", version=FIRST_MESSAGES)
    assert _connect(CASES["enum"][0], first).schema["parameters"] == {"allowed": "a,b,"}


def test_a_date_that_can_be_zero_is_optional_in_a_column_that_cannot_be_null() -> None:
    column = Column("c", T.DATE, 0, nullable=False)
    assert _connect(column, EnvelopeOptions("p"), ZeroDates.NULL).schema["optional"] is True
    assert _connect(column, EnvelopeOptions("p"), ZeroDates.ERROR).schema["optional"] is False


@pytest.mark.parametrize("version", [FIRST_MESSAGES, 2, CURRENT_MESSAGES])
@pytest.mark.parametrize("nullable", [False, True])
def test_a_date_of_a_key_is_optional_where_it_can_be_null(version: int, *, nullable: bool) -> None:
    """As in keys of Debezium, from version 3 on; jobs that began before keep the bytes of their keys."""
    column = Column("c", T.DATE, 0, nullable=nullable)
    made = _connect(column, EnvelopeOptions("p", version=version), ZeroDates.NULL)
    assert made.schema["optional"] is True
    assert made.key_schema == {**made.schema, "optional": nullable or version < 3}


@pytest.mark.parametrize(
    ("name", "value", "options"),
    [
        ("bigint unsigned", 2**63 + 77, MODES[0]),
        ("time(6)", -77, MODES[1]),
        ("time(6)", 86_400_000_077, MODES[1]),
        ("datetime(6)", datetime.datetime(2277, 1, 1), MODES[3]),  # noqa: DTZ001 - a DATETIME has no zone
        ("datetime(6)", datetime.datetime(1577, 1, 1), MODES[3]),  # noqa: DTZ001 - a DATETIME has no zone
        ("point", {"srid": 0, "wkb": b"\1"}, MODES[0]),
    ],
)
@pytest.mark.parametrize("shown", [False, True])
def test_a_value_that_the_type_does_not_hold_is_an_error(
    name: str, value: Any, options: EnvelopeOptions, shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SHOW_VALUES, str(int(shown)))
    column, _ = CASES[name]
    with pytest.raises(UnsupportedError, match=r"MESSAGE_VALUE\] shop.orders.c: value 1: ") as caught:
        _connect(column, options).values(column_array(column, [None, value]))
    assert caught.value.hint
    if name != "point":  # whose bytes are never shown
        printed = "".join(traceback.format_exception(caught.value, chain=True))
        assert (str(value)[:10] in printed, HIDDEN in printed) == (shown, not shown)


def test_slices_of_arrays_are_read_from_their_start() -> None:
    for name in ("decimal(10,2)", "decimal(65,30)", "bit(13)", "datetime", "bigint unsigned"):
        column, _ = CASES[name]
        values: list[Any] = [Decimal("1.00"), Decimal("2.00"), None] if name.startswith("decimal") else [1, 2, None]
        if name == "datetime":
            values = [datetime.datetime(2024, 1, day) for day in (1, 2)] + [None]  # noqa: DTZ001
        connect = _connect(column, EnvelopeOptions("p"))
        whole = connect.values(column_array(column, values)).to_pylist()
        assert connect.values(column_array(column, values).slice(1)).to_pylist() == whole[1:]
