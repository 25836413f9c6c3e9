"""Pages of jobs for tests: served as `run --status` serves them, with what a test wants to see on them."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from binlog_streaming.status.page import serving as page_serving
from binlog_streaming.status.recorder import StatusRecorder
from tests.streaming.status.states import NOW
from tests.streaming.test_job_check import job_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import Any

    from binlog_connector.metrics.lag import Consumed
    from binlog_streaming.status.model import LogStatus, RecordedStatus
    from binlog_streaming.status.view import LogMeasure


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
