"""Rows that differ, brought back through the log: `TableRepair(...).repair(keys)`.

A group for some keys has in the shadow table: an insert of each key, the first mark, a delete of each key, an insert of
each row that the table has of them, and the last mark. The job applies what is between the marks as changes of the
table: whatever the target has of these keys goes, and the server's rows come. Their locks, and those of the gaps where
keys are absent, are held until the group is logged, so it is what the table has at its place (docs/decisions/0026).
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pymysql

from binlog_format.errors import BinlogError, ServerError, TableError
from binlog_format.views.filters import SHADOW_PREFIX, SNAPSHOT_DATABASE
from binlog_streaming.prove.side_rows import key_condition, key_literals
from binlog_streaming.server.session import DEADLOCK, LOCK_WAIT_TIMEOUT, NOWAIT_REFUSED, named_error, number_of
from binlog_streaming.settings.choices import OnCascade
from binlog_streaming.snapshot.marks import NO_CHUNK, Mark, MarkKind, MarksTable
from binlog_streaming.snapshot.shadow import ShadowEngine, ShadowTable, drop_shadow
from binlog_streaming.snapshot.source_table import TableLock, read_columns, read_table
from binlog_streaming.snapshot.sql_text import (
    LOCK_WAIT_SECONDS,
    TURN_SECONDS,
    locking_clause,
    name_list,
    quoted,
    table_sql,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_streaming.prove.column_forms import TableForms
    from binlog_streaming.server.session import ServerSession
    from binlog_streaming.snapshot.server_tables import ServerTable

KEYS_MAX = 10_000
"""Rows of a table that are brought back one by one; of more a snapshot is the way."""
_KEYS_IN_GROUP = 200
_TRIES = 60
"""Number of waits for a locked row, a second each."""
_TURN = "binlog_stream.repair"
_SHADOW_PREFIX = f"{SHADOW_PREFIX}r"
_LOCKED = {LOCK_WAIT_TIMEOUT, DEADLOCK, NOWAIT_REFUSED}
_NO_DEFAULT = 1364


def drop_left_repairs(session: ServerSession) -> None:
    """Remove the shadows of a run that was killed: they hold rows. Those of one that is under way stay."""
    if _take_turn(session):
        statement = "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME LIKE %s"
        for (name,) in session.rows(statement, SNAPSHOT_DATABASE, _SHADOW_PREFIX.replace("_", r"\_") + "%"):
            drop_shadow(session, str(name))
        _end_turn(session)


@dataclass(frozen=True, slots=True)
class TableRepair:
    """Repairs rows of one table. *session*: prepared (`dialect.prepare_session`), without anything under way."""

    session: ServerSession
    table: ServerTable
    forms: TableForms

    def obstacle(self, keys: Sequence[bytes]) -> str | None:
        """Reason why the rows with *keys* cannot be repaired so; None: they can."""
        if not keys:
            return "the rows that it has are the same"
        if not self.forms.key_columns:
            return "without a key that is compared no row can be named"
        if len(keys) > KEYS_MAX:
            return f"more than {KEYS_MAX:,} rows differ"
        if self.table.rule.foreign_keys is OnCascade.APPLY:
            return 'with foreign_keys = "apply" rows of other tables depend on it'
        if self.table.source.lock is TableLock.TABLE:
            return f"its engine {self.table.source.engine} locks no rows"
        return self.table.refusal(str(self.session.variable("binlog_row_image")))

    def repair(self, keys: Sequence[bytes]) -> int:
        """Write the server's rows with these keys into the log, as messages; returns their number.

        Raises:
            TableError: `STATEMENT_REFUSED`: the table was altered since the proof.
        """
        source = read_table(self.session, *self.table.name)
        if source.columns != self.table.source.columns:
            raise self._altered()
        if not _take_turn(self.session):
            raise ServerError("BUSY", "another session repairs tables of this server", at=self.session.place)
        self.session.execute("SET SESSION foreign_key_checks = 0")  # a delete in the shadow is none of the parent's
        rows = 0
        for start in range(0, len(keys), _KEYS_IN_GROUP):
            rows += self._write(keys[start : start + _KEYS_IN_GROUP])
        _end_turn(self.session)
        return rows

    def _write(self, keys: Sequence[bytes]) -> int:
        # As chunks: several rows are never waited for, so no application loses by it (docs/decisions/0022).
        rows = self._write_group(keys, is_waiting=False)
        if rows is not None:
            return rows
        if len(keys) > 1:
            half = len(keys) // 2
            return sum(self._write(some) for some in (keys[:half], keys[half:]))
        for _ in range(_TRIES):
            rows = self._write_group(keys, is_waiting=True)
            if rows is not None:
                return rows
        reason = f"{self.table.name}: a row that differs was locked by others for {_TRIES * LOCK_WAIT_SECONDS} s"
        hint = "See information_schema.INNODB_TRX and XA RECOVER; then start again"
        raise ServerError("LOCKED", reason, at=self.session.place, hint=hint)

    def _write_group(self, keys: Sequence[bytes], *, is_waiting: bool) -> int | None:
        # A shadow belongs to one group. Rows are deleted from it, which BLACKHOLE does not log.
        snapshot = uuid.uuid4()
        name = f"{_SHADOW_PREFIX}{snapshot.hex[:14]}"
        shadow = ShadowTable(self.session, self.table.source, name, ShadowEngine.INNODB)
        shadow.create()
        try:
            return self._try_group(str(snapshot), shadow, keys, locking_clause(self.session, is_waiting=is_waiting))
        except pymysql.MySQLError as error:
            self.session.roll_back()
            if number_of(error) in _LOCKED:
                return None
            raise named_error(error, str(self.session.address)) from error
        except BinlogError:
            self.session.roll_back()
            raise
        finally:
            drop_shadow(self.session, name)

    def _try_group(self, snapshot: str, shadow: ShadowTable, keys: Sequence[bytes], locking: str) -> int:
        marks = MarksTable(self.session)
        session, forms = self.session, self.forms.key_columns
        source = table_sql(*self.table.name)
        session.try_execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")  # so that absent keys stay absent
        session.try_execute("START TRANSACTION")
        session.try_rows(f"SELECT 1 FROM {source} LIMIT 0")  # ALTER TABLE waits from here on
        if read_columns(session, *self.table.name) != self.table.source.columns:
            raise self._altered()
        names = name_list(form.name for form in forms)
        values = ", ".join(f"({', '.join(key_literals(forms, key))})" for key in keys)
        self._insert_keys(f"INSERT INTO {shadow.sql} ({names}) VALUES {values}")
        detail = {"key": [form.name for form in forms]}
        session.try_execute(marks.statement(self._mark(snapshot, MarkKind.REPAIR, shadow, 0, detail)))
        session.try_execute(f"DELETE FROM {shadow.sql}")
        columns = name_list(self.table.source.column_names)
        index = self.table.source.key
        forced = "" if index is None else f" FORCE INDEX ({quoted(index.index)})"
        condition = " OR ".join(f"({key_condition(forms, key)})" for key in keys)
        rows = session.try_execute(
            f"INSERT INTO {shadow.sql} ({columns}) SELECT {columns} FROM {source}{forced} WHERE {condition} {locking}"
        )
        mark = self._mark(snapshot, MarkKind.REPAIRED, shadow, rows, {"keys": len(keys)})
        session.try_execute(marks.statement(mark))
        session.try_execute("COMMIT")
        return rows

    def _insert_keys(self, statement: str) -> None:
        # Columns beside the key have what the server puts in their place; the key must not be changed on the way.
        mode = self.session.value("SELECT @@SESSION.sql_mode")
        self.session.execute("SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES'")
        try:
            self.session.try_execute(statement)
            warnings = [row for row in self.session.rows("SHOW WARNINGS") if int(row[1]) != _NO_DEFAULT]
        finally:
            self.session.execute("SET SESSION sql_mode = %s", mode)
        if warnings:
            reason = f"{self.table.name}: the server takes a key of the target for another one: {warnings[0][2]}"
            raise ServerError("TABLE_REFUSED", reason, at=self.session.place, hint="Take the table by a snapshot")

    def _mark(self, snapshot: str, kind: MarkKind, shadow: ShadowTable, rows: int, detail: dict[str, Any]) -> Mark:
        source = self.table.source
        return Mark(snapshot, kind, (source.schema, source.name), shadow.name, NO_CHUNK, rows, detail)

    def _altered(self) -> TableError:
        return TableError(
            "STATEMENT_REFUSED", f"{self.table.name}: it was altered since the proof", hint="Prove it again"
        )


def _take_turn(session: ServerSession) -> bool:
    return bool(session.value("SELECT GET_LOCK(%s, %s)", _TURN, TURN_SECONDS))


def _end_turn(session: ServerSession) -> None:
    session.execute("DO RELEASE_LOCK(%s)", _TURN)
