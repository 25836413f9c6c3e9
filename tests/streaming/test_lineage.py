"""What OpenLineage is told of a run, by a server that takes it; and what becomes of a run when there is none."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from binlog_format.errors import OptionError
from binlog_streaming.job_state.progress import BatchProgress
from binlog_streaming.jobs.lineage import reporting
from binlog_streaming.settings import Lineage
from tests.faults.http_receiver import HttpReceiver
from tests.program import run_program
from tests.streaming.status.states import table_progress
from tests.streaming.tables.jobs.test_job import write_job
from tests.streaming.tables.oltp import CHANGES, OLTP, TABLES
from tests.streaming.test_job_check import job_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

SECTION = '[lineage]\nnamespace = "lake"\nsource = "mysql://db.example:3306"\n'


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpReceiver]:
    with HttpReceiver() as receiver:
        transport = {"type": "http", "url": receiver.url, "retry": {"total": 0}}
        monkeypatch.setenv("OPENLINEAGE__TRANSPORT", json.dumps(transport))
        yield receiver


def events(server: HttpReceiver) -> list[dict[str, Any]]:
    return [json.loads(body) for body in server.bodies]


def states(server: HttpReceiver) -> list[str]:
    return [event["eventType"] for event in events(server)]


def batch(number: int, *tables: str) -> BatchProgress:
    written = [
        table_progress(f"sb.{table}", target=f"s3://lake/sb/{table}", inserts=5, rows_written=5, version=str(number))
        for table in tables
    ]
    return BatchProgress(number, tuple(written), 0.1, 0.0, 0)


def test_run_of_a_job_is_told_with_tables_columns_and_versions(
    spark: SparkSession, server: HttpReceiver, tmp_path: Path
) -> None:
    del spark  # the command takes it
    done = run_program("run", write_job(tmp_path, tables=SECTION), "--once")
    assert done.returncode == 0, done.stderr
    told = events(server)
    assert [event["eventType"] for event in told if event["eventType"] != "RUNNING"] == ["START", "COMPLETE"]
    assert len({event["run"]["runId"] for event in told}) == 1
    last = told[-1]
    assert (last["job"]["namespace"], last["job"]["name"]) == ("lake", "job")
    assert last["job"]["facets"]["jobType"]["processingType"] == "BATCH"
    assert [(one["namespace"], one["name"]) for one in last["inputs"]] == [
        ("mysql://db.example:3306", f"sb.{table}") for table in sorted(TABLES)
    ]
    outputs = {one["name"]: one for one in last["outputs"]}
    assert set(outputs) == {str(tmp_path / "tables" / "sb" / table) for table in TABLES}
    for output in outputs.values():
        fields = [(field["name"], field["type"]) for field in output["facets"]["schema"]["fields"]]
        assert fields == [("id", "int32"), ("k", "int32"), ("c", "string"), ("pad", "string")]
        assert int(output["facets"]["version"]["datasetVersion"]) > 0
        assert output["namespace"] == "file"
    assert sum(one["outputFacets"]["outputStatistics"]["rowCount"] for one in outputs.values()) <= CHANGES


def test_failure_is_told_with_its_reason(spark: SparkSession, server: HttpReceiver, tmp_path: Path) -> None:
    del spark
    log = tmp_path / "log"
    log.mkdir()
    content = bytearray((OLTP / "mysql-bin.000001").read_bytes())
    content[len(content) // 2] ^= 1
    (log / "mysql-bin.000001").write_bytes(content)
    done = run_program("run", write_job(tmp_path, log=log, tables=SECTION), "--once")
    assert done.returncode == 1
    assert states(server)[0] == "START"
    last = events(server)[-1]
    assert last["eventType"] == "FAIL"
    assert last["run"]["facets"]["errorMessage"]["message"].startswith("[BINLOG_")


def test_server_that_is_away_is_told_everything_later(
    server: HttpReceiver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.status = 404
    job = msgspec.structs.replace(job_for(tmp_path), lineage=Lineage(namespace="lake"))
    with caplog.at_level(logging.WARNING, "binlog_streaming"), reporting(job, once=False) as reporter:
        reporter.batch(batch(0, "a", "b"))
        server.wait_until(lambda one: one.refused >= 3)  # START, again, and what is written
        server.status = 201
        reporter.batch(batch(1, "b"))
    assert states(server) == ["START", "COMPLETE"]
    (_, last) = events(server)
    versions = {one["name"]: one["facets"]["version"]["datasetVersion"] for one in last["outputs"]}
    assert versions == {"sb/a": "0", "sb/b": "1"}
    assert {one["namespace"] for one in last["outputs"]} == {"s3://lake"}
    assert {one["namespace"] for one in last["inputs"]} == {f"file://{job.source.path}"}
    warnings = [one for one in caplog.records if one.name.startswith("binlog_streaming.jobs.lineage")]
    assert len(warnings) == 1


def test_missing_configuration_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    job = msgspec.structs.replace(job_for(tmp_path), lineage=Lineage(namespace="lake"))
    with pytest.raises(OptionError, match=r"MISSING.*OPENLINEAGE_URL"), reporting(job, once=True):
        pass
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT", '{"type": "no such thing"}')
    with pytest.raises(OptionError, match=r"INVALID_VALUE.*configuration"), reporting(job, once=True):
        pass
