"""Take the tables of a plan, one after the other: `run_snapshot(session, plan)`.

Size and time of the next chunk: `Pace`, `RateLimit`.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pymysql

from binlog_connector.schema.snapshot_marks import TOPICS, Purpose
from binlog_format.errors import BinlogError, SchemaError, ServerError, TableError, UnsupportedError
from binlog_streaming.server.session import named_error
from binlog_streaming.snapshot.definitions import needed_before, write_definitions
from binlog_streaming.snapshot.log_identity import begin_writing
from binlog_streaming.snapshot.marks import FILTER, RUN, TABLES_LEFT, MarksTable
from binlog_streaming.snapshot.server_load import LoadMeter
from binlog_streaming.snapshot.server_tables import LeftOut
from binlog_streaming.snapshot.shadow import drop_left_shadows
from binlog_streaming.snapshot.source_table import read_table
from binlog_streaming.snapshot.sql_text import TURN_SECONDS
from binlog_streaming.snapshot.table_snapshot import (
    ChunkTooLargeError,
    RowsLockedError,
    TableChangedError,
    TableSnapshot,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_streaming.server.session import ServerSession
    from binlog_streaming.snapshot.plan import PlannedTable, SnapshotPlan
    from binlog_streaming.snapshot.server_load import SnapshotLoad
    from binlog_streaming.snapshot.shadow import ShadowEngine
    from binlog_streaming.snapshot.source_table import SourceTable

    OnProgress = Callable[["SnapshotProgress"], None]


LOCK_SECONDS = 0.02
"""Wanted duration of the locks of a chunk."""
SIZE_FIRST = 1_000
SIZE_MAX = 50_000
SIZE_BY_TIME_MIN = 1_000
"""Below this the rows are not what takes the time, but the disk or others: smaller chunks only make more of them."""
BYTES_FIRST_MAX = 4 << 20
BYTES_MAX = 64 << 20
"""Largest size of a chunk, by the average size of the table's rows."""
_GROWTH_MAX = 2
_SECONDS_MIN = 1e-6
_SHRINKING = 4
_PAUSES_PER_SECOND = 10
"""Pauses per second with a limited rate: chunks are no larger than the rate allows between two pauses."""


class Pace:
    """Sizes of chunks: as many rows as locks may be held for, fewer where others hold locks.

    Args:
        row_size: Bytes of a row, on average.
        rate: Rows in a second, at most; None: no limit.

    Attributes:
        size: Rows of the next chunk.
        is_waiting: It is of one row, and waits for its lock.
    """

    def __init__(self, row_size: int, rate: int | None = None) -> None:
        self._size_max = max(1, min(SIZE_MAX, BYTES_MAX // max(1, row_size)))
        if rate is not None:
            self._size_max = max(1, min(self._size_max, rate // _PAUSES_PER_SECOND))
        self.size = min(SIZE_FIRST, self._size_max, max(1, BYTES_FIRST_MAX // max(1, row_size)))
        self.is_waiting = False

    def wrote(self, row_count: int, lock_seconds: float) -> None:
        """Take in how long the locks of a chunk were held."""
        self.is_waiting = False
        if row_count < self.size:
            return  # the table's last one, or rows were deleted meanwhile
        fitting = int(row_count * LOCK_SECONDS / max(lock_seconds, _SECONDS_MIN))
        self.size = min(max(fitting, SIZE_BY_TIME_MIN), self.size * _GROWTH_MAX, self._size_max)

    def refused(self) -> None:
        """Note that a chunk was refused for locks of others, or its size; the next one is smaller, or waits."""
        self.is_waiting = self.size == 1
        self.size = max(1, self.size // _SHRINKING)


class RateLimit:
    """Delays a writer that is faster than its limit.

    Args:
        rate: Rows in a second; None: no limit.
        clock: Seconds, from any start.
        sleep: Waits that many seconds.
    """

    def __init__(
        self,
        rate: int | None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.rate = rate
        self._clock = clock
        self._sleep = sleep
        self._due = clock()

    def take(self, row_count: int) -> None:
        """Wait until *row_count* rows that were just written are within the rate; unused time is not saved up."""
        if self.rate is None:
            return
        self._due += row_count / self.rate
        now = self._clock()
        if self._due > now:
            self._sleep(self._due - now)
        else:
            self._due = now


LOCKED_SECONDS_MAX = 600.0
"""Longest wait for rows that other sessions lock without a pause; an application's transactions are shorter."""
KEYLESS_NOWAIT_SECONDS = 10.0
"""Seconds of attempts, without waiting for locks, at the only chunk of a table without a key, so that others do not
wait."""
_OF_ONE_TABLE = frozenset({"BUSY", "LOCKED", "TABLE_REFUSED", "TABLE_NOT_FOUND", "DENIED", "FAILED"})
"""Errors that end the snapshot of one table only: others continue."""
_PAUSE_SECONDS = 0.01


class SnapshotStoppedError(Exception):
    """The snapshot of a table is not wanted any more: who is told of progress raises it, and no more chunks come."""


@dataclass(frozen=True, slots=True)
class SnapshotProgress:
    """Progress of a run; reported after each chunk, and while it waits.

    Attributes:
        table: `database.table`.
        row_count: Rows of the table that are in the log.
        row_estimate: How many it has, about.
        chunk_size: Rows of the next chunk.
        is_locked: The rows that come next are locked by others.
    """

    table: str
    row_count: int
    row_estimate: int
    chunk_size: int
    is_locked: bool = False
    is_done: bool = False


@dataclass(frozen=True, slots=True)
class SnapshotResult:
    """Result of a run.

    Attributes:
        rows: Rows in them, those of runs before that were cut off included.
        load: On the server.
        failed: Tables that could not be taken, and why.
    """

    tables: int
    rows: int
    seconds: float
    load: SnapshotLoad
    failed: tuple[LeftOut, ...] = ()


def is_of_one_table(error: BinlogError) -> bool:
    """True if an error ends the snapshot of one table only."""
    if isinstance(error, TableError):
        return error.subclass != "WRITE_FAILED"
    if isinstance(error, ServerError):
        return error.subclass in _OF_ONE_TABLE
    return isinstance(error, SchemaError | UnsupportedError)


def run_snapshot(
    session: ServerSession,
    plan: SnapshotPlan,
    *,
    rate: int | None = None,
    restart: bool = False,
    on_progress: OnProgress = lambda _: None,
) -> SnapshotResult:
    """Write the rows of all planned tables into the server's log.

    Whatever ends it, and wherever: a later run goes on after the last chunk that is in the log.

    Args:
        session: On the server; it is set up for this and for nothing else.
        rate: Rows in a second, at most; None: no limit.
        restart: Begin every table anew.

    Raises:
        ServerError: `OTHER_SERVER`, `NOT_LOGGED`, `UNREACHABLE`, or what the server answered before the first table.
    """
    started = time.monotonic()
    begin_writing(session, plan.source)
    engine = plan.engine.install(session)
    run = plan.run or str(uuid.uuid4())
    limit, meter = RateLimit(rate), LoadMeter(session)
    drop_left_shadows(session)
    # What foreign keys lead to from there may not be the job's, and decides what happens to its rows.
    write_definitions(session, needed_before(session, [planned.table.name for planned in plan.tables]))
    rows, failed = 0, []
    for number, planned in enumerate(plan.tables):
        left = len(plan.tables) - number - 1
        about = {"server": plan.server, RUN: run, TABLES_LEFT: left}
        if plan.topics is not None:
            about[TOPICS] = plan.topics
        if plan.row_filter is not None:
            about[FILTER] = plan.row_filter
        taking = _TableRun(session, planned, engine, about, limit=limit, meter=meter, on_progress=on_progress)
        try:
            rows += taking.take(restart=restart or not planned.is_resumed)
        except BinlogError as error:
            if not is_of_one_table(error):
                raise
            failed.append(LeftOut(planned.table.source.full_name, str(error)))
    seconds = time.monotonic() - started
    meter.sample()
    return SnapshotResult(len(plan.tables) - len(failed), rows, seconds, meter.result(), tuple(failed))


class _TableRun:
    """Takes one table; begins it anew as often as it is altered on the way."""

    def __init__(
        self,
        session: ServerSession,
        planned: PlannedTable,
        engine: ShadowEngine,
        about: dict[str, Any],
        *,
        limit: RateLimit,
        meter: LoadMeter,
        on_progress: OnProgress,
    ) -> None:
        self._session = session
        self._planned = planned
        self._engine = engine
        self._about = about
        self._limit = limit
        self._meter = meter
        self._on_progress = on_progress
        self._source = planned.table.source

    def take(self, *, restart: bool) -> int:
        turn = _turn_name(self._source)
        if not self._session.value("SELECT GET_LOCK(%s, %s)", turn, TURN_SECONDS):
            reason = f"another run takes a snapshot of {self._source.full_name}"
            raise ServerError("BUSY", reason, at=self._session.place, hint="Wait for it, or end it")
        try:
            snapshot = self._begin(restart=restart)
            while not snapshot.is_complete:
                try:
                    self._write_chunks(snapshot)
                except TableChangedError as change:
                    snapshot = self._begin_anew(snapshot, change)
                except SnapshotStoppedError as stopped:
                    snapshot.cancel(str(stopped))
                    raise
            snapshot.end()
        finally:
            # Where the session is lost, its end gives the turn away.
            with contextlib.suppress(pymysql.MySQLError):
                self._session.try_execute("DO RELEASE_LOCK(%s)", turn)
        self._tell(snapshot, 0, is_done=True)
        return snapshot.row_count

    def _begin(self, *, restart: bool) -> TableSnapshot:
        # Marks are read after the turn is ours: a run that was killed writes no more.
        marks = MarksTable(self._session)
        begin = None if restart or not marks.exists() else marks.last_begin(self._source.schema, self._source.name)
        if begin is None or any(begin.detail.get(key) != self._about.get(key) for key in (TOPICS, FILTER)):
            return self._start(self._planned.purpose)
        resumed = TableSnapshot.resume(self._session, self._source, begin, self._engine)
        return self._start(Purpose(begin.detail["purpose"])) if resumed is None else resumed

    def _start(self, purpose: Purpose) -> TableSnapshot:
        return TableSnapshot.start(self._session, self._source, purpose, self._engine, self._about)

    def _begin_anew(self, snapshot: TableSnapshot, change: TableChangedError) -> TableSnapshot:
        source = read_table(self._session, self._source.schema, self._source.name)
        if source == self._source and isinstance(change.__cause__, pymysql.MySQLError):
            # Not the source is another one: somebody removed the shadow, or the marks.
            raise named_error(change.__cause__, str(self._session.address)) from change
        if not source.columns:
            snapshot.cancel("the table was dropped or renamed")
            reason = f"{source.full_name} was dropped or renamed while its snapshot was taken"
            raise SchemaError("TABLE_NOT_FOUND", reason, at=self._session.place)
        self._source = source
        if source.lock is None:
            snapshot.cancel(f"its engine is {source.engine} now")
            reason = f"{source.full_name} was altered meanwhile, and its engine is {source.engine} now"
            raise ServerError("TABLE_REFUSED", reason, at=self._session.place)
        return self._start(self._planned.purpose)

    def _write_chunks(self, snapshot: TableSnapshot) -> None:
        pace = Pace(self._planned.table.row_size, self._limit.rate)
        locked_since: float | None = None
        while not snapshot.is_complete:
            if locked_since is not None and snapshot.table.key is None:
                pace.is_waiting = time.monotonic() - locked_since > KEYLESS_NOWAIT_SECONDS
            bounds = snapshot.next_bounds(pace.size)
            try:
                chunk = snapshot.write(bounds, is_waiting=pace.is_waiting)
            except (RowsLockedError, ChunkTooLargeError) as refusal:
                locked_since = self._refused(snapshot, pace, refusal, locked_since)
                continue
            locked_since = None
            pace.wrote(chunk.row_count, chunk.lock_seconds)
            self._meter.held(chunk.lock_seconds)
            self._tell(snapshot, pace.size)
            self._limit.take(chunk.row_count)

    def _refused(
        self, snapshot: TableSnapshot, pace: Pace, refusal: Exception, locked_since: float | None
    ) -> float | None:
        is_smallest = snapshot.table.key is None or pace.size == 1
        if isinstance(refusal, ChunkTooLargeError):
            if is_smallest:
                what = "its only chunk" if snapshot.table.key is None else "a row"
                reason = f"{self._source.full_name}: {what} does not fit into max_binlog_cache_size"
                raise ServerError("TABLE_REFUSED", reason, at=self._session.place)
            pace.refused()
            return locked_since
        pace.refused()
        now = time.monotonic()
        since = now if locked_since is None else locked_since
        if now - since > LOCKED_SECONDS_MAX:
            reason = (
                f"{self._source.full_name}: after {snapshot.row_count:,} rows come rows that others have locked for "
                f"{now - since:.0f} s"
            )
            hint = "See information_schema.INNODB_TRX and XA RECOVER; then start again: it goes on after these rows"
            raise ServerError("LOCKED", reason, at=self._session.place, hint=hint)
        if is_smallest:
            self._tell(snapshot, pace.size, is_locked=True)
            time.sleep(_PAUSE_SECONDS)
        return since

    def _tell(
        self, snapshot: TableSnapshot, chunk_size: int, *, is_locked: bool = False, is_done: bool = False
    ) -> None:
        self._on_progress(
            SnapshotProgress(
                table=self._source.full_name,
                row_count=snapshot.row_count,
                row_estimate=self._planned.table.row_estimate,
                chunk_size=chunk_size,
                is_locked=is_locked,
                is_done=is_done,
            )
        )


def _turn_name(source: SourceTable) -> str:
    # Names of locks are limited to 64 characters.
    return f"binlog_stream.{hashlib.sha256(source.full_name.encode()).hexdigest()[:32]}"
