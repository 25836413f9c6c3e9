"""Whether a job runs, as others see it: by its lock, and where there is none by its own record."""

from __future__ import annotations

import fcntl
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from binlog_streaming.job_state.job_run import LOCK_FILE, JobLock
from binlog_streaming.prove.job_state import does_not_run, stopped_text
from binlog_streaming.settings import Job, Sink, Source, TableRule
from binlog_streaming.status.model import Phase, RecordedStatus
from binlog_streaming.status.view import StatusFile, own_process

if TYPE_CHECKING:
    import pytest


def job_in(folder: Path) -> Job:
    return Job(
        source=Source(path=str(folder / "log")),
        sink=Sink(directory=str(folder / "tables")),
        checkpoint=str(folder / "checkpoint"),
        tables=(TableRule(),),
    )


def recorded(phase: Phase, ended_at: float | None) -> RecordedStatus:
    return RecordedStatus(
        name="j",
        source="",
        target="",
        kind="tables",
        phase=phase,
        process=own_process(),
        started_at=0.0,
        seen_at=1e12,
        ended_at=ended_at,
    )


def test_the_lock_tells_whether_a_job_runs(tmp_path: Path) -> None:
    job = job_in(tmp_path)
    assert does_not_run(job)
    with JobLock(job):
        assert not does_not_run(job)
        assert stopped_text(job) is None
    assert does_not_run(job)
    StatusFile(job).write(recorded(Phase.RUNNING, None))  # of a process that was killed
    assert stopped_text(job) == " (no process has its lock)"
    StatusFile(job).write(recorded(Phase.STOPPED, 1.0))
    assert stopped_text(job) == " since 1970-01-01 00:00 UTC"


def test_without_a_lock_the_record_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = job_in(tmp_path)
    monkeypatch.setattr(JobLock, "is_held", lambda _: None)
    assert not does_not_run(job)  # nothing is known
    StatusFile(job).write(recorded(Phase.RUNNING, None))
    assert not does_not_run(job)
    StatusFile(job).write(recorded(Phase.ENDED, 1.0))
    assert does_not_run(job)


def test_a_look_at_the_lock_keeps_no_job_from_its_start(tmp_path: Path) -> None:
    job = job_in(tmp_path)
    lock, begun = JobLock(job), threading.Event()
    lock.take()
    lock.give_back()

    def start() -> None:
        begun.set()
        lock.take()

    with Path(job.checkpoint, LOCK_FILE).open("rb") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        job_start = threading.Thread(target=start)
        job_start.start()
        begun.wait()
        job_start.join(0.05)
        assert job_start.is_alive()  # and not refused
    job_start.join()
    assert JobLock(job).is_held()
    lock.give_back()
