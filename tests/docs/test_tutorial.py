"""`docs/tutorial.md` as it is written, on a live server: statements, commands, settings, and what is printed."""

from __future__ import annotations

import contextlib
import io
import os
import re
import time
from typing import TYPE_CHECKING

import pytest

from tests.docs.live_logs import PATIENCE_S
from tests.docs.markdown import REPO
from tests.program import run_program
from tests.streaming.snapshot.live import run_sql, session_on

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from binlog_lab.demo.mariadb.server import MariaDbServer

PAGE = "docs/tutorial.md"
STEP = re.compile(r"^```(\w+)\n(.*?)^```$|^    (binlog-stream|export) ([^\n]*)$", re.MULTILINE | re.DOTALL)
GTID = re.compile(r"\b\d+-\d+-\d+\b")
LEFT_OUT = ("pip ", "PYSPARK_PYTHON")


def steps() -> Iterator[tuple[str, str]]:
    """Kind and text of each block and command, in order."""
    for match in STEP.finditer((REPO / PAGE).read_text()):
        kind, text = (match[1], match[2]) if match[1] else (match[3], match[4])
        if not text.startswith(LEFT_OUT):
            yield kind, text


@pytest.fixture
def shown_by_duckdb() -> Iterator[None]:
    """DuckDB with its extension from a package, as it would fetch it itself."""
    try:
        import duckdb
        import duckdb_ext
    except ModuleNotFoundError:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip("DuckDB and its extension for Delta come as packages on x86-64 Linux alone")
    with duckdb_ext.init(duckdb.default_connection()):
        yield


@pytest.mark.server
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.usefixtures("shown_by_duckdb")
def test_tutorial_runs_as_it_is_written(
    spark: SparkSession,
    mariadb_server: MariaDbServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.chdir(tmp_path)
    program, printed, told = "", "", list[str]()
    for kind, text in steps():
        told.append(kind)
        match kind:
            case "sql":
                run_statements(mariadb_server, text)
            case "export":
                monkeypatch.setenv(*text.split("=", 1))
            case "binlog-stream":
                printed = run_command(mariadb_server, text, tmp_path)
            case "toml":
                set_in_job(tmp_path / "job.toml", text)
            case "python":
                program = text
            case "text":
                assert run_python(program) == text
            case "console":
                assert GTID.sub("GTID", printed) == GTID.sub("GTID", text)
            case _:
                raise AssertionError(f"what to do with {kind}?")
    assert "waits for its snapshot: table=shop.items" in caplog.text
    assert told.count("binlog-stream") >= 6
    assert told.count("sql") >= 5
    assert told.count("text") == 2
    assert told[-2:] == ["binlog-stream", "console"]


def run_statements(server: MariaDbServer, text: str) -> None:
    for statement in text.split(";\n"):
        if statement.startswith("PURGE"):
            purge(server, statement)
        elif statement:
            run_sql(server, [statement])


def purge(server: MariaDbServer, statement: str) -> None:
    """A server purges a file when its recovery does not need it any more, which it finds out by itself."""
    deadline = time.monotonic() + PATIENCE_S
    with session_on(server) as session:
        while len(session.rows("SHOW BINARY LOGS")) > 1:
            assert time.monotonic() < deadline
            session.execute(statement)
            time.sleep(0.05)


def run_command(server: MariaDbServer, text: str, folder: Path) -> str:
    line = text.replace("/var/lib/mysql", str(server.binlog_directory))
    line = line.replace("127.0.0.1:3306", f"127.0.0.1:{server.port}")
    words, _, file = line.partition(" > ")
    done = run_program(*words.split(), cwd=folder)
    assert done.returncode == 0, (line, done.stdout, done.stderr)
    if file:
        (folder / file).write_text(done.stdout)
    return done.stdout


def set_in_job(job: Path, settings: str) -> None:
    """Replace a setting, commented out or not, where it stands."""
    text = job.read_text()
    for setting in settings.splitlines():
        name = setting.partition(" ")[0]
        text, count = re.subn(rf"(?m)^(# )?{name} = .*$", setting.replace("\\", r"\\"), text)
        assert count == 1, name
    job.write_text(text)


def run_python(program: str) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(program, PAGE, "exec"), {})
    return printed.getvalue()
