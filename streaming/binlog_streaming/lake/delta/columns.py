"""Columns of a Delta table: `delta_schema`; `created` makes a new table, `with_columns` adds columns."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import Schema
from msgspec.structs import replace

from binlog_format.errors import UnsupportedError
from binlog_format.rows.json.variants import is_variant
from binlog_streaming.lake.delta.actions import DeltaFileFormat, Metadata, Protocol, milliseconds
from binlog_streaming.lake.delta.features import (
    CLUSTERING,
    NAMED_FEATURES,
    TYPE_CHANGES,
    VARIANT_NAME,
    VARIANTS,
    clustering_columns,
    features,
    is_widening,
    named_features,
)
from binlog_streaming.lake.delta.mapping import ROW_ID_FEATURES, mapped
from binlog_streaming.lake.evolution import is_binary
from binlog_streaming.settings.choices import unpartitionable, valueless

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from binlog_streaming.lake.delta.actions import Struct
    from binlog_streaming.lake.delta.log import Named, TableLog
    from binlog_streaming.settings.choices import PartitionRule

PLAIN = 1, 2
"""Versions of readers and writers that every reader knows."""

LOCAL_TIMES = "timestampNtz"
"""The feature of tables that have times without a zone."""


def delta_schema(schema: pa.Schema) -> Schema:
    """The schema as Delta has it; every column may be null.

    The server's NOT NULL is not kept: zero dates become null, and rows may come without some columns.
    """
    for field in schema:
        if not _has_type(field.type):
            raise UnsupportedError("COLUMN_TYPE", f"column {field.name}: Delta has no type for {field.type}")
    plain = [
        pa.field(field.name, pa.string() if is_variant(field.type) else field.type, nullable=True) for field in schema
    ]
    columns = json.loads(Schema.from_arrow(pa.schema(plain)).to_json())
    for field, column in zip(schema, columns["fields"], strict=True):
        if is_variant(field.type):
            column["type"] = VARIANT_NAME
    return Schema.from_json(json.dumps(columns))


def created(
    schema: pa.Schema,
    *,
    name: str,
    description: str,
    configuration: Mapping[str, str],
    partition_by: Sequence[PartitionRule] = (),
) -> list[Named]:
    """Make the actions that create a table."""
    for rule in partition_by:
        if rule.column not in schema.names:
            raise unpartitionable(name, rule, "there is no such column", schema.names)
        if pa.types.is_nested(schema.field(rule.column).type):
            raise unpartitionable(name, rule, "not with a column of several values", schema.names)
        if is_binary(schema.field(rule.column).type):
            # Spark reads the log's text as UTF-8, deltalake writes an escape for each byte and reads it as it is.
            raise valueless(
                name, rule, "Delta's log has texts, and no text for bytes that all readers take for the same"
            )
    metadata = Metadata(
        id=str(uuid.uuid4()),
        name=name,
        description=description,
        format=DeltaFileFormat(provider="parquet", options={}),
        schema_string=delta_schema(schema).to_json(),
        partition_columns=tuple(rule.column for rule in partition_by),
        configuration=dict(configuration),
        created_time=milliseconds(),
    )
    protocol = Protocol(min_reader_version=PLAIN[0], min_writer_version=PLAIN[1])
    protocol = _for_types(protocol, schema) or protocol
    if metadata.keeps_row_ids:
        writers = {*features(protocol)[1], *ROW_ID_FEATURES}
        writer_version = NAMED_FEATURES[1]
        protocol = replace(protocol, min_writer_version=writer_version, writer_features=tuple(sorted(writers)))
    return [("protocol", protocol), ("metaData", metadata)]


def with_columns(
    log: TableLog, schema: pa.Schema, renamed: Mapping[str, str], *, is_rewritten: bool = False
) -> list[Named]:
    """Make the actions that give a table other columns; comments and all other metadata of a column stay.

    Args:
        renamed: Old names and new ones.
        is_rewritten: No file of before stays, so none has other types.
    """
    old_fields: Struct = {"fields": log.metadata.columns}
    typed = _with_metadata(json.loads(delta_schema(schema).to_json()), old_fields, renamed)
    new, properties = mapped(log.metadata, _with_type_changes(typed, old_fields, renamed, is_rewritten=is_rewritten))
    partitions = tuple(renamed.get(name, name) for name in log.metadata.partition_columns)
    metadata = replace(
        log.metadata,
        schema_string=json.dumps(new, ensure_ascii=False, separators=(",", ":")),
        partition_columns=tuple(name for name in partitions if name in schema.names),
        configuration=log.metadata.configuration | properties,
    )
    protocol = _for_types(log.protocol, schema)
    actions: list[Named] = [] if protocol is None else [("protocol", protocol)]
    if metadata == log.metadata:
        return actions
    return [*actions, ("metaData", metadata), *_clustered_by(log, schema, renamed)]


def _clustered_by(log: TableLog, schema: pa.Schema, renamed: Mapping[str, str]) -> list[Named]:
    # Names of columns that files have too; with column mapping those in files stay.
    if log.metadata.is_mapped or CLUSTERING not in log.domains:
        return []
    before = clustering_columns(log.domains)
    after = [[name] for name in (renamed.get(path[0], path[0]) for path in before) if name in schema.names]
    if after == before:
        return []
    configuration = json.loads(log.domains[CLUSTERING].configuration) | {"clusteringColumns": after}
    return [("domainMetadata", replace(log.domains[CLUSTERING], configuration=json.dumps(configuration)))]


def widens(log: TableLog, schema: pa.Schema, retyped: Iterable[str]) -> bool:
    """True if a table takes other types of columns as they are in *schema*, while its files stay as they are."""
    if log.metadata.configuration.get("delta.enableTypeWidening") != "true":
        return False
    old = {field["name"]: field["type"] for field in log.metadata.columns}
    new = {field["name"]: field["type"] for field in json.loads(delta_schema(schema).to_json())["fields"]}
    return all(name in old and is_widening(old[name], new[name]) for name in retyped)


def _with_type_changes(new: Struct, old: Struct, renamed: Mapping[str, str], *, is_rewritten: bool) -> Struct:
    types = {renamed.get(field["name"], field["name"]): field["type"] for field in old["fields"]}
    fields = []
    for field in new["fields"]:
        metadata = dict(field["metadata"])
        changes = metadata.pop(TYPE_CHANGES, [])
        before = types.get(field["name"], field["type"])
        if before != field["type"] and isinstance(before, str):
            changes = [*changes, {"fromType": before, "toType": field["type"]}]
        if changes and not is_rewritten:
            metadata[TYPE_CHANGES] = changes
        fields.append(field | {"metadata": metadata})
    return new | {"fields": fields}


def _with_metadata(new: Struct, old: Struct, renamed: Mapping[str, str]) -> Struct:
    # The metadata of the columns of *old*, for those of *new*, and of what is in them.
    there = {renamed.get(field["name"], field["name"]): field for field in old["fields"]}
    fields = []
    for field in new["fields"]:
        before, kind = there.get(field["name"], {}), field["type"]
        if isinstance(kind, dict) and "fields" in kind and isinstance(before.get("type"), dict):
            kind = _with_metadata(kind, before["type"], {})
        nullable = before.get("nullable", True)
        fields.append(field | {"type": kind, "nullable": nullable, "metadata": before.get("metadata", {})})
    return new | {"fields": fields}


def _for_types(protocol: Protocol, schema: pa.Schema) -> Protocol | None:
    # What the protocol has to be for these columns; None: it is.
    readers, writers = features(protocol)
    needed = {LOCAL_TIMES} if any(_has_local_time(field.type) for field in schema) else set()
    if any(is_variant(field.type) for field in schema):
        needed.add(VARIANTS)
    return None if needed <= writers else named_features(readers | needed, writers | needed)


def _has_local_time(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return any(_has_local_time(field.type) for field in kind)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _has_local_time(kind.value_type)
    return pa.types.is_timestamp(kind) and kind.tz is None


_NUMBERS = (pa.types.is_signed_integer, pa.types.is_float32, pa.types.is_float64, pa.types.is_decimal128)
_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
_SIMPLE = (*_NUMBERS, *_TEXTS, pa.types.is_boolean, pa.types.is_date32)


def _has_type(kind: pa.DataType) -> bool:
    # deltalake itself takes unsigned integers as well, as signed ones of the same width.
    if is_variant(kind):
        return True
    if pa.types.is_struct(kind):
        return all(_has_type(field.type) for field in kind)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _has_type(kind.value_type)
    if pa.types.is_timestamp(kind):
        return kind.unit == "us" and kind.tz in (None, "UTC")
    return any(is_type(kind) for is_type in _SIMPLE)
