"""Argument tags of a source as a graph of types: `parse_tags`.

Tags are cut and resolved as the library's reader does it, whatever they contain: nothing here is an error. What is no
type becomes a node of kind `BAD_TAG` or `BAD_ENUM`, and reading a value of it fails.

Names of struct fields and arguments in Arrow and JSON: `field_names`, `argument_names`.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from binlog_format.structured.layout import NESTING_MAX
from binlog_format.structured.type_layout import (
    EMPTY_NODE,
    ENUM_RANGES,
    NULL_NODE,
    NULL_TAG,
    SCALAR_TAGS,
    SpecialStruct,
    TypeKind,
)

if TYPE_CHECKING:
    from collections.abc import Iterable


_HEX_NUMBER = re.compile(rb"0|-?[1-9A-F][0-9A-F]*")
_HEX_DIGITS_MAX = 17  # of 64 bits, with a sign
_CLOSING = {b"(": b")", b"<": b">", b"{": b"}", b"/": b"\\"}

_DURATION = b"std::chrono::duration<Rep,"
_DURATION_UNITS = {
    b"std::nano>": SpecialStruct.NANOSECONDS,
    b"std::micro>": SpecialStruct.MICROSECONDS,
    b"std::milli>": SpecialStruct.MILLISECONDS,
    b"std::ratio<1>>": SpecialStruct.SECONDS,
    b"std::ratio<60>>": SpecialStruct.MINUTES,
    b"std::ratio<3600>>": SpecialStruct.HOURS,
}
_DURATION_FIELDS = frozenset({b"`count'l", b"`count'i"})
_SPECIAL_STRUCTS = {
    (b"binlog::address", b"`value'L"): SpecialStruct.ADDRESS,
    (b"std::chrono::system_clock::time_point", b"`ns'l"): SpecialStruct.TIME_POINT,
    (b"std::filesystem::path", b"`str'[c"): SpecialStruct.PATH,
    (b"std::filesystem::directory_entry", b"`path'{std::filesystem::path`str'[c}"): SpecialStruct.DIRECTORY_ENTRY,
    (b"std::error_code", b"`message'[c"): SpecialStruct.ERROR_CODE,
}


class Slice(NamedTuple):
    """A part of the tags: first byte, and the byte after the last."""

    start: int
    end: int

    def of(self, tags: bytes) -> bytes:
        """The bytes."""
        return tags[self.start : self.end]


_NOTHING = Slice(0, 0)


class Member(NamedTuple):
    """Member of a tuple or struct, option of a variant, element of a sequence: its node; a field's label."""

    node: int
    label: Slice = _NOTHING


@dataclass(slots=True)
class TypeNode:
    """A type.

    Attributes:
        name: Of a struct or an enum; of a `BAD_TAG`, the tag.
        members: In order.
        enumerators: Of an enum, by value.
        integer: Of an enum: what its values are.
        fields: Of a struct: the text that describes its fields, where it has or refers to any. Structs of one
            argument with equal slices are the same type.
        refers: A struct whose fields are described elsewhere in its argument.
        singular: Has one possible value, without bytes, by what its own tag contains.
    """

    kind: TypeKind
    name: Slice = _NOTHING
    members: list[Member] = field(default_factory=list)
    enumerators: dict[int, Slice] = field(default_factory=dict)
    integer: TypeKind = TypeKind.EMPTY
    special: SpecialStruct = SpecialStruct.NONE
    fields: Slice | None = None
    refers: bool = False
    singular: bool = False


class Argument(NamedTuple):
    """An argument of a source: its node and its whole tag."""

    node: int
    tag: Slice


@dataclass(frozen=True, slots=True)
class ArgumentTypes:
    """The types of a source's arguments.

    Attributes:
        nodes: `EMPTY_NODE` and `NULL_NODE` first.
        arguments: In order.
    """

    tags: bytes
    nodes: list[TypeNode]
    arguments: list[Argument]


def parse_tags(tags: bytes) -> ArgumentTypes:
    """Read the argument tags of a source."""
    return _Parser(tags).parse()


class _Parser:
    """Reads types breadth first: a type is first met where it is nested least, and no deeper ones than can be read."""

    def __init__(self, tags: bytes) -> None:
        self._tags = tags
        self._closing = _closing_bytes(tags)
        self._nodes = [TypeNode(TypeKind.EMPTY, singular=True), TypeNode(TypeKind.NULL)]
        self._numbers: dict[Slice, int] = {}
        self._waiting: deque[tuple[int, Slice, Slice, int]] = deque()  # node, its tag, its argument's tag, depth
        self._resolved: dict[tuple[bytes, Slice], Slice | None] = {}

    def parse(self) -> ArgumentTypes:
        arguments = [Argument(self._node(tag, tag, 0), tag) for tag in self._cut_all(Slice(0, len(self._tags)))]
        while self._waiting:
            number, tag, argument, depth = self._waiting.popleft()
            self._fill(self._nodes[number], tag, argument, depth)
        self._find_singular()
        return ArgumentTypes(self._tags, self._nodes, arguments)

    def _node(self, tag: Slice, argument: Slice, depth: int) -> int:
        if tag.start == tag.end:
            return EMPTY_NODE
        number = self._numbers.get(tag)
        if number is None:
            number = self._numbers[tag] = len(self._nodes)
            self._nodes.append(TypeNode(TypeKind.TOO_DEEP))
            if depth < NESTING_MAX:
                self._waiting.append((number, tag, argument, depth))
        return number

    def _fill(self, node: TypeNode, tag: Slice, argument: Slice, depth: int) -> None:
        first = self._tags[tag.start : tag.start + 1]
        inside = Slice(tag.start + 1, max(tag.end - 1, tag.start + 1))  # whatever the last byte is
        if first == b"[":
            element = Slice(tag.start + 1, tag.end)
            if element.of(self._tags) == b"c":
                node.kind = TypeKind.TEXT
            else:
                node.kind = TypeKind.SEQUENCE
                node.members = [Member(self._node(element, argument, depth + 1))]
        elif first == b"(":
            node.kind = TypeKind.TUPLE
            node.members = [Member(self._node(member, argument, depth + 1)) for member in self._cut_all(inside)]
        elif first == b"<":
            node.kind = TypeKind.VARIANT
            node.members = [Member(self._option(member, argument, depth + 1)) for member in self._cut_all(inside)]
        elif first == b"{":
            self._fill_struct(node, inside, argument, depth)
        elif first == b"/":
            self._fill_enum(node, inside)
        else:
            node.kind = SCALAR_TAGS.get(first, TypeKind.BAD_TAG)
            node.name = tag

    def _option(self, tag: Slice, argument: Slice, depth: int) -> int:
        return NULL_NODE if tag.of(self._tags) == NULL_TAG else self._node(tag, argument, depth)

    def _fill_struct(self, node: TypeNode, inside: Slice, argument: Slice, depth: int) -> None:
        fields_start = self._tags.find(b"`", *inside)
        node.kind = TypeKind.STRUCT
        if fields_start < 0:
            node.name = inside
            node.fields = self._resolve(inside.of(self._tags), argument)
            node.refers = node.fields is not None
        else:
            node.name = Slice(inside.start, fields_start)
            node.fields = Slice(fields_start, inside.end)
        if node.fields is not None:
            node.special = _special_struct(node.name.of(self._tags), node.fields.of(self._tags))
            node.members = [
                Member(self._node(tag, argument, depth + 1), label) for label, tag in self._cut_fields(node.fields)
            ]

    def _resolve(self, name: bytes, argument: Slice) -> Slice | None:
        # The fields of the first struct of that name; None where it has none, or is not there.
        key = (name, argument)
        if key not in self._resolved:
            self._resolved[key] = self._search(b"{" + name, argument)
        return self._resolved[key]

    def _search(self, beginning: bytes, argument: Slice) -> Slice | None:
        hit = self._tags.find(beginning, *argument)
        while hit >= 0:
            after = hit + len(beginning)
            if self._tags.startswith(b"}", after, argument.end):
                return None
            if self._tags.startswith(b"`", after, argument.end):
                return Slice(after, max(self._end_of_pair(hit, argument.end) - 1, after))
            hit = self._tags.find(beginning, after, argument.end)
        return None

    def _fill_enum(self, node: TypeNode, inside: Slice) -> None:
        if inside.start == inside.end:
            node.kind = TypeKind.BAD_ENUM
            return
        integer = SCALAR_TAGS.get(self._tags[inside.start : inside.start + 1])
        if integer is None:
            node.kind = TypeKind.BAD_TAG
            node.name = Slice(inside.start, inside.start + 1)
            return
        node.kind = TypeKind.ENUM
        node.integer = integer
        name_start = self._tags.find(b"`", inside.start + 1, inside.end) + 1 or inside.start + 1
        name_end = self._tags.find(b"'", name_start, inside.end)
        node.name = Slice(name_start, inside.end if name_end < 0 else name_end)
        if integer in ENUM_RANGES:
            node.enumerators = self._enumerators(Slice(node.name.end, inside.end), *ENUM_RANGES[integer])

    def _enumerators(self, text: Slice, lowest: int, highest: int) -> dict[int, Slice]:
        # What a search for apostrophe, number, backquote finds first, by number.
        labels: dict[int, Slice] = {}
        apostrophe = self._tags.find(b"'", *text)
        while apostrophe >= 0:
            number_end = self._tags.find(b"`", apostrophe, min(text.end, apostrophe + _HEX_DIGITS_MAX + 2))
            if number_end >= 0 and _HEX_NUMBER.fullmatch(self._tags, apostrophe + 1, number_end):
                value = int(self._tags[apostrophe + 1 : number_end], 16)
                label_end = self._tags.find(b"'", number_end, text.end)
                if lowest <= value <= highest:
                    labels.setdefault(value, Slice(number_end + 1, text.end if label_end < 0 else label_end))
            apostrophe = self._tags.find(b"'", apostrophe + 1, text.end)
        return labels

    def _cut_all(self, tags: Slice) -> list[Slice]:
        cut = []
        start = tags.start
        while start < tags.end:
            end = self._end_of_tag(start, tags.end)
            cut.append(Slice(start, end))
            start = end
        return cut

    def _cut_fields(self, fields: Slice) -> list[tuple[Slice, Slice]]:
        cut = []
        start, end = fields
        while start < end:
            label = Slice(start, start)
            if self._tags.startswith(b"`", start):
                label_end = self._tags.find(b"'", start, end)
                label = Slice(start + 1, end if label_end < 0 else label_end)
                start = min(label.end + 1, end)
            tag = Slice(start, self._end_of_tag(start, end) if start < end else start)
            cut.append((label, tag))
            start = tag.end
        return cut

    def _end_of_tag(self, start: int, end: int) -> int:
        while start < end and self._tags.startswith(b"[", start):
            start += 1
        if start == end:
            return end
        return self._end_of_pair(start, end) if self._tags[start : start + 1] in _CLOSING else start + 1

    def _end_of_pair(self, opening: int, end: int) -> int:
        return min(self._closing.get(opening, end - 1) + 1, end)

    def _find_singular(self) -> None:
        # Shorter tags first: those of members are parts of it. A reference to fields elsewhere is never singular.
        for tag in sorted(self._numbers, key=lambda number: number.end - number.start):
            node = self._nodes[self._numbers[tag]]
            if node.kind in (TypeKind.TUPLE, TypeKind.STRUCT) and not node.refers:
                node.singular = all(self._nodes[member.node].singular for member in node.members)


def _closing_bytes(tags: bytes) -> dict[int, int]:
    # For each opening bracket the byte that closes it, each pair counted on its own.
    closing = {}
    for opens, closes in _CLOSING.items():
        unclosed: list[int] = []
        for found in re.finditer(b"[" + re.escape(opens + closes) + b"]", tags):
            if found[0] == opens:
                unclosed.append(found.start())
            elif unclosed:
                closing[unclosed.pop()] = found.start()
    return closing


def _special_struct(name: bytes, fields: bytes) -> SpecialStruct:
    special = _SPECIAL_STRUCTS.get((name, fields))
    if special is not None:
        return special
    if name.startswith(_DURATION) and fields in _DURATION_FIELDS:
        for unit, special in _DURATION_UNITS.items():
            if name.endswith(unit):
                return special
    return SpecialStruct.NONE


_PLACEHOLDER = b"{}"
_NAMED = re.compile(rb"""([A-Za-z_][A-Za-z0-9_]*) ?[=:] ?["']?$""")


def field_names(types: ArgumentTypes, node: TypeNode) -> list[str]:
    """Names of the members of a struct: their labels.

    A base class has no label: its field is named after it. Other fields without a label are `_1`, `_2`, ... by place.
    """
    return unique_names(_field_name(types, node, index) for index in range(len(node.members)))


def _field_name(types: ArgumentTypes, node: TypeNode, index: int) -> str:
    member = node.members[index]
    label = member.label.of(types.tags)
    base = types.nodes[member.node]
    if not label and base.kind is TypeKind.STRUCT:
        label = base.name.of(types.tags).partition(b"<")[0]
    return label.decode("utf-8", "replace") or f"_{index + 1}"


def argument_names(format_string: bytes, count: int) -> list[str]:
    """Names of a source's arguments: the words before their placeholders, `name={}` or `name: {}`; else `arg0`, ..."""
    before = format_string.split(_PLACEHOLDER)[:-1]
    found = [_NAMED.search(text) for text in before[:count]]
    names = [match[1].decode() if match else "" for match in found] + [""] * (count - len(found))
    return unique_names(name or f"arg{index}" for index, name in enumerate(names))


def unique_names(names: Iterable[str]) -> list[str]:
    """*names*, of which those that were there before get `_2`, `_3`, ...; small and capital letters are the same."""
    taken: set[str] = set()
    unique = []
    for name in names:
        free_name, count = name, 1
        while free_name.casefold() in taken:
            count += 1
            free_name = f"{name}_{count}"
        taken.add(free_name.casefold())
        unique.append(free_name)
    return unique
