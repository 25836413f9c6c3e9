"""The loop of `texts_of`: Parquet's Variant to JSON texts as MySQL prints them, `write_variants`.

A value is walked without recursion, each part checked: other programs write variants, too. Every part is charged to
the value, so parts that lie on each other, which no writer makes, cost no more than the value has bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from binlog_format.kernels import kernel
from binlog_format.memory_kernels import load_u8, load_u16, load_u32
from binlog_format.rows.json.json_scalar_kernels import NO_ROOM, load_i64, write_signed, write_string
from binlog_format.rows.json.json_text_kernels import (
    BAD_DOCUMENT,
    DOUBLE_BEFORE,
    DOUBLE_DOCUMENT,
    DOUBLE_PLACE,
    GROW,
    OK,
    TOO_DEEP,
)
from binlog_format.rows.json.variant_layout import (
    BASIC_BITS,
    DECIMAL_DIGITS_MAX,
    METADATA_VERSION,
    VARIANT_DEPTH_MAX,
    BasicType,
    PrimitiveType,
)
from binlog_format.rows.json.variant_number_kernels import DECIMAL_TEXT_MAX, DIGITS_MAX, put_decimal
from binlog_format.writing_kernels import COMMA

if TYPE_CHECKING:
    from binlog_format.kernels import Bytes, Int32s, Int64s, Mask

NO_JSON = 7  # a value of a type that JSON does not have

_NULL = int(PrimitiveType.NULL)
_TRUE = int(PrimitiveType.TRUE)
_FALSE = int(PrimitiveType.FALSE)
_INT8 = int(PrimitiveType.INT8)
_INT16 = int(PrimitiveType.INT16)
_INT32 = int(PrimitiveType.INT32)
_INT64 = int(PrimitiveType.INT64)
_DOUBLE = int(PrimitiveType.DOUBLE)
_DECIMAL4 = int(PrimitiveType.DECIMAL4)
_DECIMAL16 = int(PrimitiveType.DECIMAL16)
_STRING = int(PrimitiveType.STRING)
_SHORT_STRING = int(BasicType.SHORT_STRING)
_OBJECT = int(BasicType.OBJECT)
_ARRAY = int(BasicType.ARRAY)
_SPACE, _COLON, _ZERO, _E = 32, 58, 48, 101
_LITERALS = np.frombuffer(b"nulltruefalse", dtype=np.uint8).copy()
_LITERAL_MAX = 8
_EXPONENT_BITS = 0x7FF0  # of the highest two bytes of a double; all set where it is no number

_WITHOUT_SIGN = (1 << 63) - 1
_PLAIN_MIN = int(np.float64(1e-15).view(np.int64))
_PLAIN_MAX = int(np.float64(1e15).view(np.int64))
"""Doubles between these are printed without an exponent."""

# Fields of an object or array that is being written.
_IS_OBJECT, _FIRST, _NEXT, _END = range(4)
_STACK_FIELDS = 4

# Fields of a member.
_KEY, _KEY_SIZE, _PLACE = range(3)
_MEMBER_FIELDS = 3

# What `state` has.
_AT = 0  # the next byte of the texts
_COUNT = 1  # doubles
_LEFT = 2  # bytes of the value that nothing has been charged for
_DEPTH = 3
_STATE_FIELDS = 4


class VariantTextScratch(NamedTuple):
    """Scratch arrays of `write_variants`, for values of no more bytes than a number."""

    stack: Int64s
    members: Int64s
    digits: Bytes
    state: Int64s


def text_scratch(size: int) -> VariantTextScratch:
    """Make the scratch arrays for values of at most *size* bytes."""
    return VariantTextScratch(
        stack=np.empty((VARIANT_DEPTH_MAX, _STACK_FIELDS), dtype=np.int64),
        members=np.empty((size + 1, _MEMBER_FIELDS), dtype=np.int64),
        digits=np.empty(DIGITS_MAX, dtype=np.uint8),
        state=np.zeros(_STATE_FIELDS, dtype=np.int64),
    )


@kernel
def _word(data: Bytes, place: int, size: int) -> int:
    number = 0
    for k in range(size):
        number |= load_u8(data, place + k) << (8 * k)
    return number


@kernel
def _put_literal(kind: int, out: Bytes, at: int) -> int:
    if at + _LITERAL_MAX > out.size:
        return NO_ROOM
    first = 0 if kind == _NULL else 4 if kind == _TRUE else 8
    size = 5 if kind == _FALSE else 4
    for k in range(size):
        out[at + k] = _LITERALS[first + k]
    return at + size


@kernel
def _put_double(values: Bytes, place: int, row: int, out: Bytes, doubles: Int64s, state: Int64s) -> int:
    # Its text comes in a second step; after that, where it would be taken for a decimal, a power of ten.
    if load_u16(values, place + 6) & _EXPONENT_BITS == _EXPONENT_BITS:
        return NO_JSON
    at, count = state[_AT], state[_COUNT]
    doubles[count, DOUBLE_PLACE] = place
    doubles[count, DOUBLE_BEFORE] = at
    doubles[count, DOUBLE_DOCUMENT] = row
    state[_COUNT] = count + 1
    bits = load_i64(values, place)
    size = bits & _WITHOUT_SIGN
    if _PLAIN_MIN <= size < _PLAIN_MAX or bits == 0:
        if at + 2 > out.size:
            return GROW
        out[at], out[at + 1] = _E, _ZERO
        state[_AT] = at + 2
    return OK


@kernel
def _fixed_size(kind: int) -> int:
    # Bytes of a primitive after the first one; -1: JSON has no such type, or it is a string.
    if kind <= _FALSE:
        return 0
    if kind <= _INT64:
        return 1 << (kind - _INT8)
    if kind == _DOUBLE:
        return 8
    return 1 + (4 << (kind - _DECIMAL4)) if kind <= _DECIMAL16 else -1


@kernel
def _put_integer(values: Bytes, kind: int, place: int, out: Bytes, at: int) -> int:
    if kind == _INT8:
        number = load_u8(values, place)
        return write_signed(number - (number >> 7 << 8), out, at)
    if kind == _INT16:
        number = load_u16(values, place)
        return write_signed(number - (number >> 15 << 16), out, at)
    if kind == _INT32:
        number = load_u32(values, place)
        return write_signed(number - (number >> 31 << 32), out, at)
    return write_signed(load_i64(values, place), out, at)


@kernel
def _put_primitive(
    values: Bytes, place: int, end: int, row: int, out: Bytes, doubles: Int64s, scratch: VariantTextScratch
) -> int:
    # A value that is neither string nor object nor array, whose first byte is at *place*; a code.
    state, kind = scratch.state, load_u8(values, place) >> BASIC_BITS
    size = _fixed_size(kind)
    if size < 0:
        return NO_JSON
    place += 1
    if size > end - place:
        return BAD_DOCUMENT
    state[_LEFT] -= 1 + size
    if kind == _DOUBLE:
        return _put_double(values, place, row, out, doubles, state)
    at = state[_AT]
    if kind <= _FALSE:
        at = _put_literal(kind, out, at)
    elif kind <= _INT64:
        at = _put_integer(values, kind, place, out, at)
    else:
        scale = load_u8(values, place)
        if scale > DECIMAL_DIGITS_MAX:
            return BAD_DOCUMENT
        room = at + DECIMAL_TEXT_MAX <= out.size
        at = put_decimal(values, place + 1, size - 1, scale, scratch.digits, out, at) if room else NO_ROOM
    if at < 0:
        return GROW
    state[_AT] = at
    return OK


@kernel
def _put_string(values: Bytes, place: int, end: int, out: Bytes, state: Int64s) -> int:
    byte = load_u8(values, place)
    size, place = byte >> BASIC_BITS, place + 1
    if byte & 3 != _SHORT_STRING:
        if end - place < 4:
            return BAD_DOCUMENT
        size, place = load_u32(values, place), place + 4
    state[_LEFT] -= 1 + size
    if size > end - place or state[_LEFT] < 0:
        return BAD_DOCUMENT
    at = write_string(values, place, size, out, state[_AT])
    if at < 0:
        return GROW
    state[_AT] = at
    return OK


@kernel
def _find_key(metadata: Bytes, start: int, end: int, number: int) -> tuple[int, int]:
    # First byte and size of a key; -1: there is none.
    if end - start < 1 or metadata[start] & 15 != METADATA_VERSION:
        return -1, 0
    word = (load_u8(metadata, start) >> 6) + 1
    if end - start - 1 < word:
        return -1, 0
    count = _word(metadata, start + 1, word)
    keys = start + 1 + word * (count + 2)
    if number >= count or keys > end:
        return -1, 0
    entry = start + 1 + word * (1 + number)
    first, last = _word(metadata, entry, word), _word(metadata, entry + word, word)
    return (keys + first, last - first) if first <= last <= end - keys else (-1, 0)


@kernel
def _is_after(metadata: Bytes, place: int, size: int, other: int, other_size: int) -> bool:
    # MySQL's order of keys: shorter ones first, then by bytes.
    if size != other_size:
        return size > other_size
    for k in range(size):
        if metadata[place + k] != metadata[other + k]:
            return bool(metadata[place + k] > metadata[other + k])
    return False


@kernel
def _sort_members(metadata: Bytes, members: Int64s, first: int, end: int) -> None:
    # Shell's method: nothing is needed beside the members.
    gap = end - first
    while gap > 1:
        gap = gap // 3 + 1 if gap > 4 else gap // 2
        for index in range(first + gap, end):
            key, size, place = members[index, _KEY], members[index, _KEY_SIZE], members[index, _PLACE]
            to = index
            while to - gap >= first:
                before = members[to - gap]
                if not _is_after(metadata, before[_KEY], before[_KEY_SIZE], key, size):
                    break
                members[to, _KEY], members[to, _KEY_SIZE] = before[_KEY], before[_KEY_SIZE]
                members[to, _PLACE] = before[_PLACE]
                to -= gap
            members[to, _KEY], members[to, _KEY_SIZE], members[to, _PLACE] = key, size, place


@kernel
def _open(
    values: Bytes, place: int, end: int, metadata: Bytes, start: int, last: int, scratch: VariantTextScratch
) -> int:
    # Puts an object or array on the stack; a code.
    state, members = scratch.state, scratch.members
    depth, byte = state[_DEPTH], load_u8(values, place)
    if depth == len(scratch.stack):
        return TOO_DEEP
    is_object, header = byte & 3 == _OBJECT, byte >> BASIC_BITS
    word = (header & 3) + 1
    key_word = (header >> 2 & 3) + 1 if is_object else 0
    count_size = 4 if header >> (4 if is_object else 2) & 1 else 1
    if end - place - 1 < count_size:
        return BAD_DOCUMENT
    count = _word(values, place + 1, count_size)
    keys = place + 1 + count_size
    offsets = keys + count * key_word
    data = offsets + (count + 1) * word
    state[_LEFT] -= data - place
    if data > end or state[_LEFT] < 0:
        return BAD_DOCUMENT
    first = 0 if not depth else scratch.stack[depth - 1, _END]
    for k in range(count):
        member = members[first + k]
        member[_PLACE] = data + _word(values, offsets + k * word, word)
        if member[_PLACE] >= end:
            return BAD_DOCUMENT
        if is_object:
            key, size = _find_key(metadata, start, last, _word(values, keys + k * key_word, key_word))
            if key < 0:
                return BAD_DOCUMENT
            member[_KEY], member[_KEY_SIZE] = key, size
    if is_object:
        _sort_members(metadata, members, first, first + count)
    frame = scratch.stack[depth]
    frame[_IS_OBJECT], frame[_FIRST], frame[_NEXT], frame[_END] = is_object, first, first, first + count
    state[_DEPTH] = depth + 1
    return OK


@kernel
def _next_member(metadata: Bytes, out: Bytes, scratch: VariantTextScratch) -> tuple[int, int]:
    # What stands between two values; a code, and the place of the next value, -1: there is none.
    state = scratch.state
    at = state[_AT]
    while state[_DEPTH]:
        frame = scratch.stack[state[_DEPTH] - 1]
        if at + 2 > out.size:
            return GROW, -1
        if frame[_NEXT] < frame[_END]:
            if frame[_NEXT] > frame[_FIRST]:
                out[at], out[at + 1] = COMMA, _SPACE
                at += 2
            member = scratch.members[frame[_NEXT]]
            frame[_NEXT] += 1
            if frame[_IS_OBJECT]:
                at = write_string(metadata, member[_KEY], member[_KEY_SIZE], out, at)
                if at < 0 or at + 2 > out.size:
                    return GROW, -1
                out[at], out[at + 1] = _COLON, _SPACE
                at += 2
            state[_AT] = at
            return OK, int(member[_PLACE])
        out[at] = 125 if frame[_IS_OBJECT] else 93
        at += 1
        state[_DEPTH] -= 1
    state[_AT] = at
    return OK, -1


@kernel
def write_variants(
    metadata: Bytes,
    metadata_offsets: Int32s,
    values: Bytes,
    offsets: Int32s,
    valid: Mask,
    first: int,
    out: Bytes,
    out_offsets: Int32s,
    doubles: Int64s,
    count: int,
    scratch: VariantTextScratch,
) -> tuple[int, int, int]:
    """Write variants as text, one after the other; where a double belongs, nothing yet (`insert_doubles`).

    Args:
        valid: Whether there is a value; where not, nothing is written.
        first: The row to begin with; the ends of the texts before are known.
        doubles: What is noted of doubles; room for one of eight bytes.
        count: Doubles of the rows before.

    Returns:
        A code; the row that it is about, or the number of rows; the number of doubles.
    """
    state = scratch.state
    for row in range(first, valid.size):
        state[_AT], state[_COUNT], state[_DEPTH] = out_offsets[row], count, 0
        place, end = int(offsets[row]), int(offsets[row + 1])
        state[_LEFT] = end - place
        while valid[row] and place >= 0:
            if place >= end:
                return BAD_DOCUMENT, row, count
            basic = load_u8(values, place) & 3
            if basic == _OBJECT or basic == _ARRAY:
                keys, keys_end = int(metadata_offsets[row]), int(metadata_offsets[row + 1])
                code = _open(values, place, end, metadata, keys, keys_end, scratch)
                if code == OK and state[_AT] == out.size:
                    code = GROW
                if code == OK:
                    out[state[_AT]] = 123 if basic == _OBJECT else 91
                    state[_AT] += 1
            elif basic == _SHORT_STRING or load_u8(values, place) >> BASIC_BITS == _STRING:
                code = _put_string(values, place, end, out, state)
            else:
                code = _put_primitive(values, place, end, row, out, doubles, scratch)
            if code == OK:
                code, place = _next_member(metadata, out, scratch)
            if code != OK:
                return code, row, count
            if state[_LEFT] < 0:
                return BAD_DOCUMENT, row, count
        count = state[_COUNT]
        out_offsets[row + 1] = state[_AT]
    return OK, valid.size, int(count)
