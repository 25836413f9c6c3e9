"""How long a user waits for his first table, and how much of it is Spark's own start: `lake.first_commit*`."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.logs.backlog import CHANGES, backlog
from bench.registry import benchmark

RUNS = 3
# Spark with the settings of a job, and the least that a stream out of Python into Python can do: one batch of one row.
_SPARK_ALONE = """
import sys
import time
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from binlog_streaming.spark_session import PLANNING_ONLY, local_session

class Reader(DataSourceStreamReader):
    def initialOffset(self):
        return {"row": 0}

    def latestOffset(self, start=None, limit=None):
        return {"row": 1}

    def partitions(self, start, end):
        return [InputPartition(0)]

    def read(self, partition):
        yield (1,)

class Source(DataSource):
    @classmethod
    def name(cls):
        return "one"

    def schema(self):
        return "id INT"

    def streamReader(self, schema):
        return Reader()

def write(frame, batch_id):
    rows = [row[0] for row in frame.collect()]
    context = frame.sparkSession.sparkContext
    assert context.parallelize(rows, 1).map(lambda row: row + 1).collect() == [2]

session = local_session("alone", settings=PLANNING_ONLY)
session.dataSource.register(Source)
stream = session.readStream.format("one").load().writeStream.foreachBatch(write)
stream = stream.option("checkpointLocation", sys.argv[1]).trigger(once=True).start()
stream.awaitTermination()
print(time.time())
"""
TRANSACTIONS = 1000
TABLES = 4
ROWS_PER_TABLE = 2000


@benchmark("lake.first_commit_s", unit="s")
def first_commit() -> float:
    """From `binlog-stream mirror LOG --to DIR --once` in a fresh process to its first rows in a table; median of 3.

    Java takes what `SPARK_SUBMIT_OPTS` sets, as for a user: with a record of Spark's classes (docs/operations.md) it
    starts in half of the time.
    """
    log = backlog(transactions=TRANSACTIONS, tables=TABLES, rows_per_table=ROWS_PER_TABLE)
    assert log.changes == TRANSACTIONS * CHANGES + TABLES * ROWS_PER_TABLE
    return statistics.median(first_commit_seconds(log.path) for _ in range(RUNS))


@benchmark("lake.first_commit.spark_ratio", unit="x")
def first_commit_ratio() -> float:
    """The same by what Spark alone takes for a first batch of one row from Python to Python; in turns, medians of 3.

    Starting programs is what differs most between machines; this ratio hardly does.
    """
    log = backlog(transactions=TRANSACTIONS, tables=TABLES, rows_per_table=ROWS_PER_TABLE)
    pairs = [(first_commit_seconds(log.path), spark_seconds()) for _ in range(RUNS)]
    return statistics.median(ours for ours, _ in pairs) / statistics.median(alone for _, alone in pairs)


def spark_seconds() -> float:
    """From the start of a fresh process until Spark has done the least that a stream can do."""
    with tempfile.TemporaryDirectory(prefix="binlog-stream-bench-") as work:
        command = [sys.executable, "-c", _SPARK_ALONE, f"{work}/checkpoint"]
        started = time.time()
        printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
        return float(printed) - started


def first_commit_seconds(log: Path) -> float:
    """One run of the command over *log*."""
    # Python keeps what it has compiled of modules; a user's does too.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    program = "from binlog_streaming.cli import main; main()"
    with tempfile.TemporaryDirectory(prefix="binlog-stream-bench-") as work:
        command = [sys.executable, "-c", program, "mirror", str(log), "--to", f"{work}/lake", "--once"]
        started = time.time()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
        commits = [path for path in Path(work).glob("lake/*/*/_delta_log/*.json") if '"add"' in path.read_text()]
        return min(path.stat().st_mtime for path in commits) - started
