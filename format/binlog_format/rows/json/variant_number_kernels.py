"""Numbers of variants: `put_number` from their JSON text, `put_decimal` to it.

A whole number is the smallest integer that holds it; one with a fraction, or with up to 38 digits, a decimal with the
scale that is written; any other one a double. The negative zero of decimals does not exist: it is a double, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.kernels import kernel
from binlog_format.memory_kernels import load_u8, load_u32, load_u64
from binlog_format.rows.json.variant_layout import BASIC_BITS, DECIMAL_DIGITS_MAX, PrimitiveType
from binlog_format.writing_kernels import MINUS, POINT, U0, bits_of, decimal_digits

if TYPE_CHECKING:
    from binlog_format.kernels import Bytes, Int64s

NO_NUMBER = -1
IS_DOUBLE = -2

LIMBS = 4
"""Parts of 32 bits, the lowest first, in which the 128 bits of a decimal are."""

_INT8 = int(PrimitiveType.INT8) << BASIC_BITS
_INT16 = int(PrimitiveType.INT16) << BASIC_BITS
_INT32 = int(PrimitiveType.INT32) << BASIC_BITS
_INT64 = int(PrimitiveType.INT64) << BASIC_BITS
_DECIMAL4 = int(PrimitiveType.DECIMAL4) << BASIC_BITS
_DECIMAL8 = int(PrimitiveType.DECIMAL8) << BASIC_BITS
_DECIMAL16 = int(PrimitiveType.DECIMAL16) << BASIC_BITS
DIGITS_MAX = 45
"""Scratch for the digits of a decimal."""

DECIMAL_TEXT_MAX = DIGITS_MAX + len("-.")
"""More than the longest text of a decimal."""

_LIMB = 0xFFFFFFFF
_SIGN = 1 << 31
_ZERO, _NINE, _PLUS, _E = 48, 57, 43, 101
_DIGITS4, _DIGITS8 = 9, 18


@kernel
def _skip_digits(text: Bytes, place: int, end: int) -> int:
    while place < end and _ZERO <= text[place] <= _NINE:
        place += 1
    return place


@kernel
def number_end(text: Bytes, place: int, end: int) -> tuple[int, int, bool]:
    """Find the end of a number; `NO_NUMBER` there: it is none.

    Returns:
        The byte after it; digits after its point; whether it has an exponent.
    """
    if place < end and text[place] == MINUS:
        place += 1
    first = place
    place = _skip_digits(text, place, end)
    if place == first or (place > first + 1 and text[first] == _ZERO):
        return NO_NUMBER, 0, False
    scale = 0
    if place < end and text[place] == POINT:
        first = place + 1
        place = _skip_digits(text, first, end)
        scale = place - first
        if not scale:
            return NO_NUMBER, 0, False
    if place == end or text[place] | 32 != _E:
        return place, scale, False
    place += 1
    if place < end and (text[place] == _PLUS or text[place] == MINUS):
        place += 1
    first = place
    place = _skip_digits(text, place, end)
    return place if place > first else NO_NUMBER, scale, True


@kernel
def _read_limbs(text: Bytes, place: int, end: int, limbs: Int64s) -> int:
    # The digits without sign and point; how many there are without zeros before them. More than 38 are not read.
    for k in range(LIMBS):
        limbs[k] = 0
    digits = 0
    while place < end and digits <= DECIMAL_DIGITS_MAX:
        byte = load_u8(text, place)
        place += 1
        if byte == MINUS or byte == POINT or (byte == _ZERO and not digits):
            continue
        digits += 1
        carry = byte - _ZERO
        for k in range(LIMBS):
            carry += limbs[k] * 10
            limbs[k] = carry & _LIMB
            carry >>= 32
    return digits


@kernel
def _negate(limbs: Int64s) -> None:
    carry = 1
    for k in range(LIMBS):
        carry += limbs[k] ^ _LIMB
        limbs[k] = carry & _LIMB
        carry >>= 32


@kernel
def _put_limbs(limbs: Int64s, size: int, out: Bytes, at: int) -> int:
    for k in range(size):
        out[at + k] = limbs[k >> 2] >> (8 * (k & 3)) & 255
    return at + size


@kernel
def _integer_size(limbs: Int64s) -> int:
    # Bytes of the smallest integer that holds 128 bits; 0: none does.
    above = limbs[3] == limbs[2] == (_LIMB if limbs[1] & _SIGN else 0)
    if not above:
        return 0
    low = limbs[0] - ((limbs[0] & _SIGN) << 1)
    if limbs[1] != (_LIMB if low < 0 else 0):
        return 8
    if -(1 << 7) <= low < 1 << 7:
        return 1
    return 2 if -(1 << 15) <= low < 1 << 15 else 4


@kernel
def put_number(text: Bytes, place: int, end: int, scale: int, limbs: Int64s, out: Bytes, at: int) -> int:
    """Write a number without an exponent; `IS_DOUBLE`: it is a double, and nothing is written.

    Args:
        scale: Digits after its point.
        limbs: Scratch of `LIMBS`.

    Returns:
        The byte after it.
    """
    digits = _read_limbs(text, place, end, limbs)
    is_negative = text[place] == MINUS
    if digits > DECIMAL_DIGITS_MAX or scale > DECIMAL_DIGITS_MAX or (is_negative and scale and not digits):
        return IS_DOUBLE
    if is_negative:
        _negate(limbs)
    size = 0 if scale else _integer_size(limbs)
    if size:
        out[at] = _INT8 if size == 1 else _INT16 if size == 2 else _INT32 if size == 4 else _INT64
        return _put_limbs(limbs, size, out, at + 1)
    size = 16
    out[at] = _DECIMAL16
    if scale <= _DIGITS4 and digits <= _DIGITS4:
        out[at] = _DECIMAL4
        size = 4
    elif scale <= _DIGITS8 and digits <= _DIGITS8:
        out[at] = _DECIMAL8
        size = 8
    out[at + 1] = scale
    return _put_limbs(limbs, size, out, at + 2)


@kernel
def put_decimal(data: Bytes, place: int, size: int, scale: int, digits: Bytes, out: Bytes, at: int) -> int:
    """Write the number of *size* bytes, the last *scale* digits after a point; at most `DECIMAL_TEXT_MAX` bytes.

    Args:
        digits: Scratch of `DIGITS_MAX`.

    Returns:
        The byte after it.
    """
    is_negative = load_u8(data, place + size - 1) >> 7 != 0
    high = ~U0 if is_negative else U0
    if size == 4:
        number = load_u32(data, place)
        low = bits_of(number - ((number & _SIGN) << 1))
    else:
        low = np.uint64(load_u64(data, place))
    if size == 16:
        high = np.uint64(load_u64(data, place + 8))
    count = decimal_digits(low, high, digits)
    while count <= scale:
        digits[count] = _ZERO
        count += 1
    if is_negative:
        out[at] = MINUS
        at += 1
    for k in range(count - 1, -1, -1):
        out[at] = digits[k]
        at += 1
        if k == scale and k:
            out[at] = POINT
            at += 1
    return at
