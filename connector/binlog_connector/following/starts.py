"""From what the user wrote to where a query begins and ends: `initial_offset`, `ending`; and batches: `advance`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from binlog_connector.following.edges import end_of_log, end_position, offset_at, start_of_log
from binlog_connector.following.offsets import SourceOffset
from binlog_connector.following.resume import compare
from binlog_connector.following.watched import file_start
from binlog_format.detect import INNODB
from binlog_format.errors import DataLossError, StartError
from binlog_format.gtid import GtidPosition
from binlog_format.gtid_groups import covered_groups, gtids_of, still_waiting
from binlog_format.gtid_set import NO_GTIDS, GtidSet, check_kind
from binlog_format.position import Position
from binlog_format.search import find_time
from binlog_format.transactions.xa import pending_after

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_connector.following.watched import WatchedLog
    from binlog_format.block import Block
    from binlog_format.gtid_set import GtidPoint
    from binlog_format.log import GtidStart, Span
    from binlog_format.transactions.xa import XaStep


class Edge(StrEnum):
    """The two ends of a log."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Moment:
    """A time, as a user says it.

    Attributes:
        seconds: Since 1970 UTC.
        said_by: Name of the option, for messages.
    """

    seconds: int
    said_by: str = "startingTimestamp"


Start = Edge | SourceOffset | GtidPosition | GtidSet | Moment
"""What a user may say of where a query begins, or ends."""


def initial_offset(watched: WatchedLog, start: Start) -> SourceOffset:
    """Where a new query begins.

    Raises:
        StartError: `POSITION_NOT_FOUND`, `GTID_NOT_FOUND`, `TIMESTAMP_NOT_FOUND`: the log does not reach that far.
        DataLossError: What lies between the start and the earliest file has been purged.
    """
    if start is Edge.EARLIEST:
        return start_of_log(watched)
    if start is Edge.LATEST:
        return end_of_log(watched)
    if isinstance(start, GtidPosition | GtidSet):
        return _after_gtids(watched, start)
    if isinstance(start, Moment):
        return _at_time(watched, start)
    assert isinstance(start, SourceOffset)
    return _at_position(watched, start)


def initial_offset_or_gap(watched: WatchedLog, start: Start) -> tuple[SourceOffset, DataLossError | None]:
    """`initial_offset` for who accepts losses: what is purged is left out, and said."""
    try:
        return initial_offset(watched, start), None
    except DataLossError as error:
        first = start_of_log(watched)
        taken = start if isinstance(start, GtidPosition | GtidSet) else NO_GTIDS
        return replace(first, skip_gtid=not_passed(taken, first.gtid)), error


class Ending(NamedTuple):
    """Where a query ends.

    Attributes:
        position: The first place that is not read; None: the end of data.
        until: Only groups that this covers are wanted; None: all.
    """

    position: Position | None = None
    until: GtidPoint | None = None

    def taken(self, before: GtidPoint, reached: GtidPoint) -> GtidPoint:
        """What has been taken at a place of the log up to which it has *reached*; *before* was taken at the start."""
        if self.until is None or not reached:
            return reached
        if isinstance(reached, GtidSet):
            return before.advanced_by(reached.without(reached.without(self.until)))
        if not isinstance(self.until, GtidPosition):
            return before
        limits = {
            domain: gtid if self.until.covers(gtid) else self.until.last[domain]
            for domain, gtid in reached.last.items()
            if domain in self.until.last
        }
        return before.advanced_by(GtidPosition(limits).without(before))


def ending(watched: WatchedLog, end: Start, start: Position) -> Ending:
    """Where a query ends that begins at *start*.

    A time ends it before the first group that was committed then or later; a time that has not come yet, at the end of
    data. GTIDs are the last ones to be read; a domain that they do not name is not read.

    Raises:
        StartError: `START_AFTER_END`; `GTID_NOT_FOUND`, `POSITION_NOT_FOUND`: the log does not reach that far.
    """
    if isinstance(end, Edge):
        return Ending()
    if isinstance(end, GtidPosition | GtidSet):
        return _behind_gtids(watched, end, start)
    position = end.position if isinstance(end, SourceOffset) else _before_time(watched, end)
    if position is None:
        return Ending()
    if position < start:
        raise StartError(
            "START_AFTER_END",
            f"{watched.log.path}: the query begins at {start}, behind its end {position}",
            hint="Leave the start or the end away, or choose others",
        )
    if isinstance(end, SourceOffset) and position > end_position(watched):
        raise _position_not_found(watched, "endingOffsets", position)
    return Ending(position)


class Advance(NamedTuple):
    """Where a batch ends, and what its groups do to XA transactions whose rows stand elsewhere."""

    offset: SourceOffset
    xa: tuple[XaStep, ...] = ()


def advance(
    watched: WatchedLog,
    start: SourceOffset,
    *,
    size_max: int | None = None,
    files_max: int | None = None,
    end: Position | None = None,
) -> Advance:
    """The offset behind what a batch from *start* on may read; *start* itself when nothing is new.

    Args:
        watched: The log.
        start: Where the batch begins.
        size_max: Bytes; at least one group is taken when there is one.
        files_max: Files that it may begin groups of; more only to reach the first group.
        end: Groups from there on are not for this batch; None: up to the end of data.
    """
    begin, gtid = start.position, start.gtid
    if size_max is None and files_max is None:
        begin, gtid = _behind_whole_files(watched, start, end)
    span = _span(watched, begin, size_max, files_max, end)
    if span.groups == 0 and span.end.file_no == start.position.file_no:
        return Advance(start)
    gtid = gtid.advanced_by(span.gtids)
    behind = offset_at(watched, span.end, gtid=gtid, skip_gtid=not_passed(start.skip_gtid, gtid))
    return Advance(replace(behind, prepared_xa=pending_after(start.prepared_xa, span.xa)), span.xa)


def _behind_whole_files(watched: WatchedLog, start: SourceOffset, end: Position | None) -> tuple[Position, GtidPoint]:
    """Where to look for the end of a batch without limits, and what is consumed there.

    An `innodb` file says which GTIDs were committed before it, so only the last one has to be scanned. All files up to
    it must be there: what lacks is found by scanning.
    """
    first = start.position.file_no
    # A server makes the next file before it needs it; where there is no more than that, hardly anything can be skipped.
    if watched.log.format_name != INNODB or watched.last_number() <= first + 1:
        return start.position, start.gtid
    last = (end_position(watched) if end is None else end).file_no
    if last <= first or not all(map(watched.has, range(first, last + 1))):
        return start.position, start.gtid
    begin = file_start(last)
    return begin, start.gtid.advanced_by(watched.log.gtid_position_at(begin))


def _span(
    watched: WatchedLog, start: Position, size_max: int | None, files_max: int | None, end: Position | None
) -> Span:
    if files_max is None:
        return watched.log.span(start, end=end, size_max=size_max)
    last = watched.last_number()
    stop = start.file_no + files_max
    while True:
        limit = file_start(stop)
        if stop > last or (end is not None and end <= limit):
            return watched.log.span(start, end=end, size_max=size_max)
        span = watched.log.span(start, end=limit, size_max=size_max)
        if span.groups:
            return span
        stop += 1  # a transaction that goes through several files, or files without any


def not_passed(skip: GtidPoint, consumed: GtidPoint) -> GtidPoint:
    """What of *skip* may still follow behind *consumed*: domains, or transactions of a set."""
    return skip.without(consumed)


def _at_position(watched: WatchedLog, start: SourceOffset) -> SourceOffset:
    decision = compare(watched, start)
    if decision.loss is not None:
        raise decision.loss
    if start.last_page_crc is None and start.position > end_position(watched):
        raise _position_not_found(watched, "startingOffsets", start.position)
    gtid = start.gtid or watched.log.gtid_position_at(start.position)
    there = offset_at(watched, start.position, gtid=gtid, skip_gtid=start.skip_gtid)
    return replace(there, prepared_xa=start.prepared_xa)


def _position_not_found(watched: WatchedLog, name: str, position: Position) -> StartError:
    return StartError(
        "POSITION_NOT_FOUND",
        f"{watched.log.path}: {name}: the log ends before {position}",
        hint="Use an offset of this log, for example from a query's progress, or earliest or latest",
    )


def _at_time(watched: WatchedLog, start: Moment) -> SourceOffset:
    position = _before_time(watched, start)
    if position is None:
        raise StartError(
            "TIMESTAMP_NOT_FOUND",
            f"{watched.log.path}: {start.said_by}: all transactions were committed before {_time_text(start)}",
            hint="startingOffsets latest waits for what comes next",
        )
    return offset_at(watched, position, gtid=watched.log.gtid_position_at(position))


def _before_time(watched: WatchedLog, moment: Moment) -> Position | None:
    try:
        return find_time(watched.log, moment.seconds)
    except StartError as error:
        if error.subclass != "TIMESTAMP_NOT_FOUND":
            raise
        return None


def _time_text(moment: Moment) -> str:
    return datetime.fromtimestamp(moment.seconds, UTC).isoformat().replace("+00:00", "Z")


def _behind_gtids(watched: WatchedLog, wanted: GtidPoint, start: Position) -> Ending:
    """Right behind the last group that *wanted* names; what it does not cover before that is to be left out."""
    check_kind(watched.log.gtid_position_at(watched.log.start_position()), wanted)
    first = max(_start_behind(watched, wanted, "endingGtid").position, start)
    waiting = wanted.without(watched.log.gtid_position_at(first))
    position = first
    if waiting:
        for block in watched.log.blocks(first):
            waiting_for, waiting = waiting, _waiting_behind(block, waiting)
            position = block.next_position
            if not waiting:
                position = _behind_last(block, waiting_for)
                break
    if waiting:
        raise StartError(
            "GTID_NOT_FOUND",
            f"{watched.log.path}: endingGtid: {waiting} has not been logged",
            hint="Leave it away to read up to the end of data",
        )
    return Ending(position, wanted)


def _waiting_behind(block: Block, waiting: GtidPoint, count: int | None = None) -> GtidPoint:
    groups = block.groups[:count]
    return still_waiting(waiting, groups[groups["ends"]], block.gtid_sources)


def _behind_last(block: Block, waiting: GtidPoint) -> Position:
    """Where the group begins that follows the last one which *waiting* waits for; all of these end in *block*."""
    low, high = 0, len(block.groups)  # behind `high` groups nothing is waited for, behind `low` something is
    while high - low > 1:
        middle = (low + high) // 2
        if _waiting_behind(block, waiting, middle):
            low = middle
        else:
            high = middle
    return _position(block, high) if high < len(block.groups) else block.next_position


def _after_gtids(watched: WatchedLog, wanted: GtidPoint) -> SourceOffset:
    """The first group that *wanted* does not cover."""
    end = end_of_log(watched)
    check_kind(end.gtid, wanted)
    _check_is_logged(watched, wanted, end.gtid)
    start = _start_behind(watched, wanted)
    state = start.before
    for block in watched.log.blocks(min(start.position, end.position), end.position):
        uncovered = np.flatnonzero(~_covered(block, wanted))
        passed = block.groups if len(uncovered) == 0 else block.groups[: uncovered[0]]
        state = state.advanced_by(gtids_of(passed, block.gtid_sources))
        if len(uncovered):
            position = _position(block, int(uncovered[0]))
            return offset_at(watched, position, gtid=state, skip_gtid=not_passed(wanted, state))
    return offset_at(watched, end.position, gtid=end.gtid, skip_gtid=not_passed(wanted, end.gtid))


def _check_is_logged(watched: WatchedLog, wanted: GtidPoint, logged: GtidPoint) -> None:
    """See that the log has come as far as *wanted* in each domain, or with each source, that it knows."""
    if isinstance(wanted, GtidSet) and isinstance(logged, GtidSet):
        missing = wanted.of_sources(logged.intervals).without(logged)
        if missing:
            raise StartError(
                "GTID_NOT_FOUND",
                f"{watched.log.path}: startingGtid: {missing} has not been logged, the log's last set is {logged}",
                hint="Give what has been taken, for example the server's gtid_executed at the copy",
            )
    if isinstance(wanted, GtidSet) or isinstance(logged, GtidSet):
        return
    for domain, gtid in sorted(wanted.last.items()):
        last = logged.last.get(domain)
        if last is not None and last.seqno < gtid.seqno:
            raise StartError(
                "GTID_NOT_FOUND",
                f"{watched.log.path}: startingGtid {gtid}: the log's last GTID of domain {domain} is {last}",
                hint="Give the last GTID that has been taken, for example the server's gtid_binlog_pos at the copy",
            )


def _start_behind(watched: WatchedLog, wanted: GtidPoint, said_by: str = "startingGtid") -> GtidStart:
    try:
        return watched.log.position_of(wanted)
    except DataLossError as error:
        if error.subclass != "GTID_PURGED":
            raise
        state = watched.log.gtid_position_at(watched.log.start_position())
        raise DataLossError(
            "GTID_PURGED",
            f"{watched.log.path}: {said_by}: the earliest file begins at GTID {state}, "
            f"so transactions between {wanted or '(none)'} and that have been purged",
            hint="Copy the tables again and start from the GTID of that copy",
        ) from error


def _covered(block: Block, wanted: GtidPoint) -> NDArray[np.bool_]:
    covered = covered_groups(wanted, block.groups, block.gtid_sources)
    if isinstance(wanted, GtidPosition):
        # A group without GTID holds no rows (the description of a restarted server); of MySQL it is an anonymous one.
        covered |= ~block.groups["has_gtid"]
    return covered


def _position(block: Block, row: int) -> Position:
    group = block.groups[row]
    return Position(int(group["file_no"]), int(group["page"]), int(group["chunk"]))
