"""XA transactions that are prepared and have not ended, and where their rows are: `PreparedXaRows`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.errors import DataLossError
from binlog_format.events.layout import EventType
from binlog_format.position import Place
from binlog_format.transactions.control_statements import read_control_statements
from binlog_format.transactions.expansion import expanded
from binlog_format.transactions.rollbacks import outcome_at, outcome_of
from binlog_format.transactions.slicing import blocks_of_group, extract, group_position, without_events
from binlog_format.transactions.xa import XaKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from binlog_format.block import Block
    from binlog_format.log.log import Log
    from binlog_format.position import Position
    from binlog_format.transactions.rollbacks import GroupOutcome
    from binlog_format.transactions.xa import PreparedXa, XaId, XaStep

KEPT_SIZE_MAX = 8 << 20
"""Bytes of prepared groups that are kept in memory; others are read again at their XA COMMIT."""

SEARCH_SIZE_MAX = 16 << 30
"""Bytes of the log before the start that are searched for an XA PREPARE, by headers alone."""


class PreparedXaRows:
    """The prepared XA transactions of a log, as reading goes on.

    Args:
        log: Where rows are read again.
        start: Where reading starts.
        prepared: What is known to be prepared there.
    """

    def __init__(self, log: Log, start: Position | None, prepared: Iterable[PreparedXa]) -> None:
        self._log = log
        self._positions: dict[XaId, Position] = {xa.xid: xa.position for xa in prepared}
        self._kept: dict[XaId, Block] = {}  # the oldest first
        self._kept_size = 0
        self._ended: set[XaId] = set()  # after the start: not to be looked for before it
        self._earlier = _Earlier(log, start)

    def prepare(self, xid: XaId, block: Block, group: int, outcome: GroupOutcome) -> None:
        """A prepared group that is wholly in *block*."""
        self.prepare_at(xid, group_position(block.groups, group))
        rows = _event_rows(block, group, outcome)
        if int(block.events["size"][rows].sum()) <= KEPT_SIZE_MAX:
            self._kept[xid] = extract(block, rows)
            self._kept_size += self._kept[xid].data.size
        while self._kept_size > KEPT_SIZE_MAX:
            self._forget(next(iter(self._kept)))

    def prepare_at(self, xid: XaId, position: Position) -> None:
        """A prepared group at *position*."""
        self._forget(xid)
        self._positions[xid] = position

    def end(self, xid: XaId) -> None:
        """*xid* has been committed or rolled back."""
        self._forget(xid)
        self._positions.pop(xid, None)
        self._ended.add(xid)

    def take(self, xid: XaId, at: Position) -> Iterator[Block]:
        """The events of a prepared transaction but its GTID event, for the XA COMMIT at *at*; one block or pieces.

        `event_no` is as in the prepared group. Groups have one row, which is not theirs any more.

        Raises:
            DataLossError: `XA_PREPARE_MISSING`.
        """
        kept = self._kept.get(xid)
        if kept is not None:
            yield kept
        else:
            yield from self._read_again(xid, self._position(xid, at))

    def _position(self, xid: XaId, at: Position) -> Position:
        position = self._positions.get(xid)
        if position is None and xid not in self._ended:
            position = self._earlier.find(xid)
        if position is None:
            raise _missing(self._log, xid, f"its XA PREPARE is not in the log before {at}")
        return position

    def _read_again(self, xid: XaId, position: Position) -> Iterator[Block]:
        if position.file_no < self._log.start_position().file_no:
            raise _missing(self._log, xid, f"its XA PREPARE at {position} has been purged")
        outcome: GroupOutcome | None = None
        for block in blocks_of_group(expanded(self._log.blocks(position)), position):
            if outcome is None:
                whole = bool(block.groups["ends"][0])
                outcome = (
                    outcome_of(read_control_statements(block).of_group(0), block)
                    if whole
                    else outcome_at(self._log, position)
                )
                if outcome.prepared != xid:
                    raise _missing(self._log, xid, f"the group at {position} does not prepare it")
            rows = _event_rows(block, 0, outcome)
            if len(rows) == len(block.events):
                yield block
            else:
                dropped = np.ones(len(block.events), dtype=np.bool_)
                dropped[rows] = False
                yield without_events(block, dropped)

    def _forget(self, xid: XaId) -> None:
        kept = self._kept.pop(xid, None)
        if kept is not None:
            self._kept_size -= kept.data.size


class _Earlier:
    """The log before the start, file after file backwards, each looked at once."""

    def __init__(self, log: Log, start: Position | None) -> None:
        self._log = log
        self._frontier = start
        self._last: dict[XaId, XaStep] = {}
        self._passed = 0

    def find(self, xid: XaId) -> Position | None:
        while xid not in self._last and self._frontier is not None and self._passed < SEARCH_SIZE_MAX:
            self._look_back(self._frontier)
        step = self._last.get(xid)
        return step.position if step is not None and step.kind is XaKind.PREPARED else None

    def _look_back(self, stop: Position) -> None:
        first = self._log.start_position()
        file_no = stop.file_no if (stop.page, stop.chunk) > (first.page, first.chunk) else stop.file_no - 1
        if file_no < first.file_no:
            self._frontier = None
            return
        start = type(stop)(file_no, first.page, first.chunk)
        found: dict[XaId, XaStep] = {}
        reached = start
        while reached < stop:
            span = self._log.span(reached, size_max=_LOOK_SIZE)
            found |= {step.xid: step for step in span.xa if step.position < stop}
            self._passed += span.size
            if span.end <= reached:
                break
            reached = span.end
        self._last = found | self._last
        self._frontier = start


_LOOK_SIZE = 64 << 20
"""Bytes of one step of the search: not much after the place that it leads up to is looked at."""


def _event_rows(block: Block, group: int, outcome: GroupOutcome) -> NDArray[np.int64]:
    """Rows of an XA COMMIT: without the GTID event, the event that prepares it, and rolled back events."""
    first = int(block.groups["first_event"][group])
    events = block.events[first : first + int(block.groups["event_count"][group])]
    kept = (events["event_no"] > 0) & (events["type"] != EventType.XA_PREPARE)
    if outcome.undone:
        kept &= ~outcome.loses(events)
    return first + np.flatnonzero(kept)


def _missing(log: Log, xid: XaId, reason: str) -> DataLossError:
    return DataLossError(
        "XA_PREPARE_MISSING",
        f"XA COMMIT {xid}: {reason}: the rows of this transaction are lost",
        at=Place(log.path),
        hint="Bring the files with its XA PREPARE back; or copy the tables that it changed anew, and start after it",
    )
