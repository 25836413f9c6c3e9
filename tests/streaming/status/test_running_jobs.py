"""Jobs that run, with a page, and what others find out about them: of tables by Spark, of events, of topics."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from binlog_lab.simulator.structured.program import LoggingProgram
from binlog_streaming.settings.source_texts import publish_job_text
from tests.program import PROGRAM, run_program
from tests.streaming.tables.oltp import CHANGES, OLTP
from tests.streaming.topics.publishing import publish_job, recorded

if TYPE_CHECKING:
    from pathlib import Path

    from tests.faults.kafka_broker import KafkaBroker

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

WAIT_S = 300


def status_of(place: object) -> tuple[int, dict[str, Any]]:
    done = run_program("status", place, "--json")
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


@pytest.mark.spark
def test_a_job_of_tables_is_watched_and_killed(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [PROGRAM, "mirror", str(OLTP), "--to", "lake", "--status", "127.0.0.1:0", "-o", "jsonl"],
        cwd=tmp_path, stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    with process.stdout as lines:
        url = json.loads(lines.readline())["status"]
        batch = json.loads(lines.readline())
        assert batch["event"] == "batch"
        with urllib.request.urlopen(f"{url}status.json", timeout=WAIT_S) as answer:
            shown = json.loads(answer.read())
        assert (shown["phase"], shown["verdict"]["level"]) == ("running", "ok")
        assert shown["changes_total"] == batch["changes"] == CHANGES
        assert (shown["log"]["size"], shown["log"]["transactions"]) == (0, 0)
        (recent,) = shown["batches"]
        assert recent["read_seconds"] > 0
        assert recent["commit_seconds"] > 0
        assert recent["size"] is None, "where a new job begins Spark does not tell"
        assert {table["is_complete"] for table in shown["tables"]} == {True}
        status, known = status_of(tmp_path / "lake")
        while not known["batches"]:  # the file is written within a second
            status, known = status_of(tmp_path / "lake")
        assert (status, known["phase"], known["gtid"]) == (0, "running", shown["gtid"])
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(WAIT_S)
    status, known = status_of(tmp_path / "lake")
    assert (status, known["phase"]) == (1, "lost")
    assert "no sign of life" in known["verdict"]["text"]


def test_a_job_of_events_is_recorded(tmp_path: Path) -> None:
    with LoggingProgram(tmp_path / "log") as program:
        program.log(40)
    file = tmp_path / "job.toml"
    file.write_text(
        'checkpoint = "checkpoint"\n[source]\npath = "log"\nformat = "structured"\n[sink]\ndirectory = "lake"\n'
    )
    ran = run_program("run", file, "--once")
    assert ran.returncode == 0, ran.stderr
    status, known = status_of(file)
    assert (status, known["kind"], known["phase"]) == (0, "events", "ended")
    assert known["changes_total"] > 0
    assert (known["log"]["problem"], known["log"]["size"]) == (None, 0)
    assert known["log"]["purge"] == {
        "risk": "unknown", "file": known["log"]["file"], "left_seconds": None, "expiry_seconds": None, "reason": "",
    }  # fmt: skip
    assert known["verdict"]["advice"] == []


@pytest.mark.server
def test_a_job_that_publishes_is_recorded(kafka_broker: KafkaBroker, tmp_path: Path) -> None:
    recording = recorded(tmp_path / "log", 300)
    job = publish_job(tmp_path, recording.directory, kafka_broker)
    file = tmp_path / "job.toml"
    file.write_text(publish_job_text(job))
    ran = run_program("publish", file, "--once")
    assert ran.returncode == 0, ran.stderr
    status, known = status_of(file)
    assert (status, known["kind"], known["phase"]) == (0, "topics", "ended")
    assert (known["log"]["size"], known["log"]["transactions"]) == (0, 0)
    assert sum(table["changes"] for table in known["tables"]) == known["changes_total"] > 300
    recent = known["batches"][-1]
    assert recent["read_seconds"] + recent["commit_seconds"] > 0
    assert recent["gtids"]
    broken = file.read_text().replace(job.sink.bootstrap_servers, "127.0.0.1:1")
    file.write_text(broken)
    assert run_program("publish", file, "--once").returncode != 0
    status, known = status_of(file)
    assert (status, known["phase"]) == (1, "failed")
    assert "127.0.0.1:1" in known["verdict"]["text"]
    assert known["gtid"], "how far it had come is still known"
