"""Kernels that separate most rows from those that may hold a key: `find_candidates`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.kernels import kernel

if TYPE_CHECKING:
    from binlog_format.kernels import Bytes, Int64s, Uint64s

SPREAD = np.uint64(0x9E3779B97F4A7C15)
"""2**64 by the golden ratio: neighbours fall far from each other."""

_BIT, _BITS = np.uint64(7), np.uint64(3)


@kernel
def find_candidates(values: Uint64s, flags: Bytes, shift: np.uint64, rows: Int64s) -> int:
    """Numbers of *values* for which a flag is set, ascending, into *rows*.

    Args:
        values: Any.
        flags: A bit for each place, the lowest bits first; a value's place are the upper bits of it by `SPREAD`.
        shift: How many bits these leave, less than 64.
        rows: Room for as many as there are values.

    Returns:
        How many they are; -1, with nothing done, where there is no room, or not a flag for each place.
    """
    if len(rows) < len(values) or shift < 1 or shift > 61 or len(flags) != 1 << (61 - int(shift)):
        return -1
    count = 0
    for row in range(len(values)):
        place = (values[row] * SPREAD) >> shift
        rows[count] = row
        count += (flags[place >> _BITS] >> (place & _BIT)) & 1
    return count
