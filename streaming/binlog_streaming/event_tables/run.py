"""The loop of a job that writes the events of a structured log into tables: `EventTablesRun`."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from binlog_connector.following.entry_marks import state_of
from binlog_connector.following.range_complete import check_range_complete
from binlog_connector.following.resume import compare
from binlog_connector.following.tailer import FollowOptions, Tailer
from binlog_connector.following.watched import WatchedLog
from binlog_connector.spark.options import SourceOptions
from binlog_streaming.event_tables.rows import place_of, table_rows
from binlog_streaming.event_tables.state import EventTablesStateFile
from binlog_streaming.event_tables.writing import write_rows
from binlog_streaming.job_state.progress import BatchProgress, Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from binlog_connector.following.offsets import SourceOffset
    from binlog_connector.following.steps import Step
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


class EventTablesRun:
    """One run of a job; `stop` may be called from other threads, and by signals.

    Args:
        job: The settings.
        once: End at what is in the log when this starts.
        listener: Told of each batch.

    Attributes:
        progress: What has been written.
        query_id: What the tables know the job by.

    Raises:
        BinlogError: The checkpoint, or the settings, cannot be used.
    """

    def __init__(self, job: EventTablesJob, *, once: bool = False, listener: BatchListener | None = None) -> None:
        self._job = job
        self._listener = listener
        self._file = EventTablesStateFile(job)
        self._options = SourceOptions.parse(job.source_options())
        self._how = FollowOptions(
            format_name=self._options.format,
            step_size_max=self._options.bytes_per_trigger_max or FollowOptions().step_size_max,
            fail_on_data_loss=self._options.fail_on_data_loss,
            ends=once,
        )
        self._tailer: Tailer | None = None
        self._stopped = False
        self.progress = Progress()
        self.query_id = self._file.state.query_id

    @property
    def offset(self) -> SourceOffset | None:
        """Offset at which the job continues in its log; None: it has not begun."""
        return self._file.start

    def stop(self) -> None:
        """End after the batch under way."""
        self._stopped = True
        if self._tailer is not None:
            self._tailer.stop()

    def run(self, on_start: Callable[[], None] = lambda: None) -> None:
        """Write events into the tables until `stop` is called, or the end is reached.

        Args:
            on_start: Called once everything is ready.

        Raises:
            BinlogError: What ended it; the tables and the checkpoint stay as good as before.
        """
        self._repeat()
        with self._follow() as tailer:
            self._tailer = tailer
            if self._file.state.start is None:
                # Tables are made in its name; and `latest` is now, also for who comes back after being killed.
                self._file.begin(msgspec.structs.replace(self._file.state, start=tailer.offset.to_json()))
            on_start()
            if self._stopped:
                return
            for step in tailer.steps():
                self._take(step)

    def waiting(self) -> Waiting:
        """Find the work that the job would do now; nothing is written.

        Raises:
            BinlogError: As `run`, before the first batch.
        """
        with self._follow() as tailer, WatchedLog(self._job.source.path, tailer.format_name) as watched:
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

    def _follow(self) -> Tailer:
        return Tailer(self._job.source.path, self._options.start, saved=self._file.start, how=self._how)

    def _repeat(self) -> None:
        """Do the batch again that was under way when the last process ended."""
        start, end = self._file.start, self._file.end
        if start is None or end is None:
            return
        with WatchedLog(self._job.source.path, start.format or None) as watched:
            decision = compare(watched, start)
            if decision.loss is not None:
                raise decision.loss  # whatever is accepted: a batch that is done again must be the same
            assert watched.log.events is not None, "the job is of a log of events"
            self._write(_planned(watched.log.events, start, end), end)

    def _take(self, step: Step) -> None:
        state = self._file.state
        if step.group_count:
            begun = msgspec.structs.replace(state, batch_id=state.batch_id + 1, end=step.end.to_json())
            self._file.begin(begun)
            self._write(step.entries(), step.end, step.group_count)
        else:
            self._file.finish(msgspec.structs.replace(state, start=step.end.to_json()))

    def _write(self, blocks: Iterable[LogBlock], end: SourceOffset, events: int | None = None) -> None:
        """Write a recorded batch into the tables, and record that it is there."""
        started = time.monotonic()
        state = self._file.state
        tables = table_rows(blocks, self._job.tables)
        read_seconds = time.monotonic() - started
        with ThreadPoolExecutor(THREADS) as pool:
            done = list(pool.map(lambda rows: write_rows(self._job, state, rows, end.position), tables))
        known = tuple(sorted({*state.tables, *(rows.place for rows in tables)}))
        self._file.finish(msgspec.structs.replace(state, start=end.to_json(), end=None, tables=known))
        batch = BatchProgress(
            batch_id=state.batch_id,
            tables=tuple(done),
            seconds=time.monotonic() - started,
            finished_at=time.time(),
            bytes_behind=None,
            read_seconds=read_seconds,
            offset=end,
            transactions=events,
        )
        self.progress.add(batch)
        if self._listener is not None:
            self._listener(batch)


def _planned(events: EventLog, start: SourceOffset, end: SourceOffset) -> Iterable[LogBlock]:
    reached = start.position
    for block in events.entries(start.position, end.position, state_of(start.state)):
        reached = block.next_position
        yield block
    check_range_complete(events, reached, end.position)
