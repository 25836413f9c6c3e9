"""Arrow schemas as Spark has them: `to_spark`, `spark_json`, `as_spark_sees_it`.

The layout of the option `table`: `find_layout`, which reads no more of the log than it must.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as arrow
from pyspark.sql import types as spark

from binlog_connector.following.starts import initial_offset_or_gap
from binlog_connector.following.watched import file_start
from binlog_connector.given_definitions import NOTHING_GIVEN, GivenDefinitions
from binlog_connector.log_definitions import DefinitionUse, RangeSchemas
from binlog_format.errors import SchemaError
from binlog_format.position import Position
from binlog_format.rows.declared.completion import declared_layout
from binlog_format.vendor import Vendor
from binlog_format.views.filters import SNAPSHOT_DATABASE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from binlog_connector.following.starts import Start
    from binlog_connector.following.watched import WatchedLog
    from binlog_format.events.table_map import TableLayout
    from binlog_format.log.log import Log


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

_SCHEMAS_KEPT = 64
"""A stream asks for the same schemas batch after batch; to make one takes a millisecond."""


@lru_cache(maxsize=_SCHEMAS_KEPT)
def to_spark(schema: pa.Schema) -> spark.StructType:
    """The Spark schema whose Arrow form is `as_spark_sees_it(schema)`."""
    return spark.StructType([_spark_column(field) for field in schema])


@lru_cache(maxsize=_SCHEMAS_KEPT)
def spark_json(schema: pa.Schema) -> str:
    """The same as text, which takes no time to compare, or to send to a task."""
    return to_spark(schema).json()


@lru_cache(maxsize=_SCHEMAS_KEPT)
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


TABLES_SHOWN_MAX = 20
"""Names in a message; a log can hold thousands of tables."""

PART_SIZE = 8 << 20
"""Bytes of a file that are looked through at once, the last ones first, where the last rows of a table are wanted."""

_Range = tuple[Position, Position | None]


def find_layout(
    watched: WatchedLog,
    table: str,
    start: Start,
    given: GivenDefinitions = NOTHING_GIVEN,
    *,
    declared_types: bool = False,
    defined_tables: str | None = None,
) -> TableLayout:
    """The layout of *table* that holds at *start*: that of its first rows there, else of its last rows before.

    The file of the start is read first, then the files after it, then those before it, the last ones first; the first
    rows that are met end that. A table without any rows is as in the schema file.

    Args:
        table: `database.table`.
        declared_types: See `RangeSchemas`.
    """
    begin = initial_offset_or_gap(watched, start)[0].position
    seen: set[str] = set()
    for part in itertools.chain([(begin, None)], _before(watched, begin)):
        found = None
        for layout in _layouts(_Look(watched, table, given, declared_types, defined_tables), part, seen):
            found = layout
            if part[1] is None:
                return found
        if found is not None:
            return found
    database, _, name = table.partition(".")
    definition = None if given.file is None else given.file.definition(database, name)
    if definition is not None and definition.columns is not None:
        vendor = next((block.vendor for block in watched.log.blocks(skips_purged=True)), Vendor.MARIADB)
        return declared_layout(database, name, definition.completion(), vendor)
    raise _not_found(watched.log, table, seen)


def _before(watched: WatchedLog, end: Position) -> Iterator[_Range]:
    """The log before *end*, in parts, the last one first."""
    sizes = watched.log.file_sizes(0, end.file_no + 1)
    for file_no in sorted(sizes, reverse=True):
        begin = file_start(file_no)
        if begin >= end or not watched.files.identity(file_no):
            continue
        count = max(1, -(-sizes[file_no] // PART_SIZE))
        cuts = watched.log.split(begin, end, count) if count > 1 else []
        edges = [begin, *cuts, end]
        yield from reversed(list(itertools.pairwise(edges)))
        end = begin


@dataclass(frozen=True, slots=True)
class _Look:
    watched: WatchedLog
    table: str
    given: GivenDefinitions
    declared_types: bool
    defined_tables: str | None

    def schemas(self, start: Position) -> RangeSchemas:
        return RangeSchemas(
            self.watched,
            start,
            self.given,
            use=DefinitionUse.of(types=self.declared_types, declarations=False),
            defined_tables=self.defined_tables,
        )


def _layouts(look: _Look, part: _Range, seen: set[str]) -> Iterator[TableLayout]:
    """Layouts of the table in a part of the log, in order; names of all tables go into *seen*."""
    from binlog_format.rows.table_events import TableMaps  # compiled code: only where a table is asked for

    maps = TableMaps()
    start, end = part
    schemas = look.schemas(start)
    for block in schemas.observed(look.watched.log.committed_blocks(start, end)):
        for touched in maps.resolve(block):
            layout = touched.layout
            if layout.database == SNAPSHOT_DATABASE:
                continue
            seen.add(layout.full_name)
            if layout.full_name != look.table:
                continue
            if layout.problem is not None:
                raise layout.problem
            yield schemas.completed(layout, block.position_at(touched.events[0 if end is None else -1]))


def _not_found(log: Log, table: str, seen: Iterable[str]) -> SchemaError:
    names = sorted(seen)
    shown = ", ".join(names[:TABLES_SHOWN_MAX])
    more = f" and {len(names) - TABLES_SHOWN_MAX} more" if len(names) > TABLES_SHOWN_MAX else ""
    hint = f"Tables that have rows: {shown}{more}" if names else "No table has any"
    return SchemaError("TABLE_NOT_FOUND", f"{log.path}: the log has no rows of table {table}", hint=hint)
