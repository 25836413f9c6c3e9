"""The demo's processes: what they say is heard, what goes wrong is told, and a kill leaves nobody behind.

The kill comes in the middle of a batch that began behind the moment at which it was asked for, never elsewhere.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from binlog_lab.demo import job_run
from binlog_lab.demo.failures import DemoError
from binlog_lab.demo.job_run import COMMITS_BEFORE, BatchKiller, is_done
from binlog_lab.demo.processes import LineProcess, ReportingProcess
from binlog_lab.demo.proof.targets import commits
from binlog_lab.demo.reports import DemoJobReport, WriterReport
from binlog_streaming.settings import Job, Sink, Source, TableFormat

if TYPE_CHECKING:
    from collections.abc import Callable


PATIENCE_S = 300.0

# A process with a child in the same group, and a grandchild in a group of its own, as Spark's workers have one.
FAMILY = """
import os, subprocess, sys, time
child = '''
import subprocess, sys, time
grandchild = subprocess.Popen([sys.executable, "-c", "import os, time; os.setpgid(0, 0); time.sleep(600)"])
print('{"event": "batch", "batch_id": %d}' % grandchild.pid, flush=True)
time.sleep(600)
'''
process = subprocess.Popen([sys.executable, "-c", child])
print('{"event": "batch", "batch_id": %d}' % process.pid, flush=True)
time.sleep(600)
"""


def job_like(program: str, folder: Path, reports: list[DemoJobReport]) -> LineProcess[DemoJobReport]:
    return LineProcess(
        [sys.executable, "-c", program],
        name="a job",
        report=DemoJobReport,
        log_file=folder / "log",
        listener=reports.append,
        own_session=True,
    )


def is_alive(pid: int) -> bool:
    try:
        # What nobody has waited for is dead too.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes in /proc")
def test_kill_takes_the_whole_family(tmp_path: Path) -> None:
    reports: list[DemoJobReport] = []
    process = job_like(FAMILY, tmp_path, reports)
    deadline = time.monotonic() + PATIENCE_S
    while len(reports) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    relatives = [report.batch_id for report in reports]
    assert len(relatives) == 2
    while os.getpgid(relatives[1]) != relatives[1]:  # its own group
        time.sleep(0.02)
    assert all(is_alive(pid) for pid in relatives)
    assert process.kill() == 3
    while any(is_alive(pid) for pid in relatives) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(is_alive(pid) for pid in relatives)


def test_line_that_a_kill_has_cut_off_is_no_report(tmp_path: Path) -> None:
    reports: list[DemoJobReport] = []
    program = """
import sys, time
sys.stdout.write('{"event": "batch", "batch_id": 1, "unknown": 7}\\\\n{"event": "ba')
sys.stdout.flush()
time.sleep(600)
""".replace("\\\\n", "\\n")
    process = job_like(program, tmp_path, reports)
    process.wait_for_first_report()
    process.kill()
    assert [report.batch_id for report in reports] == [1]


def test_line_that_is_no_report_is_output_like_what_goes_to_standard_error(tmp_path: Path) -> None:
    """Java writes to standard output why it does not start."""
    reports: list[DemoJobReport] = []
    failing = "print('Error occurred\\nerror: no module'); raise SystemExit(1)"
    with (
        job_like(failing, tmp_path, reports) as failed,
        pytest.raises(DemoError, match="exit status 1: error: no module"),
    ):
        failed.wait_for_first_report()
    warning = """print('warning'); print('{"event": "batch", "batch_id": 1}')"""
    with job_like(warning, tmp_path, reports) as process:
        process.wait()
    assert [report.batch_id for report in reports] == [1]


def test_process_that_fails_is_told_with_its_last_line(tmp_path: Path) -> None:
    reports: list[WriterReport] = []
    arguments = ["--no-such-option"]
    with ReportingProcess(
        "binlog_lab.demo.live_writer", arguments, log_file=tmp_path / "log", listener=reports.append
    ) as process:
        with pytest.raises(DemoError, match=r"exit status 2: .*required"):
            process.wait_for_first_report()
        assert reports == []


def test_changes_of_a_table_count_once_however_many_modes_it_has() -> None:
    line = b"""{"event": "batch", "batch_id": 3, "tables": [
        {"table": "d.a", "mode": "mirror", "outcome": "written", "inserts": 2, "updates": 1, "deletes": 0},
        {"table": "d.a", "mode": "scd2", "outcome": "repeated", "inserts": 2, "updates": 1, "deletes": 0},
        {"table": "d.b", "mode": "mirror", "outcome": "written", "inserts": 0, "updates": 0, "deletes": 5}]}"""
    assert msgspec.json.decode(line, type=DemoJobReport).changes_by_table() == {"d.a": 3, "d.b": 5}


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
