"""The kill comes in the middle of a batch that began behind the moment at which it was asked for, never elsewhere."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from binlog_lab.demo import job_run
from binlog_lab.demo.job_run import COMMITS_BEFORE, BatchKiller, is_done
from binlog_lab.demo.proof.targets import commits
from binlog_streaming.settings import Job, Sink, Source, TableFormat

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE_S = 300.0
A_FEW_LOOKS_S = 0.1


class FakeJob:
    """Checkpoint and tables, as a job leaves them in its folders."""

    def __init__(self, directory: Path, table_format: TableFormat) -> None:
        sink = Sink(directory=str(directory / "tables"), format=table_format)
        self.job = Job(source=Source(path="log"), sink=sink, checkpoint=str(directory / "checkpoint"))
        self._directory = directory
        self._commits = 0

    def begins(self, batch_id: int) -> None:
        self._touch("checkpoint", "offsets", str(batch_id))
        self._touch("checkpoint", "offsets", f".{batch_id}.crc")

    def writes(self, count: int) -> None:
        for _ in range(count):
            self._commits += 1
            log = ("metadata", f"{self._commits}.metadata.json")
            if self.job.sink.format is TableFormat.DELTA:
                log = ("_delta_log", f"{self._commits:020}.json")
            self._touch("tables", "mirror", "shop", f"t{self._commits % 3}", *log)

    def ends(self, batch_id: int) -> None:
        self._touch("checkpoint", "commits", str(batch_id))

    def _touch(self, *parts: str) -> None:
        path = self._directory.joinpath(*parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.fixture
def await_looks(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Waits until the batch under way has been looked at, from now on."""
    looks = [0]

    def counted(*arguments: Any) -> int:
        made = commits(*arguments)
        looks[0] += 1
        return made

    monkeypatch.setattr(job_run, "commits", counted)

    def wait() -> None:
        first = looks[0]
        wait_for(lambda: looks[0] >= first + 2)  # one may have begun before

    return wait


@pytest.mark.parametrize("table_format", [TableFormat.DELTA, TableFormat.ICEBERG])
def test_next_batch_is_cut_off_behind_some_commits(
    tmp_path: Path, table_format: TableFormat, await_looks: Callable[[], None]
) -> None:
    fake = FakeJob(tmp_path, table_format)
    fake.begins(4)
    fake.writes(5)
    kills: list[tuple[int, int]] = []

    def kill(batch_id: int, commits: int) -> bool:
        kills.append((batch_id, commits))
        return True

    killer = BatchKiller(fake.job, Path(fake.job.sink.directory), kill)
    killer.arm()
    # What was running when it was asked for began before.
    fake.writes(5)
    fake.ends(4)
    time.sleep(A_FEW_LOOKS_S)
    assert kills == []
    fake.begins(5)
    await_looks()
    fake.writes(COMMITS_BEFORE - 1)
    await_looks()
    assert kills == []
    fake.writes(1)
    wait_for(lambda: bool(kills))
    killer.disarm()
    assert kills == [(5, COMMITS_BEFORE)]
    assert not is_done(fake.job, 5)


def test_batch_that_ends_before_it_is_found_is_left_for_the_next(
    tmp_path: Path, await_looks: Callable[[], None]
) -> None:
    fake = FakeJob(tmp_path, TableFormat.DELTA)
    kills: list[int] = []

    def kill(batch_id: int, commits: int) -> bool:
        del commits
        kills.append(batch_id)
        return len(kills) == 2  # the first one came too late

    killer = BatchKiller(fake.job, Path(fake.job.sink.directory), kill)
    killer.arm()
    fake.begins(0)
    await_looks()
    fake.ends(0)
    for batch_id in (1, 2):
        fake.begins(batch_id)
        await_looks()
        fake.writes(COMMITS_BEFORE)
        wait_for(lambda: len(kills) == batch_id)  # noqa: B023 (called at once)
    killer.disarm()
    assert kills == [1, 2]


def test_disarmed_it_lets_the_job_live(tmp_path: Path) -> None:
    fake = FakeJob(tmp_path, TableFormat.DELTA)
    kills: list[int] = []

    def kill(batch_id: int, commits: int) -> bool:
        kills.append(batch_id + commits)
        return True

    killer = BatchKiller(fake.job, Path(fake.job.sink.directory), kill)
    assert not killer.is_armed
    killer.arm()
    killer.disarm()
    fake.begins(0)
    fake.writes(COMMITS_BEFORE)
    time.sleep(A_FEW_LOOKS_S)
    assert kills == []


def test_failed_kill_is_told(tmp_path: Path, await_looks: Callable[[], None]) -> None:
    fake = FakeJob(tmp_path, TableFormat.DELTA)
    is_tried = threading.Event()

    def kill(batch_id: int, commits: int) -> bool:
        is_tried.set()
        raise PermissionError(f"{batch_id} {commits}")

    killer = BatchKiller(fake.job, Path(fake.job.sink.directory), kill)
    killer.arm()
    fake.begins(0)
    await_looks()
    fake.writes(COMMITS_BEFORE)
    assert is_tried.wait(PATIENCE_S)
    killer.disarm()
    with pytest.raises(PermissionError):
        killer.check()
