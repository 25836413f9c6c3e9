"""Arrow schemas as Spark has them: `to_spark`, `as_spark_sees_it`."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as arrow
from pyspark.sql import types as spark

_SIMPLE_TYPES: dict[pa.DataType, spark.DataType] = {
    pa.bool_(): spark.BooleanType(),
    pa.int8(): spark.ByteType(),
    pa.int16(): spark.ShortType(),
    pa.int32(): spark.IntegerType(),
    pa.int64(): spark.LongType(),
    pa.float32(): spark.FloatType(),
    pa.float64(): spark.DoubleType(),
    pa.string(): spark.StringType(),
    pa.binary(): spark.BinaryType(),
    pa.date32(): spark.DateType(),
    pa.timestamp("us"): spark.TimestampNTZType(),
    pa.timestamp("us", "UTC"): spark.TimestampType(),
}


def to_spark(schema: pa.Schema) -> spark.StructType:
    """The Spark schema whose Arrow form is `as_spark_sees_it(schema)`."""
    return spark.StructType([_spark_column(field) for field in schema])


def as_spark_sees_it(schema: pa.Schema) -> pa.Schema:
    """*schema* with the inner names that Spark gives Arrow types; it compares them exactly."""
    return pa.schema([_spark_field(field) for field in schema])


def _spark_column(field: pa.Field) -> spark.StructField:
    return spark.StructField(field.name, _spark_type(field.type), field.nullable)


def _spark_type(data_type: pa.DataType) -> spark.DataType:
    if arrow.is_struct(data_type):
        return spark.StructType([_spark_column(field) for field in data_type.fields])
    if arrow.is_list(data_type):
        return spark.ArrayType(_spark_type(data_type.value_type), data_type.value_field.nullable)
    if arrow.is_decimal128(data_type):
        return spark.DecimalType(data_type.precision, data_type.scale)
    return _SIMPLE_TYPES[data_type]


def _spark_field(field: pa.Field) -> pa.Field:
    data_type = field.type
    if arrow.is_struct(data_type):
        data_type = pa.struct([_spark_field(inner) for inner in data_type.fields])
    elif arrow.is_list(data_type):
        data_type = pa.list_(_spark_field(data_type.value_field).with_name("element"))
    return pa.field(field.name, data_type, nullable=field.nullable)
