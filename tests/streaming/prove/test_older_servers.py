"""Ten tables older than their log, of all types, under load: after a snapshot `prove` calls all of them equal."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from binlog_format import open_log
from binlog_format.gtids.gtid import GtidPosition
from binlog_streaming.settings import load_job
from tests.program import run_program
from tests.streaming.replay_runs import run
from tests.streaming.snapshot.live import job_file, run_sql, url_of
from tests.streaming.tables.snapshots.test_live_snapshots import DATABASE, OLDER, Load, fill

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_lab.demo.mariadb.server import MariaDbServer

pytestmark = [pytest.mark.server, pytest.mark.slow]

TABLES = 10
PATIENCE_S = 300.0
PAUSE_S = 0.02
"""Of writers between two changes: the job, which does not run meanwhile, must not fall far behind."""
WORKED_FOR_GROUPS = 30
"""Groups that writers put into the log before and after the snapshot."""


@pytest.fixture
def server(shared_server: MariaDbServer) -> MariaDbServer:
    """A server whose tables are older than its log."""
    run_sql(shared_server, [f"DROP DATABASE IF EXISTS {name}" for name in (DATABASE, "binlog_stream")])
    fill(shared_server)
    return shared_server


def job_in(folder: Path, log: Path) -> Path:
    """A job whose tables wait for their snapshot; a schema file declares types that no INSERT states."""
    (folder / "schema.sql").write_text(
        ";\n".join(table.create.replace("CREATE TABLE ", f"CREATE TABLE {DATABASE}.", 1) for table in OLDER) + ";\n"
    )
    path = job_file(folder, log, f"select = '{DATABASE}\\..*'\nbegin = 'snapshot'")
    path.write_text(path.read_text().replace("[source]", '[source]\nschemaFile = "schema.sql"'))
    return path


def command(name: str, job: Path, server: MariaDbServer, *more: str) -> str:
    environment = {"BINLOG_STREAM_PASSWORD": server.password}
    done = run_program(name, job, "--server", url_of(server), *more, cwd=job.parent, environment=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def wait_for_writers(server: MariaDbServer) -> None:
    """Until they have put some groups into the log."""

    def last() -> int:
        return int(server.gtid_position().rpartition("-")[2])

    wanted, deadline = last() + WORKED_FOR_GROUPS, time.monotonic() + PATIENCE_S
    while last() < wanted:
        assert time.monotonic() < deadline, "nobody writes"
        time.sleep(0.05)


@pytest.mark.parametrize("method", ["log", "read"])
def test_tables_older_than_the_log_are_proved_equal_under_load(
    method: str, server: MariaDbServer, tmp_path: Path
) -> None:
    assert len(OLDER) == TABLES
    with open_log(str(server.binlog_directory)) as log:
        before = log.gtid_position_at(log.start_position())
    assert isinstance(before, GtidPosition)
    assert before.last, "the log has all"
    path = job_in(tmp_path, server.binlog_directory)
    job = load_job(path)
    with Load(server, PAUSE_S):
        wait_for_writers(server)
        if method == "log":
            run(job)  # what it reads now belongs to rows that it does not have
        assert f"{TABLES} tables, " in command("snapshot", path, server, "--yes", "--method", method)
        wait_for_writers(server)
        run(job)
        under_load = command("prove", path, server)
    run(job)
    for told in (under_load, command("prove", path, server)):
        assert told.count(" (mirror): equal through ") == TABLES, told
        assert f"{TABLES} of {TABLES} targets equal" in told
