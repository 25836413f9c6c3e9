"""The loops of `decimals`: packed decimal digits to 128-bit numbers, or to text where there are more than 38.

A value is split at the point, and each side into groups of nine digits from the point outwards, four bytes each; the
outermost group may be smaller. Numbers are big-endian; the highest bit of all is inverted; a negative value has all its
bits inverted.

The loops read values of *width* bytes at *offsets* in *data*, below 0 for none. *groups*, of shape (group_count, 2),
are size and scale of each group. They return the index of the first value whose digits are none, or -1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.kernels import kernel
from binlog_format.memory_kernels import load_u8

if TYPE_CHECKING:
    from binlog_format.kernels import Bytes, Int32s, Int64s, Uint64s

_SIGN = 0x80
_WORD = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)

# Columns of the table of groups: see `decimals._groups`.
GROUP_SIZE = 0
GROUP_SCALE = 1  # ten to the number of digits


@kernel
def _group(data: Bytes, place: int, size: int, flip: int) -> int:
    # A group's bytes, all bits inverted where `flip` is 0xFF.
    number = 0
    for k in range(size):
        number = number << 8 | (load_u8(data, place + k) ^ flip)
    return number


@kernel
def gather_small_decimals(data: Bytes, offsets: Int32s, width: int, groups: Int64s, out: Int64s) -> int:
    """Decimals of up to 18 digits as numbers without point; *out*, (count, 2): low and high word of 128-bit numbers."""
    for i in range(offsets.size):
        place = int(offsets[i])
        out[i, 0] = 0
        out[i, 1] = 0
        if place < 0:
            continue
        if place + width > data.size:
            return i
        flip = 0 if load_u8(data, place) & _SIGN else 0xFF
        number = 0
        sign = _SIGN
        for g in range(len(groups)):
            size = groups[g, GROUP_SIZE]
            part = _group(data, place, size, flip)
            part ^= sign << (8 * (size - 1))
            sign = 0
            if part >= groups[g, GROUP_SCALE]:
                return i
            number = number * groups[g, GROUP_SCALE] + part
            place += size
        if flip:
            number = -number
        out[i, 0] = number
        out[i, 1] = -1 if number < 0 else 0
    return -1


@kernel
def gather_decimals(data: Bytes, offsets: Int32s, width: int, groups: Int64s, out: Uint64s) -> int:
    """Like `gather_small_decimals`, for up to 38 digits; *out* holds words without sign."""
    for i in range(offsets.size):
        place = int(offsets[i])
        out[i, 0] = np.uint64(0)
        out[i, 1] = np.uint64(0)
        if place < 0:
            continue
        if place + width > data.size:
            return i
        flip = 0 if load_u8(data, place) & _SIGN else 0xFF
        low = np.uint64(0)
        high = np.uint64(0)
        sign = _SIGN
        for g in range(len(groups)):
            size = groups[g, GROUP_SIZE]
            part = _group(data, place, size, flip)
            part ^= sign << (8 * (size - 1))
            sign = 0
            if part >= groups[g, GROUP_SCALE]:
                return i
            # 128 bits times 30 bits, in halves of the low word.
            scale = np.uint64(groups[g, GROUP_SCALE])
            lowest = (low & _WORD) * scale + np.uint64(part)
            middle = (low >> _HALF) * scale + (lowest >> _HALF)
            low = (lowest & _WORD) | (middle & _WORD) << _HALF
            high = high * scale + (middle >> _HALF)
            place += size
        if flip and (low or high):
            # Two's complement; written so that nothing overflows.
            high = ~high if low else ~(high - np.uint64(1))
            if low:
                low = ~(low - np.uint64(1))
        out[i, 0] = low
        out[i, 1] = high
    return -1


@kernel
def _digits(data: Bytes, place: int, groups: Int64s, flip: int, digits: Bytes) -> int:
    # Writes all digits of a value, as ASCII; how many, or -1.
    count = 0
    sign = _SIGN
    for g in range(len(groups)):
        size = groups[g, GROUP_SIZE]
        part = _group(data, place, size, flip)
        part ^= sign << (8 * (size - 1))
        sign = 0
        scale = groups[g, GROUP_SCALE]
        if part >= scale:
            return -1
        while scale > 1:
            scale //= 10
            digits[count] = 48 + part // scale % 10
            count += 1
        place += size
    return count


@kernel
def write_decimals(
    data: Bytes, offsets: Int32s, width: int, groups: Int64s, whole: int, digits: Bytes, out_offsets: Int32s, out: Bytes
) -> int:
    """Decimals as text, as the server prints them: no leading zeros, but one before the point.

    There are *whole* digits before the point; *digits* is scratch for all those of a value; *out_offsets* gets where
    each text starts in *out*, and the last one ends; *out* has room for three bytes more than the digits of each value.
    """
    end = 0
    out_offsets[0] = 0
    for i in range(offsets.size):
        place = int(offsets[i])
        if place < 0:
            out_offsets[i + 1] = end
            continue
        if place + width > data.size:
            return i
        flip = 0 if load_u8(data, place) & _SIGN else 0xFF
        count = _digits(data, place, groups, flip, digits)
        if count < 0:
            return i
        first = 0
        while first < whole and digits[first] == 48:
            first += 1
        if flip:
            is_zero = True
            for k in range(first, count):
                is_zero = is_zero and digits[k] == 48
            if not is_zero:
                out[end] = 45  # "-"
                end += 1
        if first == whole:
            out[end] = 48
            end += 1
        for k in range(first, count):
            if k == whole:
                out[end] = 46  # "."
                end += 1
            out[end] = digits[k]
            end += 1
        out_offsets[i + 1] = end
    return -1
