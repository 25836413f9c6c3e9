"""Arguments in the notation of the corpus: random ones and their bytes; whether JSON and Arrow show them.

A value: `["i", 5]`, `["[c", "text"]`, `["[", count, [...]]`, `["(", [...]]`, `["<", index, [value]]`,
`["{", "Name", [["label", value], ...]]`, `["/", "Name", "label or empty", "integer tag", "hex"]`; the README of the
corpus describes it.
"""

from __future__ import annotations

import json
import math
import struct
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

_SPECIAL = ("std::filesystem::path", "std::filesystem::directory_entry", "std::error_code", "binlog::address")

Value = list[Any]


def same_json(shown: Any, value: Value) -> bool:
    """Whether JSON shows a value, given in the notation of the corpus."""
    kind = value[0]
    if kind == "[c":
        return bool(shown == text_of(value[1]))
    if kind == "[":
        return _same_sequence(shown, value)
    if kind == "(":
        return all_same_json(shown, value[1])
    if kind == "<":
        return shown is None if value[2] in ([], [None]) else same_json(shown, value[2][0])
    if kind == "{":
        return _same_struct(shown, value[1], value[2])
    if kind == "/":
        return bool(shown == (value[2] or int(value[4], 16)))
    return _same_scalar(shown, kind, value[1])


def text_of(text: str | dict[str, str]) -> str:
    return text if isinstance(text, str) else bytes.fromhex(text["hex"]).decode("utf-8", "replace")


def _same_sequence(shown: Any, value: Value) -> bool:
    if isinstance(shown, list):
        return len(shown) == value[1] and all_same_json(shown, value[2])
    return bool(shown == value[1]) and all(_has_no_bytes(one) for one in value[2])


def _has_no_bytes(value: Value) -> bool:
    if value[0] == "repeat":
        return _has_no_bytes(value[2])
    if value[0] not in "({":
        return False
    members = value[1] if value[0] == "(" else [one for _, one in value[2]]
    return all(map(_has_no_bytes, members))


def all_same_json(shown: Value, values: list[Value]) -> bool:
    return len(shown) == len(values) and all(same_json(*pair) for pair in zip(shown, values, strict=True))


def _same_struct(shown: Any, name: str, fields: Value) -> bool:
    if _is_special(["{", name, fields]):
        return same_json(shown, fields[0][1])
    if not shown:
        return all(_has_no_bytes(one) for _, one in fields)
    labels = [label or one[1].partition("<")[0] for label, one in fields]
    return list(shown) == labels and all_same_json(list(shown.values()), [one for _, one in fields])


def _same_scalar(shown: Any, kind: str, value: Any) -> bool:
    if kind == "c":
        return bool(shown == bytes([value & 0xFF]).decode("utf-8", "replace"))
    if kind not in "fdD":
        return type(shown) is type(value) and bool(shown == value)
    try:
        number = float.fromhex(value)
    except OverflowError:
        number = math.copysign(math.inf, -1 if value[0] == "-" else 1)
    if not math.isfinite(number):
        return str(shown) == str(number)
    if kind == "f":
        return bool(np.float32(shown) == np.float32(number))
    return math.copysign(1, shown) == math.copysign(1, number) and bool(shown == number)


def same_arrow(shown: Any, value: Value) -> bool:
    """Whether a column shows a value."""
    kind = value[0]
    if kind == "{" and _is_special(value):
        return same_arrow(shown, value[2][0][1])
    if isinstance(shown, str) and kind in "[({":  # a type that contains itself
        return same_json(json.loads(shown), value)
    if kind == "[c":
        return bool(shown == text_of(value[1]))
    if kind == "[":
        if isinstance(shown, list):
            return len(shown) == value[1] and all(map(same_arrow, shown, value[2]))
        return _same_sequence(shown, value)
    if kind == "<":
        return _same_variant(shown, value[1], value[2])
    if kind == "/":
        return bool(shown == {"label": value[2] or None, "value": int(value[4], 16)})
    if kind in "({":
        return _same_fields(shown, value)
    return _same_scalar(int(shown) if isinstance(shown, Decimal) else shown, kind, value[1])


def same_columns(shown: dict[str, Any], values: list[Value]) -> bool:
    """Whether columns without names of their own show the arguments of an event."""
    return _same_named(shown, [(f"arg{index}", value) for index, value in enumerate(values)])


def _same_named(shown: dict[str, Any], named: list[tuple[str, Value]]) -> bool:
    with_bytes = [(name, value) for name, value in named if not _has_no_bytes(value)]
    return list(shown) == [name for name, _ in with_bytes] and all(
        same_arrow(shown[name], value) for name, value in with_bytes
    )


def _same_fields(shown: Any, value: Value) -> bool:
    if value[0] == "(":
        return _same_named(shown, [(f"_{index + 1}", member) for index, member in enumerate(value[1])])
    return _same_named(shown, [(label or one[1].partition("<")[0], one) for label, one in value[2]])


def _is_special(value: Value) -> bool:
    return value[1] in _SPECIAL or (value[1].startswith("std::chrono::") and value[2][0][1][0] in "il")


def _same_variant(shown: Any, index: int, chosen: list[Any]) -> bool:
    # Either as any variant, with the index of the option, or as what can be null.
    if isinstance(shown, dict) and shown.get("index") == index:
        others = {name: one for name, one in shown.items() if name not in ("index", f"_{index}")}
        rest = f"_{index}" not in shown or same_arrow(shown[f"_{index}"], chosen[0])
        return rest and all(one is None for one in others.values())
    if chosen in ([], [None]):
        return shown is None
    return shown is True if _has_no_bytes(chosen[0]) else same_arrow(shown, chosen[0])


class Type(NamedTuple):
    """A type to make values of.

    Attributes:
        tag: As a source has it.
        values: Its values and their bytes.
    """

    tag: str
    values: st.SearchStrategy[tuple[Value, bytes]]


_NUMBERS = {"b": "<b", "s": "<h", "i": "<i", "l": "<q", "B": "<B", "S": "<H", "I": "<I", "L": "<Q"}
_LABELS = st.text('abcdefgh_0 "\u00e9', min_size=1, max_size=4)


def _integers(tag: str) -> st.SearchStrategy[int]:
    bits = 8 * struct.calcsize(_NUMBERS[tag])
    return st.integers(0, 2**bits - 1) if tag.isupper() else st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _number(tag: str) -> Type:
    return Type(tag, _integers(tag).map(lambda one: ([tag, one], struct.pack(_NUMBERS[tag], one))))


def _extended(one: float) -> bytes:
    # Of a double that is normal or zero.
    fraction, exponent = math.frexp(abs(one))
    sign = 0x8000 if math.copysign(1, one) < 0 else 0
    bits = int(fraction * 2**64)
    return struct.pack("<QH6s", bits, sign | (exponent + 16382 if bits else 0), b"\xaa" * 6)


_FLOATS = st.floats(allow_nan=False, width=32)
_NORMAL = st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False)
_LEAVES = [
    *map(_number, _NUMBERS),
    Type("y", st.booleans().map(lambda one: (["y", one], bytes([one])))),
    Type("c", st.integers(0, 255).map(lambda one: (["c", one], bytes([one])))),
    Type("f", _FLOATS.map(lambda one: (["f", one.hex()], struct.pack("<f", one)))),
    Type("d", st.floats(allow_nan=False).map(lambda one: (["d", one.hex()], struct.pack("<d", one)))),
    Type("D", _NORMAL.map(lambda one: (["D", one.hex()], _extended(one)))),
    Type(
        "[c",
        st.one_of(st.binary(max_size=8), st.text(max_size=8).map(str.encode)).map(
            lambda one: (["[c", {"hex": one.hex()}], struct.pack("<I", len(one)) + one)
        ),
    ),
]


@st.composite
def _enums(draw: st.DrawFn) -> Type:
    tag = draw(st.sampled_from(list(_NUMBERS)))
    labels = draw(st.dictionaries(_integers(tag), _LABELS, max_size=5))
    listed = "".join(f"{number:X}`{label}'" for number, label in labels.items())
    number = st.one_of(_integers(tag), st.sampled_from(list(labels))) if labels else _integers(tag)
    values = number.map(lambda one: (["/", "E", labels.get(one, ""), tag, f"{one:X}"], struct.pack(_NUMBERS[tag], one)))
    return Type(f"/{tag}`E'{listed}\\", values)


def _sequence(element: Type) -> Type:
    def of(elements: list[tuple[Value, bytes]]) -> tuple[Value, bytes]:
        joined = b"".join(one for _, one in elements)
        content = struct.pack("<I", len(elements)) + joined
        if element.tag == "c":
            return ["[c", {"hex": joined.hex()}], content
        return ["[", len(elements), [value for value, _ in elements]], content

    return Type(f"[{element.tag}", st.lists(element.values, max_size=4).map(of))


def _members(types: list[Type]) -> st.SearchStrategy[tuple[list[Value], bytes]]:
    return st.tuples(*(one.values for one in types)).map(
        lambda members: ([value for value, _ in members], b"".join(one for _, one in members))
    )


def _tuple(types: list[Type]) -> Type:
    values = _members(types).map(lambda made: (["(", made[0]], made[1]))
    return Type(f"({''.join(one.tag for one in types)})", values)


def _struct(fields: dict[str, Type]) -> Type:
    # A name without fields, inside a struct with that name, means that struct again.
    struct_name = "S" if fields else "Empty"

    def of(made: tuple[list[Value], bytes]) -> tuple[Value, bytes]:
        return ["{", struct_name, [list(one) for one in zip(fields, made[0], strict=True)]], made[1]

    tags = "".join(f"`{label}'{one.tag}" for label, one in fields.items())
    return Type(f"{{{struct_name}{tags}}}", _members(list(fields.values())).map(of))


def _variant(options: list[Type | None]) -> Type:
    def of(index: int) -> st.SearchStrategy[tuple[Value, bytes]]:
        option = options[index] if index < len(options) else None
        if option is None:
            return st.just((["<", index, [None] if index < len(options) else []], bytes([index])))
        return option.values.map(lambda made: (["<", index, [made[0]]], bytes([index]) + made[1]))

    tags = "".join("0" if one is None else one.tag for one in options)
    return Type(f"<{tags}>", st.integers(0, len(options)).flatmap(of))


def _nested(inner: st.SearchStrategy[Type]) -> st.SearchStrategy[Type]:
    some = st.lists(inner, max_size=3)
    labels = st.lists(_LABELS, max_size=3, unique_by=str.casefold)
    return st.one_of(
        inner.map(_sequence),
        some.map(_tuple),
        st.tuples(labels, st.lists(inner, min_size=3, max_size=3)).map(
            lambda made: _struct(dict(zip(made[0], made[1], strict=False)))
        ),
        inner.map(lambda one: _variant([None, one])),
        st.lists(st.one_of(st.none(), inner), min_size=1, max_size=3).map(_variant),
    )


_TYPES = st.recursive(st.one_of(st.sampled_from(_LEAVES), _enums()), _nested, max_leaves=6)


class Events(NamedTuple):
    """Argument tags of a source; the arguments of events and their bytes."""

    tags: str
    events: list[tuple[list[Value], bytes]]


@st.composite
def events(draw: st.DrawFn) -> Events:
    """Of a source with any arguments."""
    types = draw(st.lists(_TYPES, max_size=4))
    return Events("".join(one.tag for one in types), draw(st.lists(_members(types), min_size=1, max_size=4)))
