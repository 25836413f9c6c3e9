"""Values of arguments as text: `put_value` walks one and writes it.

It reads and writes in the order of the library's reader, so that the text before a damaged value is the same: numbers
and counts are read before the comma in front of them is written; the openings and labels of what has members before
the members are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.kernels import kernel
from binlog_format.memory_kernels import load_u8, load_u32
from binlog_format.structured.layout import NESTING_MAX, SINGULAR_MAX
from binlog_format.structured.text.leaf_kernels import (
    BAD_ENUM,
    BAD_TAG,
    NO_ROOM,
    NUMBER_SIZES,
    OK,
    TOO_DEEP,
    VALUE_ROOM,
    overflow,
    put_enum,
    put_number,
    put_special,
    put_text,
    put_word,
    text_bytes,
)
from binlog_format.structured.type_layout import COUNT_SIZE, INDEX_SIZE, SpecialStruct, TypeKind
from binlog_format.writing_kernels import put_bytes, put_digits

if TYPE_CHECKING:
    from binlog_format.kernels import Bytes
    from binlog_format.structured.text.leaf_kernels import TextScratch, Types
    from binlog_format.structured.text.time_kernels import Times, Zone

_EMPTY = int(TypeKind.EMPTY)
_NULL = int(TypeKind.NULL)
_BOOL = int(TypeKind.BOOL)
_EXTENDED = int(TypeKind.EXTENDED)
_TEXT = int(TypeKind.TEXT)
_SEQUENCE = int(TypeKind.SEQUENCE)
_TUPLE = int(TypeKind.TUPLE)
_VARIANT = int(TypeKind.VARIANT)
_STRUCT = int(TypeKind.STRUCT)
_ENUM = int(TypeKind.ENUM)
_BAD_TAG = int(TypeKind.BAD_TAG)
_BAD_ENUM = int(TypeKind.BAD_ENUM)
_NO_SPECIAL = int(SpecialStruct.NONE)

_REPEAT = 100
"""A kind beside those of types: a sequence that shows one element."""

STACK_SHAPE = (NESTING_MAX + 1, 4)
"""Shape of the scratch array for the values that are open around a value."""
_OPEN_KIND = 0
_OPEN_NODE = 1  # of a sequence: its element's; of a struct: row of its first member
_OPEN_NEXT = 2  # of a tuple or struct: row of the member that comes next; of a sequence: how many have come
_OPEN_END = 3

WALK_SIZE = 3
"""Size of the scratch array for the place of the walk in a value."""
_DEPTH = 0  # how much is open
_LISTS = 1  # how much of it has commas: not variants
_COMMA = 2  # what the next comma depends on:
_ALONE = 0  # nothing is before the next value
_FIRST = 1  # it is the first of its list, tuple or struct
_LATER = 2  # it is not

_COMMA_TEXT = text_bytes(b", ")
_NULL_TEXT = text_bytes(b"{null}")
_STRUCT_BEGIN = text_bytes(b"{ ")
_STRUCT_END = text_bytes(b" }")
_LABEL_END = text_bytes(b": ")
_LIST_BEGIN = text_bytes(b"[")
_LIST_END = text_bytes(b"]")
_TUPLE_BEGIN = text_bytes(b"(")
_TUPLE_END = text_bytes(b")")
_REPEAT_BEGIN = text_bytes(b" ... <repeats ")
_REPEAT_END = text_bytes(b" times>]")


@kernel
def _put_comma(out: Bytes, at: int, scratch: TextScratch) -> int:
    if scratch.walk[_COMMA] == _LATER:
        return put_word(out, at, _COMMA_TEXT)
    if scratch.walk[_COMMA] == _FIRST:
        scratch.walk[_COMMA] = _LATER
    return at


@kernel
def _open(scratch: TextScratch, kind: int, node: int, following: int, end: int) -> None:
    depth = scratch.walk[_DEPTH]
    scratch.stack[depth, _OPEN_KIND], scratch.stack[depth, _OPEN_NODE] = kind, node
    scratch.stack[depth, _OPEN_NEXT], scratch.stack[depth, _OPEN_END] = following, end
    scratch.walk[_DEPTH] = depth + 1
    if kind != _VARIANT:
        scratch.walk[_LISTS] += 1
        scratch.walk[_COMMA] = _FIRST


@kernel
def _close(scratch: TextScratch) -> None:
    depth = scratch.walk[_DEPTH] - 1
    scratch.walk[_DEPTH] = depth
    if scratch.stack[depth, _OPEN_KIND] != _VARIANT:
        scratch.walk[_LISTS] -= 1
        scratch.walk[_COMMA] = _LATER if scratch.walk[_LISTS] > 0 else _ALONE


@kernel
def _put_leaf(
    out: Bytes, room: int, at: int, data: Bytes, place: int, end: int, node: int, types: Types, scratch: TextScratch
) -> tuple[int, int, int]:
    # What has no members: code, place in *out*, place in *data*.
    kind = int(types.nodes["kind"][node])
    if kind == _TEXT:
        if end - place >= COUNT_SIZE:
            at = _put_comma(out, at, scratch)
        return put_text(out, room, at, data, place, end, scratch)
    if kind == _NULL:
        return OK, put_word(out, _put_comma(out, at, scratch), _NULL_TEXT), place
    if kind == _EMPTY:
        return OK, at, place
    if kind == _ENUM:
        size = NUMBER_SIZES[types.nodes["integer"][node]]
        if end - place < size:
            return overflow(scratch, size, end - place), at, place
        code, at = put_enum(out, room, _put_comma(out, at, scratch), data, place, node, types)
        return code, at, place + size
    if kind == _BAD_TAG:
        scratch.report[0] = node
        return BAD_TAG, at, place
    return BAD_ENUM if kind == _BAD_ENUM else TOO_DEEP, at, place


@kernel
def _begin_sequence(
    out: Bytes, at: int, data: Bytes, place: int, end: int, node: int, types: Types, scratch: TextScratch
) -> tuple[int, int, int]:
    if end - place < COUNT_SIZE:
        return overflow(scratch, COUNT_SIZE, end - place), at, place
    count = load_u32(data, place)
    at = put_word(out, _put_comma(out, at, scratch), _LIST_BEGIN)
    element = types.members["node"][types.nodes["first"][node]]
    is_repeated = count > SINGULAR_MAX and types.nodes["singular"][element] != 0
    _open(scratch, _REPEAT if is_repeated else _SEQUENCE, element, 0, count)
    return OK, at, place + COUNT_SIZE


@kernel
def _begin_struct(
    out: Bytes,
    room: int,
    at: int,
    data: Bytes,
    place: int,
    end: int,
    node: int,
    types: Types,
    times: Times,
    zone: Zone,
    scratch: TextScratch,
) -> tuple[int, int, int]:
    nodes = types.nodes
    name_start, name_size = nodes["name_start"][node], nodes["short_name_size"][node]
    if at + name_size + VALUE_ROOM > room:
        return NO_ROOM, at, place
    at = _put_comma(out, at, scratch)
    if nodes["special"][node] != _NO_SPECIAL:
        return put_special(out, room, at, data, place, end, node, types, times, zone, scratch)
    at = put_bytes(out, at, types.pool, name_start, name_start + name_size)
    first, count = nodes["first"][node], nodes["count"][node]
    if count:
        at = put_word(out, at, _STRUCT_BEGIN)
        _open(scratch, _STRUCT, first, first, first + count)
    return OK, at, place


@kernel
def _put_label(out: Bytes, room: int, at: int, member: int, types: Types, scratch: TextScratch) -> tuple[int, int]:
    start, size = types.members["label_start"][member], types.members["label_size"][member]
    if at + size + VALUE_ROOM > room:
        return NO_ROOM, at
    at = _put_comma(out, at, scratch)
    if size:
        at = put_word(out, put_bytes(out, at, types.pool, start, start + size), _LABEL_END)
    scratch.walk[_COMMA] = _ALONE
    return OK, at


@kernel
def _go_on(out: Bytes, room: int, at: int, types: Types, scratch: TextScratch) -> tuple[int, int, int]:
    # Closes what has no more members: code, place in *out*, node of the next value; -1: there is none.
    stack = scratch.stack
    while scratch.walk[_DEPTH] > 0:
        if at + VALUE_ROOM > room:
            return NO_ROOM, at, -1
        top = scratch.walk[_DEPTH] - 1
        kind, node = stack[top, _OPEN_KIND], stack[top, _OPEN_NODE]
        following, end = stack[top, _OPEN_NEXT], stack[top, _OPEN_END]
        stack[top, _OPEN_NEXT] = following + 1
        if kind == _SEQUENCE:
            if following < end:
                return OK, at, node
            at = put_word(out, at, _LIST_END)
        elif kind == _TUPLE:
            if following < end:
                return OK, at, types.members["node"][following]
            at = put_word(out, at, _TUPLE_END)
        elif kind == _STRUCT:
            if following > node:
                scratch.walk[_COMMA] = _LATER  # a field has ended
            if following < end:
                code, at = _put_label(out, room, at, following, types, scratch)
                return code, at, types.members["node"][following]
            at = put_word(out, at, _STRUCT_END)
        elif kind == _REPEAT:
            if following == 0:
                return OK, at, node
            at = put_digits(out, put_word(out, at, _REPEAT_BEGIN), np.uint64(end))
            at = put_word(out, at, _REPEAT_END)
        _close(scratch)
    return OK, at, -1


@kernel
def put_value(
    out: Bytes,
    room: int,
    at: int,
    data: Bytes,
    place: int,
    end: int,
    node: int,
    types: Types,
    times: Times,
    zone: Zone,
    scratch: TextScratch,
) -> tuple[int, int, int]:
    """Put an argument's value.

    Args:
        out: Where to; it has *room* bytes.
        room: Of them, those from *at* on are free.
        at: Where the text begins.
        data: The value's bytes ...
        place: ... from here on.
        end: Of the entry.
        node: Of the argument's type.
        zone: Of times in messages.

    Returns:
        `OK`, `NO_ROOM` or what is wrong; the place after the text; the byte after the value.
    """
    scratch.walk[:] = 0
    nodes = types.nodes
    code = OK
    while code == OK and node >= 0:
        kind = int(nodes["kind"][node])
        if scratch.walk[_DEPTH] >= NESTING_MAX and kind != _NULL:
            return TOO_DEEP, at, place
        if at + VALUE_ROOM > room:
            return NO_ROOM, at, place
        if kind == _VARIANT:
            if end - place < INDEX_SIZE:
                return overflow(scratch, INDEX_SIZE, end - place), at, place
            index = load_u8(data, place)
            place += INDEX_SIZE
            _open(scratch, _VARIANT, 0, 0, 0)
            node = types.members["node"][nodes["first"][node] + index] if index < nodes["count"][node] else _EMPTY
            continue
        if _BOOL <= kind <= _EXTENDED:
            size = NUMBER_SIZES[kind]
            if end - place < size:
                return overflow(scratch, size, end - place), at, place
            at = put_number(out, _put_comma(out, at, scratch), data, place, kind, scratch.words)
            place += size
        elif kind == _SEQUENCE:
            code, at, place = _begin_sequence(out, at, data, place, end, node, types, scratch)
        elif kind == _STRUCT:
            code, at, place = _begin_struct(out, room, at, data, place, end, node, types, times, zone, scratch)
        elif kind == _TUPLE:
            at = put_word(out, _put_comma(out, at, scratch), _TUPLE_BEGIN)
            first = nodes["first"][node]
            _open(scratch, _TUPLE, first, first, first + nodes["count"][node])
        else:
            code, at, place = _put_leaf(out, room, at, data, place, end, node, types, scratch)
        if code == OK:
            code, at, node = _go_on(out, room, at, types, scratch)
    return code, at, place
