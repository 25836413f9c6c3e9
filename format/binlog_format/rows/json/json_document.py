"""MySQL's binary JSON in plain Python, opened only where it is looked at: `parse_document`, `JsonNode.encoded`.

For the rare values that have to be changed (`json_diffs`), and for those that a statement has as a text
(`document_of`); columns are read by `json_columns`.
"""

from __future__ import annotations

import json
import re

import numpy as np

from binlog_format.rows.json.json_layout import (
    JSON_DEPTH_MAX,
    JSON_FALSE,
    JSON_NULL,
    JSON_NUMBER_SIZES,
    JSON_SIZE_BYTES_MAX,
    JSON_SMALL_SIZE_MAX,
    JSON_TRUE,
    JsonType,
)

_OBJECTS = frozenset({JsonType.SMALL_OBJECT, JsonType.LARGE_OBJECT})
_ARRAYS = frozenset({JsonType.SMALL_ARRAY, JsonType.LARGE_ARRAY})
_LARGE = frozenset({JsonType.LARGE_OBJECT, JsonType.LARGE_ARRAY})
_LITERALS = {None: JSON_NULL, True: JSON_TRUE, False: JSON_FALSE}
_EXACT_DIGITS_MAX = 15
_EXACT_POWER_MAX = 22
_REAL = re.compile(r"-?(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?", re.ASCII)


class BadJsonError(Exception):
    """Bytes that are no document, or changes that do not fit it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class JsonNode:
    """A value in a document.

    Attributes:
        kind: Its type; of an opened object or array the one that it was read as.
        content: Its bytes; of an opened object or array those that it was read from.
        keys: Of an opened object, as sorted by the server; empty for all others.
        values: Members of an opened object or array; None: it has not been opened.
    """

    __slots__ = ("content", "keys", "kind", "values")

    def __init__(self, kind: JsonType, content: bytes) -> None:
        self.kind = kind
        self.content = content
        self.keys: list[bytes] = []
        self.values: list[JsonNode] | None = None

    @property
    def is_object(self) -> bool:
        """True if the members have keys."""
        return self.kind in _OBJECTS

    @property
    def is_array(self) -> bool:
        """True if the members have numbers."""
        return self.kind in _ARRAYS

    def members(self) -> list[JsonNode]:
        """The values in an object or array, which is opened for it; changes to the list count.

        Raises:
            BadJsonError: Its bytes are none.
        """
        if self.values is None:
            self.values = self._opened()
        return self.values

    def encoded(self) -> tuple[JsonType, bytes]:
        """Type and bytes, with all changes."""
        if self.values is None:
            return self.kind, self.content
        parts = [value.encoded() for value in self.values]
        packed = _packed(self.keys if self.is_object else None, parts, word=2)
        if packed is not None:
            return JsonType.SMALL_OBJECT if self.is_object else JsonType.SMALL_ARRAY, packed
        packed = _packed(self.keys if self.is_object else None, parts, word=4)
        assert packed is not None, "a document of 4 GiB out of an event"
        return JsonType.LARGE_OBJECT if self.is_object else JsonType.LARGE_ARRAY, packed

    def _opened(self) -> list[JsonNode]:
        word = 4 if self.kind in _LARGE else 2
        content = self.content
        count = _number(content, 0, word)
        key_entries = 2 * word
        value_entries = key_entries + count * (word + 2 if self.is_object else 0)
        head = value_entries + count * (1 + word)
        if head > len(content):
            raise BadJsonError(f"{count} members do not fit into {len(content)} bytes")
        left = len(content) - head
        for entry in range(key_entries, value_entries, word + 2):
            start, size = _number(content, entry, word), _number(content, entry + word, 2)
            left -= size
            if start < head or start + size > len(content):
                raise BadJsonError(f"a key lies at byte {start} of {len(content)}")
            self.keys.append(content[start : start + size])
        values = []
        for entry in range(value_entries, head, 1 + word):
            kind = _kind(content[entry])
            if JSON_NUMBER_SIZES.get(kind, word + 1) <= word:
                values.append(_cut(kind, content[entry + 1 : entry + 1 + word]))
                continue
            start = _number(content, entry + 1, word)
            if start < head:
                raise BadJsonError(f"a value lies at byte {start}, in the {head} bytes before the first one")
            value = _cut(kind, content[start:])
            left -= len(value.content)
            if left < 0:
                raise BadJsonError("values overlap")
            values.append(value)
        return values


def parse_document(document: bytes) -> JsonNode:
    """The value that a document is; of an empty one null, as the server has it.

    Raises:
        BadJsonError: It is no document. What lies deeper is only looked at when it is asked for.
    """
    if not document:
        return JsonNode(JsonType.LITERAL, bytes([JSON_NULL]))
    return _cut(_kind(document[0]), document[1:])


def document_of(text: str, *, first_counts: bool = False) -> bytes:
    """The document that a server makes of a JSON text.

    Args:
        text: The text.
        first_counts: Of members with the same key the first one counts, not the last one (MySQL before 8.0.3).

    Raises:
        BadJsonError: It is none, or a number in it is one that not all servers read alike.
    """
    try:
        pairs = _of_first if first_counts else None
        value = json.loads(text, parse_float=_real, parse_constant=_no_number, object_pairs_hook=pairs)
        kind, content = _node(value, 0).encoded()
    except (ValueError, RecursionError) as error:
        raise BadJsonError(f"no JSON text: {error}") from error
    return bytes([kind]) + content


def _of_first(pairs: list[tuple[str, object]]) -> dict[str, object]:
    return dict(reversed(pairs))


def _node(value: object, depth: int) -> JsonNode:
    if isinstance(value, dict | list):
        if depth == JSON_DEPTH_MAX:
            raise BadJsonError("objects and arrays are nested too deep")
        return _container(value, depth + 1)
    if isinstance(value, str):
        return JsonNode(JsonType.STRING, string_document(value)[1:])
    if value is None or isinstance(value, bool):
        return JsonNode(JsonType.LITERAL, bytes([_LITERALS[value]]))
    assert isinstance(value, int | float), "JSON has no other values"
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
        return JsonNode(JsonType.INT64, value.to_bytes(8, "little", signed=True))
    if isinstance(value, int) and 0 < value < 1 << 64:
        return JsonNode(JsonType.UINT64, value.to_bytes(8, "little"))
    real = _real(str(value)) if isinstance(value, int) else value
    return JsonNode(JsonType.DOUBLE, np.array(real, "<f8").tobytes())


def _container(value: dict[str, object] | list[object], depth: int) -> JsonNode:
    if isinstance(value, list):
        node, members = JsonNode(JsonType.SMALL_ARRAY, b""), value
    else:
        node = JsonNode(JsonType.SMALL_OBJECT, b"")
        by_key = {key.encode(): member for key, member in value.items()}
        node.keys = sorted(by_key, key=key_order)
        members = [by_key[key] for key in node.keys]
    node.values = [_node(member, depth) for member in members]
    return node


def _real(text: str) -> float:
    # MySQL 8.0.12 reads others to a neighbour, 9.7 reads all exactly: 20,000 numbers on each.
    match = _REAL.fullmatch(text)
    assert match is not None, "a number of JSON"
    fraction = match[2] or ""
    digits = (match[1] + fraction).lstrip("0")
    if len(digits) > _EXACT_DIGITS_MAX or abs(int(match[3] or 0) - len(fraction)) > _EXACT_POWER_MAX:
        raise BadJsonError("a number of so many digits that not all servers read it alike")
    return float(text)


def key_order(key: bytes) -> tuple[int, bytes]:
    """Sort key of a member of an object, as servers sort them."""
    return len(key), key


def string_document(text: str) -> bytes:
    """The document that is this string."""
    content = text.encode()
    size, left = bytearray(), len(content)
    while left > 0x7F:
        size.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([JsonType.STRING, *size, left]) + content


def _no_number(text: str) -> float:
    raise BadJsonError(f"{text} is no number of JSON")


def _kind(code: int) -> JsonType:
    try:
        return JsonType(code)
    except ValueError as error:
        raise BadJsonError(f"no value has the type {code:#x}") from error


def _cut(kind: JsonType, content: bytes) -> JsonNode:
    # The value at the start of `content`.
    size = JSON_NUMBER_SIZES.get(kind)
    if size is None and kind in _OBJECTS | _ARRAYS:
        word = 4 if kind in _LARGE else 2
        size = _number(content, word, word)
    elif size is None:
        first = 1 if kind is JsonType.OPAQUE else 0
        size = _sized_end(content, first)
    if size > len(content):
        raise BadJsonError(f"a value of {size} bytes has {len(content)}")
    return JsonNode(kind, content[:size])


def _sized_end(content: bytes, first: int) -> int:
    size = 0
    for shift, byte in enumerate(content[first : first + JSON_SIZE_BYTES_MAX]):
        size |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return first + shift + 1 + size
    raise BadJsonError("a size has no end")


def _number(content: bytes, start: int, size: int) -> int:
    if start + size > len(content):
        raise BadJsonError(f"{size} bytes at {start} of {len(content)}")
    return int.from_bytes(content[start : start + size], "little")


def _packed(keys: list[bytes] | None, values: list[tuple[JsonType, bytes]], *, word: int) -> bytes | None:
    # An object (with keys) or array whose numbers have `word` bytes; None where it is too large for that.
    head = 2 * word + len(values) * (1 + word) + len(keys or ()) * (word + 2)
    entries, content = bytearray(), bytearray()
    place = head
    try:
        for key in keys or ():
            entries += place.to_bytes(word, "little") + len(key).to_bytes(2, "little")
            content += key
            place += len(key)
        for kind, value in values:
            entries.append(kind)
            if JSON_NUMBER_SIZES.get(kind, word + 1) <= word:
                entries += value.ljust(word, b"\0")
                continue
            entries += place.to_bytes(word, "little")
            content += value
            place += len(value)
        size = len(values).to_bytes(word, "little") + place.to_bytes(word, "little")
    except OverflowError:
        return None
    return None if word == 2 and place > JSON_SMALL_SIZE_MAX else bytes(size + entries + content)
