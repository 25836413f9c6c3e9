"""What a message holds of a column comes back from it as it was, for every type."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json as pj
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from binlog_connector.envelope.connect_values import connect_column
from binlog_connector.envelope.options import EnvelopeOptions, TimePrecision, UnsignedBigintHandling
from binlog_connector.kafka_decode.connect_columns import (
    MessageError,
    bytes_of,
    decimals_of,
    json_type,
    received_column,
    unsigned_of,
)
from binlog_format.errors import UnsupportedError
from binlog_format.events.table_map import Column, TableLayout
from binlog_format.kernels import empty_bytes
from binlog_format.rows.columns import arrow_type
from binlog_format.rows.decoding import Decoding, TimeType, ZeroDates
from binlog_format.rows.json.json_rows import JsonRows, json_column
from tests.chance import examples
from tests.connector.envelope.test_connect_values import CASES, column_array, fits

MODES = [
    EnvelopeOptions("p", unsigned_bigint_handling=UnsignedBigintHandling.PRECISE),
    EnvelopeOptions("p", time_precision=TimePrecision.MICROSECONDS),
    EnvelopeOptions("p", time_precision=TimePrecision.NANOSECONDS),
]
WIDER = {
    "tinyint": pa.int16(),
    "bigint unsigned": pa.int64(),  # bigint.unsigned.handling.mode=long
}
"""Types that a schema does not tell from wider ones."""


def _layout(column: Column) -> TableLayout:
    return TableLayout("shop", "orders", (column,), (), "", b"")


def _sent(column: Column, values: pa.Array, options: EnvelopeOptions) -> tuple[dict[str, Any], bytes]:
    """The schema of a column in a message, and lines with its values."""
    connect = connect_column(_layout(column), 0, values.type, options, ZeroDates.NULL)
    rows = JsonRows([json_column("c", connect.values(values), style=connect.style)], len(values))
    ends = np.cumsum(rows.sizes + 1)
    out = empty_bytes(int(ends[-1]))
    rows.write(out, ends - rows.sizes - 1)
    out[ends - 1] = ord("\n")
    return connect.schema, out.tobytes()


@pytest.mark.parametrize("options", MODES, ids=lambda mode: f"{mode.time_precision}")
@pytest.mark.parametrize("name", CASES)
@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.filter_too_much])  # few years fit nanoseconds
@given(data=st.data())
def test_values_come_back(name: str, options: EnvelopeOptions, data: st.DataObject) -> None:
    column, strategy = CASES[name]
    fitting = strategy.filter(lambda value: fits(column, value, options))
    values = column_array(column, data.draw(st.lists(st.none() | fitting, min_size=1, max_size=6)))
    schema, text = _sent(column, values, options)
    read = pj.read_json(
        io.BytesIO(text), parse_options=pj.ParseOptions(explicit_schema=pa.schema([("c", json_type(schema))]))
    )
    received = received_column(schema)
    found = received.values(read.column("c").combine_chunks())
    found.validate(full=True)
    assert found.type == arrow_type(_layout(received.column), 0, Decoding(time_type=TimeType.TEXT))
    is_wider = name in WIDER and options.unsigned_bigint_handling is UnsignedBigintHandling.LONG
    assert found.type == (WIDER[name] if is_wider or name == "tinyint" else values.type)
    assert found.cast(values.type).to_pylist() == values.to_pylist()
    assert received.column.name == "c"


def test_a_type_that_nobody_publishes_is_refused() -> None:
    for schema in ({"type": "map"}, {"type": "int32", "name": "io.debezium.time.Unheard"}, {"type": "struct"}):
        with pytest.raises(UnsupportedError, match=r"COLUMN_TYPE.*column c of type"):
            received_column({"field": "c", **schema})
    with pytest.raises(UnsupportedError, match="COLUMN_TYPE"):
        json_type({"field": "c", "type": "map"})


@pytest.mark.parametrize("text", ["A", "AAA", "AA=A", "A===", "AA-A", "====", "AAAA=", "é==="])
def test_what_is_not_base64_is_named(text: str) -> None:
    with pytest.raises(MessageError, match="not base64") as raised:
        bytes_of(pa.array(["AAAA", None, text, "!"]))
    assert raised.value.row == 2


@given(st.lists(st.none() | st.binary(max_size=9), max_size=5), st.integers(0, 2))
def test_bytes_come_back_from_base64(values: list[bytes | None], start: int) -> None:
    from base64 import b64encode

    texts = pa.array([None if value is None else b64encode(value).decode() for value in values], pa.string())
    assert bytes_of(texts[start:]).to_pylist() == values[start:]


def test_numbers_that_do_not_fit_are_named() -> None:
    with pytest.raises(MessageError, match="more than 16 bytes"):
        decimals_of(pa.array([b"\1", bytes(17)]), 38, 0)
    with pytest.raises(MessageError, match="more than 2 digits"):
        decimals_of(pa.array([b"\1", b"\1\0"]), 2, 0)
    with pytest.raises(MessageError, match="more than 64 bits"):
        unsigned_of(pa.array([bytes(9)]))


def test_a_column_keeps_whether_it_may_be_null() -> None:
    column, _ = CASES["int"]
    schema, _ = _sent(replace(column, nullable=False), pa.array([1], pa.int32()), MODES[0])
    assert received_column(schema).column.nullable is False
