"""Progress of the demo: `DemoState`, fed by the writer and by the job, read by the view and by the picture."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from binlog_lab.demo.reports import AlterationReport, DemoJobReport, WriterReport

RATE_WINDOW_S = 5.0
"""The rate shown is that of the last seconds."""


class DemoMarkKind(StrEnum):
    """Kind of an event in the demo."""

    ALTERED = "altered"
    """An ALTER TABLE is in the log."""
    KILLED = "killed"
    """The job and all its processes."""
    RESTARTED = "restarted"
    """The job runs again."""
    SNAPSHOT = "snapshot"
    """A snapshot of tables that are older than the log begins, or has ended."""
    REPEATED = "repeated"
    """The batch that was cut off is in the tables."""


@dataclass(frozen=True, slots=True)
class DemoMark:
    """An event of the demo: *at* in seconds since 1970 UTC, *text* for people, *brief* for a picture."""

    at: float
    kind: DemoMarkKind
    text: str
    brief: str = ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state at one moment.

    Attributes:
        seconds: Since the log began to be written.
        in_log: Row changes committed, by `database.table`.
        applied: Row changes that are in the target tables.
        rate: Row changes applied per second, lately.
        lag_seconds: From commit to the tables; None before the first batch that reports it.
        bytes_behind: Of the log, after the last batch.
        last_gtid: Last group in the log.
        is_written: Whether the log is complete.
    """

    seconds: float
    in_log: dict[str, int]
    applied: dict[str, int]
    rate: float
    lag_seconds: float | None
    bytes_behind: int | None
    last_gtid: str
    batches: int
    is_written: bool

    @property
    def total_in_log(self) -> int:
        """Changes of all tables in the log."""
        return sum(self.in_log.values())

    @property
    def total_applied(self) -> int:
        """Applied changes of all tables."""
        return sum(self.applied.values())


class DemoState:
    """Written by several threads, read by others."""

    def __init__(self) -> None:
        self.started_at = time.time()
        self.live_since = math.inf
        self._lock = threading.Lock()
        self._in_log: dict[str, int] = {}
        self._log_curve: list[tuple[float, int]] = []
        self._batches: dict[int, DemoJobReport] = {}
        self._alterations: list[AlterationReport] = []
        self._marks: list[DemoMark] = []
        self._marks_taken = 0
        self._cut_off: int | None = None
        self._last_gtid = ""
        self._is_written = False

    def restart_clock(self) -> None:
        """The demo begins now."""
        self.started_at = time.time()

    def go_live(self) -> None:
        """The live part of the log begins now: what is committed from here on has a lag."""
        self.live_since = time.time()

    def writer_reported(self, report: WriterReport) -> None:
        """Take the writer's report: more of the log exists."""
        with self._lock:
            self._in_log = report.changes
            self._log_curve.append((time.time(), sum(report.changes.values())))
            self._last_gtid = report.last_gtid
            self._is_written = report.is_done
            for alteration in report.alterations[len(self._alterations) :]:
                self._alterations.append(alteration)
                self._marks.append(
                    DemoMark(alteration.at, DemoMarkKind.ALTERED, alteration.statement, alteration.brief)
                )

    def job_reported(self, report: DemoJobReport) -> None:
        """Take the job's report: the tables have more; fit as the job's listener."""
        if report.event != "batch":
            return
        with self._lock:
            # A batch that was in the tables before the checkpoint knew comes twice.
            self._batches[report.batch_id] = report
            if report.batch_id == self._cut_off:
                self._cut_off = None
                repeated = sum(target.outcome == "repeated" for target in report.tables)
                text = f"batch {report.batch_id} again: {repeated} of {len(report.tables)} tables had all of it already"
                self._marks.append(DemoMark(report.finished_at, DemoMarkKind.REPEATED, text))

    @property
    def is_cut_off(self) -> bool:
        """True if a batch was cut off, and is not repeated yet."""
        return self._cut_off is not None

    def was_killed(self, batch_id: int | None, text: str) -> None:
        """The job was killed in the middle of a batch; None: in none."""
        with self._lock:
            self._cut_off = batch_id
            self._marks.append(DemoMark(time.time(), DemoMarkKind.KILLED, text, "kill -9"))

    def was_restarted(self, text: str) -> None:
        """The job runs again."""
        with self._lock:
            self._marks.append(DemoMark(time.time(), DemoMarkKind.RESTARTED, text, "Spark is up again"))

    def snapshot_reported(self, text: str, brief: str = "") -> None:
        """A snapshot begins, or has ended, which the picture labels as *brief*."""
        with self._lock:
            self._marks.append(DemoMark(time.time(), DemoMarkKind.SNAPSHOT, text, brief))

    def take_marks(self) -> list[DemoMark]:
        """Take the marks since the last call."""
        with self._lock:
            taken, self._marks_taken = self._marks_taken, len(self._marks)
            return self._marks[taken:]

    @property
    def alteration_count(self) -> int:
        """ALTER TABLE statements in the log so far."""
        return len(self._alterations)

    def marks(self) -> list[DemoMark]:
        """All that has happened, by time."""
        with self._lock:
            return sorted(self._marks, key=lambda mark: mark.at)

    def batches(self) -> list[DemoJobReport]:
        """All batches done, each once, in order."""
        with self._lock:
            return [self._batches[number] for number in sorted(self._batches)]

    def log_curve(self) -> list[tuple[float, int]]:
        """Row changes in the log over time (seconds since 1970 UTC)."""
        with self._lock:
            return list(self._log_curve)

    def lags(self) -> list[tuple[float, float]]:
        """End of each batch with live changes (seconds since 1970 UTC), and its lag in seconds."""
        # Earlier commits are history: how old they are is no lag. Commit times are whole seconds.
        return [
            (batch.finished_at, batch.lag_seconds)
            for batch in self.batches()
            if batch.lag_seconds is not None and batch.finished_at - batch.lag_seconds > self.live_since - 1
        ]

    def snapshot(self) -> Snapshot:
        """The state now."""
        now = time.time()
        batches, lags = self.batches(), self.lags()
        applied: dict[str, int] = {}
        for batch in batches:
            for name, changes in batch.changes_by_table().items():
                applied[name] = applied.get(name, 0) + changes
        recent = sum(batch.changes for batch in batches if batch.finished_at > now - RATE_WINDOW_S)
        with self._lock:
            return Snapshot(
                seconds=now - self.started_at,
                in_log=dict(self._in_log),
                applied=applied,
                rate=recent / RATE_WINDOW_S,
                lag_seconds=lags[-1][1] if lags else None,
                bytes_behind=batches[-1].bytes_behind if batches else None,
                last_gtid=self._last_gtid,
                batches=len(batches),
                is_written=self._is_written,
            )
