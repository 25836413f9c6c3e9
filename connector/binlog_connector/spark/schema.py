"""Arrow schemas as Spark has them: `to_spark`, `as_spark_sees_it`; and the layout behind the option `table`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as arrow
from pyspark.sql import types as spark

from binlog_connector.spark.watched import file_start
from binlog_format.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from binlog_connector.spark.watched import WatchedLog
    from binlog_format.events.table_map import TableLayout
    from binlog_format.log import Log
    from binlog_format.position import Position

TABLES_SHOWN_MAX = 20
"""Names in a message; a log can hold thousands of tables."""

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
    """The Spark schema whose Arrow form is `as_spark_sees_it(schema)`; every column is nullable."""
    return spark.StructType([spark.StructField(field.name, _spark_type(field.type)) for field in schema])


def as_spark_sees_it(schema: pa.Schema) -> pa.Schema:
    """*schema* with the inner names and nullability that Spark gives Arrow types; it compares them exactly."""
    return pa.schema([_spark_field(field) for field in schema])


def _spark_type(data_type: pa.DataType) -> spark.DataType:
    if arrow.is_struct(data_type):
        return spark.StructType([spark.StructField(field.name, _spark_type(field.type)) for field in data_type.fields])
    if arrow.is_list(data_type):
        return spark.ArrayType(_spark_type(data_type.value_type))
    if arrow.is_decimal128(data_type):
        return spark.DecimalType(data_type.precision, data_type.scale)
    return _SIMPLE_TYPES[data_type]


def _spark_field(field: pa.Field) -> pa.Field:
    data_type = field.type
    if arrow.is_struct(data_type):
        data_type = pa.struct([_spark_field(inner) for inner in data_type.fields])
    elif arrow.is_list(data_type):
        data_type = pa.list_(_spark_field(data_type.value_field).with_name("element"))
    return pa.field(field.name, data_type, nullable=True)


def find_layout(watched: WatchedLog, table: str, start: Position) -> TableLayout:
    """The layout of *table* that holds at *start*: that of its first rows there, else of its last rows before.

    Raises:
        SchemaError: `TABLE_NOT_FOUND`: the log holds no rows of it.
    """
    seen: set[str] = set()
    for layout in _layouts(watched.log, start, None):
        seen.add(_name(layout))
        if _name(layout) == table:
            return layout
    end = start
    for file_no in reversed([file_no for file_no in watched.names() if file_no <= start.file_no]):
        begin = file_start(file_no)
        if begin >= end or not watched.identity(file_no):
            continue
        found = None
        for layout in _layouts(watched.log, begin, end):
            seen.add(_name(layout))
            if _name(layout) == table:
                found = layout
        if found is not None:
            return found
        end = begin
    raise _not_found(watched.log, table, seen)


def _layouts(log: Log, start: Position, end: Position | None) -> Iterator[TableLayout]:
    from binlog_format.rows.table_events import TableMaps  # compiled code: only where a table is asked for

    maps = TableMaps()
    for block in log.blocks(start, end):
        for table in maps.resolve(block):
            yield table.layout


def _name(layout: TableLayout) -> str:
    return f"{layout.database}.{layout.table}"


def _not_found(log: Log, table: str, seen: Iterable[str]) -> SchemaError:
    names = sorted(seen)
    shown = ", ".join(names[:TABLES_SHOWN_MAX])
    more = f" and {len(names) - TABLES_SHOWN_MAX} more" if len(names) > TABLES_SHOWN_MAX else ""
    hint = f"Tables that have rows: {shown}{more}" if names else "No table has any"
    return SchemaError("TABLE_NOT_FOUND", f"{log.path}: the log has no rows of table {table}", hint=hint)
