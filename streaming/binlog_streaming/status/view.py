"""State of a job, for display: `JobView`, of a running job or of any, `view_of(job)`.

File of a job's state for others, in its checkpoint: `StatusFile(job)`; and its process: `is_gone`.

It is for people, and never what a job goes on from: a lost one costs nothing but the numbers in it.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from binlog_connector.following.offsets import SourceOffset
from binlog_connector.metrics.lag import Consumed
from binlog_format.errors import OptionError
from binlog_format.position import Place
from binlog_streaming.job_state.checkpoint import state_of
from binlog_streaming.status.log_measure import log_measure
from binlog_streaming.status.model import JobStatus, Phase, ProcessId, RecordedStatus
from binlog_streaming.status.wording import verdict_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_streaming.settings.job_file import AnyJob
    from binlog_streaming.status.log_measure import LogMeasure


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
        """Read the last record; None: there is none.

        Raises:
            OptionError: `INVALID_VALUE`: it is no such file.
        """
        hint = "It was damaged, or written by a later version. Delete it: only what is shown depends on it"
        return self._folder.decoded(STATUS_FILE, RecordedStatus, "the state of a job", hint)

    def write(self, state: RecordedStatus) -> None:
        """Put *state* in the place of what was recorded.

        Raises:
            StorageError, AccessError: It cannot be written; what was recorded before is there still.
        """
        self._folder.write(STATUS_FILE, msgspec.json.encode(state))


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


def view_of(job: AnyJob, clock: Callable[[], float] = time.time) -> JobView:
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
                hint="It has not run, or not since it records how it is; binlog-stream check tells what it would do",
            )
        return state

    return JobView(read_state, log_measure(job, clock), clock)


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
