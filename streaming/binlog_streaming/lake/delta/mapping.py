"""Names that columns have in the files of a Delta table: `file_columns(metadata)`, and `mapped` for new columns.

With column mapping a column keeps one name and one number in files, statistics and partition values, whatever it is
called; so it is renamed without a look at any file. Without it files have the table's own names.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from binlog_streaming.lake.delta.row_tracking import MATERIALIZED, keeps_row_ids
from binlog_streaming.lake.evolution import IDENTITY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from binlog_streaming.lake.delta.actions import Metadata

MODE = "delta.columnMapping.mode"
_MAX_ID = "delta.columnMapping.maxColumnId"
_ID = "delta.columnMapping.id"
_NAME = "delta.columnMapping.physicalName"


@dataclass(frozen=True, slots=True)
class FileColumns:
    """Names in files of a table's columns, or of a struct's fields.

    Attributes:
        names: By the table's name of each; nothing: they are called alike.
        numbers: Their numbers, by the table's name.
        inner: Of those that are structs, what is in them.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    numbers: Mapping[str, int] = field(default_factory=dict)
    inner: Mapping[str, FileColumns] = field(default_factory=dict)

    def name(self, column: str) -> str:
        """Name of a column in files."""
        return self.names.get(column, column)

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """Columns as a file has them."""
        return pa.schema([self._field(column) for column in schema]) if self.names else schema

    def to_file(self, rows: pa.Table) -> pa.Table:
        """*rows* as a file has them."""
        if not self.names:
            return rows
        schema = self.schema(rows.schema)
        columns = [
            pa.chunked_array([_named(chunk, wanted.type) for chunk in column.chunks], wanted.type)
            for column, wanted in zip(rows.columns, schema, strict=True)
        ]
        return pa.Table.from_arrays(columns, schema=schema)

    def from_file(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """*rows* of a file as the table has them, in the file's types."""
        if not self.names:
            return rows
        fields = [self._table_field(column) for column in rows.schema]
        columns = [_named(column, wanted.type) for column, wanted in zip(rows.columns, fields, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))

    def _field(self, column: pa.Field) -> pa.Field:
        number = self.numbers.get(column.name)
        metadata = None if number is None else {"PARQUET:field_id": str(number)}
        kind, inner = column.type, self.inner.get(column.name)
        if pa.types.is_struct(kind) and inner is not None:
            kind = pa.struct([inner._field(child) for child in kind])
        return pa.field(self.name(column.name), kind, column.nullable, metadata)

    def _table_field(self, column: pa.Field) -> pa.Field:
        name = next((name for name, in_files in self.names.items() if in_files == column.name), column.name)
        kind, inner = column.type, self.inner.get(name)
        if pa.types.is_struct(kind) and inner is not None:
            kind = pa.struct([inner._table_field(child) for child in kind])
        return pa.field(name, kind, column.nullable)


def file_columns(metadata: Metadata) -> FileColumns:
    """Names of columns in the files of a table; those of `IDENTITY` are among them if its rows keep their ids."""
    columns = FileColumns()
    if metadata.configuration.get(MODE) == "name":
        columns = _columns(json.loads(metadata.schema_string))
    if not keeps_row_ids(metadata):
        return columns
    materialized = (metadata.configuration[name] for name in MATERIALIZED)
    return FileColumns(
        {**columns.names, **dict(zip(IDENTITY.names, materialized, strict=True))}, columns.numbers, columns.inner
    )


def mapped(metadata: Metadata, schema: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Names and numbers for the columns of a table that have none.

    Args:
        schema: Columns from now on, as `schemaString` has them; those that stay have their metadata.

    Returns:
        The same columns with names and numbers; properties that the table has from now on.
    """
    if metadata.configuration.get(MODE) != "name":
        return schema, {}
    last = int(metadata.configuration.get(_MAX_ID, "0"))
    schema, last = _numbered(schema, last)
    return schema, {_MAX_ID: str(last)}


def _numbered(struct: dict[str, Any], last: int) -> tuple[dict[str, Any], int]:
    fields = []
    for column in struct["fields"]:
        metadata = column.get("metadata", {})
        if _ID not in metadata:
            last += 1
            metadata = metadata | {_ID: last, _NAME: f"col-{uuid.uuid4()}"}
        kind = column["type"]
        if _is_struct(kind):
            kind, last = _numbered(kind, last)
        fields.append(column | {"type": kind, "metadata": metadata})
    return struct | {"fields": fields}, last


def _columns(struct: dict[str, Any]) -> FileColumns:
    fields = struct["fields"]
    return FileColumns(
        {field["name"]: field["metadata"][_NAME] for field in fields},
        {field["name"]: int(field["metadata"][_ID]) for field in fields},
        {field["name"]: _columns(field["type"]) for field in fields if _is_struct(field["type"])},
    )


def _is_struct(kind: object) -> bool:
    return isinstance(kind, dict) and kind.get("type") == "struct"


def _named(array: pa.Array, kind: pa.DataType) -> pa.Array:
    # The same values in a type whose structs have other names.
    if array.type.equals(kind) or not pa.types.is_struct(array.type):
        return array
    inner = [_named(values, child.type) for values, child in zip(array.flatten(), kind, strict=True)]
    return pa.StructArray.from_arrays(inner, fields=list(kind), mask=array.is_null())
