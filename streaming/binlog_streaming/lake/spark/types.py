"""Columns of Arrow and of Spark, to and fro: `spark_schema` and `arrow_schema`, for the types of a log's columns."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import types

from binlog_format.errors import UnsupportedError

_PAIRS: tuple[tuple[pa.DataType, types.DataType], ...] = (
    (pa.int8(), types.ByteType()),
    (pa.int16(), types.ShortType()),
    (pa.int32(), types.IntegerType()),
    (pa.int64(), types.LongType()),
    (pa.float32(), types.FloatType()),
    (pa.float64(), types.DoubleType()),
    (pa.bool_(), types.BooleanType()),
    (pa.date32(), types.DateType()),
    (pa.string(), types.StringType()),
    (pa.binary(), types.BinaryType()),
    (pa.timestamp("us"), types.TimestampNTZType()),
    (pa.timestamp("us", "UTC"), types.TimestampType()),
    # Kept as what is above.
    (pa.large_string(), types.StringType()),
    (pa.large_binary(), types.BinaryType()),
)


def spark_schema(schema: pa.Schema) -> types.StructType:
    """The columns as Spark has them; every column may be null.

    Raises:
        UnsupportedError: `COLUMN_TYPE`: Spark has no such type.
    """
    return types.StructType([types.StructField(field.name, spark_type(field.type, field.name)) for field in schema])


def arrow_schema(struct: types.StructType) -> pa.Schema:
    """The columns as Arrow has them; every column may be null.

    Raises:
        UnsupportedError: `COLUMN_TYPE`: a type that no column of a log has.
    """
    return pa.schema([(field.name, arrow_type(field.dataType, field.name)) for field in struct.fields])


def spark_type(kind: pa.DataType, column: str) -> types.DataType:
    """The type of a column; *column* is for messages.

    Raises:
        UnsupportedError: `COLUMN_TYPE`: Spark has no such type.
    """
    if pa.types.is_decimal128(kind):
        return types.DecimalType(kind.precision, kind.scale)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return types.ArrayType(spark_type(kind.value_type, column))
    if pa.types.is_struct(kind):
        fields = [types.StructField(field.name, spark_type(field.type, column)) for field in kind]
        return types.StructType(fields)
    for arrow, spark in _PAIRS:
        if kind.equals(arrow):
            return spark
    raise UnsupportedError("COLUMN_TYPE", f"column {column}: Spark's writers have no type for {kind}")


def arrow_type(kind: types.DataType, column: str) -> pa.DataType:
    """The type of a column; *column* is for messages.

    Raises:
        UnsupportedError: `COLUMN_TYPE`: a type that no column of a log has.
    """
    if isinstance(kind, types.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, types.ArrayType):
        return pa.list_(arrow_type(kind.elementType, column))
    if isinstance(kind, types.StructType):
        return pa.struct([(field.name, arrow_type(field.dataType, column)) for field in kind.fields])
    for arrow, spark in _PAIRS:
        if type(kind) is type(spark):
            return arrow
    raise UnsupportedError("COLUMN_TYPE", f"column {column}: no column of a log has the type {kind.simpleString()}")
