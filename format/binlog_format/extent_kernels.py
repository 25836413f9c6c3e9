"""Copies many small ranges of bytes: `gather`, and of a file: `gather_from_file`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.kernels import kernel
from binlog_format.memory_kernels import copy_bytes, read_file

if TYPE_CHECKING:
    from binlog_format.kernels import Bytes, Int64s


@kernel
def gather(
    source: Bytes,
    starts: Int64s,
    sizes: Int64s,
    target: Bytes,
    target_starts: Int64s,
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


@kernel
def gather_from_file(
    file: int,
    offsets: Int64s,
    sizes: Int64s,
    target: Bytes,
    target_starts: Int64s,
) -> bool:
    """Read the *sizes[i]* bytes at *offsets[i]* of an open file to `target[target_starts[i]]` and on, for every i.

    Returns:
        False, with nothing more read, when the file does not give all of a range, or one goes beyond the target.
    """
    for i in range(len(offsets)):
        offset, size, target_start = offsets[i], sizes[i], target_starts[i]
        if offset < 0 or size < 0 or target_start < 0 or target_start + size > len(target):
            return False
        if read_file(file, offset, target, target_start, size) != size:
            return False
    return True
