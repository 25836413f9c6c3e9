"""A model server: tables as dictionaries, and the groups that each change of them is in the log: `ModelServer`."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from binlog_lab.event_encoding.event_encoding import Origin, QueryContext, encode_query, encode_xid
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableEncoder, TableSpec
from binlog_lab.simulator.server_log import SERVER_ID, Group

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

    from binlog_lab.event_encoding.value_encoding import Value
    from binlog_lab.simulator.machine import Clock
    from binlog_lab.simulator.server_log import ServerLog

    Row = tuple[Value, ...]
    Rows = dict[tuple[Value, ...], Row]

DATABASE = "shop"
_ID = ColumnSpec("id", "int")
_NOTE = ColumnSpec("note", "varchar(60)", nullable=True)
_SPECS = (
    TableSpec(DATABASE, "orders", (_ID, _NOTE, ColumnSpec("total", "bigint", nullable=True)), ("id",)),
    TableSpec(DATABASE, "items", (ColumnSpec("a", "int"), ColumnSpec("b", "varchar(8)"), _NOTE), ("a", "b")),
    TableSpec(DATABASE, "people", (_NOTE, _ID, ColumnSpec("born", "date", nullable=True)), ("id",)),
)
_WORDS = ("tea", "milk", "", "a bear", "ö", "x" * 50)
_ROWS_MAX = 40


@dataclass(slots=True)
class ModelTable:
    """A table.

    Attributes:
        spec: Its columns and key.
        rows: By key.
        number: Its number in table maps.
    """

    spec: TableSpec
    rows: Rows
    number: int

    def copy(self) -> ModelTable:
        """The same, to be changed by itself."""
        return ModelTable(self.spec, dict(self.rows), self.number)

    def key(self, row: Row) -> tuple[Value, ...]:
        """The key of a row."""
        return tuple(row[index] for index in self.spec.key_indices)


@dataclass(frozen=True, slots=True)
class StateAfterGroup:
    """State of a server after a group.

    Attributes:
        tables: Its tables, by name.
        changes: Of the group: table, kind of the row image (as a change feed names it), and key.
    """

    tables: Mapping[str, ModelTable]
    changes: tuple[tuple[str, str, tuple[Value, ...]], ...] = ()


@dataclass(slots=True)
class ModelServer:
    """A server.

    Attributes:
        log: Its log.
        clock: Its clock.
        tables: What it has now, by name.
        history: What it had after each group, by number; 0: before the first one.
        lost_from: Number of the first group that a crash has ever taken back; None: none was.
        purged_to: Number of the last group that was purged.
    """

    log: ServerLog
    clock: Clock
    tables: dict[str, ModelTable]
    history: dict[int, StateAfterGroup]
    lost_from: int | None = None
    purged_to: int = 0
    _last: int = 0
    _table_number: int = 100
    _columns: int = 0
    _changes: list[tuple[str, str, tuple[Value, ...]]] = field(default_factory=list)

    @classmethod
    def new(cls, log: ServerLog, clock: Clock) -> ModelServer:
        """A server without tables."""
        return cls(log, clock, {}, {0: StateAfterGroup({})})

    @property
    def last(self) -> int:
        """Number of the last group."""
        return self._last

    # --- what clients do -----------------------------------------------------------------------------------------

    def create(self, number: int) -> str:
        """CREATE TABLE; returns the statement."""
        spec = _SPECS[number % len(_SPECS)]
        if spec.table in self.tables:
            return ""
        return self._ddl(spec.create_statement(), lambda: self._add(spec))

    def _add(self, spec: TableSpec) -> None:
        self._table_number += 1
        self.tables[spec.table] = ModelTable(spec, {}, self._table_number)

    def alter(self, chance: random.Random) -> str:
        """A statement about one of the tables; returns it."""
        if not self.tables:
            return ""
        table = self.tables[chance.choice(sorted(self.tables))]
        name = f"`{DATABASE}`.`{table.spec.table}`"
        kind = chance.choice(("add", "add", "default", "drop column", "truncate", "rename column"))
        if kind == "truncate":
            return self._ddl(f"TRUNCATE TABLE {name}", table.rows.clear)
        if kind == "drop column":
            return self._drop_column(table, name)
        self._columns += 1
        new = f"c{self._columns}"
        if kind == "rename column":
            return self._rename_column(table, name, new)
        if kind == "add":
            spec, value = ColumnSpec(new, "int", nullable=True), None
            return self._ddl(f"ALTER TABLE {name} ADD COLUMN `{new}` int NULL", lambda: _widen(table, spec, value))
        given = chance.randrange(100)
        spec = ColumnSpec(new, "int")
        text = f"ALTER TABLE {name} ADD COLUMN `{new}` int NOT NULL DEFAULT {given}"
        return self._ddl(text, lambda: _widen(table, spec, given))

    def _drop_column(self, table: ModelTable, name: str) -> str:
        free = [column.name for column in table.spec.columns if column.name not in table.spec.primary_key]
        if not free:
            return ""
        return self._ddl(f"ALTER TABLE {name} DROP COLUMN `{free[-1]}`", lambda: _narrow(table, free[-1]))

    def _rename_column(self, table: ModelTable, name: str, new: str) -> str:
        free = [column for column in table.spec.columns if column.name not in table.spec.primary_key]
        if not free:
            return ""
        old = free[-1]

        def change() -> None:
            columns = tuple(replace(one, name=new) if one is old else one for one in table.spec.columns)
            table.spec = replace(table.spec, columns=columns)

        return self._ddl(f"ALTER TABLE {name} RENAME COLUMN `{old.name}` TO `{new}`", change)

    def transaction(self, chance: random.Random) -> str:
        """A transaction of a few statements; returns what it did."""
        group, told = self.prepare(chance)
        if group is None:
            return ""
        self._commit(group)
        return told

    def prepare(self, chance: random.Random) -> tuple[Group | None, str]:
        """Do the statements of a transaction in the tables, and give its group, which is not in the log yet."""
        told, events, origin = [], [], self._origin()
        for _ in range(chance.choice((1, 1, 1, 2, 3, 5))):
            if not self.tables:
                break
            table = self.tables[chance.choice(sorted(self.tables))]
            encoder = TableEncoder(table.spec, table.number)
            done, made = _statement(table, encoder, chance, origin, self._changes)
            if made:
                told.append(f"{done} {table.spec.table}")
                events += [encoder.table_map(origin), *made]
        if not events:
            return None, ""
        number = self._last + 1
        events.append(encode_xid(number, origin))
        spills = tuple(sorted(chance.sample(range(1, len(events)), chance.choice((0, 0, 0, 1))))) if events[2:] else ()
        return Group(number, origin.timestamp, tuple(events), spills=spills), ", ".join(told)

    # --- what happens to it --------------------------------------------------------------------------------------

    def rotate(self) -> None:
        """FLUSH BINARY LOGS."""
        self.log.rotate(self._second())

    def restart(self) -> None:
        """A shutdown and a start."""
        self.clock.sleep(2)
        self.log.restart(self._second())

    def purge(self, keep: int) -> list[int]:
        """PURGE BINARY LOGS; returns the numbers of files."""
        before = dict(self.log.last_in_file)
        gone = self.log.purge(keep)
        self.purged_to = max([self.purged_to, *(before[number] for number in gone)])
        return gone

    def crash(self, chance: random.Random, *, of_machine: bool) -> int:
        """Crash and recover; returns how many groups were lost."""
        torn, _ = self.prepare(chance) if chance.random() < 0.6 else (None, "")
        self.clock.sleep(3)
        before = self._last
        self._last = self.log.crash(self._second(), chance, of_machine=of_machine, torn=torn)
        if self._last < before:
            self.lost_from = min(self._last + 1, self.lost_from or self._last + 1)
        self.history = {number: moment for number, moment in self.history.items() if number <= self._last}
        self.tables = {name: table.copy() for name, table in self.history[self._last].tables.items()}
        self._changes.clear()
        self.purged_to = min(self.purged_to, self._last)
        return before - self._last

    def _ddl(self, text: str, change: object) -> str:
        origin = self._origin()
        assert callable(change)
        change()
        event = encode_query(text, origin, QueryContext(DATABASE))
        self._table_number += 1
        for table in self.tables.values():
            if f"`{table.spec.table}`" in text:
                table.number = self._table_number
        self._commit(Group(self._last + 1, origin.timestamp, (event,), is_ddl=True))
        return text

    def _commit(self, group: Group) -> None:
        self.log.write(group)
        self._last = group.number
        tables = {name: table.copy() for name, table in self.tables.items()}
        self.history[group.number] = StateAfterGroup(tables, tuple(self._changes))
        self._changes.clear()

    def _second(self) -> int:
        return int(self.clock.now)

    def _origin(self) -> Origin:
        return Origin(self._second(), SERVER_ID)


def _widen(table: ModelTable, spec: ColumnSpec, value: Value) -> None:
    table.spec = replace(table.spec, columns=(*table.spec.columns, spec))
    table.rows = {key: (*row, value) for key, row in table.rows.items()}


def _narrow(table: ModelTable, name: str) -> None:
    place = [column.name for column in table.spec.columns].index(name)
    columns = (*table.spec.columns[:place], *table.spec.columns[place + 1 :])
    table.spec = replace(table.spec, columns=columns)
    table.rows = {key: (*row[:place], *row[place + 1 :]) for key, row in table.rows.items()}


def _statement(
    table: ModelTable,
    encoder: TableEncoder,
    chance: random.Random,
    origin: Origin,
    changes: list[tuple[str, str, tuple[Value, ...]]],
) -> tuple[str, list[bytes]]:
    """One statement: its name, and its row events; none if it changed nothing. *changes* gets its row images."""
    name = table.spec.table
    kind = chance.choice(("insert", "insert", "update", "update", "move", "delete"))
    count = chance.choice((1, 1, 2, 3, 7))
    if kind == "insert" and len(table.rows) < _ROWS_MAX:
        new = [row for row in (_row(table, chance) for _ in range(count)) if table.key(row) not in table.rows]
        new = list({table.key(row): row for row in new}.values())
        table.rows |= {table.key(row): row for row in new}
        changes += [(name, "insert", table.key(row)) for row in new]
        return f"insert {len(new)} into", list(encoder.insert(new, origin)) if new else []
    chosen = chance.sample(sorted(table.rows, key=repr), min(count, len(table.rows)))
    if not chosen:
        return kind, []
    if kind == "delete":
        gone = [table.rows.pop(key) for key in chosen]
        changes += [(name, "delete", key) for key in chosen]
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
        changes += [(name, "update_preimage", key), (name, "update_postimage", table.key(after))]
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
