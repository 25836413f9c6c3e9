"""Statements of a transaction on a model server: changed rows of its tables, and the events of them: `Draft`."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from binlog_lab.event_encoding.event_encoding import Origin, QueryContext, encode_query
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableEncoder, TableSpec
from binlog_lab.simulator.server_log import SessionAct, SessionActKind

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from binlog_lab.event_encoding.value_encoding import Value

    Row = tuple[Value, ...]
    Rows = dict[tuple[Value, ...], Row]

DATABASE = "shop"
_WORDS = ("tea", "milk", "", "a bear", "ö", "x" * 50)
_ROWS_MAX = 40
_SAVEPOINTS = 0.12
_SPILLS = 0.25
_WITHOUT_CUT = 0.3
"""Share of the rollbacks to a savepoint that stay in the log, as after changes of a table without transactions."""


@dataclass(slots=True)
class ModelTable:
    """A table.

    Attributes:
        rows: By key.
        number: Its number in table maps.
    """

    spec: TableSpec
    rows: Rows
    number: int

    def copy(self) -> ModelTable:
        """The same, to be changed by itself."""
        return ModelTable(self.spec, dict(self.rows), self.number)

    def emptied(self) -> ModelTable:
        """The same without rows."""
        return ModelTable(self.spec, {}, self.number)

    def key(self, row: Row) -> tuple[Value, ...]:
        """The key of a row."""
        return tuple(row[index] for index in self.spec.key_indices)


class RowChange(NamedTuple):
    """A row image: its table, kind (as a change feed names it), and key."""

    table: str
    kind: str
    key: tuple[Value, ...]


@dataclass(slots=True)
class Draft:
    """A transaction before its end.

    Attributes:
        tables: Those that it may use, as it sees them; they are its own copies.
        origin: Writer and time of its events.
        acts: What its session has done.
        changes: Row images that count.
        told: Its statements, for people.
    """

    tables: dict[str, ModelTable]
    origin: Origin
    acts: list[SessionAct] = field(default_factory=list)
    changes: list[RowChange] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    _points: list[tuple[dict[str, ModelTable], list[RowChange]]] = field(default_factory=list)

    def fill(self, chance: random.Random) -> None:
        """Do a few statements."""
        for _ in range(chance.choice((1, 1, 1, 2, 3, 5)) if self.tables else 0):
            if self.acts and chance.random() < _SAVEPOINTS:
                self._set_savepoint()
            self._statement(chance)
            if self._points and chance.random() < 0.5:
                self._roll_back(chance)
        if len(self.acts) > 1 and chance.random() < _SPILLS:
            self.acts.insert(chance.randrange(1, len(self.acts)), SessionAct(SessionActKind.SPILL))

    def insert(self, spec: TableSpec, number: int, rows: Sequence[Row]) -> None:
        """Add the events of inserted rows. *number*: of the table in its map."""
        encoder = TableEncoder(spec, number)
        self.acts += [
            SessionAct(event=event) for event in (encoder.table_map(self.origin), *encoder.insert(rows, self.origin))
        ]

    def query(self, text: str) -> None:
        """Add a statement as text."""
        self.acts.append(SessionAct(event=encode_query(text, self.origin, QueryContext(DATABASE))))

    def _set_savepoint(self) -> None:
        number = len(self._points)
        self._points.append(({name: table.copy() for name, table in self.tables.items()}, list(self.changes)))
        self.query(f"SAVEPOINT `s{number}`")
        self.acts.append(SessionAct(SessionActKind.SAVEPOINT, savepoint=number))
        self.told.append("savepoint")

    def _roll_back(self, chance: random.Random) -> None:
        number = chance.randrange(len(self._points))
        tables, changes = self._points[number]
        self.tables = {name: table.copy() for name, table in tables.items()}
        self.changes = list(changes)
        del self._points[number + 1 :]
        if chance.random() < _WITHOUT_CUT:
            self.query(f"ROLLBACK TO `s{number}`")
        else:
            self.acts.append(SessionAct(SessionActKind.ROLLBACK_TO, savepoint=number))
        self.told.append("rollback to savepoint")

    def _statement(self, chance: random.Random) -> None:
        table = self.tables[chance.choice(sorted(self.tables))]
        encoder = TableEncoder(table.spec, table.number)
        told, events = _statement(table, encoder, chance, self.origin, self.changes)
        if events:
            self.told.append(f"{told} {table.spec.table}")
            self.acts += [SessionAct(event=event) for event in (encoder.table_map(self.origin), *events)]


def _statement(
    table: ModelTable, encoder: TableEncoder, chance: random.Random, origin: Origin, changes: list[RowChange]
) -> tuple[str, list[bytes]]:
    """One statement: its name, and its row events; none if it changed nothing. *changes* gets its row images."""
    name = table.spec.table
    kind = chance.choice(("insert", "insert", "update", "update", "move", "delete"))
    count = chance.choice((1, 1, 2, 3, 7))
    if kind == "insert" and len(table.rows) < _ROWS_MAX:
        new = [row for row in (_row(table, chance) for _ in range(count)) if table.key(row) not in table.rows]
        new = list({table.key(row): row for row in new}.values())
        table.rows |= {table.key(row): row for row in new}
        changes += [RowChange(name, "insert", table.key(row)) for row in new]
        return f"insert {len(new)} into", list(encoder.insert(new, origin)) if new else []
    chosen = chance.sample(sorted(table.rows, key=repr), min(count, len(table.rows)))
    if not chosen:
        return kind, []
    if kind == "delete":
        gone = [table.rows.pop(key) for key in chosen]
        changes += [RowChange(name, "delete", key) for key in chosen]
        return f"delete {len(gone)} from", list(encoder.delete(gone, origin))
    pairs = []
    for key in chosen:
        before = table.rows.pop(key)
        after = _row(table, chance)
        if kind != "move" or table.key(after) in table.rows:  # else it gets another key
            after = tuple(
                old if index in table.spec.key_indices else new
                for index, (old, new) in enumerate(zip(before, after, strict=True))
            )
        table.rows[table.key(after)] = after
        pairs.append((before, after))
        changes += [RowChange(name, "update_preimage", key), RowChange(name, "update_postimage", table.key(after))]
    return f"{kind} {len(pairs)} of", list(encoder.update(pairs, origin))


def _row(table: ModelTable, chance: random.Random) -> Row:
    return tuple(_value(column, chance) for column in table.spec.columns)


def _value(column: ColumnSpec, chance: random.Random) -> Value:
    if column.nullable and chance.random() < 0.2:
        return None
    if column.sql_type == "varchar(8)":
        return chance.choice("abc")
    if column.sql_type.startswith("varchar"):
        return chance.choice(_WORDS) + str(chance.randrange(100))
    if column.sql_type == "date":
        return datetime.date(2000, 1, 1) + datetime.timedelta(days=chance.randrange(9000))
    if column.sql_type == "bigint":
        return chance.randrange(-(1 << 62), 1 << 62)
    return chance.randrange(30)
