"""Facts from the log about a job, its lag and the purge of files that it needs: `LogMeasure`; names: `job_facts`."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, TypedDict

from binlog_connector.metrics.lag import LagMeter
from binlog_format.archives.archive_directory import ArchiveDirectory
from binlog_format.archives.directories import open_directory
from binlog_format.errors import BinlogError, DataLossError
from binlog_format.formats.opening import open_live_files
from binlog_format.source_file import ARCHIVE_MARK, without_archive
from binlog_streaming.settings import EventTablesJob, Job, PublishJob, TopicTablesJob
from binlog_streaming.status.model import LogStatus, PurgeRisk, PurgeStatus
from binlog_streaming.status.wording import without_access

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_connector.metrics.lag import Consumed, Lag
    from binlog_format.live_files import LiveFiles
    from binlog_format.position import Position
    from binlog_streaming.settings.job_file import AnyJob

NOT_SET = (
    "How long the server keeps its files is not known: set purge_after in [status] of the job file to its "
    "binlog_expire_logs_seconds (binlog-stream doctor JOB.toml --server URL tells it)."
)


class LogMeasure:
    """Measures the log of one job; may be used by several threads. Files are opened when they are needed.

    Args:
        path: Of the log, with its archive.
        format_name: The format that the log must have; None: whatever it is.
        expiry_seconds: How long the server keeps a file that it no longer writes; None: not known.
        not_known: What to tell people in that case.
        clock: Seconds since 1970 UTC.

    Attributes:
        path: Of the log, with its archive.
    """

    def __init__(
        self,
        path: str,
        format_name: str | None,
        expiry_seconds: float | None,
        *,
        not_known: str = NOT_SET,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.path = path
        self._format_name = format_name
        self._expiry_seconds = expiry_seconds
        self._not_known = not_known
        self._clock = clock
        self._lock = threading.RLock()
        self._meter: LagMeter | None = None
        self._files: LiveFiles | None = None

    def close(self) -> None:
        """Close all files."""
        with self._lock:
            if self._meter is not None:
                self._meter.close()
            if self._files is not None:
                self._files.close()
            self._meter = self._files = None

    def meter(self) -> LagMeter:
        """Meter of the lag."""
        with self._lock:
            if self._meter is None:
                self._meter = LagMeter(self.path, self._format_name)
            return self._meter

    def lag(self, consumed: Callable[[], Consumed]) -> Lag:
        """See `LagMeter.lag`."""
        return self.meter().lag(consumed)

    def size_between(self, start: Position, end: Position) -> int:
        """See `LagMeter.size_between`."""
        return self.meter().size_between(start, end)

    def measure(self, consumed: Callable[[], Consumed | None]) -> LogStatus:
        """Look at the log.

        Args:
            consumed: What the job has taken; asked again when the log has been measured. None: nothing is known.
        """
        first = consumed()
        if first is None:
            return _unknown("no batch has been finished yet", PurgeStatus(PurgeRisk.UNKNOWN))
        try:
            lag = self.lag(lambda: consumed() or first)
            purge, name = self._purge(lag, (consumed() or first).offset.position.file_no)
        except DataLossError as error:
            return _unknown(str(error), PurgeStatus(PurgeRisk.GONE, reason=without_access(str(error))))
        except (BinlogError, OSError) as error:
            return _unknown(str(error), PurgeStatus(PurgeRisk.UNKNOWN))
        waiting = None if lag.waiting_since is None else max(self._clock() - lag.waiting_since, 0.0)
        return LogStatus(
            problem=None,
            waiting_seconds=waiting if lag.size else 0.0,
            transactions=lag.transactions,
            size=lag.size,
            pages=lag.pages,
            gtid=str(lag.gtid),
            file=name,
            purge=purge,
        )

    def _purge(self, lag: Lag, file_no: int) -> tuple[PurgeStatus, str]:
        """Time left for the oldest file that is needed on the server, and the file's name.

        Args:
            file_no: The file that is read next; older ones are needed as far as they are there.
        """
        with self._lock:
            if self._files is None:
                self._files = open_live_files(without_archive(self.path), self.meter().format_name)
            names, newest, archived = self._files.names(), self._files.look().file_no, self._archived()
            needed = {number: name for number, name in names.items() if lag.oldest_file_no <= number}
            first = next(iter(needed.values()), "")
            if archived is None and file_no not in names and any(number > file_no for number in names):
                return PurgeStatus(PurgeRisk.GONE, reason=f"file {file_no} is not there any more"), first
            # A server never removes the file that it writes; when it begins the next one, that one was just written.
            waiting = [number for number, name in needed.items() if number < newest and name not in (archived or ())]
            if archived is not None and not waiting:
                return PurgeStatus(PurgeRisk.NONE), first
            if self._expiry_seconds is None:
                return PurgeStatus(PurgeRisk.UNKNOWN, file=first, reason=self._not_known), first
            written_at = self._files.modified_at(waiting[0]) if waiting else self._clock()
        name = names[waiting[0]] if waiting else first
        if written_at is None:
            return PurgeStatus(PurgeRisk.UNKNOWN, name, reason=f"when {name} was last written is not known"), first
        left = written_at + self._expiry_seconds - self._clock()
        return PurgeStatus(PurgeRisk.TIMED, name, left, self._expiry_seconds), first

    def _archived(self) -> frozenset[str] | None:
        """Names of files that the archive has as a whole; None: there is no archive."""
        _, has_archive, place = self.path.partition(ARCHIVE_MARK)
        if not has_archive:
            return None
        directory, _ = open_directory(place)
        if not isinstance(directory, ArchiveDirectory):
            return frozenset()  # its manifest has gone: it keeps nothing any more
        return frozenset(file.name for file in directory.manifest.files if file.is_complete)


def _unknown(problem: str, purge: PurgeStatus) -> LogStatus:
    return LogStatus(
        problem=without_access(problem),
        waiting_seconds=None,
        transactions=0,
        size=0,
        pages=0,
        gtid="",
        file="",
        purge=purge,
    )


class JobFacts(TypedDict):
    """See `RecordedStatus`."""

    name: str
    source: str
    target: str
    kind: str


def job_facts(job: AnyJob) -> JobFacts:
    """Name, source and target of a job."""
    if isinstance(job, PublishJob):
        target = f"{job.sink.bootstrap_servers} ({job.sink.topic_prefix})"
        return JobFacts(name=job.name, source=without_access(job.source.path), target=target, kind="topics")
    target = f"{without_access(job.sink.directory)} ({job.sink.format})"
    if isinstance(job, TopicTablesJob):
        source = f"{job.source.bootstrap_servers} ({job.source.topics})"
        return JobFacts(name=job.name, source=source, target=target, kind="from_topics")
    kind = "events" if isinstance(job, EventTablesJob) else "tables"
    return JobFacts(name=job.name, source=without_access(job.source.path), target=target, kind=kind)


def log_measure(job: AnyJob, clock: Callable[[], float]) -> LogMeasure | None:
    """Meter of the log of *job*; None: it reads none."""
    if isinstance(job, TopicTablesJob):
        return None
    expiry = job.status.purge_after_seconds if isinstance(job, Job | PublishJob) else None
    # A program's log has no server that removes its files.
    not_known = NOT_SET if isinstance(job, Job | PublishJob) else ""
    return LogMeasure(job.source.path, job.source.format, expiry, not_known=not_known, clock=clock)
