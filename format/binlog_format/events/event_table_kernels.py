"""Kernels that cut bytes into replication events: `cut_events`; and read them: `read_gtid`, `query_text_start`.

Kernels that ask for the bytes of events some events before they are read: `expect_event`, `expect_row_event`. A block
and its tables are larger than the cache next to the processor. What a walk over its events reads has been written a
moment ago, but must come from further away, event by event, at places that the processor does not guess: to wait for it
takes longer than all that is done with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.events.layout import (
    EVENT_FLAGS_OFFSET,
    EVENT_HEADER_SIZE,
    EVENT_SERVER_ID_OFFSET,
    EVENT_SIZE_MAX,
    EVENT_SIZE_OFFSET,
    EVENT_TYPE_OFFSET,
    GTID_DOMAIN_OFFSET,
    GTID_FLAGS_OFFSET,
    GTID_SEQNO_OFFSET,
    GTID_SIZE_MIN,
    EventType,
)
from binlog_format.events.query_layout import QUERY_DATABASE_SIZE_OFFSET, QUERY_FIXED_SIZE, QUERY_STATUS_SIZE_OFFSET
from binlog_format.kernels import kernel
from binlog_format.memory_kernels import load_u8, load_u16, load_u32, load_u64, prefetch

if TYPE_CHECKING:
    from binlog_format.block import Table
    from binlog_format.kernels import Bytes, Int64s


EVENTS_DONE = 0
"""Everything up to the end has been cut into events."""
EVENTS_CUT_OFF = 1
"""The last event goes on beyond the end; it has not been taken."""
EVENTS_TABLE_FULL = 2
"""The event table has no row left."""
EVENTS_BAD_SIZE = 3
"""An event's size is smaller than its header, or larger than any server writes."""

_TYPE_GTID = int(EventType.MARIADB_GTID)


@kernel
def cut_events(
    data: Bytes, start: int, end: int, events: Table, row: int, group: int, event_no: int
) -> tuple[int, int, int]:
    """Write one row of *events* for each whole event in `data[start:end]`.

    Args:
        start: Byte where the first event's header is.
        end: Byte after the last one; at most the size of *data*.
        row: First row to write.
        group: Row of their group in the group table.
        event_no: Number of the first of them in its group.

    Returns:
        Code (`EVENTS_DONE`, ...), row after the last one written, and the byte reached: that of the first event not
        taken.
    """
    column_start = events["start"]
    column_size = events["size"]
    column_type = events["type"]
    column_flags = events["flags"]
    column_timestamp = events["timestamp"]
    column_server_id = events["server_id"]
    column_group = events["group"]
    column_event_no = events["event_no"]
    at = start
    while at < end:
        if end - at < EVENT_HEADER_SIZE:
            return EVENTS_CUT_OFF, row, at
        size = load_u32(data, at + EVENT_SIZE_OFFSET)
        if size < EVENT_HEADER_SIZE or size > EVENT_SIZE_MAX:
            return EVENTS_BAD_SIZE, row, at
        if size > end - at:
            return EVENTS_CUT_OFF, row, at
        if row >= len(column_start):
            return EVENTS_TABLE_FULL, row, at
        column_start[row] = at
        column_size[row] = size
        column_type[row] = data[at + EVENT_TYPE_OFFSET]
        column_flags[row] = load_u16(data, at + EVENT_FLAGS_OFFSET)
        column_timestamp[row] = load_u32(data, at)
        column_server_id[row] = load_u32(data, at + EVENT_SERVER_ID_OFFSET)
        column_group[row] = group
        column_event_no[row] = event_no
        row += 1
        event_no += 1
        at += size
    return EVENTS_DONE, row, at


@kernel
def read_gtid(data: Bytes, start: int, size: int, groups: Table, group: int) -> bool:
    """Fill timestamp and GTID of a row of *groups* from its first event.

    Args:
        start: Byte of the group's first event, of which the whole header is there.
        size: Bytes of that event that are there.

    Returns:
        False: it is a GTID event, but too short to be one.
    """
    groups["timestamp"][group] = load_u32(data, start)
    is_gtid = load_u8(data, start + EVENT_TYPE_OFFSET) == _TYPE_GTID
    if is_gtid and size < GTID_SIZE_MIN:
        return False
    groups["has_gtid"][group] = is_gtid
    groups["domain"][group] = load_u32(data, start + GTID_DOMAIN_OFFSET) if is_gtid else 0
    groups["server_id"][group] = load_u32(data, start + EVENT_SERVER_ID_OFFSET)
    groups["seqno"][group] = load_u64(data, start + GTID_SEQNO_OFFSET) if is_gtid else np.uint64(0)
    groups["gtid_source"][group] = -1
    groups["gtid_flags"][group] = data[start + GTID_FLAGS_OFFSET] if is_gtid else 0
    return True


@kernel
def query_text_start(data: Bytes, start: int) -> int:
    """The byte where the statement begins of the Query event at *start*, whose fixed part is there.

    It may come after the event's end.
    """
    database = start + QUERY_FIXED_SIZE + load_u16(data, start + QUERY_STATUS_SIZE_OFFSET)
    return database + load_u8(data, start + QUERY_DATABASE_SIZE_OFFSET) + 1


# Far enough ahead for the bytes to come, near enough for them to be still there.
_EVENTS_AHEAD = 12
_ROW_EVENTS_AHEAD = 8

_LINE = 64
_ROW_EVENT_BYTES_MAX = 8 * _LINE  # of a longer event the processor fetches the rest by itself


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
