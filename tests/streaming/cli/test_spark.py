"""Commands that start Spark, as a user calls them: in this process they take the session of all tests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from binlog_streaming.jobs.mirror import OWN_FOLDER
from tests.program import PROGRAM, run_program
from tests.streaming.replay_runs import check
from tests.streaming.tables.oltp import CHANGES, OLTP, TABLES, mirror, truth
from tests.truth.truth_case import case, case_path

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


MYSQL = "mysql-9/ops"
UUID = "88ee60ec-e4d9-11f1-baee-02fc00000001"
TO = f"{UUID}:1-30"


def run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return run_program(*arguments, cwd=cwd, environment={"COLUMNS": "100", "FORCE_COLOR": "", "CLICOLOR_FORCE": ""})


def test_mirror_once_and_again_gives_the_tables_of_the_server(spark: SparkSession, tmp_path: Path) -> None:
    first = run("mirror", str(OLTP), "--to", "lake", "--once", "-o", "jsonl", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    assert spark.range(1).count() == 1, "a session that was there stays"
    events = [json.loads(line) for line in first.stdout.splitlines()]
    assert events[-1] == {"event": "ended", "batches": 1, "changes": CHANGES}
    assert events[0]["directory"] == str(tmp_path / "lake")
    for name in TABLES:
        assert mirror(tmp_path / "lake", name) == truth(name)
    # The job file that lies there goes on with the same tables, by the other command.
    file = f"lake/{OWN_FOLDER}/job.toml"
    checked = run("check", file, "-o", "jsonl", cwd=tmp_path)
    rows = [json.loads(line) for line in checked.stdout.splitlines()]
    assert (rows[2]["is_fresh"], rows[2]["batch_id"], rows[2]["size_behind"]) == (False, 1, 0)
    assert {target["exists"] for row in rows if row["kind"] == "table" for target in row["targets"]} == {True}
    again = run("run", file, "--once", cwd=tmp_path)
    assert (again.returncode, again.stdout.splitlines()[-1]) == (0, "ended: 0 changes in 0 batches"), again.stderr
    # With more tables, or another mode, it is another job.
    job = tmp_path / file
    text = job.read_text()
    job.write_text(text.replace('mode = "mirror"', 'mode = "scd2"'))
    for command in ("check", "run"):
        other = run(command, file, cwd=tmp_path)
        assert other.returncode == 2
        told = "tables[0].mode: sb.sbtest1 was begun with 'mirror', now it is 'scd2'. scd2 would begin in the middle"
        assert told in " ".join((other.stdout + other.stderr).split())


@pytest.mark.thorough
@pytest.mark.slow
def test_command_is_killed_called_again_and_the_job_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    job_file = tmp_path / "job.toml"
    job_file.write_text(
        f'checkpoint = "checkpoint"\n[source]\npath = "{case_path(MYSQL)}"\nmaxBytesPerTrigger = "2k"\n'
        "[sink]\ndirectory = \"tables\"\n[[tables]]\nselect = 't\\.(a|b|nokey)'\n"
    )
    command = ["replay", str(job_file), "--to", TO, "--hand-over", "-o", "jsonl"]
    process = subprocess.Popen([PROGRAM, *command], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    for line in process.stdout:
        if json.loads(line)["event"] == "batch":
            os.killpg(process.pid, signal.SIGKILL)
            break
    process.stdout.close()
    assert process.wait() == -signal.SIGKILL
    again = run(*command)
    assert again.returncode == 0, again.stderr
    events = [json.loads(line) for line in again.stdout.splitlines()]
    assert (events[0]["event"], events[0]["resumed"]) == ("replay", True)
    assert events[-1] == {"event": "replayed", "targets": 3, "gtid_position": TO, "handed_over": True}
    for table in ("t.a", "t.b", "t.nokey"):
        check(case(MYSQL), tmp_path / "tables", table, f"{UUID}:30")

    job_file.write_text(job_file.read_text().replace("2k", "64m"))
    running = run("run", str(job_file), "--once")
    assert running.returncode == 0, running.stderr
    for table in ("t.a", "t.b", "t.nokey"):
        check(case(MYSQL), tmp_path / "tables", table, case(MYSQL).gtids[-1])
