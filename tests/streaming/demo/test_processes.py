"""The demo's processes: what they say is heard, what goes wrong is told, and a kill leaves nobody behind."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import msgspec
import pytest

from binlog_lab.demo.failures import DemoError
from binlog_lab.demo.processes import LineProcess, ReportingProcess
from binlog_lab.demo.reports import DemoJobReport, WriterReport

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
