"""Walks the sizes of entries, without knowing what was defined before them: `walk_entries`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from binlog_format.kernels import kernel
from binlog_format.memory_kernels import load_u32
from binlog_format.structured.layout import (
    CLOCK_SIZE_MIN,
    CLOCK_TAG,
    ENTRY_HEAD_SIZE,
    EVENT_SIZE_MIN,
    SOURCE_SIZE_MIN,
    SOURCE_TAG,
    TAG_STRUCT,
    WRITER_SIZE_MIN,
)
from binlog_format.structured.scan_kernels import EntryStop

if TYPE_CHECKING:
    from binlog_format.kernels import Bytes, Int64s


class EntryWalk(NamedTuple):
    """Result of `walk_entries`.

    Attributes:
        stop: `EntryStop`; `END` also where enough events have been seen.
        at: Byte of the first entry that was not taken.
        needed: See `EntryStop`.
        left: See `EntryStop`.
        entries: How many were taken.
        events: How many of them are events.
        last_clock_sync: Byte of the last one; -1: there is none.
    """

    stop: int
    at: int
    needed: int
    left: int
    entries: int
    events: int
    last_clock_sync: int


# Plain numbers: Numba gives members of an enum a type of their own.
_END = int(EntryStop.END)
_INCOMPLETE = int(EntryStop.INCOMPLETE)
_INCOMPLETE_SIZE = int(EntryStop.INCOMPLETE_SIZE)
_ZERO = int(EntryStop.ZERO)
_SHORT = int(EntryStop.SHORT)
_TABLE_FULL = int(EntryStop.TABLE_FULL)

_TAG_SIZE = TAG_STRUCT.size
_HIGH_WORD = 0xFFFFFFFF  # of the known metadata's tags
_CLOCK_LOW = CLOCK_TAG & _HIGH_WORD
_SOURCE_LOW = SOURCE_TAG & _HIGH_WORD
_HIGH_BIT = 31


@kernel
def _size_min(low: int, high: int) -> int:
    # Of an entry with that tag.
    if high >> _HIGH_BIT == 0:
        return EVENT_SIZE_MIN
    if high != _HIGH_WORD or low < _CLOCK_LOW:
        return _TAG_SIZE
    if low == _CLOCK_LOW:
        return CLOCK_SIZE_MIN
    return SOURCE_SIZE_MIN if low == _SOURCE_LOW else WRITER_SIZE_MIN


@kernel
def walk_entries(data: Bytes, size: int, events_max: int, starts: Int64s, counts: Int64s) -> EntryWalk:
    """Find where the entries of `data[:size]` begin, up to the first one that is not whole or too short for its kind.

    Args:
        data: Entries.
        size: How many bytes are there.
        events_max: Stop after so many events.
        starts: Gets the byte of each entry.
        counts: Gets how many events are before each entry.
    """
    at, entries, events, last_clock_sync = 0, 0, 0, -1
    stop, needed, left = _END, 0, 0
    while at < size and events < events_max:
        left = size - at - ENTRY_HEAD_SIZE
        if left < 0:
            stop, needed, left = _INCOMPLETE_SIZE, ENTRY_HEAD_SIZE, size - at
            break
        needed = load_u32(data, at)
        if needed == 0:
            stop = _ZERO
            break
        if needed > left:
            stop = _INCOMPLETE
            break
        if needed < _TAG_SIZE:
            stop, needed, left = _SHORT, _TAG_SIZE, needed
            break
        low, high = load_u32(data, at + ENTRY_HEAD_SIZE), load_u32(data, at + ENTRY_HEAD_SIZE + 4)
        size_min = _size_min(low, high)
        if needed < size_min:
            stop, needed, left = _SHORT, size_min, needed
            break
        if entries == len(starts):
            stop = _TABLE_FULL
            break
        starts[entries] = at
        counts[entries] = events
        entries += 1
        if high >> _HIGH_BIT == 0:
            events += 1
        elif high == _HIGH_WORD and low == _CLOCK_LOW:
            last_clock_sync = at
        at += ENTRY_HEAD_SIZE + needed
    return EntryWalk(stop, at, needed, left, entries, events, last_clock_sync)
