"""What lies between a consumer and the end of its log: `LagMeter`.

All who tell people how far behind something is (`tail`, the Spark listener) ask here. What was measured once is not
looked at again: a call costs a scan of what has been written since the last one, by page headers and chunk heads.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from binlog_connector.following.watched import file_start
from binlog_format import open_log
from binlog_format.errors import DataLossError, StartError
from binlog_format.gtids.gtid import GtidPosition
from binlog_format.gtids.gtid_set import NO_GTIDS, GtidSet
from binlog_format.opening import open_live_files

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_connector.following.offsets import SourceOffset
    from binlog_format.gtids.gtid_set import GtidPoint
    from binlog_format.live_files import LiveFiles
    from binlog_format.position import Position


@dataclass(frozen=True, slots=True)
class Lag:
    """How far behind a consumer is; all is 0 when it has taken every whole transaction.

    Attributes:
        size: Bytes of the files up to the end of the last whole transaction.
        pages: Pages that these bytes lie in; of a classic log, virtual ones of 16 KiB.
        transactions: By their numbers in GTIDs; numbers that were left out count, groups without GTID do not.
        seconds: From the commit of the last transaction taken to that of the newest one; where the former is not known,
            from that of the first one not taken.
        end: Behind the last whole transaction, or records behind it.
        gtid: The last GTID of each domain there; of a MySQL log the set of all.
        oldest_file_no: The oldest file that is still needed.
    """

    size: int
    pages: int
    transactions: int
    seconds: int
    end: Position
    gtid: GtidPoint
    oldest_file_no: int


@dataclass(frozen=True, slots=True)
class Consumed:
    """What a consumer has taken.

    Attributes:
        offset: Where it goes on.
        timestamp: Of the last group that it took, seconds since 1970 UTC; None: not known.
    """

    offset: SourceOffset
    timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class _Measured:
    """How far the log has been measured.

    Attributes:
        position: Behind the last whole record.
        gtid: There.
        timestamp: Of the last group before it; None: not known.
        group_end: Behind the last group that was found, at least; None: none was.
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

    Raises:
        StartError: The log is not there.
    """

    def __init__(self, path: str, format_name: str | None = None) -> None:
        self._log = open_log(path, format_name=format_name)
        self._files: LiveFiles = open_live_files(path, self._log.format_name)
        self._lock = threading.Lock()
        self._measured: _Measured | None = None
        self._first_waiting: tuple[Position, int | None] | None = None

    def close(self) -> None:
        """Let all files go."""
        with self._lock:
            self._files.close()
            self._log.close()

    def lag(self, consumed: Callable[[], Consumed]) -> Lag:
        """How far behind a consumer is.

        Args:
            consumed: What it has taken; it is asked again when the log has been measured, since it may have gone on.

        Raises:
            BinlogError: The log cannot be read there: damage, or files that are not there any more.
        """
        with self._lock:
            first = consumed()
            try:
                measured = self._measure(first)
            except (DataLossError, StartError):
                # What was measured is not there any more (RESET MASTER, a crash): from the consumer's place, then.
                self._measured = None
                measured = self._measure(first)
            return self._between(consumed(), measured)

    def size_between(self, start: Position, end: Position) -> int:
        """Bytes of the files from *start* to *end*; 0 when *end* does not lie behind *start*."""
        with self._lock:
            self._files.look()
            return self._distance(start, end)[0]

    def _measure(self, consumed: Consumed) -> _Measured:
        known, offset = self._measured, consumed.offset
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
        """The first measurement begins with the last file that a group ends in, not with all that is behind."""
        for file_no in range(self._files.look().file_no, consumed.position.file_no, -1):
            start = file_start(file_no)
            span = self._log.span(start)
            if span.groups:
                gtid = self._log.gtid_position_at(start).advanced_by(span.gtids)
                return _Measured(span.end, gtid, span.last_timestamp, span.end)
        return self._on_from(consumed)

    def _on_from(self, known: _Measured) -> _Measured:
        span = self._log.span(known.position)
        if not span.groups:
            return replace(known, position=span.end)
        return _Measured(span.end, known.gtid.advanced_by(span.gtids), span.last_timestamp, span.end)

    def _between(self, taken: Consumed, measured: _Measured) -> Lag:
        consumed, timestamp = taken.offset, taken.timestamp
        self._files.look()
        is_behind = bool(_missing(measured.gtid, consumed.gtid))
        if not measured.gtid and measured.group_end is not None:
            is_behind = measured.group_end > consumed.position  # a log without GTIDs
        size, pages = self._distance(consumed.position, measured.position) if is_behind else (0, 0)
        seconds = 0
        if is_behind and measured.timestamp is not None:
            before = timestamp if timestamp is not None else self._waiting_since(consumed.position)
            seconds = max(measured.timestamp - before, 0) if before is not None else 0
        return Lag(
            size=size,
            pages=pages,
            transactions=transactions_between(consumed.gtid, measured.gtid) if is_behind else 0,
            seconds=seconds,
            end=measured.position,
            gtid=measured.gtid,
            oldest_file_no=self._oldest_file_no(consumed),
        )

    def _waiting_since(self, position: Position) -> int | None:
        """Timestamp of the first group behind *position*."""
        if self._first_waiting is None or self._first_waiting[0] != position:
            self._first_waiting = position, self._log.span(position, size_max=1).last_timestamp
        return self._first_waiting[1]

    def _distance(self, start: Position, end: Position) -> tuple[int, int]:
        """Bytes and pages from *start* to *end*."""
        if end <= start:
            return 0, 0
        page_size = self._files.page_size
        first, last = self._files.byte_of(start), self._files.byte_of(end)
        if start.file_no == end.file_no:
            return last - first, -(-last // page_size) - first // page_size
        between = [self._files.size_of(file_no) for file_no in range(start.file_no + 1, end.file_no)]
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
