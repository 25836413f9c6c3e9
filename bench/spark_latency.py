"""From bytes on disk to a row in `foreachBatch`, beside a live writer: `spark.latency_p95_ms`."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bench.registry import benchmark
from bench.spark_source import NAME, session
from binlog_format.events.encoding import Origin, encode_format_description, encode_gtid, encode_xid
from binlog_format.events.table_encoding import ColumnSpec, TableEncoder, TableSpec
from binlog_format.gtid import Gtid
from binlog_format.innodb.writer.options import WriterOptions
from binlog_format.innodb.writer.server import BinlogWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TRIGGER = "1 second"
COMMITS_PER_S = 50
START_S = 120
"""Of the query, until its first rows: only on a machine that has much else to do it takes more than some seconds."""
WARM_UP_S = 10
MEASURED_S = 30
TICKS = TableSpec("bench", "ticks", (ColumnSpec("id", "bigint"), ColumnSpec("written_ns", "bigint")), ("id",))
SERVER_ID = 1


@benchmark("spark.latency_p95_ms", unit="ms")
def latency() -> float:
    """From the write of a transaction's page to its row in foreachBatch, trigger 1 s, 50 commits/s: 95th percentile."""
    work = Path(tempfile.mkdtemp(prefix="binlog-stream-bench-"))
    writer = _Writer(work / "log")
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


class _Writer(threading.Thread):
    # Each transaction is in the file as soon as it is committed.
    def __init__(self, directory: Path) -> None:
        super().__init__(daemon=True)
        now = int(time.time())
        start = encode_format_description("12.3.1-MariaDB-log", now, Origin(now, SERVER_ID))
        self._writer = BinlogWriter(directory, WriterOptions(sync=False), format_description=start)
        self._encoder = TableEncoder(TICKS, 20)
        self._seqno = 0
        self._ends = threading.Event()

    def commit(self) -> None:
        self._seqno += 1
        gtid, now = Gtid(0, SERVER_ID, self._seqno), time.time_ns()
        origin = Origin(now // 1_000_000_000, SERVER_ID)
        rows = self._encoder.insert([(self._seqno, now)], origin)
        events = [self._encoder.table_map(origin), *rows, encode_xid(self._seqno, origin)]
        self._writer.write_group(gtid, encode_gtid(gtid, origin.timestamp), events)
        self._writer.checkpoint()

    def run(self) -> None:
        while not self._ends.wait(1 / COMMITS_PER_S):
            self.commit()

    def stop(self) -> None:
        self._ends.set()
        if self.is_alive():
            self.join()
        self._writer.close()
