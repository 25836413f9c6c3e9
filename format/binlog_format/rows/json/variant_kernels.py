"""The loop of `variants_of`: JSON texts to Parquet's Variant, `encode_variants`.

A text is read once, without recursion. The members of an object or array are written as they come; at its end the
numbers of its keys and the places of its members are put before them. Keys get their numbers in the order in which
they come, as Spark gives them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from binlog_format.kernels import kernel
from binlog_format.memory_kernels import copy_bytes, load_u8
from binlog_format.rows.json.variant_layout import (
    BASIC_BITS,
    METADATA_VERSION,
    SMALL_COUNT_MAX,
    VARIANT_DEPTH_MAX,
    VARIANT_SIZE_MAX,
    BasicType,
    PrimitiveType,
)
from binlog_format.rows.json.variant_number_kernels import IS_DOUBLE, NO_NUMBER, number_end, put_number
from binlog_format.rows.json.variant_string_kernels import (
    BAD_TEXT,
    number_size,
    put_literal,
    put_string,
    put_string_value,
    put_word,
    skip_space,
)
from binlog_format.writing_kernels import COMMA, MINUS, QUOTE

if TYPE_CHECKING:
    from binlog_format.kernels import Bytes, Int32s, Int64s, Mask

OK = 0
GROW = 1  # call again from there with more room
DUPLICATE_KEY = 4
TOO_DEEP = 5
TOO_LARGE = 6

ROOM_PER_BYTE, ROOM_MIN = 8, 64
"""More than a byte of text takes in a value or in its metadata, and than is needed beside that."""

_DOUBLE = int(PrimitiveType.DOUBLE) << BASIC_BITS
_OBJECT = int(BasicType.OBJECT)
_ARRAY = int(BasicType.ARRAY)
_DOUBLE_SIZE = 8
_HASH_MASK = 0xFFFFFFFF
_OPEN_OBJECT, _CLOSE_OBJECT, _OPEN_ARRAY, _CLOSE_ARRAY, _COLON = 123, 125, 91, 93, 58

# Fields of a double.
DOUBLE_START = 0  # of its text
DOUBLE_END = 1
DOUBLE_PLACE = 2  # of its eight bytes in the values
DOUBLE_FIELDS = 3

# Fields of an object or array that is being written.
_START, _FIRST, _DOUBLES, _IS_OBJECT = range(4)
_STACK_FIELDS = 4

# Fields of a member: the number of its key, and where it starts.
_KEY, _PLACE = range(2)

# What `state` has: all but the doubles of the document that is being read.
_AT = 0  # the next byte of the values
_MEMBERS = 1  # of all objects and arrays that are open
_KEYS = 2
_KEY_BYTES = 3
_COUNT = 4  # doubles
_DEPTH = 5
_STATE_FIELDS = 6


class EncodingScratch(NamedTuple):
    """Scratch arrays of `encode_variants`, for texts of no more bytes than a number.

    Attributes:
        members: Of objects and arrays that are open: number of the key, and place of the value.
        key_bytes: Keys of a document, one after the other.
        key_ends: Where each of them ends.
        slots: Numbers of keys by the hash of these; as many as a power of two.
        slot_owners: The row whose keys are in a slot, counted from 1.
    """

    stack: Int64s
    members: Int64s
    key_bytes: Bytes
    key_ends: Int64s
    slots: Int64s
    slot_owners: Int64s
    limbs: Int64s
    state: Int64s


def encoding_scratch(size: int, limbs: Int64s) -> EncodingScratch:
    """Make the scratch arrays for texts of at most *size* bytes."""
    # A member takes two bytes, its comma included, and a key four: "":
    slots = 1 << (size // 2 + 2).bit_length()
    return EncodingScratch(
        stack=np.empty((VARIANT_DEPTH_MAX, _STACK_FIELDS), dtype=np.int64),
        members=np.empty((size // 2 + 2, 2), dtype=np.int64),
        key_bytes=np.empty(size + 1, dtype=np.uint8),
        key_ends=np.empty(size // 4 + 2, dtype=np.int64),
        slots=np.empty(slots, dtype=np.int64),
        slot_owners=np.zeros(slots, dtype=np.int64),
        limbs=limbs,
        state=np.zeros(_STATE_FIELDS, dtype=np.int64),
    )


@kernel
def _number(
    text: Bytes, place: int, end: int, out: Bytes, at: int, doubles: Int64s, scratch: EncodingScratch
) -> tuple[int, int]:
    # A number as a value; of a double the eight bytes come later.
    last, scale, has_exponent = number_end(text, place, end)
    if last == NO_NUMBER:
        return -BAD_TEXT, at
    after = IS_DOUBLE if has_exponent else put_number(text, place, last, scale, scratch.limbs, out, at)
    if after != IS_DOUBLE:
        return last, after
    count = scratch.state[_COUNT]
    doubles[count, DOUBLE_START] = place
    doubles[count, DOUBLE_END] = last
    doubles[count, DOUBLE_PLACE] = at + 1
    scratch.state[_COUNT] = count + 1
    out[at] = _DOUBLE
    return last, at + 1 + _DOUBLE_SIZE


@kernel
def _key_number(scratch: EncodingScratch, start: int, end: int, row: int) -> int:
    # The number of the key whose bytes are the last of the keys.
    keys, slots, owners = scratch.key_bytes, scratch.slots, scratch.slot_owners
    code = 2166136261
    for k in range(start, end):
        code = (code ^ load_u8(keys, k)) * 16777619 & _HASH_MASK
    slot = (code ^ code >> 15) & (slots.size - 1)
    size = end - start
    while owners[slot] == row + 1:
        number = slots[slot]
        first = scratch.key_ends[number - 1] if number else 0
        if scratch.key_ends[number] - first == size:
            same = 0
            while same < size and keys[first + same] == keys[start + same]:
                same += 1
            if same == size:
                return int(number)
        slot = (slot + 1) & (slots.size - 1)
    number = scratch.state[_KEYS]
    owners[slot] = row + 1
    slots[slot] = number
    scratch.key_ends[number] = end
    scratch.state[_KEYS] = number + 1
    scratch.state[_KEY_BYTES] = end
    return int(number)


@kernel
def _member(text: Bytes, place: int, end: int, row: int, scratch: EncodingScratch) -> int:
    # What comes before a member's value: the first byte of that, or less than 0: a code.
    state = scratch.state
    count = state[_MEMBERS]
    scratch.members[count, _PLACE] = state[_AT]
    state[_MEMBERS] = count + 1
    if not scratch.stack[state[_DEPTH] - 1, _IS_OBJECT]:
        return place
    place = skip_space(text, place, end)
    if place == end or text[place] != QUOTE:
        return -BAD_TEXT
    start = state[_KEY_BYTES]
    place, last = put_string(text, place + 1, end, scratch.key_bytes, start)
    if place < 0:
        return place
    scratch.members[count, _KEY] = _key_number(scratch, start, last, row)
    place = skip_space(text, place, end)
    return place + 1 if place < end and text[place] == _COLON else -BAD_TEXT


@kernel
def _key_order(scratch: EncodingScratch, one: int, other: int) -> int:
    # Below 0: the key *one* comes before *other*, by their bytes.
    ends, keys = scratch.key_ends, scratch.key_bytes
    start, start_other = ends[one - 1] if one else 0, ends[other - 1] if other else 0
    size, size_other = ends[one] - start, ends[other] - start_other
    for k in range(min(size, size_other)):
        if keys[start + k] != keys[start_other + k]:
            return load_u8(keys, start + k) - load_u8(keys, start_other + k)
    return int(size - size_other)


@kernel
def _sort_members(scratch: EncodingScratch, first: int, end: int) -> bool:
    # By their keys; False: two have the same one. (Shell's method: nothing is needed beside the members.)
    members = scratch.members
    gap = end - first
    while gap > 1:
        gap = gap // 3 + 1 if gap > 4 else gap // 2
        for index in range(first + gap, end):
            key, place = members[index, _KEY], members[index, _PLACE]
            to = index
            while to - gap >= first and _key_order(scratch, members[to - gap, _KEY], key) > 0:
                members[to, _KEY], members[to, _PLACE] = members[to - gap, _KEY], members[to - gap, _PLACE]
                to -= gap
            members[to, _KEY], members[to, _PLACE] = key, place
    for index in range(first + 1, end):
        if members[index, _KEY] == members[index - 1, _KEY]:
            return False
    return True


@kernel
def _close(out: Bytes, doubles: Int64s, scratch: EncodingScratch) -> int:
    # The end of the innermost object or array: what comes before its members is put there; a code.
    state, members = scratch.state, scratch.members
    frame = scratch.stack[state[_DEPTH] - 1]
    start, first, is_object = frame[_START], frame[_FIRST], frame[_IS_OBJECT]
    end, size = state[_MEMBERS], state[_AT] - start
    if is_object and not _sort_members(scratch, first, end):
        return DUPLICATE_KEY
    count, key_max = end - first, 0
    for index in range(first, end if is_object else first):
        key_max = max(key_max, members[index, _KEY])
    is_large = count > SMALL_COUNT_MAX
    word, key_word = number_size(size), number_size(key_max)
    head = 1 + (4 if is_large else 1) + (count * key_word if is_object else 0) + (count + 1) * word
    copy_bytes(out, start + head, out, start, size)
    for index in range(frame[_DOUBLES], state[_COUNT]):
        doubles[index, DOUBLE_PLACE] += head
    if is_object:
        out[start] = (is_large << 4 | (key_word - 1) << 2 | (word - 1)) << BASIC_BITS | _OBJECT
    else:
        out[start] = (is_large << 2 | (word - 1)) << BASIC_BITS | _ARRAY
    at = put_word(out, start + 1, count, 4 if is_large else 1)
    for index in range(first, end if is_object else first):
        at = put_word(out, at, members[index, _KEY], key_word)
    for index in range(first, end):
        at = put_word(out, at, members[index, _PLACE] - start, word)
    put_word(out, at, size, word)
    state[_AT] += head
    state[_MEMBERS] = first
    state[_DEPTH] -= 1
    return OK


@kernel
def _open(is_object: bool, scratch: EncodingScratch) -> int:
    state = scratch.state
    if state[_DEPTH] == VARIANT_DEPTH_MAX:
        return TOO_DEEP
    frame = scratch.stack[state[_DEPTH]]
    frame[_START], frame[_FIRST] = state[_AT], state[_MEMBERS]
    frame[_DOUBLES], frame[_IS_OBJECT] = state[_COUNT], is_object
    state[_DEPTH] += 1
    return OK


@kernel
def _after_value(
    text: Bytes, place: int, end: int, row: int, out: Bytes, doubles: Int64s, scratch: EncodingScratch
) -> int:
    # Ends of objects and arrays, and what comes before the next value: its first byte, the end, or less than 0: a code.
    state = scratch.state
    while True:
        place = skip_space(text, place, end)
        if not state[_DEPTH]:
            return place if place == end else -BAD_TEXT
        if place == end:
            return -BAD_TEXT
        is_object = scratch.stack[state[_DEPTH] - 1, _IS_OBJECT]
        byte = text[place]
        if byte == COMMA:
            return _member(text, place + 1, end, row, scratch)
        if byte != (_CLOSE_OBJECT if is_object else _CLOSE_ARRAY):
            return -BAD_TEXT
        code = _close(out, doubles, scratch)
        if code != OK:
            return -code
        place += 1


@kernel
def _document(
    text: Bytes, place: int, end: int, row: int, out: Bytes, doubles: Int64s, scratch: EncodingScratch
) -> int:
    # One text as a value; a code.
    state = scratch.state
    state[_MEMBERS] = state[_KEYS] = state[_KEY_BYTES] = state[_DEPTH] = 0
    while True:
        place = skip_space(text, place, end)
        if place == end:
            return BAD_TEXT
        byte = load_u8(text, place)
        at = state[_AT]
        if byte == _OPEN_OBJECT or byte == _OPEN_ARRAY:
            code = _open(byte == _OPEN_OBJECT, scratch)
            if code != OK:
                return code
            place = skip_space(text, place + 1, end)
            if place == end or text[place] != byte + 2:  # what closes it
                place = _member(text, place, end, row, scratch)
                if place < 0:
                    return -place
                continue
        else:
            if byte == QUOTE:
                place, at = put_string_value(text, place + 1, end, out, at)
            elif byte == MINUS or 48 <= byte <= 57:
                place, at = _number(text, place, end, out, at, doubles, scratch)
            else:
                place, at = put_literal(text, place, end, out, at)
            if place < 0:
                return -place
            state[_AT] = at
        place = _after_value(text, place, end, row, out, doubles, scratch)
        if place < 0:
            return -place
        if not state[_DEPTH]:
            return OK


@kernel
def _put_metadata(scratch: EncodingScratch, out: Bytes, at: int) -> int:
    keys, size = scratch.state[_KEYS], scratch.state[_KEY_BYTES]
    word = number_size(max(keys, size))
    out[at] = METADATA_VERSION | (word - 1) << 6
    at = put_word(out, at + 1, keys, word)
    at = put_word(out, at, 0, word)
    for number in range(keys):
        at = put_word(out, at, scratch.key_ends[number], word)
    copy_bytes(out, at, scratch.key_bytes, 0, size)
    return int(at + size)


@kernel
def encode_variants(
    text: Bytes,
    offsets: Int32s,
    valid: Mask,
    first: int,
    values: Bytes,
    value_ends: Int32s,
    metadata: Bytes,
    metadata_ends: Int32s,
    doubles: Int64s,
    scratch: EncodingScratch,
) -> tuple[int, int, int]:
    """Write texts as variants, one after the other, without the eight bytes of each double.

    Args:
        text: What the offsets point into.
        offsets: Where each text starts, and the end of the last.
        valid: Whether there is a text; where not, nothing is written.
        first: The row to begin with; the ends of those before are known.
        value_ends: Where each value starts, and the end of the last; *metadata_ends* likewise.
        doubles: What is noted of doubles; room for one of three bytes of text.

    Returns:
        A code; the row that it is about, or the number of rows; the number of doubles.
    """
    state = scratch.state
    state[_AT] = value_ends[first]
    end = int(metadata_ends[first])
    for row in range(first, valid.size):
        if valid[row]:
            size = offsets[row + 1] - offsets[row]
            room = ROOM_PER_BYTE * size + ROOM_MIN
            if size > ROOM_PER_BYTE * VARIANT_SIZE_MAX:
                return TOO_LARGE, row, int(state[_COUNT])
            if room > values.size - state[_AT] or room > metadata.size - end:
                return GROW, row, int(state[_COUNT])
            code = _document(text, offsets[row], offsets[row + 1], row, values, doubles, scratch)
            if code != OK:
                return code, row, int(state[_COUNT])
            start, end = end, _put_metadata(scratch, metadata, end)
            if max(end - start, state[_AT] - value_ends[row]) > VARIANT_SIZE_MAX:
                return TOO_LARGE, row, int(state[_COUNT])
        value_ends[row + 1] = state[_AT]
        metadata_ends[row + 1] = end
    return OK, valid.size, int(state[_COUNT])


@kernel
def put_doubles(values: Bytes, doubles: Int64s, count: int, bits: Bytes) -> None:
    """Put doubles to where `encode_variants` left room for them."""
    for index in range(count):
        copy_bytes(values, doubles[index, DOUBLE_PLACE], bits, _DOUBLE_SIZE * index, _DOUBLE_SIZE)
