"""The statements of a block that take rows back or control XA, read: `read_control_statements(block)`.

Effect of a statement on savepoints and XA in a transaction: `parse_statement`.

Outcome of a group's rows: `OutcomeReader` -> `GroupOutcome`; of a group larger than a block: `outcome_at`.

A server normally cuts what is rolled back out of the log. Where it cannot (a table without transactions was changed
meanwhile, a temporary table was made), rows stay and a statement states that they never happened: `ROLLBACK TO` a
savepoint, or `ROLLBACK` as the group's end. And the rows of an XA transaction that is only prepared are decided upon by
another group.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from binlog_format.errors import CorruptError
from binlog_format.events.gtid_events import parse_xa_prepare_event
from binlog_format.events.layout import EventType
from binlog_format.extents import blocks_of_group
from binlog_format.names import folded_name
from binlog_format.transactions import control_statement_kernels as kernels
from binlog_format.transactions.expansion import expanded
from binlog_format.transactions.xa import XaId, parse_xid

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from binlog_format.block import Block, Table
    from binlog_format.kernels import Int64s, Mask
    from binlog_format.log.log import Log
    from binlog_format.position import Position


class StatementKind(Enum):
    """Effect of a statement."""

    SAVEPOINT = "SAVEPOINT"
    ROLLBACK_TO = "ROLLBACK TO"
    ROLLBACK = "ROLLBACK"
    XA_START = "XA START"
    XA_END = "XA END"
    XA_COMMIT = "XA COMMIT"  # of a prepared transaction
    XA_COMMIT_ONE_PHASE = "XA COMMIT ONE PHASE"
    XA_ROLLBACK = "XA ROLLBACK"


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement. *name*: of the savepoint, in the form in which names are compared."""

    kind: StatementKind
    name: str = ""
    xid: XaId | None = None


_PLAIN_MAX = 400
"""Bytes looked at for comments; a name is not longer (64 characters)."""

_FLAGS = re.IGNORECASE | re.DOTALL
# A server wrote what is read here, but a file may contain anything: no part of these forms is tried a second time.
_COMMENTS = re.compile(rb"(?:\s++|/\*.*?(?:\*/|\Z)|--[ \t][^\n]*+\n?|#[^\n]*+\n?)++", re.DOTALL)
_COMMENT_SIGNS = (b"/*", b"--", b"#")
_NAME = rb"(?:`(?P<quoted>(?:[^`]++|``)*+)`|\"(?P<ansi>(?:[^\"]++|\"\")*+)\"|(?P<bare>[^\s;`\"']++))\s*+;?\s*+\Z"
_SAVEPOINT = re.compile(rb"SAVEPOINT\b\s*+" + _NAME, _FLAGS)
_ROLLBACK_TO = re.compile(rb"ROLLBACK\b\s*+(?:WORK\b\s*+)?TO\b\s*+(?:SAVEPOINT\b\s*+(?=;*+[^\s;]))?" + _NAME, _FLAGS)
_ROLLBACK = re.compile(rb"ROLLBACK(?:\s++WORK)?\s*+;?\s*+\Z", _FLAGS)
_XA = re.compile(rb"XA\s++(?P<verb>START|BEGIN|END|COMMIT|ROLLBACK)\b", _FLAGS)
_ONE_PHASE = re.compile(rb"\s*+ONE\s++PHASE\b", _FLAGS)
_XA_KINDS = {
    b"START": StatementKind.XA_START,
    b"BEGIN": StatementKind.XA_START,
    b"END": StatementKind.XA_END,
    b"COMMIT": StatementKind.XA_COMMIT,
    b"ROLLBACK": StatementKind.XA_ROLLBACK,
}


def parse_statement(text: bytes) -> Statement | None:
    """Read *text*, the SQL of a Query event; None: it is about neither savepoints nor XA."""
    text = _without_comments(text)
    for kind, form in ((StatementKind.SAVEPOINT, _SAVEPOINT), (StatementKind.ROLLBACK_TO, _ROLLBACK_TO)):
        match = form.match(text)
        if match is not None:
            return Statement(kind, name=_name(match))
    if _ROLLBACK.match(text):
        return Statement(StatementKind.ROLLBACK)
    match = _XA.match(text)
    found = parse_xid(text[match.end() :]) if match is not None else None
    if match is None or found is None:
        return None
    kind = _XA_KINDS[match["verb"].upper()]
    if kind is StatementKind.XA_COMMIT and _ONE_PHASE.match(found[1]):
        kind = StatementKind.XA_COMMIT_ONE_PHASE
    return Statement(kind, xid=XaId(*found[0]))


def _without_comments(text: bytes) -> bytes:
    """*text* with each comment before or between its first words made a blank; quoted names are left alone."""
    if not any(sign in text for sign in _COMMENT_SIGNS):
        return text.strip()
    parts: list[bytes] = []
    place = 0
    while place < len(text) and text[place : place + 1] not in b"`\"'":
        match = _COMMENTS.match(text, place)
        if match is not None:
            parts.append(b" ")
            place = match.end()
        else:
            parts.append(text[place : place + 1])
            place += 1
        if len(parts) > _PLAIN_MAX:
            break
    return (b"".join(parts) + text[place:]).lstrip()


def _name(match: re.Match[bytes]) -> str:
    # Servers compare names without regard to case.
    if match["quoted"] is not None:
        name = match["quoted"].replace(b"``", b"`")
    elif match["ansi"] is not None:
        name = match["ansi"].replace(b'""', b'"')
    else:
        name = match["bare"]
    return folded_name(name.decode("utf-8", "surrogateescape"))


_MAY_BE_CONTROL = np.zeros(256, dtype=np.bool_)
_MAY_BE_CONTROL[[EventType.QUERY, EventType.XA_PREPARE, EventType.TRANSACTION_PAYLOAD]] = True
_NO_STATEMENTS = np.empty((0, kernels.STATEMENT_FIELDS), dtype=np.int64)


class ControlStatement(NamedTuple):
    """A statement, or an XA_prepare event.

    Attributes:
        event: Row of the event table.
        event_no: Its number in its group.
        statement: What it contains; None for an XA_prepare event.
        one_phase: That event commits it at once.
    """

    event: int
    event_no: int
    statement: Statement | None
    prepared: XaId | None = None
    one_phase: bool = False


@dataclass(frozen=True, slots=True)
class ControlStatements:
    """The control statements of one block, most of them unread.

    Attributes:
        table: Shape (control statements, `STATEMENT_FIELDS`).
    """

    block: Block
    table: Int64s

    def groups_with(self, *kinds: int) -> list[int]:
        """Groups in which there are control statements of these kinds, ascending."""
        wanted = np.isin(self.table[:, kernels.FIELD_KIND], kinds)
        if not wanted.any():
            return []
        found: list[int] = np.unique(self.block.events["group"][self.table[wanted, kernels.FIELD_EVENT]]).tolist()
        return found

    def of_group(self, group: int) -> Iterator[ControlStatement]:
        """Read the control statements of one group, in order."""
        first = int(self.block.groups["first_event"][group])
        stop = first + int(self.block.groups["event_count"][group])
        low, high = np.searchsorted(self.table[:, kernels.FIELD_EVENT], (first, stop))
        for event, kind, text in self.table[low:high].tolist():
            control = self._read(event, kind, text)
            if control is not None:
                yield control

    def _read(self, event: int, kind: int, text: int) -> ControlStatement | None:
        row = self.block.events[event]
        start, event_no = int(row["start"]), int(row["event_no"])
        end = start + int(row["size"])
        if kind == kernels.KIND_XA_PREPARE:
            try:
                name, one_phase = parse_xa_prepare_event(self.block.data[start:end].tobytes())
            except CorruptError as error:
                raise CorruptError(error.subclass, error.reason, at=self.block.place(start)) from error
            return ControlStatement(
                event, event_no, None, XaId(name.gtrid, name.bqual, name.format_id & 0xFFFFFFFF), one_phase
            )
        if kind == kernels.KIND_PAYLOAD:
            return None
        statement = parse_statement(self.block.data[text:end].tobytes())
        return None if statement is None else ControlStatement(event, event_no, statement)


def read_control_statements(block: Block) -> ControlStatements:
    """Find the control statements of *block*; most blocks have none: that costs one look at the events' types."""
    count = int(np.count_nonzero(_MAY_BE_CONTROL[block.events["type"]]))
    if count == 0:
        return ControlStatements(block, _NO_STATEMENTS)
    table = np.empty((count, kernels.STATEMENT_FIELDS), dtype=np.int64)
    code, found = kernels.find_control_statements(block.data, block.events, table)
    if code != kernels.STATEMENTS_DONE:
        size = int(block.events["size"][found])
        at = block.place(int(block.events["start"][found]))
        raise CorruptError("BAD_EVENT", f"Query event of {size} bytes: it is too short", at=at)
    return ControlStatements(block, table[:found])


def is_kind(control: ControlStatement, *kinds: StatementKind) -> bool:
    """True if *control* is a statement of one of *kinds*."""
    return control.statement is not None and control.statement.kind in kinds


_STATEMENTS = (EventType.QUERY, EventType.EXECUTE_LOAD_QUERY)


@dataclass(frozen=True, slots=True)
class GroupOutcome:
    """Outcome of a group's rows.

    Attributes:
        undone: Ranges of `event_no`, first and one after the last, of events the group takes back; ascending.
        prepared: The XA transaction that the group prepares: all of its rows wait.
        committed: The prepared XA transaction that the group commits.
        rolled_back: The prepared XA transaction that the group takes back.
    """

    undone: tuple[tuple[int, int], ...] = ()
    prepared: XaId | None = None
    committed: XaId | None = None
    rolled_back: XaId | None = None

    def is_undone(self, event_nos: Int64s) -> Mask:
        """True for each number of an event that is taken back."""
        borders = np.array(self.undone, dtype=np.int64).ravel()
        # An odd number of borders at or before it: inside of a range.
        inside: Mask = np.searchsorted(borders, event_nos, side="right") % 2 == 1
        return inside

    def loses(self, events: Table) -> Mask:
        """True for each event of the group that is left out.

        Statements stay: they may be about tables without transactions, in which ROLLBACK takes nothing back.
        """
        return self.is_undone(events["event_no"]) & ~np.isin(events["type"], _STATEMENTS)


class OutcomeReader:
    """Follows a group's control statements in order; keeps one entry for each savepoint, and for each range undone."""

    def __init__(self) -> None:
        self._points: dict[str, int] = {}  # event_no by name, ascending
        self._undone: list[tuple[int, int]] = []
        self._prepared: XaId | None = None
        self._committed: XaId | None = None
        self._rolled_back: XaId | None = None

    def take(self, control: ControlStatement, block: Block) -> None:
        """The next control statement, of *block*."""
        statement = control.statement
        if statement is None:
            self._prepared = None if control.one_phase else control.prepared
        elif statement.kind is StatementKind.SAVEPOINT:
            self._points.pop(statement.name, None)  # a later one of the same name takes its place
            self._points[statement.name] = control.event_no
        elif statement.kind is StatementKind.ROLLBACK_TO:
            self._roll_back_to(statement.name, control, block)
        elif statement.kind is StatementKind.ROLLBACK:
            self._undo(1, control.event_no)
        elif statement.kind is StatementKind.XA_COMMIT:
            self._committed = statement.xid
        elif statement.kind is StatementKind.XA_ROLLBACK:
            self._rolled_back = statement.xid

    def outcome(self) -> GroupOutcome:
        """The outcome by the control statements so far."""
        return GroupOutcome(tuple(self._undone), self._prepared, self._committed, self._rolled_back)

    def _roll_back_to(self, name: str, control: ControlStatement, block: Block) -> None:
        if name not in self._points:
            raise CorruptError(
                "BAD_EVENT",
                f"a rollback to the savepoint {name}, which the event group does not have",
                at=block.place(int(block.events["start"][control.event])),
            )
        while (last := next(reversed(self._points))) != name:
            del self._points[last]
        self._undo(self._points[name] + 1, control.event_no)

    def _undo(self, first: int, stop: int) -> None:
        while self._undone and self._undone[-1][0] >= first:
            self._undone.pop()
        if first < stop:
            self._undone.append((first, stop))


def outcome_of(control_statements: Iterable[ControlStatement], block: Block) -> GroupOutcome:
    """The outcome of a group that is wholly in *block*."""
    reader = OutcomeReader()
    for control in control_statements:
        reader.take(control, block)
    return reader.outcome()


def outcome_at(log: Log, position: Position) -> GroupOutcome:
    """The outcome of the group at *position*, which comes in pieces: a read of its own, that keeps no rows."""
    reader = OutcomeReader()
    for block in blocks_of_group(expanded(log.blocks(position)), position):
        for control in read_control_statements(block).of_group(0):
            reader.take(control, block)
    return reader.outcome()
