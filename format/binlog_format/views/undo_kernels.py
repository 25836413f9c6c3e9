"""Kernel that finds row events which a later statement of the same group takes back: `mark_undone`.

A server normally cuts what is rolled back out of the log. Where it cannot (a table without transactions was changed
meanwhile, a temporary table was made), rows stay and a QUERY event says that they never happened: `ROLLBACK TO` a
savepoint, or `ROLLBACK` as the group's end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.events.layout import EventType
from binlog_format.events.query_layout import (
    QUERY_DATABASE_SIZE_OFFSET,
    QUERY_FIXED_SIZE,
    QUERY_STATUS_SIZE_OFFSET,
)
from binlog_format.kernels import as_bytes, kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_format.kernels import Bytes

    Int64s = NDArray[np.int64]

UNDO_NOTHING = 0
UNDO_FOUND = 1
UNDO_SAVEPOINT_UNKNOWN = 2
UNDO_GROUP_CUT = 3
UNDO_BAD_EVENT = 4

_QUERY = int(EventType.QUERY)
_SAVEPOINT = as_bytes(b"SAVEPOINT ")
_ROLLBACK_TO = as_bytes(b"ROLLBACK TO ")
_ROLLBACK = as_bytes(b"ROLLBACK")


@kernel
def _upper(byte: int) -> int:
    return byte - 32 if 97 <= byte <= 122 else byte


@kernel
def _starts_with(data: Bytes, start: int, end: int, word: Bytes) -> bool:
    if end - start < word.size:
        return False
    for index in range(word.size):
        if _upper(data[start + index]) != word[index]:
            return False
    return True


@kernel
def _same(data: Bytes, first: int, first_size: int, second: int, second_size: int) -> bool:
    if first_size != second_size:
        return False
    for index in range(first_size):
        if _upper(data[first + index]) != _upper(data[second + index]):
            return False
    return True


@kernel
def mark_undone(
    data: Bytes, starts: Int64s, sizes: Int64s, types: Bytes, groups: Int64s, undone: Bytes, begins: Bytes
) -> tuple[int, int]:
    """Set *undone* to 1 for the events of a block that a rollback in their group takes back.

    Args:
        data: The block's bytes.
        starts: Of each event.
        sizes: Of each event.
        types: Of each event.
        groups: Of each event: its row in the group table, not descending.
        undone: Of each event; zeros, filled here.
        begins: Of each group: 1 when its first event is in this block.

    Returns:
        `UNDO_...`, and the event where it stopped: a rollback to a savepoint which is not in the block, or of a group
        that began in an earlier block.
    """
    points = np.empty((np.sum(types == _QUERY), 3), dtype=np.int64)  # event, place and size of the savepoint's name
    count = 0
    first = 0
    found = UNDO_NOTHING
    for event in range(types.size):
        if groups[event] != groups[first]:
            first = event
            count = 0
        if types[event] != _QUERY:
            continue
        start, end = starts[event], starts[event] + sizes[event]
        if sizes[event] < QUERY_FIXED_SIZE:
            return UNDO_BAD_EVENT, event
        status_size = np.int64(data[start + QUERY_STATUS_SIZE_OFFSET])
        status_size += np.int64(data[start + QUERY_STATUS_SIZE_OFFSET + 1]) << 8
        text = start + QUERY_FIXED_SIZE + status_size + np.int64(data[start + QUERY_DATABASE_SIZE_OFFSET]) + 1
        if text > end:
            return UNDO_BAD_EVENT, event
        if _starts_with(data, text, end, _SAVEPOINT):
            name = text + _SAVEPOINT.size
            points[count, 0], points[count, 1], points[count, 2] = event, name, end - name
            count += 1
        elif _starts_with(data, text, end, _ROLLBACK_TO):
            name = text + _ROLLBACK_TO.size
            # Of two savepoints of one name the later one has replaced the earlier.
            while count > 0 and not _same(data, points[count - 1, 1], points[count - 1, 2], name, end - name):
                count -= 1
            if count == 0:
                return UNDO_SAVEPOINT_UNKNOWN, event
            undone[points[count - 1, 0] + 1 : event] = 1
            found = UNDO_FOUND
        elif end - text == _ROLLBACK.size and _starts_with(data, text, end, _ROLLBACK):
            if begins[groups[event]] == 0:
                return UNDO_GROUP_CUT, event
            undone[first:event] = 1
            found = UNDO_FOUND
    return found, -1
