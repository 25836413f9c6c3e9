"""`binlog-stream doctor --server`, on a real server."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from binlog_streaming.doctor import Health
from binlog_streaming.doctor.source import server_findings
from binlog_streaming.settings import load_job
from tests.program import run_program
from tests.streaming.snapshot.live import job_file, run_sql, session_on, url_of
from tests.streaming.snapshot.test_refusals import ITEMS, setting
from tests.streaming.tables.oltp import OLTP

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_lab.demo.mariadb.server import MariaDbServer

pytestmark = pytest.mark.server


Known = dict[str, tuple[Health, str, str]]


def found(server: MariaDbServer, path: str | None = None, job: Path | None = None) -> Known:
    """By name; of several with one name the first."""
    with session_on(server) as session:
        findings = list(server_findings(session, path, None if job is None else load_job(job)))
    return {one.what: (one.health, one.found, one.fix) for one in reversed(findings)}


def examined(server: MariaDbServer) -> dict[tuple[str, str], Any]:
    command = ("doctor", server.binlog_directory, "--server", url_of(server), "-o", "jsonl")
    done = run_program(*command, environment={"BINLOG_STREAM_PASSWORD": server.password})
    return {(line["area"], line["what"]): line for line in map(json.loads, done.stdout.splitlines())}


def test_a_server_is_examined_beside_its_log(shared_server: MariaDbServer) -> None:
    run_sql(shared_server, [ITEMS, "REPLACE INTO shop.items VALUES (1, 1)"])
    path = shared_server.binlog_directory
    lines = examined(shared_server)
    assert lines["server", "settings"]["health"] == "ok"
    assert lines["server", "log"] == {
        "area": "server", "what": "log", "health": "ok", "found": f"{path} is this server's", "fix": "",
    }  # fmt: skip
    assert lines["server", "clock"]["health"] == "ok"


@pytest.mark.parametrize(
    ("name", "value", "what", "health", "fix"),
    [
        ("binlog_format", "'MIXED'", "settings", Health.WRONG, "SET GLOBAL binlog_format = 'ROW'"),
        ("binlog_row_image", "'MINIMAL'", "binlog_row_image", Health.WARNING, "SET GLOBAL binlog_row_image = 'FULL'"),
        ("binlog_row_metadata", "'MINIMAL'", "binlog_row_metadata", Health.WARNING, "binlog_row_metadata = 'FULL'"),
        ("binlog_expire_logs_seconds", "3600", "expiry", Health.WARNING, "604800"),
        ("binlog_expire_logs_seconds", "0", "expiry", Health.OK, ""),
    ],
)
def test_each_setting_is_found(
    shared_server: MariaDbServer, name: str, value: str, what: str, health: Health, fix: str
) -> None:
    with setting(shared_server, name, value):
        known = found(shared_server)[what]
    assert known[0] is health
    assert fix in known[2]


def test_the_job_is_told_the_server_s_expiry(shared_server: MariaDbServer, tmp_path: Path) -> None:
    job = job_file(tmp_path, shared_server.binlog_directory)
    with setting(shared_server, "binlog_expire_logs_seconds", "172800"):
        health, text, fix = found(shared_server, job=job)["purge_after"]
        assert (health, fix) == (Health.WARNING, '[status] purge_after = "172800s" in the job file')
        assert "not set, the server keeps files for 2 d" in text
        job.write_text(job.read_text() + '\n[status]\npurge_after = "48h"\n')
        assert "purge_after" not in found(shared_server, job=job)


def test_another_server_s_log_and_a_clock_that_is_wrong(
    shared_server: MariaDbServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found(shared_server, str(OLTP))["log"][0] is Health.WRONG
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 90)
    health, text, _ = found(shared_server)["clock"]
    assert health is Health.WARNING
    assert float(text.partition(" ")[0]) == pytest.approx(90, abs=30)


def test_a_server_that_does_not_answer() -> None:
    done = run_program("doctor", "--server", "mysql://nobody@127.0.0.1:1/", "-o", "jsonl")
    last = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, last["area"], last["what"], last["health"]) == (1, "server", "connection", "wrong")


def test_a_log_that_does_not_name_columns(shared_server: MariaDbServer) -> None:
    run_sql(shared_server, [ITEMS, "RESET MASTER"])
    with setting(shared_server, "binlog_row_metadata", "'NO_LOG'"):
        run_sql(shared_server, ["REPLACE INTO shop.items VALUES (1, 2)"])
        lines = examined(shared_server)
    assert lines["log", "binlog_row_metadata"]["health"] == "warning"
    assert "shop.items" in lines["log", "binlog_row_metadata"]["found"]
    assert "schemaFile" in lines["log", "binlog_row_metadata"]["fix"]
