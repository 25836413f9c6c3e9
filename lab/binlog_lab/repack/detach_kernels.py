"""Copies events without what ties them to a classic file: `copy_detached`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.events.layout import (
    EVENT_END_LOG_POS_OFFSET,
    EVENT_FLAGS_OFFSET,
    EVENT_HEADER_SIZE,
    EVENT_SIZE_OFFSET,
)
from binlog_format.kernels import kernel
from binlog_format.memory_kernels import copy_bytes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from binlog_format.kernels import Bytes


@kernel
def copy_detached(data: Bytes, starts: NDArray[np.int64], sizes: NDArray[np.int64], target: Bytes) -> int:
    """Copy events to *target*, one after the other: no checksums, end_log_pos 0, the size without the checksum.

    Returns:
        Bytes written; -1 when an event is not in *data*, or *target* is too small.
    """
    at = 0
    for i in range(len(starts)):
        start, size = starts[i], sizes[i]
        if size < EVENT_HEADER_SIZE or start < 0 or start + size > len(data) or at + size > len(target):
            return -1
        copy_bytes(target, at, data, start, size)
        for byte in range(EVENT_END_LOG_POS_OFFSET - EVENT_SIZE_OFFSET):
            target[at + EVENT_SIZE_OFFSET + byte] = (size >> (8 * byte)) & 0xFF
        for byte in range(EVENT_END_LOG_POS_OFFSET, EVENT_FLAGS_OFFSET):
            target[at + byte] = 0
        at += size
    return at
