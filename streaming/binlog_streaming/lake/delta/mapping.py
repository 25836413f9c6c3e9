"""Names that columns have in the files of a Delta table: `file_columns(metadata)`, and `mapped` for new columns.

With column mapping a column keeps one name and one number in files, statistics and partition values, whatever it is
called; so it is renamed without a look at any file. With mapping by id, files of other writers may have other names,
and only numbers tell their columns. Without mapping files have the table's own names.

Tables with row tracking: columns with ids of rows have names of their own, too (`row_id_properties`), and a commit
gives ids to rows of new files (`with_row_ids`). A row's id is the first one of its file plus its place in the file,
unless the file has a column with ids. So does the version in which the row changed last: that of its file, or a
column's value.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from binlog_streaming.lake.delta.actions import ROW_IDS, Add, Domain, statistics_of
from binlog_streaming.lake.evolution import IDENTITY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from binlog_streaming.lake.delta.actions import Metadata
    from binlog_streaming.lake.delta.log import Named, TableLog


ROWS_KEPT = "delta.rowTracking.preserved"
"""Tag of commits after which all rows that were there before have their ids."""

_ROW_TRACKING = "rowTracking"
ROW_ID_FEATURES = _ROW_TRACKING, "domainMetadata"
"""Features that writers of a table with row tracking have to support; readers need none."""

_SUSPENDED = "delta.rowTrackingSuspended"
MATERIALIZED = (
    "delta.rowTracking.materializedRowIdColumnName",
    "delta.rowTracking.materializedRowCommitVersionColumnName",
)
"""Properties with the names that columns of `IDENTITY` have in files."""

_ROW_DOMAIN = "delta.rowTracking"
_HIGH_WATER_MARK = "rowIdHighWaterMark"


def row_id_properties() -> dict[str, str]:
    """Properties of a new table whose rows keep their ids."""
    names = (f"_row-id-col-{uuid.uuid4()}", f"_row-commit-version-col-{uuid.uuid4()}")
    return {ROW_IDS: "true", **dict(zip(MATERIALIZED, names, strict=True))}


def with_row_ids(log: TableLog, actions: Sequence[Named]) -> Sequence[Named]:
    """*actions* of the next commit, with ids for the rows of new files where the table's feature asks for them.

    A file that is in the table already, and gets another deletion vector, has the ids that it had.
    """
    gives_ids = _ROW_TRACKING in (log.protocol.writer_features or ())
    if not gives_ids or log.metadata.configuration.get(_SUSPENDED) == "true":
        return actions
    recorded = log.domains.get(_ROW_DOMAIN)
    last = before = -1 if recorded is None else int(json.loads(recorded.configuration)[_HIGH_WATER_MARK])
    numbered: list[Named] = []
    for name, action in actions:
        if isinstance(action, Add) and action.base_row_id is None:
            count = statistics_of(action)["numRecords"]
            assert isinstance(count, int)
            ids = {"base_row_id": last + 1, "default_row_commit_version": log.version + 1}
            numbered.append((name, msgspec.structs.replace(action, **ids)))
            last += count
        else:
            numbered.append((name, action))
    if last > before:
        mark = Domain(domain=_ROW_DOMAIN, configuration=json.dumps({_HIGH_WATER_MARK: last}), removed=False)
        numbered.append(("domainMetadata", mark))
    return numbered


_NUMBER = b"PARQUET:field_id"
_MAX_ID = "delta.columnMapping.maxColumnId"
_ID = "delta.columnMapping.id"
_NAME = "delta.columnMapping.physicalName"
_NUMBER_ALL = "delta.enableIcebergCompatV2", "delta.enableIcebergCompatV3"
"""Properties of tables in which values of lists have numbers; with the last one columns of `IDENTITY` do, too."""

_IDENTITY_NUMBERS = dict(zip(IDENTITY.names, (2147483540, 2147483539), strict=True))
"""Iceberg's own numbers for a row's id and the commit that changed it last."""

NESTED_IDS = "delta.columnMapping.nested.ids"
"""Metadata of a column: numbers of the values in its lists and maps, which readers of Iceberg find them by."""


@dataclass(frozen=True, slots=True)
class FileColumns:
    """Names in files of a table's columns, or of a struct's fields.

    Attributes:
        names: By the table's name of each; nothing: they are called alike.
        numbers: Their numbers, by the table's name.
        inner: Of those that are structs, what is in them.
        nested: Of those that are lists, numbers of their values.
        by_number: Columns of a file are found by their numbers.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    numbers: Mapping[str, int] = field(default_factory=dict)
    inner: Mapping[str, FileColumns] = field(default_factory=dict)
    nested: Mapping[str, int] = field(default_factory=dict)
    by_number: bool = False

    def name(self, column: str) -> str:
        """Name of a column in files."""
        return self.names.get(column, column)

    def names_in(self, file: pa.Schema, columns: pa.Schema) -> list[str] | None:
        """Those of *columns* that a file has, as they are called there; None: it does not tell which ones it has."""
        if self.by_number and all(_number(column) is None for column in file):
            return None
        there = {self._table_name(column): column.name for column in file}
        return [there[name] for name in columns.names if name in there]

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
        metadata = None if number is None else {_NUMBER: str(number)}
        kind, inner = column.type, self.inner.get(column.name)
        if pa.types.is_struct(kind) and inner is not None:
            kind = pa.struct([inner._field(child) for child in kind])
        if (of_values := self.nested.get(column.name)) is not None:
            make = pa.large_list if pa.types.is_large_list(kind) else pa.list_
            kind = make(pa.field("element", kind.value_type, metadata={_NUMBER: str(of_values)}))
        return pa.field(self.name(column.name), kind, column.nullable, metadata)

    def _table_field(self, column: pa.Field) -> pa.Field:
        name = self._table_name(column)
        kind, inner = column.type, self.inner.get(name)
        if pa.types.is_struct(kind) and inner is not None:
            kind = pa.struct([inner._table_field(child) for child in kind])
        return pa.field(name, kind, column.nullable)

    def _table_name(self, column: pa.Field) -> str:
        # Of what a table does not have any more, a name that no column has.
        unknown = f"\0gone {column.name}" if self.numbers else column.name
        number = _number(column)
        if self.by_number and number is not None:
            return next((name for name, own in self.numbers.items() if own == number), unknown)
        # By number: only columns of `IDENTITY` may have none.
        found = next((name for name, there in self.names.items() if there == column.name), unknown)
        return unknown if self.by_number and found in self.numbers.keys() - set(IDENTITY.names) else found


SAME_NAMES = FileColumns()
"""Files have the table's own names."""


def file_columns(metadata: Metadata) -> FileColumns:
    """Names of columns in the files of a table; those of `IDENTITY` are among them if its rows keep their ids."""
    columns = SAME_NAMES
    if metadata.is_mapped:
        columns = _columns(metadata.columns, by_number=metadata.mapping_mode == "id")
    if not metadata.keeps_row_ids:
        return columns
    materialized = (metadata.configuration[name] for name in MATERIALIZED)
    names = {**columns.names, **dict(zip(IDENTITY.names, materialized, strict=True))}
    numbers = _IDENTITY_NUMBERS if metadata.configuration.get(_NUMBER_ALL[1]) == "true" else {}
    return replace(columns, names=names, numbers={**columns.numbers, **numbers})


def mapped(metadata: Metadata, schema: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Names and numbers for the columns of a table that have none.

    Args:
        schema: Columns from now on, as `schemaString` has them; those that stay have their metadata.

    Returns:
        The same columns with names and numbers; properties that the table has from now on.
    """
    if not metadata.is_mapped:
        return schema, {}
    last = int(metadata.configuration.get(_MAX_ID, "0"))
    has_nested = any(metadata.configuration.get(name) == "true" for name in _NUMBER_ALL)
    schema, last = _numbered(schema, last, has_nested=has_nested)
    return schema, {_MAX_ID: str(last)}


def nested_key(column: Mapping[str, Any]) -> str | None:
    """Name under which `NESTED_IDS` of a column has the values of its list; None: it is none."""
    kind = column["type"]
    is_list = isinstance(kind, dict) and kind.get("type") == "array"
    return f"{column['metadata'].get(_NAME)}.element" if is_list else None


def _numbered(struct: dict[str, Any], last: int, *, has_nested: bool) -> tuple[dict[str, Any], int]:
    fields = []
    for column in struct["fields"]:
        metadata = column.get("metadata", {})
        if _ID not in metadata:
            last += 1
            metadata = metadata | {_ID: last, _NAME: f"col-{uuid.uuid4()}"}
        kind = column["type"]
        if _is_struct(kind):
            kind, last = _numbered(kind, last, has_nested=has_nested)
        key = nested_key(column | {"metadata": metadata})
        if has_nested and key is not None and NESTED_IDS not in metadata:
            last += 1
            metadata = metadata | {NESTED_IDS: {key: last}}
        fields.append(column | {"type": kind, "metadata": metadata})
    return struct | {"fields": fields}, last


def _columns(fields: Sequence[Mapping[str, Any]], *, by_number: bool) -> FileColumns:
    keys = {field["name"]: (nested_key(field), field["metadata"].get(NESTED_IDS, {})) for field in fields}
    return FileColumns(
        {field["name"]: field["metadata"][_NAME] for field in fields},
        {field["name"]: int(field["metadata"][_ID]) for field in fields},
        {
            field["name"]: _columns(field["type"]["fields"], by_number=by_number)
            for field in fields
            if _is_struct(field["type"])
        },
        {name: int(ids[key]) for name, (key, ids) in keys.items() if key in ids},
        by_number,
    )


def _number(column: pa.Field) -> int | None:
    # Of a column of a file.
    number = (column.metadata or {}).get(_NUMBER)
    return None if number is None else int(number)


def _is_struct(kind: object) -> bool:
    return isinstance(kind, dict) and kind.get("type") == "struct"


def _named(array: pa.Array, kind: pa.DataType) -> pa.Array:
    # The same values in a type whose structs have other names.
    if array.type.equals(kind) or not pa.types.is_struct(array.type):
        return array
    inner = [_named(values, child.type) for values, child in zip(array.flatten(), kind, strict=True)]
    return pa.StructArray.from_arrays(inner, fields=list(kind), mask=array.is_null())
