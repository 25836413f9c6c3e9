"""JSON rows are what Python's json module reads back."""

from __future__ import annotations

import base64
import json
import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_format.kernels import empty_bytes
from binlog_format.rows.json.json_rows import BinaryText, JsonRows, JsonStyle, json_column, json_lines

TEXTS = st.text(st.characters(codec="utf-8"), max_size=40)
INT64 = st.integers(-(2**63), 2**63 - 1)
FLOAT32 = st.floats(width=32, allow_nan=False, allow_infinity=False)
FLOAT64 = st.floats(allow_nan=False, allow_infinity=False)
MOMENTS = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999))  # noqa: DTZ001 - a DATETIME has no zone


def _rendered(values: pa.Array, style: JsonStyle | None = None) -> list[object]:
    batch = pa.record_batch([values], names=["x"])
    # str.splitlines would also split at U+2028 and others, which JSON lets stand.
    lines = bytes(json_lines(batch, {} if style is None else {"x": style})).decode().split("\n")
    assert lines.pop() == ""
    return [json.loads(line)["x"] for line in lines]


def _nullable(values: st.SearchStrategy[object]) -> st.SearchStrategy[list[object]]:
    return st.lists(st.none() | values, max_size=20)


@given(_nullable(TEXTS))
def test_text_comes_back(values: list[object]) -> None:
    assert _rendered(pa.array(values, pa.string())) == values


@given(_nullable(INT64))
def test_whole_numbers_come_back(values: list[object]) -> None:
    assert _rendered(pa.array(values, pa.int64())) == values


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.int32(), pa.int64()], ids=str)
def test_the_ends_of_every_integer_type_come_back(kind: pa.DataType) -> None:
    ends = np.iinfo(kind.to_pandas_dtype())
    values = [int(ends.min), -1, 0, None, 9, 10, int(ends.max)]
    assert _rendered(pa.array(values, kind)) == values


@given(_nullable(st.binary(max_size=30)))
def test_binary_comes_back_through_base64(values: list[object]) -> None:
    rendered = _rendered(pa.array(values, pa.binary()))
    assert [None if text is None else base64.b64decode(str(text), validate=True) for text in rendered] == values


@given(_nullable(st.binary(max_size=30)))
def test_binary_comes_back_through_other_forms(values: list[object]) -> None:
    column = pa.array(values, pa.binary())
    in_urls, in_hex = (_rendered(column, JsonStyle(binary=form)) for form in (BinaryText.BASE64_URL, BinaryText.HEX))
    expected = [None if value is None else base64.urlsafe_b64encode(value).decode() for value in values]  # type: ignore[arg-type]
    assert in_urls == expected
    assert in_hex == [None if value is None else value.hex() for value in values]  # type: ignore[attr-defined]


@given(st.data(), st.integers(1, 38))
def test_decimals_come_back_as_plain_digits(data: st.DataObject, precision: int) -> None:
    scale = data.draw(st.integers(0, precision))
    limit = 10**precision - 1
    unscaled = data.draw(st.lists(st.none() | st.integers(-limit, limit), max_size=20))
    values = [None if number is None else Decimal(f"{number}e-{scale}") for number in unscaled]
    expected = [None if value is None else f"{value:.{scale}f}" for value in values]
    assert _rendered(pa.array(values, pa.decimal128(precision, scale))) == expected


@given(_nullable(st.integers(0, 2**64 - 1)))
def test_unsigned_bigint_is_a_number(values: list[object]) -> None:
    decimals = [None if value is None else Decimal(int(str(value))) for value in values]
    assert _rendered(pa.array(decimals, pa.decimal128(20, 0)), JsonStyle(whole=True)) == values


@given(_nullable(FLOAT64))
def test_doubles_come_back_exactly(values: list[object]) -> None:
    assert _rendered(pa.array(values, pa.float64())) == values


@given(_nullable(FLOAT32))
def test_floats_come_back_exactly(values: list[object]) -> None:
    rendered = _rendered(pa.array(values, pa.float32()))
    assert [None if value is None else float(np.float32(value)) for value in rendered] == values  # type: ignore[arg-type]


def test_float_texts_are_the_shortest() -> None:
    batch = pa.record_batch([pa.array([0.1, 1.5, 3.4e38], pa.float32())], names=["x"])
    assert bytes(json_lines(batch, {})) == b'{"x":0.1}\n{"x":1.5}\n{"x":3.4e+38}\n'


def test_numbers_that_json_does_not_have_are_strings() -> None:
    assert _rendered(pa.array([math.inf, 1.0, None, -math.inf, math.nan])) == ["inf", 1.0, None, "-inf", "nan"]


@given(_nullable(st.dates(date(1, 1, 1), date(9999, 12, 31))))
def test_dates_come_back(values: list[object]) -> None:
    rendered = _rendered(pa.array(values, pa.date32()))
    assert [None if text is None else date.fromisoformat(str(text)) for text in rendered] == values


@given(_nullable(MOMENTS), st.integers(0, 6))
def test_timestamps_come_back_with_their_digits(values: list[object], digits: int) -> None:
    unit = timedelta(microseconds=10 ** (6 - digits))
    epoch = datetime(1970, 1, 1)  # noqa: DTZ001 - a DATETIME has no zone
    cut = [None if v is None else epoch + (v - epoch) // unit * unit for v in values]  # type: ignore[operator]
    rendered = _rendered(pa.array(cut, pa.timestamp("us")), JsonStyle(digits=digits))
    assert [None if text is None else datetime.fromisoformat(str(text)) for text in rendered] == cut
    assert {len(str(text)) for text in rendered if text is not None} <= {20 + digits if digits else 19}


def test_timestamps_with_a_zone_end_in_z() -> None:
    values = pa.array([datetime(2024, 1, 31, 12, 0, 0, 120000, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    assert _rendered(values, JsonStyle(digits=2)) == ["2024-01-31T12:00:00.12Z"]


@given(_nullable(st.lists(TEXTS, max_size=4)))
def test_lists_of_texts_come_back(values: list[object]) -> None:
    assert _rendered(pa.array(values, pa.list_(pa.string()))) == values


@given(_nullable(st.fixed_dictionaries({"a": st.none() | INT64, "b\n": st.none() | TEXTS})))
def test_structs_come_back(values: list[object]) -> None:
    kind = pa.struct([("a", pa.int64()), ("b\n", pa.string())])
    assert _rendered(pa.array(values, kind)) == values


def test_booleans_come_back() -> None:
    assert _rendered(pa.array([True, None, False])) == [True, None, False]


@given(st.lists(TEXTS, min_size=2, max_size=20), st.data())
def test_slices_of_arrays_come_back(values: list[str], data: st.DataObject) -> None:
    """Arrays that begin in the middle of their buffers are read from there."""
    start = data.draw(st.integers(0, len(values)))
    kind = pa.struct([("t", pa.string()), ("n", pa.int32()), ("l", pa.list_(pa.string())), ("d", pa.decimal128(9, 2))])
    rows = [{"t": text, "n": -len(text), "l": [text], "d": Decimal(len(text))} for text in values]
    expected = [{**row, "d": f"{row['d']:.2f}"} for row in rows[start:]]
    assert _rendered(pa.array(rows, kind).slice(start)) == expected


@given(
    st.lists(st.tuples(st.booleans(), st.none() | TEXTS, st.booleans(), st.none() | INT64), max_size=20), st.randoms()
)
def test_absent_columns_are_left_out_and_rows_stand_where_they_are_told(
    rows: list[tuple[bool, str | None, bool, int | None]], random: object
) -> None:
    texts = pa.array([row[1] for row in rows], pa.string())
    numbers = pa.array([row[3] for row in rows], pa.int64())
    columns = [
        json_column('na"me', texts, absent=np.array([row[0] for row in rows], dtype=np.bool_)),
        json_column("n", numbers, absent=np.array([row[2] for row in rows], dtype=np.bool_)),
    ]
    rendered = JsonRows(columns, len(rows))
    order = np.arange(len(rows), dtype=np.int64)
    random.shuffle(order)  # type: ignore[attr-defined]
    starts = np.empty(len(rows), dtype=np.int64)
    ends = np.cumsum(rendered.sizes[order])
    starts[order] = ends - rendered.sizes[order]
    out = empty_bytes(int(rendered.sizes.sum()))
    rendered.write(out, starts)
    for row, (no_text, text, no_number, number) in enumerate(rows):
        expected = ({} if no_text else {'na"me': text}) | ({} if no_number else {"n": number})
        line = bytes(out[starts[row] : starts[row] + rendered.sizes[row]]).decode()
        assert json.loads(line) == expected


@given(_nullable(st.lists(FLOAT32, max_size=5)))
def test_lists_of_floats_come_back(values: list[object]) -> None:
    rendered = _rendered(pa.array(values, pa.list_(pa.float32())))
    as_floats = [None if v is None else [float(np.float32(x)) for x in v] for v in rendered]  # type: ignore[attr-defined]
    assert as_floats == values


def test_floats_of_a_list_have_their_shortest_text() -> None:
    batch = pa.record_batch([pa.array([[0.1, -2.5, 3e38], None, [], [None]], pa.list_(pa.float32()))], names=["x"])
    assert bytes(json_lines(batch.slice(0, 3), {})) == b'{"x":[0.1,-2.5,3e+38]}\n{"x":null}\n{"x":[]}\n'
    assert bytes(json_lines(batch.slice(1, 2), {})) == b'{"x":null}\n{"x":[]}\n'


def test_negative_zero_keeps_its_sign() -> None:
    for kind in (pa.float32(), pa.float64()):
        rendered = _rendered(pa.array([-0.0, 0.0, None, 1.0], kind))
        assert [str(value) for value in rendered] == ["-0.0", "0", "None", "1"]
    assert _rendered(pa.array([[-0.0]], pa.list_(pa.float32()))) == [[-0.0]]


def test_geometry_is_srid_and_base64() -> None:
    kind = pa.struct([("srid", pa.int32()), ("wkb", pa.binary())])
    values = pa.array([{"srid": 4326, "wkb": b"\x01\x02\x03"}, None, {"srid": 0, "wkb": b""}], kind)
    assert _rendered(values) == [{"srid": 4326, "wkb": "AQID"}, None, {"srid": 0, "wkb": ""}]
