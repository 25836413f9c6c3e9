"""Compressed integers, read by kernels: `read_int`, `read_ints`; `layout.py` describes how they are coded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.innodb.layout import (
    COMPRESSED_INT_SIZE_MAX,
    COMPRESSED_INT_TAG_BITS,
    COMPRESSED_INT_TAG_MASK,
)
from binlog_format.kernels import kernel
from binlog_format.memory_kernels import load_u8

if TYPE_CHECKING:
    from binlog_format.kernels import Bytes, Uint64s

INT_CUT_OFF = -1
"""The integer goes on beyond the end."""
INT_TOO_LARGE = -2
"""The integer has more than 64 bits, which no writer gives."""

_VALUE_BITS = 64
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
    size = tag + 1 if tag < COMPRESSED_INT_TAG_MASK else COMPRESSED_INT_SIZE_MAX
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
def read_ints(data: Bytes, at: int, end: int, values: Uint64s) -> tuple[int, int]:
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
