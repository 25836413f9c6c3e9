"""What may happen around a job: full disks, other writers, files purged, logs rewritten: nothing is lost or doubled."""

from __future__ import annotations

import contextlib
import itertools
import shutil
from contextlib import closing
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from binlog_connector.crash_points import watched
from binlog_format import open_log
from binlog_format.errors import DataLossError, TableError
from binlog_streaming.lake.iceberg.catalog import identifier, open_catalog
from binlog_streaming.lake.target import CrashPoint
from binlog_streaming.settings import Sink, TableFormat
from tests.faults.processes import files_up_to
from tests.streaming.tables.batches import cut, write
from tests.streaming.tables.jobs.test_job import LOG_FILE, job_for, run_once
from tests.streaming.tables.lake.sink_cases import MIRROR_SINKS, Place
from tests.streaming.tables.oltp import OLTP
from tests.streaming.tables.shop import ShopLog
from tests.streaming.tables.statements.statement_stories import ID, NAME, ONLY, ORDERS, STORIES, wanted, write_story

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

ITEMS = wanted("items", ID, NAME)


@pytest.mark.parametrize("table_format", MIRROR_SINKS, ids=str)
@pytest.mark.parametrize("size", [0, 700, 1500])
def test_full_disk_is_named_and_the_batch_goes_again(tmp_path: Path, table_format: TableFormat, size: int) -> None:
    """Somewhere in a batch with statements, at a data file or at a file of the table's log."""
    story, held = STORIES["gh-ost"]
    sink = Sink(directory=str(tmp_path / "tables"), format=table_format)
    with ShopLog(tmp_path / "log") as log:
        story(log)
    with files_up_to(size), pytest.raises(TableError, match=r"WRITE_FAILED\] shop\._?orders"):
        write_story(tmp_path, story, (ONLY,), sink=sink)
    for _ in range(2):
        write_story(tmp_path, story, (ONLY,), sink=sink)
        assert Place(tmp_path / "tables", table_format, "shop/orders").sorted_rows() == held["orders"]


def put_in(place: Place, row: dict[str, object]) -> None:
    """What somebody else may do to a table, with its own library."""
    if place.format is TableFormat.DELTA:
        write_deltalake(place.uri, pa.Table.from_pylist([row], schema=place.content().schema), mode="append")
        return
    with closing(open_catalog(place.sink)) as catalog:
        table = catalog.load_table(identifier(str(place.directory), place.uri))
        table.append(pa.Table.from_pylist([row], schema=place.content().schema))


def exists(place: Place) -> bool:
    with closing(place.target()) as target:
        return target.properties() is not None


@pytest.mark.parametrize("table_format", MIRROR_SINKS, ids=str)
def test_rows_that_somebody_else_adds_are_left_alone(tmp_path: Path, table_format: TableFormat) -> None:
    """Between two batches, and between the look and the write of one, also of one with a statement."""
    place = Place(tmp_path / "tables", table_format, "shop/orders")
    with ShopLog(tmp_path / "log") as writer:
        writer.insert(ORDERS, (1, "a"))
        writer.insert(ORDERS, (2, "b"))
        writer.statement("ALTER TABLE orders ADD COLUMN price INT DEFAULT 5")
        writer.update(wanted("orders", ID, NAME), ((1, "a"), (1, "c")))
    intruders: list[int] = []
    looks = itertools.count()

    def intrude(step: CrashPoint) -> None:
        if (
            step is CrashPoint.LOOKED and next(looks) % 3 and len(intruders) < 4
        ):  # so now and then a write is left in peace
            intruders.append(100 + len(intruders))
            put_in(place, {"id": intruders[-1], "name": "x"})

    with open_log(str(tmp_path / "log")) as log:
        for batch_id, batch in enumerate(cut(log, 10)):
            with watched(intrude) if exists(place) else contextlib.nullcontext():
                write(log, batch, tmp_path / "tables", batch_id, sink=place.sink)
            if exists(place):
                put_in(place, {"id": 200 + batch_id, "name": "x"})
    assert len(intruders) > 1
    found = {row["id"]: row["name"] for row in place.content().to_pylist()}
    assert place.content().num_rows == len(found)
    assert {number: name for number, name in found.items() if number < 100} == {1: "c", 2: "b"}
    assert set(intruders) <= set(found)
    assert len([number for number in found if number >= 200]) == 4


@pytest.mark.spark
def test_files_purged_under_a_stopped_job_are_named_and_may_come_back(spark: SparkSession, tmp_path: Path) -> None:
    job = job_for(tmp_path, log=tmp_path / "log")
    backup = tmp_path / "backup"
    with ShopLog(tmp_path / "log") as log:
        log.insert(ORDERS, (1, "a"))
        run_once(job, spark)
        log.insert(ORDERS, (2, "b"))
        log.flush()
        log.insert(ORDERS, (3, "c"))
        log.flush()
        log.insert(ORDERS, (4, "d"))
        shutil.copytree(tmp_path / "log", backup)
        log.purge(before=2)
        before = DeltaTable(str(tmp_path / "tables" / "shop" / "orders")).version()
        with pytest.raises(DataLossError, match=r"FILE_PURGED\].* after GTID 0-1-1 up to 0-1-"):
            run_once(job, spark)
        assert DeltaTable(str(tmp_path / "tables" / "shop" / "orders")).version() == before
        for name in ("binlog-000000.ibb", "binlog-000001.ibb"):
            shutil.copy(backup / name, tmp_path / "log" / name)
        run_once(job, spark)
    assert rows(tmp_path, "orders") == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]


@pytest.mark.spark
@pytest.mark.parametrize("is_written", [False, True], ids=["before its tables", "after its tables"])
def test_batch_under_way_whose_files_are_purged_ends_no_job_that_accepts_losses(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_written: bool
) -> None:
    """Killed within a batch, and then the batch's files go: what is left is taken, and the loss is recorded."""
    job = job_for(tmp_path, log=tmp_path / "log")
    job = msgspec.structs.replace(job, source=msgspec.structs.replace(job.source, fail_on_data_loss=False))
    with ShopLog(tmp_path / "log") as log:
        log.insert(ORDERS, (1, "a"))
        run_once(job, spark)
        log.insert(ORDERS, (2, "b"))
        log.flush()
        log.insert(ORDERS, (3, "c"))
        log.flush()
        if is_written:
            (batch,) = run_once(job, spark)
            for name in (f"{batch.batch_id}", f".{batch.batch_id}.crc"):
                (tmp_path / "checkpoint" / "commits" / name).unlink()
        else:
            with monkeypatch.context() as patch:
                patch.setattr("binlog_streaming.tables.job.write_batch", killed)
                with pytest.raises(TableError, match="killed"):
                    run_once(job, spark)
        log.insert(ORDERS, (4, "d"))
        log.purge(before=2)
        run_once(job, spark)
        run_once(job, spark)
    kept = [(2, "b"), (3, "c")] if is_written else []
    assert rows(tmp_path, "orders") == [(1, "a"), *kept, (4, "d")]


def killed(*_: object) -> None:
    raise TableError("WRITE_FAILED", "killed")


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.parametrize("forgotten", [False, True], ids=["stopped", "killed before the checkpoint"])
def test_log_rewritten_after_a_crash_of_the_server_is_named(
    spark: SparkSession, tmp_path: Path, *, forgotten: bool
) -> None:
    """The server takes visible transactions back and writes others; the job has them in its tables already."""
    log, before, job = tmp_path / "log", tmp_path / "before", job_for(tmp_path, log=tmp_path / "log")
    with ShopLog(log) as writer:
        writer.insert(ORDERS, (1, "a"))
        writer.insert(ITEMS, (1, "a"))
        run_once(job, spark)
        shutil.copytree(log, before)
        writer.insert(ORDERS, (2, "taken back"))
        writer.insert(ITEMS, (2, "taken back"))
        (batch,) = run_once(job, spark)
    shutil.rmtree(log)
    shutil.copytree(before, log)
    with ShopLog(log, first=2) as writer:
        writer.insert(ORDERS, (2, "another"))
        writer.insert(ITEMS, (2, "another"))
    if forgotten:
        for name in (f"{batch.batch_id}", f".{batch.batch_id}.crc"):
            (tmp_path / "checkpoint" / "commits" / name).unlink()
    with pytest.raises(DataLossError, match="PAGE_REWRITTEN"):
        run_once(job, spark)
    for table in ("orders", "items"):
        assert rows(tmp_path, table) == [(1, "a"), (2, "taken back")]


@pytest.mark.spark
def test_classic_log_that_lost_its_end_is_named(spark: SparkSession, tmp_path: Path) -> None:
    """As a server does it: the file is cut behind the last whole transaction, and another one follows."""
    log = tmp_path / "log"
    log.mkdir()
    content = (OLTP / LOG_FILE).read_bytes()
    (log / LOG_FILE).write_bytes(content)
    job = job_for(tmp_path, log=log)
    run_once(job, spark)
    (log / LOG_FILE).write_bytes(content[: len(content) // 2])
    (log / "mysql-bin.000002").write_bytes(content)
    before = {name: DeltaTable(str(tmp_path / "tables" / "sb" / name)).version() for name in ("sbtest1", "sbtest2")}
    with pytest.raises(DataLossError, match=r"TRUNCATED_TRANSACTION\] .*lost its last transactions"):
        run_once(job, spark)
    assert before == {name: DeltaTable(str(tmp_path / "tables" / "sb" / name)).version() for name in before}


@pytest.mark.spark
@pytest.mark.parametrize("bound", ["visible", "sealed"])
def test_sealed_files_are_never_taken_back(spark: SparkSession, tmp_path: Path, bound: str) -> None:
    """File N is read once file N+2 is there (a server makes the next one beforehand); what is read then stays."""
    job = job_for(tmp_path, log=tmp_path / "log")
    job = msgspec.structs.replace(job, source=msgspec.structs.replace(job.source, bound=bound))
    with ShopLog(tmp_path / "log") as writer:
        for number in (1, 2, 3):
            writer.insert(ORDERS, (number, "a"))
            if number < 3:
                writer.flush()
        run_once(job, spark)
    assert [row[0] for row in rows(tmp_path, "orders")] == ([1, 2] if bound == "sealed" else [1, 2, 3])


def rows(folder: Path, table: str) -> list[tuple[object, ...]]:
    return Place(folder / "tables", TableFormat.DELTA, f"shop/{table}").sorted_rows()
