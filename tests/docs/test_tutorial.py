"""`docs/tutorial.md` as it is written, on a live server: statements, commands, settings, and what is printed."""

from __future__ import annotations

import contextlib
import io
import os
import re
from typing import TYPE_CHECKING

import pytest

from tests.docs.markdown import REPO
from tests.program import run_program
from tests.servers import ServerKind, as_installed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pymysql.cursors import Cursor
    from pyspark.sql import SparkSession

    from binlog_lab.demo.mariadb.server import DatabaseServer

PAGE = "docs/tutorial.md"
STEP = re.compile(r"^```(\w+)\n(.*?)^```$|^    (binlog-stream|export) ([^\n]*)$", re.MULTILINE | re.DOTALL)
GTID = re.compile(r"\b(\d+-\d+-\d+|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:[\d:-]+)\b")
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


@pytest.fixture(
    params=[
        ServerKind.MARIADB,
        pytest.param(ServerKind.NEW_MARIADB, marks=pytest.mark.thorough),
        pytest.param(ServerKind.MYSQL, marks=pytest.mark.thorough),
    ]
)
def installed_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[DatabaseServer]:
    """A server of each kind, with the settings that it has when it has just been installed."""
    with as_installed(request.param, tmp_path / "server") as server:
        yield server


@pytest.mark.server
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.usefixtures("shown_by_duckdb")
def test_tutorial_runs_as_it_is_written(
    spark: SparkSession,
    installed_server: DatabaseServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.chdir(tmp_path)
    program, printed, told = "", "", list[str]()
    # One session for all of its SQL, as of somebody who pastes it.
    with installed_server.connect() as connection, connection.cursor() as cursor:
        for kind, text in steps():
            told.append(kind)
            match kind:
                case "sql":
                    run_statements(cursor, text)
                case "export":
                    monkeypatch.setenv(*text.split("=", 1))
                case "binlog-stream":
                    printed = run_command(installed_server, text, tmp_path)
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


def run_statements(cursor: Cursor, text: str) -> None:
    for statement in filter(None, text.split(";\n")):
        cursor.execute(statement)


def run_command(server: DatabaseServer, text: str, folder: Path) -> str:
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
