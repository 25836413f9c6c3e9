"""Small batches: time of a commit for each hundred changes (`lake.small.*`), the log after them (`lake.delta_log.*`).

The writer alone, as a job calls it for each batch: look, merge, maintenance. A log and Spark take their own time, which
other benchmarks measure.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from bench.registry import benchmark, share
from bench.tables.evidence import COMMIT_ID, table_rows
from binlog_streaming.lake.change import Change
from binlog_streaming.lake.delta import maintenance
from binlog_streaming.lake.delta.target import DeltaTarget
from binlog_streaming.lake.sinks import sink_type
from binlog_streaming.settings import Sink, TableFormat

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = 100_000
FLUSHED = 100
"""Rows of a batch; a tenth of the table is updated in batches of so many."""
LOG_ROWS, LOG_BATCHES, LOG_FLUSHED = 1_000, 2_000, 6
AGE_S = 8 * 86_400
"""Age from which on commits may go, with the default retention."""
LOOKS = 15


@dataclass(frozen=True, slots=True)
class WrittenTable:
    """A table after its batches; *seconds*: time of all but the first one, in which kernels are loaded."""

    uri: str
    seconds: float
    sink: Sink


@benchmark("lake.small.delta_s", unit="s")
def small_delta() -> float:
    """100,000 rows, a tenth of them updated, a commit for every 100: time of the 100 commits, Delta, `merge = "auto"`.

    Published for the same work: DuckLake 4.1 s, Iceberg with copy on write 34.3 s (streambed, on another machine).
    """
    return _small(TableFormat.DELTA)


@benchmark("lake.small.iceberg_s", unit="s")
def small_iceberg() -> float:
    """The same for Iceberg, version 2, in the SQLite catalog of a folder."""
    return _small(TableFormat.ICEBERG)


@benchmark("lake.delta_log.mb", unit="MB")
def log_size() -> float:
    """Bytes of a Delta log after 2,000 batches of 6 rows into a table of 1,000 rows, cleaned, its commits all kept."""
    with tempfile.TemporaryDirectory(prefix="binlog-stream-bench-") as work:
        return log_bytes(many_batches(work).uri) / 1e6


@benchmark("lake.delta_log.scan_ratio", unit="x")
def scan_ratio() -> float:
    """Time that deltalake takes to read that table, opened, by that of a fresh copy; medians, in turns."""
    with tempfile.TemporaryDirectory(prefix="binlog-stream-bench-") as work:
        ours, copy = _aged_and_copied(work)
        pairs = [(scan_seconds(ours), scan_seconds(copy)) for _ in range(LOOKS)]
        return statistics.median(ours for ours, _ in pairs) / statistics.median(theirs for _, theirs in pairs)


@benchmark("lake.delta_log.open_ms", unit="ms")
def open_time() -> float:
    """Time that deltalake takes to open that table, more than it takes for a fresh copy of one commit; medians."""
    with tempfile.TemporaryDirectory(prefix="binlog-stream-bench-") as work:
        ours, copy = _aged_and_copied(work)
        pairs = [(open_seconds(ours), open_seconds(copy)) for _ in range(LOOKS)]
        return statistics.median(ours - theirs for ours, theirs in pairs) * 1000


def log_bytes(uri: str) -> int:
    """Bytes of the files of a table's log."""
    return sum(path.stat().st_size for path in Path(uri, "_delta_log").rglob("*") if path.is_file())


def age(uri: str) -> None:
    """Let all files of a table's log be older than its retention."""
    for path in Path(uri, "_delta_log").iterdir():
        os.utime(path, (time.time() - AGE_S, time.time() - AGE_S))


def scan_seconds(uri: str) -> float:
    """Time to read a table that is open."""
    table = DeltaTable(uri)
    started = time.perf_counter()
    table.scan().read_all()
    return time.perf_counter() - started


def open_seconds(uri: str) -> float:
    """Time to open a table."""
    started = time.perf_counter()
    DeltaTable(uri)
    return time.perf_counter() - started


def many_batches(work: str) -> WrittenTable:
    """A table in *work* after many small batches, its log cleaned."""
    written = _batches(Sink(directory=work), LOG_ROWS, LOG_FLUSHED, round(share() * LOG_BATCHES))
    clean(written)
    return written


def clean(written: WrittenTable) -> None:
    """Do what maintenance does to a log, once nobody can be about to read a checkpoint that has a newer one."""
    with closing(DeltaTarget.at(written.sink, written.uri)) as target:
        for path in Path(written.uri, "_delta_log").glob("*.checkpoint.parquet"):
            written_at = min(path.stat().st_mtime, time.time() - 600)
            os.utime(path, (written_at, written_at))
        maintenance.remove_checkpoints(target.store, target.log)
        DeltaTable(written.uri).cleanup_metadata()


def _aged_and_copied(work: str) -> tuple[str, str]:
    written, copy = many_batches(work), f"{work}/copy"
    age(written.uri)
    clean(written)
    write_deltalake(copy, pa.table(DeltaTable(written.uri).scan().read_all()))
    return written.uri, copy


def _small(table_format: TableFormat) -> float:
    count = round(share() * ROWS)
    with tempfile.TemporaryDirectory(prefix="binlog-stream-bench-") as work:
        return _batches(Sink(directory=work, format=table_format), count, FLUSHED, count // 10 // FLUSHED).seconds


def _batches(sink: Sink, count: int, flushed: int, batches: int) -> WrittenTable:
    uri = f"{sink.directory}/bench/t"
    factory = sink_type(sink.format)
    keys = np.arange(count)
    with closing(factory.at(sink, uri)) as new:
        rows = table_rows(keys, np.zeros(count, np.int64))
        new.create(rows.schema, COMMIT_ID)
        new.append(rows.to_reader(), COMMIT_ID)
    started = 0.0
    for batch_id, change in enumerate(_changes(count, flushed, batches + 1)):
        if batch_id == 1:
            started = time.perf_counter()
        with closing(factory.at(sink, uri)) as target:
            target.merge(change, replace(COMMIT_ID, batch_id=batch_id, step=1, last_change=f"0:0:{batch_id}"))
            target.maintain(sink)
    seconds = time.perf_counter() - started
    with closing(factory.at(sink, uri)) as target:
        assert target.read().read_all().num_rows == count
    return WrittenTable(uri, seconds, sink)


def _changes(count: int, flushed: int, batches: int) -> Iterator[Change]:
    numbers = np.random.default_rng(1)
    for version in range(batches):
        rows = table_rows(np.sort(numbers.choice(count, flushed, replace=False)), np.full(flushed, version))
        yield Change(rows, rows.select(["id"]).slice(0, 0))
