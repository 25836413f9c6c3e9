"""Gather loops for values of 1 to 8 bytes: `gather_1` to `gather_8`, `gather_set`; big-endian ones: `gather_bits`.

Offsets below 0 (NULL, absent) give 0. Each returns the index of the first value that is not in the data, or -1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.kernels import kernel
from binlog_format.memory_kernels import load_u8, load_u16, load_u32, load_u64

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_format.kernels import Bytes, Int32s, Uint64s


@kernel
def gather_1(data: Bytes, offsets: Int32s, out: Bytes) -> int:
    """Values of 1 byte."""
    last = max(data.size - 1, -1)
    for i in range(offsets.size):
        place = int(offsets[i])
        if place > last:
            return i
        out[i] = 0 if place < 0 else load_u8(data, place)
    return -1


@kernel
def gather_2(data: Bytes, offsets: Int32s, out: NDArray[np.uint16]) -> int:
    """Values of 2 bytes."""
    last = max(data.size - 2, -1)
    for i in range(offsets.size):
        place = int(offsets[i])
        if place > last:
            return i
        out[i] = 0 if place < 0 else load_u16(data, place)
    return -1


@kernel
def gather_3(data: Bytes, offsets: Int32s, out: NDArray[np.uint32]) -> int:
    """Values of 3 bytes."""
    last = max(data.size - 3, -1)
    for i in range(offsets.size):
        place = int(offsets[i])
        if place > last:
            return i
        out[i] = 0 if place < 0 else load_u16(data, place) | load_u8(data, place + 2) << 16
    return -1


@kernel
def gather_4(data: Bytes, offsets: Int32s, out: NDArray[np.uint32]) -> int:
    """Values of 4 bytes."""
    last = max(data.size - 4, -1)
    for i in range(offsets.size):
        place = int(offsets[i])
        if place > last:
            return i
        out[i] = 0 if place < 0 else load_u32(data, place)
    return -1


@kernel
def gather_8(data: Bytes, offsets: Int32s, out: Uint64s) -> int:
    """Values of 8 bytes."""
    last = max(data.size - 8, -1)
    for i in range(offsets.size):
        place = int(offsets[i])
        if place > last:
            return i
        out[i] = np.uint64(0) if place < 0 else np.uint64(load_u64(data, place))
    return -1


@kernel
def gather_bits(data: Bytes, offsets: Int32s, width: int, out: Uint64s) -> int:
    """Big-endian values of *width* bytes, 0 to 8."""
    last = max(data.size - width, -1)
    for i in range(offsets.size):
        place = int(offsets[i])
        if place > last:
            return i
        number = np.uint64(0)
        if place >= 0:
            for k in range(width):
                number = number << np.uint64(8) | np.uint64(load_u8(data, place + k))
        out[i] = number
    return -1


@kernel
def gather_set(data: Bytes, offsets: Int32s, width: int, out: Uint64s) -> int:
    """Little-endian values of *width* bytes, 1 to 8."""
    last = max(data.size - width, -1)
    for i in range(offsets.size):
        place = int(offsets[i])
        if place > last:
            return i
        number = np.uint64(0)
        if place >= 0:
            for k in range(width):
                number |= np.uint64(load_u8(data, place + k)) << np.uint64(8 * k)
        out[i] = number
    return -1
