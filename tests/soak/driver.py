"""The Spark driver that is killed: `python -m tests.soak.driver LOG WORK`; with `--report FILE` it runs to the end.

It appends every change of the log to Parquet files. It says `running` on standard output when its query has started.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.feather

from binlog_streaming.spark_session import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = ("position", "event_no", "row_no", "gtid", "op", "database", "table", "before", "after")
BYTES_PER_TRIGGER = "200k"
"""Small, so that many batches begin and end, and a kill finds the query in every state."""


def main() -> int:
    """Run the query until killed, or to the end of the log."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("log", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--report", type=Path, help="catch up, end, and write what the sink holds into this file")
    arguments = parser.parse_args()
    settings = {"spark.local.dir": str(arguments.work / "local")}
    spark = local_session("soak", settings=settings, log_file=arguments.work / "spark.log")
    sink = str(arguments.work / "changes")
    reader = spark.readStream.format("binlog-stream")
    if arguments.report is None:
        reader = reader.option("maxBytesPerTrigger", BYTES_PER_TRIGGER)
    changes = reader.load(str(arguments.log))
    writer = (
        changes.select(*COLUMNS)
        .writeStream.format("parquet")
        .option("path", sink)
        .option("checkpointLocation", str(arguments.work / "checkpoint"))
    )
    if arguments.report is None:
        query = writer.trigger(processingTime="0 seconds").start()
        sys.stdout.write("running\n")
        sys.stdout.flush()
        query.awaitTermination()
        return 1
    writer.trigger(availableNow=True).start().awaitTermination()
    pyarrow.feather.write_feather(_held(spark, sink), str(arguments.report), compression="uncompressed")
    spark.stop()
    return 0


def _held(spark: SparkSession, sink: str) -> pa.Table:
    # Through Spark: files of batches that were never committed lie there too, and count for nobody.
    held: pa.Table = spark.read.parquet(sink).select(*COLUMNS).toArrow()
    return held


if __name__ == "__main__":
    sys.exit(main())
