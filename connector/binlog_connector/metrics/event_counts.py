"""Number of a structured log's events after a place: `EventCounts`.

GTIDs, whose numbers tell that of other logs without a look, such a log has none; so its entries are walked, each once.
"""

from __future__ import annotations

import bisect
from dataclasses import replace
from typing import TYPE_CHECKING

from binlog_format.gtids.gtid_set import NO_GTIDS
from binlog_format.log_format import Span

if TYPE_CHECKING:
    from binlog_format.log.log import Log
    from binlog_format.position import Position

WALK_SIZE = 64 << 20
"""Bytes between two places whose numbers are kept: at most so many are walked again for a place between them."""


class EventCounts:
    """Numbers of events at places of one log.

    Args:
        log: Its event groups are events.
    """

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

        Raises:
            BinlogError: As `Log.span`.
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
        """Events from *position* on to where the last walk ended; what lies before it is forgotten.

        Raises:
            BinlogError: As `Log.span`.
        """
        row = bisect.bisect_right(self._places, position) - 1
        passed = 0
        if position > self._places[row]:
            is_in_between = row + 1 < len(self._places)
            passed = self._log.span(self._places[row], end=position).groups if is_in_between else 0
        self._places[: row + 1], self._counts[: row + 1] = [position], [self._counts[row] + passed]
        return self._counts[-1] - self._counts[0]
