"""Versions that batches record: taken together they are all tables as of one GTID."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from msgspec import structs

from binlog_format.errors import OptionError, TableError
from binlog_format.position import Position
from binlog_streaming.job_state.progress import Outcome, TableProgress
from binlog_streaming.lake.delta.target import DeltaTarget
from binlog_streaming.settings import Job, Sink, Source, TableFormat
from binlog_streaming.tables.batch_run import NAME, PLACE, BatchVersions, TableVersion
from tests.program import run_program
from tests.streaming.status.states import table_progress
from tests.streaming.tables.jobs.test_job import job_for, run_once, write_job
from tests.streaming.tables.lake.sink_cases import INT_KEY, MIRROR_COMMIT_ID, numbers
from tests.streaming.tables.oltp import OLTP, TABLES

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

POSITION = Position(0, 1, 2)


def job_in(folder: Path, table_format: TableFormat = TableFormat.DELTA) -> Job:
    return Job(
        source=Source(path=str(OLTP)),
        sink=Sink(directory=str(folder), format=table_format),
        checkpoint=str(folder / "checkpoint"),
        name="orders",
    )


def progress(name: str, version: str | None, commit_time: int = 1_700_000_000) -> TableProgress:
    return table_progress(name, target=f"lake/{name}", position=POSITION, commit_time=commit_time, version=version)


def version(name: str, version: str) -> TableVersion:
    return TableVersion(name, "mirror", f"lake/{name}", version)


@pytest.fixture(params=[TableFormat.DELTA, TableFormat.ICEBERG], ids=str)
def job(request: pytest.FixtureRequest, tmp_path: Path) -> Job:
    return job_in(tmp_path, request.param)


def test_versions_of_tables_that_a_batch_leaves_alone_are_earlier_ones(job: Job) -> None:
    kept = BatchVersions(job)
    kept.record("q", 0, POSITION, "0-1-10", [progress("s.a", "1"), progress("s.b", "1")])
    kept.record("q", 1, POSITION, "0-1-20", [progress("s.b", "2")])
    kept.record("q", 2, POSITION, "0-1-30", [progress("s.a", "7"), progress("s.c", None)])
    newest = kept.at()
    assert (newest.batch_id, newest.gtid_position) == (2, "0-1-30")
    assert newest.tables == (version("s.a", "7"), version("s.b", "2"))
    for gtid, batch_id, tables in (
        ("0-1-5", 0, ("1", "1")),
        ("0-1-10", 0, ("1", "1")),
        ("0-1-11", 1, ("1", "2")),
        ("0-1-30", 2, ("7", "2")),
    ):
        found = kept.at(gtid)
        assert (found.batch_id, *(table.version for table in found.tables)) == (batch_id, *tables)


def test_batch_that_is_done_again_is_recorded_once(job: Job) -> None:
    kept = BatchVersions(job)
    for _ in range(2):
        kept.record("q", 0, POSITION, "0-1-10", [progress("s.a", "1")])
        kept.record(
            "q", 0, POSITION, "0-1-10", [progress("s.a", "3")]
        )  # maintenance has made versions of the same rows
    assert len(kept._rows()) == 1
    assert kept.at().tables == (version("s.a", "1"),)


def test_tables_that_change_hands_are_gone_on_with(job: Job) -> None:
    """And other jobs in the same directory have rows of their own."""
    BatchVersions(job).record("q", 7, POSITION, "0-1-10", [progress("s.a", "1")])
    BatchVersions(job).record("r", 0, POSITION, "0-1-20", [progress("s.a", "2")])
    other = structs.replace(job, name="others")
    BatchVersions(other).record("o", 3, POSITION, "0-1-90", [progress("s.z", "9")])
    BatchVersions(job).record("r", 1, POSITION, "0-1-30", [progress("s.a", "3")])
    assert [BatchVersions(job).at(gtid).tables[0].version for gtid in ("0-1-10", "0-1-11", "0-1-30")] == ["1", "2", "3"]
    assert BatchVersions(other).at().tables == (version("s.z", "9"),)


def test_what_is_not_there_is_said(job: Job) -> None:
    kept = BatchVersions(job)
    with pytest.raises(OptionError, match=r"no batch of job 'orders' is recorded"):
        kept.at()
    kept.record("q", 0, POSITION, "0-1-10", [progress("s.a", "1")])
    with pytest.raises(OptionError, match=r"--at: 0-1-11 is not in the tables yet: they have 0-1-10"):
        kept.at("0-1-11")
    with pytest.raises(OptionError, match=r"INVALID_VALUE\] --at: "):
        kept.at("yesterday")


def test_tables_that_were_set_aside_are_no_part_of_a_batch(job: Job) -> None:
    aside = replace(progress("s.b", "5"), outcome=Outcome.SET_ASIDE)
    BatchVersions(job).record("q", 0, POSITION, "0-1-10", [progress("s.a", "1"), aside])
    assert BatchVersions(job).at().tables == (version("s.a", "1"),)


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    (tmp_path / "_binlog_stream").write_text("in the way")
    with pytest.raises(TableError, match=rf"WRITE_FAILED\] {re.escape(NAME)}: .*{PLACE}"):
        BatchVersions(job_in(tmp_path)).record("q", 0, POSITION, "0-1-10", [progress("s.a", "1")])


def test_plain_files_have_no_such_table(tmp_path: Path) -> None:
    kept = BatchVersions(job_in(tmp_path, TableFormat.PARQUET))
    kept.record("q", 0, POSITION, "0-1-10", [progress("s.a", "1")])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spark
def test_tables_read_by_versions_of_a_gtid_belong_together(spark: SparkSession, tmp_path: Path) -> None:
    """At the end of each batch, while the newest versions are those of the last one."""
    job_file = write_job(tmp_path, bytes_max="150k")
    batches = run_once(structs.replace(job_for(tmp_path, bytes_max="150k"), name="job"), spark)
    assert len(batches) > 2
    ran = run_program("versions", job_file, "--output", "jsonl")
    assert ran.returncode == 0, ran.stderr
    newest = {row["table"]: int(row["version"]) for row in map(json.loads, ran.stdout.splitlines())}
    assert newest.keys() == {f"sb.{name}" for name in TABLES}
    recorded = pa.table(DeltaTable(tmp_path / "tables" / PLACE).scan().read_all()).to_pylist()
    recorded.sort(key=lambda row: row["batch_id"])
    assert [row["batch_id"] for row in recorded] == [batch.batch_id for batch in batches]
    gtids = recorded[1]["gtid_position"]
    ran = run_program("versions", job_file, "--at", gtids, "--output", "jsonl")
    assert ran.returncode == 0, ran.stderr
    rows = [json.loads(line) for line in ran.stdout.splitlines()]
    assert {row["batch_id"] for row in rows} == {batches[1].batch_id}
    assert {row["gtid_position"] for row in rows} == {gtids}
    assert all(int(row["version"]) < newest[row["table"]] for row in rows)
    # As of a batch the rows are those that its changes and earlier ones leave.
    for row in rows:
        said = DeltaTable(row["target"], version=int(row["version"]))
        count = pa.table(said.scan().read_all()).num_rows
        changes = [table for batch in batches[:2] for table in batch.tables if table.source_table == row["table"]]
        assert count == sum(table.inserts - table.deletes for table in changes)
    ran = run_program("versions", job_file)
    assert ran.returncode == 0
    assert "batch" in ran.stdout
    assert "sb.sbtest4" in ran.stdout
    ran = run_program("versions", job_file, "--at", "0-1011-99999999")
    assert ran.returncode == 2
    assert "is not in the tables yet" in ran.stderr


def test_tables_of_a_job_are_upgraded_to_what_new_ones_would_have(tmp_path: Path) -> None:
    job_file = write_job(tmp_path)
    job_file.write_text(job_file.read_text().replace("[sink]", "[sink]\nrow_ids = true"))
    tables = []
    for name in ("s.a", "s.b"):
        target = DeltaTarget.at(Sink(directory=""), str(tmp_path / "tables" / name))
        target.create(INT_KEY, MIRROR_COMMIT_ID)
        target.append(numbers(1, 2).to_reader(), MIRROR_COMMIT_ID)
        tables.append(replace(progress(name, target.version()), target=target.uri))
    job = structs.replace(job_for(tmp_path), name="job")
    BatchVersions(job).record("q", 0, POSITION, "0-1-10", tables)

    def ran(*words: str) -> str:
        done = run_program("upgrade-table", job_file, *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    told = ran("--dry-run")
    assert [line.split()[:2] for line in told.splitlines()[1:]] == [["s.a", "rowTracking"], ["s.b", "rowTracking"]]
    refused = run_program("upgrade-table", job_file)
    assert "--yes: nobody can be asked here, and this changes 2 tables in one commit each" in refused.stderr
    unknown = run_program("upgrade-table", job_file, "--table", "s.nobody")
    assert "--table: the job has written no table s.nobody" in unknown.stderr
    assert (refused.returncode, unknown.returncode) == (2, 2)
    assert "s.a is upgraded" in ran("--table", "s.a", "--yes")
    assert [DeltaTable(table.target).version() for table in tables] == [2, 1]
    assert "s.a" not in ran("--yes")
    assert ran("--yes") == "All tables have what new ones would have\n"
    assert [DeltaTable(table.target).version() for table in tables] == [2, 2]
