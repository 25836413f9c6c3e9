"""`binlog-stream snapshot --method read` on a live server: what it shows, refuses, and leaves to the job."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from binlog_streaming.job_state.job_run import JobLock
from binlog_streaming.settings import load_job
from tests.program import run_program
from tests.streaming.snapshot.live import job_file, run_sql, url_of
from tests.streaming.snapshot.reading.readings import server_rows, target_rows
from tests.streaming.snapshot.reading.test_join import forget_earlier_logs

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_lab.demo.mariadb.server import MariaDbServer

pytestmark = pytest.mark.server

ROWS = 3000


@pytest.fixture
def job(shared_server: MariaDbServer, tmp_path: Path) -> Path:
    """A job about two tables that are older than their log."""
    statements = ["CREATE OR REPLACE DATABASE shop"]
    for table in ("one", "two"):
        statements += [
            f"CREATE TABLE shop.{table} (id INT PRIMARY KEY, v VARCHAR(20))",
            f"INSERT INTO shop.{table} SELECT seq, seq FROM shop.seq_1_to_{ROWS}",
        ]
    run_sql(shared_server, [*statements, "FLUSH BINARY LOGS"])
    forget_earlier_logs(shared_server)
    return job_file(tmp_path, shared_server.binlog_directory)


def snapshot(server: MariaDbServer, job: Path, *more: str, status: int = 0) -> str:
    arguments = ["snapshot", str(job), "--server", url_of(server), "--method", "read", *more]
    done = run_program(*arguments, cwd=job.parent, environment={"BINLOG_STREAM_PASSWORD": server.password})
    assert done.returncode == status, done.stderr
    return done.stdout + done.stderr


def check(server: MariaDbServer, job: Path) -> None:
    """All targets equal the server's tables."""
    settings = load_job(job)
    for table in ("one", "two"):
        rows = target_rows(settings, f"shop/{table}")
        assert sorted(tuple(row.values()) for row in rows) == server_rows(server, f"shop.{table}")


def test_tables_are_read(shared_server: MariaDbServer, job: Path) -> None:
    said = snapshot(shared_server, job, "--yes")
    assert "writes nothing there, locks nothing" in said
    assert f"2 tables, {2 * ROWS:,} rows are in their targets" in said
    assert "load     3 connections; old versions of rows" in said
    assert re.search(
        r"load     3 connections; no locks of rows; log 0\.0 MiB; undo history \d+ before, \d+ at most\n", said
    )
    check(shared_server, job)
    assert "Nothing to do." in snapshot(shared_server, job, "--yes")


@pytest.mark.thorough
def test_the_job_goes_on(shared_server: MariaDbServer, job: Path) -> None:
    """With Spark; `test_join` has more of it, without."""
    snapshot(shared_server, job, "--yes")
    run_sql(shared_server, ["UPDATE shop.one SET v = 'new' WHERE id < 10", "DELETE FROM shop.two WHERE id = 7"])
    done = run_program("run", job, "--once", cwd=job.parent)
    assert done.returncode == 0, done.stderr
    run_sql(shared_server, ["INSERT INTO shop.one VALUES (0, 'last')"])
    # The job is brought to the point first, by Spark; `two` is complete and stays.
    said = snapshot(shared_server, job, "--yes", "--tables", r"shop\.one")
    assert f"1 table, {ROWS + 1:,} rows are in their targets" in said
    check(shared_server, job)


def test_a_job_that_runs_is_refused(shared_server: MariaDbServer, job: Path) -> None:
    with JobLock(load_job(job)):
        said = snapshot(shared_server, job, "--yes", status=1)
    assert "[BINLOG_STORAGE.IN_USE]" in said
    assert not (job.parent / "tables").exists()


def test_nobody_can_be_asked(shared_server: MariaDbServer, job: Path) -> None:
    said = snapshot(shared_server, job, status=2)
    assert "--yes: nobody can be asked here, and this writes tables anew" in said


def test_options_of_the_other_method_are_refused(shared_server: MariaDbServer, job: Path) -> None:
    assert "--rate has no effect with --method read" in snapshot(shared_server, job, "--rate", "5", status=2)
