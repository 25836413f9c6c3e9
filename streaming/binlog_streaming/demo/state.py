"""How far the demo is: `DemoState`, fed by the writer and by the job, looked at by the view."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from binlog_format.position import Position
    from binlog_streaming.demo.reports import WriterReport
    from binlog_streaming.tables.progress import BatchProgress

RATE_WINDOW_S = 5.0
"""The rate shown is that of the last seconds."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state at one moment.

    Attributes:
        seconds: Since the log began to be written.
        in_log: Row changes committed, by `database.table`.
        applied: Row changes that are in the Delta tables.
        rate: Row changes applied per second, lately.
        lag_seconds: From commit to the tables; None before the first batch that says.
        bytes_behind: Of the log, behind the last batch.
        last_gtid: Last group in the log.
        batches: Batches done.
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
        """Of all tables."""
        return sum(self.in_log.values())

    @property
    def total_applied(self) -> int:
        """Of all tables."""
        return sum(self.applied.values())


@dataclass(slots=True)
class Totals:
    """What is told at the end.

    Attributes:
        lags: Of each batch that had changes of the live part, in seconds.
        batch_changes: Row changes of each batch.
        batch_seconds: Time that each batch took.
        first_batch_at: When the first batch was done, seconds since 1970 UTC.
        last_batch_at: When the last one was.
    """

    lags: list[float] = field(default_factory=list)
    batch_changes: list[int] = field(default_factory=list)
    batch_seconds: list[float] = field(default_factory=list)
    first_batch_at: float | None = None
    last_batch_at: float | None = None


class DemoState:
    """Written by two threads, read by a third."""

    def __init__(self) -> None:
        self.started_at = time.time()
        self.totals = Totals()
        self.position: Position | None = None
        self._live_since = math.inf
        self._lock = threading.Lock()
        self._in_log: dict[str, int] = {}
        self._applied: dict[str, int] = {}
        self._recent: deque[tuple[float, int]] = deque()
        self._last_gtid = ""
        self._is_written = False
        self._lag: float | None = None
        self._bytes_behind: int | None = None

    def restart_clock(self) -> None:
        """The demo begins now."""
        self.started_at = time.time()

    def go_live(self) -> None:
        """The live part of the log begins now: what is committed from here on has a lag."""
        self._live_since = time.time()

    def writer_said(self, report: WriterReport) -> None:
        """More of the log is there."""
        with self._lock:
            self._in_log = report.changes
            self._last_gtid = report.last_gtid
            self._is_written = report.is_done

    def batch_done(self, batch: BatchProgress) -> None:
        """More is in the tables; fit as the job's listener."""
        # A table with several modes comes several times, with the same changes.
        by_table = {table.source_table: table.changes for table in batch.tables}
        with self._lock:
            for name, changes in by_table.items():
                self._applied[name] = self._applied.get(name, 0) + changes
            totals = self.totals
            totals.batch_changes.append(batch.changes)
            totals.batch_seconds.append(batch.seconds)
            totals.first_batch_at = totals.first_batch_at or batch.finished_at
            totals.last_batch_at = batch.finished_at
            self._recent.append((batch.finished_at, batch.changes))
            self._bytes_behind = batch.bytes_behind
            self.position = batch.position or self.position
            # Earlier commits are history: how old they are is no lag. Commit times are whole seconds.
            if batch.commit_time is not None and batch.commit_time > self._live_since - 1:
                self._lag = batch.lag_seconds
                if self._lag is not None:
                    totals.lags.append(self._lag)

    def snapshot(self) -> Snapshot:
        """The state now."""
        now = time.time()
        with self._lock:
            while self._recent and self._recent[0][0] < now - RATE_WINDOW_S:
                self._recent.popleft()
            return Snapshot(
                seconds=now - self.started_at,
                in_log=dict(self._in_log),
                applied=dict(self._applied),
                rate=sum(changes for _, changes in self._recent) / RATE_WINDOW_S,
                lag_seconds=self._lag,
                bytes_behind=self._bytes_behind,
                last_gtid=self._last_gtid,
                batches=len(self.totals.batch_changes),
                is_written=self._is_written,
            )
