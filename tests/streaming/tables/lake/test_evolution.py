"""How a target's columns follow: what is widened, kept and refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

from binlog_format.errors import SchemaError
from binlog_streaming.lake.evolution import SchemaChange, common_schema, common_type, reconciled

DECIMAL = pa.decimal128
WIDENED = [
    (pa.int8(), pa.int16(), pa.int16()),
    (pa.int32(), pa.int64(), pa.int64()),
    (pa.int32(), DECIMAL(20, 0), DECIMAL(20, 0)),
    (pa.int64(), DECIMAL(5, 2), DECIMAL(21, 2)),
    (DECIMAL(8, 2), DECIMAL(10, 4), DECIMAL(10, 4)),
    (DECIMAL(8, 4), DECIMAL(10, 2), DECIMAL(12, 4)),
    (pa.float32(), pa.float64(), pa.float64()),
]
KEPT = [(wide, narrow) for narrow, wide, common in WIDENED if common == wide] + [
    (pa.string(), pa.large_string()),
    (pa.binary(), pa.large_binary()),
    (pa.timestamp("us", "UTC"), pa.timestamp("us", "UTC")),
]
REFUSED = [
    (pa.string(), pa.int32()),
    (pa.int32(), pa.string()),
    (pa.string(), pa.binary()),
    (pa.timestamp("us"), pa.timestamp("us", "UTC")),
    (pa.float64(), pa.int64()),
    (DECIMAL(38, 0), DECIMAL(38, 2)),
    (pa.date32(), pa.timestamp("us")),
]


def schema(kind: pa.DataType) -> pa.Schema:
    return pa.schema([("id", pa.int32()), ("v", kind)])


@pytest.mark.parametrize(("there", "wanted", "common"), WIDENED, ids=str)
def test_wider_type_widens_the_column(there: pa.DataType, wanted: pa.DataType, common: pa.DataType) -> None:
    assert reconciled(schema(there), schema(wanted), "shop.orders") == SchemaChange(retyped={"v": common})


@pytest.mark.parametrize(("there", "wanted"), KEPT, ids=str)
def test_type_whose_values_all_fit_changes_nothing(there: pa.DataType, wanted: pa.DataType) -> None:
    assert not reconciled(schema(there), schema(wanted), "shop.orders")


@pytest.mark.parametrize(("there", "wanted"), REFUSED, ids=str)
def test_other_type_is_refused_with_both(there: pa.DataType, wanted: pa.DataType) -> None:
    with pytest.raises(SchemaError) as caught:
        reconciled(schema(there), schema(wanted), "shop.orders")
    assert f"SCHEMA_CHANGED] shop.orders: column v was {there} and is {wanted} now" in str(caught.value)


@pytest.mark.parametrize(("one", "other", "common"), WIDENED, ids=str)
def test_common_type_does_not_depend_on_the_order(one: pa.DataType, other: pa.DataType, common: pa.DataType) -> None:
    assert common_type(one, other) == common_type(other, one) == common


def test_new_columns_come_last_and_old_ones_stay() -> None:
    there = pa.schema([("id", pa.int32()), ("gone", pa.string())])
    wanted = pa.schema([("new", pa.date32()), ("id", pa.int32())])
    change = reconciled(there, wanted, "shop.orders")
    assert change == SchemaChange(added=pa.schema([("new", pa.date32())]))
    assert change.applied_to(there).names == ["id", "gone", "new"]


def test_other_spelling_is_the_same_column() -> None:
    there = pa.schema([("id", pa.int8()), ("Name", pa.string()), ("both", pa.int8()), ("old", pa.int8())])
    wanted = pa.schema([("ID", pa.int32()), ("name", pa.string()), ("both", pa.int8())])
    change = reconciled(there, wanted, "shop.orders")
    assert change == SchemaChange(renamed={"id": "ID", "Name": "name"}, retyped={"ID": pa.int32()})
    assert change.applied_to(there).names == ["ID", "name", "both", "old"]


def test_common_schema_has_the_columns_of_all() -> None:
    parts = [pa.schema([("id", pa.int8())]), pa.schema([("a", pa.string()), ("id", pa.int64())])]
    assert common_schema(parts, "shop.orders") == pa.schema([("id", pa.int64()), ("a", pa.string())])


def test_change_is_applied_under_the_names_behind_it() -> None:
    change = SchemaChange(renamed={"a": "b", "b": "a"}, retyped={"b": pa.int64()}, added=pa.schema([("c", pa.bool_())]))
    there = pa.schema([("a", pa.int32()), ("b", pa.string())])
    assert change.applied_to(there) == pa.schema([("b", pa.int64()), ("a", pa.string()), ("c", pa.bool_())])
