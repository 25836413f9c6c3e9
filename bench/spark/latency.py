"""From bytes on disk to a row in `foreachBatch`, beside a live writer: `spark.latency_p95_ms`."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bench.logs.tick_log import COMMITS_PER_S, TICKS, TickWriter
from bench.registry import benchmark
from bench.spark.source import NAME, session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TRIGGER = "1 second"
START_S = 120
"""Of the query, until its first rows: only on a machine that has much else to do it takes more than some seconds."""
WARM_UP_S = 10
MEASURED_S = 30


@benchmark("spark.latency_p95_ms", unit="ms")
def latency() -> float:
    """From the write of a transaction's page to its row in foreachBatch, trigger 1 s, 50 commits/s: 95th percentile."""
    work = Path(tempfile.mkdtemp(prefix="binlog-stream-bench-"))
    writer = TickWriter(work / "log")
    late: list[tuple[int, int]] = []  # written, arrived

    def arrived(frame: DataFrame, _: int) -> None:
        written = frame.select("after.written_ns").toArrow().column(0).to_pylist()
        now = time.time_ns()
        late.extend((one, now) for one in written)

    try:
        writer.commit()  # the table's columns are read from the log
        writer.start()
        changes = session().readStream.format(NAME).option("table", TICKS.full_name).load(str(work / "log"))
        sink = changes.writeStream.foreachBatch(arrived).option("checkpointLocation", str(work / "checkpoint"))
        query = sink.trigger(processingTime=TRIGGER).start()
        deadline = time.monotonic() + START_S
        while not late and query.isActive and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(WARM_UP_S)
        begin = time.time_ns()
        time.sleep(MEASURED_S)
        end = time.time_ns()
        time.sleep(5)  # what was written last must count, however late it comes
        query.stop()
    finally:
        writer.stop()
        shutil.rmtree(work)
    taken = [(there - written) / 1e6 for written, there in late if begin <= written < end]
    assert len(taken) > COMMITS_PER_S * MEASURED_S / 2, f"only {len(taken)} rows arrived"
    return float(np.percentile(taken, 95))
