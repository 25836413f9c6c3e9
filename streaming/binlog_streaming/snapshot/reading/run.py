"""Read the tables of a plan and write them into their targets: `run_reading(plan, job, connect)`.

It is one batch of the job, in which nothing of the log is read (docs/decisions/0025): the job is brought to the point
that the sessions see, the tables are put aside, written, and brought back. Wherever it is cut off, the job's record
records of each table either that it is aside or that it is complete, and a later run does all of it anew.

Sessions that see one point of the log: `sessions_at_one_point`; targets of a table, begun anew, filled and completed:
`RowsWriter`.
"""

from __future__ import annotations

import time
import uuid
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from binlog_connector.following.watched import WatchedLog
from binlog_connector.rules.row_rules import TableRules
from binlog_connector.rules.rules_applied import apply_rules_to_changes
from binlog_connector.schema.log_ddl import DdlStatement
from binlog_connector.schema.snapshot_marks import Purpose, SnapshotBegun, SnapshotEnded
from binlog_connector.schema.stated_definitions import definition_of_server
from binlog_format import open_log
from binlog_format.errors import BinlogError, SchemaError, ServerError
from binlog_format.gtids.gtid import GtidPosition
from binlog_streaming.plan.batch_plan import ROWS_STEP, STEPS_PER_CHANGE, ChangeStep, Component, IndexPart, RowsStep
from binlog_streaming.plan.job_state import TableSelection
from binlog_streaming.plan.snapshots import PlannedSnapshot
from binlog_streaming.settings import Mode, OnError
from binlog_streaming.snapshot.definitions import visible_parents
from binlog_streaming.snapshot.locked_point import LogPoint, begin_under_lock
from binlog_streaming.snapshot.reading.job_batch import JobBatch, offset_of, rows_place, run_once
from binlog_streaming.snapshot.reading.table_rows import ReadingContext, TableRows
from binlog_streaming.snapshot.run import SnapshotProgress, SnapshotResult, is_of_one_table
from binlog_streaming.snapshot.server_load import LoadMeter
from binlog_streaming.snapshot.server_tables import LeftOut
from binlog_streaming.snapshot.source_table import definition_of
from binlog_streaming.snapshot.sql_text import table_sql, text_of
from binlog_streaming.tables.apply import apply_component
from binlog_streaming.tables.batch_run import BatchRun

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from binlog_connector.following.offsets import SourceOffset
    from binlog_connector.schema.definitions import TableName
    from binlog_format.gtids.gtid_set import GtidPoint
    from binlog_format.vendor import Vendor
    from binlog_streaming.job_state.progress import TableProgress
    from binlog_streaming.server.session import ServerSession
    from binlog_streaming.settings.model import Job
    from binlog_streaming.snapshot.reading.plan import ReadingPlan, ReadTable
    from binlog_streaming.snapshot.reading.table_rows import RowsPlace
    from binlog_streaming.snapshot.run import OnProgress
    from binlog_streaming.snapshot.server_load import SnapshotLoad
    from binlog_streaming.snapshot.source_table import SourceTable


_BEGUN = STEPS_PER_CHANGE
_ROWS = _BEGUN + ROWS_STEP
_ENDED = 2 * STEPS_PER_CHANGE


class RowsWriter:
    """Writes tables of a batch, one after the other.

    Args:
        offset: Where the batch ends.

    Attributes:
        place: The same.
    """

    def __init__(self, job: Job, query_id: str, batch_id: int, offset: SourceOffset, place: RowsPlace) -> None:
        self.place = place
        self._job = job
        self._selection = TableSelection.of(job)
        self._run = BatchRun(
            query_id, batch_id, job.sink, offset.position, job.decoding(), str(offset.gtid) or None, OnError.STOP
        )

    def write(self, read: ReadTable, snapshot: str, rows: TableRows) -> list[TableProgress]:
        """Write all targets of a table."""
        name = read.table.name
        selected = self._selection.find(name)
        assert selected is not None, "the plan has tables of the job alone"
        # A changelog is only added to, so it comes when nothing else can fail.
        modes = tuple(sorted(selected.rule.modes, key=lambda mode: mode is Mode.CHANGELOG))
        rule = msgspec.structs.replace(selected.rule, mode=modes)
        table = replace(selected, rule=rule, complete=True, complete_from=_ENDED)
        position = self.place.position
        gtid = None if self.place.gtid is None else str(self.place.gtid)
        vendor, commit_time = read.logged.vendor, self.place.commit_time
        statement = DdlStatement(position, 0, "", vendor=vendor, commit_time=commit_time, gtid=gtid)
        begun = self._shown(SnapshotBegun(read.created, snapshot, Purpose.RESYNC, empties=True), vendor)
        part = IndexPart(position, position, b"", 0, 0, 0, 0, snapshot)
        steps = (
            ChangeStep(_BEGUN, begun, statement, (name,)),
            RowsStep(_ROWS, name, (part,)),
            ChangeStep(_ENDED, SnapshotEnded(name, snapshot, 0, 0), statement, (name,)),
        )
        with open_log(self._job.source.path) as log:
            return apply_component(self._run, Component({name: table}, steps), log, division=rows)

    def _shown(self, begun: SnapshotBegun, vendor: Vendor) -> SnapshotBegun:
        # As a plan puts statements under the rules.
        rules = self._run.decoding.rules
        if not isinstance(rules, TableRules):
            return begun
        (shown,) = apply_rules_to_changes([begun], rules, self._run.decoding, vendor)
        assert isinstance(shown, SnapshotBegun)
        return shown


ATTEMPTS = 1000
"""Number of attempts to reach one point with all sessions: each takes a millisecond or two."""

_SETTINGS = (
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    # Texts come in the character sets of their columns, as the log has them, and without spaces at their ends.
    "SET SESSION character_set_results = NULL, sql_mode = ''",
    # Between two ranges a session may wait for what writes the table.
    "SET SESSION net_write_timeout = 3600, wait_timeout = 86400",
)


def sessions_at_one_point(
    connect: Callable[[], ServerSession], count: int, tables: Sequence[SourceTable], opened: ExitStack
) -> tuple[list[ServerSession], LogPoint | GtidPoint]:
    """Open sessions that all see the rows of one point of the log.

    Each session begins a transaction with a consistent snapshot, and asks where in the log that is. Those of one point
    see the same rows. Where something was committed between, all begin again: at the first or second attempt they
    agree. MySQL does not tell where that is: there the tables are locked against changes while the sessions begin.
    """
    sessions = [opened.enter_context(connect()) for _ in range(count)]
    for session in sessions:
        prepare_reading(session)
    if not sessions[0].version.is_mariadb:
        with connect() as locking:
            return sessions, begin_under_lock(sessions, locking, tables)
    for _ in range(ATTEMPTS):
        for session in sessions:
            begin_snapshot(session)
        points = {_point(session) for session in sessions}
        if len(points) == 1:
            name, byte = points.pop()
            gtids = str(sessions[0].value("SELECT BINLOG_GTID_POS(%s, %s)", name, byte) or "")
            return sessions, LogPoint(name, byte, GtidPosition.parse(gtids))
    reason = f"in {ATTEMPTS} attempts no two commits were far enough apart for {count} sessions to begin at one point"
    raise ServerError("BUSY", reason, at=sessions[0].place, hint="Give fewer --sessions")


def prepare_reading(session: ServerSession) -> None:
    """Set up a session to read rows as the log has them."""
    for statement in _SETTINGS:
        session.execute(statement)
    if session.version.is_mariadb:
        session.execute("SET SESSION max_statement_time = 0")


def begin_snapshot(session: ServerSession) -> None:
    """See the rows of now, until the next one."""
    session.execute("ROLLBACK")
    session.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")


def _point(session: ServerSession) -> tuple[str, int]:
    rows = session.rows("SHOW SESSION STATUS LIKE 'binlog_snapshot_%'")
    found = {text_of(name).lower(): text_of(value) for name, value in rows}
    name, byte = found.get("binlog_snapshot_file", ""), found.get("binlog_snapshot_position", "0")
    if not name:
        reason = "the server does not tell where in its log a snapshot is (binlog_snapshot_file)"
        hint = "It needs a binlog; of a restored backup without one give its place, --at GTID, and --sessions 1"
        raise ServerError("SETTINGS", reason, at=session.place, hint=hint)
    return name, int(byte)


PUT_ASIDE = (
    "its rows are being read from the server, or that was cut off; then take it again: "
    "binlog-stream snapshot JOB.toml --server URL --method read"
)
"""Reason why a table is set aside meanwhile."""


@dataclass(frozen=True, slots=True)
class _Reading:
    # What all tables share.
    context: ReadingContext
    batch: JobBatch
    offset: SourceOffset
    writer: RowsWriter
    definitions: dict[TableName, str]
    on_progress: OnProgress


def run_reading(
    plan: ReadingPlan,
    job: Job,
    connect: Callable[[], ServerSession],
    *,
    run: Callable[[Job], object] = run_once,
    on_progress: OnProgress = lambda _: None,
) -> SnapshotResult:
    """Read all planned tables, at one point, and let the job go on from there.

    After a table that cannot be read the next ones are read at another point: the sessions are within its rows.

    Args:
        run: Lets the job read up to the point; it may be far from there.
        on_progress: Told of rows that have been read; from several threads.

    Raises:
        StorageError: `IN_USE`: the job runs.
        OptionError: `INVALID_VALUE`: the job was cut off within a batch, or its settings have changed.
        StartError: The log does not reach the point, or the job is past it.
        BinlogError: Of the server, the log or a target; what is wrong with one table alone is in the result.
    """
    started = time.monotonic()
    rows: list[int] = []
    failed: list[LeftOut] = []
    loads: list[SnapshotLoad] = []
    while len(rows) + len(failed) < len(plan.tables):
        left = replace(plan, tables=plan.tables[len(rows) + len(failed) :])
        failed += _read_up_to_failure(left, job, connect, run, on_progress, rows, loads)
    return SnapshotResult(len(rows), sum(rows), time.monotonic() - started, loads[-1], tuple(failed))


def _read_up_to_failure(
    plan: ReadingPlan,
    job: Job,
    connect: Callable[[], ServerSession],
    run: Callable[[Job], object],
    on_progress: OnProgress,
    rows: list[int],
    loads: list[SnapshotLoad],
) -> list[LeftOut]:
    """Read tables up to the first one that fails, and add the number of rows of each to *rows*; the one that failed."""

    def measure(meter: LoadMeter) -> None:
        meter.sample()
        loads.append(meter.result())

    names = [read.table.name for read in plan.tables]
    with ExitStack() as opened:
        with connect() as session:
            definitions = {name: _definition(session, name) for name in names}
            # What foreign keys lead to from there decides what happens to rows of these.
            others = {name: _definition(session, name) for name in visible_parents(session, list(definitions))}
            vendor = session.version.vendor
        batch = JobBatch(job, run)
        batch.check()
        sessions, offset = _sessions(plan, job, connect, opened)
        # Before the sessions are closed: the undo history grows until then.
        opened.callback(measure, LoadMeter(sessions[0], plan.connections))
        with WatchedLog(job.source.path, job.source.format) as watched:
            place = rows_place(watched, offset, plan.seen)
        context = ReadingContext(sessions, place, job.decoding(), job.sink)
        batch.know(
            {
                name: definition_of_server(name, text, offset.position, vendor)
                for name, text in (definitions | others).items()
            }
        )
        with batch.at(offset, names, PUT_ASIDE):
            writer = RowsWriter(job, batch.query_id, batch.batch_id, offset, place)
            reading = _Reading(context, batch, offset, writer, definitions, on_progress)
            for table in plan.tables:
                try:
                    rows.append(_read(reading, table))
                except BinlogError as error:
                    if not is_of_one_table(error):
                        raise
                    return [LeftOut(table.source.full_name, str(error))]
    return []


def _sessions(
    plan: ReadingPlan, job: Job, connect: Callable[[], ServerSession], opened: ExitStack
) -> tuple[list[ServerSession], SourceOffset]:
    tables = [table.table.source for table in plan.tables]
    if plan.at is None:
        # One more: it finds where ranges end.
        sessions, point = sessions_at_one_point(connect, plan.sessions + 1, tables, opened)
        with WatchedLog(job.source.path, job.source.format) as watched:
            return sessions, offset_of(watched, point, plan.seen)
    with WatchedLog(job.source.path, job.source.format) as watched:
        offset = offset_of(watched, plan.at)
    if plan.sessions > 1:
        return sessions_at_one_point(connect, plan.sessions + 1, tables, opened)[0], offset
    session = opened.enter_context(connect())
    prepare_reading(session)
    begin_snapshot(session)
    return [session, session], offset


def _read(reading: _Reading, table: ReadTable) -> int:
    source = table.source
    snapshot = str(uuid.uuid4())

    def tell(row_count: int, *, is_done: bool = False) -> None:
        reading.on_progress(SnapshotProgress(source.full_name, row_count, table.table.row_estimate, 0, is_done=is_done))

    def check_unchanged() -> None:
        if _definition(reading.context.sessions[0], table.table.name) != reading.definitions[table.table.name]:
            reason = f"{source.full_name} was altered while its rows were read"
            raise SchemaError("SCHEMA_CHANGED", reason, hint="Nothing of it counts: start again")

    tell(0)
    rows = TableRows(reading.context, table, snapshot, check_unchanged=check_unchanged, on_rows=tell)
    progress = reading.writer.write(table, snapshot, rows)
    gtid = None if reading.writer.place.gtid is None else str(reading.writer.place.gtid)
    taken = PlannedSnapshot(
        database=source.schema,
        table=source.name,
        snapshot=snapshot,
        purpose="resync",
        key=table.created.primary_key,
        begun=str(reading.offset.position),
        begun_gtid=gtid,
        rows=rows.row_count,
        ended_gtid=gtid,
        is_ended=True,
    )
    reading.batch.completed(taken, [replace(target, inserts=rows.row_count) for target in progress])
    tell(rows.row_count, is_done=True)
    return rows.row_count


def _definition(session: ServerSession, name: TableName) -> str:
    rows = session.rows(f"SHOW CREATE TABLE {table_sql(*name)}")
    return definition_of(rows[0][1])
