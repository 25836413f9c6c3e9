"""From the bytes of a log, checksums verified, to Arrow columns, on one core, without Spark: `rows.*`.

The way is that of every view: committed blocks, the row events of each table, their images, each column of all images.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bench.logs.datasets import Form
from bench.logs.row_logs import blob_log, transaction_log, wide_log
from bench.logs.sysbench_log import sysbench_log
from bench.machine import peak_bytes
from bench.registry import benchmark
from binlog_format import open_log
from binlog_format.rows.images import ImageKind, read_images
from binlog_format.views.filters import GroupFilter, TableFilter
from binlog_format.views.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.logs.datasets import KeptLog

RUNS = 7
"""After a first one that loads the kernels and the page cache; the median counts, in processor time of one core."""
STARTS = 5
MEDIUM_TRANSACTION = 48_000_000
LARGE_TRANSACTION = 1_000_000_000

_ROOT = Path(__file__).parents[1]
_FIRST_BATCH = "import sys, binlog_format; next(binlog_format.open_log(sys.argv[1]).changes())"


@benchmark("rows.sysbench.innodb.gb_per_s", unit="GB/s")
def sysbench_innodb() -> float:
    """Bytes of an `.ibb` log in sysbench's shape into Arrow columns, page checksums verified."""
    return _gb_per_s(sysbench_log())


@benchmark("rows.sysbench.innodb.rows_per_s", unit="rows/s")
def sysbench_innodb_rows() -> float:
    """Row changes in the same time; an update counts once, though it has two images."""
    log = sysbench_log()
    return log.changes / _seconds(log)


@benchmark("rows.sysbench.classic.gb_per_s", unit="GB/s")
def sysbench_classic() -> float:
    """The same content as a classic binlog file, the CRC-32 of every event verified."""
    return _gb_per_s(sysbench_log(Form.CLASSIC))


@benchmark("rows.sysbench.classic.rows_per_s", unit="rows/s")
def sysbench_classic_rows() -> float:
    """Row changes in the same time."""
    log = sysbench_log(Form.CLASSIC)
    return log.changes / _seconds(log)


@benchmark("rows.wide.gb_per_s", unit="GB/s")
def wide() -> float:
    """Rows of 40 columns of mixed types with NULLs (`.ibb`)."""
    return _gb_per_s(wide_log())


@benchmark("rows.wide.values_per_s", unit="values/s")
def wide_values() -> float:
    """Values of those rows in the same time: four images for three changes."""
    log = wide_log()
    return 40 * log.changes * 4 / 3 / _seconds(log)


@benchmark("rows.blobs.gb_per_s", unit="GB/s")
def blobs() -> float:
    """Rows with long texts, which are checked to be UTF-8, and blobs (`.ibb`)."""
    return _gb_per_s(blob_log())


@benchmark("rows.memcpy.gb_per_s", unit="GB/s")
def memcpy() -> float:
    """A plain copy, in memory, of the bytes of the sysbench log: what no decoder can beat."""
    log = sysbench_log()
    content = np.concatenate([np.fromfile(path, np.uint8) for path in sorted(log.path.glob("*.ibb"))])[: log.size]
    target = np.empty_like(content)
    return log.size / _median(lambda: np.copyto(target, content)) / 1e9


@benchmark("rows.tx48mb.peak_rss_mb", unit="MB")
def medium_transaction() -> float:
    """Most memory of a process that decodes one transaction of 48 MB, 250,000 rows; the larger of both formats."""
    return _peak_mb(MEDIUM_TRANSACTION)


@benchmark("rows.tx1gb.peak_rss_mb", unit="MB")
def large_transaction() -> float:
    """The same for one transaction of 1 GB."""
    return _peak_mb(LARGE_TRANSACTION)


@benchmark("rows.first_batch_s", unit="s")
def first_batch() -> float:
    """From the start of a new process to the first batch of the view `changes`, kernels in their cache on disk."""
    log = sysbench_log(Form.CLASSIC)
    command = [sys.executable, "-c", _FIRST_BATCH, str(log.path)]
    taken = []
    for _ in range(STARTS + 1):
        started = time.perf_counter()
        subprocess.run(command, check=True, cwd=_ROOT)
        taken.append(time.perf_counter() - started)
    return statistics.median(taken[1:])


def _gb_per_s(log: KeptLog) -> float:
    return log.size / _seconds(log) / 1e9


def _seconds(log: KeptLog) -> float:
    def run() -> None:
        found = decode(log.path)
        assert found == log.changes, f"{found} row changes came out, the log has {log.changes}"

    return _median(run)


def _median(action: Callable[[], object]) -> float:
    taken = []
    for _ in range(RUNS + 1):
        started = time.process_time()
        action()
        taken.append(time.process_time() - started)
    return statistics.median(taken[1:])


def _peak_mb(size: int) -> float:
    peaks = []
    for form in Form:
        log = transaction_log(size, form)
        command = [sys.executable, "-m", "bench.rows", str(log.path)]
        result = subprocess.run(command, check=True, capture_output=True, text=True, cwd=_ROOT)
        changes, peak = result.stdout.split()
        assert int(changes) == log.changes, f"{changes} row changes came out, the log has {log.changes}"
        peaks.append(int(peak) / 1e6)
    return max(peaks)


def decode(path: Path) -> int:
    """Decode all columns of all images of a log; how many row changes there are."""
    found = 0
    selection = Selection(TableFilter(), GroupFilter(None, None))
    with open_log(str(path)) as log:
        for block in log.committed_blocks():
            for touched in selection.of(block):
                images = read_images(block.data, block.events, touched.events, touched.layout, place=block.place)
                for column in range(len(touched.layout.columns)):
                    images.column(column)
                found += int(np.count_nonzero(images.table["kind"] != ImageKind.UPDATE_BEFORE))
    return found


if __name__ == "__main__":
    print(decode(Path(sys.argv[1])), peak_bytes())
