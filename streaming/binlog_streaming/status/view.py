"""State of a job, for display: `JobView`, of a running job or of any, `view_of(job)`.

File of a job's state for others, in its checkpoint: `StatusFile(job)`; and its process: `is_gone`.

It is for people, and never what a job goes on from: a lost one costs nothing but the numbers in it.

Facts from the log about a job, its lag and the purge of files that it needs: `LogMeasure`; names: `job_facts`.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import msgspec

from binlog_connector.following.offsets import SourceOffset
from binlog_connector.metrics.lag import Consumed, LagMeter
from binlog_format.errors import BinlogError, DataLossError, OptionError
from binlog_format.formats.archive_directory import ArchiveDirectory
from binlog_format.formats.directories import open_directory
from binlog_format.formats.opening import open_live_files
from binlog_format.position import Place
from binlog_format.source_file import ARCHIVE_MARK, without_archive
from binlog_streaming.job_state.checkpoint import state_of
from binlog_streaming.settings import EventTablesJob, Job, PublishJob, TopicTablesJob
from binlog_streaming.status.model import JobStatus, LogStatus, Phase, ProcessId, PurgeRisk, PurgeStatus, RecordedStatus
from binlog_streaming.status.wording import verdict_of, without_access

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_connector.metrics.lag import Lag
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


STATUS_FILE = "binlog-stream-status.json"

HEARTBEAT_SECONDS = 10.0
"""A job that has nothing to tell gives a sign of life so often."""

SILENT_SECONDS = 60.0
"""One that gives none for so long does not run."""


class StatusFile:
    """The recorded state of one job."""

    def __init__(self, job: AnyJob) -> None:
        self._folder = state_of(job)

    @property
    def path(self) -> str:
        """Path of the file."""
        return f"{self._folder.directory.rstrip('/')}/{STATUS_FILE}"

    def read(self) -> RecordedStatus | None:
        """Read the last record; None: there is none. Raises `OptionError`: `INVALID_VALUE`: it is no such file."""
        hint = "It was damaged, or written by a later version. Delete it: only what is shown depends on it"
        return self._folder.decoded(STATUS_FILE, RecordedStatus, "the state of a job", hint)

    def write(self, state: RecordedStatus) -> None:
        """Put *state* in the place of what was recorded.

        Raises:
            StorageError, AccessError: It cannot be written; what was recorded before is there still.
        """
        self._folder.write(STATUS_FILE, msgspec.json.encode(state))


ALIVE = (Phase.STARTING, Phase.RUNNING)


def phase_of(state: RecordedStatus, now: float) -> Phase:
    """Activity of a job, judged by others: a job that should run but gives no sign of life does not run."""
    if state.ended_at is not None:
        return state.phase
    return Phase.LOST if is_gone(state.process) or now - state.seen_at > SILENT_SECONDS else state.phase


_BOOT = Path("/proc/sys/kernel/random/boot_id")
_SPACE = Path("/proc/self/ns/pid")


def own_process() -> ProcessId:
    """Id of this process."""
    return ProcessId(socket.gethostname(), os.getpid(), _space())


def is_gone(process: ProcessId) -> bool:
    """True if *process* is known to have ended; False if this process cannot see it."""
    is_here = bool(process.space) and process.space == _space()
    return is_here and not Path(f"/proc/{process.pid}").exists()


def _space() -> str:
    # Numbers of processes mean the same within one start of a machine, and one namespace of it: containers differ.
    try:
        return f"{_BOOT.read_text().strip()}/{_SPACE.readlink()}"
    except OSError:
        return ""


LOOK_SECONDS = 1.0
"""Shortest time between looks at the log, however many clients ask."""
LOOK_SHARE = 0.005
"""Largest share of time for looking: with thousands of tables a look takes longer, and its result is kept longer."""
KEPT_SECONDS_MAX = 10.0


class JobView:
    """Gives how a job is; may be used by several threads.

    Args:
        measure: Measures its log; None: it reads none.
        clock: Seconds since 1970 UTC.
    """

    def __init__(
        self,
        read_state: Callable[[], RecordedStatus],
        measure: LogMeasure | None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._read_state = read_state
        self._measure = measure
        self._clock = clock
        self._lock = threading.Lock()
        self._latest: JobStatus | None = None
        self._kept_seconds = LOOK_SECONDS

    def status(self) -> JobStatus:
        """The state now, or a moment ago."""
        with self._lock:
            latest = self._latest
            if latest is None or not 0 <= self._clock() - latest.now < self._kept_seconds:
                began = time.monotonic()
                self._latest = latest = self._look()
                took = time.monotonic() - began
                self._kept_seconds = min(max(LOOK_SECONDS, took / LOOK_SHARE), KEPT_SECONDS_MAX)
            return latest

    def _look(self) -> JobStatus:
        state, now = self._read_state(), self._clock()
        log = None if self._measure is None else self._measure.measure(lambda: _consumed(state))
        phase = phase_of(state, now)
        return JobStatus(verdict_of(phase, state, log, now), now, phase, state, log)


def view_of(job: AnyJob) -> JobView:
    """Make the view of *job*, whether it runs or not.

    The view raises:
        OptionError: `MISSING`: the job has recorded nothing.
    """
    file = StatusFile(job)

    def read_state() -> RecordedStatus:
        state = file.read()
        if state is None:
            raise OptionError(
                "MISSING",
                "the job has recorded nothing yet",
                at=Place(file.path),
                hint="It has not run, or not since it records how it is; "
                "binlog-stream check JOB.toml tells what it would do",
            )
        return state

    return JobView(read_state, log_measure(job, time.time))


def status_json(status: JobStatus) -> dict[str, object]:
    """*status* for msgspec to write, on one level: `verdict`, `now`, `phase`, `log`, and what the job recorded."""
    # The offset is for measuring; people are shown `position`.
    recorded = {
        field.name: getattr(status.state, field.name) for field in fields(RecordedStatus) if field.name != "offset"
    }
    return {**recorded, "verdict": status.verdict, "now": status.now, "phase": status.phase, "log": status.log}


def _consumed(state: RecordedStatus) -> Consumed | None:
    if state.offset is None:
        return None
    return Consumed(SourceOffset.from_json(state.offset), state.commit_time)
