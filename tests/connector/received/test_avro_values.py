"""Values in Avro are read as another reader of Avro reads them."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_connector.kafka_decode.avro_values import read_avro

NO_VALUE = "no value of its schema|more than its schema|does not define|past its end|Expecting value"
LONGS = st.integers(-(2**63), 2**63 - 1)
SCHEMA = {
    "type": "record",
    "name": "Envelope",
    "namespace": "shop.orders",
    "fields": [
        {"name": "before", "type": ["null", {"type": "record", "name": "Value", "fields": []}]},
        {"name": "after", "type": ["null", "Value"]},
        {"name": "same", "type": "shop.orders.Value"},
        {
            "name": "texts",
            "type": {"type": "array", "items": {"type": "string", "connect.name": "Json"}},
        },
        {"name": "counts", "type": {"type": "map", "values": "long"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "fixed", "type": {"type": "fixed", "name": "Three", "size": 3}},
    ],
}
FIELDS = {
    "i": ("int", st.integers(-(2**31), 2**31 - 1)),
    "l": ("long", LONGS),
    "f": ("float", st.floats(width=32, allow_nan=False)),
    "d": ("double", st.floats(allow_nan=False)),
    "t": ("boolean", st.booleans()),
    "b": ({"type": "bytes", "scale": 2}, st.binary(max_size=200)),
}
SCHEMA["fields"][0]["type"][1]["fields"] = [{"name": name, "type": kind} for name, (kind, _) in FIELDS.items()]  # type: ignore[index]
ROWS = st.fixed_dictionaries({name: values for name, (_, values) in FIELDS.items()})
VALUES = st.fixed_dictionaries(
    {
        "before": st.none() | ROWS,
        "after": st.none() | ROWS,
        "same": ROWS,
        "texts": st.lists(st.text()),
        "counts": st.dictionaries(st.text(), LONGS),
        "kind": st.sampled_from("AB"),
        "fixed": st.binary(min_size=3, max_size=3),
    }
)


def _written(value: dict[str, Any]) -> bytes:
    content = io.BytesIO()
    fastavro.schemaless_writer(content, fastavro.parse_schema(SCHEMA), value)
    return content.getvalue()


@given(VALUES)
def test_values_of_all_types(value: dict[str, Any]) -> None:
    assert read_avro(json.dumps(SCHEMA), _written(value)) == value


@given(VALUES, st.data())
def test_what_is_no_value_of_a_schema_is_named(value: dict[str, Any], data: st.DataObject) -> None:
    written = _written(value)
    for wrong in (written[: data.draw(st.integers(0, len(written) - 1))], written + b"\0"):
        with pytest.raises(ValueError, match=NO_VALUE):
            read_avro(json.dumps(SCHEMA), wrong)


def test_schemas_that_are_incomplete_are_named() -> None:
    for schema in ('"Elsewhere"', "{}", "[]", "text"):
        with pytest.raises(ValueError, match=NO_VALUE):
            read_avro(schema, b"\0")
