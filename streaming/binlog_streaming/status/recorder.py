"""Records how a running job is, in memory for its page and in a file for everybody else: `StatusRecorder`."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from binlog_connector.metrics.follower import Follower, LogProgress, TopicTotals
from binlog_connector.metrics.lag import Consumed, known_time, transactions_between
from binlog_connector.schema.definitions import TableName
from binlog_format.errors import BinlogError
from binlog_format.gtids.gtid import Gtid, GtidPosition
from binlog_format.messages import library_text
from binlog_streaming.settings import PublishJob
from binlog_streaming.status.model import BATCHES_MAX, ERRORS_MAX, BatchStatus, ErrorStatus, Phase, RecordedStatus
from binlog_streaming.status.tallies import KnownTables, MinuteTallies, TableTallies
from binlog_streaming.status.view import (
    ALIVE,
    HEARTBEAT_SECONDS,
    StatusFile,
    job_facts,
    log_measure,
    own_process,
    phase_of,
)
from binlog_streaming.status.wording import without_access

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from binlog_connector.following.offsets import SourceOffset
    from binlog_format.gtids.gtid_set import GtidPoint
    from binlog_streaming.job_state.progress import BatchProgress
    from binlog_streaming.job_state.record import JobRecord
    from binlog_streaming.settings.job_file import AnyJob
    from binlog_streaming.topics.record import Published


logger = logging.getLogger(__name__)

WRITE_SECONDS = 1.0
"""The file is written no more often than this, however many batches there are."""
WRITE_SHARE = 0.01
"""Largest share of time for writing it: with thousands of tables it is written less often."""
STOP_SECONDS = 10.0
"""Seconds that the end of the job waits for a write under way."""


class StatusRecorder:
    """Records one run of a job; a context manager around it, which learns from the exception how it ended.

    Nothing that goes wrong here ends the job.

    Args:
        clock: Seconds since 1970 UTC.

    Attributes:
        measure: Measures the log; None: the job reads none.
        follower: Both, for metrics.
        addresses: Where the process listens, by name: `metrics`, `status`.
    """

    def __init__(self, job: AnyJob, clock: Callable[[], float] = time.time) -> None:
        self.job = job
        self.progress = LogProgress(topics=TopicTotals() if isinstance(job, PublishJob) else None)
        self.measure = log_measure(job, clock)
        self.follower = Follower(job.name, self.measure, self.progress)
        self.addresses: dict[str, str] = {}
        self._clock = clock
        self._file = StatusFile(job)
        before = self._recorded()
        self._before = before
        self._batches = deque(() if before is None else before.batches, maxlen=BATCHES_MAX)
        self._errors = deque(() if before is None else before.errors, maxlen=ERRORS_MAX)
        self._tables = TableTallies(() if before is None else before.tables)
        self.progress.proved = self._tables.proved
        self._minutes = MinuteTallies(() if before is None else before.minutes)
        self._totals = (0, 0) if before is None else (before.batches_total, before.changes_total)
        self._known: KnownTables | None = None
        self._facts = job_facts(job)
        self._process = own_process()
        self._started_at = clock()
        self._phase = Phase.STARTING
        self._is_stopping = False
        self._lock = threading.Lock()
        self._changed, self._ended = threading.Event(), threading.Event()
        self._writer = threading.Thread(target=self._keep, name="binlog-stream-status", daemon=True)
        self._could_write = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended.set()
        self._changed.set()
        self._phase = self._ending(error)
        if error is not None and self._phase is Phase.FAILED:
            self._errors.append(_error_status(error, self._clock()))
        if self._writer.is_alive():
            self._writer.join(STOP_SECONDS)  # storage may hang, and the job must be able to end
            if not self._writer.is_alive():
                self._write(self.state())
        elif (before := self._before) is not None and phase_of(before, self._clock()) not in ALIVE:
            # It could not start: that is news where it ran before, and does not run in another process.
            self._write(self._not_started(before))
        if self.measure is not None:
            self.measure.close()

    def goes_on_at(self, offset: SourceOffset | None) -> None:
        """Set the offset at which the job will continue, before its first batch; None: none yet, or it reads no log."""
        if offset is not None:
            before = self._before
            is_same = before is not None and before.position == str(offset.position)
            self.progress.consumed = Consumed(offset, before.commit_time if before is not None and is_same else None)

    def started(self, record: JobRecord | None = None) -> None:
        """The job runs, and may have finished batches already; *record* is what it remembers of its tables."""
        if self._known is None:
            self._take_record(record)
        self._phase = Phase.RUNNING
        self._changed.set()
        self._writer.start()

    def stopping(self) -> None:
        """Record that the job was asked to stop."""
        self._is_stopping = True

    def batch(self, batch: BatchProgress, record: JobRecord | None = None) -> None:
        """A batch is in the tables; *record* is what the job remembers after it."""
        with _without_ending_the_job():
            self._take_batch(batch)
            self._take_record(record, batch)
        self._changed.set()

    def published(self, published: Published) -> None:
        """A transaction is in the topics."""
        with _without_ending_the_job():
            self._take_published(published)
        self._changed.set()

    def state(self) -> RecordedStatus:
        """The present state."""
        consumed, now = self.progress.consumed, self._clock()
        # Of a structured log, how to go on reading is megabytes; the lag does not need it.
        offset = None if consumed is None else replace(consumed.offset, state=b"", files=())
        gtid = "" if consumed is None else str(consumed.offset.gtid)
        with self._lock:
            has_ended = self._phase not in ALIVE
            return RecordedStatus(
                **self._facts,
                phase=self._phase,
                process=self._process,
                started_at=self._started_at,
                seen_at=now,
                ended_at=now if has_ended else None,
                offset=None if offset is None else offset.to_json(),
                commit_time=None if consumed is None else consumed.timestamp,
                gtid=gtid,
                position="" if consumed is None else str(consumed.offset.position),
                batches_total=self._totals[0],
                changes_total=self._totals[1],
                batches=tuple(self._batches),
                tables=self._tables.tables(self._known, gtid),
                minutes=self._minutes.minutes(now),
                errors=tuple(self._errors),
                addresses=dict(self.addresses),
            )

    def _take_batch(self, batch: BatchProgress) -> None:
        before = self.progress.consumed
        offset = batch.offset
        commit_time = batch.commit_time
        read_seconds = min(batch.read_seconds, batch.seconds)
        started_at = batch.finished_at - batch.seconds
        size = self._take_offset(before, offset, batch)
        self.progress.rows.add(batch.changes)
        taken = BatchStatus(
            number=batch.batch_id,
            finished_at=batch.finished_at,
            log_seconds=None if commit_time is None else max(started_at - commit_time, 0.0),
            read_seconds=read_seconds,
            commit_seconds=batch.seconds - read_seconds,
            changes=batch.changes,
            size=size,
            tables=len({table.source_table for table in batch.tables}),
            position="" if batch.position is None else str(batch.position),
            gtids=_gtids(before, offset),
        )
        with self._lock:
            self._tables.take_batch(batch, taken.gtids or taken.position)
            self.progress.proved, self.progress.bytes_per_row = self._tables.proved, dict(self._tables.bytes_per_row)
            self._take(taken)

    def _take_published(self, published: Published) -> None:
        before, totals, now = self.progress.consumed, self.progress.topics, self._clock()
        assert totals is not None, "made for a job that publishes"
        started_at = now - published.seconds
        changes, committed = published.records.counts.total(), known_time(published.last_timestamp)
        self.progress.took(
            published.offset,
            rows=changes,
            size=published.size,
            groups=published.groups,
            last_timestamp=published.last_timestamp,
        )
        totals.records.update(published.records.counts)
        totals.sizes.update(published.records.sizes)
        totals.committed += 1
        totals.aborted += published.attempts - 1
        taken = BatchStatus(
            number=self._totals[0],
            finished_at=now,
            log_seconds=None if committed is None else max(started_at - committed, 0.0),
            read_seconds=published.read_seconds,
            commit_seconds=max(published.seconds - published.read_seconds, 0.0),
            changes=changes,
            size=published.size,
            tables=len(published.records.counts),
            position=str(published.offset.position),
            gtids=_gtids(before, published.offset),
        )
        with self._lock:
            if published.attempts > 1:
                text = f"batch {taken.number} was not committed at first: {published.attempts} attempts"
                self._errors.append(ErrorStatus(now, text, "Look at the brokers' own logs when this comes back"))
            for topic, records in published.records.counts.items():
                self._tables.take_topic(topic, records, taken.number, committed)
            for snapshot in published.records.snapshots:
                self._tables.take_snapshot(snapshot)
            for topic, rows in published.records.copied.items():
                self._tables.take_copied(topic, rows)
            self._take(taken)

    def _take(self, batch: BatchStatus) -> None:
        self._batches.append(batch)
        self._minutes.take(batch)
        self._totals = self._totals[0] + 1, self._totals[1] + batch.changes

    def _take_offset(self, before: Consumed | None, offset: SourceOffset | None, batch: BatchProgress) -> int | None:
        """Count what lies between two offsets; bytes of the log, None: not known."""
        if offset is None:
            return None
        known = None if before is None else before.timestamp
        self.progress.consumed = Consumed(offset, known if batch.commit_time is None else batch.commit_time)
        if before is None or self.measure is None:
            return None
        counted = batch.transactions
        self.progress.transactions += (
            transactions_between(before.offset.gtid, offset.gtid) if counted is None else counted
        )
        try:
            size = self.measure.size_between(before.offset.position, offset.position)
        except (BinlogError, OSError) as error:
            logger.warning("the size of a batch is not known: %s", error)
            return None
        self.progress.size.add(size)
        return size

    def _take_record(self, record: JobRecord | None, batch: BatchProgress | None = None) -> None:
        if record is None:
            return
        self.progress.set_aside = tuple(sorted(str(stopped.name) for stopped in record.set_aside))
        self.progress.verified = {
            (str(TableName(target.database, target.table)), target.mode): target.commit_time
            for target in record.verified
        }
        with self._lock:
            waiting = set() if self._known is None else set(self._known.waiting)
            if batch is not None:
                waiting = (waiting | batch.state_change.waiting) - batch.state_change.snapshots.keys()
            self._known = KnownTables(record, waiting)

    def _keep(self) -> None:
        """Write the file whenever something has changed, and as a sign of life."""
        while not self._ended.is_set():
            self._changed.wait(HEARTBEAT_SECONDS)
            self._changed.clear()
            began = time.monotonic()
            if not self._ended.is_set():
                self._write(self.state())
            took = time.monotonic() - began
            self._ended.wait(min(max(WRITE_SECONDS, took / WRITE_SHARE), HEARTBEAT_SECONDS))

    def _write(self, state: RecordedStatus) -> None:
        try:
            self._file.write(state)
        except Exception as error:  # whatever a storage library raises
            if self._could_write:
                logger.warning("the state of the job cannot be recorded; the job goes on: %s", error)
            self._could_write = False
            return
        self._could_write = True

    def _recorded(self) -> RecordedStatus | None:
        try:
            return self._file.read()
        except BinlogError as error:
            logger.warning("what was recorded of the job is not used: %s", error)
            return None

    def _not_started(self, before: RecordedStatus) -> RecordedStatus:
        now = self._clock()
        return replace(
            before,
            phase=self._phase,
            process=self._process,
            started_at=self._started_at,
            seen_at=now,
            ended_at=now,
            errors=tuple(self._errors),
        )

    def _ending(self, error: BaseException | None) -> Phase:
        if isinstance(error, BinlogError):
            return Phase.FAILED
        if self._is_stopping or isinstance(error, KeyboardInterrupt | SystemExit):
            return Phase.STOPPED
        return Phase.ENDED if error is None else Phase.FAILED


@contextlib.contextmanager
def _without_ending_the_job() -> Iterator[None]:
    # Whoever only watches must not stop what is watched.
    try:
        yield
    except Exception:
        logger.exception("a batch is missing in the recorded state; the job goes on")


def _gtids(before: Consumed | None, offset: SourceOffset | None) -> str:
    if before is None or offset is None:
        return ""
    return gtid_range(before.offset.gtid, offset.gtid)


def _error_status(error: BaseException, now: float) -> ErrorStatus:
    if not isinstance(error, BinlogError):
        return ErrorStatus(now, without_access(f"{type(error).__name__}: {library_text(error)}"), None)
    text = without_access(str(error))
    hint = error.hint
    return ErrorStatus(now, text if hint is None else text.removesuffix(f". {hint}"), hint)


def gtid_range(before: GtidPoint, after: GtidPoint) -> str:
    """GTIDs that *after* covers and *before* does not: `0-1-101 to 0-1-230`; for MySQL: the set; empty: none."""
    new = after.without(before) if after else after
    if not isinstance(new, GtidPosition):
        return str(new)
    known = before.last if isinstance(before, GtidPosition) else {}
    return ", ".join(_of_domain(known.get(domain), gtid) for domain, gtid in sorted(new.last.items()))


def _of_domain(before: Gtid | None, last: Gtid) -> str:
    first = None if before is None else before.seqno + 1
    if first is None:
        return f"up to {last}"
    return str(last) if first == last.seqno else f"{last.domain}-{last.server}-{first} to {last}"
