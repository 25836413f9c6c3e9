"""Doubles in JSON texts: `insert_doubles` puts them, as the server prints them, where `json_texts` left them out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.kernels import kernel
from binlog_format.memory_kernels import copy_bytes, load_u8
from binlog_format.rows.json.json_text_kernels import DOUBLE_BEFORE, DOUBLE_DOCUMENT
from binlog_format.writing_kernels import MINUS, POINT, put_signed

if TYPE_CHECKING:
    from binlog_format.kernels import Bytes, Int32s, Int64s

_FRACTION_DIGITS_MAX = 15  # MySQL strings/dtoa.cc: MAX_DECPT_FOR_F_FORMAT
_SIGNIFICANT_DIGITS_MAX = 17
_ZERO = 48
_PLUS = 43
_EXPONENT = 101  # "e"

DIGITS_MAX = 32
"""More than a number in shortest digits has, zeros before and after them included."""

DOUBLE_TEXT_MAX = len("-0.") + _FRACTION_DIGITS_MAX + _SIGNIFICANT_DIGITS_MAX + len(".0")
"""More than the longest text of a double; `insert_doubles` wants as much room for each."""


@kernel
def _read_digits(text: Bytes, place: int, end: int, digits: Bytes) -> tuple[int, int]:
    # Digits of a number without sign, in whatever notation: how many, and how many of them come before the point.
    count = 0
    point = -1
    exponent = 0
    while place < end and count < DIGITS_MAX:
        byte = load_u8(text, place)
        place += 1
        if byte == POINT:
            point = count
        elif byte == _EXPONENT:
            break
        else:
            digits[count] = byte
            count += 1
    if point < 0:
        point = count
    negative = False
    while place < end:
        byte = load_u8(text, place)
        place += 1
        if byte == MINUS:
            negative = True
        elif byte != _PLUS:
            exponent = 10 * exponent + byte - _ZERO
    return count, point - exponent if negative else point + exponent


@kernel
def _fill(out: Bytes, at: int, byte: int, count: int) -> int:
    for k in range(count):
        out[at + k] = byte
    return at + max(count, 0)


@kernel
def _write_plain(digits: Bytes, first: int, size: int, point: int, out: Bytes, at: int) -> int:
    # "0.00123", "12.3" or "1200.0": a whole number stays recognisable as a double.
    if point <= 0:
        at = _fill(out, at, _ZERO, 1)
        at = _fill(out, at, POINT, 1)
        at = _fill(out, at, _ZERO, -point)
    for k in range(size):
        if k == point and k:
            at = _fill(out, at, POINT, 1)
        out[at] = digits[first + k]
        at += 1
    if point >= size:
        at = _fill(out, at, _ZERO, point - size)
        at = _fill(out, at, POINT, 1)
        at = _fill(out, at, _ZERO, 1)
    return at


@kernel
def _write_double(text: Bytes, start: int, end: int, digits: Bytes, out: Bytes, at: int) -> int:
    # A double in shortest digits, in whatever notation, as the server writes it; the byte after it.
    if text[start] == MINUS:
        at = _fill(out, at, MINUS, 1)
        start += 1
    count, point = _read_digits(text, start, end, digits)
    first = 0
    while first < count - 1 and digits[first] == _ZERO:
        first += 1
    while count > first + 1 and digits[count - 1] == _ZERO:
        count -= 1
    point = 1 if digits[first] == _ZERO else point - first
    size = count - first
    if -_FRACTION_DIGITS_MAX < point <= _FRACTION_DIGITS_MAX:
        return _write_plain(digits, first, size, point, out, at)
    out[at] = digits[first]
    at += 1
    if size > 1:
        at = _fill(out, at, POINT, 1)
        for k in range(1, size):
            out[at] = digits[first + k]
            at += 1
    at = _fill(out, at, _EXPONENT, 1)
    return put_signed(out, at, point - 1)


@kernel
def insert_doubles(
    source: Bytes,
    source_offsets: Int32s,
    doubles: Int64s,
    texts: Bytes,
    text_offsets: Int32s,
    digits: Bytes,
    out: Bytes,
    out_offsets: Int64s,
) -> int:
    """Put the texts of doubles to where `json_texts` has left them out.

    Args:
        source: What `json_texts` has written.
        source_offsets: Where its texts start, and the end of the last.
        doubles: What it has noted, no more.
        texts: The doubles in shortest digits, one after the other, in the notation of Arrow.
        text_offsets: Where each starts, and the end of the last.
        digits: Scratch of `DIGITS_MAX` bytes.
        out: Room for all.
        out_offsets: As *source_offsets*, for the result.

    Returns:
        The byte after the last text.
    """
    read = 0
    at = 0
    number = 0
    out_offsets[0] = 0
    for i in range(source_offsets.size - 1):
        end = int(source_offsets[i + 1])
        while number < len(doubles) and doubles[number, DOUBLE_DOCUMENT] == i:
            before = doubles[number, DOUBLE_BEFORE]
            copy_bytes(out, at, source, read, before - read)
            at += before - read
            read = before
            at = _write_double(texts, text_offsets[number], text_offsets[number + 1], digits, out, at)
            number += 1
        copy_bytes(out, at, source, read, end - read)
        at += end - read
        read = end
        out_offsets[i + 1] = at
    return at
