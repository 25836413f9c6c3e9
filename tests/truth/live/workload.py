"""A mixed workload on a MariaDB server, by several connections: `Workload`."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pymysql

from tests.truth.live.tables import EVERY_TYPE, TABLES, LiveTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from pymysql.connections import Connection
    from pymysql.cursors import Cursor

    from binlog_lab.demo.mariadb.server import MariaDbServer

DATABASE = "live"
CONNECTIONS = 3
IDS = 24
"""Rows that a connection has in a table; few, so that they meet again and again."""
UNDONE_IDS = 500_000_000
"""Rows with ids from here on are always rolled back: no reader may ever see one."""
ALWAYS_FULL = LiveTable("always_full", EVERY_TYPE.columns)
XA_TABLE = LiveTable("xa_rows", TABLES[2].columns)
NOT_TRANSACTIONAL = ("aria", "myisam")
_LOST_TO_OTHERS = (1213, 1205)  # deadlock, lock wait timeout: the server has rolled back


@dataclass
class Ddl:
    """A statement that changes rows without row events."""

    gtid: str
    what: str
    table: str
    other: str = ""


class Workload:
    """Everything that the connections do; the tables are made at once."""

    def __init__(self, server: MariaDbServer, *, seed: int = 20) -> None:
        self._server = server
        self.ddl: list[Ddl] = []
        self.actions: dict[str, int] = {}
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4")
            cursor.execute(f"USE {DATABASE}")
            for table in (*TABLES, ALWAYS_FULL, XA_TABLE):
                cursor.execute(table.create)
        self._workers = [_Worker(self, number, random.Random(seed + number)) for number in range(CONNECTIONS)]
        self._evolution = _Evolution(self, random.Random(seed - 1))

    def connect(self) -> Connection:
        """A connection that takes zero dates and does not wait long for locks."""
        connection = self._server.connect(autocommit=True)
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION sql_mode = '', innodb_lock_wait_timeout = 2")
        return connection

    def run(self, transactions: int) -> None:
        """All connections at once, each that many transactions; DDL on a table of its own beside them."""
        failures: list[BaseException] = []

        def guarded(target: Callable[[int], None]) -> None:
            try:
                target(transactions)
            except BaseException as error:  # raised again below, on the thread of the test
                failures.append(error)

        targets = [worker.run for worker in self._workers] + [self._evolution.run]
        threads = [threading.Thread(target=guarded, args=(target,)) for target in targets]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]

    def close(self) -> None:
        """Let the connections go; nothing is left open or prepared."""
        for worker in self._workers:
            worker.close()
        self._evolution.close()


class _Worker:
    # One connection, and a second one for its XA transactions. The ids of its rows are its own: number modulo
    # CONNECTIONS.
    def __init__(self, workload: Workload, number: int, numbers: random.Random) -> None:
        self._workload = workload
        self._number = number
        self._numbers = numbers
        self._connection = workload.connect()
        self._cursor = self._connection.cursor()
        self._xa_connection = workload.connect()
        self._xa_cursor = self._xa_connection.cursor()
        for cursor in (self._cursor, self._xa_cursor):
            cursor.execute(f"USE {DATABASE}")
        self._xa_count = 0
        self._undone_count = 0

    def close(self) -> None:
        self._connection.close()
        self._xa_connection.close()

    def run(self, transactions: int) -> None:
        actions = (self._statement, self._transaction, self._savepoint, self._rollback, self._xa, self._mixed)
        for _ in range(transactions):
            image = self._numbers.choice(("FULL", "FULL", "MINIMAL", "NOBLOB"))
            self._cursor.execute("SET SESSION binlog_row_image = %s", (image,))
            tables = [*TABLES, ALWAYS_FULL] if image == "FULL" else list(TABLES)
            action = self._numbers.choices(actions, (4, 4, 3, 1, 2, 2))[0]
            name = action.__name__.strip("_")
            self._workload.actions[name] = self._workload.actions.get(name, 0) + 1
            try:
                action(tables)
            except pymysql.err.OperationalError as error:
                if error.args[0] not in _LOST_TO_OTHERS:
                    raise
                self._cursor.execute("ROLLBACK")

    # --- transactions ---------------------------------------------------------------------------------------------

    def _statement(self, tables: list[LiveTable]) -> None:
        self._change(self._numbers.choice(tables))

    def _transaction(self, tables: list[LiveTable]) -> None:
        self._cursor.execute("BEGIN")
        for _ in range(self._numbers.randrange(2, 7)):
            self._change(self._numbers.choice(_transactional(tables)))
        self._cursor.execute("COMMIT")

    def _savepoint(self, tables: list[LiveTable]) -> None:
        """Part of it is undone; with a row in MyISAM after the savepoint the undone rows stay in the log."""
        self._cursor.execute("BEGIN")
        self._change(self._numbers.choice(_transactional(tables)))
        self._cursor.execute("SAVEPOINT `a b`")
        self._undone(self._numbers.choice(_transactional(tables)))
        if self._numbers.random() < 0.6:
            self._change(next(table for table in tables if table.name in NOT_TRANSACTIONAL))
        if self._numbers.random() < 0.5:
            self._cursor.execute("SAVEPOINT inner_one")
            self._undone(self._numbers.choice(_transactional(tables)))
        self._cursor.execute("ROLLBACK TO `a b`")
        self._change(self._numbers.choice(_transactional(tables)))
        self._cursor.execute("COMMIT")

    def _rollback(self, tables: list[LiveTable]) -> None:
        self._cursor.execute("BEGIN")
        self._undone(self._numbers.choice(_transactional(tables)))
        if self._numbers.random() < 0.5:
            self._change(next(table for table in tables if table.name in NOT_TRANSACTIONAL))
        self._cursor.execute("ROLLBACK")

    def _mixed(self, tables: list[LiveTable]) -> None:
        """Tables that know no transactions, inside of one."""
        self._cursor.execute("BEGIN")
        for _ in range(self._numbers.randrange(2, 6)):
            self._change(self._numbers.choice(tables))
        self._cursor.execute("COMMIT")

    def _xa(self, tables: list[LiveTable]) -> None:
        """Prepared on one connection, other transactions follow on the other one, then it ends."""
        self._xa_count += 1
        name = f"'w{self._number}','{self._xa_count}',{self._number + 1}"
        cursor = self._xa_cursor
        is_undone = self._numbers.random() < 0.4
        cursor.execute(f"XA START {name}")
        for _ in range(self._numbers.randrange(1, 4)):
            self._insert(XA_TABLE, cursor, [self._undone_id() if is_undone else self._new_xa_id()])
        cursor.execute(f"XA END {name}")
        if not is_undone and self._numbers.random() < 0.3:
            cursor.execute(f"XA COMMIT {name} ONE PHASE")
            return
        cursor.execute(f"XA PREPARE {name}")
        try:
            for _ in range(self._numbers.randrange(3)):
                self._statement(tables)
        finally:  # also when one of them waited too long for a lock
            cursor.execute(f"XA {'ROLLBACK' if is_undone else 'COMMIT'} {name}")

    # --- statements -----------------------------------------------------------------------------------------------

    def _change(self, table: LiveTable) -> None:
        numbers, ids = self._numbers, self._some_ids()
        kind = numbers.randrange(7)
        if kind < 2:
            self._replace(table, ids)
        elif kind == 2:
            self._on_duplicate(table, ids)
        elif kind == 3:
            self._cursor.execute(f"DELETE FROM {table.name} WHERE id IN ({_list(ids)})")
        elif kind == 4 and table.name != "no_key":
            self._cursor.execute(f"DELETE FROM {table.name} WHERE id = %s", (ids[0] + CONNECTIONS * IDS,))
            sql = f"UPDATE {table.name} SET id = id + {CONNECTIONS * IDS} WHERE id = %s"
            self._cursor.execute(sql, (ids[0],))
        else:
            columns = numbers.sample(table.columns, min(len(table.columns), numbers.randrange(1, 5)))
            sets = ", ".join(f"{column.name} = {column.sql}" for column in columns)
            values = [self._value(table, column.name, column.value(numbers)) for column in columns]
            limit = 1 if any(column.name == "u64" for column in columns) else len(ids)
            self._cursor.execute(f"UPDATE IGNORE {table.name} SET {sets} WHERE id IN ({_list(ids[:limit])})", values)

    def _replace(self, table: LiveTable, ids: list[int]) -> None:
        self._insert(table, self._cursor, ids, "INSERT" if table.name == "no_key" else "REPLACE")

    def _on_duplicate(self, table: LiveTable, ids: list[int]) -> None:
        column = self._numbers.choice([column for column in table.columns if column.name not in ("u64", "dec10")])
        end = f"ON DUPLICATE KEY UPDATE {column.name} = VALUES({column.name})"
        self._insert(table, self._cursor, ids, "INSERT", end)

    def _undone(self, table: LiveTable) -> None:
        self._insert(table, self._cursor, [self._undone_id() for _ in range(self._numbers.randrange(1, 4))])

    def _insert(
        self, table: LiveTable, cursor: Cursor, ids: list[int], verb: str = "INSERT IGNORE", end: str = ""
    ) -> None:
        row = f"(%s, {', '.join(column.sql for column in table.columns)})"
        values: list[Any] = []
        for number in ids:
            values.append(number)
            for column in table.columns:
                values.append(self._value(table, column.name, column.value(self._numbers)))
        names = ", ".join(["id", *(column.name for column in table.columns)])
        cursor.execute(f"{verb} INTO {table.name} ({names}) VALUES {', '.join([row] * len(ids))} {end}", values)

    def _value(self, table: LiveTable, column: str, value: Any) -> Any:
        """Values of keys are the connection's own."""
        if column == "u64" and table.name in ("some", "xa_rows"):
            return self._numbers.randrange(IDS) * CONNECTIONS + self._number
        if column == "dec10" and table.name == "two_keys":
            return "7.25"
        return value

    def _some_ids(self) -> list[int]:
        count = self._numbers.choice((1, 1, 2, 5))
        return sorted(k * CONNECTIONS + self._number for k in self._numbers.sample(range(IDS), count))

    def _undone_id(self) -> int:
        self._undone_count += 1
        return UNDONE_IDS + self._undone_count * CONNECTIONS + self._number

    def _new_xa_id(self) -> int:
        return self._numbers.randrange(1 << 24) * CONNECTIONS + self._number


class _Evolution:
    # A table that changes its columns and its name under the eyes of a reader.
    def __init__(self, workload: Workload, numbers: random.Random) -> None:
        self._workload = workload
        self._numbers = numbers
        self._connection = workload.connect()
        self._cursor = self._connection.cursor()
        self._cursor.execute(f"USE {DATABASE}")
        self._cursor.execute("CREATE TABLE evolving (id INT PRIMARY KEY, touched INT NOT NULL DEFAULT 0)")
        self._round = 0

    def close(self) -> None:
        self._connection.close()

    def run(self, rounds: int) -> None:
        for _ in range(max(2, rounds // 12)):
            self._round += 1
            self._one_round(self._round)

    def _one_round(self, number: int) -> None:
        self._insert(number * 100)
        self._alter(f"ADD COLUMN c{number} VARCHAR(20) CHARACTER SET sjis DEFAULT 'ソ' FIRST")
        self._insert(number * 100 + 10)
        self._alter(f"MODIFY COLUMN c{number} TEXT CHARACTER SET utf8mb4 AFTER touched")
        self._alter(f"CHANGE COLUMN c{number} renamed_{number} LONGTEXT")
        self._cursor.execute("SET SESSION binlog_alter_two_phase = 1")
        self._alter(f"ADD COLUMN u{number} INT UNSIGNED NOT NULL DEFAULT 4000000000, ALGORITHM=COPY")
        self._cursor.execute("SET SESSION binlog_alter_two_phase = 0")
        self._alter(f"DROP COLUMN renamed_{number}")
        self._ddl("RENAME TABLE evolving TO elsewhere", "rename", "evolving", "elsewhere")
        self._cursor.execute("CREATE TABLE evolving (other BIGINT UNSIGNED PRIMARY KEY)")
        self._cursor.execute("INSERT INTO evolving VALUES (18446744073709551615), (0)")
        self._ddl("TRUNCATE TABLE evolving", "clear", "evolving")
        self._cursor.execute("INSERT INTO evolving VALUES (9223372036854775808)")
        self._ddl("DROP TABLE evolving", "clear", "evolving")
        self._ddl("RENAME TABLE elsewhere TO evolving", "rename", "elsewhere", "evolving")
        self._ddl("CREATE OR REPLACE TABLE copied AS SELECT * FROM evolving WHERE 1 = 0", "clear", "copied")
        self._cursor.execute("INSERT INTO copied SELECT * FROM evolving")
        self._cursor.execute(f"CREATE TABLE copied_{number} AS SELECT * FROM evolving")
        self._cursor.execute("DELETE FROM evolving WHERE id % 3 = 0")

    def _insert(self, first: int) -> None:
        rows = ", ".join(f"({first + number})" for number in range(5))
        self._cursor.execute(f"INSERT INTO evolving (id) VALUES {rows}")

    def _alter(self, what: str) -> None:
        """The rows of the log before it contain nothing of what it does to them: each row is told again after it."""
        self._cursor.execute(f"ALTER TABLE evolving {what}")
        self._cursor.execute("UPDATE evolving SET touched = touched + 1")

    def _ddl(self, sql: str, what: str, table: str, other: str = "") -> None:
        self._cursor.execute(sql)
        self._cursor.execute("SELECT @@last_gtid")
        self._workload.ddl.append(Ddl(self._cursor.fetchone()[0], what, table, other))


def _transactional(tables: list[LiveTable]) -> list[LiveTable]:
    return [table for table in tables if table.name not in NOT_TRANSACTIONAL]


def _list(ids: list[int]) -> str:
    return ", ".join(map(str, ids))
