"""What a user does wrong in the first hour: one line that says what it is, and an exit status."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TextIO

import pytest

from binlog_connector.installing import install_hint
from binlog_streaming.cli.app import main
from binlog_streaming.jobs.mirror import OWN_FOLDER
from binlog_streaming.settings import load_job
from tests.corpus import SERVER_CASES
from tests.program import PROGRAM
from tests.streaming import replay_runs
from tests.streaming.tables.oltp import OLTP, TABLES, mirror, truth

MYSQL = SERVER_CASES / "mysql-9" / "ops"
FULL = Path("/dev/full")

Ran = subprocess.CompletedProcess[str]


def run(*arguments: object, cwd: Path | None = None, stdout: int | TextIO = subprocess.PIPE) -> Ran:
    command = [PROGRAM, *(str(argument) for argument in arguments)]
    return subprocess.run(command, text=True, check=False, cwd=cwd, timeout=300, stdout=stdout, stderr=subprocess.PIPE)


def run_here(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], *arguments: object) -> Ran:
    """The program in this process: starting one takes seconds."""
    command = [PROGRAM, *(str(argument) for argument in arguments)]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as ended:
        main()
    output = capfd.readouterr()
    assert isinstance(ended.value.code, int)
    return subprocess.CompletedProcess(command, ended.value.code, output.out, output.err)


def assert_one_line(ran: Ran, status: int, *expected: str) -> None:
    assert ran.stderr.count("\n") == 1, ran.stderr
    assert ran.stderr.startswith("error: [BINLOG_")
    for text in expected:
        assert text in ran.stderr
    assert ran.returncode == status


def test_jobs_without_pyspark_say_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.toml").write_text(run_here(monkeypatch, capfd, "init", OLTP).stdout)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    commands: tuple[tuple[object, ...], ...] = (
        ("run", "job.toml", "--once"),
        ("mirror", OLTP, "--to", "lake", "--once"),
        ("replay", "job.toml", "--target", "then"),
    )
    for arguments in commands:
        ran = run_here(monkeypatch, capfd, *arguments)
        assert_one_line(ran, 2, "MISSING] pyspark is not installed", install_hint("spark"))
    assert [path.name for path in tmp_path.iterdir()] == ["job.toml"]


def test_reading_and_checking_need_no_pyspark(tmp_path: Path) -> None:
    program = "import sys; sys.modules['pyspark'] = None; from binlog_streaming.cli import main; main()"
    (tmp_path / "job.toml").write_text(run("init", OLTP).stdout)
    for arguments in (("check", str(tmp_path / "job.toml")), ("changes", str(OLTP), "--limit", "1")):
        subprocess.run([sys.executable, "-c", program, *arguments], check=True, timeout=300)


def test_picture_without_matplotlib_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    ran = run_here(monkeypatch, capfd, "map", OLTP, "--output", tmp_path / "map.png")
    assert_one_line(ran, 2, "matplotlib is not installed", install_hint("plot"))


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("events", OLTP),
        ("changes", OLTP, "-o", "jsonl"),
        ("tail", OLTP, "--from", "earliest", "--once", "-o", "jsonl"),
    ],
    ids=lambda arguments: str(arguments[0]),
)
@pytest.mark.skipif(not FULL.exists(), reason="only Linux has /dev/full")
def test_output_to_a_full_disk_is_one_line(arguments: tuple[object, ...]) -> None:
    with FULL.open("w") as full:
        assert_one_line(run(*arguments, stdout=full), 1, "NO_SPACE] standard output: cannot write it")


@pytest.mark.thorough
@pytest.mark.skipif(not FULL.exists(), reason="only Linux has /dev/full")
def test_job_whose_output_is_full_ends_in_order(tmp_path: Path) -> None:
    with FULL.open("w") as full:
        ran = run("mirror", OLTP, "--to", tmp_path / "lake", "--once", stdout=full)
    assert_one_line(ran, 1, "NO_SPACE] standard output: cannot write it")
    replay_runs.run(load_job(tmp_path / "lake" / OWN_FOLDER / "job.toml"))
    for name in TABLES:
        assert mirror(tmp_path / "lake", name) == truth(name)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("changes", OLTP, "nowhere/file", "--output", "parquet"), "NOT_FOUND] nowhere/file: cannot write it"),
        (("tail", OLTP, "--once", "--resume", "nowhere/file"), "NOT_FOUND] offset file nowhere/file: cannot write it"),
        (("tail", OLTP, "--once", "--resume", "."), "FAILED] offset file .: cannot read it: Is a directory"),
        (("map", "ibb", "--output", "nowhere/file.svg"), "NOT_FOUND] nowhere/file.svg: cannot write it"),
        (("repack", OLTP, "--to", "file"), "cannot write it: "),
        (("repack", OLTP, "--to", "file/folder"), "NOT_FOUND] file/folder: cannot write it: Not a directory"),
    ],
    ids=lambda value: " ".join(str(one) for one in value[::2]) if isinstance(value, tuple) else "",
)
def test_place_that_cannot_be_written_is_one_line(
    tmp_path: Path,
    arguments: tuple[object, ...],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("no folder")
    if "ibb" in arguments:
        assert run_here(monkeypatch, capfd, "repack", OLTP, "--to", "ibb").returncode == 0
    assert_one_line(run_here(monkeypatch, capfd, *arguments), 1, said)


def test_limit_on_file_sizes_is_no_lack_of_rights(tmp_path: Path) -> None:
    limited = f"ulimit -f 1; trap '' XFSZ; exec {PROGRAM} repack {OLTP} --to {tmp_path / 'ibb'}"
    ran = subprocess.run(["bash", "-c", limited], capture_output=True, text=True, check=False)
    assert_one_line(ran, 1, "NO_SPACE]", "File too large")


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (
            ("map", MYSQL, "-o", "x.svg"),
            1,
            "map draws the pages of .ibb logs and structured logs, and this log is classic",
        ),
        (("repack", MYSQL, "--to", "x"), 1, "this is the log of a MySQL server"),
        (("find", MYSQL, "--time", "yesterday"), 2, "--time: expected a time, for example 2026-01-31T12:00:00Z"),
        (("tail", MYSQL, "--timestamp", "noon"), 2, "--timestamp: expected a time, for example 2026-01-31T12:00:00Z"),
        (("changes", MYSQL, "--schema-file", os.devnull), 2, "--schema-file: /dev/null: there is no CREATE TABLE"),
        (("changes", MYSQL, "--tables", "("), 2, "INVALID_VALUE] --tables: "),
        (("mirror", MYSQL, "--to", "x", "--exclude-tables", "("), 2, "INVALID_VALUE] --exclude-tables: "),
    ],
    ids=lambda value: str(value[0]) if isinstance(value, tuple) else "",
)
def test_mistake_is_named_in_the_words_of_the_command(
    tmp_path: Path,
    arguments: tuple[object, ...],
    status: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run_here(monkeypatch, capfd, *arguments)
    assert_one_line(ran, status, said)
    assert "isoformat" not in ran.stderr
    assert list(tmp_path.iterdir()) == []
