"""Values of columns in Avro, read by another implementation, are what the same Python values give one by one."""

from __future__ import annotations

import datetime
import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from binlog_connector.envelope.avro.avro_schema import avro_schema
from binlog_connector.envelope.avro.message_parts import column_part
from binlog_connector.envelope.avro.parts import Encoded, Longs, encoded_long, encoded_text
from binlog_connector.envelope.connect_schema import field_of, schema_of, struct_of
from binlog_connector.envelope.connect_values import connect_column
from binlog_connector.envelope.options import DecimalHandling, EnvelopeOptions
from binlog_format.errors import UnsupportedError
from binlog_format.events.table_map import Column, TableLayout
from binlog_format.events.table_map_layout import ColumnType
from binlog_format.rows.decoding import ZeroDates
from tests.chance import examples
from tests.connector.envelope.naive_values import message_value
from tests.connector.envelope.test_connect_values import CASES, MODES, arrow_kind, column_array, fits
from tests.faults.schema_registry import as_json, without_logical_types

INEXACT = (ColumnType.FLOAT, ColumnType.VECTOR)


def _connect(column: Column, options: EnvelopeOptions) -> Any:
    layout = TableLayout("shop", "orders", (column,), (), "", b"")
    return connect_column(layout, 0, arrow_kind(column), options, ZeroDates.NULL)


def _read(encoded: Encoded, schema: str) -> list[Any]:
    parsed = fastavro.parse_schema(without_logical_types(json.loads(schema)))
    found = []
    for start, end in zip(encoded.offsets[:-1], encoded.offsets[1:], strict=True):
        content = io.BytesIO(encoded.data[start:end].tobytes())
        found.append(fastavro.schemaless_reader(content, parsed, None))
        assert content.read() == b"", "a value ends where the next one begins"
    return found


def _exact(column: Column, value: Any) -> Any:
    # JSON has the shortest text that tells a float32 from others, Avro has the number.
    if column.type not in INEXACT or value is None:
        return value
    return [float(np.float32(one)) for one in value] if isinstance(value, list) else float(np.float32(value))


def _written(column: Column, values: list[Any], options: EnvelopeOptions) -> tuple[Encoded, str]:
    connect = _connect(column, options)
    part = column_part(connect, connect.schema, connect.values(column_array(column, values)))
    return Encoded.of([part], len(values)), avro_schema(struct_of([connect.schema], name="shop.shop.orders.Value"))


@pytest.mark.parametrize("options", MODES, ids=lambda mode: f"{mode.decimal_handling}-{mode.time_precision}")
@pytest.mark.parametrize("name", CASES)
@settings(max_examples=examples(20))
@given(data=st.data(), nullable=st.booleans())
def test_fastavro_reads_the_values(name: str, options: EnvelopeOptions, data: st.DataObject, nullable: bool) -> None:
    column, strategy = CASES[name]
    column = Column(**{field: getattr(column, field) for field in column.__slots__} | {"nullable": nullable})
    fitting = strategy.filter(lambda value: fits(column, value, options))
    values = data.draw(st.lists(st.none() | fitting if nullable else fitting, max_size=6))
    encoded, schema = _written(column, values, options)
    expected = [{"c": _exact(column, message_value(column, value, options))} for value in values]
    assert [as_json(row) for row in _read(encoded, schema)] == expected


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=6))
@example([0, -1, 1, -2, 63, -64, 64, -65, 8191, -8192, 2**31, -(2**63), 2**63 - 1])
def test_whole_numbers_of_every_size_are_read(values: list[int]) -> None:
    encoded = Encoded.of([Longs(np.array(values, dtype=np.int64))], len(values))
    assert _read(encoded, '"long"') == values
    assert encoded.data.tobytes() == b"".join(map(encoded_long, values))


@given(st.text(st.characters(codec="utf-8"), max_size=200))
def test_a_text_is_its_size_and_its_bytes(text: str) -> None:
    assert fastavro.schemaless_reader(io.BytesIO(encoded_text(text)), "string", None) == text


@given(st.data())
def test_slices_of_arrays_are_read_from_their_start(data: st.DataObject) -> None:
    column, strategy = CASES[data.draw(st.sampled_from(sorted(CASES)))]
    values = data.draw(st.lists(st.none() | strategy.filter(lambda one: fits(column, one, MODES[0])), max_size=4))
    start = data.draw(st.integers(0, len(values)))
    connect = _connect(column, MODES[0])
    whole = connect.values(column_array(column, values))
    part = Encoded.of([column_part(connect, connect.schema, whole.slice(start))], len(values) - start)
    assert part.data.tobytes() == _written(column, values[start:], MODES[0])[0].data.tobytes()


def test_decimals_are_avros_own_decimals() -> None:
    column, _ = CASES["decimal(65,30)"]
    value = Decimal("-123.5")
    encoded, schema = _written(column, [value], EnvelopeOptions("p", decimal_handling=DecimalHandling.PRECISE))
    assert json.loads(schema)["fields"][0]["type"][1] == {
        "type": "bytes",
        "scale": 30,
        "precision": 65,
        "connect.version": 1,
        "connect.parameters": {"scale": "30", "connect.decimal.precision": "65"},
        "connect.name": "org.apache.kafka.connect.data.Decimal",
        "logicalType": "decimal",
    }
    found = fastavro.schemaless_reader(io.BytesIO(encoded.data.tobytes()), json.loads(schema), None)
    assert found == {"c": value}


def test_what_avro_does_not_take_in_names_becomes_an_underscore() -> None:
    schema = struct_of([field_of("größe-2", schema_of("int16"))], name="my-shop.2024.order lines.Value")
    assert json.loads(avro_schema(schema)) == {
        "type": "record",
        "name": "Value",
        "namespace": "my_shop._024.order_lines",
        "fields": [{"name": "gr__e_2", "type": {"type": "int", "connect.type": "int16"}}],
        "connect.name": "my_shop._024.order_lines.Value",
    }


def test_columns_that_would_have_one_name_are_an_error() -> None:
    schema = struct_of([field_of(name, schema_of("int32")) for name in ("a b", "a_b")], name="s.d.t.Value")
    with pytest.raises(UnsupportedError, match=r"COLUMN_TYPE\] s.d.t.Value: columns a b and a_b are both a_b in Avro"):
        avro_schema(schema)


def test_a_record_is_defined_once_and_named_after_that() -> None:
    column, _ = CASES["point"]
    fields = [{**_connect(column, MODES[0]).schema, "field": name} for name in ("a", "b")]
    first, second = json.loads(avro_schema(struct_of(fields, name="s.d.t.Value")))["fields"]
    assert first["type"][1]["name"] == "Point"
    assert second["type"] == ["null", "io.debezium.data.geometry.Point"]


def test_null_where_there_is_none_is_an_error() -> None:
    column = Column("c", ColumnType.LONG, 0, nullable=False, unsigned=False)
    connect = _connect(column, MODES[0])
    with pytest.raises(UnsupportedError, match=r"MESSAGE_VALUE\] shop.orders.c: value 1: NULL in a column"):
        column_part(connect, connect.schema, column_array(column, [1, None]))


def test_a_date_of_a_key_is_in_no_union() -> None:
    """A zero date is null in a row, and refused in a key."""
    column = Column("c", ColumnType.DATE, 0, nullable=False)
    connect = _connect(column, MODES[0])
    values = connect.values(column_array(column, [datetime.date(1970, 1, 2)]))
    row, key = (
        Encoded.of([column_part(connect, schema, values)], 1).data.tobytes()
        for schema in (connect.schema, connect.key_schema)
    )
    assert (row, key) == (b"\x02\x02", b"\x02")
