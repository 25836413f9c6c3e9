"""Values as text, for kernels: whole numbers, dates, decimals, JSON strings, base64, hexadecimal digits.

A `put_...` writes one value and gives the place after it. None checks for room: the kernel that calls it has computed
the sizes (`digit_count`, `escaped_size`, `base64_size`) or compared a bound with what is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.kernels import kernel
from binlog_format.memory_kernels import copy_bytes, load_u64

if TYPE_CHECKING:
    from binlog_format.kernels import Bytes, Int64s

QUOTE = 0x22
COMMA = 0x2C
MINUS = 0x2D
POINT = 0x2E
BACKSLASH = 0x5C
_SPACE = 0x20
_PADDING = 0x3D  # "="

# In each of eight bytes:
_HIGH_BITS = np.uint64(0x8080808080808080)
_LOW_BITS = np.uint64(0x7F7F7F7F7F7F7F7F)
_TO_SPACE = np.uint64(0x6060606060606060)  # 0x80 - 0x20
_QUOTES = np.uint64(0x2222222222222222)
_BACKSLASHES = np.uint64(0x5C5C5C5C5C5C5C5C)

_ZERO = np.uint64(0x30)
_TEN = np.uint64(10)
U0 = np.uint64(0)
_U1 = np.uint64(1)
_U32 = np.uint64(32)
_LOW_WORD = np.uint64(0xFFFFFFFF)
SIGN_BIT = np.uint64(1 << 63)
_BILLION = np.uint64(1_000_000_000)
_U100 = np.uint64(100)
_PAIRS = np.frombuffer(b"".join(b"%02d" % number for number in range(100)), dtype=np.uint8).copy()
"""Both digits of every number below 100: digits are written two at a time, each step waits for the one before."""
_HEX = np.frombuffer(b"0123456789abcdef", dtype=np.uint8).copy()

_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
BASE64 = np.frombuffer(_LETTERS + b"+/", dtype=np.uint8).copy()
"""RFC 4648 section 4."""
BASE64_URL = np.frombuffer(_LETTERS + b"-_", dtype=np.uint8).copy()
"""RFC 4648 section 5: fit for URLs and names of files."""


def _short_escapes() -> Bytes:
    # RFC 8259 section 7: the letter after the backslash; 0 where a control character needs \u00XX.
    table = np.zeros(256, dtype=np.uint8)
    for byte, letter in ((8, "b"), (9, "t"), (10, "n"), (12, "f"), (13, "r"), (QUOTE, '"'), (BACKSLASH, "\\")):
        table[byte] = ord(letter)
    return table


def _extra_bytes() -> Int64s:
    # How many bytes more than itself a byte takes in a JSON string.
    table = np.zeros(256, dtype=np.int64)
    table[:_SPACE] = 5
    table[_short_escapes() != 0] = 1
    return table


_SHORT = _short_escapes()
_EXTRA = _extra_bytes()


@kernel
def magnitude(value: int) -> np.uint64:
    """The value without its sign; also of the lowest int64."""
    if value < 0:
        return np.uint64(-(value + 1)) + _U1
    return np.uint64(value)


@kernel
def signed(bits: np.uint64) -> int:
    """The number whose 64 bits these are, in two's complement."""
    return int(np.uint64(bits).view(np.int64))


@kernel
def bits_of(number: int) -> np.uint64:
    """The 64 bits of a number, in two's complement."""
    bits: np.uint64 = np.int64(number).view(np.uint64)
    return bits


@kernel
def digit_count(value: np.uint64) -> int:
    """Number of a number's decimal digits."""
    count = 1
    while value >= _U100:
        value //= _U100
        count += 2
    return count + 1 if value >= _TEN else count


@kernel
def put_digits(out: Bytes, at: int, value: np.uint64) -> int:
    """Put a number in decimal; the place after it."""
    end = at + digit_count(value)
    place = end
    while value >= _U100:
        rest = value // _U100
        pair = np.int64(value - rest * _U100) * 2
        place -= 2
        out[place], out[place + 1] = _PAIRS[pair], _PAIRS[pair + 1]
        value = rest
    if value >= _TEN:
        pair = np.int64(value) * 2
        out[place - 2], out[place - 1] = _PAIRS[pair], _PAIRS[pair + 1]
    else:
        out[place - 1] = np.uint8(_ZERO + value)
    return end


@kernel
def put_fixed(out: Bytes, at: int, value: int, width: int) -> int:
    """Put a number without sign, with leading zeros; the place after it."""
    number = np.uint64(value)
    place = at + width
    while place >= at + 2:
        rest = number // _U100
        pair = np.int64(number - rest * _U100) * 2
        place -= 2
        out[place], out[place + 1] = _PAIRS[pair], _PAIRS[pair + 1]
        number = rest
    if place > at:
        out[at] = np.uint8(_ZERO + number % _TEN)
    return at + width


@kernel
def put_bytes(out: Bytes, at: int, data: Bytes, start: int, end: int) -> int:
    """Copy data[start:end]; the place after it."""
    size = end - start
    copy_bytes(out, at, data, start, size)
    return at + size


@kernel
def put_null(out: Bytes, at: int) -> int:
    """Put `null`; the place after it."""
    out[at], out[at + 1], out[at + 2], out[at + 3] = 0x6E, 0x75, 0x6C, 0x6C
    return at + 4


@kernel
def put_escaped(out: Bytes, at: int, data: Bytes, start: int, end: int) -> int:
    """Put a text as a JSON string; the place after it."""
    out[at] = QUOTE
    at = put_escapes(out, at + 1, data, start, end)
    out[at] = QUOTE
    return at + 1


@kernel
def put_escapes(out: Bytes, at: int, data: Bytes, start: int, end: int) -> int:
    """Put a text as it is inside a JSON string; the place after it."""
    for place in range(start, end):
        byte = data[place]
        if _EXTRA[byte] == 0:
            continue
        at = put_bytes(out, at, data, start, place)  # what has gathered since the last escape
        start = place + 1
        if _SHORT[byte] != 0:
            out[at], out[at + 1] = BACKSLASH, _SHORT[byte]
            at += 2
        else:
            out[at], out[at + 1], out[at + 2], out[at + 3] = BACKSLASH, 0x75, 0x30, 0x30
            put_hex(out, at + 4, data, place, place + 1)
            at += 6
    return put_bytes(out, at, data, start, end)


@kernel
def decimal_digits(low: np.uint64, high: np.uint64, digits: Bytes) -> int:
    """Fill *digits* (45 bytes) with a 128-bit number's digits, lowest first, no sign; their count, at least 1."""
    # Long division by 10**9 in 32-bit limbs.
    if (high & SIGN_BIT) != U0:
        if low == U0:
            high = ~high + _U1
        else:
            low = ~low + _U1
            high = ~high
    limb3, limb2 = high >> _U32, high & _LOW_WORD
    limb1, limb0 = low >> _U32, low & _LOW_WORD
    count = 0
    while True:
        rest = limb3 % _BILLION
        limb3 //= _BILLION
        part = (rest << _U32) | limb2
        limb2, rest = part // _BILLION, part % _BILLION
        part = (rest << _U32) | limb1
        limb1, rest = part // _BILLION, part % _BILLION
        part = (rest << _U32) | limb0
        limb0, rest = part // _BILLION, part % _BILLION
        done = (limb3 | limb2 | limb1 | limb0) == U0
        for _ in range(9):
            digits[count] = np.uint8(_ZERO + rest % _TEN)
            rest //= _TEN
            count += 1
            if done and rest == U0:
                return count


@kernel
def calendar_date(days: int) -> tuple[int, int, int]:
    """Year, month and day of days since 1970-01-01, in the Gregorian calendar at all times."""
    # H. Hinnant, "chrono-compatible low-level date algorithms", civil_from_days.
    shifted = days + 719_468
    era = shifted // 146_097
    day_of_era = shifted - era * 146_097
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_part = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month_part + 2) // 5 + 1
    month = month_part + 3 if month_part < 10 else month_part - 9
    return year_of_era + era * 400 + (1 if month <= 2 else 0), month, day


@kernel
def put_date(out: Bytes, at: int, days: int) -> int:
    """Put days since 1970-01-01 as `YYYY-MM-DD`; the place after it."""
    year, month, day = calendar_date(days)
    at = put_fixed(out, at, year, 4)
    out[at] = 0x2D
    at = put_fixed(out, at + 1, month, 2)
    out[at] = 0x2D
    return put_fixed(out, at + 1, day, 2)


@kernel
def any_escape(data: Bytes, start: int, end: int) -> bool:
    """True if a byte of data[start:end] must be escaped in a JSON string."""
    if start < 0 or end > data.size:
        return True
    plain = _HIGH_BITS
    place = start
    while place + 8 <= end:
        # Eight bytes at once: the highest bit of each is set where it can stand as it is. No sum carries.
        word = load_u64(data, place)
        quotes = word ^ _QUOTES
        backslashes = word ^ _BACKSLASHES
        plain &= ((word & _LOW_BITS) + _TO_SPACE) | word
        plain &= ((quotes & _LOW_BITS) + _LOW_BITS) | quotes
        plain &= ((backslashes & _LOW_BITS) + _LOW_BITS) | backslashes
        place += 8
    if plain != _HIGH_BITS:
        return True
    while place < end:
        byte = data[place]
        if byte < _SPACE or byte == QUOTE or byte == BACKSLASH:
            return True
        place += 1
    return False


@kernel
def put_signed(out: Bytes, at: int, value: int) -> int:
    """Put a number in decimal, with its sign when that is a minus; the place after it."""
    if value < 0:
        out[at] = MINUS
        at += 1
    return put_digits(out, at, magnitude(value))


@kernel
def escaped_size(data: Bytes, start: int, end: int) -> int:
    """Bytes of data[start:end] as a JSON string, quotes included."""
    size = end - start + 2
    for place in range(start, end):
        size += _EXTRA[data[place]]
    return size


@kernel
def base64_size(size: int) -> int:
    """Characters of that many bytes, padding included."""
    return (size + 2) // 3 * 4


@kernel
def put_base64(out: Bytes, at: int, data: Bytes, start: int, end: int, letters: Bytes) -> int:
    """Put data[start:end] in *letters* (`BASE64`, `BASE64_URL`), padded, without quotes; the place after it."""
    while start < end:
        left = end - start
        bits = np.int64(data[start]) << 16
        bits |= (np.int64(data[start + 1]) << 8) if left > 1 else 0
        bits |= np.int64(data[start + 2]) if left > 2 else 0
        out[at] = letters[bits >> 18]
        out[at + 1] = letters[(bits >> 12) & 63]
        out[at + 2] = letters[(bits >> 6) & 63] if left > 1 else _PADDING
        out[at + 3] = letters[bits & 63] if left > 2 else _PADDING
        at += 4
        start += 3
    return at


@kernel
def put_hex(out: Bytes, at: int, data: Bytes, start: int, end: int) -> int:
    """Put data[start:end], two lower-case digits for each byte; the place after it."""
    for place in range(start, end):
        byte = data[place]
        out[at], out[at + 1] = _HEX[byte >> 4], _HEX[byte & 15]
        at += 2
    return at
