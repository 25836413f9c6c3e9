"""Cuts the bytes of a structured log into entries: `scan_entries`; and what it looks up on the way."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from binlog_format.kernels import kernel
from binlog_format.memory_kernels import load_u8, load_u32, load_u64
from binlog_format.structured.layout import (
    ENTRY_HEAD_SIZE,
    EVENT_SIZE_MIN,
    TAG_STRUCT,
    WRITER_KEY_OFFSET,
    WRITER_NAME_SIZE_OFFSET,
    WRITER_SIZE_MIN,
    WRITER_TAG,
)

if TYPE_CHECKING:
    from binlog_format.block import Table
    from binlog_format.kernels import Bytes, Int32s, Int64s, Mask


class EntryStop(IntEnum):
    """Reason why a scan ended at a byte.

    Attributes:
        END: There are no more bytes.
        INCOMPLETE: They end in the middle of an entry: after its size `needed` bytes were to come, `left` are there.
        INCOMPLETE_SIZE: They end in the middle of an entry's size, of which `left` bytes are there.
        ZERO: The entry claims a size of 0.
        SHORT: The entry ends before its known fields do: the next one takes `needed` bytes, `left` are there.
        UNKNOWN_SOURCE: An event of a source that has not been defined; `needed` is its id.
        TABLE_FULL: The event table has no row left.
        METADATA: Metadata that has not been seen yet: the caller reads it.
    """

    END = 0
    INCOMPLETE = 1
    ZERO = 2
    SHORT = 3
    UNKNOWN_SOURCE = 4
    TABLE_FULL = 5
    INCOMPLETE_SIZE = 6
    METADATA = 7


class EntryScan(NamedTuple):
    """Result of `scan_entries`.

    Attributes:
        stop: `EntryStop`.
        at: Byte of the first entry that was not taken.
        row: After the last event written.
        needed: See `EntryStop`.
        left: See `EntryStop`.
    """

    stop: int
    at: int
    row: int
    needed: int
    left: int


# What is in force at the place that a scan has come to; indexes of `in_force`.
WRITER = 0
"""Number of the current writer."""
CLOCK_SYNC = 1
"""Row of the current clock sync in the block."""
SOURCES_USED = 2
"""Number of sources to which the block's events refer."""
WRITERS_USED = 3
"""The same of writers."""
WRITER_ENTRY = 4
"""Byte where the last WriterProp stands; -1: before the data."""
IN_FORCE_SIZE = 5

# Plain numbers: Numba gives members of an enum a type of their own.
_END = int(EntryStop.END)
_INCOMPLETE = int(EntryStop.INCOMPLETE)
_INCOMPLETE_SIZE = int(EntryStop.INCOMPLETE_SIZE)
_ZERO = int(EntryStop.ZERO)
_SHORT = int(EntryStop.SHORT)
_UNKNOWN_SOURCE = int(EntryStop.UNKNOWN_SOURCE)
_TABLE_FULL = int(EntryStop.TABLE_FULL)
_METADATA = int(EntryStop.METADATA)

_TAG_SIZE = TAG_STRUCT.size
_HIGH_WORD = 0xFFFFFFFF  # of the known metadata's tags
_LOWEST_KNOWN = (WRITER_TAG & _HIGH_WORD) - 1
_WRITER_LOW = WRITER_TAG & _HIGH_WORD
_HIGH_BIT = 31


NO_SUCH_SOURCE = -1


@kernel
def find_source(source_id: int, ids: Int64s, slots: Int32s) -> int:
    """The slot of a source in a hash table, or the free one where it belongs; *slots* are a power of two.

    Args:
        source_id: Below 2^63.
        ids: By number.
        slots: Numbers; -1: free, and there is at least one such.
    """
    # Ids are small numbers in their order, or addresses at equal distances: the multiplication spreads both.
    folded = (source_id ^ (source_id >> 29)) & 0xFFFFFFFF
    mask = len(slots) - 1
    slot = ((folded * 0x61C88647) >> 16) & mask
    while slots[slot] >= 0 and ids[slots[slot]] != source_id:
        slot = (slot + 1) & mask
    return slot


@kernel
def enter_sources(ids: Int64s, slots: Int32s, first: int, end: int) -> None:
    """Enter the sources numbered from *first* up to *end*; one takes the place of an earlier one of the same id."""
    for number in range(first, end):
        slots[find_source(ids[number], ids, slots)] = number


@kernel
def find_writer(data: Bytes, at: int, size: int, keys: Bytes, bounds: Int64s, slots: Int32s) -> int:
    """The slot of a writer in a hash table, or the free one where it belongs; *slots* are a power of two.

    Args:
        data: Where the writer's key is: its id, and its name with the size before it.
        size: Of the key.
        bounds: Where in *keys* they are, by number: from one bound to the next.
        slots: Numbers; -1: free, and there is at least one such.
    """
    hashed = 0
    for i in range(size):
        hashed = ((hashed ^ load_u8(data, at + i)) * 0x01000193) & 0x7FFFFFFF
    mask = len(slots) - 1
    slot = (hashed ^ (hashed >> 15)) & mask
    while slots[slot] >= 0 and not _is_writer(data, at, size, keys, bounds, slots[slot]):
        slot = (slot + 1) & mask
    return slot


@kernel
def _is_writer(data: Bytes, at: int, size: int, keys: Bytes, bounds: Int64s, number: int) -> bool:
    start = bounds[number]
    if bounds[number + 1] - start != size:
        return False
    for i in range(size):
        if load_u8(keys, start + i) != load_u8(data, at + i):
            return False
    return True


@kernel
def enter_writers(keys: Bytes, bounds: Int64s, slots: Int32s, first: int, end: int) -> None:
    """Enter the writers numbered from *first* up to *end*, which are not there yet."""
    for number in range(first, end):
        start = bounds[number]
        slots[find_writer(keys, start, bounds[number + 1] - start, keys, bounds, slots)] = number


@kernel
def _known_writer(data: Bytes, at: int, size: int, current: int, keys: Bytes, bounds: Int64s, slots: Int32s) -> int:
    # Number of the writer of a whole entry of that size; -1: not known, or the entry is too short.
    if size < WRITER_SIZE_MIN:
        return -1
    name_size = load_u32(data, at + WRITER_NAME_SIZE_OFFSET)
    if name_size > size - WRITER_SIZE_MIN:
        return -1
    start = at + WRITER_KEY_OFFSET
    key_size = WRITER_NAME_SIZE_OFFSET + 4 - WRITER_KEY_OFFSET + name_size
    if _is_writer(data, start, key_size, keys, bounds, current):
        return current
    return int(slots[find_writer(data, start, key_size, keys, bounds, slots)])


@kernel
def _number_in_block(rows: Int32s, number: int, used: Int32s, in_force: Int64s, count: int) -> int:
    # The row that a source or a writer gets in the block's own list, with its first event.
    row = int(in_force[count])
    rows[number] = row
    used[row] = number
    in_force[count] = row + 1
    return row


@kernel
def _add_event(
    events: Table, row: int, data: Bytes, at: int, size: int, source: int, writer: int, clock_sync: int
) -> None:
    events["start"][row] = at
    events["size"][row] = size
    events["clock"][row] = load_u64(data, at + ENTRY_HEAD_SIZE + _TAG_SIZE)
    events["source"][row] = source
    events["writer"][row] = writer
    events["clock_sync"][row] = clock_sync


@kernel
def scan_entries(
    data: Bytes,
    at: int,
    size: int,
    events: Table,
    row: int,
    is_missing_ok: bool,
    in_force: Int64s,
    source_ids: Int64s,
    source_slots: Int32s,
    source_rows: Int32s,
    sources_used: Int32s,
    writer_keys: Bytes,
    writer_bounds: Int64s,
    writer_slots: Int32s,
    writer_rows: Int32s,
    writers_used: Int32s,
) -> EntryScan:
    """Write a row of *events* for each event in `data[at:size]`, up to the first entry that something is to be told of.

    Sources and writers have numbers, which last, and rows in the lists of the block, in the order of their first
    events there: *source_rows* give the row of a number (-1: none yet), *sources_used* the number of a row; both have
    room for all numbers, as those of the writers have. *in_force* is read and brought up to date. With *is_missing_ok*
    events of sources that have not been defined are passed over.
    """
    writer = in_force[WRITER]
    while at < size:
        left = size - at - ENTRY_HEAD_SIZE
        if left < 0:
            return EntryScan(_INCOMPLETE_SIZE, at, row, ENTRY_HEAD_SIZE, size - at)
        entry_size = load_u32(data, at)
        if entry_size == 0:
            return EntryScan(_ZERO, at, row, 0, 0)
        if entry_size > left:
            return EntryScan(_INCOMPLETE, at, row, entry_size, left)
        if entry_size < _TAG_SIZE:
            return EntryScan(_SHORT, at, row, _TAG_SIZE, entry_size)
        low, high = load_u32(data, at + ENTRY_HEAD_SIZE), load_u32(data, at + ENTRY_HEAD_SIZE + 4)
        if high >> _HIGH_BIT != 0:
            if high == _HIGH_WORD and low >= _LOWEST_KNOWN:
                if low == _WRITER_LOW:
                    writer = _known_writer(data, at, entry_size, writer, writer_keys, writer_bounds, writer_slots)
                if low != _WRITER_LOW or writer < 0:
                    return EntryScan(_METADATA, at, row, 0, 0)
                in_force[WRITER] = writer
                in_force[WRITER_ENTRY] = at
            at += ENTRY_HEAD_SIZE + entry_size
            continue
        source_id = low | (high << 32)
        number = source_slots[find_source(source_id, source_ids, source_slots)]
        if number < 0 and not is_missing_ok:
            return EntryScan(_UNKNOWN_SOURCE, at, row, source_id, 0)
        if entry_size < EVENT_SIZE_MIN:
            return EntryScan(_SHORT, at, row, EVENT_SIZE_MIN - _TAG_SIZE, entry_size - _TAG_SIZE)
        if number < 0:
            at += ENTRY_HEAD_SIZE + entry_size
            continue
        if row == len(events):
            return EntryScan(_TABLE_FULL, at, row, 0, 0)
        source_row = source_rows[number]
        if source_row < 0:
            source_row = _number_in_block(source_rows, number, sources_used, in_force, SOURCES_USED)
        writer_row = writer_rows[writer]
        if writer_row < 0:
            writer_row = _number_in_block(writer_rows, writer, writers_used, in_force, WRITERS_USED)
        _add_event(events, row, data, at, entry_size, source_row, writer_row, in_force[CLOCK_SYNC])
        row += 1
        at += ENTRY_HEAD_SIZE + entry_size
    return EntryScan(_END, at, row, 0, 0)


@kernel
def walk_sizes(data: Bytes) -> int:
    """Go from entry to entry as long as their sizes are in *data*; the byte after the last, maybe outside of *data*."""
    at = 0
    while at + ENTRY_HEAD_SIZE <= len(data):
        at += ENTRY_HEAD_SIZE + load_u32(data, at)
    return at


@kernel
def rows_of_sources(events: Table, wanted: Mask, rows: Int64s) -> int:
    """Choose the events of some sources.

    Args:
        rows: Gets their rows, ascending; as long as *events*.

    Returns:
        How many there are; or `NO_SUCH_SOURCE`.
    """
    sources = events["source"]
    count = 0
    for row in range(len(sources)):
        source = sources[row]
        if source < 0 or source >= len(wanted):
            return NO_SUCH_SOURCE
        rows[count] = row
        count += wanted[source]
    return count
