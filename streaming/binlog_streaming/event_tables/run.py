"""The loop of a job that writes the events of a structured log into tables: `EventTablesRun`."""

from __future__ import annotations

import logging
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from binlog_connector.following.entry_marks import files_within, state_of
from binlog_connector.following.log_end import offset_at
from binlog_connector.following.resume import compare_range, end_of_rest
from binlog_connector.following.starts import Edge
from binlog_connector.following.steps import planned_entries
from binlog_connector.following.tailer import FollowOptions, Tailer
from binlog_connector.following.watched import WatchedLog
from binlog_connector.options.source_options import SourceOptions
from binlog_format.errors import CorruptError, DataLossError, StartError
from binlog_format.gtids.gtid_set import NO_GTIDS
from binlog_format.messages import odd_clock
from binlog_streaming.event_tables.state import EventTablesStateFile, Gap, gap_of
from binlog_streaming.event_tables.writing import (
    EventTableRows,
    check_table,
    place_of,
    table_rows,
    write_gaps,
    write_rows,
)
from binlog_streaming.job_state.checkpoint import place_errors
from binlog_streaming.job_state.job_run import LOOK_SECONDS, JobRun
from binlog_streaming.job_state.progress import BatchProgress, Progress

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from binlog_connector.following.offsets import SourceOffset
    from binlog_connector.following.steps import Step
    from binlog_format.structured.event_log import EventSource, LogBlock
    from binlog_streaming.job_state.progress import BatchListener, TableProgress
    from binlog_streaming.settings import EventTablesJob

logger = logging.getLogger(__name__)

THREADS = 2
"""Tables that are written at a time."""
_DECODED_MAX = 1 << 30
"""Bytes of waiting events whose arguments `check` decodes: it has to end before a service manager's patience does."""
_LOSSES_MAX = 3
"""Times that files may go while one batch is read."""
_DAMAGED = frozenset(f"{CorruptError.FAMILY}.{subclass}" for subclass in CorruptError.SUBCLASSES)
_NOT_YET = frozenset({"NO_LOG_FILES", "PATH_NOT_FOUND"})


class Waiting(NamedTuple):
    """Work that a job would do now.

    Attributes:
        offset: Where it would go on.
        size: Bytes of the log after that.
        tables: Places of the tables that events there go into, and how many sources have events for each.
    """

    offset: SourceOffset
    size: int
    tables: dict[str, int]


class EventBatch(NamedTuple):
    """Events, before they are in the tables.

    Attributes:
        end: Where the log goes on after them.
        event_count: How many they are, if they are new; None: the batch was under way when the last process ended.
        gaps: What is missing before them, or among them.
    """

    blocks: Iterable[LogBlock]
    end: SourceOffset
    event_count: int | None
    gaps: tuple[Gap, ...] = ()

    @property
    def is_rest(self) -> bool:
        """True if it is what the log still has of a batch that was under way when the last process ended."""
        return self.event_count is None and bool(self.gaps)


class EventTablesRun(JobRun[EventBatch, BatchProgress, Progress]):
    """One run of a job. *once*: end at what is in the log when this starts."""

    def __init__(self, job: EventTablesJob, *, once: bool = False, listener: BatchListener | None = None) -> None:
        super().__init__(job, Progress(), once=once, listener=listener)
        self._job = job
        self._file = EventTablesStateFile(job)
        self._options = SourceOptions.parse(job.source_options())
        self._how = FollowOptions(
            format_name=self._options.format,
            step_size_max=self._options.bytes_per_trigger_max or FollowOptions().step_size_max,
            fail_on_data_loss=self._options.fail_on_data_loss,
            skip_damaged=job.source.skip_damaged,
            ends=once,
        )
        self._opened = ExitStack()
        self._tailer: Tailer | None = None
        self._is_empty = False
        self._has_odd_clock = False

    @property
    def query_id(self) -> str:
        """Id under which the tables know the job."""
        return self._file.state.query_id

    @property
    def offset(self) -> SourceOffset | None:
        """See `JobRun`."""
        return self._file.start

    def waiting(self) -> Waiting:
        """Find the work that the job would do now; nothing is written.

        Raises:
            BinlogError: As `run`, which looks at its places before that (`place_errors`).
        """
        with self._open() as tailer, WatchedLog(self._job.source.path, tailer.format_name) as watched:
            offset, log = tailer.offset, watched.log
            assert log.events is not None, "the job is of a log of events"
            sources: dict[EventSource, None] = {}
            found: dict[str, EventTableRows] = {}
            skip = (lambda *_: None) if self._how.skip_damaged else None
            size = 0
            for block in log.events.entries(offset.position, None, state_of(offset.state), on_damage=skip):
                size += len(block.data)
                sources |= dict.fromkeys(block.sources)
                for rows in table_rows((block,) if size < _DECODED_MAX else (), self._job.tables, skip):
                    kept = found.setdefault(rows.place, EventTableRows(rows.place, rows.rule))
                    kept.batches += (batch.slice(0, 0) for batch in rows.batches)
            for rows in () if place_errors(self._job) else found.values():
                check_table(self._job, self._file.state, rows)
            places = Counter(
                place_of(rule, source)
                for rule in self._job.tables
                for source in sources
                if rule.sources.accepts(source)
            )
            return Waiting(offset, size, dict(sorted(places.items())))

    def _open(self) -> Tailer:
        # What comes into a folder that was empty at the start is new, also for `latest`.
        start = Edge.EARLIEST if self._is_empty else self._options.start
        return Tailer(self._job.source.path, start, saved=self._file.start, how=self._how)

    def _begin(self, resources: ExitStack) -> None:
        self._file = EventTablesStateFile(self._job)  # as whoever had the lock before left it
        self._opened = resources
        if self._file.end is None:
            write_gaps(self._job, self._file.state)
            self._follow_log()

    def _follow_log(self) -> Tailer | None:
        """Open the log; None: there is no file yet, and what will come is waited for."""
        try:
            opened = self._open()
        except StartError as error:
            if self.once or error.subclass not in _NOT_YET or self._file.start is not None:
                raise
            if not self._is_empty:
                logger.warning("waiting for the first file: %s", error)
            self._is_empty = True
            return None
        self._tailer = tailer = self._opened.enter_context(opened)
        if self._file.state.start is None:
            # Tables are made in its name; and `latest` is now, also for who comes back after being killed.
            self._file.begin(msgspec.structs.replace(self._file.state, start=tailer.offset.to_json()))
        if self.is_stopped:
            tailer.stop()
        return tailer

    def _interrupt(self) -> None:
        if self._tailer is not None:
            self._tailer.stop()

    def _next(self) -> EventBatch | None:
        start, end = self._file.start, self._file.end
        if start is not None and end is not None:
            return self._begun_batch(start, end)
        tailer = self._tailer or self._follow_log()
        if tailer is None:
            self._stopped.wait(LOOK_SECONDS)
            return None
        step = tailer.step(LOOK_SECONDS)
        return None if step is None else _batch_of(step, start or step.start)

    def _begun_batch(self, start: SourceOffset, end: SourceOffset) -> EventBatch:
        """The batch that was under way; it is looked for again if a file goes meanwhile, and losses are accepted."""
        attempt = 0
        while True:
            try:
                return self._left_of(start, end)
            except DataLossError:
                attempt += 1
                if self._how.fail_on_data_loss or attempt > _LOSSES_MAX:
                    raise

    def _left_of(self, start: SourceOffset, end: SourceOffset) -> EventBatch:
        """The same events of a batch, or what is left of them; of one over damage there are none."""
        if any(gap.condition in _DAMAGED and gap.go_on == str(end.position) for gap in self._file.state.gaps):
            return EventBatch((), end, None)
        with WatchedLog(self._job.source.path, start.format or None) as watched:
            decision = compare_range(watched, start, end)
            if decision.loss is None:
                return EventBatch(self._planned(start, end), end, None)
            if self._how.fail_on_data_loss:
                raise decision.loss
            go_on = decision.offset
            blocks: list[LogBlock] = []
            rest_end = end_of_rest(watched, end)
            if start.position <= go_on.position < rest_end:
                assert watched.log.events is not None, "the job is of a log of events"
                blocks += watched.log.events.entries(go_on.position, rest_end, state_of(go_on.state))
            if blocks:
                go_on = offset_at(watched, blocks[-1].next_position, gtid=NO_GTIDS)
        gap = gap_of(decision.loss, str(start.position), str(go_on.position))
        logger.warning("going on at %s after data loss: %s", go_on.position, decision.loss)
        return EventBatch(blocks, go_on, None, (gap,))

    def _planned(self, start: SourceOffset, end: SourceOffset) -> Iterator[LogBlock]:
        with WatchedLog(self._job.source.path, start.format or None) as watched:
            events = watched.log.events
            assert events is not None, "the job is of a log of events"
            blocks = events.entries(start.position, end.position, state_of(start.state))
            yield from planned_entries(events, blocks, files_within(end, start.position), start.position, end.position)

    def _is_ended(self) -> bool:
        return self._tailer is not None and self._tailer.is_ended

    def _apply(self, batch: EventBatch) -> BatchProgress | None:
        state = self._file.state
        if batch.event_count == 0 and not batch.gaps:
            self._file.finish(msgspec.structs.replace(state, start=batch.end.to_json()))
            return None
        if batch.event_count is not None:
            state = msgspec.structs.replace(
                state, batch_id=state.batch_id + 1, end=batch.end.to_json(), gaps=batch.gaps
            )
            self._file.begin(state)
        started = time.monotonic()
        batch, tables = self._read(batch)
        read_seconds = time.monotonic() - started
        with ThreadPoolExecutor(THREADS) as pool:
            writing = partial(write_rows, self._job, state, end=batch.end.position, is_rest=batch.is_rest)
            done = list(pool.map(writing, tables))
        self._warn_of_clocks(done)
        known = tuple(sorted({*state.tables, *(rows.place for rows in tables)}))
        gaps = tuple(dict.fromkeys((*state.gaps, *batch.gaps)))
        state = msgspec.structs.replace(state, start=batch.end.to_json(), end=None, tables=known, gaps=gaps)
        self._file.finish(state)
        write_gaps(self._job, state)
        return BatchProgress(
            batch_id=state.batch_id,
            tables=tuple(done),
            seconds=time.monotonic() - started,
            finished_at=time.time(),
            bytes_behind=None,
            read_seconds=read_seconds,
            offset=batch.end,
            transactions=batch.event_count,
        )

    def _warn_of_clocks(self, tables: Iterable[TableProgress]) -> None:
        """Warn once of times that cannot be: lag, `startingTimestamp` and partitions by time go by them."""
        for table in tables:
            times = (second for second in (table.first_commit_time, table.commit_time) if second is not None)
            told = None if self._has_odd_clock else odd_clock(times)
            if told is not None:
                self._has_odd_clock = True
                logger.warning("%s: %s", table.target, told)

    def _read(self, batch: EventBatch) -> tuple[EventBatch, list[EventTableRows]]:
        """The rows of a batch; of one whose files go while they are read, of what is left, if losses are accepted."""
        attempt = 0
        while True:
            damaged: dict[int, Gap] = {}

            def skip(error: CorruptError, byte: int, damaged: dict[int, Gap] = damaged) -> None:
                damaged.setdefault(byte, gap_of(error, str(error.at), str(error.at), events=1))

            try:
                tables = table_rows(batch.blocks, self._job.tables, skip if self._how.skip_damaged else None)
            except DataLossError:
                start, end, attempt = self._file.start, self._file.end, attempt + 1
                if self._how.fail_on_data_loss or attempt > _LOSSES_MAX or start is None or end is None:
                    raise
                batch = self._begun_batch(start, end)
                continue
            for gap in damaged.values():
                logger.warning("left out: %s", gap.reason)
            return batch._replace(gaps=(*batch.gaps, *damaged.values())), tables


def _batch_of(step: Step, before: SourceOffset) -> EventBatch:
    if isinstance(step.loss, CorruptError):
        logger.warning("skipped up to %s: %s", step.end.position, step.loss)
        gap = gap_of(step.loss, str(step.start.position), str(step.end.position))
        return EventBatch((), step.end, 0, (gap,))
    lost = tuple(
        gap_of(error, str(before.position), str(step.start.position), is_certain=error is step.loss)
        for error in (step.loss, step.doubt)
        if error is not None
    )
    return EventBatch(step.entries() if step.group_count else (), step.end, step.group_count, lost)
