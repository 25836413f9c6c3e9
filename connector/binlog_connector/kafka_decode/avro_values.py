"""Values in Avro's binary form: `read_avro`."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_NUMBERS = {"float": struct.Struct("<f"), "double": struct.Struct("<d")}
_VARINT_BITS_MAX = 63


def read_avro(schema: str, data: bytes) -> Any:
    """The value in *data*, which was written with *schema* (as JSON); logical types as the types that they are made of.

    Raises:
        ValueError: It was not, or the schema names types that it does not define.
    """
    try:
        parsed = json.loads(schema)
        reader = _Reader(data, dict(_definitions(parsed, "")))
        value = reader.value(parsed, "")
    except (LookupError, TypeError, struct.error) as error:
        raise ValueError(f"no value of its schema: {type(error).__name__}") from error
    if reader.place != len(data):
        raise ValueError(f"{len(data) - reader.place} bytes more than its schema has")
    return value


def _definitions(schema: Any, within: str) -> Iterator[tuple[str, tuple[Any, str]]]:
    # Full names of types, with their definitions and the namespace within these.
    if isinstance(schema, list):
        for branch in schema:
            yield from _definitions(branch, within)
    elif isinstance(schema, dict):
        if "name" in schema:
            within = _namespace(schema, within)
            yield _full_name(schema["name"], within), (schema, within)
        parts = [field["type"] for field in schema.get("fields", ())]
        for part in (*parts, *(schema[name] for name in ("type", "items", "values") if name in schema)):
            yield from _definitions(part, within)


def _namespace(schema: Any, within: str) -> str:
    own: str = schema["name"].rpartition(".")[0] or schema.get("namespace", within)
    return own


def _full_name(name: str, within: str) -> str:
    return name if "." in name or not within else f"{within}.{name}"


class _Reader:
    # *place*: the next byte.
    def __init__(self, data: bytes, named: dict[str, tuple[Any, str]]) -> None:
        self._data = data
        self.place = 0
        self._named = named
        self._complex: dict[str, Callable[[Any, str], Any]] = {
            "record": self._record,
            "enum": lambda schema, _: schema["symbols"][self._index()],
            "array": lambda schema, within: [self.value(schema["items"], within) for _ in self._blocks()],
            "map": lambda schema, within: {self._text(): self.value(schema["values"], within) for _ in self._blocks()},
            "fixed": lambda schema, _: self._taken(schema["size"]),
        }

    def value(self, schema: Any, within: str) -> Any:
        """The next value. *within*: the namespace that the schema is in."""
        if isinstance(schema, list):
            return self.value(schema[self._index()], within)
        if isinstance(schema, str):
            named = self._named.get(_full_name(schema, within))
            return self._plain(schema) if named is None else self.value(*named)
        kind = schema["type"]
        if not isinstance(kind, str) or kind not in self._complex:
            return self.value(kind, within)
        return self._complex[kind](schema, _namespace(schema, within) if "name" in schema else within)

    def _plain(self, kind: str) -> Any:
        if kind == "null":
            return None
        if kind == "boolean":
            return self._taken(1) == b"\1"
        if kind in {"int", "long"}:
            return self._number()
        if kind in _NUMBERS:
            return _NUMBERS[kind].unpack(self._taken(_NUMBERS[kind].size))[0]
        if kind == "bytes":
            return self._taken(self._index())
        if kind == "string":
            return self._text()
        raise ValueError(f"a type that the schema does not define: {kind}")

    def _record(self, schema: Any, within: str) -> dict[str, Any]:
        return {field["name"]: self.value(field["type"], within) for field in schema["fields"]}

    def _blocks(self) -> Iterator[None]:
        # Blocks of items, each after their number; a negative one has the size after it.
        while count := self._number():
            if count < 0:
                self._number()
            for _ in range(abs(count)):
                yield

    def _text(self) -> str:
        return self._taken(self._index()).decode()

    def _index(self) -> int:
        number = self._number()
        if number < 0:
            raise ValueError("a negative size")
        return number

    def _number(self) -> int:
        value = bits = 0
        while True:
            (byte,) = self._taken(1)
            value |= (byte & 0x7F) << bits
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            bits += 7
            if bits > _VARINT_BITS_MAX:
                raise ValueError("a number of more than 64 bits")

    def _taken(self, size: int) -> bytes:
        end = self.place + size
        if end > len(self._data):
            raise ValueError("the value goes past its end")
        taken, self.place = self._data[self.place : end], end
        return taken
