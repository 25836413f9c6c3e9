"""The loop of `json_columns`: documents of MySQL's binary JSON to the text that the server prints, `json_texts`.

A document is walked without recursion. Whatever it claims, the work and the text stay in proportion to its size: every
part is charged to the document, and one whose parts take more bytes than it has (because they overlap, which no server
writes) is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.kernels import kernel
from binlog_format.memory_kernels import load_u8, load_u16, load_u32, load_u64
from binlog_format.rows.json.json_layout import JSON_DEPTH_MAX, JSON_FALSE, JSON_NULL, JSON_TRUE, JsonType
from binlog_format.rows.json.json_scalar_kernels import (
    BAD_VALUE,
    NO_ROOM,
    json_size,
    load_i64,
    write_opaque,
    write_signed,
    write_string,
    write_unsigned,
)
from binlog_format.rows.row_event_kernels import value_size

if TYPE_CHECKING:
    from binlog_format.kernels import Bytes, Int32s, Int64s

OK = 0
GROW = 1  # call again from there with more room
NOT_IN_DATA = 2
BAD_DOCUMENT = 3  # parts that lie outside of it or overlap, or values that no server writes
TOO_DEEP = 4
TOO_LARGE = 5

_OFFSET_MAX = (1 << 31) - 1
_LARGE_OBJECT = int(JsonType.LARGE_OBJECT)
_SMALL_ARRAY = int(JsonType.SMALL_ARRAY)
_LARGE_ARRAY = int(JsonType.LARGE_ARRAY)
_LITERAL = int(JsonType.LITERAL)
_INT16 = int(JsonType.INT16)
_UINT16 = int(JsonType.UINT16)
_INT32 = int(JsonType.INT32)
_UINT32 = int(JsonType.UINT32)
_INT64 = int(JsonType.INT64)
_UINT64 = int(JsonType.UINT64)
_DOUBLE = int(JsonType.DOUBLE)
_STRING = int(JsonType.STRING)
_OPAQUE = int(JsonType.OPAQUE)
_OPENING = 64  # room for the text between two strings: brackets, separators, words

_EXPONENT_BITS = 0x7FF0  # of the highest two bytes of a double; all set where it is no number

# Fields of a double.
DOUBLE_PLACE = 0  # its byte in the data
DOUBLE_BEFORE = 1  # the byte of the text that it comes before
DOUBLE_DOCUMENT = 2  # index of its document
DOUBLE_FIELDS = 3

# Fields of a container that is being written.
_START = 0
_END = 1
_COUNT = 2
_NEXT = 3  # number of the member that comes next
_TYPE = 4
_STACK_FIELDS = 5

STACK_SHAPE = (JSON_DEPTH_MAX, _STACK_FIELDS)
"""Shape of the scratch array for containers."""


@kernel
def _fixed_size(kind: int) -> int:
    # Bytes of a scalar that has always as many, 0 for others.
    if kind == _LITERAL:
        return 1
    if kind == _INT16 or kind == _UINT16:
        return 2
    if kind == _INT32 or kind == _UINT32:
        return 4
    return 8 if kind == _INT64 or kind == _UINT64 or kind == _DOUBLE else 0


@kernel
def _write_literal(value: int, out: Bytes, at: int) -> int:
    if value == JSON_NULL:
        out[at], out[at + 1], out[at + 2], out[at + 3] = 110, 117, 108, 108
        return at + 4
    if value == JSON_TRUE:
        out[at], out[at + 1], out[at + 2], out[at + 3] = 116, 114, 117, 101
        return at + 4
    if value == JSON_FALSE:
        out[at], out[at + 1], out[at + 2], out[at + 3], out[at + 4] = 102, 97, 108, 115, 101
        return at + 5
    return BAD_VALUE


@kernel
def _write_fixed(data: Bytes, kind: int, place: int, out: Bytes, at: int) -> int:
    # A scalar of fixed size that is no double.
    if kind == _LITERAL:
        return _write_literal(load_u8(data, place), out, at) if at + 8 <= out.size else NO_ROOM
    if kind == _INT16:
        number = load_u16(data, place)
        return write_signed(number - ((number >> 15) << 16), out, at)
    if kind == _UINT16:
        return write_signed(load_u16(data, place), out, at)
    if kind == _INT32:
        number = load_u32(data, place)
        return write_signed(number - ((number >> 31) << 32), out, at)
    if kind == _UINT32:
        return write_signed(load_u32(data, place), out, at)
    if kind == _INT64:
        return write_signed(load_i64(data, place), out, at)
    return write_unsigned(np.uint64(load_u64(data, place)), out, at)


@kernel
def _write_sized(data: Bytes, kind: int, place: int, end: int, left: int, out: Bytes, at: int) -> tuple[int, int]:
    # A string or an opaque value: the byte after what is written or an error, and what is left of the document.
    first = place
    if kind == _OPAQUE:
        place += 1
    size, place = json_size(data, place, end)
    if size < 0 or size > end - place:
        return BAD_VALUE, left
    left -= place + size - first
    if left < 0:
        return BAD_VALUE, left
    if kind == _OPAQUE:
        return write_opaque(data, load_u8(data, first), place, size, out, at), left
    return write_string(data, place, size, out, at), left


@kernel
def _word(data: Bytes, place: int, size: int) -> int:
    return load_u16(data, place) if size == 2 else load_u32(data, place)


@kernel
def _open_container(
    data: Bytes, kind: int, start: int, end: int, left: int, stack: Int64s, depth: int
) -> tuple[int, int]:
    # Puts an object or array on the stack; code, and what is left of the document.
    if depth == len(stack):
        return TOO_DEEP, left
    word = 4 if kind == _LARGE_OBJECT or kind == _LARGE_ARRAY else 2
    if end - start < 2 * word:
        return BAD_DOCUMENT, left
    count = _word(data, start, word)
    size = _word(data, start + word, word)
    head = 2 * word + count * (1 + word)
    if kind <= _LARGE_OBJECT:
        head += count * (word + 2)
    left -= head
    if size > end - start or head > size or left < 0:
        return BAD_DOCUMENT, left
    stack[depth, _START] = start
    stack[depth, _END] = start + size
    stack[depth, _COUNT] = count
    stack[depth, _NEXT] = 0
    stack[depth, _TYPE] = kind
    return OK, left


@kernel
def _write_key(data: Bytes, container: Int64s, number: int, left: int, out: Bytes, at: int) -> tuple[int, int]:
    # A key and the colon after it.
    start = container[_START]
    count = container[_COUNT]
    word = 4 if container[_TYPE] == _LARGE_OBJECT else 2
    entry = start + 2 * word + number * (word + 2)
    offset = _word(data, entry, word)
    size = load_u16(data, entry + word)
    left -= size
    if left < 0 or offset < 2 * word + count * (2 * word + 3) or start + offset + size > container[_END]:
        return BAD_VALUE, left
    at = write_string(data, start + offset, size, out, at)
    if at < 0:
        return at, left
    if at + 2 > out.size:
        return NO_ROOM, left
    out[at] = 58  # ":"
    out[at + 1] = 32
    return at + 2, left


@kernel
def _value_place(data: Bytes, container: Int64s, number: int) -> tuple[int, int, int, bool]:
    # Type of a member, its first byte (-1 where it is not in the container), its last possible end, and whether its
    # bytes are those of the entry.
    start = container[_START]
    count = container[_COUNT]
    kind = container[_TYPE]
    word = 4 if kind == _LARGE_OBJECT or kind == _LARGE_ARRAY else 2
    keys = count * (word + 2) if kind <= _LARGE_OBJECT else 0
    entry = start + 2 * word + keys + number * (1 + word)
    value_kind = load_u8(data, entry)
    size = _fixed_size(value_kind)
    if 0 < size <= word:
        return value_kind, entry + 1, entry + 1 + size, True
    offset = _word(data, entry + 1, word)
    if offset < 2 * word + keys + count * (1 + word) or start + offset + size > container[_END]:
        return value_kind, -1, -1, False
    return value_kind, start + offset, container[_END], False


@kernel
def _write_document(
    data: Bytes, start: int, end: int, index: int, out: Bytes, at: int, doubles: Int64s, count: int, stack: Int64s
) -> tuple[int, int, int]:
    # Code, the byte after the text, the number of doubles then.
    left = end - start - 1
    kind = load_u8(data, start)
    place = start + 1
    limit = end
    inlined = False
    depth = 0
    while True:
        # One value: a scalar is written, a container opened.
        if kind <= _LARGE_ARRAY:
            code, left = _open_container(data, kind, place, limit, left, stack, depth)
            if code != OK:
                return code, at, count
            if at + _OPENING > out.size:
                return GROW, at, count
            out[at] = 123 if kind < _SMALL_ARRAY else 91  # "{" or "["
            at += 1
            depth += 1
        else:
            size = _fixed_size(kind)
            if size:
                if not inlined:
                    left -= size
                if place + size > limit or left < 0:
                    return BAD_DOCUMENT, at, count
                if kind == _DOUBLE:
                    # Its text comes in a second step, all at once.
                    if load_u16(data, place + 6) & _EXPONENT_BITS == _EXPONENT_BITS:  # no number
                        return BAD_DOCUMENT, at, count
                    doubles[count, DOUBLE_PLACE] = place
                    doubles[count, DOUBLE_BEFORE] = at
                    doubles[count, DOUBLE_DOCUMENT] = index
                    count += 1
                else:
                    at = _write_fixed(data, kind, place, out, at)
            elif kind == _STRING or kind == _OPAQUE:
                at, left = _write_sized(data, kind, place, limit, left, out, at)
            else:
                return BAD_DOCUMENT, at, count
            if at < 0:
                return GROW if at == NO_ROOM else BAD_DOCUMENT, at, count
        # What comes after it: the ends of containers that have no more members, then the next member.
        while depth and stack[depth - 1, _NEXT] == stack[depth - 1, _COUNT]:
            depth -= 1
            if at == out.size:
                return GROW, at, count
            out[at] = 125 if stack[depth, _TYPE] < _SMALL_ARRAY else 93  # "}" or "]"
            at += 1
        if depth == 0:
            return OK, at, count
        container = stack[depth - 1]
        number = container[_NEXT]
        container[_NEXT] = number + 1
        if number:
            if at + 2 > out.size:
                return GROW, at, count
            out[at] = 44  # ","
            out[at + 1] = 32
            at += 2
        if container[_TYPE] < _SMALL_ARRAY:
            at, left = _write_key(data, container, number, left, out, at)
            if at < 0:
                return GROW if at == NO_ROOM else BAD_DOCUMENT, at, count
        kind, place, limit, inlined = _value_place(data, container, number)
        if place < 0:
            return BAD_DOCUMENT, at, count


@kernel
def json_texts(
    data: Bytes,
    offsets: Int32s,
    prefix: int,
    first: int,
    out: Bytes,
    out_offsets: Int32s,
    doubles: Int64s,
    count: int,
    stack: Int64s,
) -> tuple[int, int, int]:
    """Write documents as text, one after the other; where a double belongs, nothing yet (`insert_doubles`).

    Args:
        data: What the offsets point into.
        offsets: Below 0 for no value.
        prefix: Bytes of the size before each document.
        out: Room for the texts.
        out_offsets: Gets the start of each text, and the end of the last; filled up to *first*.
        doubles: Shape (as many as fit into the documents, `DOUBLE_FIELDS`): gets each double.
        count: How many of them there are already.
        stack: Scratch, `STACK_SHAPE`.

    Returns:
        A code; the index of the document that it is about; the number of doubles. After `GROW` call again from there
        with more room.
    """
    at = int(out_offsets[first])
    for i in range(first, offsets.size):
        place = int(offsets[i])
        if place >= 0:
            if place + prefix > data.size:
                return NOT_IN_DATA, i, count
            size = value_size(data, place, prefix)
            start = place + prefix
            if size > data.size - start:
                return NOT_IN_DATA, i, count
            if size == 0:
                # What an INSERT IGNORE leaves in a column without a value; the server reads it as null.
                if at + 4 > out.size:
                    return GROW, i, count
                at = _write_literal(JSON_NULL, out, at)
            else:
                code, at, after = _write_document(data, start, start + size, i, out, at, doubles, count, stack)
                if code != OK:
                    return code, i, count
                count = after
        if at > _OFFSET_MAX:
            return TOO_LARGE, i, count
        out_offsets[i + 1] = at
    return OK, offsets.size, count
