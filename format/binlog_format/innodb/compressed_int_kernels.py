"""Compressed integers: `encode_compressed_int`, `decode_compressed_int`, and the kernels `read_int`, `read_ints`.

`layout.py` describes how they are coded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.innodb.layout import (
    COMPRESSED_INT_SHORT_SIZE_MAX,
    COMPRESSED_INT_SIZE_MAX,
    COMPRESSED_INT_TAG_BITS,
    COMPRESSED_INT_TAG_MASK,
)
from binlog_format.kernels import as_bytes, kernel
from binlog_format.memory_kernels import load_u8

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_format.kernels import Bytes

INT_CUT_OFF = -1
"""The integer goes on beyond the end."""
INT_TOO_LARGE = -2
"""The integer has more than 64 bits, which no writer gives."""

_VALUE_BITS = 64
_TAG_MAX = COMPRESSED_INT_TAG_MASK
_LAST_BYTE_MAX = (1 << (_VALUE_BITS + COMPRESSED_INT_TAG_BITS - 8 * (COMPRESSED_INT_SIZE_MAX - 1))) - 1


@kernel
def read_int(data: Bytes, at: int, end: int) -> tuple[int, np.uint64]:
    """Decode the integer at `data[at]`.

    Returns:
        The byte after it and its value; a negative code (`INT_CUT_OFF`, `INT_TOO_LARGE`) in place of the byte when it
        cannot be read from `data[at:end]`.
    """
    value = np.uint64(0)
    if at >= end:
        return INT_CUT_OFF, value
    first = load_u8(data, at)
    tag = first & COMPRESSED_INT_TAG_MASK
    size = tag + 1 if tag < _TAG_MAX else COMPRESSED_INT_SIZE_MAX
    if at + size > end:
        return INT_CUT_OFF, value
    if size == COMPRESSED_INT_SIZE_MAX and load_u8(data, at + size - 1) > _LAST_BYTE_MAX:
        return INT_TOO_LARGE, value
    value = np.uint64(first >> COMPRESSED_INT_TAG_BITS)
    shift = 8 - COMPRESSED_INT_TAG_BITS
    for index in range(at + 1, at + size):
        value |= np.uint64(load_u8(data, index)) << np.uint64(shift)
        shift += 8
    return at + size, value


@kernel
def read_ints(data: Bytes, at: int, end: int, values: NDArray[np.uint64]) -> tuple[int, int]:
    """Decode integers into *values* until it is full, or `data[at:end]` is used up.

    Returns:
        The byte after the last integer (or a negative code, see `read_int`) and how many there are.
    """
    count = 0
    while count < len(values) and at < end:
        after, value = read_int(data, at, end)
        if after < 0:
            return after, count
        values[count] = value
        count += 1
        at = after
    return at, count


def encode_compressed_int(value: int) -> bytes:
    """Encode *value*, 0 to 2**64-1, in the shortest form."""
    if not 0 <= value < 1 << _VALUE_BITS:
        raise ValueError(f"{value} is not an unsigned number of 64 bits")
    size = (value.bit_length() + COMPRESSED_INT_TAG_BITS + 7) // 8 or 1
    if size > COMPRESSED_INT_SHORT_SIZE_MAX:
        size = COMPRESSED_INT_SIZE_MAX
    tag = min(size - 1, _TAG_MAX)
    return (value << COMPRESSED_INT_TAG_BITS | tag).to_bytes(size, "little")


def decode_compressed_int(data: bytes, at: int = 0) -> tuple[int, int]:
    """Decode the integer at *at*.

    Returns:
        Its value and the byte after it.

    Raises:
        ValueError: *data* ends inside the integer, or it has more than 64 bits.
    """
    after, value = read_int(as_bytes(data[at : at + COMPRESSED_INT_SIZE_MAX]), 0, min(len(data) - at, 9))
    if after < 0:
        problem = "is cut off" if after == INT_CUT_OFF else "has more than 64 bits"
        raise ValueError(f"the compressed integer at byte {at} {problem}")
    return int(value), at + after
