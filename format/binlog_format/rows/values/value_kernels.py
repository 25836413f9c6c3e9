"""Gather loops for values of 1 to 8 bytes: `gather_numbers`, `gather_3`, `gather_set`; big-endian ones: `gather_bits`.

Offsets below 0 (NULL, absent) give 0. Each returns the index of the first value that is not in the data, or -1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from binlog_format.kernels import kernel
from binlog_format.memory_kernels import load_u8, load_u16, load_u32, load_u64

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_format.kernels import Bytes, Int32s, Uint64s


@kernel
def gather_numbers(data: Bytes, offsets: Int32s, out: NDArray[np.unsignedinteger[Any]]) -> int:
    """Values of as many bytes as each of *out* has: 1, 2, 4 or 8."""
    size = out.itemsize
    last = max(data.size - size, -1)
    for i in range(offsets.size):
        place = int(offsets[i])
        if place > last:
            return i
        if place < 0:
            out[i] = 0
        elif size == 1:
            out[i] = load_u8(data, place)
        elif size == 2:
            out[i] = load_u16(data, place)
        elif size == 4:
            out[i] = load_u32(data, place)
        else:
            out[i] = np.uint64(load_u64(data, place))
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
