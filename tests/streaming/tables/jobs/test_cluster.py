"""The job on a cluster: executors are other processes than the driver, and one of them may go."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import msgspec
import pytest

from tests.connector.shop import Shop
from tests.faults.cluster import WORKERS, Cluster
from tests.streaming.test_submit import check_tables

if TYPE_CHECKING:
    from collections.abc import Iterator
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
    check_tables(tmp_path / "log", tmp_path)
