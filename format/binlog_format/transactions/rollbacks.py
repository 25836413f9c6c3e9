"""Outcome of a group's rows: `OutcomeReader` -> `GroupOutcome`; of a group larger than a block: `outcome_at`.

A server normally cuts what is rolled back out of the log. Where it cannot (a table without transactions was changed
meanwhile, a temporary table was made), rows stay and a statement states that they never happened: `ROLLBACK TO` a
savepoint, or `ROLLBACK` as the group's end. And the rows of an XA transaction that is only prepared are decided upon by
another group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.errors import CorruptError
from binlog_format.events.layout import EventType
from binlog_format.extents import blocks_of_group
from binlog_format.transactions.control_statements import ControlStatement, StatementKind, read_control_statements
from binlog_format.transactions.expansion import expanded

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from binlog_format.block import Block, Table
    from binlog_format.log.log import Log
    from binlog_format.position import Position
    from binlog_format.transactions.xa import XaId

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

    def is_undone(self, event_nos: NDArray[np.int64]) -> NDArray[np.bool_]:
        """True for each number of an event that is taken back."""
        borders = np.array(self.undone, dtype=np.int64).ravel()
        # An odd number of borders at or before it: inside of a range.
        inside: NDArray[np.bool_] = np.searchsorted(borders, event_nos, side="right") % 2 == 1
        return inside

    def loses(self, events: Table) -> NDArray[np.bool_]:
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
        """The next control statement, of *block*.

        Raises:
            CorruptError: `BAD_EVENT`: a rollback to a savepoint that the group does not have.
        """
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
    """The outcome of the group at *position*, which comes in pieces: a read of its own, that keeps no rows.

    Raises:
        CorruptError: As `OutcomeReader.take`.
    """
    reader = OutcomeReader()
    for block in blocks_of_group(expanded(log.blocks(position)), position):
        for control in read_control_statements(block).of_group(0):
            reader.take(control, block)
    return reader.outcome()
