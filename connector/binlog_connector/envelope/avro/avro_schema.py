"""Schemas of Kafka Connect as Avro has them: `avro_schema`, as Debezium with Confluent's AvroConverter writes them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from binlog_connector.envelope.connect_schema import compact
from binlog_format.errors import UnsupportedError

if TYPE_CHECKING:
    from binlog_connector.envelope.connect_schema import Schema

_PRIMITIVES = {
    "boolean": "boolean",
    "int16": "int",
    "int32": "int",
    "int64": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "bytes",
}
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_LOGICAL_TYPES = {
    "org.apache.kafka.connect.data.Date": "date",
    "org.apache.kafka.connect.data.Time": "time-millis",
    "org.apache.kafka.connect.data.Timestamp": "timestamp-millis",
}
_PRECISION_UNKNOWN = 64
"""Precision that the converter writes for decimals without one: that of BIGINT UNSIGNED."""

_NOT_IN_NAMES = re.compile(r"^[^A-Za-z_]|[^A-Za-z0-9_]")


def avro_name(name: str) -> str:
    """A name of a field, or a part of the name of a record: what Avro does not take becomes `_`, as in Debezium."""
    return _NOT_IN_NAMES.sub("_", name) or "_"


def avro_schema(schema: Schema) -> str:
    """The Avro schema of what has the Connect schema *schema*, as JSON."""
    return compact(_Names().schema(schema, ""))


class _Names:
    # A record is defined where it comes first, and named from then on.
    def __init__(self) -> None:
        self._defined: set[str] = set()

    def schema(self, schema: Schema, namespace: str) -> Any:
        made = (
            self._struct(schema, namespace) if schema["type"] == "struct" else _annotated(self._plain(schema), schema)
        )
        if not schema["optional"]:
            return made
        return [made, "null"] if "default" in schema else ["null", made]

    def _plain(self, schema: Schema) -> dict[str, Any]:
        if schema["type"] == "array":
            return {"type": "array", "items": self.schema(schema["items"], "")}
        made: dict[str, Any] = {"type": _PRIMITIVES[schema["type"]]}
        if schema.get("name") == _DECIMAL:
            parameters = schema["parameters"]
            made["scale"] = int(parameters["scale"])
            made["precision"] = int(parameters.get("connect.decimal.precision", _PRECISION_UNKNOWN))
        return made

    def _struct(self, schema: Schema, enclosing: str) -> Any:
        full_name = _full_name(schema)
        namespace, _, name = full_name.rpartition(".")
        if full_name in self._defined:
            return name if namespace == enclosing else full_name
        self._defined.add(full_name)
        made: dict[str, Any] = {"type": "record", "name": name}
        if namespace != enclosing:
            made["namespace"] = namespace
        made["fields"] = [self._field(field, namespace) for field in schema["fields"]]
        _check_names([field["field"] for field in schema["fields"]], full_name)
        return _annotated(made, schema)

    def _field(self, field: Schema, namespace: str) -> dict[str, Any]:
        made = {"name": avro_name(field["field"]), "type": self.schema(field, namespace)}
        if field["optional"] or "default" in field:
            made["default"] = field.get("default")
        return made


def _annotated(made: dict[str, Any], schema: Schema) -> Any:
    # In the order in which the converter writes them.
    if "version" in schema:
        made["connect.version"] = schema["version"]
    if "parameters" in schema:
        made["connect.parameters"] = schema["parameters"]
    if "default" in schema:
        made["connect.default"] = schema["default"]
    if "name" in schema:
        made["connect.name"] = _full_name(schema)
    if schema["type"] == "int16":
        made["connect.type"] = "int16"
    logical_type = "decimal" if schema.get("name") == _DECIMAL else _LOGICAL_TYPES.get(schema.get("name", ""))
    if logical_type is not None:
        made["logicalType"] = logical_type
    return made if len(made) > 1 else made["type"]


def _full_name(schema: Schema) -> str:
    return ".".join(avro_name(part) for part in schema["name"].split("."))


def _check_names(names: list[str], record: str) -> None:
    first: dict[str, str] = {}
    for name in names:
        other = first.setdefault(avro_name(name), name)
        if other != name:
            raise UnsupportedError(
                "COLUMN_TYPE",
                f"{record}: columns {other} and {name} are both {avro_name(name)} in Avro",
                hint='Rename one of them, leave the table out, or publish with format = "json"',
            )
