"""The main job, end to end: a log in sysbench's shape into four tables of each format, with `local[2]`."""

from __future__ import annotations

import shutil
import statistics
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from bench.registry import benchmark
from bench.sysbench_log import sysbench_log

if TYPE_CHECKING:
    from binlog_streaming.settings import Mode, TableFormat
    from binlog_streaming.tables.progress import BatchProgress

RUNS = 2
"""After a first one that starts the workers and loads the kernels; the median counts."""

BYTES_PER_TRIGGER = "64m"
"""The default of a job."""


@benchmark("tables.delta.changelog.rows_per_s", unit="rows/s")
def changelog() -> float:
    """Row changes into four Delta tables, mode changelog: from the start of the first batch to the last commit."""
    from binlog_streaming.settings import Mode, TableFormat

    return _changes_per_second(Mode.CHANGELOG, TableFormat.DELTA)


@benchmark("tables.delta.mirror.rows_per_s", unit="rows/s")
def mirror() -> float:
    """Row changes into four Delta tables, mode mirror (merge), 10,000 rows each: measured in the same way."""
    from binlog_streaming.settings import Mode, TableFormat

    return _changes_per_second(Mode.MIRROR, TableFormat.DELTA)


@benchmark("tables.iceberg.changelog.rows_per_s", unit="rows/s")
def iceberg_changelog() -> float:
    """The same into Iceberg tables, mode changelog."""
    from binlog_streaming.settings import Mode, TableFormat

    return _changes_per_second(Mode.CHANGELOG, TableFormat.ICEBERG)


@benchmark("tables.iceberg.mirror.rows_per_s", unit="rows/s")
def iceberg_mirror() -> float:
    """The same into Iceberg tables, mode mirror."""
    from binlog_streaming.settings import Mode, TableFormat

    return _changes_per_second(Mode.MIRROR, TableFormat.ICEBERG)


@benchmark("tables.parquet.changelog.rows_per_s", unit="rows/s")
def parquet_changelog() -> float:
    """The same into plain Parquet files, mode changelog."""
    from binlog_streaming.settings import Mode, TableFormat

    return _changes_per_second(Mode.CHANGELOG, TableFormat.PARQUET)


def _changes_per_second(mode: Mode, table_format: TableFormat) -> float:
    return statistics.median([_one_run(mode, table_format) for _ in range(RUNS + 1)][1:])


def _one_run(mode: Mode, table_format: TableFormat) -> float:
    from binlog_streaming.settings import Job, Sink, Source, TableRule
    from binlog_streaming.spark_session import local_session  # Spark is imported only when it is measured
    from binlog_streaming.tables.job import TablesJob

    data = sysbench_log()
    work = Path(tempfile.mkdtemp(prefix="binlog-stream-bench-"))
    # The session stays up for the next run; its messages go where it was started.
    spark = local_session("bench", master="local[2]", log_file=Path(tempfile.gettempdir()) / "binlog-stream-bench.log")
    job = Job(
        source=Source(path=str(data.path), max_bytes_per_trigger=BYTES_PER_TRIGGER),
        sink=Sink(directory=str(work / "tables"), format=table_format),
        checkpoint=str(work / "checkpoint"),
        tables=(TableRule(mode=mode),),
    )
    batches: list[BatchProgress] = []
    try:
        running = TablesJob(job, session=spark, listener=batches.append)
        running.start(once=True)
        running.wait()
    finally:
        shutil.rmtree(work)
    changes = sum(batch.changes for batch in batches)
    assert changes == data.changes, f"{changes} changes were applied, the log has {data.changes}"
    # Between batches Spark plans the next one and writes its checkpoint: that counts.
    return changes / (batches[-1].finished_at - (batches[0].finished_at - batches[0].seconds))
