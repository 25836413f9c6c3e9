"""Start and end of a query, from the user's options: `initial_offset`, `ending`; and of batches: `advance`."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from binlog_connector.following.entry_marks import EntryMarks, damage_after, marks_after
from binlog_connector.following.log_end import end_of_log, end_position, offset_at, offset_over_damage, start_of_log
from binlog_connector.following.offsets import Skip, SourceOffset, skip_after, skip_at
from binlog_connector.following.resume import compare
from binlog_connector.following.watched import file_start
from binlog_format.errors import CorruptError, DataLossError, OptionError, StartError
from binlog_format.gtids.gtid import GtidPosition
from binlog_format.gtids.gtid_set import NO_GTIDS, DomainStarts, GtidSet
from binlog_format.log.log import ServerPosition, check_end, check_start, resolve_position, shown_position
from binlog_format.log.search import check_is_logged, end_of_gtids
from binlog_format.transactions.xa import pending_after

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from binlog_connector.following.watched import WatchedLog
    from binlog_format.gtids.gtid import Gtid
    from binlog_format.gtids.gtid_set import GtidPoint, Taken
    from binlog_format.log.log import Log
    from binlog_format.log_format import Span
    from binlog_format.position import Position
    from binlog_format.structured.event_log import FoundDamage
    from binlog_format.transactions.xa import XaStep


class Edge(StrEnum):
    """The two ends of a log."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class StartMoment:
    """A time, as a user gives it. *seconds*: since 1970 UTC. *said_by*: name of the option, for messages."""

    seconds: int
    said_by: str = "startingTimestamp"


Start = Edge | SourceOffset | ServerPosition | GtidPosition | GtidSet | StartMoment
"""Values that a user may give for the start or the end of a query."""


def initial_offset(watched: WatchedLog, start: Start) -> SourceOffset:
    """Find the start of a new query.

    Raises:
        StartError: `POSITION_NOT_FOUND`, `GTID_NOT_FOUND`, `TIMESTAMP_NOT_FOUND`: the log does not reach that far.
        DataLossError: What lies between the start and the earliest file has been purged.
    """
    if start is Edge.EARLIEST:
        return start_of_log(watched)
    if start is Edge.LATEST:
        return end_of_log(watched)
    if isinstance(start, GtidPosition | GtidSet):
        _check_has_gtids(watched, "startingGtid")
        return _after_gtids(watched, start)
    if isinstance(start, StartMoment):
        return _at_time(watched, start)
    if isinstance(start, ServerPosition):
        start = SourceOffset(resolve_position(watched.log, "startingOffsets", start))
    assert isinstance(start, SourceOffset)
    return _at_position(watched, start)


def initial_offset_or_gap(watched: WatchedLog, start: Start) -> tuple[SourceOffset, DataLossError | None]:
    """`initial_offset` for who accepts losses: what is purged is left out, and said."""
    try:
        return initial_offset(watched, start), None
    except DataLossError as error:
        first = start_of_log(watched)
        taken = start if isinstance(start, GtidPosition | GtidSet) else NO_GTIDS
        return replace(first, skip_gtid=taken.without(first.gtid)), error


class Ending(NamedTuple):
    """End of a query.

    Attributes:
        position: The first place that is not read; None: the end of the log.
        until: The last GTIDs that are wanted; None: all.
        wanted: Which groups these cover.
    """

    position: Position | None = None
    until: GtidPoint | None = None
    wanted: Taken | None = None

    def taken(self, start: SourceOffset, reached: GtidPoint, position: Position) -> GtidPoint:
        """GTIDs that a reader from *start* has taken when it reaches *position*.

        Args:
            start: Where it began, and what had been taken there.
            reached: The log's GTIDs before *position*.
        """
        if self.until is None or not reached:
            return reached
        if isinstance(reached, GtidSet):
            return start.gtid.advanced_by(reached.without(reached.without(self.until)))
        if not isinstance(self.until, GtidPosition) or not isinstance(self.wanted, DomainStarts):
            return start.gtid
        found: dict[int, Gtid] = {}
        for domain, end in self.wanted.places.items():
            if end > start.position and domain in reached.last:  # else it had ended before
                found[domain] = self.until.last[domain] if end <= position else reached.last[domain]
        return start.gtid.advanced_by(GtidPosition(found))


def ending(watched: WatchedLog, end: Start, start: Position) -> Ending:
    """Find the end of a query that begins at *start*.

    A time ends it before the first group that was committed then or later; a time that has not come yet, at the end of
    data; of a structured log always there, as earlier events may follow. GTIDs are the last ones to be read; a
    domain that they do not name is not read.
    """
    if isinstance(end, Edge):
        return Ending()
    if isinstance(end, GtidPosition | GtidSet):
        _check_has_gtids(watched, "endingGtid")
        return _after_last(watched, end, start)
    if isinstance(end, StartMoment):
        position = _before_time(watched, end) if watched.log.traits.has_changes else None
        if position is None:
            return Ending()
    else:
        given = end.position if isinstance(end, SourceOffset) else end
        position = resolve_position(watched.log, "endingOffsets", given)
        check_end(watched.log, "endingOffsets", position)
    if position < start:
        raise _after_end(watched.log, start, f" {shown_position(watched.log, position)}")
    return Ending(position)


class Advance(NamedTuple):
    """End of a batch, and the effects of its groups on XA transactions whose rows are elsewhere."""

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
    """The offset after what a batch from *start* on may read; *start* itself when nothing is new.

    Args:
        size_max: Bytes; at least one group is taken when there is one.
        files_max: Files that it may begin groups of; more only to reach the first group.
        end: Groups from there on are not for this batch; None: up to the end of the log.
    """
    begin, gtid = start.position, start.gtid
    if size_max is None and files_max is None:
        begin, gtid = _after_whole_files(watched, start, end)
    span = _span(watched, begin, size_max, files_max, end)
    if span.groups == 0 and span.end.file_no == start.position.file_no:
        return Advance(start)
    gtid = gtid.advanced_by(span.gtids)
    skip = skip_after(watched.log, start, span.end, gtid)
    reached = offset_at(watched, span.end, gtid=gtid, skip=skip, marks=marks_after(watched, start, span.end))
    return Advance(replace(reached, prepared_xa=pending_after(start.prepared_xa, span.xa)), span.xa)


SETTLE_SECONDS = 0.1
_SETTLED_LOOKS = 2


def sound_ranges(
    watched: WatchedLog, begin: SourceOffset, end: Position | None, on_damage: Callable[[CorruptError], None]
) -> Iterator[tuple[SourceOffset, SourceOffset]]:
    """The parts of a structured log from *begin* on, up to *end*, that can be read; *on_damage* is told of others."""
    while end is None or begin.position < end:
        try:
            reached = advance(watched, begin, end=end).offset
        except CorruptError as error:
            found = settled_damage(watched, begin)
            if found is None:
                raise error
            reached = offset_over_damage(watched, begin, found)
            if found.event_count:
                yield begin, reached
            else:
                on_damage(found.error)
            begin = reached
            continue
        if reached.position > begin.position:
            yield begin, reached
        return


def settled_damage(watched: WatchedLog, begin: SourceOffset) -> FoundDamage | None:
    """The first damage after *begin* that stays the same for some looks; None: what is there changes."""
    assert watched.log.events is not None, "other logs have no entries"
    found = damage_after(watched.log.events, begin)
    for _ in range(_SETTLED_LOOKS):
        time.sleep(SETTLE_SECONDS)
        again = damage_after(watched.log.events, begin)
        if again is None or found is None or again.position != found.position:
            return None
    return found


def _after_whole_files(watched: WatchedLog, start: SourceOffset, end: Position | None) -> tuple[Position, GtidPoint]:
    """Find the place from which to search for the end of a batch without limits, and the GTIDs consumed there.

    Where files state which GTIDs were committed before them, only the last one has to be scanned. All files up to it
    must be there: what lacks is found by scanning.
    """
    first = start.position.file_no
    # A server makes the next file before it needs it; where there is no more than that, hardly anything can be skipped.
    if not watched.log.traits.is_indexed or watched.last_number() <= first + 1:
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
    later = [file_no for file_no in watched.names() if file_no > start.file_no]
    # More than it may: a transaction that goes through several files, or files without any.
    for stop in later[files_max - 1 :]:
        limit = file_start(stop)
        if end is not None and end <= limit:
            break
        span = watched.log.span(start, end=limit, size_max=size_max)
        if span.groups:
            return span
    return watched.log.span(start, end=end, size_max=size_max)


def _check_has_gtids(watched: WatchedLog, name: str) -> None:
    if not watched.log.traits.has_changes:
        raise OptionError(
            "INVALID_VALUE",
            f"option {name}: {watched.log.path} is a {watched.log.format_name} log, whose events have no GTIDs",
            hint="Give a time or a position: startingTimestamp, startingOffsets",
        )


def _at_position(watched: WatchedLog, start: SourceOffset) -> SourceOffset:
    if start.last_page_crc is None and not start.fingerprint:
        check_start(watched.log, "startingOffsets", start.position)  # a user's, no query has been there
    decision = compare(watched, start)
    if decision.loss is not None:
        raise decision.loss
    gtid = start.gtid or watched.log.gtid_position_at(start.position)
    marks = EntryMarks(start.state, start.files) if start.state else None
    there = offset_at(watched, start.position, gtid=gtid, skip=Skip(start.skip_gtid, start.skip_to), marks=marks)
    return replace(there, prepared_xa=start.prepared_xa)


def _at_time(watched: WatchedLog, start: StartMoment) -> SourceOffset:
    position = _before_time(watched, start)
    if position is None:
        raise StartError(
            "TIMESTAMP_NOT_FOUND",
            f"{watched.log.path}: option {start.said_by}: all transactions were committed before {_time_text(start)}",
            hint="option startingOffsets=latest waits for what comes next",
        )
    return offset_at(watched, position, gtid=watched.log.gtid_position_at(position))


def _before_time(watched: WatchedLog, moment: StartMoment) -> Position | None:
    try:
        return watched.log.position_of_time(moment.seconds)
    except StartError as error:
        if error.subclass != "TIMESTAMP_NOT_FOUND":
            raise
        return None


def _time_text(moment: StartMoment) -> str:
    return datetime.fromtimestamp(moment.seconds, UTC).isoformat().replace("+00:00", "Z")


def _after_end(log: Log, start: Position, end: str) -> StartError:
    reason = f"{log.path}: the query begins at {shown_position(log, start)}, after its end{end}"
    return StartError("START_AFTER_END", reason, hint="Leave out the start or the end, or choose others")


def _after_last(watched: WatchedLog, wanted: GtidPoint, start: Position) -> Ending:
    """Right after the last group that *wanted* names; what it does not cover before that is to be left out."""
    log = watched.log
    with _named(watched, "endingGtid", wanted):
        end = end_of_gtids(log, wanted)
    if end.missing:
        raise StartError(
            "GTID_NOT_FOUND",
            f"{log.path}: option endingGtid: {end.missing} has not been logged",
            hint="Leave it out to read up to the end of the log",
        )
    if end.position < start and wanted != _of_the_same(log.gtid_position_at(start), wanted):
        raise _after_end(log, start, f", endingGtid {wanted}")
    return Ending(max(end.position, start), wanted, end.taken)


def _of_the_same(logged: GtidPoint, wanted: GtidPoint) -> GtidPoint:
    """The part of *logged* that is of domains, or sources, of *wanted*."""
    if isinstance(logged, GtidPosition) and isinstance(wanted, GtidPosition):
        return GtidPosition({domain: gtid for domain, gtid in logged.last.items() if domain in wanted.last})
    if isinstance(logged, GtidSet) and isinstance(wanted, GtidSet):
        return logged.of_sources(wanted.intervals)
    return wanted


def _after_gtids(watched: WatchedLog, wanted: GtidPoint) -> SourceOffset:
    """The first group that *wanted* does not cover."""
    log = watched.log
    with _named(watched, "startingGtid", wanted):
        start = log.position_of(wanted)
    check_is_logged(log, "startingGtid", wanted, start.taken)
    skip = skip_at(wanted, start.taken, start.position, start.before)
    return offset_at(watched, start.position, gtid=start.before, skip=skip)


@contextmanager
def _named(watched: WatchedLog, name: str, wanted: GtidPoint) -> Iterator[None]:
    """Name the option in what is raised of GTIDs that have been purged."""
    try:
        yield
    except DataLossError as error:
        if error.subclass != "GTID_PURGED":
            raise
        _, state = watched.log.gtids_before_start()
        raise DataLossError(
            "GTID_PURGED",
            f"{watched.log.path}: option {name}: the earliest file begins at GTID {state}, "
            f"so transactions between {wanted or '(none)'} and that have been purged",
            hint="Copy the tables again and start from the GTID of that copy",
        ) from error
