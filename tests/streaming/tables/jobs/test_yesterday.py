"""Targets and checkpoints that an earlier version wrote go on as if nothing had happened."""

from __future__ import annotations

import shutil
import tarfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from binlog_format import open_log
from binlog_format.views.changefeed import ChangefeedView
from binlog_streaming.lake.sinks import sink_type
from binlog_streaming.settings import Mode, TableFormat, load_job
from binlog_streaming.tables.job import TablesJob
from tests.data.yesterday.make_targets import JOBS, PLACE, LongShop

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from binlog_streaming.settings import Job

ARCHIVE = Path(__file__).parents[3] / "data" / "yesterday" / "targets.tar.xz"
TAKEN, NEW = 30, 10
"""Transactions that the earlier version has taken, and that it has not."""
COLUMNS = ["id", "customer", "amount", "note"]


@pytest.fixture(scope="module")
def images() -> Iterator[list[dict[str, object]]]:
    """All row images of the log, with what came after; the targets are at their place."""
    shutil.rmtree(PLACE, ignore_errors=True)
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(PLACE.parent, filter="data")
    with LongShop(PLACE / "log", files_of=1 << 18) as shop:
        assert shop.seqnos == {0: TAKEN}
        shop.trade(NEW)
    with open_log(str(PLACE / "log")) as log:
        batches = list(ChangefeedView(table="shop.orders").batches(log.committed_blocks()))
    yield pa.Table.from_batches(batches).select([*COLUMNS, "_change_type"]).to_pylist()
    shutil.rmtree(PLACE)


@pytest.mark.spark
@pytest.mark.parametrize("name", sorted(JOBS))
def test_targets_of_an_earlier_version_go_on(spark: SparkSession, images: list[dict[str, object]], name: str) -> None:
    job = load_job(PLACE / f"{name}.toml")
    changes: list[int] = []
    running = TablesJob(job, session=spark, listener=lambda batch: changes.append(batch.changes), once=True)
    running.run()
    assert sum(changes) == NEW * 3 + NEW // 2 * 2
    assert rows_of(job, Mode.CHANGELOG, [*COLUMNS, "_change_type"]) == as_rows(images)
    if job.sink.format is TableFormat.PARQUET:
        return
    current = {image["id"]: image for image in images if not str(image["_change_type"]).endswith("preimage")}
    deleted = {image["id"] for image in images if image["_change_type"] == "delete"}
    assert len(deleted) == (TAKEN + NEW) // 2
    held = as_rows([image for key, image in current.items() if key not in deleted], COLUMNS)
    assert rows_of(job, Mode.MIRROR, COLUMNS) == held
    versions = [image for image in images if image["_change_type"] in ("insert", "update_postimage")]
    assert rows_of(job, Mode.SCD2, COLUMNS) == as_rows(versions, COLUMNS)


def rows_of(job: Job, mode: Mode, columns: list[str]) -> list[tuple[object, ...]]:
    with closing(sink_type(job.sink.format).at(job.sink, f"{job.sink.directory}/{mode}/shop/orders")) as target:
        return as_rows(target.read().read_all().select(columns).to_pylist())


def as_rows(images: list[dict[str, object]], columns: list[str] | None = None) -> list[tuple[object, ...]]:
    return sorted(tuple(image[name] for name in columns or image) for image in images)
