"""Every Arrow type that a view gives has a Spark type, and comes back from it as Spark sees it."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import types as spark

from binlog_connector.spark.schema import as_spark_sees_it, to_spark
from binlog_connector.spark.spark_api import arrow_schema_of
from binlog_format.events.table_map import Column, TableLayout
from binlog_format.events.table_map_layout import ColumnType
from binlog_format.rows.decoding import Decoding, TimeType
from binlog_format.views.changefeed import changefeed_schema
from binlog_format.views.changes import ChangesView


def column(name: str, type_: ColumnType, metadata: int = 0, **details: object) -> Column:
    return Column(name, type_, metadata, nullable=True, **details)  # type: ignore[arg-type]


COLUMNS = (
    column("tiny", ColumnType.TINY, unsigned=False),
    column("tinier", ColumnType.TINY, unsigned=True),
    column("big", ColumnType.LONGLONG, unsigned=True),
    column("year", ColumnType.YEAR),
    column("bit", ColumnType.BIT, 1),
    column("bits", ColumnType.BIT, 8 << 8),
    column("f", ColumnType.FLOAT, 4),
    column("d", ColumnType.DOUBLE, 8),
    column("dec", ColumnType.NEWDECIMAL, 10 | 2 << 8),
    column("long_dec", ColumnType.NEWDECIMAL, 65 | 30 << 8),
    column("date", ColumnType.DATE),
    column("dt", ColumnType.DATETIME2, 6),
    column("ts", ColumnType.TIMESTAMP2, 6),
    column("time", ColumnType.TIME2, 6),
    column("old", ColumnType.TIME, declared="time(3)"),
    column("text", ColumnType.VARCHAR, 40, charset="sjis"),
    column("blob", ColumnType.BLOB, 2, charset="binary"),
    column("packed", ColumnType.BLOB_COMPRESSED, 2, charset="utf8mb4"),
    column("geo", ColumnType.GEOMETRY, 4),
    column("vec", ColumnType.VECTOR, 4, charset="binary"),
    column("id", ColumnType.STRING, 0x10FE, charset="binary", declared="uuid"),
)
LAYOUT = TableLayout("shop", "orders", COLUMNS, (), "d", b"")


@pytest.mark.parametrize("decoding", [Decoding(), Decoding(time_type=TimeType.MICROS)])
def test_spark_makes_the_same_arrow_schema_of_its_types(decoding: Decoding) -> None:
    for schema in (
        changefeed_schema(LAYOUT, decoding),
        ChangesView(table="shop.orders", decoding=decoding).schema(LAYOUT),
    ):
        assert arrow_schema_of(to_spark(schema)).equals(as_spark_sees_it(schema))


def test_types_of_the_design() -> None:
    found = {field.name: field.dataType for field in to_spark(changefeed_schema(LAYOUT)).fields}
    assert found["geo"] == spark.StructType(
        [spark.StructField("srid", spark.IntegerType()), spark.StructField("wkb", spark.BinaryType())]
    )
    assert found["vec"] == spark.ArrayType(spark.FloatType())
    assert found["time"] == spark.StringType()
    assert found["old"] == spark.StringType()
    assert found["long_dec"] == spark.StringType()
    assert found["tinier"] == spark.ShortType()
    micros = to_spark(changefeed_schema(LAYOUT, Decoding(time_type=TimeType.MICROS)))
    assert (micros["time"].dataType, micros["old"].dataType) == (spark.LongType(), spark.LongType())


def test_values_survive_the_cast_to_what_spark_sees() -> None:
    kind = pa.struct([("srid", pa.int32()), ("wkb", pa.binary())])
    batch = pa.record_batch(
        [pa.array([{"srid": 1, "wkb": b"x"}, None], kind), pa.array([[1.5], None], pa.list_(pa.float32()))],
        names=["geo", "vec"],
    )
    cast = pa.Table.from_batches([batch]).cast(as_spark_sees_it(batch.schema))
    assert cast.to_pylist() == batch.to_pylist()
