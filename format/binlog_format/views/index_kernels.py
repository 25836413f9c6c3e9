"""Kernel that joins scattered pieces of a buffer: `gather`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.kernels import kernel
from binlog_format.memory_kernels import copy_bytes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from binlog_format.kernels import Bytes


@kernel
def gather(data: Bytes, starts: NDArray[np.int64], sizes: NDArray[np.int64], out: Bytes) -> int:
    """Copy the pieces of *data*, one after the other, into *out*; the bytes written, -1 when a piece is outside."""
    at = 0
    for row in range(starts.size):
        start, size = starts[row], sizes[row]
        if start < 0 or size < 0 or start + size > data.size or at + size > out.size:
            return -1
        copy_bytes(out, at, data, start, size)
        at += size
    return at
