"""A program that does with Spark what tests do, while Java records the classes that it loads: see the Makefile.

Java starts in half of the time with such a record (`-XX:SharedArchiveFile`), and tests start it many times.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import msgspec
from pyspark import SparkContext

from binlog_streaming.settings import Job
from binlog_streaming.spark_session import PLANNING_ONLY, local_session
from binlog_streaming.tables.job import TablesJob
from tests.streaming.tables.oltp import CHANGES, OLTP


def main() -> None:
    """Batches, a stream, and a job."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        session = local_session("classes", settings=PLANNING_ONLY, log_file=folder / "spark.log")
        for view in ("changes", "events"):
            session.read.format("binlog-stream").option("view", view).load(str(OLTP)).where(
                "gtid IS NOT NULL"
            ).collect()
        read = session.readStream.format("binlog-stream").load(str(OLTP))
        write = read.writeStream.format("parquet").option("checkpointLocation", str(folder / "stream-checkpoint"))
        write.trigger(availableNow=True).start(str(folder / "stream")).awaitTermination()
        assert session.read.parquet(str(folder / "stream")).count() == CHANGES
        job = {
            "source": {"path": str(OLTP)},
            "sink": {"directory": str(folder / "tables")},
            "checkpoint": str(folder / "checkpoint"),
            "tables": [{}],
        }
        running = TablesJob(msgspec.convert(job, Job), session=session, once=True)
        running.run()
        gateway = SparkContext._gateway
        assert gateway is not None
        session.stop()
        gateway.shutdown()
        # Java ends when its input does, and writes its record then.
        gateway.proc.stdin.close()
        gateway.proc.wait()


if __name__ == "__main__":
    main()
