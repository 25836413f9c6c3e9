"""Entries without what was defined before them: `find_entries` after damaged bytes, `walk_entries` by their sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from binlog_format.kernels import kernel
from binlog_format.memory_kernels import load_u32
from binlog_format.structured.layout import (
    CLOCK_NAME_SIZE_OFFSET,
    CLOCK_SIZE_MIN,
    CLOCK_TAG,
    ENTRY_HEAD_SIZE,
    EVENT_SIZE_MIN,
    SOURCE_CATEGORY_OFFSET,
    SOURCE_SIZE_MIN,
    SOURCE_TAG,
    TAG_STRUCT,
    WRITER_NAME_SIZE_OFFSET,
    WRITER_SIZE_MIN,
    WRITER_TAG,
)
from binlog_format.structured.scan_kernels import EntryStop, find_source

if TYPE_CHECKING:
    from binlog_format.kernels import Bytes, Int32s, Int64s


_HIGH_WORD = 0xFFFFFFFF
_SOURCE_LOW = SOURCE_TAG & _HIGH_WORD
_WRITER_LOW = WRITER_TAG & _HIGH_WORD
_CLOCK_LOW = CLOCK_TAG & _HIGH_WORD
_HIGH_BIT = 31
_LINE_SIZE = 8


@kernel
def _ends_of_source(data: Bytes, at: int, end: int) -> bool:
    # Whether the texts of an EventSource fit into it: three, the line, and two more.
    place = at + SOURCE_CATEGORY_OFFSET
    for text in range(5):
        if place + 4 > end:
            return False
        place += 4 + load_u32(data, place)
        if text == 2:
            place += _LINE_SIZE
    return place <= end


@kernel
def _entry_end(data: Bytes, at: int, size: int, ids: Int64s, slots: Int32s) -> int:
    # The byte after an entry that may be there; -1: none can, or it is not whole.
    if at + ENTRY_HEAD_SIZE + EVENT_SIZE_MIN > size:
        return -1
    entry_size = load_u32(data, at)
    end = at + ENTRY_HEAD_SIZE + entry_size
    if entry_size < EVENT_SIZE_MIN or end > size:
        return -1
    low, high = load_u32(data, at + ENTRY_HEAD_SIZE), load_u32(data, at + ENTRY_HEAD_SIZE + 4)
    if high >> _HIGH_BIT == 0:
        return end if slots[find_source(low | (high << 32), ids, slots)] >= 0 else -1
    if high != _HIGH_WORD:
        return -1
    if low == _SOURCE_LOW and entry_size >= SOURCE_SIZE_MIN:
        return end if _ends_of_source(data, at, end) else -1
    if low == _WRITER_LOW and entry_size >= WRITER_SIZE_MIN:
        return end if load_u32(data, at + WRITER_NAME_SIZE_OFFSET) <= entry_size - WRITER_SIZE_MIN else -1
    if low == _CLOCK_LOW and entry_size >= CLOCK_SIZE_MIN:
        return end if load_u32(data, at + CLOCK_NAME_SIZE_OFFSET) <= entry_size - CLOCK_SIZE_MIN else -1
    return -1


@kernel
def find_entries(data: Bytes, limit: int, size: int, count: int, at_end: bool, ids: Int64s, slots: Int32s) -> int:
    """The first byte in `data[:limit]` where *count* entries follow one another; -1: there is none.

    Entries of unknown kinds do not count; fewer will do where they end with `data[:size]` and *at_end* is set.

    Args:
        data: Bytes of a log.
        limit: No entry is looked for from there on.
        size: How many bytes are there.
        at_end: The log ends with the data.
        ids: Of the sources that events can be of; as *slots* for `find_source`.
    """
    for start in range(limit):
        place = start
        for _ in range(count):
            end = _entry_end(data, place, size, ids, slots)
            if end < 0:
                break
            place = end
            if place == size:
                break
        else:
            return start
        if place == size and at_end and place > start:
            return start
    return -1


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
