"""Loads and copies for kernels: `load_u8`, `load_u16`, `load_u32`, `load_u64`, `copy_bytes`; `prefetch`, `read_file`.

Each compiles to one machine instruction or one `memmove`; a loop over single bytes, or a slice assignment, runs at a
tenth of that speed. They check no bounds and accept no negative index: the kernel that calls them has done so.
In compiled kernels `memory_intrinsics` takes their place. The functions here, which Python and kernels without the
compiler (``NUMBA_DISABLE_JIT=1``) call, do check, and so do all of them
with ``NUMBA_BOUNDSCHECK=1`` (give that a cache folder of its own, ``NUMBA_CACHE_DIR``: the cache does not tell them
apart): a kernel that reads past its input then ends in an `IndexError`.

Kernels that copy many small ranges: `gather`, and of a file: `gather_from_file`.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, cast

from binlog_format.kernels import compiled_as, kernel

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_format.kernels import Bytes, Int64s


def _intrinsic(name: str) -> Callable[[], object]:
    # Loads Numba, a third of a second: only when a kernel is compiled.
    return lambda: cast("object", getattr(import_module("binlog_format.memory_intrinsics"), name)())


def _loaded(data: Bytes, index: int, size: int) -> int:
    if index < 0 or index + size > len(data):
        raise IndexError(f"{size} bytes at {index} of {len(data)}")
    return int.from_bytes(data[index : index + size].tobytes(), "little")


@compiled_as(_intrinsic("load_u8"))
def load_u8(data: Bytes, index: int) -> int:
    """The byte at an index; an int64 in kernels (a plain index gives a uint8, whose sums wrap without the compiler)."""
    return _loaded(data, index, 1)


@compiled_as(_intrinsic("load_u16"))
def load_u16(data: Bytes, index: int) -> int:
    """The little-endian number of 2 bytes at an index; an int64 in kernels."""
    return _loaded(data, index, 2)


@compiled_as(_intrinsic("load_u32"))
def load_u32(data: Bytes, index: int) -> int:
    """The little-endian number of 4 bytes at an index; an int64 in kernels."""
    return _loaded(data, index, 4)


@compiled_as(_intrinsic("load_u64"))
def load_u64(data: Bytes, index: int) -> int:
    """The little-endian number of 8 bytes at an index; a uint64 in kernels."""
    return _loaded(data, index, 8)


@compiled_as(_intrinsic("copy_bytes"))
def copy_bytes(target: Bytes, to: int, source: Bytes, at: int, size: int) -> None:
    """Copy from one buffer to another: target, index there, source, index there, size."""
    if min(to, at, size) < 0 or to + size > len(target) or at + size > len(source):
        raise IndexError(f"{size} bytes from {at} of {len(source)} to {to} of {len(target)}")
    target[to : to + size] = source[at : at + size]


@compiled_as(_intrinsic("prefetch"))
def prefetch(data: Bytes, index: int) -> None:
    """Ask for the cache line of the byte at an index, which is soon to be loaded. A hint: any index will do.

    Does nothing without the compiler: only the processor has caches.
    """


@compiled_as(_intrinsic("read_file"))
def read_file(file: int, at: int, target: Bytes, to: int, size: int) -> int:
    """`pread`: an open file's descriptor, offset there, target, index there, size; how many bytes there were, or -1."""
    if min(to, size) < 0 or to + size > len(target):
        raise IndexError(f"{size} bytes to {to} of {len(target)}")
    try:
        return os.preadv(file, [target.data[to : to + size]], at)
    except OSError:
        return -1


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
