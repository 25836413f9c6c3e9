"""The loops of `text`: copy texts out of row images, check them, write those of SETs; `charset_kernels` converts texts.

A loop over images reads the values at *offsets* in *data*, below 0 for none, each after *prefix* bytes of its size.
*out_offsets* gets where each result starts in *out*, and where the last one ends. The loop returns -1, or the index of
the first value that cannot be read, or `TOO_LARGE`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.kernels import kernel
from binlog_format.memory_kernels import copy_bytes, load_u8, load_u32, load_u64
from binlog_format.rows.row_event_kernels import value_size

if TYPE_CHECKING:
    from binlog_format.kernels import Bytes, Int32s, Uint64s

TOO_LARGE = -2
_OFFSET_MAX = (1 << 31) - 1
_HIGH_BITS = np.uint64(0x8080808080808080)
_NO_BITS = np.uint64(0)
_ONE = np.uint64(1)


@kernel
def text_size(data: Bytes, place: int, prefix: int) -> int:
    """The size before a text, or -1 where the data end before the text does."""
    if place + prefix > data.size:
        return -1
    size = value_size(data, place, prefix)
    return size if place + prefix + size <= data.size else -1


@kernel
def text_offsets(data: Bytes, offsets: Int32s, prefix: int, out_offsets: Int32s) -> int:
    """Compute the start of each text when all are joined."""
    end = 0
    out_offsets[0] = 0
    for i in range(offsets.size):
        place = int(offsets[i])
        if place >= 0:
            size = text_size(data, place, prefix)
            if size < 0:
                return i
            end += size
            if end > _OFFSET_MAX:
                return TOO_LARGE
        out_offsets[i + 1] = end
    return -1


@kernel
def copy_texts(data: Bytes, offsets: Int32s, prefix: int, out_offsets: Int32s, out: Bytes) -> int:
    """Write the texts to the places of `text_offsets`."""
    for i in range(offsets.size):
        place = int(offsets[i])
        if place >= 0:
            size = int(out_offsets[i + 1]) - out_offsets[i]
            if place + prefix + size > data.size:
                return i
            copy_bytes(out, out_offsets[i], data, place + prefix, size)
    return -1


@kernel
def copy_padded(data: Bytes, offsets: Int32s, prefix: int, width: int, out_offsets: Int32s, out: Bytes) -> int:
    """Put texts of up to *width* bytes into *out*, zeros before: each takes *width*, and no value takes nothing."""
    end = 0
    out_offsets[0] = 0
    for i in range(offsets.size):
        place = int(offsets[i])
        if place >= 0:
            size = text_size(data, place, prefix)
            if size < 0 or size > width:
                return i
            copy_bytes(out, end, data, place + prefix, size)
            end += width
        out_offsets[i + 1] = end
    return -1


@kernel
def is_ascii(out: Bytes) -> bool:
    """True if no byte is above 0x7F."""
    # Four words at a time: as fast as memory gives them.
    place = 0
    while place + 32 <= out.size:
        bits = load_u64(out, place) | load_u64(out, place + 8) | load_u64(out, place + 16) | load_u64(out, place + 24)
        if bits & _HIGH_BITS != _NO_BITS:
            return False
        place += 32
    while place < out.size:
        if load_u8(out, place) > 0x7F:
            return False
        place += 1
    return True


@kernel
def character_end(out: Bytes, start: int, end: int, size_max: int) -> int:
    """The byte after the character of several bytes at *start*, or -1 where it is none (RFC 3629)."""
    lead = load_u8(out, start)
    if lead < 0xC2 or lead > 0xF4:
        return -1
    size = 2
    if lead >= 0xE0:
        size = 3
    if lead >= 0xF0:
        size = 4
    if size > size_max or start + size > end:
        return -1
    second = load_u8(out, start + 1)
    if (
        (lead == 0xE0 and second < 0xA0)  # could be shorter
        or (lead == 0xED and second > 0x9F)  # a surrogate
        or (lead == 0xF0 and second < 0x90)  # could be shorter
        or (lead == 0xF4 and second > 0x8F)  # beyond U+10FFFF
    ):
        return -1
    for k in range(1, size):
        if out[start + k] & 0xC0 != 0x80:
            return -1
    return start + size


@kernel
def is_utf8(out: Bytes, place: int, end: int, size_max: int) -> bool:
    """True if out[place:end] is UTF-8 with characters of up to *size_max* bytes."""
    while place < end:
        while place + 8 <= end and load_u64(out, place) & _HIGH_BITS == _NO_BITS:
            place += 8
        if place == end:
            return True
        # Characters of three bytes, then of two, as long as nothing about them is special.
        while place + 4 <= end:
            word = load_u32(out, place)
            if word & 0xC0C0F0 == 0x8080E0 and word & 0xF != 0 and word & 0xF != 0xD:
                place += 3
            elif word & 0xC0E0 == 0x80C0 and word & 0x1E != 0:
                place += 2
            elif word & 0x80 == 0:
                place += 1
                if word & 0x808080 == 0:
                    break
            else:
                break
        if place == end:
            return True
        if load_u8(out, place) < 0x80:
            place += 1
            continue
        place = character_end(out, place, end, size_max)
        if place < 0:
            return False
    return True


@kernel
def first_not_utf8(out_offsets: Int32s, out: Bytes, size_max: int) -> int:
    """Index of the first text that is not UTF-8 with characters of up to *size_max* bytes, or -1."""
    # All at once, which costs less where texts are short: then no text may begin inside a character.
    if is_utf8(out, int(out_offsets[0]), int(out_offsets[-1]), size_max):
        apart = True
        for i in range(out_offsets.size - 1):
            start = int(out_offsets[i])
            apart = apart and (start == out_offsets[i + 1] or load_u8(out, start) & 0xC0 != 0x80)
        if apart:
            return -1
    for i in range(out_offsets.size - 1):
        if not is_utf8(out, int(out_offsets[i]), int(out_offsets[i + 1]), size_max):
            return i
    return -1


@kernel
def set_offsets(masks: Uint64s, label_offsets: Int32s, out_offsets: Int32s) -> int:
    """Compute the place of each SET value's text: the labels of its bits, with commas between them.

    As in `set_text`, no comma follows an empty label that is the first.

    Args:
        masks: One bit for each label that is in the value, the lowest for the first.
        label_offsets: Where each label starts, and the end of the last.
        out_offsets: Gets the start of each text, and the end of the last.

    Returns:
        -1; or the index of a value with a bit that no label has; or `TOO_LARGE`.
    """
    count = label_offsets.size - 1
    end = 0
    out_offsets[0] = 0
    for i in range(masks.size):
        mask = masks[i]
        start = end
        label = 0
        while mask:
            if mask & _ONE:
                if label >= count:
                    return i
                end += int(label_offsets[label + 1]) - label_offsets[label] + (0 if end == start else 1)
            mask = mask >> _ONE
            label += 1
        if end > _OFFSET_MAX:
            return TOO_LARGE
        out_offsets[i + 1] = end
    return -1


@kernel
def write_sets(masks: Uint64s, label_offsets: Int32s, labels: Bytes, out: Bytes) -> None:
    """Write the texts that `set_offsets` has measured."""
    end = 0
    for i in range(masks.size):
        mask = masks[i]
        start = end
        label = 0
        while mask:
            if mask & _ONE:
                if end != start:
                    out[end] = 44  # ","
                    end += 1
                size = int(label_offsets[label + 1]) - label_offsets[label]
                copy_bytes(out, end, labels, label_offsets[label], size)
                end += size
            mask = mask >> _ONE
            label += 1
