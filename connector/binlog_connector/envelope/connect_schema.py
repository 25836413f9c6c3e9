"""Schemas as Kafka Connect's JSON converter reads them: of a column, of a row, of an envelope; as bytes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from binlog_connector.envelope.json import template_kernels as kernels
from binlog_format.kernels import as_bytes
from binlog_format.vendor import Vendor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_connector.envelope.options import EnvelopeOptions
    from binlog_format.kernels import Bytes

Schema = dict[str, Any]

_SNAPSHOT_VALUES = "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"


def schema_of(
    kind: str,
    *,
    optional: bool = False,
    name: str | None = None,
    parameters: dict[str, str] | None = None,
    doc: str | None = None,
) -> Schema:
    """The schema of a plain type, or of one with a meaning (*name*), in the order in which the converter has it."""
    schema: Schema = {"type": kind, "optional": optional}
    if name is not None:
        schema |= {"name": name, "version": 1}
    if doc:
        schema["doc"] = doc
    if parameters:
        schema["parameters"] = parameters
    return schema


def struct_of(fields: Sequence[Schema], *, name: str, optional: bool = False, version: int | None = None) -> Schema:
    """The schema of a struct of *fields*."""
    schema: Schema = {"type": "struct", "fields": list(fields), "optional": optional, "name": name}
    if version is not None:
        schema["version"] = version
    return schema


def field_of(name: str, schema: Schema) -> Schema:
    """*schema* as the field *name* of a struct."""
    return {**schema, "field": name}


def _plain(kind: str, *names: str, optional: bool = False) -> list[Schema]:
    return [field_of(name, schema_of(kind, optional=optional)) for name in names]


class SourceField(NamedTuple):
    """A field of `source`.

    Attributes:
        name: As Debezium has it.
        type: Of Kafka Connect.
        field: Of `template_kernels`; `NOTHING`: all changes of a table have the same.
    """

    name: str
    type: str
    field: int = kernels.NOTHING
    optional: bool = False


SOURCE_FIELDS = (
    SourceField("version", "string"),
    SourceField("connector", "string"),
    SourceField("name", "string"),
    SourceField("ts_ms", "int64", kernels.MILLISECONDS),
    SourceField("snapshot", "string"),
    SourceField("db", "string"),
    SourceField("sequence", "string", kernels.SEQUENCE_START, optional=True),
    SourceField("ts_us", "int64", kernels.MICROSECONDS, optional=True),
    SourceField("ts_ns", "int64", kernels.NANOSECONDS, optional=True),
    SourceField("table", "string", optional=True),
    SourceField("server_id", "int64", kernels.SERVER_ID),
    SourceField("gtid", "string", kernels.GTID, optional=True),
    SourceField("file", "string", kernels.FILE),
    SourceField("pos", "int64", kernels.POSITION),
    SourceField("row", "int32", kernels.ROW),
    SourceField("thread", "int64", kernels.THREAD, optional=True),
    SourceField("query", "string", kernels.QUERY, optional=True),
)
"""All of them, in their order: in schemas, in JSON, in attributes of CloudEvents, in Avro."""


def attribute_name(field: str) -> str:
    """Name of the attribute of CloudEvents that is a field of Debezium's."""
    return f"iodebezium{field.replace('_', '')}"


def event_schema(database: str, options: EnvelopeOptions) -> Schema:
    """The schema of a CloudEvent whose data is in Avro."""
    of_source = [
        field_of(
            attribute_name(name),
            schema_of("int32" if kind == "int32" else "string", optional=optional or name == "snapshot"),
        )
        for name, kind, _, optional in SOURCE_FIELDS
    ]
    fields = [
        *_plain("string", "id", "source", "specversion", "type", "time", "datacontenttype", "dataschema"),
        *_plain("string", attribute_name("op")),
        *of_source,
        *_plain("string", *map(attribute_name, TRANSACTION_FIELDS), optional=True),
        *_plain("bytes", "data"),
    ]
    return struct_of(fields, name=f"{options.schema_name(f'{database}.CloudEvents')}.Envelope")


TRANSACTION_FIELDS = ("txid", "txtotalorder", "txdatacollectionorder")
"""Attributes of CloudEvents about transactions, by the names of Debezium's fields."""

_SNAPSHOT = {
    **schema_of("string", optional=True, name="io.debezium.data.Enum", parameters={"allowed": _SNAPSHOT_VALUES}),
    "default": "false",
}


def source_schema(vendor: Vendor) -> Schema:
    """The schema of `source`, as Debezium's connector for that server has it."""
    fields = [
        field_of(name, _SNAPSHOT if name == "snapshot" else schema_of(kind, optional=optional))
        for name, kind, _, optional in SOURCE_FIELDS
    ]
    return struct_of(fields, name=f"io.debezium.connector.{connector_name(vendor)}.Source", version=1)


def envelope_schema(row_fields: Sequence[Schema], name: str, vendor: Vendor) -> Schema:
    """The schema of a change. *name*: `<prefix>.<database>.<table>`."""
    row = struct_of(row_fields, name=f"{name}.Value", optional=True)
    block = struct_of(
        [*_plain("string", "id"), *_plain("int64", "total_order", "data_collection_order")],
        name="event.block",
        version=1,
        optional=True,
    )
    fields = [
        field_of("before", row),
        field_of("after", row),
        field_of("source", source_schema(vendor)),
        field_of("transaction", block),
        *_plain("string", "op"),
        *_plain("int64", "ts_ms", "ts_us", "ts_ns", optional=True),
    ]
    return struct_of(fields, name=f"{name}.Envelope", version=2)


def has_whole_envelope(vendor: Vendor) -> bool:
    """True if CloudEvents of Debezium's connector for that server have the whole envelope as data, not rows alone."""
    return vendor is Vendor.MARIADB


def data_schema(envelope: Schema, vendor: Vendor) -> Schema:
    """The schema of `data` in a CloudEvent, whose envelope has the schema *envelope*."""
    fields = envelope["fields"] if has_whole_envelope(vendor) else envelope["fields"][:2]
    return struct_of(fields, name=f"io.debezium.connector.{connector_name(vendor)}.Data")


def key_schema(fields: Sequence[Schema], name: str) -> Schema:
    """The schema of a key.

    It has neither defaults nor comments: keys are the same bytes whether the statement that declares a column is known.

    Args:
        name: `<prefix>.<database>.<table>`.
    """
    bare = [{part: value for part, value in field.items() if part not in ("default", "doc")} for field in fields]
    return struct_of(bare, name=f"{name}.Key")


def flat_schema(row_fields: Sequence[Schema], name: str) -> Schema:
    """The schema of a flat row with its metadata. *name*: `<prefix>.<database>.<table>`."""
    fields = [
        *row_fields,
        *_plain("string", "__db", "__table"),
        *_plain("int64", "__source_ts_ms"),
        *_plain("string", "__source_sequence"),
        *_plain("string", "__source_gtid", optional=True),
        *_plain("string", "__op", "__deleted"),
    ]
    return struct_of(fields, name=f"{name}.Value")


def _array_of(item: Schema, *, optional: bool = False) -> Schema:
    return {"type": "array", "items": item, "optional": optional}


_TRANSACTION = "io.debezium.connector.common.TransactionMetadata"
TRANSACTION_KEY = struct_of(_plain("string", "id"), name=f"{_TRANSACTION}Key", version=1)


def transaction_value_schema(*, is_first_version: bool) -> Schema:
    """The schema of the value of a message about a transaction."""
    count_of_table = struct_of(
        [*_plain("string", "data_collection"), *_plain("int64", "event_count")],
        name="event.collection",
        version=1,
        optional=not is_first_version,
    )
    fields = [
        *_plain("string", "status", "id"),
        *_plain("int64", "event_count", optional=True),
        field_of("data_collections", _array_of(count_of_table, optional=True)),
        *_plain("int64", "ts_ms"),
    ]
    return struct_of(fields, name=f"{_TRANSACTION}Value", version=1)


HEARTBEAT_KEY = struct_of(_plain("string", "serverName"), name="io.debezium.connector.common.ServerNameKey", version=1)
HEARTBEAT_VALUE = struct_of(_plain("int64", "ts_ms"), name="io.debezium.connector.common.Heartbeat", version=1)


def schema_change_schemas(vendor: Vendor) -> tuple[Schema, Schema]:
    """The schemas of key and value of a message about a statement."""
    name = f"io.debezium.connector.{connector_name(vendor)}.SchemaChange"
    change = struct_of(_plain("string", "type", "id"), name="io.debezium.connector.schema.Change", version=1)
    fields = [
        field_of("source", source_schema(vendor)),
        *_plain("int64", "ts_ms"),
        *_plain("string", "databaseName", "schemaName", "ddl", optional=True),
        field_of("tableChanges", _array_of(change)),
    ]
    key = struct_of(_plain("string", "databaseName"), name=f"{name}Key", version=1)
    return key, struct_of(fields, name=f"{name}Value", version=1)


def connector_name(vendor: Vendor) -> str:
    """Debezium's name of its connector for that server."""
    return "mariadb" if vendor is Vendor.MARIADB else "mysql"


def compact(value: object) -> str:
    """JSON without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def wrapping(schema: Schema | None) -> tuple[Bytes, Bytes]:
    """Bytes before and after a payload; nothing without a schema."""
    if schema is None:
        return as_bytes(b""), as_bytes(b"")
    return as_bytes(f'{{"schema":{compact(schema)},"payload":'.encode()), as_bytes(b"}")
