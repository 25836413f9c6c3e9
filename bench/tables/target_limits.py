"""A Delta target by itself, without log and Spark: `lake.commit10k_ms` and `lake.scan_ratio`."""

from __future__ import annotations

import statistics
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from deltalake.transaction import AddAction, RemoveAction

from bench.registry import benchmark, share
from bench.tables.limits import COMPRESSED
from binlog_streaming.lake.change import Change
from binlog_streaming.lake.commit_id import CommitId
from binlog_streaming.lake.delta.target import DeltaTarget
from binlog_streaming.settings import Mode, Sink

if TYPE_CHECKING:
    from numpy.typing import NDArray

FILES = 10_000
FILE_ROWS = 100
COMMITS = 10
COMMIT_CHANGES = 1000
"""Row changes of a batch, all in neighbouring files."""

ROWS = 2_000_000
BATCHES = 100
BATCH_CHANGES = 2000
SCANS = 7


@benchmark("lake.commit10k_ms", unit="ms")
def commit_into_many_files() -> float:
    """A batch of 1,000 row changes into a Delta table of 10,000 files: the median of those after the first."""
    files = round(share() * FILES)
    with tempfile.TemporaryDirectory(prefix="binlog-stream-bench-") as work:
        uri = f"{work}/table"
        sink = Sink(directory=work)
        with closing(DeltaTarget.at(sink, uri)) as target:
            target.create(_rows(np.arange(0), 0).schema, _commit_id(0))
        _add_files(uri, files)
        seconds = []
        versions = np.zeros(files * FILE_ROWS, np.int64)
        with closing(DeltaTarget.at(sink, uri)) as target:
            for batch_id in range(1, COMMITS + 2):
                first = (batch_id - 1) * (len(versions) - COMMIT_CHANGES) // COMMITS
                keys = np.arange(first, first + COMMIT_CHANGES)
                versions[keys] = batch_id
                started = time.perf_counter()
                target.merge(_change(keys, batch_id), _commit_id(batch_id))
                seconds.append(time.perf_counter() - started)
        _prove(uri, versions)
    return 1000 * statistics.median(seconds[1:])


@benchmark("lake.scan_ratio", unit="x")
def scan_after_updates() -> float:
    """Reading a mirror after 100 batches of updates anywhere in it, by the time for a clean copy, with deltalake."""
    count = round(share() * ROWS)
    numbers = np.random.default_rng(1)
    with tempfile.TemporaryDirectory(prefix="binlog-stream-bench-") as work:
        uri, copy = f"{work}/table", f"{work}/copy"
        sink = Sink(directory=work)
        versions = np.zeros(count, np.int64)
        with closing(DeltaTarget.at(sink, uri)) as target:
            target.create(_rows(np.arange(0), 0).schema, _commit_id(0))
            target.append(_rows(np.arange(count), versions).to_reader(), _commit_id(0))
            for batch_id in range(1, BATCHES + 1):
                keys = np.sort(numbers.choice(count, min(BATCH_CHANGES, count), replace=False))
                versions[keys] = batch_id
                target.merge(_change(keys, batch_id), _commit_id(batch_id))
                target.maintain(sink)
        _prove(uri, versions)
        write_deltalake(copy, _rows(np.arange(count), versions), writer_properties=COMPRESSED)
        taken: dict[str, list[float]] = {uri: [], copy: []}
        for _ in range(SCANS):
            for path, seconds in taken.items():
                started = time.perf_counter()
                assert _read(path).num_rows == count
                seconds.append(time.perf_counter() - started)
    return statistics.median(taken[uri]) / statistics.median(taken[copy])


def _rows(keys: NDArray[np.int64], versions: NDArray[np.int64] | int) -> pa.Table:
    filler = np.frombuffer(b"the quick brown fox jumps over the lazy dog, and over the others", "S32")
    versions = np.broadcast_to(np.asarray(versions, np.int64), keys.shape)
    return pa.table(
        {
            "id": pa.array(keys, pa.int64()),
            "k": pa.array(versions, pa.int64()),
            "score": pa.array(keys * 0.5 + versions, pa.float64()),
            "text": pa.array(filler[(keys + versions) % 2]).cast(pa.string()),
        }
    )


def _change(keys: NDArray[np.int64], version: int) -> Change:
    rows = _rows(keys, version)
    return Change(rows, rows.select(["id"]).slice(0, 0))


def _commit_id(batch_id: int) -> CommitId:
    return CommitId("bench", batch_id, 2, "bench.t", Mode.MIRROR, ("id",), "0:0:0", f"0:0:{batch_id}", None)


def _add_files(uri: str, count: int) -> None:
    # In one commit of somebody else's, as a table may have grown in years.
    actions: list[AddAction | RemoveAction] = []
    for number in range(count):
        rows = _rows(np.arange(number * FILE_ROWS, (number + 1) * FILE_ROWS), 0)
        path = Path(uri, f"part-{number:05d}.parquet")
        pq.write_table(rows, path, compression="zstd")
        stats = (
            f'{{"numRecords":{FILE_ROWS},"minValues":{{"id":{number * FILE_ROWS}}},'
            f'"maxValues":{{"id":{(number + 1) * FILE_ROWS - 1}}},"nullCount":{{"id":0}}}}'
        )
        actions.append(AddAction(path.name, path.stat().st_size, {}, 0, True, stats))
    table = DeltaTable(uri)
    table.create_write_transaction(actions, mode="append", schema=table.schema())


def _read(uri: str) -> pa.Table:
    return pa.table(QueryBuilder().register("t", DeltaTable(uri)).execute("SELECT * FROM t"))


def _prove(uri: str, versions: NDArray[np.int64]) -> None:
    expected = _rows(np.arange(len(versions)), versions)
    found = _read(uri).cast(expected.schema).sort_by("id")
    assert found.combine_chunks().equals(expected.combine_chunks()), f"{uri} holds other rows"
