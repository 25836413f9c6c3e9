"""Clock values as wall time, as the library's reader computes it: `wall_ns`, `fill_times`.

All steps are arithmetic of 64 bits that wraps around; parts of a nanosecond are dropped, toward the sync. Without the
compiler NumPy warns of what wraps around: whoever calls switches that off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from binlog_format.kernels import kernel
from binlog_format.structured.layout import NS_PER_SECOND
from binlog_format.writing_kernels import SIGN_BIT, U0, signed

if TYPE_CHECKING:
    from binlog_format.block import Table
    from binlog_format.kernels import Int64s, Mask, Uint64s

_BILLION = np.uint64(NS_PER_SECOND)


class Clocks(NamedTuple):
    """The clock syncs of a block; see `ClockSync`."""

    clocks: Uint64s
    frequencies: Int64s
    ns: Uint64s
    offsets: Int64s


@kernel
def wall_ns(clock: np.uint64, sync_clock: np.uint64, frequency: int, sync_ns: np.uint64) -> int:
    """Nanoseconds since 1970 UTC at a clock value, by a clock sync with a positive frequency."""
    ticks = clock - sync_clock
    if frequency == NS_PER_SECOND:  # divisions take most of the time
        return signed(sync_ns + ticks)
    is_earlier = (ticks & SIGN_BIT) != U0
    if is_earlier:
        ticks = U0 - ticks
    seconds = ticks // np.uint64(frequency)
    rest = ticks - seconds * np.uint64(frequency)
    billionths = rest * _BILLION
    # What does not fit into 63 bits is a negative number from here on.
    if (billionths & SIGN_BIT) != U0:
        part = U0 - ((U0 - billionths) // np.uint64(frequency))
    else:
        part = billionths // np.uint64(frequency)
    ns = seconds * _BILLION + part
    return signed(sync_ns - ns if is_earlier else sync_ns + ns)


@kernel
def fill_times(events: Table, clocks: Clocks, ns: Int64s, has_time: Mask) -> None:
    """Compute the times of events.

    Args:
        ns: Gets nanoseconds since 1970 UTC; 0 where there is no time.
        has_time: Gets where there is one: not before the first sync, and with none of a frequency that cannot be.
    """
    values, syncs = events["clock"], events["clock_sync"]
    for row in range(len(values)):
        sync = syncs[row]
        frequency = clocks.frequencies[sync]
        has_time[row] = frequency > 0
        ns[row] = wall_ns(values[row], clocks.clocks[sync], frequency, clocks.ns[sync]) if frequency > 0 else 0
