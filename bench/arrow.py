"""From the bytes of an `.ibb` log to Arrow columns, on one core, without Spark."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

import numpy as np

from bench.logs.sysbench_log import sysbench_log
from bench.registry import benchmark
from binlog_format import open_log
from binlog_format.rows.images import ImageKind, read_images
from binlog_format.rows.table_events import TableMaps

if TYPE_CHECKING:
    from pathlib import Path

RUNS = 5
"""After a first one that loads the kernels and the page cache; the median counts."""


@benchmark("innodb.arrow.rows_per_s", unit="rows/s")
def row_changes() -> float:
    """Row changes of four sysbench tables into Arrow columns (all of them), one core, page cache warm."""
    log = sysbench_log()
    seconds = statistics.median([_decode(log.path, log.changes) for _ in range(RUNS + 1)][1:])
    return log.changes / seconds


@benchmark("innodb.arrow.copy_ratio", unit="x")
def copy_ratio() -> float:
    """How many times as long that takes as a plain copy of the same bytes in memory, in the same run."""
    log = sysbench_log()
    content = np.concatenate([np.fromfile(path, np.uint8) for path in sorted(log.path.glob("*.ibb"))])[: log.size]
    target = np.empty_like(content)
    decode, copy = [], []
    for _ in range(RUNS + 1):
        decode.append(_decode(log.path, log.changes))
        started = time.perf_counter()
        np.copyto(target, content)
        copy.append(time.perf_counter() - started)
    return statistics.median(decode[1:]) / statistics.median(copy[1:])


def _decode(path: Path, changes: int) -> float:
    started = time.perf_counter()
    found = 0
    with open_log(str(path)) as log:
        maps = TableMaps()
        for block in log.committed_blocks():
            for touched in maps.resolve(block):
                images = read_images(block.data, block.events, touched.events, touched.layout)
                for column in range(len(touched.layout.columns)):
                    images.column(column)
                found += int((images.table["kind"] != ImageKind.UPDATE_BEFORE).sum())
    seconds = time.perf_counter() - started
    assert found == changes, f"{found} row changes came out, the log has {changes}"
    return seconds
