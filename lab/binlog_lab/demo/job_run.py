"""The job in the demo: `run_job` runs it in a process of its own, kills it in the middle of a batch, runs it again."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from binlog_format.gtids.gtid import GtidPosition
from binlog_lab.demo.alterations import ALTERATIONS
from binlog_lab.demo.crash import BatchKiller, is_done
from binlog_lab.demo.processes import JobProcess
from binlog_lab.demo.state import DemoMarkKind
from binlog_streaming.job_state.checkpoint import read_checkpoint, state_of

if TYPE_CHECKING:
    from binlog_lab.demo.reports import DemoJobReport
    from binlog_lab.demo.sources import DemoLogSource
    from binlog_lab.demo.state import DemoState
    from binlog_lab.demo.view import DemoView
    from binlog_streaming.settings import Job

STANDSTILL_S = 240.0
"""Seconds without the end of a batch, with a complete log and a running job, after which the present rows are
compared."""


@dataclass(frozen=True, slots=True)
class JobPlace:
    """Places of the job on this machine.

    Attributes:
        job_file: Its settings.
        tables: Where the files of its tables are, also those of an object store.
    """

    job_file: Path
    tables: Path


def run_job(place: JobPlace, job: Job, source: DemoLogSource, state: DemoState, view: DemoView) -> None:
    """Run the job until everything that *source* writes is in the tables, or nothing moves any more.

    When all ALTER TABLE statements are in the log, the job is killed in the middle of the next batch, and then started
    again.

    Raises:
        BinlogError: The source or the job has failed.
    """
    run = _Run(place, job, source, state, view)
    try:
        with view.step(
            "Starting Spark",
            f"Spark runs the job {place.job_file.parent.name}/{place.job_file.name}, in a process of its own",
        ):
            run.process.wait_for_first_report()
        view.progress(state.snapshot, run.is_complete)
    finally:
        run.end()
    if not run.has_all():
        view.note(f"[red]Nothing has moved for {STANDSTILL_S:.0f} s; the rows so far are compared.[/]")
    if not any(mark.kind is DemoMarkKind.REPEATED for mark in state.marks()):
        view.note("[yellow]The job was not killed in a batch: none began after the last ALTER TABLE.[/]")


class _Run:
    # The job's process, and the one that takes its place.
    def __init__(self, place: JobPlace, job: Job, source: DemoLogSource, state: DemoState, view: DemoView) -> None:
        self._job_file = place.job_file
        self._job = job
        self._source = source
        self._state = state
        self._view = view
        self._is_live = False
        self._batches = -1
        self._moved_at = time.monotonic()
        self._killer = BatchKiller(job, place.tables, self._kill_and_restart)
        # Held while one process takes the place of another.
        self._lock = threading.Lock()
        self._is_restarting = False
        self.process = self._start()

    def is_complete(self) -> bool:
        """True if all rows are in the tables, or the job makes no more progress."""
        self._source.check()
        self._killer.check()
        with self._lock:
            self.process.check()
        now = self._state.snapshot()
        if now.batches and not self._is_live:
            # After the first batch the job is warm, and the live part begins.
            self._is_live = True
            self._state.go_live()
            self._source.go_on()
        if self._state.alteration_count == len(ALTERATIONS) and not self._killer.is_armed:
            self._killer.arm()
        for mark in self._state.take_marks():
            self._view.mark(mark, mark.at - self._state.started_at)
        if now.batches != self._batches or not now.is_written or self._is_restarting:
            self._moved_at, self._batches = time.monotonic(), now.batches
        return self.has_all() or time.monotonic() - self._moved_at > STANDSTILL_S

    def has_all(self) -> bool:
        """True if the log is complete, and the job has reached its end."""
        now = self._state.snapshot()
        if not now.is_written or self._state.is_cut_off:
            return False
        checkpoint = read_checkpoint(state_of(self._job))
        if checkpoint is None or checkpoint.offset is None:
            return False
        reached = checkpoint.offset.gtid
        return all(reached.covers(gtid) for gtid in GtidPosition.parse(now.last_gtid).last.values())

    def end(self) -> None:
        """Stop the job, in order."""
        self._killer.disarm()
        self.process.stop()

    def _start(self) -> JobProcess:
        log_file = Path(self._job.checkpoint).with_name("job.log")
        return JobProcess(self._job_file, log_file=log_file, listener=self._heard)

    def _heard(self, report: DemoJobReport) -> None:
        if report.event == "started" and self._is_restarting:
            self._is_restarting = False
            self._state.was_restarted("Spark is up again, and the job goes on where its checkpoint is")
        self._state.job_reported(report)

    def _kill_and_restart(self, batch_id: int, commits: int) -> bool:
        # Whether the batch was cut off.
        with self._lock:
            count = self.process.kill()
            is_cut_off = not is_done(self._job, batch_id)
            where = f"in the middle of batch {batch_id}, after {commits} commits" if is_cut_off else "between batches"
            text = f"kill -9 of the job, {count} processes with Java and Spark's workers, {where}; started again"
            self._state.was_killed(batch_id if is_cut_off else None, text)
            self._is_restarting = True
            self.process = self._start()
        return is_cut_off
