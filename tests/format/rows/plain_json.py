"""MySQL's binary JSON written in plain Python, and the text that the server makes of it: an oracle for the kernels."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from tests.format.rows.plain_rows import varint

if TYPE_CHECKING:
    from collections.abc import Sequence

SMALL_OBJECT, LARGE_OBJECT, SMALL_ARRAY, LARGE_ARRAY, LITERAL = range(5)
INT16, UINT16, INT32, UINT32, INT64, UINT64, DOUBLE, STRING = range(5, 13)
OPAQUE = 15
REPLACE, INSERT, REMOVE = range(3)


@dataclass(frozen=True)
class Opaque:
    """A value of a column type that JSON does not have, with its text."""

    kind: int
    content: bytes
    text: str


def document(value: Any, *, large: bool = False) -> bytes:
    """A document; *large*: objects and arrays in the large form, whatever their size."""
    kind, content = encoded(value, large=large)
    return bytes([kind]) + content


def encoded(value: Any, *, large: bool = False) -> tuple[int, bytes]:
    """Type and bytes of a value."""
    if isinstance(value, dict):
        members = sorted(((k.encode(), v) for k, v in value.items()), key=lambda member: (len(member[0]), member[0]))
        return _container([k for k, _ in members], [v for _, v in members], large=large)
    if isinstance(value, list):
        return _container(None, value, large=large)
    if isinstance(value, str):
        return STRING, _size(len(value.encode())) + value.encode()
    if isinstance(value, Opaque):
        return OPAQUE, bytes([value.kind]) + _size(len(value.content)) + value.content
    if value is None or isinstance(value, bool):
        return LITERAL, b"\0" if value is None else b"\1" if value else b"\2"
    if isinstance(value, float):
        return DOUBLE, struct.pack("<d", value)
    for kind, form in ((INT16, "<h"), (UINT16, "<H"), (INT32, "<i"), (UINT32, "<I"), (INT64, "<q"), (UINT64, "<Q")):
        try:
            return kind, struct.pack(form, value)
        except struct.error:
            continue
    raise ValueError(value)


def _size(number: int) -> bytes:
    content = b""
    while number > 0x7F:
        content += bytes([number & 0x7F | 0x80])
        number >>= 7
    return content + bytes([number])


def _container(keys: list[bytes] | None, values: Sequence[Any], *, large: bool) -> tuple[int, bytes]:
    parts = [encoded(value, large=large) for value in values]
    for word, form in ((2, "<H"), (4, "<I")):
        if large and word == 2:
            continue
        head = 2 * word + len(values) * (1 + word) + (len(keys) * (word + 2) if keys is not None else 0)
        key_entries, value_entries, content = b"", b"", b""
        try:
            for key in keys or ():
                key_entries += struct.pack(form, head + len(content)) + struct.pack("<H", len(key))
                content += key
            for kind, part in parts:
                if kind in (LITERAL, INT16, UINT16) or (word == 4 and kind in (INT32, UINT32)):
                    value_entries += bytes([kind]) + part.ljust(word, b"\0")
                else:
                    value_entries += bytes([kind]) + struct.pack(form, head + len(content))
                    content += part
            counts = struct.pack(form, len(values)) + struct.pack(form, head + len(content))
        except struct.error:
            continue
        kind = (SMALL_ARRAY if keys is None else SMALL_OBJECT) + (word == 4)
        return kind, counts + key_entries + value_entries + content
    raise AssertionError("too large")


def server_text(value: Any) -> str:
    """The text that the server prints."""
    if isinstance(value, dict):
        members = sorted(value.items(), key=lambda member: (len(member[0].encode()), member[0].encode()))
        return "{" + ", ".join(f"{server_text(k)}: {server_text(v)}" for k, v in members) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(server_text, value)) + "]"
    if isinstance(value, Opaque):
        return value.text
    return _float_text(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)


def _float_text(value: float) -> str:
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).lstrip("0")
    point = len(text) + exponent
    text = text.rstrip("0")
    lead = "-" if sign else ""
    if not text:
        return lead + "0.0"
    if not -15 < point <= 15:
        return f"{lead}{text[0]}{'.' if len(text) > 1 else ''}{text[1:]}e{point - 1}"
    if point <= 0:
        return f"{lead}0.{'0' * -point}{text}"
    return f"{lead}{text[:point].ljust(point, '0')}.{text[point:] or '0'}"


def change(operation: int, path: str, value: Any = None) -> bytes:
    """One change to a part of a document."""
    content = bytes([operation]) + varint(len(path.encode())) + path.encode()
    if operation == REMOVE:
        return content
    new = document(value)
    return content + varint(len(new)) + new


_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.integers(-70_000, 70_000),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
    st.text(st.sampled_from('\0\x1f"\\/\b\f\n\r\t\x7fé😀'), max_size=8),
)
DOCUMENTS = st.recursive(
    _SCALARS,
    lambda parts: st.lists(parts, max_size=6) | st.dictionaries(st.text(max_size=8), parts, max_size=6),
    max_leaves=40,
)
"""Python values that are JSON documents."""
