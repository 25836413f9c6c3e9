"""Kernels that ask for the bytes of events some events before they are read: `expect_event`, `expect_row_event`.

A block and its tables are larger than the cache next to the processor. What a walk over its events reads has been
written a moment ago, but must come from further away, event by event, at places that the processor does not guess: to
wait for it takes longer than all that is done with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.kernels import kernel
from binlog_format.memory_kernels import prefetch

if TYPE_CHECKING:
    from binlog_format.kernels import Bytes, Int64s


# Far enough ahead for the bytes to come, near enough for them to be still there.
_EVENTS_AHEAD = 12
_ROW_EVENTS_AHEAD = 8

_LINE = 64
_ROW_EVENT_BYTES_MAX = 8 * _LINE  # the processor goes on by itself along what is longer


@kernel
def expect_event(data: Bytes, starts: Int64s, row: int) -> None:
    """Ask for the head of an event (a table map: mostly all of it) that is soon to come.

    Args:
        data: What *starts* point into.
        starts: Of all events that are walked over.
    """
    ahead = row + _EVENTS_AHEAD
    if ahead < len(starts):
        prefetch(data, starts[ahead])
        prefetch(data, starts[ahead] + _LINE)


@kernel
def expect_row_event(data: Bytes, starts: Int64s, sizes: Int64s, rows: Int64s, index: int) -> None:
    """Ask for a row event that is soon to come: its rows, too.

    Args:
        data: What *starts* point into.
        rows: Which of them are walked over.
    """
    ahead = index + _ROW_EVENTS_AHEAD
    if ahead < len(rows):
        start = starts[rows[ahead]]
        for place in range(start, start + min(sizes[rows[ahead]], _ROW_EVENT_BYTES_MAX), _LINE):
            prefetch(data, place)
