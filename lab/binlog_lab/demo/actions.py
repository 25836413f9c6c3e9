"""Steps of sessions in the log: `Action` is one step, `TransactionAction` makes steps and can undo them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from binlog_format.gtids.gtid import Gtid
    from binlog_lab.demo.proof.history import ComparedTableState, Key
    from binlog_lab.event_encoding.table_encoding import TableSpec
    from binlog_lab.event_encoding.value_encoding import Value

    Row = tuple[Value, ...]
    Change = tuple[Row | None, Row | None]


class ActionKind(StrEnum):
    """Kind of a statement."""

    INSERT = "INSERT"
    UPDATE = "UPDATE"
    DELETE = "DELETE"


@dataclass(frozen=True, slots=True)
class Ddl:
    """A statement that commits itself; *brief* is for people, where they should hear of it."""

    sql: str
    gtid: Gtid
    brief: str | None = None


@dataclass(frozen=True, slots=True)
class BeginAction:
    """A transaction starts."""

    session: int


@dataclass(frozen=True, slots=True)
class StatementAction:
    """One statement on one table; *changes* are rows before and after, one of them None for INSERT and DELETE."""

    session: int
    spec: TableSpec
    kind: ActionKind
    changes: list[Change]


@dataclass(frozen=True, slots=True)
class SavepointAction:
    """SAVEPOINT, by number."""

    session: int
    number: int


@dataclass(frozen=True, slots=True)
class RollbackToAction:
    """ROLLBACK TO SAVEPOINT."""

    session: int
    number: int


@dataclass(frozen=True, slots=True)
class RollbackAction:
    """The transaction has never been."""

    session: int


@dataclass(frozen=True, slots=True)
class CommitAction:
    """The transaction is committed; *changes* is the number of its row changes."""

    session: int
    gtid: Gtid
    changes: int


Action = Ddl | BeginAction | StatementAction | SavepointAction | RollbackToAction | RollbackAction | CommitAction


class TransactionAction:
    """Transaction of a script: changes rows, and remembers how to undo the changes."""

    def __init__(self, session: int, say: Callable[[Action], None]) -> None:
        self.session = session
        self.fails = False
        self.done: list[tuple[ComparedTableState, Row | None, Row | None]] = []
        self._say = say
        self._held: list[tuple[ComparedTableState, Key]] = []
        self._tables: set[ComparedTableState] = set()
        self._savepoints: list[int] = []

    def insert(self, table: ComparedTableState, rows: Iterable[Row]) -> None:
        """INSERT of one or more rows."""
        self._run(table, ActionKind.INSERT, [(None, row) for row in rows])

    def update(self, table: ComparedTableState, pairs: Iterable[tuple[Row, Row]]) -> None:
        """UPDATE of one or more rows."""
        self._run(table, ActionKind.UPDATE, list(pairs))

    def delete(self, table: ComparedTableState, rows: Iterable[Row]) -> None:
        """DELETE of one or more rows."""
        self._run(table, ActionKind.DELETE, [(row, None) for row in rows])

    def hold(self, table: ComparedTableState, row: Row) -> None:
        """SELECT ... FOR UPDATE."""
        self._held.append((table, table.lock(row, self.session)))
        self._tables.add(table)

    def uses(self, table: ComparedTableState) -> bool:
        """True if the table must stay as it is until the transaction ends."""
        return table in self._tables

    def savepoint(self) -> int:
        """SAVEPOINT; returns its number."""
        self._savepoints.append(len(self.done))
        number = len(self._savepoints)
        self._say(SavepointAction(self.session, number))
        return number

    def rollback_to(self, number: int) -> None:
        """ROLLBACK TO SAVEPOINT."""
        self._undo_to(self._savepoints[number - 1])
        self._say(RollbackToAction(self.session, number))

    def give_up(self) -> None:
        """Fail the transaction: at its end it is rolled back."""
        self.fails = True

    def rollback(self) -> None:
        """Undo all changes and release the rows."""
        self._undo_to(0)
        self._say(RollbackAction(self.session))
        self.release()

    def release(self) -> None:
        """Release the rows."""
        for table, key in self._held:
            table.unlock(key)

    def _run(self, table: ComparedTableState, kind: ActionKind, changes: list[Change]) -> None:
        if not changes:
            return
        for before, after in changes:
            for row in (before, after):
                if row is not None:
                    self.hold(table, row)
            table.apply(before, after)
            self.done.append((table, before, after))
        self._say(StatementAction(self.session, table.spec, kind, changes))

    def _undo_to(self, length: int) -> None:
        while len(self.done) > length:
            table, before, after = self.done.pop()
            table.apply(after, before)
