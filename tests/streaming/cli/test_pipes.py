"""Commands whose output nobody reads on (`| head`) end quietly, as if all of it had been read."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from binlog_streaming.jobs.mirror import OWN_FOLDER
from binlog_streaming.settings import load_job
from tests.program import PROGRAM
from tests.streaming import replay_runs
from tests.streaming.tables.oltp import OLTP, TABLES, mirror, truth

if TYPE_CHECKING:
    from pathlib import Path

LOG = str(OLTP)


def run_without_a_reader(*arguments: str, read: int = 0) -> tuple[int, bytes]:
    """Exit status and standard error of a command whose reader goes away behind *read* bytes."""
    ours, theirs = os.pipe()
    command = subprocess.Popen([PROGRAM, *arguments], stdout=theirs, stderr=subprocess.PIPE)
    os.close(theirs)
    if read:
        os.read(ours, read)
    os.close(ours)
    _, errors = command.communicate(timeout=300)
    return command.returncode, errors


@pytest.mark.thorough_where("^(-|mirror|init|files|groups|.*jsonl)")
@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("files", LOG),
        ("files", LOG, "-o", "jsonl"),
        ("groups", LOG),
        ("groups", LOG, "-o", "jsonl"),
        ("events", LOG),
        ("events", LOG, "-o", "jsonl"),
        ("changes", LOG),
        ("changes", LOG, "-o", "jsonl"),
        ("tail", LOG, "--from", "earliest", "--once", "-o", "jsonl"),
        ("verify", LOG),
        ("init", LOG),
        ("mirror", "--help"),
    ],
    ids=" ".join,
)
def test_command_without_a_reader_ends_quietly(arguments: tuple[str, ...]) -> None:
    assert run_without_a_reader(*arguments) == (0, b"")


def test_reader_may_leave_in_the_middle() -> None:
    assert run_without_a_reader("changes", LOG, "-o", "jsonl", read=10) == (0, b"")


def test_error_is_an_error_also_without_a_reader() -> None:
    status, errors = run_without_a_reader("events", "nowhere")
    assert status == 1
    assert b"BINLOG_START.PATH_NOT_FOUND" in errors


def test_check_without_a_reader(tmp_path: Path) -> None:
    written = subprocess.run([PROGRAM, "init", LOG], capture_output=True, text=True, check=True).stdout
    (tmp_path / "job.toml").write_text(written)
    assert run_without_a_reader("check", str(tmp_path / "job.toml")) == (0, b"")


@pytest.mark.thorough
@pytest.mark.spark
def test_job_without_a_reader_ends_behind_its_batch(tmp_path: Path) -> None:
    status, errors = run_without_a_reader("mirror", LOG, "--to", str(tmp_path / "lake"))
    assert (status, errors) == (0, b"")
    # What was begun is whole: the next run goes on from there.
    replay_runs.run(load_job(tmp_path / "lake" / OWN_FOLDER / "job.toml"))
    for name in TABLES:
        assert mirror(tmp_path / "lake", name) == truth(name)
