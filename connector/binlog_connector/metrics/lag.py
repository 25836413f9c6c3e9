"""Distance between a consumer and the end of its log: `LagMeter`.

All who tell people how far behind something is (`tail`, the Spark listener) ask here. What was measured once is not
looked at again: a call costs a scan of what has been written since the last one, by page headers and chunk heads, or by
the heads of a structured log's entries.

Number of a structured log's events after a place: `EventCounts`.

GTIDs, whose numbers tell that of other logs without a look, such a log has none; so its entries are walked, each once.
"""

from __future__ import annotations

import bisect
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from binlog_connector.following.watched import file_start
from binlog_format import open_log
from binlog_format.errors import DataLossError, StartError
from binlog_format.formats.opening import open_live_files
from binlog_format.gtids.gtid import GtidPosition
from binlog_format.gtids.gtid_set import NO_GTIDS, GtidSet
from binlog_format.log_format import Span

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_connector.following.offsets import SourceOffset
    from binlog_format.gtids.gtid_set import GtidPoint
    from binlog_format.live_files import LiveFiles
    from binlog_format.log.log import Log
    from binlog_format.position import Position


COMMIT_TIME_MIN = 946_684_800
"""2000-01-01 UTC. An earlier commit time is none: an event without one has 0, and SET TIMESTAMP states anything."""


def known_time(seconds: int | None) -> int | None:
    """A commit time, seconds since 1970 UTC, if it can be one; a lag is never computed from another."""
    return None if seconds is None or seconds < COMMIT_TIME_MIN else seconds


WALK_SIZE = 64 << 20
"""Bytes between two places whose numbers are kept: at most so many are walked again for a place between them."""


class EventCounts:
    """Numbers of events at places of one log. *log*: its event groups are events."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._places: list[Position] = []
        self._counts: list[int] = []  # of events, from the first place on

    def begins_after(self, position: Position) -> bool:
        """True if the counts right after *position* are unknown."""
        return bool(self._places) and position < self._places[0]

    def walk(self, start: Position, until: Position) -> Span:
        """Count what comes after *start*, which is where the last walk ended; else all that was counted is forgotten.

        Args:
            start: An entry begins there.
            until: At least up to here, if the log has whole entries so far.
        """
        if self._places[-1:] != [start]:
            self._places, self._counts = [start], [0]
        span = Span(start, 0, 0, NO_GTIDS, None)
        while True:
            part = self._log.span(span.end, size_max=WALK_SIZE)
            last = span.last_timestamp if part.last_timestamp is None else part.last_timestamp
            span = replace(part, groups=span.groups + part.groups, size=span.size + part.size, last_timestamp=last)
            if part.end > self._places[-1]:
                self._places.append(part.end)
                self._counts.append(self._counts[-1] + part.groups)
            if not part.groups or part.end >= until:
                return span

    def after(self, position: Position) -> int:
        """Events from *position* on to where the last walk ended; what lies before it is forgotten."""
        row = bisect.bisect_right(self._places, position) - 1
        passed = 0
        if position > self._places[row]:
            is_in_between = row + 1 < len(self._places)
            passed = self._log.span(self._places[row], end=position).groups if is_in_between else 0
        self._places[: row + 1], self._counts[: row + 1] = [position], [self._counts[row] + passed]
        return self._counts[-1] - self._counts[0]


@dataclass(frozen=True, slots=True)
class Lag:
    """Lag of a consumer; all is 0 when it has taken every whole transaction.

    Attributes:
        size: Bytes of the files up to the end of the last whole transaction.
        pages: Pages that these bytes lie in; of a classic log, virtual ones of 16 KiB.
        transactions: By their numbers in GTIDs; numbers that were left out count, groups without GTID do not. Of a
            structured log: events, counted.
        seconds: From the commit of the last transaction taken to that of the newest one; where the former is not known,
            from that of the first one not taken.
        end: After the last whole transaction, or records after it.
        gtid: The last GTID of each domain there; of a MySQL log the set of all.
        waiting_since: Commit time of the first transaction not taken, seconds since 1970 UTC; None: all are taken, or
            it is not known.
    """

    size: int
    pages: int
    transactions: int
    seconds: int
    end: Position
    gtid: GtidPoint
    oldest_file_no: int
    waiting_since: int | None = None


@dataclass(frozen=True, slots=True)
class Consumed:
    """Progress of a consumer.

    Attributes:
        offset: Where it goes on.
        timestamp: Of the last group that it took, seconds since 1970 UTC; None: not known.
    """

    offset: SourceOffset
    timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class _Measured:
    """End of the measured part of the log.

    Attributes:
        position: After the last whole record.
        timestamp: Of the last group before it; None: not known.
        group_end: After the last group that was found, at least; None: none was.
    """

    position: Position
    gtid: GtidPoint
    timestamp: int | None
    group_end: Position | None = None


class LagMeter:
    """Measures one log; may be used by several threads.

    Args:
        path: Directory of the binlog files, one file, or a URL.
        format_name: The format that the log must have; None: whatever it is.
    """

    def __init__(self, path: str, format_name: str | None = None) -> None:
        self._log = open_log(path, format_name=format_name)
        self._files: LiveFiles = open_live_files(path, self._log.format_name)
        self._lock = threading.Lock()
        self._measured: _Measured | None = None
        self._first_waiting: tuple[Position, int | None] | None = None
        self._events = None if self._log.traits.has_changes else EventCounts(self._log)

    @property
    def format_name(self) -> str:
        """Format of the log."""
        return self._log.format_name

    def close(self) -> None:
        """Close all files."""
        with self._lock:
            self._files.close()
            self._log.close()

    def lag(self, consumed: Callable[[], Consumed]) -> Lag:
        """Compute the lag of a consumer.

        Args:
            consumed: What it has taken; it is asked again when the log has been measured, since it may have gone on.
        """
        with self._lock:
            first = consumed()
            try:
                return self._between(consumed, self._measure(first))
            except (DataLossError, StartError):
                # What was measured is not there any more (RESET MASTER, a crash): from the consumer's place, then.
                self._measured = None
                return self._between(consumed, self._measure(first))

    def size_between(self, start: Position, end: Position) -> int:
        """Bytes of the files from *start* to *end*; 0 when *end* is not after *start*."""
        with self._lock:
            self._files.look()
            return self._distance(start, end)[0]

    def _measure(self, consumed: Consumed) -> _Measured:
        known, offset = self._measured, consumed.offset
        if self._events is not None and self._events.begins_after(offset.position):
            known = None  # the consumer has gone back
        if known is None or known.position <= offset.position:
            is_same = known is not None and known.position == offset.position
            timestamp = known.timestamp if known is not None and is_same else None
            here = _Measured(
                offset.position, offset.gtid, timestamp if consumed.timestamp is None else consumed.timestamp
            )
            measured = self._on_from(here) if known is not None else self._first(here)
        else:
            measured = self._on_from(known)
        self._measured = measured
        return measured

    def _first(self, consumed: _Measured) -> _Measured:
        """The first measurement begins with the last file that a group ends in, not with all that is waiting.

        Of a log without GTIDs it does not: how many groups are waiting, only a walk tells.
        """
        if self._events is not None:
            return self._on_from(consumed)
        newest = self._files.look().file_no
        later = [file_no for file_no in self._files.names() if consumed.position.file_no < file_no <= newest]
        for file_no in reversed(later):
            start = file_start(file_no)
            span = self._log.span(start)
            if span.groups:
                gtid = self._log.gtid_position_at(start).advanced_by(span.gtids)
                return _Measured(span.end, gtid, span.last_timestamp, span.end)
        return self._on_from(consumed)

    def _on_from(self, known: _Measured) -> _Measured:
        if self._events is None:
            span = self._log.span(known.position)
        else:
            span = self._events.walk(known.position, self._files.end_of(self._files.look().file_no))
        if not span.groups:
            return replace(known, position=span.end)
        return _Measured(span.end, known.gtid.advanced_by(span.gtids), span.last_timestamp, span.end)

    def _between(self, asked: Callable[[], Consumed], measured: _Measured) -> Lag:
        taken = asked()
        consumed, timestamp = taken.offset, known_time(taken.timestamp)
        self._files.look()
        transactions = self._waiting(consumed, measured)
        is_behind = transactions > 0 or bool(_missing(measured.gtid, consumed.gtid))
        if self._events is None and not measured.gtid and measured.group_end is not None:
            is_behind = measured.group_end > consumed.position  # transactions without GTIDs
        size, pages = self._distance(consumed.position, measured.position) if is_behind else (0, 0)
        seconds = 0
        waiting_since = self._waiting_since(consumed.position, is_needed=timestamp is None) if is_behind else None
        newest = known_time(measured.timestamp)
        if is_behind and newest is not None:
            before = timestamp if timestamp is not None else waiting_since
            seconds = max(newest - before, 0) if before is not None else 0
        return Lag(
            size=size,
            pages=pages,
            transactions=transactions,
            seconds=seconds,
            end=measured.position,
            gtid=measured.gtid,
            oldest_file_no=self._oldest_file_no(consumed),
            waiting_since=waiting_since,
        )

    def _waiting(self, consumed: SourceOffset, measured: _Measured) -> int:
        if self._events is None:
            return transactions_between(consumed.gtid, measured.gtid)
        return self._events.after(consumed.position) if consumed.position < measured.position else 0

    def _waiting_since(self, position: Position, *, is_needed: bool) -> int | None:
        """Timestamp of the first group after *position*."""
        if self._first_waiting is None or self._first_waiting[0] != position:
            try:
                self._first_waiting = position, self._log.span(position, size_max=1).last_timestamp
            except (DataLossError, StartError):
                if is_needed:
                    raise
                return None  # it has been removed; how much waits is known all the same
        return known_time(self._first_waiting[1])

    def _distance(self, start: Position, end: Position) -> tuple[int, int]:
        """Bytes and pages from *start* to *end*."""
        if end <= start:
            return 0, 0
        page_size = self._files.page_size
        first, last = self._files.byte_of(start), self._files.byte_of(end)
        if start.file_no == end.file_no:
            return last - first, -(-last // page_size) - first // page_size
        between = [
            self._files.size_of(number) for number in self._files.names() if start.file_no < number < end.file_no
        ]
        sizes = [max(self._files.size_of(start.file_no) - first, 0), *between, last]
        return sum(sizes), sum(-(-size // page_size) for size in sizes)

    def _oldest_file_no(self, consumed: SourceOffset) -> int:
        own = self._files.oldest_reference(consumed.position.file_no)
        return min([own, *(xa.position.file_no for xa in consumed.prepared_xa)])


def _missing(end: GtidPoint, consumed: GtidPoint) -> GtidPoint:
    return end.without(consumed) if end else NO_GTIDS


def transactions_between(consumed: GtidPoint, end: GtidPoint) -> int:
    """Transactions up to *end* that are not in *consumed*, by their numbers."""
    missing = _missing(end, consumed)
    if isinstance(missing, GtidSet):
        return sum(last - first + 1 for parts in missing.intervals.values() for first, last in parts)
    taken = consumed.last if isinstance(consumed, GtidPosition) else {}
    return sum(
        gtid.seqno - (taken[domain].seqno if domain in taken else 0) for domain, gtid in sorted(missing.last.items())
    )
