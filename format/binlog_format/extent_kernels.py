"""Copies many small ranges of bytes: `gather`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.kernels import kernel
from binlog_format.memory_kernels import copy_bytes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from binlog_format.kernels import Bytes


@kernel
def gather(
    source: Bytes,
    starts: NDArray[np.int64],
    sizes: NDArray[np.int64],
    target: Bytes,
    target_starts: NDArray[np.int64],
) -> bool:
    """Copy `source[starts[i] : starts[i] + sizes[i]]` to `target[target_starts[i]]` and on, for every i.

    Returns:
        False, with nothing more copied, when a range goes beyond its buffer.
    """
    for i in range(len(starts)):
        start, size, target_start = starts[i], sizes[i], target_starts[i]
        if start < 0 or size < 0 or target_start < 0 or start + size > len(source) or target_start + size > len(target):
            return False
        copy_bytes(target, target_start, source, start, size)
    return True
