"""The place in a job's log of a point of its server: `parse_point`, `offset_of`, `rows_place`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from binlog_connector.following.starts import initial_offset
from binlog_connector.following.watched import file_start
from binlog_format.errors import OptionError, StartError
from binlog_format.gtids.gtid import GtidPosition
from binlog_format.gtids.gtid_history import gtid_of
from binlog_format.gtids.gtid_set import is_gtid_set, parse_gtids
from binlog_format.log.log import ServerPosition, parse_position
from binlog_streaming.snapshot.locked_point import LogPoint
from binlog_streaming.snapshot.reading.table_rows import RowsPlace

if TYPE_CHECKING:
    from binlog_connector.following.offsets import SourceOffset
    from binlog_connector.following.watched import WatchedLog
    from binlog_format.gtids.gtid_set import GtidPoint

PATIENCE_SECONDS = 60.0
"""Seconds to wait for a log that comes over a network: it may get the server's last events a little later."""
_PAUSE_SECONDS = 0.2
_NOT_THERE = frozenset({"GTID_NOT_FOUND", "POSITION_NOT_FOUND"})


def parse_point(text: str, option: str) -> LogPoint | GtidPoint:
    """Read GTIDs, or a place as a server names it: `mysql-bin.000001:14542`.

    Raises:
        OptionError: `INVALID_VALUE`: it is neither.
    """
    try:
        if not is_gtid_set(text) and ":" in text:
            place = parse_position(text)
            if isinstance(place, ServerPosition):
                return LogPoint(place.name, place.byte, GtidPosition({}))
        return parse_gtids(text)
    except ValueError as error:
        hint = "GTIDs such as 0-1-575 (MariaDB) or UUID:1-77 (MySQL), or mysql-bin.000001:14542"
        raise OptionError("INVALID_VALUE", f"{option} {text}: {error}", hint=hint) from error


def offset_of(watched: WatchedLog, point: LogPoint | GtidPoint) -> SourceOffset:
    """Find the offset at which to continue after a point.

    Args:
        point: In the server's log; or all that had been logged there.

    Raises:
        StartError: `GTID_NOT_FOUND`, `POSITION_NOT_FOUND`: the log does not reach that far, or has no such place.
        DataLossError: `GTID_PURGED`.
    """
    start: ServerPosition | GtidPoint
    if isinstance(point, LogPoint):
        by_byte = watched.log.traits.has_byte_positions or not point.gtid
        start = ServerPosition(point.name, point.byte) if by_byte else point.gtid
    else:
        start = point
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            offset = initial_offset(watched, start)
            break
        except StartError as error:
            if error.subclass not in _NOT_THERE or time.monotonic() > end:
                raise
            time.sleep(_PAUSE_SECONDS)
    if offset.skip_gtid:
        raise StartError(
            "GTID_NOT_FOUND",
            f"{watched.log.path}: no place of the log has {start} and nothing else before it: {offset.skip_gtid} "
            f"comes after {offset.position}",
            hint="Name the last GTID of every domain at one place of the log",
        )
    return offset


def rows_place(watched: WatchedLog, offset: SourceOffset) -> RowsPlace:
    """Find the place of rows that were read at *offset*; scans the file before it."""
    position = offset.position
    for file_no in reversed([number for number in watched.names() if number <= position.file_no]):
        last = None
        for block in watched.log.blocks(file_start(file_no), position):
            if len(block.groups):
                last = block.groups[-1], block.gtid_sources
        if last is not None:
            return RowsPlace(position, gtid_of(*last), int(last[0]["timestamp"]))
    return RowsPlace(position, None, int(time.time()))
