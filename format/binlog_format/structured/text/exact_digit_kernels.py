"""Sixteen decimal digits of any binary floating-point number, by long arithmetic: `exact_digits`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.kernels import kernel

if TYPE_CHECKING:
    from binlog_format.kernels import Uint64s

_LIMBS_MAX = 640
"""Words of 32 bits: more than 16,445, the bits of the smallest 80-bit number."""

SCRATCH_WORDS = 2 * _LIMBS_MAX
"""Size of the array in which `exact_digits` computes: a number, and its digits in groups of nine (fewer than words)."""

_GROUP = np.uint64(1_000_000_000)
_GROUP_DIGITS = 9
_TOP_DIGIT = np.uint64(100_000_000)
_DIGITS = 16
_LIMIT = np.uint64(10**_DIGITS)
_U0 = np.uint64(0)
_U1 = np.uint64(1)
_U5 = np.uint64(5)
_TEN = np.uint64(10)
_WORD_BITS = np.uint64(32)
_WORD = np.uint64(0xFFFFFFFF)


@kernel
def _place_bits(words: Uint64s, mantissa: np.uint64, shift: int) -> int:
    # mantissa << shift into words, lowest first; how many.
    count = shift // 32 + 3
    for k in range(count):
        words[k] = _U0
    bits = np.uint64(shift % 32)
    low, high = (mantissa & _WORD) << bits, (mantissa >> _WORD_BITS) << bits
    first = shift // 32
    words[first] = low & _WORD
    middle = (low >> _WORD_BITS) + (high & _WORD)
    words[first + 1] = middle & _WORD
    words[first + 2] = (high >> _WORD_BITS) + (middle >> _WORD_BITS)
    return count


@kernel
def _integer_groups(words: Uint64s, count: int) -> int:
    # Decimal groups of the number in words[:count], lowest first, from words[_LIMBS_MAX] on; how many.
    groups = 0
    while count > 0 and words[count - 1] == _U0:
        count -= 1
    while count > 0:
        rest = _U0
        for k in range(count - 1, -1, -1):
            part = (rest << _WORD_BITS) | words[k]
            words[k] = part // _GROUP
            rest = part - words[k] * _GROUP
        words[_LIMBS_MAX + groups] = rest
        groups += 1
        while count > 0 and words[count - 1] == _U0:
            count -= 1
    low, high = _LIMBS_MAX, _LIMBS_MAX + groups - 1
    while low < high:
        words[low], words[high] = words[high], words[low]
        low, high = low + 1, high - 1
    return groups


@kernel
def _fraction_groups(words: Uint64s, count: int, groups: int) -> tuple[int, bool]:
    # As many groups of the fraction in words[:count] (its point is after the highest word) as 17 digits need, after
    # the *groups* that are there; how many groups there are now, and whether something is left of the fraction.
    lowest = 0
    significant = 0
    for k in range(groups):
        significant += 1 if significant or words[_LIMBS_MAX + k] != _U0 else 0
    while lowest < count and words[lowest] == _U0:
        lowest += 1
    while significant < 3:
        carry = _U0
        for k in range(lowest, count):
            part = words[k] * _GROUP + carry
            words[k] = part & _WORD
            carry = part >> _WORD_BITS
        while lowest < count and words[lowest] == _U0:
            lowest += 1
        words[_LIMBS_MAX + groups] = carry
        groups += 1
        significant += 1 if significant or carry != _U0 else 0
    return groups, lowest < count


@kernel
def _round(words: Uint64s, groups: int, first_weight: int, is_more: bool) -> tuple[np.uint64, int]:
    # The groups' first 16 digits, rounded to nearest, ties to even.
    digits, count, exponent = _U0, 0, 0
    next_digit = _U0
    for k in range(groups):
        group = words[_LIMBS_MAX + k]
        divisor = _TOP_DIGIT
        for i in range(_GROUP_DIGITS):
            digit = group // divisor
            group -= digit * divisor
            divisor //= _TEN
            if count == 0 and digit == _U0:
                continue
            if count == 0:
                exponent = _GROUP_DIGITS * (first_weight - k) + _GROUP_DIGITS - 1 - i
            if count < _DIGITS:
                digits = digits * _TEN + digit
            elif count == _DIGITS:
                next_digit = digit
            else:
                is_more |= digit != _U0
            count += 1
    for _ in range(count, _DIGITS):
        digits *= _TEN
    if next_digit > _U5 or (next_digit == _U5 and (is_more or (digits & _U1) == _U1)):
        digits += _U1
    if digits == _LIMIT:
        return digits // _TEN, exponent + 1
    return digits, exponent


@kernel
def exact_digits(mantissa: np.uint64, exponent: int, words: Uint64s) -> tuple[np.uint64, int]:
    """The first sixteen digits of mantissa * 2**exponent, rounded to nearest, ties to even.

    Args:
        mantissa: Not 0.
        exponent: -16,445 to 16,383.
        words: Scratch of `SCRATCH_WORDS`.

    Returns:
        The digits as a number of 10**15 or more, and the power of ten of the first of them.
    """
    if exponent >= 0:
        groups = _integer_groups(words, _place_bits(words, mantissa, exponent))
        return _round(words, groups, groups - 1, False)
    bits = -exponent
    whole = mantissa >> np.uint64(bits) if bits < 64 else _U0
    groups = _integer_groups(words, _place_bits(words, whole, 0))
    weight = groups - 1
    fraction = mantissa - (whole << np.uint64(bits)) if bits < 64 else mantissa
    count = (bits + 31) // 32
    _place_bits(words, fraction, 32 * count - bits)
    # What _place_bits clears may end before the point; a number of 64 bits may not.
    for k in range((32 * count - bits) // 32 + 3, count):
        words[k] = _U0
    groups, is_more = _fraction_groups(words, count, groups)
    return _round(words, groups, weight, is_more)
