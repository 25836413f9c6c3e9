"""Kernels for bytes that are in messages as base64, and for numbers that are written as bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.kernels import kernel

if TYPE_CHECKING:
    from binlog_format.kernels import Bytes, Int32s

_PAD = np.uint8(ord("="))
_NO_DIGIT = np.uint8(255)
_DIGITS = np.full(256, 255, dtype=np.uint8)
_DIGITS[np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)] = np.arange(64)

ALL_READ = -1


@kernel
def read_base64(data: Bytes, offsets: Int32s, out_offsets: Int32s, out: Bytes) -> int:
    """Decode texts, each with its padding.

    Args:
        data: Of the texts.
        offsets: Where each begins, and the last one ends.
        out_offsets: The same of the bytes; filled.
        out: Three bytes of room for four of *data*; filled.

    Returns:
        The first text that is not base64, or `ALL_READ`.
    """
    at = 0
    out_offsets[0] = 0
    for row in range(len(offsets) - 1):
        start, end = offsets[row], offsets[row + 1]
        if start < 0 or end < start or end > data.size or (end - start) % 4 or (end - start) // 4 * 3 > out.size - at:
            return row
        pads = 0
        while pads < 2 and pads < end - start and data[end - 1 - pads] == _PAD:
            pads += 1
        for quad in range(start, end, 4):
            word = 0
            for place in range(quad, quad + 4):
                digit = _DIGITS[data[place]]
                if place >= end - pads:
                    digit = np.uint8(0)
                elif digit == _NO_DIGIT:
                    return row
                word = word << 6 | digit
            out[at] = word >> 16
            out[at + 1] = word >> 8 & 0xFF
            out[at + 2] = word & 0xFF
            at += 3
        at -= pads
        out_offsets[row + 1] = at
    return ALL_READ


@kernel
def read_unscaled(data: Bytes, offsets: Int32s, words: Bytes) -> int:
    """Numbers in two's complement, high byte first, as such of 16 bytes, low byte first.

    Args:
        offsets: Where each begins, and the last one ends.
        words: Shape (count, 16); filled.

    Returns:
        The first number that has more than 16 bytes, or `ALL_READ`.
    """
    for row in range(len(offsets) - 1):
        start, end = offsets[row], offsets[row + 1]
        if start < 0 or end < start or end > data.size or end - start > words.shape[1]:
            return row
        sign = 0xFF if end > start and data[start] >= 0x80 else 0
        for place in range(words.shape[1]):
            words[row, place] = data[end - 1 - place] if place < end - start else sign
    return ALL_READ


@kernel
def read_little_endian(data: Bytes, offsets: Int32s, words: Bytes) -> int:
    """Numbers without sign, low byte first, as such of 8 bytes.

    Args:
        offsets: Where each begins, and the last one ends.
        words: Shape (count, 8); filled.

    Returns:
        The first number that has more than 8 bytes, or `ALL_READ`.
    """
    for row in range(len(offsets) - 1):
        start, end = offsets[row], offsets[row + 1]
        if start < 0 or end < start or end > data.size or end - start > words.shape[1]:
            return row
        for place in range(words.shape[1]):
            words[row, place] = data[start + place] if place < end - start else 0
    return ALL_READ
