"""The Spark source into Spark's `noop` sink: what a job can get at most, with `local[2]`."""

from __future__ import annotations

import shutil
import statistics
import tempfile
from pathlib import Path

from bench.datasets import SBTEST
from bench.registry import benchmark
from bench.sysbench_log import sysbench_log

TRANSACTIONS = 125_000
RUNS = 3
"""After a first one that starts the workers and loads the kernels; the median counts."""


@benchmark("spark.noop.typed.rows_per_s", unit="rows/s")
def typed_changes() -> float:
    """Row changes of one table, typed, through an AvailableNow stream: rows by the time of the batch."""
    return _rows_per_second(table=SBTEST.full_name)


@benchmark("spark.noop.json.rows_per_s", unit="rows/s")
def json_changes() -> float:
    """Row changes of all tables as JSON, through an AvailableNow stream: rows by the time of the batch."""
    return _rows_per_second()


def _rows_per_second(**options: str) -> float:
    return statistics.median([_one_run(options) for _ in range(RUNS + 1)][1:])


def _one_run(options: dict[str, str]) -> float:
    from binlog_streaming.spark_session import local_session  # Spark is imported only when it is measured

    data = sysbench_log(transactions=TRANSACTIONS, tables=1)
    work = Path(tempfile.mkdtemp(prefix="binlog-stream-bench-"))
    # The session stays up for the next run; its messages go where it was started.
    spark = local_session("bench", master="local[2]", log_file=Path(tempfile.gettempdir()) / "binlog-stream-bench.log")
    try:
        changes = spark.readStream.format("binlog-stream").options(**options).load(str(data.path))
        sink = changes.writeStream.format("noop").option("checkpointLocation", str(work / "checkpoint"))
        query = sink.trigger(availableNow=True).start()
        query.awaitTermination()
    finally:
        shutil.rmtree(work)
    batches = [progress for progress in query.recentProgress if progress.numInputRows]
    rows = sum(progress.numInputRows for progress in batches)
    assert rows == data.changes, f"{rows} rows came out, the log has {data.changes}"
    return 1000 * rows / sum(progress.durationMs["triggerExecution"] for progress in batches)
