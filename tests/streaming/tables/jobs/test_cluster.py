"""The job on a cluster: executors are other processes than the driver, and one of them may go."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from binlog_format import open_log
from binlog_format.views.changefeed import ChangefeedView
from tests.connector.shop import Shop
from tests.faults.cluster import WORKERS, Cluster

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

JOB = """
checkpoint = "{folder}/checkpoint"

[source]
path = "{folder}/log"
maxBytesPerTrigger = "64k"
minPartitions = {workers}

[[tables]]
select = ".*"
mode = ["mirror", "changelog"]
target = "{{mode}}/{{database}}/{{table}}"

[sink]
directory = "{folder}/tables"

[spark]
master = "{master}"
settings = {{ "spark.executor.memory" = "512m", "spark.executor.cores" = 1 }}
"""
TRANSACTIONS = 1500


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "cluster") as started:
        yield started


@pytest.mark.spark
@pytest.mark.thorough
def test_a_worker_is_killed_and_every_table_is_right(tmp_path: Path, cluster: Cluster) -> None:
    with Shop(tmp_path / "log") as shop:
        shop.sell(TRANSACTIONS)
    job_file = tmp_path / "job.toml"
    job_file.write_text(JOB.format(folder=tmp_path, master=cluster.url, workers=WORKERS))
    program = "from binlog_streaming.cli import main; main()"
    command = [sys.executable, "-c", program, "run", str(job_file), "--once", "--output", "jsonl"]
    killed = batches = 0
    environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as running:
        assert running.stdout is not None
        for line in running.stdout:
            batches += msgspec.json.decode(line)["event"] == "batch"
            if batches and not killed:
                killed = cluster.kill_worker(0)  # in the batch after this one
    assert running.returncode == 0
    assert batches > 2
    assert killed >= 3  # the worker, its executor, and Python
    for table in ("orders", "items"):
        with open_log(str(tmp_path / "log")) as log:
            view = ChangefeedView(table=f"shop.{table}")
            images = pa.Table.from_batches(list(view.batches(log.committed_blocks()))).to_pylist()
        names = [name for name in images[0] if not name.startswith("_")]
        wanted = as_sorted(tuple(image[name] for name in [*names, "_change_type"]) for image in images)
        assert rows_of(tmp_path / "tables" / "changelog" / "shop" / table, [*names, "_change_type"]) == wanted
        current = {image["id"]: tuple(image[name] for name in names) for image in images}
        assert rows_of(tmp_path / "tables" / "mirror" / "shop" / table, names) == as_sorted(current.values())


def rows_of(folder: Path, names: list[str]) -> list[tuple[object, ...]]:
    rows = DeltaTable(folder).to_pyarrow_table().select(names).to_pylist()
    return as_sorted(tuple(row[name] for name in names) for row in rows)


def as_sorted(rows: Iterable[tuple[object, ...]]) -> list[tuple[object, ...]]:
    return sorted(rows, key=repr)  # notes may be null
