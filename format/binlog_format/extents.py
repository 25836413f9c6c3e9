"""Bytes that lie apart in files, joined: `read_extents`; places of bytes that were joined: `clipped_extents`."""

from __future__ import annotations

import itertools
from contextlib import ExitStack
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.block import EXTENT_DTYPE
from binlog_format.errors import DataLossError
from binlog_format.extent_kernels import gather, gather_from_file
from binlog_format.kernels import empty_bytes
from binlog_format.position import Place
from binlog_format.source_file import LocalFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from binlog_format.block import Table
    from binlog_format.kernels import Bytes
    from binlog_format.source_file import SourceFile

    Int64s = NDArray[np.int64]

_GAP_MAX = 64 << 10
"""Bytes between two extents that are read and thrown away rather than read around."""
_RUN_SIZE_MAX = 4 << 20
"""Bytes read at a time, unless one extent is larger."""
_SPARSE_FROM = 4096
"""Bytes from one extent of a local file to the next from which on each is read by itself: about as many as are copied
in the time that a call takes. Of ten tables that change in turns each has its events so far apart."""


def read_extents(extents: Table, open_file: Callable[[int], AbstractContextManager[SourceFile]]) -> Bytes:
    """Join the bytes of *extents*, in their order, with few large reads; nothing is verified.

    Args:
        extents: `EXTENT_DTYPE`; `data_start` is not looked at.
        open_file: Gives a file by number.

    Raises:
        DataLossError: `TRUNCATED_TRANSACTION`: a file is shorter than its extents need.
    """
    sizes = np.ascontiguousarray(extents["size"])
    starts = np.ascontiguousarray(extents["file_offset"])
    files = np.ascontiguousarray(extents["file_no"])
    targets = np.cumsum(sizes) - sizes
    result = empty_bytes(int(sizes.sum()))
    with ExitStack() as opened:
        file_no = -1
        for first, end in _runs(files, starts, sizes):
            if files[first] != file_no:
                opened.close()
                file_no = int(files[first])
                source = opened.enter_context(open_file(file_no))
            run = slice(first, end)
            run_start = int(starts[first])
            run_size = int(starts[end - 1] + sizes[end - 1]) - run_start
            # What cannot be read so is read as a whole, which tells why.
            if (
                isinstance(source, LocalFile)
                and run_size > _SPARSE_FROM * (end - first)
                and gather_from_file(source.descriptor, starts[run], sizes[run], result, targets[run])
            ):
                continue
            buffer = empty_bytes(run_size)
            count = source.read_into(run_start, buffer)
            if count < run_size:
                raise DataLossError(
                    "TRUNCATED_TRANSACTION",
                    f"the file ends at byte {run_start + count:#x}, expected data up to {run_start + run_size:#x}",
                    at=Place(source.path, byte=run_start + count),
                )
            gather(buffer, starts[run] - run_start, sizes[run], result, targets[run])
    return result


def _runs(files: NDArray[np.int64], starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Rows `[first, end)` that one read each can fetch: ascending in one file, close to each other."""
    if len(files) == 0:
        return []
    gaps = starts[1:] - (starts[:-1] + sizes[:-1])
    breaks = np.flatnonzero((files[1:] != files[:-1]) | (gaps < 0) | (gaps > _GAP_MAX)) + 1
    borders = [0, *breaks.tolist(), len(files)]
    ends = starts + sizes
    runs = []
    for border, end in itertools.pairwise(borders):
        first = border
        while first < end:
            # The rows ascend within a run, so a binary search finds where it gets too large.
            cut = first + int(np.searchsorted(ends[first:end], starts[first] + _RUN_SIZE_MAX, side="right"))
            cut = max(cut, first + 1)
            runs.append((first, cut))
            first = cut
    return runs


def clipped_extents(extents: Table, data_size: int, run_starts: Int64s, run_stops: Int64s, targets: Int64s) -> Table:
    """The extents of runs of a buffer's bytes.

    Args:
        extents: `EXTENT_DTYPE`, of the whole buffer; those of size 0 stand for bytes that are not in the files as such.
        data_size: Bytes in the buffer.
        run_starts: First byte of each run, and
        run_stops: the byte after it.
        targets: Where each run is put; `data_start` of the result counts from there.
    """
    starts = extents["data_start"]
    stops = np.append(starts[1:], data_size)
    first = np.searchsorted(starts, run_starts, side="right") - 1
    counts = np.searchsorted(starts, run_stops, side="left") - first
    run = np.repeat(np.arange(len(run_starts)), counts)
    row = first[run] + np.arange(len(run)) - np.repeat(np.cumsum(counts) - counts, counts)
    low = np.maximum(starts[row], run_starts[run])
    high = np.minimum(stops[row], run_stops[run])
    is_stored = extents["size"][row] > 0
    clipped: Table = np.zeros(len(row), dtype=EXTENT_DTYPE)
    clipped["data_start"] = low - run_starts[run] + targets[run]
    clipped["file_no"] = extents["file_no"][row]
    clipped["file_offset"] = extents["file_offset"][row] + np.where(is_stored, low - starts[row], 0)
    clipped["size"] = np.where(is_stored, high - low, 0)
    kept: Table = clipped[high > low]
    return kept
