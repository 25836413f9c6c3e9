"""Columns of Iceberg tables: `iceberg_schema` and `arrow_schema` go to and fro, `evolved` and `replaced` change them.

A column is its field id; the name is only what it is called now. So a column that is renamed or widened keeps its id,
and files from before are read rightly; one whose type becomes another gets a new id, and so does one that takes the
name of a column that went away: files from before have nothing for it.

Columns of a data file: `IcebergReadColumns` makes them those that the table has now, found by their ids.
"""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog
from pyiceberg.io.pyarrow import (
    ArrowAccessor,
    ArrowProjectionVisitor,
    UnsupportedPyArrowTypeException,
    pyarrow_to_schema,
    schema_to_pyarrow,
)
from pyiceberg.schema import (
    Schema,
    assign_fresh_schema_ids,
    make_compatible_name,
    prune_columns,
    sanitize_column_names,
    visit_with_partner,
)
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
)

from binlog_format.errors import TableError, UnsupportedError
from binlog_format.names import folded_name, folded_names
from binlog_streaming.lake.evolution import IDENTITY, cast_to_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile
    from pyiceberg.table.metadata import TableMetadata

    from binlog_streaming.lake.evolution import SchemaChange


def iceberg_schema(schema: pa.Schema) -> Schema:
    """The schema as Iceberg has it, without numbers of fields; every column may be null."""
    _check_paths(schema)
    nullable = pa.schema([field.with_nullable(True) for field in schema])
    try:
        return Catalog._convert_schema_if_needed(nullable)
    except (UnsupportedPyArrowTypeException, TypeError) as error:
        raise UnsupportedError("COLUMN_TYPE", f"Iceberg has no type for column {error}") from error


def _check_paths(schema: pa.Schema) -> None:
    # Iceberg finds fields by their path, `g.srid`: it must be that of one field.
    for column in schema:
        for path in _inner_paths(column):
            if path in schema.names:
                raise TableError(
                    "COLUMN_NAME",
                    f"column {path} has the name that Iceberg gives a part of column {column.name}",
                    hint='Give the column another name; or use sink.format = "delta", which has no such names',
                )


def _inner_paths(column: pa.Field) -> Iterator[str]:
    kind, inner = column.type, []
    if pa.types.is_struct(kind):
        inner = list(kind)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        inner = [kind.value_field.with_name("element")]
    for field in inner:
        path = f"{column.name}.{field.name}"
        yield path
        yield from _inner_paths(field.with_name(path))


def file_schema(schema: Schema) -> Schema:
    """The columns as files have them, with names that Avro takes, no two alike; readers go by their numbers."""
    plain = [make_compatible_name(field.name) for field in schema.fields]
    if len(folded_names(plain)) == len(plain):
        return sanitize_column_names(schema)
    fields, taken = [], set[str]()
    for field, name in zip(schema.fields, plain, strict=True):
        unused = unused_name(name, taken)
        taken.add(folded_name(unused))
        fields.append(field.model_copy(update={"name": unused}))
    return sanitize_column_names(Schema(*fields, schema_id=schema.schema_id))


def unused_name(name: str, taken: Container[str]) -> str:
    """*name*, with a number if it is one of *taken*, which are folded."""
    numbers = itertools.count(2)
    unused = name
    while folded_name(unused) in taken:
        unused = f"{name}_{next(numbers)}"
    return unused


def arrow_schema(schema: Schema) -> pa.Schema:
    """The columns as readers get them; every column may be null."""
    columns = schema_to_pyarrow(schema, include_field_ids=False)
    return pa.schema([(field.name, _plain(field.type)) for field in columns])


def _plain(kind: pa.DataType) -> pa.DataType:
    # pyiceberg has large strings everywhere, and keeps the names of a list's elements and comments of fields.
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_large_list(kind) or pa.types.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _plain(field.type)) for field in kind])
    return kind


@dataclass(frozen=True, slots=True)
class Evolution:
    """A table's state after a `SchemaChange`.

    Attributes:
        schema: The columns after it.
        is_rewrite: Whether files have to be written anew: values change, or a type becomes one that is not wider.
    """

    schema: Schema
    is_rewrite: bool


def evolved(metadata: TableMetadata, change: SchemaChange) -> Evolution:
    """Apply *change* to the table's columns."""
    there = metadata.schema()
    fresh = _fresh_ids(metadata)
    wanted = {field.name: field for field in iceberg_schema(change.applied_to(arrow_schema(there))).fields}
    is_rewrite = False
    fields: list[NestedField] = []
    for field in there.fields:
        name = change.renamed.get(field.name, field.name)
        kind = wanted[name].field_type if name in change.retyped else field.field_type
        keeps = name not in change.retyped or _same(field.field_type, kind) or _is_wider(field.field_type, kind)
        is_rewrite |= name in change.filled or not keeps
        if keeps:
            kept = field.field_type if _same(field.field_type, kind) else kind
            fields.append(field.model_copy(update={"name": name, "field_type": kept}))
        else:
            fields.append(_field(fresh(), name, _fresh(kind, fresh), field.doc))
    for name in change.added.names:
        fields.append(_field(fresh(), name, _fresh(wanted[name].field_type, fresh)))
        is_rewrite |= name in change.filled and change.filled[name].is_valid
    return Evolution(_next_schema(metadata, fields), is_rewrite)


def replaced(metadata: TableMetadata, columns: pa.Schema) -> Schema:
    """*columns* in the place of all columns; those that are there with a type that fits stay the same columns."""
    fresh = _fresh_ids(metadata)
    there = {field.name: field for field in metadata.schema().fields}
    fields = []
    for wanted in iceberg_schema(columns).fields:
        old = there.get(wanted.name)
        if old is not None and _same(old.field_type, wanted.field_type):
            fields.append(old)
        elif old is not None and _is_wider(old.field_type, wanted.field_type):
            fields.append(old.model_copy(update={"field_type": wanted.field_type}))
        else:
            fields.append(_field(fresh(), wanted.name, _fresh(wanted.field_type, fresh)))
    return _next_schema(metadata, fields)


def _is_wider(old: IcebergType, new: IcebergType) -> bool:
    # What Iceberg takes for the same column.
    if isinstance(old, DecimalType) and isinstance(new, DecimalType):
        return old.scale == new.scale and old.precision < new.precision
    pairs = ((IntegerType, LongType), (FloatType, DoubleType))
    return any(isinstance(old, narrow) and isinstance(new, wide) for narrow, wide in pairs)


def _same(old: IcebergType, new: IcebergType) -> bool:
    # Without the numbers of fields inside of structs and lists.
    return bool(_as_arrow(old).equals(_as_arrow(new)))


def _as_arrow(kind: IcebergType) -> pa.DataType:
    return arrow_schema(Schema(NestedField(field_id=1, name="c", field_type=kind, required=False))).field(0).type


def _field(field_id: int, name: str, kind: IcebergType, doc: str | None = None) -> NestedField:
    return NestedField(field_id=field_id, name=name, field_type=kind, required=False, doc=doc)


def _fresh(kind: IcebergType, next_id: Callable[[], int]) -> IcebergType:
    return cast("IcebergType", assign_fresh_schema_ids(kind, next_id))  # it gives back what it gets


def _fresh_ids(metadata: TableMetadata) -> Callable[[], int]:
    return itertools.count(metadata.last_column_id + 1).__next__


def _next_schema(metadata: TableMetadata, fields: list[NestedField]) -> Schema:
    there = {field.field_id for field in fields}
    key = [number for number in metadata.schema().identifier_field_ids if number in there]
    for schema in metadata.schemas:
        if schema.fields == tuple(fields) and schema.identifier_field_ids == key:
            return schema  # a catalog gives these columns their number from before
    new = 1 + max(schema.schema_id for schema in metadata.schemas)
    return Schema(*fields, schema_id=new, identifier_field_ids=key)


def with_schema(metadata: TableMetadata, schema: Schema) -> TableMetadata:
    """The table with other columns, as files are written for it that get there together with them."""
    schemas = [*metadata.schemas, schema]
    return metadata.model_copy(update={"schemas": schemas, "current_schema_id": schema.schema_id})


IDENTITY_FIELDS = (
    NestedField(2147483540, "_row_id", LongType(), required=False),
    NestedField(2147483539, "_last_updated_sequence_number", LongType(), required=False),
)
"""Id of a version 3 row, and the number of the commit that changed it last; null: both follow from file and place."""


class IcebergReadColumns:
    """See `ReadColumns`; the columns of `IDENTITY` are `IDENTITY_FIELDS` in files."""

    def __init__(self, metadata: TableMetadata, file: DataFile, there: pa.Schema, wanted: pa.Schema) -> None:
        self._wanted = wanted
        fields = dict(zip(IDENTITY.names, IDENTITY_FIELDS, strict=True))
        fields |= {field.name: field for field in metadata.schema().fields}
        self._schema = Schema(*(fields[name] for name in wanted.names))
        version = metadata.format_version
        in_file = pyarrow_to_schema(
            there, metadata.name_mapping(), downcast_ns_timestamp_to_us=version < 3, format_version=version
        )
        numbers = {
            number
            for number in self._schema.field_ids
            if not isinstance(self._schema.find_type(number), (MapType, ListType))
        }
        read = prune_columns(in_file, numbers, select_full_types=False)
        self.are_there = bool(read.fields)
        self.names = [column.name for column in read.fields] or there.names[:1]
        # The values of these are the partition's, in files that came from elsewhere.
        partitions = {
            field.source_id: file.partition[place]
            for place, field in enumerate(metadata.specs()[file.spec_id].fields)
            if isinstance(field.transform, IdentityTransform) and field.source_id not in in_file.field_ids
        }
        self._visitor = ArrowProjectionVisitor(
            read, version < 3, projected_missing_fields=partitions, allow_timestamp_tz_mismatch=True
        )
        self._accessor = ArrowAccessor(read)

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """See `ReadColumns`."""
        shaped = visit_with_partner(self._schema, batch, self._visitor, self._accessor)
        assert isinstance(shaped, pa.StructArray)
        return cast_to_schema(pa.RecordBatch.from_arrays(shaped.flatten(), names=self._wanted.names), self._wanted)


@contextmanager
def opened_file(io: FileIO, file: DataFile) -> Iterator[pq.ParquetFile]:
    """A data file or delete file, open."""
    # Spark may keep times in 96 bits; in nanoseconds most years would not be there.
    with io.new_input(file.file_path).open() as opened:
        yield pq.ParquetFile(opened, coerce_int96_timestamp_unit="us", pre_buffer=False)


def integer_bounds(file: DataFile, number: int) -> tuple[int, int] | None:
    """Least and greatest value of a column of integers; None: they are not recorded."""
    # A column that was widened has shorter ones in its old files.
    low, high = ((bounds or {}).get(number) for bounds in (file.lower_bounds, file.upper_bounds))
    if low is None or high is None:
        return None
    return int.from_bytes(low, "little", signed=True), int.from_bytes(high, "little", signed=True)
