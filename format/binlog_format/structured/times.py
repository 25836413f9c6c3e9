"""Times of events, by the clock syncs in force: `event_times`, `find_event_time`; of one event, `ns_of`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.errors import StartError
from binlog_format.position import Position
from binlog_format.structured.clock_kernels import Clocks, fill_times, wall_ns
from binlog_format.structured.layout import NS_PER_SECOND, VIRTUAL_PAGE_SIZE
from binlog_format.structured.metadata import ClockSync

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from binlog_format.structured.block import LogBlock
    from binlog_format.structured.event_log import EventLog

    Int64s = NDArray[np.int64]
    Mask = NDArray[np.bool_]

_FREQUENCY_MAX = (1 << 63) - 1
"""The library takes frequencies as signed numbers."""


def ns_of(clock: int, clock_sync: ClockSync) -> int | None:
    """Nanoseconds since 1970 UTC of a clock value; None: there is no clock sync."""
    if not 0 < clock_sync.frequency <= _FREQUENCY_MAX:
        return None
    with np.errstate(over="ignore"):
        value, sync_value, sync_ns = (np.uint64(one) for one in (clock, clock_sync.clock, clock_sync.ns))
        return int(wall_ns(value, sync_value, clock_sync.frequency, sync_ns))


def event_times(block: LogBlock) -> tuple[Int64s, Mask]:
    """Compute the times of the events of *block*.

    Returns:
        Nanoseconds since 1970 UTC, and where there are any: not before the first sync, and with none of a frequency
        that cannot be.
    """
    ns, has_time = np.empty(len(block.events), dtype=np.int64), np.empty(len(block.events), dtype=np.bool_)
    with np.errstate(over="ignore"):
        fill_times(block.events, clocks_of(block.clock_syncs), ns, has_time)
    return ns, has_time


def clocks_of(clock_syncs: Sequence[ClockSync]) -> Clocks:
    """Clock syncs as kernels take them; there is always one."""
    syncs = clock_syncs or (ClockSync(),)
    return Clocks(
        clocks=np.array([sync.clock for sync in syncs], dtype=np.uint64),
        frequencies=np.array([sync.frequency for sync in syncs], dtype=np.uint64).view(np.int64),
        ns=np.array([sync.ns for sync in syncs], dtype=np.uint64),
        offsets=np.array([sync.tz_offset for sync in syncs], dtype=np.int64),
    )


def find_event_time(log: EventLog, seconds: int) -> Position:
    """Position of the first event, in the order of the log, that happened at *seconds* since 1970 UTC or later.

    No event before it did; earlier ones of other writers may follow. Reads the log from its start.

    Raises:
        StartError: `TIMESTAMP_NOT_FOUND`: all events are older, or have no time.
    """
    for block in log.entries():
        ns, has_time = event_times(block)
        rows = np.flatnonzero(has_time & (ns >= seconds * NS_PER_SECOND))
        if len(rows):
            byte = block.file_offset + int(block.events["start"][rows[0]])
            return Position(block.file_no, *divmod(byte, VIRTUAL_PAGE_SIZE))
    raise StartError("TIMESTAMP_NOT_FOUND", "all events of the log happened before that time")
