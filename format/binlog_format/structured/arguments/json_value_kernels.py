"""The loop over one value of `json_texts`: `write_value`, of any type, without recursion.

Texts of arguments for JSON: `put_text`. What is not UTF-8 becomes U+FFFD, as few as Unicode recommends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from binlog_format.kernels import kernel
from binlog_format.memory_kernels import load_u8, load_u32
from binlog_format.rows.values.text_kernels import character_end, is_utf8
from binlog_format.structured.arguments.value_kernels import (
    BAD_VALUE,
    GROW,
    OK,
    SHORT,
    TOO_DEEP,
    fail,
    find_enumerator,
    load_bits,
    load_signed,
)
from binlog_format.structured.layout import NESTING_MAX
from binlog_format.structured.type_layout import COUNT_SIZE, INDEX_SIZE, TypeKind
from binlog_format.writing_kernels import (
    COMMA,
    QUOTE,
    escaped_size,
    put_bytes,
    put_digits,
    put_escaped,
    put_escapes,
    put_null,
    put_signed,
)

if TYPE_CHECKING:
    from binlog_format.block import Table
    from binlog_format.kernels import Bytes, Int64s

NO_ROOM = -1

_CHARACTER_SIZE_MAX = 4
_GROWTH_MAX = 6  # of a control character: \u001f
_QUOTES_SIZE = 2


@kernel
def put_text(out: Bytes, at: int, data: Bytes, start: int, end: int) -> int:
    """Put data[start:end] as a JSON string; the place after it, or `NO_ROOM`."""
    has_room = at + _GROWTH_MAX * (end - start) + _QUOTES_SIZE <= out.size
    if is_utf8(data, start, end, _CHARACTER_SIZE_MAX):
        if not has_room and at + escaped_size(data, start, end) > out.size:
            return NO_ROOM
        return put_escaped(out, at, data, start, end)
    return _put_replaced(out, at, data, start, end) if has_room else NO_ROOM


@kernel
def _put_replaced(out: Bytes, at: int, data: Bytes, start: int, end: int) -> int:
    out[at] = QUOTE
    at += 1
    place = start
    while place < end:
        after = place + 1 if load_u8(data, place) < 0x80 else character_end(data, place, end, _CHARACTER_SIZE_MAX)
        if after > 0:
            place = after
            continue
        at = put_escapes(out, at, data, start, place)  # what has gathered since the last replacement
        out[at], out[at + 1], out[at + 2] = 0xEF, 0xBF, 0xBD
        at += 3
        place += _invalid_size(data, place, end)
        start = place
    at = put_escapes(out, at, data, start, end)
    out[at] = QUOTE
    return at + 1


@kernel
def _invalid_size(data: Bytes, place: int, end: int) -> int:
    # Bytes at a place without a character that could begin one, at least one (Unicode 3.9, "maximal subparts").
    lead = load_u8(data, place)
    if lead < 0xE0 or lead > 0xF4 or place + 1 >= end:
        return 1
    lowest, highest = 0x80, 0xBF
    if lead == 0xE0:
        lowest = 0xA0
    elif lead == 0xED:
        highest = 0x9F
    elif lead == 0xF0:
        lowest = 0x90
    elif lead == 0xF4:
        highest = 0x8F
    second = load_u8(data, place + 1)
    if second < lowest or second > highest:
        return 1
    return 3 if lead >= 0xF0 and place + 2 < end and load_u8(data, place + 2) & 0xC0 == 0x80 else 2


_BOOL = int(TypeKind.BOOL)
_CHAR = int(TypeKind.CHAR)
_UINT64 = int(TypeKind.UINT64)
_FLOAT = int(TypeKind.FLOAT)
_EXTENDED = int(TypeKind.EXTENDED)
_NULL = int(TypeKind.NULL)
_TEXT = int(TypeKind.TEXT)
_SEQUENCE = int(TypeKind.SEQUENCE)
_VARIANT = int(TypeKind.VARIANT)
_STRUCT = int(TypeKind.STRUCT)
_ENUM = int(TypeKind.ENUM)
_TOO_DEEP = int(TypeKind.TOO_DEEP)
_NO_VALUE = -1

NO_NODE = -1

OPEN_LIST, CLOSE_LIST = ord("["), ord("]")
_OPEN_STRUCT, _CLOSE_STRUCT = ord("{"), ord("}")
_SHORT_TEXT_MAX = 24  # of a number, a word or a character
_TRUE = np.frombuffer(b"true", dtype=np.uint8).copy()
_FALSE = np.frombuffer(b"false", dtype=np.uint8).copy()

# Fields of a value that is being written and contains others.
_CLOSE = 0  # the bracket at its end, or 0
_MEMBER = 1  # row of its next member
_STEP = 2  # from there to the one after
_LEFT = 3  # how many are left
_WRITTEN = 4  # whether one is written
_STACK_FIELDS = 5

STACK_SHAPE = (NESTING_MAX + 1, _STACK_FIELDS)
"""Shape of the scratch array for values that contain others, and for the arguments that these are in."""


class JsonTypes(NamedTuple):
    """A `TypeTable` and the names in it as JSON.

    Attributes:
        nodes: As in `TypeTable`, and so are the enumerators.
        members: As in `TypeTable`, and after them the arguments of all sources.
        enumerators: By value.
        first_argument: Of each source the row of its first argument in *members*, and the number of all members.
        keys: `JSON_NAME_DTYPE`, of each member: the label of a struct's field and a colon; of others no bytes.
        labels: `JSON_NAME_DTYPE`, of each enumerator; without bytes where its label is empty.
        names: What they point into.
    """

    nodes: Table
    members: Table
    enumerators: Table
    first_argument: Int64s
    keys: Table
    labels: Table
    names: Bytes


@kernel
def _put_number(data: Bytes, kind: int, place: int, out: Bytes, at: int) -> int:
    # `_SHORT_TEXT_MAX` bytes of room are there.
    if kind == _BOOL:
        word = _TRUE if load_u8(data, place) else _FALSE
        return put_bytes(out, at, word, 0, word.size)
    if kind == _CHAR:
        return put_text(out, at, data, place, place + 1)
    if kind == _UINT64:
        return put_digits(out, at, load_bits(data, kind, place))
    return put_signed(out, at, load_signed(data, kind, place))


@kernel
def _put_enum(types: JsonTypes, node: int, data: Bytes, place: int, out: Bytes, at: int) -> int:
    # `_SHORT_TEXT_MAX` bytes of room are there, but a label can be longer: `NO_ROOM`.
    integer = types.nodes["integer"][node]
    value = load_signed(data, integer, place)
    if integer == _BOOL and value != 0:
        value = 1
    row = find_enumerator(types.enumerators, types.nodes["first"][node], types.nodes["count"][node], value)
    if row >= 0 and types.labels["size"][row] > 0:
        start, size = types.labels["start"][row], types.labels["size"][row]
        return put_bytes(out, at, types.names, start, start + size) if at + size <= out.size else NO_ROOM
    if integer == _UINT64:
        return put_digits(out, at, load_bits(data, integer, place))
    return put_signed(out, at, value)


@kernel
def push_members(stack: Int64s, level: int, close: int, member: int, step: int, count: int) -> None:
    """Note that *count* members follow, from row *member* on, and a bracket after them (0: none)."""
    frame = stack[level]
    frame[_CLOSE] = close
    frame[_MEMBER] = member
    frame[_STEP] = step
    frame[_LEFT] = count
    frame[_WRITTEN] = 0


@kernel
def _enter(
    kind: int,
    is_special: bool,
    first: int,
    count: int,
    element_size: int,
    data: Bytes,
    place: int,
    end: int,
    stack: Int64s,
    level: int,
    out: Bytes,
    at: int,
) -> tuple[int, int, int, int]:
    # A value that contains others: bytes that it needs, 0 where they are there; the byte after what is read, the
    # level of its members, the byte after what is written.
    if kind == _VARIANT:
        if place >= end:
            return INDEX_SIZE, place, level, at
        index = load_u8(data, place)
        if index >= count:
            return 0, place + INDEX_SIZE, level, put_null(out, at)
        push_members(stack, level, 0, first + index, 1, 1)
        return 0, place + INDEX_SIZE, level + 1, at
    if kind == _SEQUENCE:
        if end - place < COUNT_SIZE:
            return COUNT_SIZE, place, level, at
        elements = load_u32(data, place)
        place += COUNT_SIZE
        if element_size == 0:  # they have no bytes: how many
            return 0, place, level, put_digits(out, at, np.uint64(elements))
        if elements * element_size > end - place:
            return elements * element_size, place, level, at
        push_members(stack, level, CLOSE_LIST, first, 0, elements)
    elif is_special:
        push_members(stack, level, 0, first, 1, count)
        return 0, place, level + 1, at
    else:
        push_members(stack, level, _CLOSE_STRUCT if kind == _STRUCT else CLOSE_LIST, first, 1, count)
    out[at] = _OPEN_STRUCT if kind == _STRUCT else OPEN_LIST
    return 0, place, level + 1, at + 1


@kernel
def _next_member(stack: Int64s, level: int, out: Bytes, at: int) -> tuple[int, int, int]:
    # Ends values that are complete, and begins the next member of the one that is not: its row (-1: none is left), the
    # level, the byte after what is written or `NO_ROOM`.
    while level > 0 and stack[level - 1, _LEFT] == 0:
        level -= 1
        close = stack[level, _CLOSE]
        if close != 0:
            if at >= out.size:
                return -1, level, NO_ROOM
            out[at] = close
            at += 1
    if level == 0:
        return -1, 0, at
    frame = stack[level - 1]
    member = frame[_MEMBER]
    frame[_MEMBER] += frame[_STEP]
    frame[_LEFT] -= 1
    if frame[_WRITTEN]:
        if at >= out.size:
            return -1, level, NO_ROOM
        out[at] = COMMA
        at += 1
    frame[_WRITTEN] = 1
    return member, level, at


@kernel
def members_left(stack: Int64s) -> int:
    """Number of the members at the outermost level that have not begun."""
    return int(stack[0, _LEFT])


@kernel
def _write_text(data: Bytes, place: int, end: int, out: Bytes, at: int) -> tuple[int, int, int]:
    # Bytes that it needs, 0 where they are there; the byte after it, the byte after what is written or `NO_ROOM`.
    if end - place < COUNT_SIZE:
        return COUNT_SIZE, place, at
    size = load_u32(data, place)
    place += COUNT_SIZE
    if size > end - place:
        return size, place, at
    return 0, place + size, put_text(out, at, data, place, place + size)


@kernel
def _omit_float(floats: Table, count: int, at: int, place: int, kind: int) -> int:
    # How many there are then.
    floats["at"][count] = at
    floats["place"][count] = place
    floats["kind"][count] = kind
    return count + 1


@kernel
def _shown_kind(nodes: Table, node: int) -> int:
    # Of an enum over a floating type that type: no value of it has a label.
    kind, integer = int(nodes["kind"][node]), int(nodes["integer"][node])
    return integer if kind == _ENUM and _FLOAT <= integer <= _EXTENDED else kind


@kernel
def write_value(
    types: JsonTypes, node: int, level: int, depth: int, data: Bytes, place: int, end: int, out: Bytes, at: int,
    floats: Table, float_count: int, stack: Int64s, failure: Table,
) -> tuple[int, int, int, int]:  # fmt: skip
    """Write one value as JSON, or (node below 0) the members on the stack; without the floats in it.

    Args:
        level: Of the stack, which has as many values that contain others.
        depth: How many others those on the stack are nested in.
        data: The bytes.
        place: Its first byte.
        end: Where its event ends.
        out: Room for the text.
        floats: `OMITTED_FLOAT_DTYPE`, as many as fit into the data: gets each float.
        float_count: How many of them there are already.
        stack: Scratch, `STACK_SHAPE`.
        failure: `FAILURE_DTYPE`, one row: gets what cannot be read.

    Returns:
        A code; the byte after the value; the byte after the text; the number of floats then.
    """
    nodes, member_nodes, keys = types.nodes, types.members["node"], types.keys
    sizes, firsts, counts = nodes["size_min"], nodes["first"], nodes["count"]
    while True:
        kind = _shown_kind(nodes, node) if node >= 0 else _NO_VALUE
        if kind > _NULL and depth + level >= NESTING_MAX:
            return fail(failure, TOO_DEEP, node, place, 0, end - place), place, at, float_count
        if at + _SHORT_TEXT_MAX > out.size:
            return GROW, place, at, float_count
        needed = 0
        if _BOOL <= kind <= _EXTENDED or kind == _ENUM:
            needed = sizes[node] if sizes[node] > end - place else 0
            if needed == 0 and _FLOAT <= kind <= _EXTENDED:
                float_count = _omit_float(floats, float_count, at, place, kind)
            elif needed == 0 and kind == _ENUM:
                at = _put_enum(types, node, data, place, out, at)
            elif needed == 0:
                at = _put_number(data, kind, place, out, at)
            place += sizes[node] if needed == 0 else 0
        elif kind == _TEXT:
            needed, place, at = _write_text(data, place, end, out, at)
        elif kind > _ENUM:
            code = TOO_DEEP if kind == _TOO_DEEP else BAD_VALUE
            return fail(failure, code, node, place, 0, 0), place, at, float_count
        elif kind > _NULL:
            count = 0 if nodes["no_bytes"][node] else counts[node]
            element_size = sizes[member_nodes[firsts[node]]] if kind == _SEQUENCE else 0
            is_special, first = nodes["special"][node] != 0, firsts[node]
            needed, place, level, at = _enter(
                kind, is_special, first, count, element_size, data, place, end, stack, level, out, at
            )
        elif kind != _NO_VALUE:
            at = put_null(out, at)
        if needed > 0:
            return fail(failure, SHORT, node, place, needed, end - place), place, at, float_count
        if at != NO_ROOM:
            member, level, at = _next_member(stack, level, out, at)
        if at == NO_ROOM:
            return GROW, place, at, float_count
        if member < 0:
            return OK, place, at, float_count
        node = member_nodes[member]
        key_size = keys["size"][member]
        if key_size > 0:
            if at + key_size > out.size:
                return GROW, place, at, float_count
            at = put_bytes(out, at, types.names, keys["start"][member], keys["start"][member] + key_size)
