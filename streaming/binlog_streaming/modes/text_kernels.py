"""Places as text, and numbers out of texts that are the same in every process: `write_places`, `hash_texts`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.kernels import kernel

if TYPE_CHECKING:
    from binlog_format.kernels import Bytes, Int64s

_ZERO = ord("0")
_COLON = np.uint8(ord(":"))
_BASIS = 0x811C9DC5
_PRIME = 0x01000193
_LOW_32 = 0xFFFFFFFF


@kernel
def write_places(numbers: Int64s, widths: Int64s, texts: Bytes) -> None:
    """Write the numbers of each row with as many digits as their column has, and colons between them.

    Args:
        numbers: Shape (columns, rows), not below 0.
        widths: Digits of each column; more digits than that are cut off in front.
        texts: Shape (rows, sum of the widths and of the colons).
    """
    for row in range(texts.shape[0]):
        end = 0
        for column in range(len(widths)):
            if column > 0:
                texts[row, end] = _COLON
                end += 1
            end += widths[column]
            value = numbers[column, row]
            for place in range(widths[column]):
                texts[row, end - 1 - place] = np.uint8(_ZERO + value % 10)
                value //= 10


@kernel
def hash_texts(data: Bytes, offsets: Int64s, hashes: Int64s) -> bool:
    """FNV-1a in 32 bits of each text, `data[offsets[i] : offsets[i + 1]]`.

    Returns:
        False, with nothing more done, when a text is not within *data*.
    """
    for i in range(len(hashes)):
        low, high = offsets[i], offsets[i + 1]
        if low < 0 or high < low or high > len(data):
            return False
        value = _BASIS
        for place in range(low, high):
            value = ((value ^ data[place]) * _PRIME) & _LOW_32
        hashes[i] = value
    return True
