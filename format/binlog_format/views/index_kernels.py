"""Kernel that puts events and the places where they are stored into the columns of an index: `index_events`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.block import NOT_INNER
from binlog_format.kernels import kernel

if TYPE_CHECKING:
    from binlog_format.block import Table
    from binlog_format.kernels import Int64s, Uint64s


# Where in `table_index.COLUMNS` its parts begin.
_STORED = 4
_EVENT = 6
_GROUP = 9
_MORE = 19


@kernel
def index_events(
    events: Table,
    groups: Table,
    rows: Int64s,
    origins: Table,
    extents: Table,
    columns: Int64s,
    unsigned: Uint64s,
) -> int:
    """Fill a column of *columns* for each extent of each event.

    Args:
        rows: Which of *events*.
        origins: `ORIGIN_DTYPE`, one row for each of *events*; or none at all: every event is as it is stored.
        columns: Shape (length of `table_index.COLUMNS`, room).
        unsigned: The same memory: numbers of 64 bits without a sign go there.

    Returns:
        How many extents there are; -1 when a table counts in another one what is not there. Those for which there is no
        room are not filled.
    """
    starts, sizes, event_groups = events["start"], events["size"], events["group"]
    origin_starts, origin_sizes, inner_nos = origins["start"], origins["size"], origins["inner_no"]
    data_starts, extent_sizes = extents["data_start"], extents["size"]
    file_nos, file_offsets = extents["file_no"], extents["file_offset"]
    room = columns.shape[1]
    count = first = 0
    for i in range(len(rows)):
        row = rows[i]
        if row < 0 or row >= len(events) or event_groups[row] < 0 or event_groups[row] >= len(groups):
            return -1
        start, size = starts[row], sizes[row]
        plain_size = np.int64(0)
        inner_no = np.int64(-1)
        is_elsewhere = False
        if len(origins) == len(events):
            origin_start = origin_starts[row]
            inner_no = inner_nos[row]
            if origin_start != start or inner_no < NOT_INNER:
                plain_size = size
            # A payload larger than a block is not in the block's data: the event's own, empty extent has its place.
            is_elsewhere = origin_start < 0
            if not is_elsewhere:
                start = origin_start
            size = origin_sizes[row]
        first = _extent_of(data_starts, start, first)
        if first < 0:
            return -1
        end = start + size
        extent = first
        while extent == first or (not is_elsewhere and extent < len(extents) and data_starts[extent] < end):
            if count < room:
                data_start = data_starts[extent]
                piece_start = data_start if is_elsewhere else max(start, data_start)
                piece_end = min(end, data_start + extent_sizes[extent])
                columns[0, count] = file_nos[extent]
                columns[1, count] = file_offsets[extent] + piece_start - data_start
                columns[2, count] = size if is_elsewhere else piece_end - piece_start
                columns[3, count] = extent > first
                columns[_STORED, count] = plain_size
                columns[_STORED + 1, count] = inner_no
                _describe(events, groups, row, columns, unsigned, count)
            count += 1
            extent += 1
    return count


@kernel
def _extent_of(data_starts: Int64s, start: int, near: int) -> int:
    # The last extent that begins at *start* or before; mostly it is *near*, or the one after it. -1: none does.
    low, high = 0, len(data_starts)
    if near < high and data_starts[near] <= start:
        low = near + 1
        if low == high or data_starts[low] > start:
            return near
    while low < high:
        middle = (low + high) >> 1
        if data_starts[middle] <= start:
            low = middle + 1
        else:
            high = middle
    return low - 1


@kernel
def _describe(events: Table, groups: Table, row: int, columns: Int64s, unsigned: Uint64s, at: int) -> None:
    group = events["group"][row]
    columns[_EVENT, at] = events["type"][row]
    columns[_EVENT + 1, at] = events["flags"][row]
    columns[_EVENT + 2, at] = events["event_no"][row]
    columns[_GROUP, at] = groups["file_no"][group]
    columns[_GROUP + 1, at] = groups["page"][group]
    columns[_GROUP + 2, at] = groups["chunk"][group]
    columns[_GROUP + 3, at] = groups["timestamp"][group]
    columns[_GROUP + 4, at] = groups["domain"][group]
    columns[_GROUP + 5, at] = groups["server_id"][group]
    unsigned[_GROUP + 6, at] = groups["seqno"][group]
    columns[_GROUP + 7, at] = groups["gtid_flags"][group]
    columns[_GROUP + 8, at] = groups["gtid_source"][group]
    columns[_GROUP + 9, at] = groups["has_gtid"][group]
    columns[_MORE, at] = np.int64(events["timestamp"][row]) - np.int64(groups["timestamp"][group])
    columns[_MORE + 1, at] = np.int64(events["server_id"][row]) - np.int64(groups["server_id"][group])
