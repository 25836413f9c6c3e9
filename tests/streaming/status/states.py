"""Jobs and states that tests of the status show.

Pages of jobs for tests: served as `run --status` serves them, with what a test wants to see on them.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from binlog_format.position import Position
from binlog_streaming.job_state.progress import Outcome, TableProgress
from binlog_streaming.status.model import (
    BatchStatus,
    ErrorStatus,
    LogStatus,
    Minute,
    Phase,
    PurgeRisk,
    PurgeStatus,
    RecordedStatus,
    SnapshotStatus,
    TableStatus,
)
from binlog_streaming.status.page import serving as page_serving
from binlog_streaming.status.recorder import StatusRecorder
from binlog_streaming.status.view import own_process
from tests.streaming.test_job_check import job_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import Any

    from binlog_connector.metrics.lag import Consumed
    from binlog_streaming.status.view import LogMeasure


NOW = 1_700_000_000.0
DAY = 86_400.0
HOSTILE = "<script>alert(1)</script>\"'`&\n\u202egnirts\u2066\x1b[31m\x00"
"""Markup, quotes, a line end, text that turns round, colours of a terminal, a zero byte."""


def batch(number: int, *, lag: float = 0.8, ago: float = 2.0, size: int | None = 4_200_000) -> BatchStatus:
    return BatchStatus(
        number=number,
        finished_at=NOW - ago,
        log_seconds=lag,
        read_seconds=0.1,
        commit_seconds=0.3,
        changes=1_200 + number * 7,
        size=size,
        tables=3,
        position=f"3:{number}:0",
        gtids=f"0-1-{number * 100 + 1} to 0-1-{number * 100 + 100}",
    )


def table_progress(name: str = "shop.items", **changes: Any) -> TableProgress:
    """A mirror into which a row has been written; *changes* are put into it."""
    made = TableProgress(name, f"/lake/{name}", "mirror", Outcome.WRITTEN, 1, 0, 0, 1, 0.1, Position(1, 2, 3), int(NOW))
    return replace(made, **changes)


def state(**changes: Any) -> RecordedStatus:
    """A job that runs and is well; *changes* are put into it."""
    made = RecordedStatus(
        name="shop",
        source="/var/lib/mysql",
        target="/srv/lake (delta)",
        kind="tables",
        phase=Phase.RUNNING,
        process=own_process(),
        started_at=NOW - 3 * DAY,
        seen_at=NOW - 1,
        offset={"version": 1, "file_no": 3, "page": 7, "chunk": 0, "gtid": "0-1-5000"},
        commit_time=int(NOW) - 3,
        gtid="0-1-5000",
        position="3:7:0",
        batches_total=50,
        changes_total=71_234,
        batches=tuple(batch(number, ago=2.0 * (50 - number)) for number in range(1, 51)),
        tables=tables(),
        minutes=tuple(
            Minute(int(NOW) // 60 * 60 - 60 * ago, 40_000 + 900 * (ago * 37 % 23), 9_000_000, 1.0 + ago * 13 % 5 / 4)
            for ago in range(59, -1, -1)
        ),
    )
    return replace(made, **changes)


def tables() -> tuple[TableStatus, ...]:
    plain = [
        TableStatus(
            name=f"shop.{name}",
            targets=(f"/srv/lake/shop/{name}",),
            modes=("mirror",),
            changes=10_000 * number,
            last_commit=NOW - 3 * number,
            last_batch=50 - number,
            gtid="0-1-5000",
            is_complete=True,
            schema_changed_at=NOW - 4_000 if number == 2 else None,
            schema_changed_in=12 if number == 2 else None,
        )
        for number, name in enumerate(("orders", "order_items", "customers", "payments", "stock"), start=1)
    ]
    return tuple(plain)


def trouble() -> tuple[TableStatus, ...]:
    """Tables that do not go on, wait, have a snapshot, or were proved."""
    aside = TableStatus(
        name="shop.events",
        targets=("/srv/lake/shop/events",),
        modes=("changelog",),
        stopped_before="0-1-4711",
        set_aside="[BINLOG_SCHEMA.UNKNOWN_VALUES] shop.events: the log lacks the values of the new column `kind`",
    )
    waits = TableStatus(name="shop.archive", gtid="0-1-5000", waits_for_snapshot=True, is_complete=False)
    running = SnapshotStatus(rows=1_250_000, chunks=310, begun_gtid="0-1-4800", is_ended=False, problem=None)
    filled = TableStatus(name="shop.customers_old", gtid="0-1-5000", is_complete=False, snapshot=running)
    proved = TableStatus(name="shop.prices", gtid="0-1-5000", is_complete=True, verified_through="0-1-4000")
    return (aside, waits, filled, proved)


def error(text: str = "[BINLOG_STORAGE.NO_SPACE] /srv/lake: cannot write: no space left") -> ErrorStatus:
    return ErrorStatus(NOW - 60, text, "Make room, then start the job again")


def log(**changes: Any) -> LogStatus:
    made = LogStatus(
        problem=None,
        waiting_seconds=0.0,
        transactions=0,
        size=0,
        pages=0,
        gtid="0-1-5000",
        file="binlog-000003.ibb",
        purge=PurgeStatus(PurgeRisk.TIMED, "binlog-000003.ibb", 3 * DAY + 4 * 3_600, 4 * DAY),
    )
    return replace(made, **changes)


def failed_status(error: str, hint: str | None = None) -> RecordedStatus:
    """A job of tables that has ended with an error."""
    return RecordedStatus(
        name="j",
        source="/log",
        target="/lake",
        kind="tables",
        phase=Phase.FAILED,
        process=own_process(),
        started_at=0.0,
        seen_at=1.0,
        ended_at=1.0,
        errors=(ErrorStatus(1.0, error, hint),),
    )


def at_present(state: RecordedStatus) -> RecordedStatus:
    """*state*, whose times are around `NOW`, as if that were now."""
    past = time.time() - NOW

    def moved(value: Any, *names: str) -> Any:
        times = {name: getattr(value, name) for name in names}
        return replace(value, **{name: at + past for name, at in times.items() if at is not None})

    recorded: RecordedStatus = moved(state, "started_at", "seen_at", "ended_at")
    return replace(
        recorded,
        batches=tuple(moved(one, "finished_at") for one in state.batches),
        tables=tuple(moved(one, "last_commit", "schema_changed_at") for one in state.tables),
        minutes=tuple(replace(one, start=int(one.start + past) // 60 * 60) for one in state.minutes),
        errors=tuple(moved(one, "at") for one in state.errors),
    )


@dataclass
class Shown:
    """What a page shows; a test changes it while it is served."""

    state: RecordedStatus
    log: LogStatus

    def measure(self, consumed: Callable[[], Consumed | None]) -> LogStatus:
        del consumed
        return self.log


class ShownRecorder(StatusRecorder):
    """A recorder of a job that did what a test shows; all else is real."""

    def __init__(self, folder: Path, shown: Shown) -> None:
        super().__init__(job_for(folder))
        self.shown = shown
        assert self.measure is not None
        self.own_measure: LogMeasure = self.measure
        self.own_measure.measure = shown.measure  # type: ignore[method-assign]

    def state(self) -> RecordedStatus:
        return at_present(self.shown.state)


@contextlib.contextmanager
def served(folder: Path, shown: Shown, token: str | None = None) -> Iterator[str]:
    """A page; gives its URL."""
    recorder = ShownRecorder(folder, shown)
    with page_serving.serving("127.0.0.1:0", token, recorder) as url:
        yield url
    recorder.own_measure.close()
