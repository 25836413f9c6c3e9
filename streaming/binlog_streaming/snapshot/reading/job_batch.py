"""A batch of a job in which nothing of the log is read, and whole tables are written: `JobBatch(job)`.

The job does not run meanwhile. It is brought to the place of the log that the tables are of, so that its next batch
begins right there: no change is applied that they have, and none is left out. Until the batch has ended the job's
record has them aside.

The place in a job's log of a point of its server: `parse_point`, `offset_of`, `rows_place`.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from itertools import takewhile
from typing import TYPE_CHECKING

from binlog_connector.crash_points import reached
from binlog_connector.following.offsets import SourceOffset
from binlog_connector.following.resume import compare
from binlog_connector.following.starts import initial_offset
from binlog_connector.following.watched import WatchedLog, file_start
from binlog_connector.schema.statement_scope import StatementScope
from binlog_format.errors import OptionError, StartError
from binlog_format.gtids.gtid import GtidPosition
from binlog_format.gtids.gtid_history import gtid_of
from binlog_format.gtids.gtid_set import is_gtid_set, parse_gtids
from binlog_format.log.log import ServerPosition, parse_position, resolve_position
from binlog_format.position import Place
from binlog_streaming.job_state.checkpoint import begin_batch, begin_query, end_batch, read_checkpoint, state_of
from binlog_streaming.job_state.job_run import JobLock
from binlog_streaming.job_state.progress import BatchProgress
from binlog_streaming.job_state.record import with_declared_types
from binlog_streaming.job_state.record_keeper import RecordKeeper
from binlog_streaming.jobs.replay_run import ending_at
from binlog_streaming.plan.cascades import CascadeLog
from binlog_streaming.plan.job_state import SetAside, StateChange
from binlog_streaming.snapshot.locked_point import LogPoint
from binlog_streaming.snapshot.reading.table_rows import RowsPlace
from binlog_streaming.tables.job import TablesJob

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from concurrent.futures import Future

    from binlog_connector.following.log_end import SeenEnd
    from binlog_connector.schema.definitions import TableName
    from binlog_connector.schema.log_ddl import DdlStatement
    from binlog_format.block import Block
    from binlog_format.gtids.gtid_set import GtidPoint
    from binlog_format.log_format import Span
    from binlog_format.position import Position
    from binlog_streaming.job_state.checkpoint import Checkpoint
    from binlog_streaming.job_state.progress import TableProgress
    from binlog_streaming.plan.snapshots import PlannedSnapshot
    from binlog_streaming.settings.model import Job


class ReadingStep(StrEnum):
    """Step that was just finished; the process may end between any two steps."""

    ASIDE = "aside"
    """The job's record has the tables aside."""
    QUERY_BEGUN = "query begun"
    """The checkpoint exists, without a batch."""
    FIRST_BATCH_BEGUN = "first batch begun"
    """The checkpoint is at the tables' place, and its batch has not ended."""
    BATCH_BEGUN = "batch begun"
    """The batch that writes the tables has begun."""
    WRITTEN = "written"
    """All targets are, and no record has it."""
    RECORDED = "recorded"
    """The record has what is complete, and the batch has not ended."""


def run_once(job: Job) -> None:
    """Run a job in this process until it has read everything."""
    running = TablesJob(job, once=True)
    running.run()


class JobBatch:
    """A batch that writes whole tables.

    Args:
        run: Lets a job read up to its end.

    Attributes:
        query_id: Of the checkpoint, within `at`.
        batch_id: Of the batch, within `at`.
    """

    def __init__(self, job: Job, run: Callable[[Job], object] = run_once) -> None:
        self._job = job = with_declared_types(job)
        self._run = run
        self._state = state_of(job)
        self._lock = JobLock(job)
        self._keeper = RecordKeeper(job)
        self._completed: list[tuple[PlannedSnapshot, Sequence[TableProgress]]] = []
        self._definitions: dict[TableName, DdlStatement] = {}
        self.query_id = ""
        self.batch_id = 0

    def check(self) -> None:
        """See that the batch could begin now."""
        with self._lock:
            self._at_rest()

    @contextmanager
    def at(self, offset: SourceOffset, names: Sequence[TableName], reason: str) -> Iterator[None]:
        """Bring the job to *offset*, and begin; tables that are completed within it are written down when it ends.

        Raises:
            StorageError: `IN_USE`: the job runs.
            OptionError: `INVALID_VALUE`: its settings have changed, or it was cut off within a batch.
            StartError: `START_AFTER_END`: it is past *offset*.
        """
        with self._lock:
            checkpoint = self._at_rest()
            self._set_aside(offset, names, reason)
            reached(ReadingStep.ASIDE)
            if checkpoint is None:
                self._begin_query(offset)
        if checkpoint is not None:
            self._bring_to(offset)
        with self._lock:
            checkpoint = self._at_rest()
            assert checkpoint is not None, "it has begun"
            assert checkpoint.batch_id is not None
            assert checkpoint.offset is not None
            if not self._is_at(checkpoint, offset):
                raise self._elsewhere(checkpoint, offset)
            self._keeper = RecordKeeper(self._job)
            self._keeper.begin()
            self.query_id, self.batch_id = checkpoint.query_id, checkpoint.batch_id + 1
            if not begin_batch(self._state, self.batch_id, checkpoint.offset):
                raise self._cut_off(self.batch_id)
            reached(ReadingStep.BATCH_BEGUN)
            is_over = threading.Event()
            with ThreadPoolExecutor(1, "binlog-stream-scope") as pool:
                older = self._older_scope(pool, is_over)
                try:
                    yield
                finally:
                    # Tables that are complete stay so, whatever became of the next one.
                    if not self._completed:
                        is_over.set()
                    self._end(older)

    def completed(self, taken: PlannedSnapshot, progress: Sequence[TableProgress]) -> None:
        """All targets of a table have its rows."""
        self._completed.append((taken, progress))

    def know(self, definitions: Mapping[TableName, DdlStatement]) -> None:
        """Keep definitions of tables with the job, those of completed tables whole, of others their foreign keys.

        Args:
            definitions: Of `stated_definitions.definition_of_server`; known before `at`.
        """
        self._definitions |= definitions

    def _at_rest(self) -> Checkpoint | None:
        """The checkpoint, between two batches; None: the job has not begun."""
        checkpoint = read_checkpoint(self._state)
        if checkpoint is None or (checkpoint.offset is None and checkpoint.pending is None):
            return None
        if checkpoint.pending is None:
            return checkpoint
        batch_id = 0 if checkpoint.batch_id is None else checkpoint.batch_id + 1
        if not self._is_ours(checkpoint):
            raise self._cut_off(batch_id)
        end_batch(self._state, batch_id)
        return replace(checkpoint, batch_id=batch_id, offset=checkpoint.pending, pending=None)

    def _is_ours(self, checkpoint: Checkpoint) -> bool:
        # A batch in which nothing is read is one of these, cut off; and so is the first one of a job that began so.
        if checkpoint.offset is not None:
            return checkpoint.pending == checkpoint.offset
        keeper = RecordKeeper(self._job)
        keeper.changes()
        return keeper.record.from_first is False and bool(keeper.record.set_aside)

    def _set_aside(self, offset: SourceOffset, names: Sequence[TableName], reason: str) -> None:
        self._keeper.begin()
        place = f"{offset.position}:0"
        self._keeper.set_aside(
            SetAside(
                database=name.database, table=name.table, position=place, gtid=str(offset.gtid) or None, reason=reason
            )
            for name in names
        )

    def _bring_to(self, offset: SourceOffset) -> None:
        """Run the job itself up to *offset*."""
        checkpoint = read_checkpoint(self._state)
        assert checkpoint is not None
        assert checkpoint.offset is not None
        if self._is_at(checkpoint, offset):
            return
        if checkpoint.offset.position > offset.position:
            raise self._elsewhere(checkpoint, offset)
        self._run(ending_at(self._job, offset.position))

    def _is_at(self, checkpoint: Checkpoint, offset: SourceOffset) -> bool:
        assert checkpoint.offset is not None
        start, end = sorted((checkpoint.offset.position, offset.position))
        # Between the end of a file and the start of the next one there is nothing to read.
        with WatchedLog(self._job.source.path, self._job.source.format) as watched:
            return start == end or watched.log.span(start, end=end).groups == 0

    def _begin_query(self, offset: SourceOffset) -> None:
        # The record counts from the first file of a batch on: before that the job has not begun.
        begin_query(self._state)
        reached(ReadingStep.QUERY_BEGUN)
        begin_batch(self._state, 0, offset)
        reached(ReadingStep.FIRST_BATCH_BEGUN)
        end_batch(self._state, 0)

    def _older_scope(self, pool: ThreadPoolExecutor, is_over: threading.Event) -> Future[StatementScope] | None:
        """Begin to read statements and foreign keys before the tables' place, while rows are waited for.

        Args:
            is_over: Ends it; then it is of no use.

        Returns:
            None: the job has read them before, or knows nothing of the tables.
        """
        scope = StatementScope.from_json(self._keeper.record.scope.at(self.batch_id))
        if not self._definitions or scope.foreign_keys is not None:
            return None

        def observed(blocks: Iterable[Block]) -> Iterator[Block]:
            return takewhile(lambda _: not is_over.is_set(), self._keeper.observed_from_start(blocks))

        first = next(iter(self._definitions.values()))
        return pool.submit(CascadeLog(self._job).scope_before, first.position, observed)

    def _end(self, older: Future[StatementScope] | None) -> None:
        reached(ReadingStep.WRITTEN)
        record = self._keeper.record
        tables = tuple(target for _, progress in self._completed for target in progress)
        if self._completed:
            names = frozenset(taken.name for taken, _ in self._completed)
            known = {snapshot.name: snapshot for snapshot in record.states(self.batch_id).snapshots}
            scope = StatementScope.from_json(record.scope.at(self.batch_id))
            if older is not None:
                scope.take_older(older.result())
            for definition in self._definitions.values():
                scope.observe(definition)
            # Before the record has the tables as complete: what follows of them in the log may need their definitions.
            self._keeper.keep_definitions_of_server(
                [definition for name, definition in self._definitions.items() if name in names]
            )
            change = StateChange(
                complete=dict.fromkeys(names, True),
                scope=scope,
                snapshots=known | {taken.name: taken for taken, _ in self._completed},
                returned=names,
            )
            self._keeper.saw_batch(BatchProgress(self.batch_id, tables, 0.0, time.time(), None, change))
        reached(ReadingStep.RECORDED)
        # After the record: done again by Spark, this batch changes nothing, and is the same.
        end_batch(self._state, self.batch_id)

    def _cut_off(self, batch_id: int) -> OptionError:
        return OptionError(
            "INVALID_VALUE",
            f"the job was cut off within batch {batch_id}",
            at=Place(self._job.checkpoint),
            hint="Let it finish the batch first: binlog-stream run JOB.toml --once",
        )

    def _elsewhere(self, checkpoint: Checkpoint, offset: SourceOffset) -> StartError:
        assert checkpoint.offset is not None
        return StartError(
            "START_AFTER_END",
            f"the job has read up to {checkpoint.offset.position} (GTIDs {checkpoint.offset.gtid}), and the tables are "
            f"at {offset.position} (GTIDs {offset.gtid})",
            at=Place(self._job.checkpoint),
            hint="A job cannot go back: take a later backup, or read the server that writes the log",
        )


PATIENCE_SECONDS = 60.0
"""Seconds to wait for a log that comes over a network: it may get the server's last events a little later."""
_PAUSE_SECONDS = 0.2
_NOT_THERE = frozenset({"GTID_NOT_FOUND", "POSITION_NOT_FOUND"})


def parse_point(text: str) -> LogPoint | GtidPoint:
    """Read what `--at` gives: GTIDs, or a place as a server names it: `mysql-bin.000001:14542`."""
    try:
        if not is_gtid_set(text) and ":" in text:
            place = parse_position(text)
            if isinstance(place, ServerPosition):
                return LogPoint(place.name, place.byte, GtidPosition({}))
        return parse_gtids(text)
    except ValueError as error:
        hint = "GTIDs such as 0-1-575 (MariaDB) or UUID:1-77 (MySQL), or mysql-bin.000001:14542"
        raise OptionError("INVALID_VALUE", f"--at {text}: {error}", hint=hint) from error


def offset_of(watched: WatchedLog, point: LogPoint | GtidPoint, seen: SeenEnd | None = None) -> SourceOffset:
    """Find the offset at which to continue after a point.

    Args:
        point: In the server's log; or all that had been logged there.
        seen: An earlier end of the log: what comes before it need not be walked again.

    Raises:
        StartError: `GTID_NOT_FOUND`, `POSITION_NOT_FOUND`: the log does not reach that far, or has no such place.
    """
    start: SourceOffset | GtidPoint
    if not isinstance(point, LogPoint):
        start = point
    elif watched.log.traits.has_byte_positions or not point.gtid:
        place = ServerPosition(point.name, point.byte)
        position = resolve_position(watched.log, "startingOffsets", place)
        is_seen = seen is not None and _groups_before(watched, position, seen) is not None
        identity = watched.files.identity(position.file_no) if is_seen else ""
        start = SourceOffset(position, fingerprint=identity, gtid=point.gtid)
    else:
        start = point.gtid
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            offset = initial_offset(watched, start)
            break
        except StartError as error:
            if error.subclass not in _NOT_THERE or time.monotonic() > end:
                raise
            time.sleep(_PAUSE_SECONDS)
    if offset.skip_gtid:
        raise StartError(
            "GTID_NOT_FOUND",
            f"{watched.log.path}: no place of the log has {start} and nothing else before it: {offset.skip_gtid} "
            f"comes after {offset.position}",
            hint="Name the last GTID of every domain at one place of the log",
        )
    return offset


def rows_place(watched: WatchedLog, offset: SourceOffset, seen: SeenEnd | None) -> RowsPlace:
    """Find the place of rows that were read at *offset*; scans the file before it, from *seen* on where it can."""
    position = offset.position
    span = None if seen is None else _groups_before(watched, position, seen)
    if span is not None and span.last_timestamp is not None:
        return RowsPlace(position, span.last_gtid, span.last_timestamp)
    for file_no in reversed([number for number in watched.names() if number <= position.file_no]):
        last = None
        for heads in watched.log.heads(file_start(file_no), position):
            if len(heads.groups):
                last = heads.groups[-1].copy(), heads.sources
        if last is not None:
            return RowsPlace(position, gtid_of(*last), int(last[0]["timestamp"]))
    return RowsPlace(position, None, int(time.time()))


def _groups_before(watched: WatchedLog, position: Position, seen: SeenEnd) -> Span | None:
    """Groups before *position*, with the last one, where it follows from an earlier end of the log and what came since.

    None: it does not, or no group ends there.
    """
    start = seen.offset.position
    if start.file_no != position.file_no or start > position or compare(watched, seen.offset).loss is not None:
        return None
    span = watched.log.span(start, end=position)
    if span.end != position:
        return None
    return span if span.groups else seen.span
