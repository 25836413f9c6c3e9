"""Texts of arguments for JSON: `put_text`. What is not UTF-8 becomes U+FFFD, as few as Unicode recommends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.kernels import kernel
from binlog_format.memory_kernels import load_u8
from binlog_format.rows.values.text_kernels import character_end, is_utf8
from binlog_format.writing_kernels import QUOTE, escaped_size, put_escaped, put_escapes

if TYPE_CHECKING:
    from binlog_format.kernels import Bytes

NO_ROOM = -1

_CHARACTER_SIZE_MAX = 4
_GROWTH_MAX = 6  # of a control character: \u001f
_QUOTES_SIZE = 2


@kernel
def put_text(out: Bytes, at: int, data: Bytes, start: int, end: int) -> int:
    """Put data[start:end] as a JSON string; the place after it, or `NO_ROOM`."""
    has_room = at + _GROWTH_MAX * (end - start) + _QUOTES_SIZE <= out.size
    if is_utf8(data, start, end, _CHARACTER_SIZE_MAX):
        if not has_room and at + escaped_size(data, start, end) > out.size:
            return NO_ROOM
        return put_escaped(out, at, data, start, end)
    return _put_replaced(out, at, data, start, end) if has_room else NO_ROOM


@kernel
def _put_replaced(out: Bytes, at: int, data: Bytes, start: int, end: int) -> int:
    out[at] = QUOTE
    at += 1
    place = start
    while place < end:
        after = place + 1 if load_u8(data, place) < 0x80 else character_end(data, place, end, _CHARACTER_SIZE_MAX)
        if after > 0:
            place = after
            continue
        at = put_escapes(out, at, data, start, place)  # what has gathered since the last replacement
        out[at], out[at + 1], out[at + 2] = 0xEF, 0xBF, 0xBD
        at += 3
        place += _invalid_size(data, place, end)
        start = place
    at = put_escapes(out, at, data, start, end)
    out[at] = QUOTE
    return at + 1


@kernel
def _invalid_size(data: Bytes, place: int, end: int) -> int:
    # Bytes at a place without a character that could begin one, at least one (Unicode 3.9, "maximal subparts").
    lead = load_u8(data, place)
    if lead < 0xE0 or lead > 0xF4 or place + 1 >= end:
        return 1
    lowest, highest = 0x80, 0xBF
    if lead == 0xE0:
        lowest = 0xA0
    elif lead == 0xED:
        highest = 0x9F
    elif lead == 0xF0:
        lowest = 0x90
    elif lead == 0xF4:
        highest = 0x8F
    second = load_u8(data, place + 1)
    if second < lowest or second > highest:
        return 1
    return 3 if lead >= 0xF0 and place + 2 < end and load_u8(data, place + 2) & 0xC0 == 0x80 else 2
