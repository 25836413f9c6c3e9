"""Python values as the arguments of events: `compile_encoder` makes an encoder of a source's argument tags."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum
from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple

from binlog_format.errors import ArgumentError
from binlog_format.structured.arguments.layout import COUNT_STRUCT, INDEX_STRUCT
from binlog_format.structured.type_layout import SpecialStruct, TypeKind
from binlog_format.structured.type_tags import parse_tags
from binlog_format.structured.writing.scalar_encoding import (
    COUNT_MAX,
    DURATION_NS,
    MismatchError,
    duration_counter,
    encode_bool,
    encode_char,
    encode_null,
    encode_text,
    float_encoder,
    integer_encoder,
    time_point_ns,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from binlog_format.structured.type_tags import ArgumentTypes, TypeNode
    from binlog_format.structured.writing.scalar_encoding import Encode

OPTIONS_MAX = 255
"""Options of a variant that an index can name, beside the one after them that stands for nothing."""
_SHOWN_MAX = 80
_UNREADABLE = {
    TypeKind.BAD_TAG: "an unknown type",
    TypeKind.BAD_ENUM: "an enum without an integer type",
    TypeKind.TOO_DEEP: "types that are nested too deeply",
}
_SIMPLE: dict[TypeKind, Encode] = {
    TypeKind.EMPTY: encode_null,
    TypeKind.NULL: encode_null,
    TypeKind.BOOL: encode_bool,
    TypeKind.CHAR: encode_char,
    TypeKind.TEXT: encode_text,
}
_FLOATS = frozenset({TypeKind.FLOAT, TypeKind.DOUBLE, TypeKind.EXTENDED})
_INTEGERS = frozenset(range(TypeKind.INT8, TypeKind.UINT64 + 1))
_TEXT_STRUCTS = frozenset({SpecialStruct.PATH, SpecialStruct.DIRECTORY_ENTRY, SpecialStruct.ERROR_CODE})
_BARE_STRUCTS = _TEXT_STRUCTS | {SpecialStruct.ADDRESS, SpecialStruct.TIME_POINT} | DURATION_NS.keys()
"""Structs of one field, whose value may be given without them."""
# The first that a value is an instance of decides: an IntEnum is an int, and True is one, too.
_KINDS: tuple[tuple[type | tuple[type, ...], frozenset[int]], ...] = (
    (type(None), frozenset({TypeKind.NULL, TypeKind.EMPTY})),
    (Enum, frozenset({TypeKind.ENUM})),
    (bool, frozenset({TypeKind.BOOL})),
    (int, _INTEGERS),
    (float, _FLOATS),
    ((str, bytes), frozenset({TypeKind.TEXT})),
    (tuple, frozenset({TypeKind.TUPLE})),
    ((list, set, frozenset), frozenset({TypeKind.SEQUENCE})),
    (dict, frozenset({TypeKind.SEQUENCE, TypeKind.STRUCT})),
    (object, frozenset({TypeKind.STRUCT})),
)


def compile_encoder(tags: bytes) -> Callable[[tuple[object, ...]], bytes]:
    """An encoder of a source's arguments: it takes one Python value for each tag, and gives their bytes.

    Args:
        tags: Of all arguments, one after the other.

    Raises:
        ArgumentError: `TAGS`: values of such types could not be read. The encoder raises `COUNT`, `TYPE` and `RANGE`.
    """
    types = parse_tags(tags)
    compiler = _Compiler(types)
    try:
        encoders = [compiler.encoder(argument.node) for argument in types.arguments]
    except RecursionError as error:
        raise ArgumentError("TAGS", f"type tags {shown(tags)}: types are nested too deeply") from error

    def encode(args: tuple[object, ...]) -> bytes:
        if len(args) != len(encoders):
            raise ArgumentError("COUNT", f"expected {len(encoders)} arguments, got {len(args)}")
        out = bytearray()
        number = 0
        try:
            for number, encode_one in enumerate(encoders):
                encode_one(args[number], out)
        except MismatchError as error:
            reason = f"argument {number + 1}{error.path}: expected {error.expected}, got {shown(error.value)}"
            raise ArgumentError(error.subclass, reason) from error
        except RecursionError as error:
            raise ArgumentError("RANGE", f"argument {number + 1}: its value is nested too deeply") from error
        return bytes(out)

    return encode


def shown(value: object) -> str:
    """A value as messages show it."""
    text = repr(value)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."


class _Field(NamedTuple):
    """Field of a struct; the fields of a base are in one field that has the base's name and no label."""

    label: str
    name: str
    encode: Encode


class _Compiler:
    """Makes one encoder for each type; a type may contain itself, so that is found when a value is encoded."""

    def __init__(self, types: ArgumentTypes) -> None:
        self._types = types
        self._encoders: dict[int, Encode] = {}

    def encoder(self, number: int) -> Encode:
        if number not in self._encoders:
            self._encoders[number] = lambda value, out: self._encoders[number](value, out)
            self._encoders[number] = self._compile(self._types.nodes[number])
        return self._encoders[number]

    def _compile(self, node: TypeNode) -> Encode:
        kind = node.kind
        if kind in _UNREADABLE:
            raise ArgumentError("TAGS", f"type tags {shown(self._types.tags)}: they contain {_UNREADABLE[kind]}")
        if kind in _SIMPLE:
            return _SIMPLE[kind]
        number = node.integer if kind is TypeKind.ENUM else kind
        if number in _FLOATS:
            return float_encoder(number)
        if kind in _INTEGERS:
            return integer_encoder(kind)
        if kind is TypeKind.ENUM:
            return self._enum_encoder(node)
        if kind is TypeKind.STRUCT:
            return self._struct_encoder(node)
        members = [self.encoder(member.node) for member in node.members]
        if kind is TypeKind.SEQUENCE:
            return _sequence_encoder(members[0])
        if kind is TypeKind.TUPLE:
            return _tuple_encoder(members)
        nodes = [self._types.nodes[member.node] for member in node.members]
        return _variant_encoder(list(zip(nodes, members, strict=True)))

    def _enum_encoder(self, node: TypeNode) -> Encode:
        values = {
            label.of(self._types.tags).decode(errors="replace"): value for value, label in node.enumerators.items()
        }
        encode_integer = integer_encoder(node.integer)

        def encode(value: object, out: bytearray) -> None:
            if isinstance(value, Enum):
                value = values.get(value.name, value.value)
            if isinstance(value, str):
                if value not in values:
                    raise MismatchError("TYPE", f"one of {', '.join(values)}", value)
                value = values[value]
            encode_integer(value, out)

        return encode

    def _struct_encoder(self, node: TypeNode) -> Encode:
        fields = [
            _Field(
                member.label.of(self._types.tags).decode(errors="surrogateescape"),
                self._types.nodes[member.node].name.of(self._types.tags).decode(errors="surrogateescape"),
                self.encoder(member.node),
            )
            for member in node.members
        ]
        encode_fields = _fields_encoder(node.name.of(self._types.tags).decode(errors="replace"), fields)
        if node.special not in _BARE_STRUCTS:
            return encode_fields
        return _bare_encoder(node.special, fields[0].encode, encode_fields)


def _sequence_encoder(encode_element: Encode) -> Encode:
    def encode(value: object, out: bytearray) -> None:
        if not isinstance(value, Collection) or isinstance(value, str):
            raise MismatchError("TYPE", "a list", value)
        if len(value) > COUNT_MAX:
            raise MismatchError("RANGE", f"at most {COUNT_MAX} elements", f"{len(value)} elements")
        out += COUNT_STRUCT.pack(len(value))
        elements = value.items() if isinstance(value, Mapping) else value
        _encode_all(elements, repeat(encode_element), out, "[{}]".format)

    return encode


def _tuple_encoder(members: Sequence[Encode]) -> Encode:
    def encode(value: object, out: bytearray) -> None:
        if not isinstance(value, list | tuple) or len(value) != len(members):
            raise MismatchError("TYPE", f"a tuple of {len(members)}", value)
        _encode_all(value, members, out, "[{}]".format)

    return encode


def _variant_encoder(options: Sequence[tuple[TypeNode, Encode]]) -> Encode:
    indexed = [
        (INDEX_STRUCT.pack(number), option, encode)
        for number, (option, encode) in enumerate(options[: OPTIONS_MAX + 1])
    ]

    def encode(value: object, out: bytearray) -> None:
        # First the options of the value's own type, then all that can hold it.
        kinds = next(kinds for types, kinds in _KINDS if isinstance(value, types))
        own = [option for option in indexed if option[1].kind in kinds]
        start = len(out)
        for index, _, encode_option in [*own, *indexed]:
            out += index
            try:
                return encode_option(value, out)
            except MismatchError:
                del out[start:]
        raise MismatchError("TYPE", f"a value of one of {len(indexed)} types", value)

    return encode


def _fields_encoder(name: str, fields: Sequence[_Field]) -> Encode:
    keys = [field.label or field.name for field in fields]

    def members_of(value: object) -> Sequence[object]:
        if isinstance(value, Mapping):
            if value.keys() != set(keys):
                raise MismatchError("TYPE", f"{name} with the fields {', '.join(keys)}", value)
            return [value[key] for key in keys]
        if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
            if len(value) != len(fields):
                raise MismatchError("TYPE", f"{name} with {len(fields)} fields", value)
            return value
        if not all(hasattr(value, field.label) for field in fields if field.label):
            raise MismatchError("TYPE", f"{name} with the fields {', '.join(keys)}", value)
        # A base's fields are those of the same object.
        return [getattr(value, field.label) if field.label else value for field in fields]

    encoders = [field.encode for field in fields]

    def encode(value: object, out: bytearray) -> None:
        if fields:
            _encode_all(members_of(value), encoders, out, lambda number: f".{keys[number]}")

    return encode


def _encode_all(
    values: Iterable[object], encoders: Iterable[Encode], out: bytearray, step: Callable[[int], str]
) -> None:
    """Append values; *step* leads from what holds them to the one of a number."""
    done = 0
    try:
        for value, encode in zip(values, encoders, strict=False):
            encode(value, out)
            done += 1
    except MismatchError as error:
        raise error.inside(step(done)) from error.__cause__


def _bare_encoder(special: SpecialStruct, encode_bare: Encode, encode_fields: Encode) -> Encode:
    to_bare = duration_counter(DURATION_NS[special]) if special in DURATION_NS else time_point_ns

    def encode(value: object, out: bytearray) -> None:
        if isinstance(value, Mapping | list | tuple):
            encode_fields(value, out)
        else:
            encode_bare(value if special in _TEXT_STRUCTS else to_bare(value), out)

    return encode
