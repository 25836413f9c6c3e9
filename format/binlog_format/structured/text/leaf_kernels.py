"""Values without members as text: numbers, texts, enums, structs of the standard library: `put_number`, ...."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from binlog_format.kernels import kernel
from binlog_format.memory_kernels import load_u8, load_u16, load_u32, load_u64
from binlog_format.structured.arguments.value_kernels import find_enumerator
from binlog_format.structured.text.float_kernels import FLOAT_TEXT_MAX, put_double, put_long_double
from binlog_format.structured.text.time_kernels import put_time
from binlog_format.structured.type_layout import COUNT_SIZE, SCALAR_SIZES, SpecialStruct, TypeKind
from binlog_format.writing_kernels import MINUS, magnitude, put_bytes, put_digits, put_signed, signed

if TYPE_CHECKING:
    from binlog_format.block import Table
    from binlog_format.kernels import Bytes, Int64s, Uint64s
    from binlog_format.structured.text.time_kernels import Times, Zone

# What becomes of a value, and of a line.
OK = 0
NO_ROOM = 1
OVERFLOW = 2  # the next bytes are not there; the report has how many are needed, and how many are left
BAD_TAG = 3  # the report has the node
BAD_ENUM = 4
TOO_DEEP = 5

REPORT_SIZE = 3
REPORT_STEP = 2
"""Index in the report: the step of the line that wrote a value; where it is damaged, the third number."""

VALUE_ROOM = 2 * FLOAT_TEXT_MAX
"""More than a number takes, with what may come before and after it."""


class Types(NamedTuple):
    """The parts of a `TypeTable` that a kernel needs."""

    nodes: Table
    members: Table
    enumerators: Table
    pool: Bytes


class TextScratch(NamedTuple):
    """Space for what a value needs while it is written.

    Attributes:
        stack: `STACK_SHAPE`.
        walk: `WALK_SIZE`.
        words: `SCRATCH_WORDS`.
        report: `REPORT_SIZE`; filled when a value is damaged.
    """

    stack: Int64s
    walk: Int64s
    words: Uint64s
    report: Int64s


_BOOL = int(TypeKind.BOOL)
_CHAR = int(TypeKind.CHAR)
_INT8 = int(TypeKind.INT8)
_INT16 = int(TypeKind.INT16)
_INT32 = int(TypeKind.INT32)
_INT64 = int(TypeKind.INT64)
_UINT8 = int(TypeKind.UINT8)
_UINT16 = int(TypeKind.UINT16)
_UINT32 = int(TypeKind.UINT32)
_UINT64 = int(TypeKind.UINT64)
_FLOAT = int(TypeKind.FLOAT)
_DOUBLE = int(TypeKind.DOUBLE)
_EXTENDED = int(TypeKind.EXTENDED)

_ADDRESS = int(SpecialStruct.ADDRESS)
_TIME_POINT = int(SpecialStruct.TIME_POINT)
_NANOSECONDS = int(SpecialStruct.NANOSECONDS)
_HOURS = int(SpecialStruct.HOURS)

NUMBER_SIZES = np.array([SCALAR_SIZES.get(kind, 0) for kind in TypeKind], dtype=np.int64)
"""Sizes of numbers, by kind."""

_U0 = np.uint64(0)
_U15 = np.uint64(15)
_SIGNS = np.uint64(63)


def text_bytes(text: bytes) -> Bytes:
    """A constant that kernels put."""
    return np.frombuffer(text, dtype=np.uint8).copy()


_TRUE = text_bytes(b"true")
_FALSE = text_bytes(b"false")
_HEX_PREFIX = text_bytes(b"0x")
_HEX_DIGITS = text_bytes(b"0123456789ABCDEF")
_UNITS = text_bytes(b"nsusmss m h ")  # two characters each, from `NANOSECONDS` to `HOURS`


@kernel
def put_word(out: Bytes, at: int, word: Bytes) -> int:
    """Put a whole array; the place after it."""
    return put_bytes(out, at, word, 0, len(word))


@kernel
def _put_hex(out: Bytes, at: int, value: np.uint64) -> int:
    # Upper case, without zeros before it.
    digits = 1
    while digits < 16 and (value >> np.uint64(4 * digits)) != _U0:
        digits += 1
    for k in range(digits):
        out[at + k] = _HEX_DIGITS[np.int64((value >> np.uint64(4 * (digits - 1 - k))) & _U15)]
    return at + digits


@kernel
def _load_signed(data: Bytes, place: int, kind: int) -> int:
    # An integer of any kind; of UINT64: its bits.
    if kind == _INT32:
        number = load_u32(data, place)
        return number - ((number >> 31) << 32)
    if kind == _INT64 or kind == _UINT64:
        return signed(np.uint64(load_u64(data, place)))
    if kind == _UINT32:
        return load_u32(data, place)
    if kind == _UINT16:
        return load_u16(data, place)
    if kind == _INT16:
        number = load_u16(data, place)
        return number - ((number >> 15) << 16)
    number = load_u8(data, place)
    if kind == _UINT8:
        return number
    if kind == _BOOL:
        return 1 if number else 0
    return number - ((number >> 7) << 8)


@kernel
def _double_bits(bits: int) -> np.uint64:
    # Those of the double that is the same number as the float with these bits.
    sign = np.uint64(bits >> 31) << _SIGNS
    biased = (bits >> 23) & 0xFF
    fraction = bits & 0x7FFFFF
    if biased == 0xFF:
        biased = 0x7FF
    elif biased == 0 and fraction == 0:
        return sign
    elif biased == 0:
        biased = 897
        while not fraction & 0x800000:
            fraction <<= 1
            biased -= 1
        fraction &= 0x7FFFFF
    else:
        biased += 896
    return sign | np.uint64(biased) << np.uint64(52) | np.uint64(fraction) << np.uint64(29)


@kernel
def put_number(out: Bytes, at: int, data: Bytes, place: int, kind: int, words: Uint64s) -> int:
    """Put a number of that kind; the place after it. There is room for `VALUE_ROOM` bytes, and the number is there."""
    if kind == _DOUBLE:
        return put_double(out, at, np.uint64(load_u64(data, place)), words)
    if kind == _UINT64:
        return put_digits(out, at, np.uint64(load_u64(data, place)))
    if kind == _BOOL:
        return put_word(out, at, _TRUE if load_u8(data, place) else _FALSE)
    if kind == _CHAR:
        out[at] = load_u8(data, place)
        return at + 1
    if kind == _FLOAT:
        return put_double(out, at, _double_bits(load_u32(data, place)), words)
    if kind == _EXTENDED:
        return put_long_double(out, at, np.uint64(load_u64(data, place)), load_u16(data, place + 8), words)
    return put_signed(out, at, _load_signed(data, place, kind))


@kernel
def put_enum(out: Bytes, room: int, at: int, data: Bytes, place: int, node: int, types: Types) -> tuple[int, int]:
    """Put an enum's label, or its number: `OK` or `NO_ROOM`; the place after it."""
    kind = int(types.nodes["integer"][node])
    if _FLOAT <= kind <= _EXTENDED:
        return OK, put_word(out, at, _HEX_PREFIX)  # the library knows digits of integers alone
    value = _load_signed(data, place, kind)
    row = find_enumerator(types.enumerators, types.nodes["first"][node], types.nodes["count"][node], value)
    size = types.enumerators["label_size"][row] if row >= 0 else 0
    if size:
        if at + size > room:
            return NO_ROOM, at
        start = types.enumerators["label_start"][row]
        return OK, put_bytes(out, at, types.pool, start, start + size)
    at = put_word(out, at, _HEX_PREFIX)
    if value < 0 and kind != _UINT64:
        out[at] = MINUS
        return OK, _put_hex(out, at + 1, magnitude(value))
    return OK, _put_hex(out, at, np.uint64(value))


@kernel
def overflow(scratch: TextScratch, needed: int, left: int) -> int:
    """The code for bytes that are not there; fills the report."""
    scratch.report[0], scratch.report[1] = needed, left
    return OVERFLOW


@kernel
def put_text(
    out: Bytes, room: int, at: int, data: Bytes, place: int, end: int, scratch: TextScratch
) -> tuple[int, int, int]:
    """Put a text, its count first: `OK`, `NO_ROOM` or `OVERFLOW`; the place after it; the byte after it in *data*."""
    if end - place < COUNT_SIZE:
        return overflow(scratch, COUNT_SIZE, end - place), at, place
    size = load_u32(data, place)
    place += COUNT_SIZE
    if size > end - place:
        return overflow(scratch, size, end - place), at, place
    if at + size + VALUE_ROOM > room:
        return NO_ROOM, at, place
    return OK, put_bytes(out, at, data, place, place + size), place + size


@kernel
def put_special(
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
    """Put a struct of the standard library: `OK`, `NO_ROOM` or `OVERFLOW`; the place after it; the byte after it."""
    special = types.nodes["special"][node]
    if special > _HOURS:
        return put_text(out, room, at, data, place, end, scratch)
    member = types.members["node"][types.nodes["first"][node]]
    kind = int(types.nodes["kind"][member])
    size = NUMBER_SIZES[kind]
    if end - place < size:
        return overflow(scratch, size, end - place), at, place
    if special == _TIME_POINT:
        if at + times.size_max + VALUE_ROOM > room:
            return NO_ROOM, at, place
        ns = _load_signed(data, place, kind)
        at = put_time(out, at, times, zone, ns)
    elif special == _ADDRESS:
        at = _put_hex(out, put_word(out, at, _HEX_PREFIX), np.uint64(load_u64(data, place)))
    else:
        at = put_signed(out, at, _load_signed(data, place, kind))
        unit = 2 * (special - _NANOSECONDS)
        for k in range(2):
            if _UNITS[unit + k] != 0x20:
                out[at] = _UNITS[unit + k]
                at += 1
    return OK, at, place + size
