"""A snapshot of one table, written into the server's log: `TableSnapshot`."""

from __future__ import annotations

import contextlib
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pymysql

from binlog_connector.rules.predicate_parser import parse_predicate
from binlog_connector.schema.snapshot_marks import KEY, TOPICS, Purpose
from binlog_format.errors import ServerError
from binlog_streaming.server.session import (
    CACHE_FULL,
    DEADLOCK,
    LOCK_WAIT_TIMEOUT,
    NO_SUCH_COLUMN,
    NO_SUCH_INDEX,
    NO_SUCH_TABLE,
    NOWAIT_REFUSED,
    STATEMENT_CACHE_FULL,
    TABLE_CHANGED,
    TABLE_WAIT_SECONDS,
    named_error,
    number_of,
)
from binlog_streaming.snapshot.marks import FILTER, NO_CHUNK, Bounds, Mark, MarkKind, MarksTable, begin_detail
from binlog_streaming.snapshot.shadow import ShadowEngine, ShadowTable, drop_shadow, shadow_name
from binlog_streaming.snapshot.source_table import (
    TableLock,
    columns_digest,
    definition_of,
    locked_definition,
    read_columns,
    read_engine,
)
from binlog_streaming.snapshot.sql_text import (
    LOCK_WAIT_SECONDS,
    bound_of,
    bound_statement,
    locking_clause,
    logged_place,
    rows_statement,
    table_sql,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from binlog_connector.rules.predicate_parser import Condition
    from binlog_streaming.server.session import ServerSession
    from binlog_streaming.snapshot.source_table import SourceTable

_LOCKED = {LOCK_WAIT_TIMEOUT, DEADLOCK, NOWAIT_REFUSED}
_TOO_LARGE = {CACHE_FULL, STATEMENT_CACHE_FULL}
_CHANGED = {NO_SUCH_TABLE, NO_SUCH_COLUMN, TABLE_CHANGED, NO_SUCH_INDEX}


class RowsLockedError(Exception):
    """Rows of a chunk are locked by others; nothing of the chunk is in the log."""


class ChunkTooLargeError(Exception):
    """A chunk does not fit into the server's cache of a transaction; nothing of it is in the log."""


class TableChangedError(Exception):
    """The source is not what it was when the snapshot began; nothing of the chunk is in the log."""


@dataclass(frozen=True, slots=True)
class WrittenChunk:
    """A chunk that is in the log. *lock_seconds*: how long locks of rows were held."""

    row_count: int
    lock_seconds: float


class TableSnapshot:
    """One run about one table: its marks, its shadow and its chunks.

    `start` or `resume` makes one; then `write` each of `next_bounds` until `is_complete`, then `end`.

    Attributes:
        snapshot: UUID of the run.
        row_count: Rows of all chunks so far.
        chunk_count: How many chunks there are so far.
        is_complete: The last chunk is there.
    """

    def __init__(self, session: ServerSession, table: SourceTable, snapshot: str, engine: ShadowEngine) -> None:
        self._session = session
        self._marks = MarksTable(session)
        self._shadow = ShadowTable(session, table, shadow_name(table.schema, table.name, snapshot), engine)
        self._definition = ""
        create_table = session.rows(f"SHOW CREATE TABLE {table_sql(table.schema, table.name)}")[0][1]
        self._columns_digest = columns_digest(definition_of(create_table))
        self._after: tuple[str, ...] | None = None
        self._topics: str | None = None
        self._condition: Condition | None = None
        self.table = table
        self.snapshot = snapshot
        self.row_count = 0
        self.chunk_count = 0
        self.is_complete = False

    @staticmethod
    def start(
        session: ServerSession,
        table: SourceTable,
        purpose: Purpose,
        engine: ShadowEngine,
        run: Mapping[str, Any] | None = None,
    ) -> TableSnapshot:
        """Begin a snapshot; one of the table that has not ended is cancelled by it.

        Args:
            session: Prepared (`dialect.prepare_session`).
            run: Whose snapshot it is, for the mark.
        """
        self = TableSnapshot(session, table, str(uuid.uuid4()), engine)
        self._take_in(run or {})
        if not self._marks.exists():
            self._marks.create()
        earlier = self._marks.last_begin(table.schema, table.name)
        self._shadow.create()
        place = logged_place(session)
        self._insert_begin(self._begin_detail(purpose, run or {}))
        if place is not None and logged_place(session) == place:
            raise ServerError(
                "NOT_LOGGED",
                "the server does not log what is written into the database binlog_stream",
                at=session.place,
                hint="sql_log_bin, binlog_do_db or binlog_ignore_db leave it out",
            )
        if earlier is not None:
            drop_shadow(session, earlier.shadow)
        return self

    @staticmethod
    def resume(session: ServerSession, table: SourceTable, begin: Mark, engine: ShadowEngine) -> TableSnapshot | None:
        """Go on with a snapshot whose `begin` is in the log, after its last chunk; None: the table is another now."""
        self = TableSnapshot(session, table, begin.snapshot, engine)
        self._take_in(begin.detail)
        if not self._is_about(begin):
            return None
        self._shadow.create()
        last = self._marks.last_chunk(begin.snapshot)
        if last is not None:
            through = last.detail["through"]
            self._after = None if through is None else tuple(through)
            self.is_complete = through is None
            self.chunk_count = last.chunk + 1
            self.row_count = self._marks.row_count(begin.snapshot)
        return self

    def _take_in(self, detail: Mapping[str, Any]) -> None:
        self._topics = detail.get(TOPICS)
        row_filter = detail.get(FILTER)
        self._condition = None if row_filter is None else parse_predicate(row_filter)

    def next_bounds(self, size: int) -> Bounds:
        """The keys of the next chunk, of *size* rows; the last chunk, or that of a table without a key, is open.

        Raises:
            TableChangedError: The source is another one.
        """
        key = self.table.key
        if key is None:
            return Bounds(None, None)
        try:
            rows = self._session.try_rows(bound_statement(self.table, key, self._after, size))
        except pymysql.MySQLError as error:
            raise self._failed(error) from error
        return Bounds(self._after, bound_of(rows))

    def write(self, bounds: Bounds, *, is_waiting: bool = False) -> WrittenChunk:
        """Write a chunk into the log, as one event group: its rows, then its mark.

        Args:
            bounds: Which rows: of `next_bounds`.
            is_waiting: Wait for locks a short time, instead of failing at once.

        Raises:
            RowsLockedError: Others hold locks.
            ChunkTooLargeError: It needs fewer rows.
            TableChangedError: The source is another one.
        """
        has_row_locks = self.table.lock is TableLock.ROWS
        locking = locking_clause(self._session, is_waiting=is_waiting) if has_row_locks else ""
        try:
            self._begin_chunk()
            self._check_definition()
            # The network's time is not within that of the locks.
            rows = rows_statement(self.table, self._shadow.sql, bounds, locking, self._condition)
            mark = self._mark(MarkKind.CHUNK, self.chunk_count, 0, bounds.to_json() | self._for_topics)
            started = time.perf_counter()
            row_count, *_ = self._session.try_script((rows, self._marks.statement_after_rows(mark), "COMMIT"))
        except pymysql.MySQLError as error:
            self._session.roll_back()
            raise self._failed(error) from error
        except TableChangedError:
            self._session.roll_back()
            raise
        finally:
            if not has_row_locks:
                self._unlock_table()
        written = WrittenChunk(row_count, time.perf_counter() - started)
        self._after, self.is_complete = bounds.through, bounds.through is None
        self.chunk_count += 1
        self.row_count += row_count
        self._shadow.take(row_count)
        return written

    @property
    def _for_topics(self) -> dict[str, Any]:
        # A publisher understands a mark without what was logged before it.
        return {} if self._topics is None else {TOPICS: self._topics, KEY: self.table.logged_key}

    def _begin_chunk(self) -> None:
        execute = self._session.try_execute
        if self.table.lock is TableLock.ROWS:
            if self.table.key is None:
                # Rows that come meanwhile must not be missing from the only chunk: gaps are locked too.
                execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            execute("START TRANSACTION")
            return
        # START TRANSACTION would give the lock away.
        execute("SET SESSION autocommit = 0, lock_wait_timeout = %s", LOCK_WAIT_SECONDS)
        source = table_sql(self.table.schema, self.table.name)
        execute(f"LOCK TABLES {source} READ, {self._shadow.sql} WRITE, {self._marks.sql} WRITE")

    def _unlock_table(self) -> None:
        # A session that is lost has no lock; what lost it is told already.
        with contextlib.suppress(pymysql.MySQLError):
            self._session.try_execute("UNLOCK TABLES")
            self._session.try_execute("SET SESSION autocommit = 1, lock_wait_timeout = %s", TABLE_WAIT_SECONDS)

    def _check_definition(self) -> None:
        """See that the table is what it was, and keep it so to the end of the transaction."""
        source = table_sql(self.table.schema, self.table.name)
        self._session.try_rows(f"SELECT 1 FROM {source} LIMIT 0")  # ALTER TABLE waits from here on
        definition = definition_of(self._session.try_rows(f"SHOW CREATE TABLE {source}")[0][1])
        if definition != self._definition:
            # Another index, or the first chunk: what counts is the columns, which take the server longer to tell.
            columns = read_columns(self._session, self.table.schema, self.table.name)
            engine = read_engine(self._session, self.table.schema, self.table.name)
            is_same = columns == self.table.columns and engine == self.table.engine
            if not is_same or columns_digest(definition) != self._columns_digest:
                raise TableChangedError
            self._definition = definition

    def end(self) -> None:
        """Write that all chunks are there, and remove the shadow."""
        detail = {"chunks": self.chunk_count, "rows": self.row_count} | self._for_topics
        self._marks.insert(self._mark(MarkKind.END, NO_CHUNK, self.row_count, detail))
        drop_shadow(self._session, self._shadow.name)

    def cancel(self, reason: str) -> None:
        """Write that no more chunks come, and remove the shadow."""
        self._marks.insert(self._mark(MarkKind.CANCEL, NO_CHUNK, self.row_count, {"reason": reason} | self._for_topics))
        drop_shadow(self._session, self._shadow.name)

    def _insert_begin(self, detail: dict[str, Any]) -> None:
        """Write the mark of the beginning, with the definition that the table has at the mark's place in the log."""
        try:
            self._session.try_execute("START TRANSACTION")
            defined = locked_definition(self._session, self.table.schema, self.table.name)
            mark = self._mark(MarkKind.BEGIN, NO_CHUNK, 0, detail | defined)
            self._session.try_script((self._marks.statement(mark), "COMMIT"))
        except pymysql.MySQLError as error:
            self._session.roll_back()
            raise named_error(error, str(self._session.address)) from error

    def _is_about(self, begin: Mark) -> bool:
        """True if the table is the same as at *begin*, a mark of that kind."""
        now = self._begin_detail(Purpose.COMPLETE, {})
        return all(begin.detail.get(name) == now[name] for name in ("columns", "order", "definition"))

    def _begin_detail(self, purpose: Purpose, run: Mapping[str, Any]) -> dict[str, Any]:
        return begin_detail(self.table, purpose, {"definition": self._columns_digest, **run})

    def _mark(self, kind: MarkKind, chunk: int, row_count: int, detail: dict[str, Any]) -> Mark:
        source = (self.table.schema, self.table.name)
        return Mark(self.snapshot, kind, source, self._shadow.name, chunk, row_count, detail)

    def _failed(self, error: pymysql.MySQLError) -> Exception:
        number = number_of(error)
        if number in _LOCKED:
            return RowsLockedError()
        if number in _TOO_LARGE:
            return ChunkTooLargeError()
        if number in _CHANGED:
            return TableChangedError()
        return named_error(error, str(self._session.address))
