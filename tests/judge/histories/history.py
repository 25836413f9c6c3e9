"""A history: statements that one session runs in databases of its own, and what became of each: `Session`."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pymysql

from tests.judge.tables import BYTES, ServerTable
from tests.truth.truth_values import GEOMETRIES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from pymysql.cursors import Cursor

    from tests.judge.servers import LiveServer

DATABASE = "h{number}"
JOB_RUNS = "-- the job runs"
"""In the place of a statement: up to here the job takes the log, and goes on later."""
UNDO = ("XA END 'x'", "XA ROLLBACK 'x'", "ROLLBACK")
"""Whatever a session has begun."""
_LAST_NUMBER = re.compile(r"[-:](\d+)\s*$")


@dataclass
class Done:
    """A statement that was run.

    Attributes:
        error: What the server answered; empty: it did it.
        gtid: Of the log's last event group after it.
        label: What the statement is counted as.
    """

    text: str
    error: str = ""
    gtid: str = ""
    label: str = ""


@dataclass
class History:
    """What one session did.

    Attributes:
        number: Tells its databases from those of others.
        seed: What it was made from.
        done: Its statements, those that failed too.
        server: What SELECT gives of its tables in the end.
    """

    number: int
    seed: str
    done: list[Done] = field(default_factory=list)
    server: dict[str, ServerTable] = field(default_factory=dict)

    @property
    def database(self) -> str:
        """Its own."""
        return DATABASE.format(number=self.number)


class Session:
    """Runs the statements of a history on a server."""

    def __init__(self, server: LiveServer, history: History) -> None:
        self.server = server
        self.history = history
        self._connection = server.connect()
        self._cursor = self._connection.cursor()

    def close(self) -> None:
        """End the session."""
        self._connection.close()

    def do(self, text: str, label: str = "") -> str:
        """Run a statement; the server's error, or nothing."""
        done = Done(text, label=label)
        try:
            if text != JOB_RUNS:
                self._cursor.execute(text)
        except pymysql.err.MySQLError as error:
            done.error = str(error.args[-1]) or repr(error)
        done.gtid = self._gtid()
        self.history.done.append(done)
        return done.error

    def ask(self, text: str) -> list[tuple[object, ...]]:
        """The rows of a query that is no part of the history."""
        self._cursor.execute(text)
        return list(self._cursor.fetchall())

    def keep_tables(self) -> None:
        """Take what the history's tables have now as the truth; what is not committed never happened.

        A replica may have other rows than its primary: the truth is those of the server whose log is judged.
        """
        for text in UNDO:
            with suppress(pymysql.err.MySQLError):
                self._cursor.execute(text)
        database = self.history.database
        self.server.settle()
        with self.server.all[-1].connect() as connection, connection.cursor() as cursor:
            cursor.execute("SET time_zone = '+00:00', sql_mode = ''")
            self.history.server = dict(tables_as_read(cursor, database, f"{database}b"))

    def _gtid(self) -> str:
        if not self.server.is_mysql:
            ((found,),) = self.ask("SELECT @@last_gtid")
            return str(found)
        ((found,),) = self.ask("SELECT @@global.gtid_executed")
        number = _LAST_NUMBER.search(str(found))
        return number[1] if number else ""


def tables_as_read(cursor: Cursor, *databases: str, without: Collection[str] = ()) -> Iterator[tuple[str, ServerTable]]:
    """What SELECT gives of the tables of *databases*, by `database.table`, but for those of some names."""
    cursor.execute(
        "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE = 'SYSTEM VERSIONED' FROM information_schema.TABLES "
        "WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED') AND TABLE_SCHEMA IN %s",
        (databases,),
    )
    for schema, table, is_versioned in cursor.fetchall():
        if table in without:
            continue
        # Servers without system versioning may lack GENERATION_EXPRESSION.
        is_end = "GENERATION_EXPRESSION = 'ROW END'" if is_versioned else "0"
        cursor.execute(
            f"SELECT COLUMN_NAME, DATA_TYPE, {is_end} FROM information_schema.COLUMNS "
            "WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s ORDER BY ORDINAL_POSITION",
            (schema, table),
        )
        columns = cursor.fetchall()
        if is_versioned and not any(is_end for _, _, is_end in columns):  # the columns of its periods are not told
            columns = (*columns, ("row_start", "timestamp", 0), ("row_end", "timestamp", 1))
        names, types = [name for name, _, _ in columns], [kind.lower() for _, kind, _ in columns]
        texts = ", ".join(_text(name, kind) for name, kind in zip(names, types, strict=True))
        which = " FOR SYSTEM_TIME ALL" if is_versioned else ""  # a mirror has the versions that have ended, too
        cursor.execute(f"SELECT {texts} FROM {quoted(schema)}.{quoted(table)}{which}")
        rows = [[None if value is None else _plain(value) for value in row] for row in cursor.fetchall()]
        yield f"{schema}.{table}", ServerTable(names, types, rows)


def quoted(name: str) -> str:
    """A name, as statements have it."""
    doubled = name.replace("`", "``")
    return f"`{doubled}`"


def _text(name: str, kind: str) -> str:
    column = quoted(name)
    if kind in BYTES:
        return f"HEX({column})"
    if kind in GEOMETRIES:
        # Of a value without any bytes ST_SRID is an error before MySQL 8.0.
        return f"IF(LENGTH({column}) = 0, NULL, CONCAT(ST_SRID({column}), ':', HEX(ST_AsBinary({column}))))"
    if kind == "bit":
        return f"CAST({column} + 0 AS CHAR)"
    if kind == "float":
        return f"CAST({column} * 1E0 AS CHAR)"
    if kind == "double":
        return f"{column} * 1E0"  # CAST prints two digits of a DOUBLE(10, 2), whatever more is in the row
    return f"CAST({column} AS CHAR CHARACTER SET utf8mb4)"


def _plain(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
