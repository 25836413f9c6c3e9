"""The shadow table, whose only purpose is that its row events are in the log: `ShadowTable`."""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import TYPE_CHECKING

import pymysql

from binlog_format.errors import ServerError
from binlog_format.views.filters import MARKS_TABLE, SNAPSHOT_DATABASE
from binlog_streaming.server.session import named_error
from binlog_streaming.snapshot.marks import MarksTable
from binlog_streaming.snapshot.source_table import read_columns
from binlog_streaming.snapshot.sql_text import quoted, table_sql

if TYPE_CHECKING:
    from binlog_streaming.server.session import ServerSession
    from binlog_streaming.snapshot.source_table import SourceColumn, SourceTable

ROWS_KEPT_MAX = 100_000
"""Rows after which an InnoDB shadow is emptied; TRUNCATE costs as much as thousands of rows."""


class ShadowEngine(StrEnum):
    """Engine of a shadow table."""

    BLACKHOLE = "BLACKHOLE"
    """Rows are in the log and nowhere else."""
    INNODB = "InnoDB"
    """Rows are also stored, until the table is emptied."""


def shadow_name(schema: str, table: str, snapshot: str) -> str:
    """Name of a table's shadow, in `binlog_stream`."""
    return f"s_{hashlib.sha256(f'{schema}.{table}.{snapshot}'.encode()).hexdigest()[:16]}"


class ShadowTable:
    """A table with the source's columns in their order; generated ones are plain. *name*: `shadow_name`."""

    def __init__(self, session: ServerSession, table: SourceTable, name: str, engine: ShadowEngine) -> None:
        self._session = session
        self._table = table
        self._engine = engine
        self._row_count = 0
        self.name = name
        self.sql = table_sql(SNAPSHOT_DATABASE, name)

    def create(self) -> None:
        """Make it, empty, in the place of one that an earlier run left."""
        drop_shadow(self._session, self.name)
        # Column by column: CREATE TABLE ... LIKE and a change of its engine fails on generated columns, checks and
        # spatial indexes, CREATE TABLE ... SELECT under enforce_gtid_consistency, and BLACKHOLE has no SRIDs.
        columns = ", ".join(_declaration(column) for column in self._table.columns)
        try:
            self._session.try_execute(f"CREATE TABLE {self.sql} ({columns}) ENGINE={self._engine}")
        except pymysql.MySQLError as error:
            refused = named_error(error, str(self._session.address))
            if refused.subclass != "FAILED":
                raise refused from error
            reason = f"{self._table.full_name}: the server makes no copy of its columns: {error.args[-1]}"
            raise ServerError("TABLE_REFUSED", reason, at=self._session.place) from error
        self._check()

    def take(self, row_count: int) -> None:
        """Count rows of a chunk that was committed; an InnoDB table is emptied now and then."""
        self._row_count += row_count
        if self._engine is ShadowEngine.INNODB and self._row_count >= ROWS_KEPT_MAX:
            self._session.execute(f"TRUNCATE TABLE {self.sql}")
            self._row_count = 0

    def _check(self) -> None:
        engine = self._session.value(
            "SELECT ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
            SNAPSHOT_DATABASE,
            self.name,
        )
        if str(engine).upper() != self._engine.upper():
            raise ServerError("FAILED", f"the server made a table in {engine}, not in {self._engine}")
        columns = read_columns(self._session, SNAPSHOT_DATABASE, self.name)
        if len(columns) != len(self._table.columns):
            reason = f"{self._table.full_name}: its copy has {len(columns)} columns, not {len(self._table.columns)}"
            raise ServerError("TABLE_REFUSED", reason, at=self._session.place)
        for wanted, made in zip(self._table.columns, columns, strict=True):
            if (wanted.name, *wanted.value_type) != (made.name, *made.value_type):
                types = f"{wanted.column_type}, and {made.column_type} in a copy"
                reason = f"{self._table.full_name}: column {wanted.name} is {types}"
                raise ServerError("TABLE_REFUSED", reason, at=self._session.place)


def _declaration(column: SourceColumn) -> str:
    charset = f" CHARACTER SET {column.character_set} COLLATE {column.collation}" if column.character_set else ""
    null = "NULL" if column.is_nullable else "NOT NULL"
    return f"{quoted(column.name)} {column.value_type[0]}{charset} {null}"


def drop_left_shadows(session: ServerSession) -> None:
    """Remove shadows of snapshots that have ended, whose run was cut off before it could do so."""
    if MarksTable(session).exists():
        rows = session.rows(
            "SELECT DISTINCT TABLE_NAME FROM information_schema.TABLES"
            f" JOIN {table_sql(SNAPSHOT_DATABASE, MARKS_TABLE)} marks ON marks.shadow = CONVERT(TABLE_NAME USING ascii)"
            " WHERE TABLE_SCHEMA = %s AND marks.kind IN ('end', 'cancel')",
            SNAPSHOT_DATABASE,
        )
        for (name,) in rows:
            session.execute(f"DROP TABLE IF EXISTS {table_sql(SNAPSHOT_DATABASE, name)}")


def drop_shadow(session: ServerSession, name: str) -> None:
    """Remove a shadow table if it is there."""
    exists = session.value(
        "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
        SNAPSHOT_DATABASE,
        name,
    )
    if exists:
        session.execute(f"DROP TABLE IF EXISTS {table_sql(SNAPSHOT_DATABASE, name)}")
