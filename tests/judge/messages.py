"""Messages as any consumer of Kafka Connect's JSON reads them, by the schema that each carries; no code of the job.

`misfit` tells what of a value its schema does not allow, `plain_value` gives what tests compare with a server's.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import json
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tests.judge.tables import DOUBLE, FLOATS, INTEGERS, server_value

Schema = dict[str, Any]

BITS_OF = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
PLAIN_TYPES: dict[str, tuple[type, ...]] = {
    "boolean": (bool,),
    "string": (str,),
    "float": (float, int),
    "double": (float, int),
}
DECIMAL = "org.apache.kafka.connect.data.Decimal"
EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001
_TIME = re.compile(r"(-?)(\d+):(\d\d):(\d\d)(?:\.(\d+))?")
_SECOND_US = 1_000_000


@dataclass(frozen=True)
class Part:
    """A key or a value with its schema. *content*: the payload."""

    schema: Schema
    content: Any

    @classmethod
    def of(cls, data: bytes | None) -> Part | None:
        """What a message has as its key or value; None: nothing."""
        found = json.loads(data or b"null")
        return None if found is None else cls(found["schema"], found["payload"])

    def field(self, name: str) -> Part | None:
        """A field of a struct; None: it is null."""
        schema = next(field for field in self.schema["fields"] if field["field"] == name)
        return None if self.content[name] is None else Part(schema, self.content[name])


@dataclass(frozen=True)
class Message:
    """A message of a table's topic, in the order of the log.

    Attributes:
        value: None: it is a tombstone.
        number: The last number of its GTID; that of the delete before for a tombstone.
    """

    key: Part | None
    value: Part | None
    number: int

    @property
    def op(self) -> str:
        """What has happened to the row; of a tombstone nothing."""
        return "" if self.value is None else str(self.value.content["op"])

    @property
    def row(self) -> Part | None:
        """The row after the change, of a delete the one before."""
        return None if self.value is None else self.value.field("before" if self.op == "d" else "after")


def misfit(part: Part, at: str = "") -> str:
    """What a value has that its schema does not allow; empty: nothing."""
    schema, value = part.schema, part.content
    kind = schema["type"]
    if value is None:
        return "" if schema["optional"] else f"{at}: null, which is not optional"
    if "default" in schema:
        bare = {name: part for name, part in schema.items() if name != "default"}
        if why := misfit(Part(bare, schema["default"]), f"default of {at}"):
            return why
    if kind == "struct":
        return _misfit_of_struct(schema, value, at)
    if kind == "array":
        return next(filter(None, (misfit(Part(schema["items"], item), at) for item in value)), "")
    if kind in BITS_OF:
        is_right = type(value) is int and -(2 ** (BITS_OF[kind] - 1)) <= value < 2 ** (BITS_OF[kind] - 1)
    elif kind == "bytes":
        is_right = isinstance(value, str) and _is_base64(value)
    else:
        is_right = isinstance(value, PLAIN_TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))
    return "" if is_right else f"{at}: {value!r} is no {kind}"


def _misfit_of_struct(schema: Schema, value: Any, at: str) -> str:
    names = [field["field"] for field in schema["fields"]]
    if [*value] != names:
        return f"{at}: fields {', '.join(value)}, the schema has {', '.join(names)}"
    parts = (misfit(Part(field, value[field["field"]]), f"{at}.{field['field']}") for field in schema["fields"])
    return next(filter(None, parts), "")


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except binascii.Error:
        return False
    return True


def plain_row(row: Part, kinds: dict[str, str]) -> dict[str, object]:
    """A row as plain values. *kinds*: `DATA_TYPE` of its columns."""
    fields = {field["field"]: field for field in row.schema["fields"]}
    return {name: plain_value(Part(fields[name], value), kinds.get(name, "")) for name, value in row.content.items()}


def plain_value(part: Part, kind: str) -> object:
    """The plain value of a field, as `server_plain` gives it."""
    schema, value = part.schema, part.content
    if value is None:
        return None
    name = schema.get("name", "").rpartition(".")[2]
    if schema.get("name") == DECIMAL:
        number = _decimal(value, int(schema["parameters"]["scale"]))
        return int(number) if kind in INTEGERS else number
    if name == "Bits":
        return int.from_bytes(base64.b64decode(value), "little")
    if schema["type"] == "boolean":
        return int(value)
    if name in ("Date", "Timestamp", "MicroTimestamp", "ZonedTimestamp"):
        return _moment(value, name)
    if name in ("Geometry", "Point"):
        # A NOT NULL column without a value has no bytes at all, of which the server's functions make NULL.
        return (value["srid"] or 0, base64.b64decode(value["wkb"])) if value["wkb"] else None
    if schema["type"] == "bytes":
        return base64.b64decode(value)
    if schema["type"] in ("float", "double"):
        return FLOATS.pack(value) if kind == "float" else DOUBLE.pack(value)
    return value


def server_plain(text: str | None, kind: str) -> object:
    """The plain value of a text of the server: a TIME as microseconds, all else as `server_value` has it."""
    found = None if text is None or kind != "time" else _TIME.fullmatch(text)
    if found is None:
        return server_value(text, kind)
    sign, hours, minutes, seconds, fraction = found.groups()
    micros = ((int(hours) * 60 + int(minutes)) * 60 + int(seconds)) * _SECOND_US + int((fraction or "0").ljust(6, "0"))
    return -micros if sign else micros


def _decimal(value: str, scale: int) -> str:
    number = int.from_bytes(base64.b64decode(value), "big", signed=True)
    digits = tuple(int(digit) for digit in str(abs(number)))
    return str(Decimal((int(number < 0), digits, -scale)))


def _moment(value: Any, name: str) -> object:
    if name == "ZonedTimestamp":
        return dt.datetime.fromisoformat(value.removesuffix("Z"))
    if name == "Date":
        return (EPOCH + dt.timedelta(days=value)).date()
    return EPOCH + dt.timedelta(microseconds=value * (1000 if name == "Timestamp" else 1))


def as_avro(part: Part) -> Any:
    """A payload as a reader of Avro gets it: structs are lists, because Avro has other names; bytes are bytes."""
    schema, value = part.schema, part.content
    if value is None:
        return None
    if schema["type"] == "struct":
        return [as_avro(Part(field, value[field["field"]])) for field in schema["fields"]]
    if schema["type"] == "array":
        return [as_avro(Part(schema["items"], item)) for item in value]
    if schema.get("name") == DECIMAL:
        return _decimal(value, int(schema["parameters"]["scale"]))
    if schema["type"] == "bytes":
        return base64.b64decode(value)
    return FLOATS.pack(value) if schema["type"] == "float" else value


def read_avro(value: Any, schema: Schema) -> Any:
    """What a reader of Avro got, as `as_avro` gives it. *schema*: that of the same message in JSON."""
    if value is None:
        return None
    if schema["type"] == "struct":
        return [read_avro(item, field) for item, field in zip(value.values(), schema["fields"], strict=True)]
    if schema["type"] == "array":
        return [read_avro(item, schema["items"]) for item in value]
    if isinstance(value, Decimal):
        return str(value)
    return FLOATS.pack(value) if schema["type"] == "float" else value
