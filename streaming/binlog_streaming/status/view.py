"""State of a job, for display: `JobView`, of a running job or of any, `view_of(job)`."""

from __future__ import annotations

import threading
import time
from dataclasses import fields
from typing import TYPE_CHECKING

from binlog_connector.following.offsets import SourceOffset
from binlog_connector.metrics.lag import Consumed
from binlog_format.errors import OptionError
from binlog_format.position import Place
from binlog_streaming.status.log_measure import log_measure
from binlog_streaming.status.model import JobStatus, RecordedStatus
from binlog_streaming.status.state_file import StatusFile, phase_of
from binlog_streaming.status.verdict import verdict_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_streaming.settings.job_file import AnyJob
    from binlog_streaming.status.log_measure import LogMeasure

LOOK_SECONDS = 1.0
"""Shortest time between looks at the log, however many clients ask."""
LOOK_SHARE = 0.005
"""Largest share of time for looking: with thousands of tables a look takes longer, and its result is kept longer."""
KEPT_SECONDS_MAX = 10.0


class JobView:
    """Gives how a job is; may be used by several threads.

    Args:
        read_state: Gives what the job recorded.
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
        """The state now, or a moment ago.

        Raises:
            BinlogError: What was recorded cannot be read.
        """
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
