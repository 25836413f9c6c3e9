"""Type tags of Python types and values: `tags_of_types`, `tag_of_value`."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping, Sequence, Set
from datetime import datetime, timedelta
from enum import Enum
from functools import cache
from numbers import Integral
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from binlog_format.errors import ArgumentError
from binlog_format.structured.type_layout import ENUM_RANGES, TypeKind
from binlog_format.structured.writing.argument_encoding import OPTIONS_MAX, shown

if TYPE_CHECKING:
    from collections.abc import Iterable

TEXT_TAG = b"[c"
_BOOL_TAG = b"y"
_INT_TAG = b"l"
_UNSIGNED_TAG = b"L"
_FLOAT_TAG = b"d"
_NONE_TAG = b"<0>"
_TIME_POINT_TAG = b"{std::chrono::system_clock::time_point`ns'l}"
_DURATION_TAG = b"{std::chrono::duration<Rep,std::micro>`count'l}"
_PLAIN_TAGS: dict[Any, bytes] = {
    bool: _BOOL_TAG,
    int: _INT_TAG,
    float: _FLOAT_TAG,
    str: TEXT_TAG,
    bytes: TEXT_TAG,
    UUID: TEXT_TAG,
    datetime: _TIME_POINT_TAG,
    timedelta: _DURATION_TAG,
    type(None): _NONE_TAG,
}
_INT_RANGE, _UNSIGNED_RANGE = ENUM_RANGES[TypeKind.INT64], ENUM_RANGES[TypeKind.UINT64]
_DEPTH_MAX = 32
_FORBIDDEN_IN_NAMES = frozenset("`'{}/\\<>()[]")


def tags_of_types(*annotations: object) -> bytes:
    """The argument tags for values of Python types.

    Args:
        annotations: bool, int (64 bits), float, str, bytes, None, datetime, timedelta, UUID, paths, enums, dataclasses,
            and of all these `list[T]`, `set[T]`, `Sequence[T]`, `tuple[A, B]`, `tuple[T, ...]`, `dict[K, V]`,
            `T | None` and other unions.

    Raises:
        ArgumentError: `TAGS`: another type.
    """
    return b"".join(_tag_of_type(annotation, ()) for annotation in annotations)


def tag_of_value(value: object) -> bytes:
    """The argument tag for a value; what has no type of its own is text, as `str` shows it.

    Raises:
        ArgumentError: `TAGS`: it contains itself, or is nested too deeply. `RANGE`: an integer has more than 64 bits.
    """
    return _tag_of_value(value, ())


def _tag_of_value(value: Any, outer: tuple[int, ...]) -> bytes:
    kind: Any = type(value)
    if kind is int:
        return _tag_of_integer(value)
    tag = _PLAIN_TAGS.get(kind)
    if tag is not None:
        return tag
    if isinstance(value, datetime):
        return _TIME_POINT_TAG
    if isinstance(value, Enum) or dataclasses.is_dataclass(kind):
        return _tag_of_class(kind)
    if isinstance(value, Mapping | list | Set | tuple):
        if id(value) in outer or len(outer) == _DEPTH_MAX:
            raise ArgumentError("TAGS", f"{shown(value)}: it contains itself, or is nested {_DEPTH_MAX} times")
        return _tag_of_container(value, (*outer, id(value)))
    if isinstance(value, Integral):
        return _tag_of_integer(int(value))
    return _FLOAT_TAG if isinstance(value, float) else TEXT_TAG


def _tag_of_container(
    value: Mapping[Any, Any] | list[Any] | Set[Any] | tuple[Any, ...], outer: tuple[int, ...]
) -> bytes:
    if isinstance(value, Mapping):
        keys = _common_tag((_tag_of_value(key, outer) for key in value), TEXT_TAG)
        return b"[(" + keys + _common_tag((_tag_of_value(item, outer) for item in value.values()), TEXT_TAG) + b")"
    tags = (_tag_of_value(item, outer) for item in value)
    return b"(" + b"".join(tags) + b")" if isinstance(value, tuple) else b"[" + _common_tag(tags, _INT_TAG)


def _tag_of_integer(value: int) -> bytes:
    if _INT_RANGE[0] <= value <= _INT_RANGE[1]:
        return _INT_TAG
    if 0 <= value <= _UNSIGNED_RANGE[1]:
        return _UNSIGNED_TAG
    raise ArgumentError("RANGE", f"{shown(value)}: it has more than 64 bits")


def _common_tag(tags: Iterable[bytes], default: bytes) -> bytes:
    """One tag for elements of several types; *default* where there are none."""
    distinct = sorted(set(tags), key=lambda tag: (tag != _NONE_TAG, tag))
    if not distinct:
        return default
    return distinct[0] if len(distinct) == 1 else _variant(distinct)


def _variant(tags: Sequence[bytes]) -> bytes:
    options = [b"0" if tag == _NONE_TAG else tag for tag in tags]
    if len(options) > OPTIONS_MAX:
        raise ArgumentError("TAGS", f"a value of {len(options)} types: at most {OPTIONS_MAX} are possible")
    return b"<" + b"".join(options) + b">"


@cache
def _tag_of_class(kind: type) -> bytes:
    try:
        return _tag_of_type(kind, ())
    except ArgumentError:
        return TEXT_TAG


def _tag_of_type(annotation: Any, outer: tuple[type, ...]) -> bytes:
    if annotation is None:
        return _NONE_TAG
    if annotation in _PLAIN_TAGS:
        return _PLAIN_TAGS[annotation]
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _tag_of_type(arguments[0], outer)
    if origin in (Union, types.UnionType):
        return _common_tag((_tag_of_type(argument, outer) for argument in arguments), _NONE_TAG)
    if isinstance(origin, type) and (arguments or origin is tuple):
        return _tag_of_generic(origin, arguments, outer)
    if isinstance(annotation, type):
        if issubclass(annotation, PurePath):
            return TEXT_TAG
        if issubclass(annotation, Enum):
            return _enum_tag(annotation)
        if dataclasses.is_dataclass(annotation):
            return _struct_tag(annotation, outer)
    raise ArgumentError("TAGS", f"{shown(annotation)}: a type that has no type tag")


def _tag_of_generic(origin: type, arguments: tuple[Any, ...], outer: tuple[type, ...]) -> bytes:
    if issubclass(origin, Mapping):
        return b"[(" + b"".join(_tag_of_type(argument, outer) for argument in arguments) + b")"
    if issubclass(origin, tuple) and arguments[-1:] != (...,):
        return b"(" + b"".join(_tag_of_type(argument, outer) for argument in arguments) + b")"
    if issubclass(origin, Sequence | Set):
        return b"[" + _tag_of_type(arguments[0], outer)
    raise ArgumentError("TAGS", f"{origin.__name__}: a type that has no type tag")


def _struct_tag(kind: type, outer: tuple[type, ...]) -> bytes:
    # Inside of its own fields a struct is named only.
    name = _name(kind.__qualname__)
    if kind in outer:
        return b"{" + name + b"}"
    try:
        hints = get_type_hints(kind)
    except NameError as error:
        raise ArgumentError("TAGS", f"{kind.__qualname__}: its annotations cannot be resolved: {error}") from error
    fields = (
        b"`" + field.name.encode() + b"'" + _tag_of_type(hints[field.name], (*outer, kind))
        for field in dataclasses.fields(kind)
    )
    return b"{" + name + b"".join(fields) + b"}"


def _enum_tag(kind: type[Enum]) -> bytes:
    values = [(member.value, _name(member.name)) for member in kind]
    if not all(isinstance(value, int) for value, _ in values):
        return TEXT_TAG
    lowest, highest = (bound(value for value, _ in values) for bound in (min, max))
    integer = _INT_TAG if lowest < 0 else _tag_of_integer(highest)
    _tag_of_integer(lowest)
    enumerators = (b"%X`%s'" % (value, name) for value, name in values)
    return b"/" + integer + b"`" + _name(kind.__qualname__) + b"'" + b"".join(enumerators) + b"\\"


def _name(name: str) -> bytes:
    """A Python name as one of a type; that of a class in a function has `<locals>` in it."""
    return "".join("_" if letter in _FORBIDDEN_IN_NAMES else letter for letter in name).encode()
