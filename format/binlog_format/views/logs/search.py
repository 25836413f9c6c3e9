"""Where in a structured log a time is: `find_event_time`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.errors import StartError
from binlog_format.position import Position
from binlog_format.structured.layout import NS_PER_SECOND, VIRTUAL_PAGE_SIZE
from binlog_format.structured.times import event_times

if TYPE_CHECKING:
    from binlog_format.entries.entry_log import EntryLog


def find_event_time(log: EntryLog, seconds: int) -> Position:
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
