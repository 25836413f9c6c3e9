"""Strings and literals of variants from their JSON text, for `variant_kernels`.

A function gives the byte after what it has read, or less than 0: a code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.kernels import kernel
from binlog_format.memory_kernels import copy_bytes, load_u8
from binlog_format.rows.json.variant_layout import BASIC_BITS, SHORT_STRING_MAX, BasicType, PrimitiveType
from binlog_format.writing_kernels import BACKSLASH, QUOTE

if TYPE_CHECKING:
    from binlog_format.kernels import Bytes

BAD_TEXT = 2  # it is no JSON
HALF_PAIR = 3  # \\ud83d without the second half of its character, or the other way round

_NULL = int(PrimitiveType.NULL) << BASIC_BITS
_TRUE = int(PrimitiveType.TRUE) << BASIC_BITS
_FALSE = int(PrimitiveType.FALSE) << BASIC_BITS
_STRING = int(PrimitiveType.STRING) << BASIC_BITS
_SHORT_STRING = int(BasicType.SHORT_STRING)
_STRING_HEAD = 5
_SURROGATES, _SECOND_HALVES, _SURROGATES_END, _SUPPLEMENTARY = 0xD800, 0xDC00, 0xE000, 0x10000


@kernel
def skip_space(text: Bytes, place: int, end: int) -> int:
    """The byte after white space."""
    while place < end and (text[place] == 32 or 9 <= text[place] <= 10 or text[place] == 13):
        place += 1
    return place


@kernel
def number_size(number: int) -> int:
    """Bytes of a number without sign."""
    if number < 1 << 8:
        return 1
    if number < 1 << 16:
        return 2
    return 3 if number < 1 << 24 else 4


@kernel
def put_word(out: Bytes, at: int, number: int, size: int) -> int:
    """Put a number, its lowest byte first; the byte after it."""
    for k in range(size):
        out[at + k] = number >> (8 * k) & 255
    return at + size


@kernel
def _hex_word(text: Bytes, place: int, end: int) -> int:
    # The number of four hexadecimal digits; -1: they are not there.
    if place + 4 > end:
        return -1
    number = 0
    for k in range(place, place + 4):
        byte = load_u8(text, k)
        letter = byte | 32
        if 48 <= byte <= 57:
            number = number << 4 | (byte - 48)
        elif 97 <= letter <= 102:
            number = number << 4 | (letter - 87)
        else:
            return -1
    return number


@kernel
def _put_character(out: Bytes, at: int, code: int) -> int:
    if code < 0x80:
        out[at] = code
        return at + 1
    if code < 0x800:
        out[at] = 0xC0 | code >> 6
    elif code < 0x10000:
        out[at] = 0xE0 | code >> 12
    else:
        out[at] = 0xF0 | code >> 18
        at += 1
        out[at] = 0x80 | (code >> 12 & 63)
    at += 1
    if code >= 0x800:
        out[at] = 0x80 | (code >> 6 & 63)
        at += 1
    out[at] = 0x80 | (code & 63)
    return at + 1


@kernel
def _put_escaped(text: Bytes, place: int, end: int, out: Bytes, at: int) -> tuple[int, int]:
    # The character after a backslash at *place*: the byte after it, or less than 0: a code.
    letter = text[place] if place < end else np.uint8(0)
    place += 1
    if letter == 117:  # "u"
        code = _hex_word(text, place, end)
        place += 4
        if code < 0:
            return -BAD_TEXT, at
        if 0xD800 <= code < 0xE000:
            is_pair = place + 1 < end and text[place] == BACKSLASH and text[place + 1] == 117
            second = _hex_word(text, place + 2, end) if is_pair else 0
            if code >= 0xDC00 or not 0xDC00 <= second < 0xE000:
                return -HALF_PAIR, at
            place += 6
            code = 0x10000 + ((code - 0xD800) << 10) + second - 0xDC00
        return place, _put_character(out, at, code)
    if letter == QUOTE or letter == BACKSLASH or letter == 47:
        out[at] = letter
    elif letter == 98:
        out[at] = 8
    elif letter == 102:
        out[at] = 12
    elif letter == 110:
        out[at] = 10
    elif letter == 114:
        out[at] = 13
    elif letter == 116:
        out[at] = 9
    else:
        return -BAD_TEXT, at
    return place, at + 1


@kernel
def put_string(text: Bytes, place: int, end: int, out: Bytes, at: int) -> tuple[int, int]:
    """Put a string whose quote was before *place*, without escapes."""
    while place < end:
        byte = text[place]
        place += 1
        if byte == QUOTE:
            return place, at
        if byte < 32:
            return -BAD_TEXT, at
        if byte == BACKSLASH:
            place, at = _put_escaped(text, place, end, out, at)
            if place < 0:
                return place, at
        else:
            out[at] = byte
            at += 1
    return -BAD_TEXT, at


@kernel
def put_string_value(text: Bytes, place: int, end: int, out: Bytes, at: int) -> tuple[int, int]:
    """Put such a string as a value."""
    first = at + _STRING_HEAD
    place, last = put_string(text, place, end, out, first)
    size = last - first
    if place < 0:
        return place, at
    if size <= SHORT_STRING_MAX:
        out[at] = size << BASIC_BITS | _SHORT_STRING
        copy_bytes(out, at + 1, out, first, size)
        return place, at + 1 + size
    out[at] = _STRING
    put_word(out, at + 1, size, 4)
    return place, last


@kernel
def put_literal(text: Bytes, place: int, end: int, out: Bytes, at: int) -> tuple[int, int]:
    """Put true, false or null as a value."""
    size = end - place
    if (
        size >= 4
        and text[place] == 116
        and text[place + 1] == 114
        and text[place + 2] == 117
        and text[place + 3] == 101
    ):
        out[at] = _TRUE
        return place + 4, at + 1
    if size >= 4 and text[place] == 110 and text[place + 1] == 117 and text[place + 2] == text[place + 3] == 108:
        out[at] = _NULL
        return place + 4, at + 1
    if size >= 5 and text[place] == 102 and text[place + 1] == 97 and text[place + 2] == 108:
        out[at] = _FALSE
        if text[place + 3] == 115 and text[place + 4] == 101:
            return place + 5, at + 1
    return -BAD_TEXT, at
