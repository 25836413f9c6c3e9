"""A job's progress with a table: `ProvedJobState(job).near(point, ...)` gives its target after a batch."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from binlog_format.errors import OptionError, TableError
from binlog_format.position import Position
from binlog_streaming.job_state.checkpoint import read_checkpoint, state_of
from binlog_streaming.job_state.job_run import JobLock
from binlog_streaming.lake.sinks import sink_type
from binlog_streaming.snapshot.locked_point import LogPoint
from binlog_streaming.status.model import Phase
from binlog_streaming.status.view import ALIVE, StatusFile, phase_of
from binlog_streaming.status.wording import clock_text, without_access
from binlog_streaming.tables.open_targets import read_target_state

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_connector.following.offsets import SourceOffset
    from binlog_connector.schema.definitions import TableName
    from binlog_format.gtids.gtid_set import GtidPoint
    from binlog_streaming.lake.target import Target
    from binlog_streaming.prove.log_changes import LogChanges
    from binlog_streaming.settings.choices import Mode
    from binlog_streaming.settings.model import Job
    from binlog_streaming.status.model import RecordedStatus

PATIENCE_S = 300.0
"""Seconds without progress after which a job counts as stopped; a batch takes seconds, seldom minutes."""
DISTANCE_MAX = 64 << 20
"""Bytes of the log that the target may be away from the server's rows: what lies between is held in memory."""
_POLL_S = 0.1
_PARTLY = "the target has a part of the next batch already"


@dataclass(frozen=True, slots=True)
class Reached:
    """A target that has the log up to some place, and nothing after it.

    Attributes:
        target: As it was looked at; whoever has this closes it.
        offset: Its end in the log.
        rows_at: The position that it is near, in a log without GTIDs; None: it has GTIDs.
    """

    target: Target
    offset: SourceOffset
    rows_at: Position | None = None

    @property
    def gtids(self) -> GtidPoint:
        """GTIDs that the target has; empty in a log without GTIDs."""
        return self.offset.gtid.advanced_by(self.offset.skip_gtid)


@dataclass(slots=True)
class ProvedJobState:
    """State of a job, read from its checkpoint and its targets.

    Attributes:
        stopped_at: Where the job stood too long for an earlier table; it is not waited for there again.
    """

    job: Job
    changes: LogChanges
    stopped_at: str = ""

    def near(
        self,
        point: LogPoint | GtidPoint | Position,
        table: TableName,
        mode: Mode,
        uri: str,
        on_wait: Callable[[str], None],
    ) -> Reached:
        """The target at the end of a batch, not far from *point*, before or after; waits until it is there.

        A batch is in the checkpoint after all of it is in the tables. So a target whose last commit is of a batch that
        was in the checkpoint before the look has all of the log up to that batch's end, and nothing of the next one.

        Args:
            on_wait: Told how far the job is, while it is not there.

        Raises:
            TableError: `STANDS_ELSEWHERE`: the job does not go on, or does not run. `OTHER_WRITER`, `SAME_TARGET`,
                `MODE_CHANGED`.
        """
        state, patience = state_of(self.job), _Patience(self, table, on_wait)
        place = point if isinstance(point, Position) else None
        while True:
            if place is None and not isinstance(point, Position):
                place = self.changes.end_of(point)
            checkpoint = read_checkpoint(state)
            offset = None if checkpoint is None else checkpoint.offset
            why = f"more than {DISTANCE_MAX >> 20} MiB of the log away"
            if place is None:
                why = "the log has not come to them"
            if checkpoint is not None and offset is not None and self._is_near(place, offset.position):
                target = self._at_end_of(checkpoint.batch_id or 0, checkpoint.query_id, table, mode, uri)
                if target is not None:
                    return Reached(target, offset, place if isinstance(point, LogPoint) else None)
                why = _PARTLY
            patience.wait(offset, f"the other rows are those at {point}: {why}", is_for_log=place is None)

    def wait_past(
        self, point: LogPoint | GtidPoint | Position, table: TableName, why: str, on_wait: Callable[[str], None]
    ) -> None:
        """Wait until the job has all of the log before *point*.

        Args:
            why: Named with *point* where the job does not go on.
            on_wait: Told how far the job is, while it is not there.
        """
        if isinstance(point, Position):
            place, shown = point, self.changes.place(point)
        else:
            place, shown = self.changes.wait_for(point), str(point)
        patience = _Patience(self, table, on_wait)
        while True:
            checkpoint = read_checkpoint(state_of(self.job))
            offset = None if checkpoint is None else checkpoint.offset
            if offset is not None and offset.position >= place:
                return
            patience.wait(offset, f"it has to pass {shown}: {why}")

    def now(self, table: TableName, mode: Mode, uri: str, on_wait: Callable[[str], None]) -> Reached:
        """The target at the end of a batch, wherever that is; waits for the end of one that is under way.

        Args:
            on_wait: Told how far the job is, while it is within a batch.
        """
        state, patience = state_of(self.job), _Patience(self, table, on_wait)
        while True:
            checkpoint = read_checkpoint(state)
            offset = None if checkpoint is None else checkpoint.offset
            if checkpoint is not None and offset is not None:
                target = self._at_end_of(checkpoint.batch_id or 0, checkpoint.query_id, table, mode, uri)
                if target is not None:
                    return Reached(target, offset)
            patience.wait(offset, _PARTLY)

    def _is_near(self, place: Position | None, position: Position) -> bool:
        return place is not None and self.changes.distance(place, position) <= DISTANCE_MAX

    def _at_end_of(self, batch_id: int, query_id: str, table: TableName, mode: Mode, uri: str) -> Target | None:
        # None: the next batch is in it already, in part perhaps.
        with contextlib.ExitStack() as opened:
            target = opened.enter_context(contextlib.closing(sink_type(self.job.sink.format).at(self.job.sink, uri)))
            state = read_target_state(target, str(table), mode)
            if state is None or state.owner != query_id:
                owner = "nobody" if state is None else f"query {state.owner}"
                raise TableError(
                    "OTHER_WRITER",
                    f"{table}: {uri} was made by {owner}; this checkpoint is of query {query_id}",
                    hint="Give the job file whose checkpoint belongs to the tables",
                )
            if state.batch_id is not None and state.batch_id > batch_id:
                return None
            opened.pop_all()
            return target


@dataclass(slots=True)
class _Patience:
    """Waits for a job, as long as it runs, and moves."""

    state: ProvedJobState
    table: TableName
    on_wait: Callable[[str], None]
    known: str = ""
    since: float = field(default_factory=time.monotonic)
    is_stopped: bool = False

    def wait(self, offset: SourceOffset | None, why: str, *, is_for_log: bool = False) -> None:
        """Wait a moment, after a look that found the job at *offset*. *is_for_log*: not the job is late, the log is."""
        place = "the start of the log" if offset is None else str(offset.gtid or offset.position)
        if place != self.known:
            self.known, self.since, self.is_stopped = place, time.monotonic(), False
        # A batch may have ended after this look at the checkpoint: only the next look decides.
        if self.is_stopped or place == self.state.stopped_at or time.monotonic() - self.since > PATIENCE_S:
            self.state.stopped_at = place
            raise self._error(place, why)
        self.is_stopped = not is_for_log and does_not_run(self.state.job)
        self.on_wait(place)
        time.sleep(_POLL_S)

    def _error(self, place: str, why: str) -> TableError:
        job = self.state.job
        stopped = stopped_text(job)
        rests = f"and has not moved for {PATIENCE_S:.0f} s" if stopped is None else f"and does not run{stopped}"
        return TableError(
            "STANDS_ELSEWHERE",
            f"{self.table}: job {job.name!r} stands at {place}, {rests}; {why}",
            hint="Let the job run meanwhile: binlog-stream run JOB.toml",
        )


def does_not_run(job: Job) -> bool:
    """True if no process runs a job. Its lock decides; where nobody can look at that, the job's own record."""
    is_held = JobLock(job).is_held()
    if is_held is not None:
        return not is_held
    recorded = _recorded(job)
    return recorded is not None and phase_of(recorded, time.time()) not in ALIVE


def stopped_text(job: Job) -> str | None:
    """Words to follow "does not run": since when, and its error, as far as the job recorded that; None: it runs."""
    if not does_not_run(job):
        return None
    recorded = _recorded(job)
    if recorded is None or recorded.ended_at is None:
        return " (no process has its lock)"
    since = clock_text(recorded.ended_at, time.time())
    if recorded.phase is not Phase.FAILED or not recorded.errors:
        return f" since {since}"
    return f" since {since}, when it failed: {without_access(recorded.errors[-1].text)}"


def _recorded(job: Job) -> RecordedStatus | None:
    try:
        return StatusFile(job).read()
    except OptionError:
        return None  # the record is only shown
