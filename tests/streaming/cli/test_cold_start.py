"""Commands that do next to nothing begin at once: they compile nothing, and load little."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from binlog_format.gtids.gtid import Gtid
from binlog_lab.event_encoding.event_encoding import Origin, encode_gtid, encode_xid
from binlog_lab.innodb_writer.options import WriterOptions
from binlog_lab.innodb_writer.server import BinlogWriter
from binlog_lab.simulator.structured.program import NAME, LoggingProgram
from tests.corpus import SERVER_CASES

if TYPE_CHECKING:
    from pathlib import Path

_PROGRAM = """
import atexit, sys
atexit.register(lambda: print("loaded:", *sorted({"numba", "pandas"} & sys.modules.keys()), file=sys.stderr))
from binlog_streaming.cli import main
sys.argv[0] = "binlog-stream"
main()
"""
_PAGE_SIZE = 512
_GROUPS = 300


def _run(cache: Path | None, *arguments: str) -> tuple[str, list[str]]:
    """What a command prints, and which of the packages that take long it has loaded; it has to end well."""
    environment = os.environ | ({} if cache is None else {"NUMBA_CACHE_DIR": str(cache)})
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *arguments], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    *others, loaded = done.stderr.splitlines()
    assert others == []
    return done.stdout, loaded.split()[1:]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Several files, with states in the midst of them."""
    folder = tmp_path_factory.mktemp("log")
    options = WriterOptions(_PAGE_SIZE, max_binlog_size=32 * _PAGE_SIZE, state_interval=4 * _PAGE_SIZE, sync=False)
    with BinlogWriter(folder, options) as writer:
        for number in range(1, _GROUPS + 1):
            gtid = Gtid(number % 3, 1, number)
            writer.write_group(gtid, encode_gtid(gtid, 1_700_000_000), [encode_xid(number, Origin(1_700_000_000, 1))])
        writer.checkpoint()
    return str(folder)


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["files", "--help"], ["changes", "--help"]])
def test_the_compiler_is_not_loaded(arguments: list[str], tmp_path: Path) -> None:
    printed, loaded = _run(tmp_path, *arguments)
    assert printed
    assert loaded == []


@pytest.mark.spark
def test_doctor_compiles_nothing(tmp_path: Path) -> None:
    _run(tmp_path, "doctor")
    assert list(tmp_path.rglob("*.nb?")) == []


def test_files_of_pages_are_listed_without_the_compiler(log: str, tmp_path: Path) -> None:
    """With the same words as by compiled code, which is taken for many files."""
    printed, loaded = _run(tmp_path, "files", log, "--output", "jsonl")
    assert printed.count('"last_gtid_state_page"') > 1
    assert loaded == []
    assert list(tmp_path.rglob("*.nb?")) == []
    assert _compiled_listing(log) == printed


def _compiled_listing(log: str) -> str:
    return _compiled("from binlog_streaming.cli.logs import files\nfiles.FEW_FILES = 0\n", "files", log)


def _compiled(setting: str, *arguments: str) -> str:
    command = [sys.executable, "-c", f"{setting}{_PROGRAM}", *arguments, "--output", "jsonl"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1].startswith("loaded: numba")
    return done.stdout


@pytest.mark.parametrize("command", ["changes", "events", "groups"])
def test_small_log_is_printed_without_the_compiler(command: str, tmp_path: Path) -> None:
    """With the same words as by compiled code."""
    small = str(SERVER_CASES / "mariadb-10.11" / "types_oldtemporal")
    setting = "from binlog_format import kernels\nkernels.SMALL_WORK_MAX = 0\n"
    printed, loaded = _run(tmp_path, command, small, "--output", "jsonl")
    assert loaded == []
    assert printed
    assert _compiled(setting, command, small) == printed


@pytest.mark.parametrize("command", ["changes", "events"])
def test_rows_are_printed_without_pandas(command: str) -> None:
    printed, loaded = _run(None, command, str(SERVER_CASES / "mariadb-10.11" / "oltp_small"), "--output", "jsonl")
    assert printed
    assert loaded == ["numba"]


def test_text_of_a_structured_log_needs_neither_arrow_nor_typer_s_models(tmp_path: Path) -> None:
    """They take as long to load as half a million events to be printed."""
    with LoggingProgram(tmp_path) as logged:
        logged.log()
    looked_for = _PROGRAM.replace('"numba", "pandas"', '"pyarrow", "pydantic"')
    for options, loaded in (("-f%m", "loaded:"), ("--output=jsonl", "loaded: pyarrow")):
        command = [sys.executable, "-c", looked_for, "bread", options, str(tmp_path / NAME)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout.count("\n") == 1
        assert done.stderr.splitlines() == [loaded]


def test_compiling_is_seen_by_these_tests(log: str, tmp_path: Path) -> None:
    """Of the pages all chunks are looked at: kernels are compiled, and kept in the folder."""
    _, loaded = _run(tmp_path, "pages", log)
    assert loaded == ["numba"]
    assert list(tmp_path.rglob("*.nbi"))
