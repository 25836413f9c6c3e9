"""Where a GTID or a time is in a log: `find_gtid`, `find_time`, `range_positions`."""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.errors import DataLossError, StartError
from binlog_format.gtid import Gtid, GtidPosition
from binlog_format.gtid_groups import gtid_of
from binlog_format.gtid_set import GtidSet, MysqlGtid, check_kind
from binlog_format.position import Position
from binlog_format.views.group_filter import GroupFilter

if TYPE_CHECKING:
    from binlog_format.block import Table
    from binlog_format.gtid_set import AnyGtid
    from binlog_format.log import Log
    from binlog_format.views.read_range import ReadRange

CLOCK_SLACK_SECONDS = 3600
"""Commit times go back when transactions take long or a clock is set: so much earlier a search by time begins."""

_SEQNO_MAX = 2**64 - 1


def find_gtid(log: Log, gtid: AnyGtid) -> Position:
    """Position of the group with this GTID.

    The GTID states of a log lead to it; the groups of one file at most are looked at.

    Raises:
        DataLossError: `GTID_PURGED`: it is older than the log.
        OptionError: `INVALID_VALUE`: the log has GTIDs of the other vendor.
        StartError: `GTID_NOT_FOUND`.
    """
    first = log.start_position()
    known = log.gtid_position_at(first)
    places = [Position(file.file_no, first.page, first.chunk) for file in log.files() if file.header]
    if isinstance(gtid, MysqlGtid):
        check_kind(known, GtidSet.of([(gtid.source, (gtid.seqno, gtid.seqno))]))
        start, end = _file_of(log, gtid, places)
    else:
        check_kind(known, GtidPosition.of([gtid]))
        start, end = _stretch_of(log, gtid, places)
    for block in log.blocks(start, end):
        groups = block.groups
        is_it = groups["has_gtid"] & groups["begins"] & (groups["seqno"] == np.uint64(gtid.seqno))
        for row in np.flatnonzero(is_it).tolist():
            if gtid_of(groups[row], block.gtid_sources) == gtid:
                return _position(groups, row)
    raise StartError(
        "GTID_NOT_FOUND",
        f"{gtid} is not in the log",
        hint="It may not have been written to disk yet: FLUSH BINARY LOGS forces it out",
    )


def _file_of(log: Log, gtid: MysqlGtid, places: list[Position]) -> tuple[Position, Position | None]:
    """The last file that begins without *gtid*, and where the next one does."""
    number = bisect.bisect_left(places, True, key=lambda place: log.gtid_position_at(place).covers(gtid))
    if number == 0 and places:
        raise _purged(log, gtid)
    start = places[number - 1] if places else log.start_position()
    return start, places[number] if number < len(places) else None


def _stretch_of(log: Log, gtid: Gtid, places: list[Position]) -> tuple[Position, Position | None]:
    """Where the log's GTID states allow *gtid* to be."""
    known = set()
    for place in (log.start_position(), *places[-1:]):
        point = log.gtid_position_at(place)
        known |= set(point.last) if isinstance(point, GtidPosition) else set()
    # Whatever other domains hold is of no interest; of its own domain, everything before it has been passed.
    passed = {domain: Gtid(domain, 0, _SEQNO_MAX) for domain in known}
    passed[gtid.domain] = Gtid(gtid.domain, gtid.server, gtid.seqno - 1)
    try:
        start = log.position_of(GtidPosition(passed)).position
    except DataLossError as error:
        raise _purged(log, gtid) from error
    later = (place for place in places if place > start and log.gtid_position_at(place).covers(gtid))
    return start, next(later, None)


def _purged(log: Log, gtid: AnyGtid) -> DataLossError:
    return DataLossError(
        "GTID_PURGED",
        f"{gtid} is older than the log, which begins behind {log.gtid_position_at(log.start_position())}",
        hint="The server has purged its file",
    )


def find_time(log: Log, seconds: int) -> Position:
    """Position of the first group that was committed at *seconds* since 1970 UTC, or later.

    Files that end more than `CLOCK_SLACK_SECONDS` before that are not looked into.

    Raises:
        StartError: `TIMESTAMP_NOT_FOUND`: all groups are older.
    """
    for block in log.blocks(_start_for_time(log, seconds)):
        groups = block.groups
        rows = np.flatnonzero(groups["begins"] & (groups["timestamp"] >= seconds))
        if len(rows):
            return _position(groups, int(rows[0]))
    raise StartError("TIMESTAMP_NOT_FOUND", "all event groups of the log were committed before that time")


def range_positions(log: Log, part: ReadRange) -> tuple[Position | None, Position | None]:
    """The positions that hold a range, for what knows no GTIDs.

    Returns:
        The first group that `part.skip` does not cover, and the place behind the last one that `part.until` covers.
    """
    start, end = part.start, part.end
    if part.skip is None and part.until is None:
        return start, end
    wanted = GroupFilter(part.skip, part.until)
    found_start: Position | None = None
    found_end: Position | None = None
    for block in part.stored_blocks(log):
        keep = wanted.keep(block)
        rows = np.flatnonzero(keep) if keep is not None else np.arange(len(block.groups))
        if not len(rows):
            continue
        found_start = found_start or _position(block.groups, int(rows[0]))
        last = int(rows[-1])
        is_last = last + 1 == len(block.groups)
        found_end = block.next_position if is_last else _position(block.groups, last + 1)
    if found_start is None:
        raise StartError("GTID_NOT_FOUND", "no event group of the log lies in the range", hint="See what `files` says")
    return (start if part.skip is None else found_start), (end if part.until is None else found_end)


def _start_for_time(log: Log, seconds: int) -> Position:
    """The start of the last file that begins long enough before a time, by halving."""
    start = log.start_position()
    places = [Position(file.file_no, start.page, start.chunk) for file in log.files() if file.header]
    low, high = 0, len(places)
    while high - low > 1:
        middle = (low + high) // 2
        # A group is taken whatever its size, and no more than one.
        first = log.span(places[middle], size_max=1).last_timestamp
        is_before = first is not None and first < seconds - CLOCK_SLACK_SECONDS
        low, high = (middle, high) if is_before else (low, middle)
    return places[low] if places else start


def _position(groups: Table, row: int) -> Position:
    group = groups[row]
    return Position(int(group["file_no"]), int(group["page"]), int(group["chunk"]))
