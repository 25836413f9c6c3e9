"""The Spark source: into Spark's `noop` sink, what a job can get at most, with `local[2]`, over 1 GB of `.ibb`.

Its latency: from bytes on disk to a row in `foreachBatch`, beside a live writer. Its planning: what it costs on the
driver when nothing is new, in processor time, as it does not wait for anything.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bench.logs.datasets import DATA, FIRST_SECOND, SBTEST, SERVER_ID
from bench.logs.sysbench_log import GIGABYTE_TRANSACTIONS, sysbench_log
from bench.logs.tick_log import COMMITS_PER_S, TICKS, TickWriter
from bench.registry import benchmark
from binlog_format.gtids.gtid import Gtid
from binlog_lab.event_encoding.event_encoding import Origin, encode_format_description, encode_gtid, encode_xid
from binlog_lab.event_encoding.table_encoding import TableEncoder
from binlog_lab.innodb_writer.options import WriterOptions
from binlog_lab.innodb_writer.server import BinlogWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from bench.logs.datasets import KeptLog
    from binlog_connector.spark.stream_reader import BinlogStreamReader


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
        late.extend((time_written, now) for time_written in written)

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


FILES = 1000
FILE_SIZE = 4 * 16384
CALLS = 200
_ROW = (1, 2, "c" * 119, "d" * 59)


@benchmark("spark.idle.latest_offset_ms", unit="ms")
def idle_latest_offset() -> float:
    """`latestOffset` of a log of 1,000 files to which nothing has been added; median of 200 calls."""
    reader, end = _caught_up()
    return _median_ms(partial(reader.latestOffset, end, reader.getDefaultReadLimit()))


@benchmark("spark.trigger_ms", unit="ms")
def idle_trigger() -> float:
    """All that Spark asks of the source in a trigger that finds nothing, on the same log; median of 200."""
    reader, end = _caught_up()

    def trigger() -> None:
        reader.latestOffset(end, reader.getDefaultReadLimit())
        reader.reportLatestOffset()

    return _median_ms(trigger)


def _median_ms(action: Callable[[], object]) -> float:
    taken = []
    for _ in range(CALLS):
        started = time.process_time()
        action()
        taken.append(time.process_time() - started)
    return 1000 * statistics.median(taken)


def _caught_up() -> tuple[BinlogStreamReader, Mapping[str, object]]:
    from binlog_connector.spark.source import BinlogDataSource

    options = {"path": str(_many_files()), "startingOffsets": "latest"}
    source = BinlogDataSource(options)
    reader = source.streamReader(source.schema())
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    return reader, end


def _many_files() -> Path:
    directory = DATA / f"files-1-{FILES}"
    done = directory / "done"
    if not done.exists():
        origin = Origin(FIRST_SECOND, SERVER_ID)
        encoder = TableEncoder(SBTEST, 20)
        start = encode_format_description("12.3.1-MariaDB-log", FIRST_SECOND, origin)
        options = WriterOptions(max_binlog_size=FILE_SIZE, sync=False)
        seqno = 0
        with BinlogWriter(directory, options, format_description=start) as writer:
            while writer.position.file_no < FILES - 1:
                seqno += 1
                gtid = Gtid(0, SERVER_ID, seqno)
                events = [encoder.table_map(origin), *encoder.insert([_ROW] * 20, origin), encode_xid(seqno, origin)]
                writer.write_group(gtid, encode_gtid(gtid, FIRST_SECOND), events)
            writer.checkpoint()
        done.write_text("")
    return directory
