"""The job in the demo: `run_job` runs it in a process of its own, kills it in the middle of a batch, runs it again.

The middle of a batch is found by `BatchKiller(job, tables, kill).arm()`.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from binlog_format.gtids.gtid import GtidPosition
from binlog_lab.demo.processes import JobProcess
from binlog_lab.demo.proof.targets import commits
from binlog_lab.demo.shop import ALTERATIONS
from binlog_lab.demo.state import DemoMarkKind
from binlog_streaming.job_state.checkpoint import read_checkpoint, state_of

if TYPE_CHECKING:
    from collections.abc import Callable

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


COMMITS_BEFORE = 6
"""The kill comes after so many commits into target tables, of the dozens that a batch makes."""
LOOK_INTERVAL_S = 0.005


class BatchKiller:
    """Watches the job's checkpoint and tables on a thread of its own, and kills when a batch is in its middle.

    Args:
        job: With its checkpoint in a local folder.
        tables: Where the files of its tables are on this machine.
        kill: Called with the batch's number and the commits seen; returns whether the batch was cut off. If it had
            just ended, it is called again in a later batch.
    """

    def __init__(self, job: Job, tables: Path, kill: Callable[[int, int], bool]) -> None:
        self._job = job
        self._tables = tables
        self._kill = kill
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None

    @property
    def is_armed(self) -> bool:
        """True if it is watching, or has done its work."""
        return self._thread is not None

    def arm(self) -> None:
        """Arm the crash: the next batch that begins is cut off."""
        last = self._last_batch()
        self._thread = threading.Thread(target=self._watch, args=(last,), name="demo-kill", daemon=True)
        self._thread.start()

    def disarm(self) -> None:
        """Stop watching the job; a kill that has begun is finished."""
        self._is_over.set()
        if self._thread is not None:
            self._thread.join()

    def check(self) -> None:
        """Raise what went wrong."""
        if self._failure is not None:
            raise self._failure

    def _watch(self, last: int) -> None:
        try:
            while not self._is_over.is_set():
                batch_id = self._last_batch()
                if batch_id > last:
                    last = batch_id
                    made = self._commits_of(batch_id)
                    if made is not None and self._kill(batch_id, made):
                        return
                time.sleep(LOOK_INTERVAL_S)
        except Exception as error:  # raised again by check(), on the thread that can show it
            self._failure = error

    def _commits_of(self, batch_id: int) -> int | None:
        # When there are enough; None when the batch has ended before.
        before = commits(self._job.sink, self._tables)
        while not self._is_over.is_set() and not is_done(self._job, batch_id):
            made = commits(self._job.sink, self._tables) - before
            if made >= COMMITS_BEFORE:
                return made
            time.sleep(LOOK_INTERVAL_S)
        return None

    def _last_batch(self) -> int:
        # Spark writes down what a batch will hold before it begins with it.
        folder = Path(self._job.checkpoint) / "offsets"
        names = (path.name for path in folder.iterdir()) if folder.is_dir() else iter(())
        return max((int(name) for name in names if name.isdecimal()), default=-1)


def is_done(job: Job, batch_id: int) -> bool:
    """True if the batch is committed in the checkpoint."""
    return (Path(job.checkpoint) / "commits" / str(batch_id)).exists()
