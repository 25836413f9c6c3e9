"""Marks in the log, which tell a reader what the rows around them are: `MarkKind`, `Mark`, `MarksTable`.

All of it lies in the database `binlog_stream` on the server, which no rule of a job selects. Marks are rows of
`snapshot_marks`, inserted only. A snapshot of one table is, in the order of the log:

    begin       a group with the mark alone
    chunk ...   groups with rows inserted into the shadow table, then the mark
    end         a group with the mark alone

A new `begin` about a table cancels its snapshot that has not ended; so does `cancel`. Rows of a chunk are those of the
source table at the chunk's place in the log. Ranges of chunks meet: each goes from after `from` (null: the start)
through `through` (null: the end), so together they cover all keys. A table whose `begin` names no `order` is one chunk,
which has all rows that the table has at that place.

A `definition` is a group with the mark alone, about a table whose rows are not copied.

Earlier runs of the command on a server: `EarlierRuns`, read from the marks.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from binlog_connector.schema.snapshot_marks import TOPICS
from binlog_format.views.filters import MARKS_TABLE, SNAPSHOT_DATABASE
from binlog_streaming.snapshot.sql_text import quoted, table_sql

if TYPE_CHECKING:
    from collections.abc import Mapping

    from binlog_connector.schema.snapshot_marks import Purpose
    from binlog_streaming.server.session import ServerSession
    from binlog_streaming.snapshot.source_table import SourceTable


NO_CHUNK = -1
"""`chunk` of marks that are about no chunk."""

_CREATE_DATABASE = f"CREATE DATABASE IF NOT EXISTS {quoted(SNAPSHOT_DATABASE)} CHARACTER SET utf8mb4"
# With the snapshot in its key, rows of this server meet none that a replica has written itself.
_TABLE = f"""{table_sql(SNAPSHOT_DATABASE, MARKS_TABLE)} (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
  snapshot CHAR(36) CHARACTER SET ascii NOT NULL,
  kind VARCHAR(16) CHARACTER SET ascii NOT NULL,
  source_schema VARCHAR(64) CHARACTER SET utf8mb4 NOT NULL,
  source_table VARCHAR(64) CHARACTER SET utf8mb4 NOT NULL,
  shadow VARCHAR(64) CHARACTER SET ascii NOT NULL,
  chunk BIGINT NOT NULL,
  row_count BIGINT NOT NULL,
  detail LONGTEXT CHARACTER SET utf8mb4 NOT NULL,
  PRIMARY KEY (id, snapshot)
) ENGINE=InnoDB"""
_INSERT = (
    f"INSERT INTO {table_sql(SNAPSHOT_DATABASE, MARKS_TABLE)}"
    " (snapshot, kind, source_schema, source_table, shadow, chunk, row_count, detail)"
    " VALUES (%s, %s, %s, %s, %s, %s, {row_count}, %s)"
)


class MarkKind(StrEnum):
    """Subject of a mark."""

    BEGIN = "begin"
    CHUNK = "chunk"
    END = "end"
    CANCEL = "cancel"
    REPAIR = "repair"
    REPAIRED = "repaired"
    PROOF = "proof"
    DEFINITION = "definition"


@dataclass(frozen=True, slots=True)
class Bounds:
    """The keys that a chunk covers: after `after`, through `through`; None: open.

    The texts are those of `key_column.BoundForm`: numbers, dates, UUIDs and addresses as the server prints them, text
    and bytes as hexadecimal digits of what is stored.
    """

    after: tuple[str, ...] | None
    through: tuple[str, ...] | None

    def to_json(self) -> dict[str, Any]:
        """The detail of a mark of kind `chunk`."""
        return {"from": self.after, "through": self.through}


@dataclass(frozen=True, slots=True)
class Mark:
    """A row of `snapshot_marks`; *detail* is JSON.

    Attributes:
        snapshot: UUID of one run about one table.
        source: Database and name of the table that is taken.
        shadow: Name of the table in `binlog_stream` whose events are the rows.
        chunk: Number of the chunk from 0 on; `NO_CHUNK`: none.
        row_count: Rows of the chunk, or of all chunks (`end`).
    """

    snapshot: str
    kind: MarkKind
    source: tuple[str, str]
    shadow: str
    chunk: int
    row_count: int
    detail: dict[str, Any]


class MarksTable:
    """`binlog_stream.snapshot_marks` on a server."""

    sql = table_sql(SNAPSHOT_DATABASE, MARKS_TABLE)
    """Its full name."""

    def __init__(self, session: ServerSession) -> None:
        self._session = session

    def create(self, *, begins_anew: bool = False) -> None:
        """Make database and table where they are not there, on replicas too; once in each run.

        A replica that lacks what the server has would stop at the first mark. MariaDB logs no CREATE TABLE
        IF NOT EXISTS about a table that is there, so a new one takes its place where nobody needs what is in it. The
        database becomes the session's: a replica that leaves it out then leaves out all statements about it.

        Args:
            begins_anew: Nobody needs earlier marks.
        """
        self._session.execute(_CREATE_DATABASE)
        self._session.execute(f"USE {quoted(SNAPSHOT_DATABASE)}")
        replaces = begins_anew and self._session.version.is_mariadb
        how = "CREATE OR REPLACE TABLE" if replaces else "CREATE TABLE IF NOT EXISTS"
        self._session.execute(f"{how} {_TABLE}")

    def exists(self) -> bool:
        """True if the table exists."""
        found = self._session.value(
            "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
            SNAPSHOT_DATABASE,
            MARKS_TABLE,
        )
        return bool(found)

    def insert(self, mark: Mark) -> None:
        """Write a mark, in an event group of its own."""
        self._session.execute(self.statement(mark))

    def statement(self, mark: Mark) -> str:
        """A statement that writes a mark."""
        return self._statement(mark, str(mark.row_count))

    def statement_after_rows(self, mark: Mark) -> str:
        """A statement that writes a mark, with the number of rows that the statement before it changed."""
        return self._statement(mark, "ROW_COUNT()")

    def _statement(self, mark: Mark, row_count: str) -> str:
        detail = json.dumps(mark.detail, ensure_ascii=False)
        values = (mark.snapshot, str(mark.kind), *mark.source, mark.shadow, mark.chunk, detail)
        return self._session.filled(_INSERT.format(row_count=row_count), *values)

    def last_begin(self, schema: str, table: str) -> Mark | None:
        """The begin of the table's newest snapshot, if that has neither ended nor been cancelled."""
        condition = "source_schema = %s AND source_table = %s AND kind IN ('begin', 'end', 'cancel')"
        newest = self._newest(condition, schema, table)
        return newest if newest is not None and newest.kind is MarkKind.BEGIN else None

    def last_chunk(self, snapshot: str) -> Mark | None:
        """The last chunk that a snapshot has written."""
        return self._newest("snapshot = %s AND kind = 'chunk'", snapshot)

    def row_count(self, snapshot: str) -> int:
        """Rows of all chunks of a snapshot."""
        statement = f"SELECT COALESCE(SUM(row_count), 0) FROM {table_sql(SNAPSHOT_DATABASE, MARKS_TABLE)}"
        return int(self._session.value(f"{statement} WHERE snapshot = %s AND kind = 'chunk'", snapshot))

    def _newest(self, condition: str, *values: object) -> Mark | None:
        rows = self._session.rows(
            "SELECT snapshot, kind, source_schema, source_table, shadow, chunk, row_count, detail"
            f" FROM {table_sql(SNAPSHOT_DATABASE, MARKS_TABLE)} WHERE {condition} ORDER BY id DESC LIMIT 1",
            *values,
        )
        if not rows:
            return None
        snapshot, kind, schema, table, shadow, chunk, row_count, detail = rows[0]
        return Mark(snapshot, MarkKind(kind), (schema, table), shadow, chunk, row_count, json.loads(detail))


def begin_detail(table: SourceTable, purpose: Purpose, run: Mapping[str, Any]) -> dict[str, Any]:
    """The detail of a mark of kind `begin`: what the snapshot is for, and what the table looks like.

    `key` are the columns that tell rows apart, `order` those that bounds of chunks are of; `definition` tells versions
    of the table apart.

    Args:
        run: Whose snapshot it is, and `definition`.
    """
    return {
        "purpose": str(purpose),
        "columns": [column.to_json() for column in table.columns],
        "key": table.row_key,
        "order": table.key.names if table.key is not None else [],
        **run,
    }


RUN = "run"
"""Key in the detail of `begin`: UUID of the run of the command, which may be about many tables."""
TABLES_LEFT = "tables_left"
"""Key in the detail of `begin`: number of tables that the run had still to begin after this one."""

FILTER = "filter"
"""Key in the detail of `begin`: condition for the rows that the snapshot takes; missing: all."""


@dataclass(frozen=True, slots=True)
class _Begun:
    run: str | None
    topics: str | None
    row_filter: str | None
    tables_left: int
    snapshot: str
    source: tuple[str, str]


class EarlierRuns:
    """The runs whose marks a server has.

    A run was cut off if the snapshot that it began last has not ended, or if tables were left after that.

    Args:
        topics: The publisher for whose topics tables are asked for; None: a job with tables asks.
        row_filter: Condition for the rows that are asked for; None: all.
    """

    def __init__(self, session: ServerSession, topics: str | None = None, row_filter: str | None = None) -> None:
        self._asked = topics, row_filter
        self._last_of_run: dict[str, _Begun] = {}
        self._last_of_table: dict[tuple[str, str], _Begun] = {}
        self._ended: set[str] = set()
        self._cancelled: set[str] = set()
        if MarksTable(session).exists():
            self._read(session)

    def is_open(self, source: tuple[str, str]) -> bool:
        """True if the newest snapshot of a table has neither ended nor been cancelled."""
        begun = self._last_of(source)
        return begun is not None and begun.snapshot not in self._ended | self._cancelled

    def cut_run_that_took(self, source: tuple[str, str]) -> str | None:
        """The run that took all of a table and was cut off later; None: there is none."""
        begun = self._last_of(source)
        return begun.run if begun is not None and self._was_cut(begun) else None

    @property
    def is_any_cut(self) -> bool:
        """True if a later run may continue with the work of these runs, whoever asks; also while one is under way."""
        return any(
            begun.snapshot not in self._ended | self._cancelled or self._was_cut(begun)
            for begun in self._last_of_table.values()
        )

    def run_of(self, source: tuple[str, str]) -> str | None:
        """The run that began the newest snapshot of a table."""
        begun = self._last_of(source)
        return None if begun is None else begun.run

    def _last_of(self, source: tuple[str, str]) -> _Begun | None:
        begun = self._last_of_table.get(source)
        return None if begun is None or (begun.topics, begun.row_filter) != self._asked else begun

    def _was_cut(self, begun: _Begun) -> bool:
        """True if the run that took all of a table was cut off later."""
        if begun.run is None or begun.snapshot not in self._ended:
            return False
        last = self._last_of_run[begun.run]
        return last.snapshot not in self._ended or last.tables_left > 0

    def _read(self, session: ServerSession) -> None:
        rows = session.rows(
            "SELECT snapshot, kind, source_schema, source_table, detail"
            f" FROM {table_sql(SNAPSHOT_DATABASE, MARKS_TABLE)}"
            " WHERE kind IN ('begin', 'end', 'cancel') ORDER BY id"
        )
        for snapshot, kind, schema, table, detail in rows:
            if kind == MarkKind.END:
                self._ended.add(snapshot)
            elif kind == MarkKind.CANCEL:
                self._cancelled.add(snapshot)
            else:
                told = json.loads(detail)
                left = int(told.get(TABLES_LEFT, 0))
                begun = _Begun(told.get(RUN), told.get(TOPICS), told.get(FILTER), left, snapshot, (schema, table))
                self._last_of_table[begun.source] = begun
                if begun.run is not None:
                    self._last_of_run[begun.run] = begun
