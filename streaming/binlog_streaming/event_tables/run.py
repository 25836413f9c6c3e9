"""The loop of a job that writes the events of a structured log into tables: `EventTablesRun`."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from binlog_connector.following.entry_marks import state_of
from binlog_connector.following.resume import compare
from binlog_connector.following.steps import check_range_complete
from binlog_connector.following.tailer import FollowOptions, Tailer
from binlog_connector.following.watched import WatchedLog
from binlog_connector.options.source_options import SourceOptions
from binlog_streaming.event_tables.writing import EventTablesStateFile, place_of, table_rows, write_rows
from binlog_streaming.job_state.job_run import LOOK_SECONDS, JobRun
from binlog_streaming.job_state.progress import BatchProgress, Progress

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from binlog_connector.following.offsets import SourceOffset
    from binlog_format.structured.event_log import EventLog, EventSource, LogBlock
    from binlog_streaming.job_state.progress import BatchListener
    from binlog_streaming.settings import EventTablesJob

THREADS = 2
"""Tables that are written at a time."""


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
        blocks: The events.
        end: Where the log goes on after them.
        event_count: How many they are, if they are new; None: the batch was under way when the last process ended.
    """

    blocks: Iterable[LogBlock]
    end: SourceOffset
    event_count: int | None


class EventTablesRun(JobRun[EventBatch, BatchProgress, Progress]):
    """One run of a job.

    Args:
        job: The settings.
        once: End at what is in the log when this starts.
        listener: Told of each batch.

    Raises:
        BinlogError: The checkpoint, or the settings, cannot be used.
    """

    def __init__(self, job: EventTablesJob, *, once: bool = False, listener: BatchListener | None = None) -> None:
        super().__init__(job, Progress(), once=once, listener=listener)
        self._job = job
        self._file = EventTablesStateFile(job)
        self._options = SourceOptions.parse(job.source_options())
        self._how = FollowOptions(
            format_name=self._options.format,
            step_size_max=self._options.bytes_per_trigger_max or FollowOptions().step_size_max,
            fail_on_data_loss=self._options.fail_on_data_loss,
            ends=once,
        )
        self._opened = ExitStack()
        self._tailer: Tailer | None = None

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
            BinlogError: As `run`, before the first batch.
        """
        with self._open() as tailer, WatchedLog(self._job.source.path, tailer.format_name) as watched:
            offset, log = tailer.offset, watched.log
            assert log.events is not None, "the job is of a log of events"
            sources: dict[EventSource, None] = {}
            for block in log.events.entries(offset.position, None, state_of(offset.state)):
                sources |= dict.fromkeys(block.sources)
            places = Counter(
                place_of(rule, source)
                for rule in self._job.tables
                for source in sources
                if rule.sources.accepts(source)
            )
            return Waiting(offset, log.span(offset.position).size, dict(sorted(places.items())))

    def _open(self) -> Tailer:
        return Tailer(self._job.source.path, self._options.start, saved=self._file.start, how=self._how)

    def _begin(self, resources: ExitStack) -> None:
        self._file = EventTablesStateFile(self._job)  # as whoever had the lock before left it
        self._opened = resources
        if self._file.end is None:
            self._follow_log()

    def _follow_log(self) -> Tailer:
        self._tailer = tailer = self._opened.enter_context(self._open())
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
            return EventBatch(self._begun_blocks(start, end), end, None)
        step = (self._tailer or self._follow_log()).step(LOOK_SECONDS)
        return (
            None if step is None else EventBatch(step.entries() if step.group_count else (), step.end, step.group_count)
        )

    def _begun_blocks(self, start: SourceOffset, end: SourceOffset) -> Iterator[LogBlock]:
        with WatchedLog(self._job.source.path, start.format or None) as watched:
            decision = compare(watched, start)
            if decision.loss is not None:
                raise decision.loss  # whatever is accepted: a batch that is done again must be the same
            assert watched.log.events is not None, "the job is of a log of events"
            yield from _planned(watched.log.events, start, end)

    def _is_ended(self) -> bool:
        return self._tailer is not None and self._tailer.is_ended

    def _apply(self, batch: EventBatch) -> BatchProgress | None:
        state = self._file.state
        if batch.event_count == 0:
            self._file.finish(msgspec.structs.replace(state, start=batch.end.to_json()))
            return None
        if batch.event_count is not None:
            state = msgspec.structs.replace(state, batch_id=state.batch_id + 1, end=batch.end.to_json())
            self._file.begin(state)
        started = time.monotonic()
        tables = table_rows(batch.blocks, self._job.tables)
        read_seconds = time.monotonic() - started
        with ThreadPoolExecutor(THREADS) as pool:
            done = list(pool.map(lambda rows: write_rows(self._job, state, rows, batch.end.position), tables))
        known = tuple(sorted({*state.tables, *(rows.place for rows in tables)}))
        self._file.finish(msgspec.structs.replace(state, start=batch.end.to_json(), end=None, tables=known))
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


def _planned(events: EventLog, start: SourceOffset, end: SourceOffset) -> Iterable[LogBlock]:
    reached = start.position
    for block in events.entries(start.position, end.position, state_of(start.state)):
        reached = block.next_position
        yield block
    check_range_complete(events, reached, end.position)
