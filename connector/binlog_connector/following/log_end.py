"""Offsets at places that every log has (`start_of_log`, `start_of_file`, `end_of_log`) and elsewhere (`offset_at`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from binlog_connector.following.entry_marks import marks_after, marks_at, marks_over
from binlog_connector.following.offsets import NOTHING_SKIPPED, SourceOffset
from binlog_connector.following.watched import file_start
from binlog_format.errors import DataLossError
from binlog_format.gtids.gtid_set import NO_GTIDS
from binlog_format.position import Place

if TYPE_CHECKING:
    from binlog_connector.following.entry_marks import EntryMarks
    from binlog_connector.following.offsets import Skip
    from binlog_connector.following.watched import WatchedLog
    from binlog_format.gtids.gtid_set import GtidPoint
    from binlog_format.log_format import Span
    from binlog_format.position import Position
    from binlog_format.structured.event_log import FoundDamage


def offset_at(
    watched: WatchedLog,
    position: Position,
    *,
    gtid: GtidPoint,
    skip: Skip = NOTHING_SKIPPED,
    marks: EntryMarks | None = None,
) -> SourceOffset:
    """The offset at *position*, with the marks that `compare` looks for later.

    Args:
        gtid: What is consumed there.
        skip: What is to be left out after it.
        marks: Of a structured log, where they are known; else they are looked for from the start of the log on.

    Raises:
        DataLossError: `TRUNCATED_TRANSACTION`: the log was cut since *position* was found; nothing would show it later.
    """
    is_there = watched.has(position.file_no)
    fingerprint = watched.files.identity(position.file_no) if is_there else ""
    crc = watched.consumed_crc(position) if is_there else None
    if fingerprint and crc is None and position > file_start(position.file_no) and watched.log.traits.has_changes:
        raise DataLossError(
            "TRUNCATED_TRANSACTION",
            f"the log ended at {position} a moment ago, and ends before that now",
            at=Place(watched.files.path_of(watched.names()[position.file_no]), page=position.page),
            hint="The server crashed and lost its last transactions; start again",
        )
    marks = marks_at(watched, position) if marks is None else marks
    return SourceOffset(
        position=position,
        format=watched.log.format_name,
        fingerprint=fingerprint,
        gtid=gtid,
        skip_gtid=skip.skip_gtid,
        skip_to=skip.skip_to,
        last_page_crc=crc,
        state=marks.state,
        files=marks.files,
        ended_inode=marks.ended_inode,
    )


def offset_over_damage(watched: WatchedLog, begin: SourceOffset, found: FoundDamage) -> SourceOffset:
    """The offset at the end of the events before the damage that comes after *begin*; where none are, after it."""
    if found.event_count:
        return offset_at(watched, found.position, gtid=NO_GTIDS, marks=marks_after(watched, begin, found.position))
    return offset_at(watched, found.go_on, gtid=NO_GTIDS, marks=marks_over(watched, begin, found))


def start_of_log(watched: WatchedLog) -> SourceOffset:
    """The earliest offset that is still there."""
    position, gtids = watched.log.gtids_before_start()
    return offset_at(watched, position, gtid=gtids)


def start_of_file(watched: WatchedLog, file_no: int) -> SourceOffset:
    """Position before everything in one file."""
    start = file_start(file_no)
    return offset_at(watched, start, gtid=watched.log.gtid_position_at(start))


class SeenEnd(NamedTuple):
    """The end of a log, as it was at some time.

    Attributes:
        offset: After the last complete event group.
        span: Groups before it; None: there are none.
    """

    offset: SourceOffset
    span: Span | None


def end_of_log(watched: WatchedLog) -> SourceOffset:
    """Position after the last complete event group; scans the last file in which a group ends."""
    return log_end(watched).offset


def log_end(watched: WatchedLog) -> SeenEnd:
    """`end_of_log`, and what the scan has found."""
    found = _last_span(watched)
    if found is None:
        return SeenEnd(start_of_log(watched), None)
    start, span = found
    gtids = watched.log.gtid_position_at(start).advanced_by(span.gtids)
    return SeenEnd(offset_at(watched, span.end, gtid=gtids), span)


def end_position(watched: WatchedLog) -> Position:
    """The place of `end_of_log`, without a scan where the log itself records it."""
    if watched.log.traits.is_indexed:
        return watched.log.end_position()
    found = _last_span(watched)
    return watched.log.start_position() if found is None else found[1].end


def _last_span(watched: WatchedLog) -> tuple[Position, Span] | None:
    """Start and groups of the last file that has groups.

    A stale listing may show older files than the log has now; what is before a gap of the numbers is not looked at.
    """
    names = watched.names()
    for file_no in reversed(names):
        is_after_gap = file_no - 1 not in names and file_no > min(names)
        if watched.files.identity(file_no):
            # Of a long record that began in an earlier file, this file alone would show nothing.
            start = file_start(file_no)
            span = watched.log.span(start)
            if span.groups or is_after_gap:
                return start, span
        if is_after_gap:
            return None
    return None
