"""The job beside a log that is being written: `lake.lag_p95_s`, and what a table costs: `lake.per_table_ms`."""

from __future__ import annotations

import shutil
import statistics
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bench.logs.backlog import CHANGES, ROWS_PER_TABLE, TABLES, Shop
from bench.logs.datasets import FIRST_SECOND, SERVER_ID
from bench.registry import benchmark
from bench.spark.source import session
from binlog_lab.event_encoding.event_encoding import Origin, encode_format_description
from binlog_lab.innodb_writer.options import WriterOptions
from binlog_lab.innodb_writer.server import BinlogWriter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from bench.logs.backlog import Group
    from binlog_streaming.job_state.progress import BatchProgress

PATIENCE_S = 300
"""For one batch; only on a machine that has much else to do it takes more than some seconds."""

LAG_TRIGGER = "2s"
CHANGES_PER_S = 5_000
TICK_S = 0.02
"""A checkpoint of the log each time: so often new bytes can be seen."""
WARM_UP_S = 10
MEASURED_S = 30

MANY_TABLES = 200
SMALL_ROWS = 1000
FEW_TRIGGER = "500ms"
ROUNDS = 5


@benchmark("lake.lag_p95_s", unit="s")
def lag() -> float:
    """From bytes on disk to the commit in the table, four mirrors of 250,000 rows, 5,000 changes/s, trigger 2 s: p95.

    A transaction is taken to be visible when the batch is, in all its tables: a little later than it is.
    """
    shop = Shop(TABLES, ROWS_PER_TABLE)
    per_tick = round(CHANGES_PER_S * TICK_S / CHANGES)
    groups = list(shop.transactions(round((WARM_UP_S + MEASURED_S) / TICK_S) * per_tick))
    ticks: list[tuple[float, int]] = []  # time, row changes so far
    with _running_job(LAG_TRIGGER) as live:
        live.write(shop.load())
        live.wait_for(TABLES * ROWS_PER_TABLE)
        written = live.changes()
        begin = time.time()
        for number, first in enumerate(range(0, len(groups), per_tick)):
            time.sleep(max(0.0, begin + number * TICK_S - time.time()))
            live.write(groups[first : first + per_tick])
            written += per_tick * CHANGES
            ticks.append((time.time(), written))
        live.wait_for(written)
        finished = [(batch.finished_at, changes) for batch, changes in live.reached()]
    assert ticks[-1][0] - begin < 1.1 * (WARM_UP_S + MEASURED_S), "the log was not written fast enough"
    visible = [next(at for at, changes in finished if changes >= wanted) for _, wanted in ticks]
    taken = [seen - at for (at, _), seen in zip(ticks, visible, strict=True) if at >= begin + WARM_UP_S]
    return float(np.percentile(taken, 95))


@benchmark("lake.per_table_ms", unit="ms")
def per_table() -> float:
    """What one more table that a batch touches adds to it: 200 mirrors with 20 row changes each, beside one of them."""
    one, many = _few_changes()[1:]
    return 1000 * (many - one) / (MANY_TABLES - 1)


@benchmark("lake.per_untouched_table_ms", unit="ms")
def per_untouched_table() -> float:
    """What a table that a batch does not touch adds: batches of one table, beside 199 others and alone."""
    alone, one, _ = _few_changes()
    return 1000 * (one - alone) / (MANY_TABLES - 1)


_few: list[tuple[float, float, float]] = []


def _few_changes() -> tuple[float, float, float]:
    # Seconds of a batch of one table that is alone, of one beside others, and of all.
    if not _few:
        shop = Shop(MANY_TABLES, SMALL_ROWS)
        with _running_job(FEW_TRIGGER) as live:
            live.write(shop.load(range(1)))
            live.wait_for(SMALL_ROWS)
            alone = live.batch_seconds(shop, 1)
            live.write(shop.load(range(1, MANY_TABLES)))
            live.wait_for(live.changes() + SMALL_ROWS * (MANY_TABLES - 1))
            _few.append((alone, live.batch_seconds(shop, 1), live.batch_seconds(shop, MANY_TABLES)))
    return _few[0]


class _Live:
    # A log that is being written, and the batches of the job that reads it.
    def __init__(self, directory: Path) -> None:
        origin = Origin(FIRST_SECOND, SERVER_ID)
        start = encode_format_description("12.3.1-MariaDB-log", FIRST_SECOND, origin)
        self._writer = BinlogWriter(directory, WriterOptions(sync=False), format_description=start)
        self._batches: list[BatchProgress] = []
        self._arrived = threading.Condition()

    def write(self, groups: Iterable[Group]) -> None:
        for group in groups:
            self._writer.write_group(*group)
        self._writer.checkpoint()

    def close(self) -> None:
        self._writer.close()

    def take(self, batch: BatchProgress) -> None:
        with self._arrived:
            self._batches.append(batch)
            self._arrived.notify_all()

    def changes(self) -> int:
        return sum(batch.changes for batch in self._batches)

    def reached(self) -> list[tuple[BatchProgress, int]]:
        sums = np.cumsum([batch.changes for batch in self._batches]).tolist()
        return list(zip(self._batches, sums, strict=True))

    def wait_for(self, changes: int) -> None:
        with self._arrived:
            there = self._arrived.wait_for(lambda: self.changes() >= changes, PATIENCE_S)
        assert there, f"{self.changes()} row changes arrived, {changes} were written"

    def batch_seconds(self, shop: Shop, tables: int) -> float:
        taken: list[float] = []
        # The first one is not like the others, and one that fell apart into two batches means nothing.
        while len(taken) < ROUNDS + 1:
            there = len(self._batches)
            wanted = self.changes() + tables * CHANGES
            self.write(shop.transactions(tables, range(tables)))
            self.wait_for(wanted)
            if len(self._batches) == there + 1:
                taken.append(self._batches[-1].seconds)
        return statistics.median(taken[1:])


@contextmanager
def _running_job(interval: str) -> Iterator[_Live]:
    from binlog_streaming.settings import Job, Sink, Source, Trigger
    from binlog_streaming.tables.job import TablesJob

    work = Path(tempfile.mkdtemp(prefix="binlog-stream-bench-"))
    live = _Live(work / "log")
    try:
        job = Job(
            source=Source(path=str(work / "log")),
            sink=Sink(directory=str(work / "tables")),
            checkpoint=str(work / "checkpoint"),
            trigger=Trigger(interval=interval),
        )
        running = TablesJob(job, session=session(), listener=live.take)
        running.start()
        try:
            yield live
        finally:
            running.stop()
            running.wait()
    finally:
        live.close()
        shutil.rmtree(work)
