"""`binlog-stream status` as a user meets it."""

from __future__ import annotations

import io
import json
import signal
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from binlog_connector.following.log_end import end_of_log, start_of_log
from binlog_connector.following.watched import WatchedLog
from binlog_streaming.cli.status.status import render
from binlog_streaming.status.model import JobStatus, Phase, TableStatus
from binlog_streaming.status.recorder import StatusRecorder
from binlog_streaming.status.wording import verdict_of
from tests.program import PROGRAM, run_program
from tests.streaming.status.states import HOSTILE, NOW, error, log, state, trouble
from tests.streaming.tables.oltp import OLTP

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_streaming.status.model import RecordedStatus


def job_file(folder: Path) -> Path:
    file = folder / "job.toml"
    file.write_text(
        f'checkpoint = "checkpoint"\n[source]\npath = "{OLTP}"\n[sink]\ndirectory = "lake"\n'
        '[status]\npurge_after = "2d"\n[[tables]]\nselect = ".*"\n'
    )
    return file


def run_to(file: Path, *, at_end: bool, failure: Exception | None = None) -> None:
    """A run of the job, as far as its state goes."""
    from binlog_streaming.settings import load_job

    with WatchedLog(str(OLTP)) as watched:
        offset = end_of_log(watched) if at_end else start_of_log(watched)
    recorder = StatusRecorder(load_job(file))
    recorder.goes_on_at(offset)
    recorder.started()
    recorder.__exit__(None if failure is None else type(failure), failure, None)


def shown(job: RecordedStatus, width: int = 120) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=False, highlight=False, emoji=False)
    console.print(render(JobStatus(verdict_of(Phase.RUNNING, job, log(), NOW), NOW, Phase.RUNNING, job, log())))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_nothing_recorded_is_said_with_what_to_do(tmp_path: Path) -> None:
    done = run_program("status", job_file(tmp_path))
    assert done.returncode == 2
    assert "the job has recorded nothing yet" in done.stderr
    assert "binlog-stream check" in done.stderr


@pytest.mark.parametrize(
    ("at_end", "failure", "status", "first"),
    [
        (True, None, 0, "Ended since "),
        (True, RuntimeError("the lake is gone"), 1, "Failed, not running since "),
    ],
)
def test_first_line_is_the_verdict_and_the_exit_status_follows_it(
    at_end: bool, failure: Exception | None, status: int, first: str, tmp_path: Path
) -> None:
    file = job_file(tmp_path)
    run_to(file, at_end=at_end, failure=failure)
    done = run_program("status", file)
    assert (done.returncode, done.stderr) == (status, "")
    assert done.stdout.startswith(first)
    assert "everything in the log is taken" in done.stdout
    assert "\x1b" not in done.stdout, "no colours where it is piped"
    told = json.loads(run_program("status", file, "--json").stdout)
    assert told["verdict"]["text"].startswith(first)
    assert told["log"]["purge"]["risk"] == "timed"
    assert "offset" not in told


def test_watch_ends_at_ctrl_c(tmp_path: Path) -> None:
    file = job_file(tmp_path)
    run_to(file, at_end=True)
    process = subprocess.Popen([PROGRAM, "status", file, "--watch", "--json"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["phase"] == "ended"
    process.send_signal(signal.SIGINT)
    assert process.wait(300) == 0
    process.stdout.close()


def test_all_that_is_known_is_shown() -> None:
    text = shown(state(tables=(*state().tables, *trouble()), errors=(error(),)))
    for part in (
        "shop, running (3 d)", "/srv/lake (delta)", "for 3 d 4 h, until the server may remove binlog-000003.ibb (",
        "up to 59,800 changes a minute", "shop.orders", "set aside at 0-1-4711: [BINLOG_SCHEMA.UNKNOWN_VALUES]",
        "waits for its snapshot", "snapshot: 1,250,000 rows so far", "0-1-5001 to 0-1-5100", "no space left",
        "Make room", "through 0-1-4000",
    ):  # fmt: skip
        assert part in " ".join(text.split()), part


def test_names_cannot_move_the_cursor_or_mean_colours() -> None:
    hostile = replace(trouble()[0], name=HOSTILE, set_aside=HOSTILE)
    plain = TableStatus(name="[red]shop.x[/]" + HOSTILE)
    text = shown(state(name=HOSTILE, tables=(hostile, plain), errors=(error(HOSTILE),), source=HOSTILE), width=400)
    assert not set(text) & set("\x1b\x00\u202e\u2066")
    assert "[red]shop.x[/]<script>" in text
    assert "\\u202egnirts" in text


def test_many_tables_are_cut_off_with_a_word() -> None:
    many = tuple(TableStatus(name=f"shop.t{number:03}") for number in range(100))
    assert "and 80 more (--json has all)" in shown(state(tables=many))
