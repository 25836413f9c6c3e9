"""Floating-point numbers as C's printf writes them: `put_double` (`%.16g`), `put_long_double` (`%.16Lg`).

The digits of a double come from one multiplication by a power of ten of 128 bits. Its error is known; in the rare case
that it could decide how the sixteenth digit is rounded, and for 80-bit numbers, long arithmetic computes them:
`exact_digits`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.kernels import kernel
from binlog_format.writing_kernels import MINUS, POINT, put_digits, put_fixed

if TYPE_CHECKING:
    from binlog_format.kernels import Bytes, Uint64s


_LIMBS_MAX = 640
"""Words of 32 bits: more than 16,445, the bits of the smallest 80-bit number."""

SCRATCH_WORDS = 2 * _LIMBS_MAX
"""Size of the array in which `exact_digits` computes: a number, and its digits in groups of nine (fewer than words)."""

_GROUP = np.uint64(1_000_000_000)
_GROUP_DIGITS = 9
_TOP_DIGIT = np.uint64(100_000_000)
_U5 = np.uint64(5)


@kernel
def _place_bits(words: Uint64s, mantissa: np.uint64, shift: int) -> int:
    # mantissa << shift into words, lowest first; how many.
    count = shift // 32 + 3
    for k in range(count):
        words[k] = _U0
    bits = np.uint64(shift % 32)
    low, high = (mantissa & _HALF_WORD) << bits, (mantissa >> _HALF_WORD_BITS) << bits
    first = shift // 32
    words[first] = low & _HALF_WORD
    middle = (low >> _HALF_WORD_BITS) + (high & _HALF_WORD)
    words[first + 1] = middle & _HALF_WORD
    words[first + 2] = (high >> _HALF_WORD_BITS) + (middle >> _HALF_WORD_BITS)
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
            part = (rest << _HALF_WORD_BITS) | words[k]
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
            words[k] = part & _HALF_WORD
            carry = part >> _HALF_WORD_BITS
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


FLOAT_TEXT_MAX = 32
"""More than the longest text: `-1.234567890123457e-4932`."""

_DIGITS = 16
_ZERO = 0x30
_PLUS = 0x2B
_EXPONENT = 0x65  # "e"
_EXPONENT_MIN = -5
"""Numbers with this exponent or a smaller one are written with an exponent."""

_U0 = np.uint64(0)
_U1 = np.uint64(1)
_HALF_WORD_BITS = np.uint64(32)
_HALF_WORD = np.uint64(0xFFFFFFFF)
_WORD = np.uint64(0xFFFFFFFFFFFFFFFF)
_LIMIT = np.uint64(10**_DIGITS)
_TEN = np.uint64(10)
_SIGN = np.uint64(1 << 63)
_FRACTION = np.uint64((1 << 52) - 1)
_IMPLICIT = np.uint64(1 << 52)
_FRACTION_BITS = np.uint64(52)
_ABOVE_IMPLICIT = np.uint64(11)
_DOUBLE_EXPONENTS = np.uint64(0x7FF)
_DOUBLE_BIAS = 1075
_LONG_EXPONENTS = 0x7FFF
_LONG_BIAS = 16_446
_INF = np.frombuffer(b"inf", dtype=np.uint8).copy()
_NAN = np.frombuffer(b"nan", dtype=np.uint8).copy()


@kernel
def _multiply(a: np.uint64, b: np.uint64) -> tuple[np.uint64, np.uint64]:
    # Both words of a product, high word first.
    a0, a1 = a & _HALF_WORD, a >> _HALF_WORD_BITS
    b0, b1 = b & _HALF_WORD, b >> _HALF_WORD_BITS
    low = a0 * b0
    middle = a1 * b0 + (low >> _HALF_WORD_BITS)
    other = a0 * b1 + (middle & _HALF_WORD)
    high = a1 * b1 + (middle >> _HALF_WORD_BITS) + (other >> _HALF_WORD_BITS)
    return high, (other << _HALF_WORD_BITS) | (low & _HALF_WORD)


@kernel
def _fast_digits(mantissa: np.uint64, exponent: int) -> tuple[bool, np.uint64, int]:
    # As `exact_digits`, of mantissa * 2**exponent with the highest bit set; False: not precise enough to know.
    power = ((exponent + 63) * 78_913) >> 18  # log10(2): the power of ten of the first digit, or one less
    for _ in range(2):
        row = 15 - power - POWER_MIN
        high, middle = _multiply(mantissa, POWERS[row, 0])
        carry, _low = _multiply(mantissa, POWERS[row, 1])
        middle += carry
        if middle < carry:
            high += _U1
        # The product's highest 128 bits are less than 2 too low. Bits after the point, beyond those of the low word:
        bits = np.uint64(-(exponent + ((15 - power) * 217_706 >> 16) + 1))
        digits = high >> bits
        if digits < _LIMIT:
            break
        power += 1
    fraction = high & ((_U1 << bits) - _U1)
    half = _U1 << (bits - _U1)
    if (fraction == half and middle == _U0) or (fraction == half - _U1 and middle >= _WORD - _U1):
        return False, digits, power
    if fraction >= half:
        digits += _U1
    if digits == _LIMIT:
        return True, digits // _TEN, power + 1
    return True, digits, power


@kernel
def _put_exponent(out: Bytes, at: int, exponent: int) -> int:
    out[at] = _EXPONENT
    out[at + 1] = MINUS if exponent < 0 else _PLUS
    size = abs(exponent)
    return put_fixed(out, at + 2, size, 2) if size < 100 else put_digits(out, at + 2, np.uint64(size))


@kernel
def _put_general(out: Bytes, at: int, digits: np.uint64, power: int) -> int:
    # Sixteen digits, the first of them of that power of ten, as %g: without the zeros at the end.
    is_short = _EXPONENT_MIN < power < _DIGITS
    if is_short and power < 0:
        out[at], out[at + 1] = _ZERO, POINT
        for k in range(-power - 1):
            out[at + 2 + k] = _ZERO
        end = put_fixed(out, at + 1 - power, int(digits), _DIGITS)
    else:
        end = put_fixed(out, at + 1, int(digits), _DIGITS)
        point = at + (power if is_short else 0) + 1
        for place in range(at, point):
            out[place] = out[place + 1]
        out[point] = POINT
    while out[end - 1] == _ZERO:
        end -= 1
    if out[end - 1] == POINT:
        end -= 1
    return end if is_short else _put_exponent(out, end, power)


@kernel
def _put_word(out: Bytes, at: int, word: Bytes) -> int:
    for k in range(3):
        out[at + k] = word[k]
    return at + 3


@kernel
def put_double(out: Bytes, at: int, bits: np.uint64, words: Uint64s) -> int:
    """Put the double with these bits as `%.16g` does; the place after it.

    Args:
        out: Room for `FLOAT_TEXT_MAX` bytes.
        bits: As they are in memory.
        words: Scratch of `SCRATCH_WORDS`.
    """
    if (bits & _SIGN) != _U0:
        out[at] = MINUS
        at += 1
    biased = int(np.int64((bits >> _FRACTION_BITS) & _DOUBLE_EXPONENTS))
    mantissa = bits & _FRACTION
    if biased == 0x7FF:
        return _put_word(out, at, _INF if mantissa == _U0 else _NAN)
    if biased == 0 and mantissa == _U0:
        out[at] = _ZERO
        return at + 1
    # The highest bit is to be set.
    if biased != 0:
        mantissa = (mantissa | _IMPLICIT) << _ABOVE_IMPLICIT
        exponent = biased - _DOUBLE_BIAS - 11
    else:
        exponent = 1 - _DOUBLE_BIAS
        while (mantissa & _SIGN) == _U0:
            mantissa <<= _U1
            exponent -= 1
    is_known, digits, power = _fast_digits(mantissa, exponent)
    if not is_known:
        digits, power = exact_digits(mantissa, exponent, words)
    return _put_general(out, at, digits, power)


@kernel
def put_long_double(out: Bytes, at: int, mantissa: np.uint64, sign_exponent: int, words: Uint64s) -> int:
    """Put an 80-bit number as `%.16Lg` does; the place after it.

    Args:
        out: Room for `FLOAT_TEXT_MAX` bytes.
        mantissa: Its first 8 bytes.
        sign_exponent: Its last 2.
        words: Scratch of `SCRATCH_WORDS`.
    """
    if sign_exponent > _LONG_EXPONENTS:
        out[at] = MINUS
        at += 1
    biased = sign_exponent & _LONG_EXPONENTS
    if biased == _LONG_EXPONENTS:
        return _put_word(out, at, _INF if mantissa == _SIGN else _NAN)
    if biased != 0 and (mantissa & _SIGN) == _U0:
        return _put_word(out, at, _NAN)  # no processor makes these
    if mantissa == _U0:
        out[at] = _ZERO
        return at + 1
    digits, power = exact_digits(mantissa, max(biased, 1) - _LONG_BIAS, words)
    return _put_general(out, at, digits, power)


POWER_MIN = -300
POWER_MAX = 345
"""10**p for every p that brings a double, also the smallest, to 16 digits before the point."""


def _power(exponent: int) -> tuple[int, int]:
    # The highest 128 bits of 10**exponent, cut off, in two words.
    number = 10**exponent if exponent >= 0 else (1 << (-4 * exponent + 128)) // 10**-exponent
    shift = number.bit_length() - 128
    bits = number >> shift if shift >= 0 else number << -shift
    return bits >> 64, bits & ((1 << 64) - 1)


POWERS = np.array([_power(exponent) for exponent in range(POWER_MIN, POWER_MAX + 1)], dtype=np.uint64)
"""Shape (powers, 2): high word, low word of each; the highest bit is set, what is cut off is less than the lowest."""
