"""Finds entries again after damaged bytes: `find_entries`."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    WRITER_NAME_SIZE_OFFSET,
    WRITER_SIZE_MIN,
    WRITER_TAG,
)
from binlog_format.structured.scan_kernels import find_source

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
