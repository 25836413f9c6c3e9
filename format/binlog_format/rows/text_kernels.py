"""The loops behind `text`: copy texts out of row images, check them, and turn latin1 into UTF-8."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.kernels import kernel
from binlog_format.memory_kernels import copy_bytes, load_u8
from binlog_format.rows.row_event_kernels import value_size

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from binlog_format.kernels import Bytes

    Int32s = NDArray[np.int32]
    Int64s = NDArray[np.int64]

TOO_LARGE = -2
_OFFSET_MAX = (1 << 31) - 1


@kernel
def _text_size(data: Bytes, place: int, prefix: int) -> int:
    # The size before a text, or -1 where the data end before the text does.
    if place + prefix > data.size:
        return -1
    size = value_size(data, place, prefix)
    return size if place + prefix + size <= data.size else -1


@kernel
def text_offsets(data: Bytes, offsets: Int32s, prefix: int, out_offsets: Int32s) -> int:
    """Where each text goes when all are put one after the other.

    Args:
        data: What the offsets point into.
        offsets: Below 0 for no value.
        prefix: Bytes of the size before each text.
        out_offsets: Gets the start of each text, and the end of the last.

    Returns:
        -1; or the index of a text that is not in the data; or `TOO_LARGE`.
    """
    end = 0
    out_offsets[0] = 0
    for i in range(offsets.size):
        place = int(offsets[i])
        if place >= 0:
            size = _text_size(data, place, prefix)
            if size < 0:
                return i
            end += size
            if end > _OFFSET_MAX:
                return TOO_LARGE
        out_offsets[i + 1] = end
    return -1


@kernel
def copy_texts(data: Bytes, offsets: Int32s, prefix: int, out_offsets: Int32s, out: Bytes) -> int:
    """Put the texts where `text_offsets` has said; -1, or the index of one that is not in the data."""
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
    """Put texts of up to *width* bytes one after the other, each filled up with 0x00 to *width*.

    Args:
        data: What the offsets point into.
        offsets: Below 0 for no value, which takes no room.
        prefix: Bytes of the size before each text.
        width: Of a text.
        out_offsets: Gets the start of each text, and the end of the last.
        out: *width* zeros for each value.

    Returns:
        -1; or the index of a text that is longer, or not in the data.
    """
    end = 0
    out_offsets[0] = 0
    for i in range(offsets.size):
        place = int(offsets[i])
        if place >= 0:
            size = _text_size(data, place, prefix)
            if size < 0 or size > width:
                return i
            copy_bytes(out, end, data, place + prefix, size)
            end += width
        out_offsets[i + 1] = end
    return -1


@kernel
def first_not_ascii(out_offsets: Int32s, out: Bytes) -> int:
    """Index of the first text with a byte above 0x7F, or -1."""
    for i in range(out_offsets.size - 1):
        for k in range(out_offsets[i], out_offsets[i + 1]):
            if out[k] > 0x7F:
                return i
    return -1


@kernel
def _utf8_end(out: Bytes, start: int, end: int, size_max: int) -> int:
    # The byte behind the character of several bytes at `start`, or -1 where it is none (RFC 3629).
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
def first_not_utf8(out_offsets: Int32s, out: Bytes, size_max: int) -> int:
    """Index of the first text that is not UTF-8 with characters of up to *size_max* bytes, or -1."""
    for i in range(out_offsets.size - 1):
        place = int(out_offsets[i])
        end = int(out_offsets[i + 1])
        while place < end:
            if out[place] < 0x80:
                place += 1
                continue
            place = _utf8_end(out, place, end, size_max)
            if place < 0:
                return i
    return -1


@kernel
def utf8_offsets(source: Bytes, source_offsets: Int32s, sizes: Bytes, out_offsets: Int32s) -> int:
    """Where each text of one-byte characters goes when it becomes UTF-8.

    Args:
        source: The texts, one after the other.
        source_offsets: Where each starts, and the end of the last.
        sizes: Bytes of each of the 256 characters in UTF-8.
        out_offsets: As *source_offsets*, for the result.

    Returns:
        -1 or `TOO_LARGE`.
    """
    end = 0
    out_offsets[0] = 0
    for i in range(source_offsets.size - 1):
        for k in range(source_offsets[i], source_offsets[i + 1]):
            end += int(sizes[source[k]])
        if end > _OFFSET_MAX:
            return TOO_LARGE
        out_offsets[i + 1] = end
    return -1


@kernel
def write_utf8(source: Bytes, source_end: int, sizes: Bytes, characters: Bytes, out: Bytes) -> None:
    """Write the characters of *source* as UTF-8.

    Args:
        source: One byte for each character.
        source_end: How many of them.
        sizes: Bytes of each of the 256 characters in UTF-8.
        characters: Shape (256, 3): those bytes.
        out: Room for all that `utf8_offsets` has counted.
    """
    end = 0
    for k in range(source_end):
        byte = source[k]
        for j in range(sizes[byte]):
            out[end] = characters[byte, j]
            end += 1
