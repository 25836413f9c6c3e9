"""XA transactions that are prepared and have not ended, and where their rows are: `PreparedXaRows`.

The steps of XA transactions in blocks as they are stored: `xa_steps(block)`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import zstandard

from binlog_format.block import BLOCK_SIZE, EXTENT_DTYPE
from binlog_format.errors import DataLossError
from binlog_format.events.compression.compression_layout import PAYLOAD_COMPRESSION_NONE
from binlog_format.events.compression.payload import find_payloads, payload_pieces
from binlog_format.events.layout import EventType
from binlog_format.extents import blocks_of_group, extract, without_events
from binlog_format.position import Place, Position
from binlog_format.transactions import control_statement_kernels as kernels
from binlog_format.transactions.control_statements import (
    OutcomeReader,
    StatementKind,
    outcome_at,
    outcome_of,
    read_control_statements,
)
from binlog_format.transactions.expansion import expanded
from binlog_format.transactions.xa import XaKind, XaStep

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from binlog_format.block import Block
    from binlog_format.events.compression.payload import Payload, PayloadPiece
    from binlog_format.kernels import Int64s
    from binlog_format.log.log import Log
    from binlog_format.transactions.control_statements import ControlStatements, GroupOutcome
    from binlog_format.transactions.xa import PreparedXa, XaId

KEPT_SIZE_MAX = 8 << 20
"""Bytes of prepared groups that are kept in memory; others are read again at their XA COMMIT."""

SEARCH_SIZE_MAX = 16 << 30
"""Bytes of the log before the start that are searched for an XA PREPARE, by headers alone."""


class PreparedXaRows:
    """The prepared XA transactions of a log, as reading goes on."""

    def __init__(self, log: Log, start: Position | None, prepared: Iterable[PreparedXa]) -> None:
        self._log = log
        self._positions: dict[XaId, Position] = {xa.xid: xa.position for xa in prepared}
        self._kept: dict[XaId, Block] = {}  # the oldest first
        self._kept_size = 0
        self._ended: set[XaId] = set()  # after the start: not to be looked for before it
        self._earlier = _Earlier(log, start)

    def prepare(self, xid: XaId, block: Block, group: int, outcome: GroupOutcome) -> None:
        """A prepared group that is wholly in *block*."""
        self.prepare_at(xid, Position.of(block.groups[group]))
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


@dataclass(slots=True)
class _Earlier:
    """The log before *frontier*, file after file backwards, each looked at once."""

    log: Log
    frontier: Position | None
    _last: dict[XaId, XaStep] = field(default_factory=dict)
    _passed: int = 0

    def find(self, xid: XaId) -> Position | None:
        while xid not in self._last and self.frontier is not None and self._passed < SEARCH_SIZE_MAX:
            self._look_back(self.frontier)
        step = self._last.get(xid)
        return step.position if step is not None and step.kind is XaKind.PREPARED else None

    def _look_back(self, stop: Position) -> None:
        first = self.log.start_position()
        file_no = stop.file_no if (stop.page, stop.chunk) > (first.page, first.chunk) else stop.file_no - 1
        if file_no < first.file_no:
            self.frontier = None
            return
        start = Position(file_no, first.page, first.chunk)
        found: dict[XaId, XaStep] = {}
        reached = start
        while reached < stop:
            span = self.log.span(reached, size_max=_LOOK_SIZE)
            found |= {step.xid: step for step in span.xa if step.position < stop}
            self._passed += span.size
            if span.end <= reached:
                break
            reached = span.end
        self._last = found | self._last
        self.frontier = start


_LOOK_SIZE = 64 << 20
"""Bytes of one step of the search: not much after the place that it leads up to is looked at."""


def _event_rows(block: Block, group: int, outcome: GroupOutcome) -> Int64s:
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


_HEAD_SIZE = 1024
"""Bytes of a compressed transaction in which its first statement is."""
_XA_START = b"XA START "
"""Start of an XA START statement, as servers write it."""
_WINDOW_SIZE_MAX = 128 << 20
"""Zstandard's own limit."""

_XA_KINDS = (kernels.KIND_XA, kernels.KIND_XA_PREPARE, kernels.KIND_COMMENTED)


def xa_steps(block: Block, group_count: int) -> tuple[XaStep, ...]:
    """XA steps of the first groups of *block* that end in it; only statements are decoded.

    The transactions that MySQL compresses are looked into only where they begin with XA START.
    """
    control_statements = read_control_statements(block)
    if len(control_statements.table) == 0:
        return ()
    outcomes = {group: _outcome(control_statements, group) for group in control_statements.groups_with(*_XA_KINDS)}
    outcomes |= _payload_outcomes(control_statements, group_count)
    steps: list[XaStep] = []
    for group in sorted(outcomes):
        if group < group_count and block.groups["ends"][group]:
            steps += steps_of(outcomes[group], block, group)
    return tuple(steps)


def steps_of(outcome: GroupOutcome, block: Block, group: int) -> list[XaStep]:
    """The steps of one group."""
    position = Position.of(block.groups[group])
    named = (
        (XaKind.PREPARED, outcome.prepared),
        (XaKind.COMMITTED, outcome.committed),
        (XaKind.ROLLED_BACK, outcome.rolled_back),
    )
    return [XaStep(position, xid, kind) for kind, xid in named if xid is not None]


def _outcome(control_statements: ControlStatements, group: int) -> GroupOutcome:
    # Savepoints are left out: of a group that comes in pieces, the first ones are not here.
    reader = OutcomeReader()
    savepoints = (StatementKind.SAVEPOINT, StatementKind.ROLLBACK_TO)
    for control in control_statements.of_group(group):
        if control.statement is None or control.statement.kind not in savepoints:
            reader.take(control, control_statements.block)
    return reader.outcome()


def _payload_outcomes(control_statements: ControlStatements, group_count: int) -> dict[int, GroupOutcome]:
    """Outcomes of the compressed XA transactions, by group."""
    block = control_statements.block
    rows = control_statements.table[
        control_statements.table[:, kernels.FIELD_KIND] == kernels.KIND_PAYLOAD, kernels.FIELD_EVENT
    ]
    rows = rows[block.events["group"][rows] < group_count]
    if len(rows) == 0:
        return {}
    events = block.events[rows]
    payloads = find_payloads(block.data, events["start"], events["size"], place=block.place)
    decompressor = zstandard.ZstdDecompressor(max_window_size=_WINDOW_SIZE_MAX)
    outcomes = {}
    for payload, group in zip(payloads, events["group"].tolist(), strict=True):
        if _XA_START not in _head(payload, decompressor):
            continue
        reader = OutcomeReader()
        for piece in payload_pieces(payload, BLOCK_SIZE):
            inner = _inner(block, group, piece)
            for control in read_control_statements(inner).of_group(0):
                reader.take(control, inner)
        outcomes[group] = reader.outcome()
    return outcomes


def _head(payload: Payload, decompressor: zstandard.ZstdDecompressor) -> bytes:
    """The first bytes of a payload; what is damaged has none, and is found out when it is read."""
    if payload.compression == PAYLOAD_COMPRESSION_NONE:
        return bytes(payload.content[:_HEAD_SIZE])
    try:
        with decompressor.stream_reader(payload.content) as reader:
            return reader.read(_HEAD_SIZE)
    except zstandard.ZstdError:
        return b""


def _inner(block: Block, group: int, piece: PayloadPiece) -> Block:
    """The events of a payload as a block; numbers of events do not count here."""
    groups = block.groups[group : group + 1].copy()
    groups["first_event"], groups["event_count"] = 0, len(piece.events)
    extents = np.zeros(1, dtype=EXTENT_DTYPE)
    extents["file_no"], extents["file_offset"] = groups["file_no"], groups["file_offset"]
    return replace(block, data=piece.data, groups=groups, events=piece.events, extents=extents)
