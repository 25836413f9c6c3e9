"""The loops of `text` that turn other character sets into UTF-8: `write_characters`, `write_units`.

Arguments and results are as in `text_kernels`. Both need room for three bytes of UTF-8 for each byte of text
(`UTF8_GROWTH_MAX`), which no character set exceeds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.events.charsets import INVALID, LEAD_2_OR_4, LEAD_3
from binlog_format.kernels import kernel
from binlog_format.memory_kernels import copy_bytes, load_u8, load_u16, load_u64
from binlog_format.rows.values.text_kernels import TOO_LARGE, text_size

if TYPE_CHECKING:
    from binlog_format.kernels import Bytes, Int32s

UTF8_GROWTH_MAX = 3
_OFFSET_MAX = (1 << 31) - 1
_REPLACEMENT = 0xFFFD
_HIGH_BITS = np.uint64(0x8080808080808080)
_NO_BITS = np.uint64(0)
_UNICODE_MAX = 0x10FFFF
_SURROGATE_FIRST = 0xD800
_SURROGATE_LOW_FIRST = 0xDC00
_SURROGATE_LAST = 0xDFFF
_SUPPLEMENTARY = 0x10000

# GB18030: characters beyond the basic plane begin with these bytes.
_SUPPLEMENTARY_LEAD = 0x90


@kernel
def put_utf8(out: Bytes, at: int, point: int) -> int:
    """Put a code point as UTF-8; the place after it."""
    if point < 0x80:
        out[at] = point
        return at + 1
    if point < 0x800:
        out[at] = 0xC0 | point >> 6
        out[at + 1] = 0x80 | point & 0x3F
        return at + 2
    if point < _SUPPLEMENTARY:
        out[at] = 0xE0 | point >> 12
        out[at + 1] = 0x80 | point >> 6 & 0x3F
        out[at + 2] = 0x80 | point & 0x3F
        return at + 3
    out[at] = 0xF0 | point >> 18
    out[at + 1] = 0x80 | point >> 12 & 0x3F
    out[at + 2] = 0x80 | point >> 6 & 0x3F
    out[at + 3] = 0x80 | point & 0x3F
    return at + 4


@kernel
def _four_bytes(data: Bytes, place: int, end: int, quads: Int32s) -> int:
    # Code point of the GB18030 character of four bytes at `place`, or INVALID.
    if place + 4 > end:
        return INVALID
    first = load_u8(data, place) - 0x81
    second = load_u8(data, place + 1) - 0x30
    third = load_u8(data, place + 2) - 0x81
    fourth = load_u8(data, place + 3) - 0x30
    if third < 0 or third > 125 or fourth < 0 or fourth > 9:
        return INVALID
    index = ((first * 10 + second) * 126 + third) * 10 + fourth
    if index < quads.size:
        return int(quads[index])
    point = index - (_SUPPLEMENTARY_LEAD - 0x81) * 10 * 126 * 10 + _SUPPLEMENTARY
    return point if _SUPPLEMENTARY <= point <= _UNICODE_MAX else INVALID


@kernel
def _character(
    data: Bytes, place: int, end: int, singles: Int32s, pairs: Int32s, triples: Int32s, quads: Int32s
) -> tuple[int, int]:
    # Code point (or INVALID) and bytes of the character at `place`.
    first = load_u8(data, place)
    point = int(singles[first])
    if point >= INVALID:
        return point, 1
    if place + 2 > end:
        return INVALID, 1
    second = load_u8(data, place + 1)
    if point == LEAD_2_OR_4 and 0x30 <= second <= 0x39:
        return _four_bytes(data, place, end, quads), 4
    if point == LEAD_3:
        if place + 3 > end:
            return INVALID, 1
        return int(triples[second << 8 | load_u8(data, place + 2)]), 3
    return int(pairs[first << 8 | second]), 2


@kernel
def write_characters(
    data: Bytes,
    offsets: Int32s,
    prefix: int,
    singles: Int32s,
    pairs: Int32s,
    triples: Int32s,
    quads: Int32s,
    is_ascii: bool,
    replace: bool,
    out_offsets: Int32s,
    out: Bytes,
) -> int:
    """Texts in a character set with tables (`CharsetTables`) as UTF-8, one after the other.

    Bytes below 0x80 are ASCII if *is_ascii*. Bytes that are no character become U+FFFD if *replace*, and else cannot be
    read.
    """
    at = 0
    out_offsets[0] = 0
    for i in range(offsets.size):
        place = int(offsets[i])
        if place >= 0:
            size = text_size(data, place, prefix)
            if size < 0 or at + UTF8_GROWTH_MAX * size > out.size:
                return i
            place += prefix
            end = place + size
            while place < end:
                while is_ascii and place + 8 <= end and load_u64(data, place) & _HIGH_BITS == _NO_BITS:
                    copy_bytes(out, at, data, place, 8)
                    place += 8
                    at += 8
                if place == end:
                    break
                point, size = _character(data, place, end, singles, pairs, triples, quads)
                if point < 0:
                    if not replace:
                        return i
                    # What may be a character of its own stays: a quote after a lost lead byte, for example.
                    size = 2 if size == 2 and load_u8(data, place + 1) >= 0x80 else 1
                    point = _REPLACEMENT
                at = put_utf8(out, at, point)
                place += size
        if at > _OFFSET_MAX:
            return TOO_LARGE
        out_offsets[i + 1] = at
    return -1


@kernel
def _unit(data: Bytes, place: int, big: bool) -> int:
    if big:
        return load_u8(data, place) << 8 | load_u8(data, place + 1)
    return load_u16(data, place)


@kernel
def _wide_character(data: Bytes, place: int, end: int, width: int, big: bool, pairs: bool) -> tuple[int, int]:
    # Code point (or INVALID) and bytes of the character at `place`.
    if place + width > end:
        return INVALID, end - place
    if width == 4:
        point = _unit(data, place, True) << 16 | _unit(data, place + 2, True)
        bad = point > _UNICODE_MAX or _SURROGATE_FIRST <= point <= _SURROGATE_LAST
        return (INVALID if bad else point), 4
    point = _unit(data, place, big)
    if point < _SURROGATE_FIRST or point > _SURROGATE_LAST:
        return point, 2
    if not pairs or point >= _SURROGATE_LOW_FIRST or place + 4 > end:
        return INVALID, 2
    low = _unit(data, place + 2, big)
    if low < _SURROGATE_LOW_FIRST or low > _SURROGATE_LAST:
        return INVALID, 2
    return _SUPPLEMENTARY + ((point & 0x3FF) << 10 | low & 0x3FF), 4


@kernel
def write_units(
    data: Bytes,
    offsets: Int32s,
    prefix: int,
    width: int,
    big: bool,
    pairs: bool,
    replace: bool,
    out_offsets: Int32s,
    out: Bytes,
) -> int:
    """Texts in UTF-16, UCS-2 or UTF-32 as UTF-8, one after the other; else as `write_characters`.

    A unit has *width* bytes, 2 or 4, of which those of 4 are big-endian, and those of 2 if *big*; *pairs*: two units
    can be surrogates for one character.
    """
    at = 0
    out_offsets[0] = 0
    for i in range(offsets.size):
        place = int(offsets[i])
        if place >= 0:
            size = text_size(data, place, prefix)
            if size < 0 or at + UTF8_GROWTH_MAX * size > out.size:
                return i
            place += prefix
            end = place + size
            while place < end:
                point, size = _wide_character(data, place, end, width, big, pairs)
                if point < 0:
                    if not replace:
                        return i
                    point = _REPLACEMENT
                at = put_utf8(out, at, point)
                place += size
        if at > _OFFSET_MAX:
            return TOO_LARGE
        out_offsets[i + 1] = at
    return -1
