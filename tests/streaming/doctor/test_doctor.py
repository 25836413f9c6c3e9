"""`binlog-stream doctor`: each thing that is wrong is found, by name, with what to do."""

from __future__ import annotations

import json
import os
import shutil
import socket
from importlib import metadata
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from binlog_connector.following.log_end import end_of_log
from binlog_connector.following.watched import WatchedLog
from binlog_streaming.doctor import Health, machine
from binlog_streaming.doctor.job import job_findings, needs_of
from binlog_streaming.doctor.machine import Needs, machine_findings
from binlog_streaming.settings import Mode, TableFormat, TableRule, load_any_job, load_job
from binlog_streaming.status.recorder import StatusRecorder
from tests.corpus import SERVER_CASES
from tests.program import run_program
from tests.streaming.status.test_status_command import job_file
from tests.streaming.tables.oltp import OLTP
from tests.streaming.test_job_check import job_for

ALL = Needs(frozenset({"spark"}), java=True)


def found(needs: Needs) -> dict[str, tuple[Health, str, str]]:
    return {one.what: (one.health, one.found, one.fix) for one in machine_findings(needs)}


def examined(*arguments: object) -> tuple[int, dict[tuple[str, str], dict[str, Any]]]:
    done = run_program("doctor", *arguments, "-o", "jsonl")
    assert done.stderr == ""
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return done.returncode, {(line["area"], line["what"]): line for line in lines}


@pytest.mark.spark
def test_this_machine_is_well() -> None:
    status, lines = examined()
    assert status == 0, lines
    assert lines["machine", "Python"]["health"] == "ok"
    assert "numpy" in lines["machine", "packages"]["found"]
    assert "pyspark" in lines["machine", "packages of [spark]"]["found"]


@pytest.mark.parametrize(
    ("told", "health", "text"),
    [
        ('openjdk version "11.0.2" 2019-01-15', Health.WRONG, "11 ("),
        ('java version "1.8.0_292"', Health.WRONG, "8 ("),
        ('openjdk version "21" 2023-09-19', Health.OK, "21 ("),
        ("a poem", Health.WRONG, "does not tell its version"),
    ],
)
def test_java_is_old_or_strange(
    told: str, health: Health, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho '{told}' >&2\n")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    known = found(ALL)["Java"]
    assert known[0] is health
    assert text in known[1]
    assert health is Health.OK or "17 or newer" in known[2]


def test_java_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert found(ALL)["Java"][:2] == (Health.WRONG, f"none in JAVA_HOME={tmp_path}")
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert found(ALL)["Java"][:2] == (Health.WRONG, "none in PATH")
    assert "Java" not in found(Needs(frozenset())), "jobs without Spark need none"


def test_packages_are_missing_or_of_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name == "pyiceberg":
            raise metadata.PackageNotFoundError(name)
        return "9.0" if name == "pyspark" else metadata.version(name)

    monkeypatch.setattr(machine, "version", version)
    needed = found(Needs(frozenset({"spark", "iceberg"})))
    assert needed["packages of [spark]"][0] is Health.WRONG
    assert "pyspark 9.0, expected <4.4,>=4.0" in needed["packages of [spark]"][1]
    assert needed["packages of [iceberg]"][:2] == (Health.WRONG, "pyiceberg not installed")
    assert "[iceberg]" in needed["packages of [iceberg]"][2]
    assert "packages of [delta]" not in needed
    optional = found(Needs())["packages of [iceberg]"]
    assert optional[:2] == (Health.OK, "pyiceberg not installed: needed for Iceberg tables")


def test_kernels_are_compiled_and_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    health, text, _ = found(ALL)["kernels"]
    assert (health, text.partition(":")[0]) == (Health.OK, f"none yet in {tmp_path / 'cache'}")
    monkeypatch.setattr(os, "access", lambda *_, **_rights: False)
    health, text, fix = found(Needs(frozenset()))["kernels"]
    assert (health, "compiled again at each start" in text, "NUMBA_CACHE_DIR" in fix) == (Health.WARNING, True, True)
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    assert found(Needs(frozenset()))["kernels"][0] is Health.WRONG


def test_a_host_name_that_is_no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "no-such-host.invalid")
    health, text, fix = found(ALL)["host name"]
    assert (health, "no-such-host.invalid" in text, "SPARK_LOCAL_IP" in fix) == (Health.WARNING, True, True)


def test_jars_for_another_scala() -> None:
    packages = "org.apache.spark:spark-sql-kafka-0-10_2.12:4.0.0, org.example:plain:1"
    lines = [one for one in machine_findings(Needs(frozenset(), False, packages)) if one.what == "spark.jars.packages"]
    assert [one.health for one in lines] == [Health.WRONG, Health.OK]
    assert "spark-sql-kafka-0-10_2.13:4.0.0" in lines[0].fix


def test_needs_follow_the_job(tmp_path: Path) -> None:
    job = job_for(tmp_path, TableRule(mode=Mode.CHANGELOG))
    assert needs_of(job).extras == frozenset({"spark", "delta"})
    assert job.sink.format is TableFormat.DELTA


@pytest.mark.parametrize("extra", ["metrics", "otel"])
@pytest.mark.parametrize(
    "sections",
    [
        '[source]\npath = "log"\n[sink]\ndirectory = "tables"\n',
        '[source]\npath = "log"\n[sink]\nkind = "kafka"\nbootstrap_servers = "a:1"\ntopic_prefix = "shop"\n',
        '[source]\nkind = "kafka"\nbootstrap_servers = "a:1"\ntopics = "shop.+"\n[sink]\ndirectory = "tables"\n',
        '[source]\npath = "log"\nformat = "structured"\n[sink]\ndirectory = "tables"\n',
    ],
    ids=["tables", "publish", "topics", "structured"],
)
def test_jobs_of_all_kinds_have_metrics(sections: str, extra: str, tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    section = {"metrics": "port = 0", "otel": "otlp = true"}[extra]
    file.write_text(f'checkpoint = "state"\n{sections}[metrics]\n{section}\n')
    assert extra in (needs_of(load_any_job(file)).extras or ())
    file.write_text(f'checkpoint = "state"\n{sections}')
    assert extra not in (needs_of(load_any_job(file)).extras or ())


@pytest.mark.spark
def test_a_log_that_is_well() -> None:
    status, lines = examined(OLTP)
    assert status == 0
    assert {what: line["health"] for (area, what), line in lines.items() if area == "log"} == dict.fromkeys(
        ("files", "binlog_format", "binlog_row_metadata", "binlog_row_image", "primary keys"), "ok"
    )


def test_a_log_that_lacks_what_is_needed() -> None:
    status, lines = examined(SERVER_CASES / "mariadb-10.11" / "ops_minimal")
    assert status == 1
    assert lines["log", "binlog_format"]["health"] == "wrong"
    assert "SET GLOBAL binlog_format = 'ROW'" in lines["log", "binlog_format"]["fix"]
    assert lines["log", "binlog_row_image"]["health"] == "warning"
    assert "t.nokey" in lines["log", "primary keys"]["found"]


def test_a_log_that_is_not_there_or_not_to_be_read(tmp_path: Path) -> None:
    status, lines = examined(tmp_path / "nothing")
    assert (status, lines["log", "files"]["health"]) == (1, "wrong")
    assert "there is no such directory" in lines["log", "files"]["found"]
    if os.geteuid() != 0:
        closed = tmp_path / "closed"
        closed.mkdir(0o000)
        status, lines = examined(closed)
        assert (status, "group mysql" in lines["log", "files"]["fix"]) == (1, True)


@pytest.mark.spark
def test_a_job_that_is_well_and_one_that_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = job_file(tmp_path)
    status, lines = examined(file)
    assert (status, lines["job", "check"]["found"].partition(":")[0]) == (0, "it can run")
    assert lines["job", "status"]["found"] == "the job has recorded nothing yet"
    assert "free" in lines["job", "checkpoint"]["found"]
    assert ("machine", "packages of [iceberg]") not in lines
    with WatchedLog(str(OLTP)) as watched:
        offset = end_of_log(watched)
    recorder = StatusRecorder(load_job(file))
    recorder.goes_on_at(offset)
    recorder.started()
    recorder.__exit__(RuntimeError, RuntimeError("the lake is gone"), None)
    status, lines = examined(file)
    assert (status, lines["job", "status"]["health"]) == (1, "wrong")
    assert "the lake is gone" in lines["job", "status"]["found"]
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1 << 20))
    assert examined(file)[1]["job", "checkpoint"]["health"] == "wrong"


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    file = job_file(tmp_path)
    place = load_job(file).sink.directory
    Path(place).write_text("a file")
    status, lines = examined(file)
    line = lines["job", "sink.directory"]
    assert (status, line["health"], line["found"]) == (1, "wrong", f"{place} is a file, and no folder")
    assert line["fix"] == "Name another place, or remove it"


def test_the_store_of_claims_is_a_place_too(tmp_path: Path) -> None:
    (tmp_path / "claims").write_text("a file")
    file = tmp_path / "job.toml"
    file.write_text(
        'checkpoint = "state"\n[source]\npath = "log"\n[sink]\nkind = "kafka"\nbootstrap_servers = "a:1"\n'
        'topic_prefix = "shop"\n[sink.oversized]\nstore = "claims"\n'
    )
    state, claims = islice(job_findings(load_any_job(file), 0), 2)
    assert (state.what, state.health) == ("checkpoint", Health.OK)
    assert (claims.what, claims.health) == ("sink.oversized.store", Health.WRONG)
    assert claims.found == f"{tmp_path / 'claims'} is a file, and no folder"


@pytest.mark.spark
def test_lines_for_people_state_what_to_do() -> None:
    done = run_program("doctor", SERVER_CASES / "mariadb-10.11" / "ops_minimal")
    assert done.returncode == 1
    assert "→ SET GLOBAL binlog_format = 'ROW'" in done.stdout
    assert "1 thing wrong, 2 warnings." in done.stdout
    assert "\x1b" not in done.stdout


def test_wrong_use(tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    file.write_text("nonsense")
    assert run_program("doctor", file).returncode == 2


def test_settings_are_named_as_the_job_file_has_them(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    file = tmp_path / "job.toml"
    file.write_text('checkpoint = "cp"\n[source]\npath = "empty"\n[sink]\ndirectory = "tables"\n')
    status, found = examined(file)
    assert status == 1
    advice = found["job", "check"]["fix"]
    assert 'source.format = "structured" reads one' in advice
