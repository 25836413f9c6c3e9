"""The Spark source into Spark's `noop` sink: what a job can get at most, with `local[2]`, over 1 GB of `.ibb`."""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.logs.datasets import SBTEST
from bench.logs.sysbench_log import GIGABYTE_TRANSACTIONS, sysbench_log
from bench.registry import benchmark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bench.logs.datasets import KeptLog

WARM_UP = 10
"""Runs before those that count: the first starts the workers and loads the kernels, and the JVM compiles its code bit
by bit (3 s of processor time, then 0.7 s in each of some runs, 0.2 s after the tenth)."""
RUNS = 5
"""The median counts."""
ROW_TRANSACTIONS = 40_000
"""The source that gives row by row reads a smaller log: what it takes grows with the rows."""
NAME = "binlog-stream"


@benchmark("spark.noop.typed.rows_per_s", unit="rows/s")
def typed_changes() -> float:
    """Row changes of one table, typed, through an AvailableNow stream: rows by the time of the batch."""
    return _median_rate(_one_table(GIGABYTE_TRANSACTIONS), table=SBTEST.full_name)


@benchmark("spark.noop.json.rows_per_s", unit="rows/s")
def json_changes() -> float:
    """Row changes of four tables as JSON, through an AvailableNow stream: rows by the time of the batch."""
    return _median_rate(sysbench_log(transactions=GIGABYTE_TRANSACTIONS))


@benchmark("spark.per_row_ratio", unit="x")
def per_row_ratio() -> float:
    """How many times as many typed rows/s as through a source that decodes and hands over row by row, in Python."""
    from bench.spark.per_row_source import register

    spark = session()
    whole, small = _one_table(GIGABYTE_TRANSACTIONS), _one_table(ROW_TRANSACTIONS)
    name = register(spark)
    options = {"table": SBTEST.full_name}
    ours, by_row = [], []
    for _ in range(WARM_UP + RUNS):
        ours.append(_run(spark, NAME, whole, options))
        by_row.append(_run(spark, name, small, options))
    return statistics.median(ours[WARM_UP:]) / statistics.median(by_row[WARM_UP:])


@benchmark("spark.split2.speedup", unit="x")
def split_speedup() -> float:
    """How many times as fast two partitions are read as one: all events of the log, as rows."""
    return _split_speedup(sysbench_log(transactions=GIGABYTE_TRANSACTIONS), {"view": "events"})


@benchmark("spark.split2.rows.speedup", unit="x")
def split_rows_speedup() -> float:
    """The same for typed rows into `noop`: there one partition keeps both cores busy, with Python and with the JVM."""
    return _split_speedup(_one_table(GIGABYTE_TRANSACTIONS), {"table": SBTEST.full_name})


def session() -> SparkSession:
    """The session that all benchmarks share; it stays up, and its messages go where it was started."""
    from binlog_streaming.spark_session import local_session  # Spark is imported only when it is measured

    return local_session("bench", master="local[2]", log_file=Path(tempfile.gettempdir()) / "binlog-stream-bench.log")


def _one_table(transactions: int) -> KeptLog:
    return sysbench_log(transactions=transactions, tables=1)


def _median_rate(log: KeptLog, **options: str) -> float:
    spark = session()
    return statistics.median([_run(spark, NAME, log, options) for _ in range(WARM_UP + RUNS)][WARM_UP:])


def _run(spark: SparkSession, source: str, log: KeptLog, options: dict[str, str]) -> float:
    work = Path(tempfile.mkdtemp(prefix="binlog-stream-bench-"))
    try:
        changes = spark.readStream.format(source).options(**options).load(str(log.path))
        sink = changes.writeStream.format("noop").option("checkpointLocation", str(work / "checkpoint"))
        query = sink.trigger(availableNow=True).start()
        query.awaitTermination()
    finally:
        shutil.rmtree(work)
    batches = [progress for progress in query.recentProgress if progress.numInputRows]
    rows = sum(progress.numInputRows for progress in batches)
    assert rows == log.changes, f"{rows} rows came out, the log has {log.changes}"
    return 1000 * rows / sum(progress.durationMs["triggerExecution"] for progress in batches)


def _split_speedup(log: KeptLog, options: dict[str, str]) -> float:
    spark = session()
    seconds: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(RUNS + 1):
        for count, taken in seconds.items():
            # A task each: the log is larger than one partition may be, so a task reads several, one after the other.
            read = spark.read.format(NAME).options(**options).load(str(log.path)).coalesce(count)
            started = time.perf_counter()
            read.write.format("noop").mode("overwrite").save()
            taken.append(time.perf_counter() - started)
    return statistics.median([one / two for one, two in zip(seconds[1][1:], seconds[2][1:], strict=True)])
