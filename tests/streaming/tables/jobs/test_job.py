"""The whole job with Spark, on a real log: in this process, and as the command."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import threading
from collections import Counter
from typing import TYPE_CHECKING

import msgspec
import pytest
from deltalake import DeltaTable

from binlog_format.classic.reader import ClassicLog
from binlog_format.errors import DataLossError, StartError, StorageError, TableError
from binlog_format.formats.directories import open_directory
from binlog_lab.innodb_writer.options import WriterOptions
from binlog_lab.repack.repacker import Repacker
from binlog_streaming.job_state.progress import BatchProgress, Outcome
from binlog_streaming.lake.commit_id import GTID_POSITION_KEY
from binlog_streaming.lake.delta.target import DeltaTarget
from binlog_streaming.plan.failures import named_error
from binlog_streaming.settings import Job, Merge, Mode, Sink, Source, TableFormat, TableRule, Trigger, load_job
from binlog_streaming.tables import division
from binlog_streaming.tables.job import TablesJob
from tests.faults.small_disk import fill, small_disk
from tests.program import run_program
from tests.streaming.tables.jobs.processes import RunningJob
from tests.streaming.tables.jobs.test_apply_sinks import check
from tests.streaming.tables.oltp import CHANGES, IMAGES, OLTP, TABLES, mirror, play_changelog, truth

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from binlog_streaming.lake.commit_id import CommitId
    from binlog_streaming.lake.delta.actions import Add
    from binlog_streaming.lake.merge import WrittenFiles

pytestmark = pytest.mark.spark

LOG_FILE = "mysql-bin.000001"


def job_for(
    folder: Path, rules: tuple[TableRule, ...] = (TableRule(),), log: Path = OLTP, bytes_max: str = "64m"
) -> Job:
    return Job(
        source=Source(path=str(log), max_bytes_per_trigger=bytes_max),
        sink=Sink(directory=str(folder / "tables")),
        checkpoint=str(folder / "checkpoint"),
        tables=rules,
        trigger=Trigger(interval="100ms"),
    )


def run_once(job: Job, spark: SparkSession) -> list[BatchProgress]:
    seen: list[BatchProgress] = []
    running = TablesJob(job, session=spark, listener=seen.append, once=True)
    running.run()
    assert running.progress.batches == len(seen)
    return seen


def write_job(folder: Path, *, log: Path = OLTP, tables: str = "", bytes_max: str = "64m") -> Path:
    path = folder / "job.toml"
    path.write_text(
        f'checkpoint = "checkpoint"\n[source]\npath = "{log}"\nmaxBytesPerTrigger = "{bytes_max}"\n'
        f'[sink]\ndirectory = "tables"\n[trigger]\ninterval = "100ms"\n{tables}'
    )
    return path


@pytest.mark.thorough_where("rewrite")
@pytest.mark.parametrize(("mode", "merge"), [(Mode.MIRROR, "auto"), (Mode.MIRROR, "rewrite"), (Mode.CHANGELOG, "auto")])
def test_tasks_share_one_table(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Mode, merge: str
) -> None:
    """One hot table: more tasks than one read its log, and more than one write it."""
    monkeypatch.setattr(division, "PART_CHANGES", 10)
    monkeypatch.setattr(division, "DEALERS", 2)
    parts: list[int] = []
    commit_parts = DeltaTarget.commit_parts

    def counted(target: DeltaTarget, some: Sequence[WrittenFiles[Add]], commit_id: CommitId) -> int:
        parts.append(len(some))
        return commit_parts(target, some, commit_id)

    monkeypatch.setattr(DeltaTarget, "commit_parts", counted)
    job = job_for(tmp_path, (TableRule(select="sb[.]sbtest1", mode=mode),), bytes_max="200k")
    job = msgspec.structs.replace(job, sink=msgspec.structs.replace(job.sink, merge=Merge(merge)))
    batches = run_once(job, spark)
    assert len(parts) == len(batches) > 1
    if mode is Mode.MIRROR:
        assert max(parts) > 1
        assert mirror(tmp_path / "tables", "sbtest1") == truth("sbtest1")
    else:
        assert play_changelog(tmp_path / "tables" / "sb" / "sbtest1")[0] == truth("sbtest1")


@pytest.mark.parametrize("log_format", ["classic", "innodb"])
def test_tables_equal_the_server(spark: SparkSession, tmp_path: Path, log_format: str) -> None:
    log = OLTP
    if log_format == "innodb":
        log = tmp_path / "log"
        with (
            contextlib.closing(ClassicLog(*open_directory(str(OLTP)))) as source,
            Repacker(source, log, WriterOptions(max_binlog_size=1 << 18, sync=False)) as repacker,
        ):
            repacker.run(threading.Event(), follow=False)
    (batch,) = run_once(job_for(tmp_path, log=log), spark)
    assert batch.changes == CHANGES
    assert batch.bytes_behind == 0
    assert {table.source_table for table in batch.tables} == {f"sb.{name}" for name in TABLES}
    for name in TABLES:
        assert mirror(tmp_path / "tables", name) == truth(name)
        commit = DeltaTable(str(tmp_path / "tables" / "sb" / name)).history(1)[0]
        assert commit[GTID_POSITION_KEY].startswith("0-1011-")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("table_format", "mode"),
    [
        (TableFormat.ICEBERG, Mode.MIRROR),
        (TableFormat.ICEBERG, Mode.CHANGELOG),
        (TableFormat.PARQUET, Mode.CHANGELOG),
    ],
)
def test_other_formats_equal_the_server(
    spark: SparkSession, tmp_path: Path, table_format: TableFormat, mode: Mode
) -> None:
    """Tasks of several processes write at once; a batch that the checkpoint forgot is not doubled."""
    job = job_for(tmp_path, (TableRule(mode=mode),), bytes_max="300k")
    job = msgspec.structs.replace(job, sink=Sink(directory=str(tmp_path / "tables"), format=table_format))
    batches = run_once(job, spark)
    for name in (f"{batches[-1].batch_id}", f".{batches[-1].batch_id}.crc"):
        (tmp_path / "checkpoint" / "commits" / name).unlink()
    (again,) = run_once(job, spark)
    assert {table.outcome for table in again.tables} == {Outcome.REPEATED}
    check(tmp_path / "tables", table_format, mode)


@pytest.mark.thorough
def test_many_batches_and_both_modes(spark: SparkSession, tmp_path: Path) -> None:
    rules = (
        TableRule(select=r"sb\.sbtest[12]", mode=Mode.CHANGELOG),
        TableRule(select=r"sb\.sbtest3", mode=(Mode.MIRROR, Mode.CHANGELOG), target="{mode}/{table}"),
    )
    batches = run_once(job_for(tmp_path, rules, bytes_max="100k"), spark)
    assert len(batches) >= 5
    changes = Counter({table.source_table: 0 for table in batches[0].tables})
    for batch in batches:
        changes.update({table.source_table: table.changes for table in batch.tables})
    assert set(changes) == {"sb.sbtest1", "sb.sbtest2", "sb.sbtest3"}
    tables = tmp_path / "tables"
    assert not (tables / "sb" / "sbtest4").exists()
    assert DeltaTable(str(tables / "mirror" / "sbtest3")).count() == len(truth("sbtest3"))
    for name, place in (("sbtest1", "sb/sbtest1"), ("sbtest2", "sb/sbtest2"), ("sbtest3", "changelog/sbtest3")):
        assert play_changelog(tables / place)[0] == truth(name)
    assert [batch.batch_id for batch in batches] == list(range(len(batches)))
    assert batches[-1].bytes_behind == 0


def test_second_run_goes_on_where_the_first_ended(spark: SparkSession, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.mkdir()
    content = (OLTP / LOG_FILE).read_bytes()
    (log / LOG_FILE).write_bytes(content[: len(content) // 2 + 7])  # in the middle of an event
    job = job_for(tmp_path, log=log)
    (first,) = run_once(job, spark)
    assert run_once(job, spark) == []
    (log / LOG_FILE).write_bytes(content)
    (second,) = run_once(job, spark)
    assert first.changes + second.changes == CHANGES
    assert (first.batch_id, second.batch_id) == (0, 1)
    for name in TABLES:
        assert mirror(tmp_path / "tables", name) == truth(name)


def test_batch_that_the_checkpoint_forgot_is_not_doubled(spark: SparkSession, tmp_path: Path) -> None:
    """A kill between the last table and the checkpoint: the commit of the last batch is not in it."""
    job = job_for(tmp_path, (TableRule(mode=Mode.CHANGELOG),), bytes_max="300k")
    batches = run_once(job, spark)
    for name in (f"{batches[-1].batch_id}", f".{batches[-1].batch_id}.crc"):
        (tmp_path / "checkpoint" / "commits" / name).unlink()
    (again,) = run_once(job, spark)
    assert again.batch_id == batches[-1].batch_id
    assert {table.outcome for table in again.tables} == {Outcome.REPEATED}
    assert sum(DeltaTable(str(tmp_path / "tables" / "sb" / name)).count() for name in TABLES) == IMAGES


def test_deleted_checkpoint_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    job = job_for(tmp_path)
    run_once(job, spark)
    shutil.rmtree(tmp_path / "checkpoint")
    with pytest.raises(TableError, match=r"OTHER_WRITER\] sb\.sbtest\d: "):
        run_once(job, spark)


def test_failing_table_stops_the_job_before_the_offset_moves(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "tables" / "sb").mkdir(parents=True)
    obstacle = tmp_path / "tables" / "sb" / "sbtest2"
    obstacle.write_text("a file, where the table should be")
    job = job_for(tmp_path, (TableRule(mode=Mode.CHANGELOG),))
    with pytest.raises(TableError, match=r"WRITE_FAILED\] sb\.sbtest2: "):
        run_once(job, spark)
    assert not list((tmp_path / "checkpoint" / "commits").glob("[0-9]*"))
    obstacle.unlink()
    (batch,) = run_once(job, spark)
    assert batch.batch_id == 0
    assert sum(DeltaTable(str(tmp_path / "tables" / "sb" / name)).count() for name in TABLES) == IMAGES


def test_purged_log_is_named(spark: SparkSession, tmp_path: Path) -> None:
    """An error of the source comes back from Spark with its name."""
    log = tmp_path / "log"
    shutil.copytree(OLTP, log)
    job = job_for(tmp_path, log=log)
    run_once(job, spark)
    (log / LOG_FILE).rename(log / "mysql-bin.000007")
    with pytest.raises(DataLossError):
        run_once(job, spark)


def test_checkpoint_on_a_full_disk_is_named_and_the_job_goes_on_when_there_is_room(
    tmp_path: Path, spark: SparkSession
) -> None:
    """The disk gets full after the first batch: Spark cannot record that it is done."""
    job = job_for(tmp_path, bytes_max="100k")
    with small_disk(tmp_path / "checkpoint", 4) as is_small:
        if not is_small:
            pytest.skip("no disk can be mounted here")
        filled: list[Path] = []

        def fill_once(_: BatchProgress) -> None:
            if not filled:
                filled.append(fill(tmp_path / "checkpoint"))

        with pytest.raises(StorageError, match=r"NO_SPACE.*checkpoint"):
            TablesJob(job, session=spark, listener=fill_once, once=True).run()
        filled[0].unlink()
        assert run_once(job, spark)
        assert run_once(job, spark) == []


def test_full_disk_of_sparks_temporary_files_is_named_and_the_job_goes_on_when_there_is_room(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_disk(tmp_path / "temporary", 1) as is_small:
        if not is_small:
            pytest.skip("no disk can be mounted here")
        monkeypatch.setattr(spark.sparkContext, "_temp_dir", str(tmp_path / "temporary"))
        filler = fill(tmp_path / "temporary")
        with pytest.raises(StorageError, match=r"NO_SPACE.*temporary files of Spark"):
            run_once(job_for(tmp_path), spark)
        filler.unlink()
        assert run_once(job_for(tmp_path), spark)


def test_missing_log_is_named_before_spark_starts(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="PATH_NOT_FOUND"):
        TablesJob(job_for(tmp_path, log=tmp_path / "nothing"), once=True).start()


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        (
            "x\nTraceback\n[BINLOG_DATA_LOSS.FILE_PURGED] file 3 has gone. Do this\n at org",
            "BINLOG_DATA_LOSS.FILE_PURGED",
        ),
        ("[BINLOG_NO.SUCH] a\n[BINLOG_CORRUPT.NOT_ONE] b\n[BINLOG_CORRUPT.HEADER] c", "BINLOG_CORRUPT.HEADER"),
    ],
)
def test_named_errors_are_found_in_what_spark_says(text: str, condition: str) -> None:
    error = named_error(text)
    assert error is not None
    assert error.condition == condition
    assert "\n" not in str(error)
    assert named_error("[FOREACH_BATCH_USER_FUNCTION_ERROR] boom") is None


def test_command_takes_what_is_there_and_ends(spark: SparkSession, tmp_path: Path) -> None:
    ran = run_program("run", write_job(tmp_path), "--once", "--output", "jsonl")
    assert (ran.returncode, ran.stderr) == (0, "")
    events = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [line["event"] for line in events] == ["started", "batch", "ended"]
    assert events[1]["changes"] == CHANGES
    for name in TABLES:
        assert mirror(tmp_path / "tables", name) == truth(name)
    assert load_job(tmp_path / "job.toml").checkpoint == str(tmp_path / "checkpoint")


@pytest.mark.thorough
@pytest.mark.slow
def test_command_ends_cleanly_on_a_signal(tmp_path: Path) -> None:
    with RunningJob(write_job(tmp_path, bytes_max="20k")) as running:
        assert running.wait_for("batch", 3)
        running.signal(signal.SIGTERM)
        assert running.wait() == 0
        assert running.events[-1]["event"] == "stopped"
        assert running.stderr == ""


def test_command_says_a_named_error_in_one_line(spark: SparkSession, tmp_path: Path) -> None:
    job_file = write_job(tmp_path, tables='[[tables]]\nselect = "sb[.]sbtest3"\nkeys = ["uuid"]\n')
    ran = run_program("run", job_file, "--once")
    assert ran.returncode == 1
    (line,) = ran.stderr.splitlines()
    assert line.startswith("error: [BINLOG_SCHEMA.NO_PRIMARY_KEY] sb.sbtest3: ")
