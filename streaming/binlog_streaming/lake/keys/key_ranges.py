"""Ranges that hold the keys of a batch, to leave files alone that hold none of them: `files_that_may_hold`."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    Indices = NDArray[np.int64]

File = TypeVar("File")

RANGES_MAX = 16
"""Largest number of ranges: enough to separate hot rows from cold ones, few enough to cost nothing."""


def files_that_may_hold(
    files: Sequence[File], bounds_of: Callable[[File, Sequence[str]], Mapping[str, tuple[int, int]]], keys: pa.Table
) -> list[File]:
    """Files that, by their statistics, may hold one of *keys*, by their least first key where that is known.

    Args:
        files: Of a table.
        bounds_of: Least and greatest value in a file of those of some columns that are integers, as far as it is known.
        keys: Rows of the key columns.
    """
    names = keys.column_names
    covers = {name: cover for name in names if (cover := key_cover(keys.column(name))) is not None}
    bounds = [bounds_of(file, names) for file in files]
    admits = np.ones(len(files), np.bool_)
    for name, ranges in covers.items():
        known = np.array([number for number, one in enumerate(bounds) if name in one], np.int64)
        low, high = (np.array([bounds[number][name][side] for number in known], np.int64) for side in (0, 1))
        admits[known] &= meeting(ranges, low, high)
    admitted = np.flatnonzero(admits).tolist()
    admitted.sort(key=lambda number: bounds[number].get(names[0], (0, 0))[0])
    return [files[number] for number in admitted]


def key_cover(column: pa.ChunkedArray) -> tuple[Indices, Indices] | None:
    """Ranges that hold the values of a key column; None for types other than integers, and for no values at all."""
    if not pa.types.is_integer(column.type) or len(column) == 0:
        return None
    return cover(np.sort(column.cast(pa.int64()).to_numpy()), RANGES_MAX)


def cover(values: Indices, count_max: int) -> tuple[Indices, Indices]:
    """Make up to *count_max* ranges that contain all *values* (ascending, not empty), cut at the widest gaps.

    Returns:
        First and last value of each range, both inclusive, ascending.
    """
    # Unsigned, because a gap between two 64-bit integers does not fit into one.
    gaps = values[1:].view(np.uint64) - values[:-1].view(np.uint64)
    widest = np.sort(np.argsort(gaps, kind="stable")[::-1][: count_max - 1])
    widest = widest[gaps[widest] > 1]
    return values[np.concatenate([[0], widest + 1])], values[np.concatenate([widest, [len(values) - 1]])]


def meeting(ranges: tuple[Indices, Indices], least: Indices, greatest: Indices) -> NDArray[np.bool_]:
    """Mask of the files that overlap one of *ranges* (of `cover`), by the least and greatest value of each."""
    starts, ends = ranges
    # A range meets a file when the first range that ends at or after the file's least value starts within it.
    first = np.searchsorted(ends, least)
    meets: NDArray[np.bool_] = (first < len(starts)) & (starts[np.minimum(first, len(starts) - 1)] <= greatest)
    return meets
