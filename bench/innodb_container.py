"""From the pages of an `.ibb` log to event tables, checksums verified: `innodb.container.*`."""

from __future__ import annotations

import multiprocessing
import statistics
import subprocess
import sys
import time
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from crc32c import crc32c

from bench.logs.oob_log import oob_log
from bench.logs.sysbench_log import GIGABYTE_TRANSACTIONS, sysbench_log
from bench.machine import peak_bytes
from bench.registry import benchmark
from binlog_format import open_log

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from binlog_format.position import Position

RUNS = 9
"""After a first one that loads the kernels and the page cache; the median counts, in processor time of one core."""

MEDIUM_GROUP = 100_000
LARGE_GROUP = 20_000_000
OOB_TOTAL = 400_000_000
HUGE_GROUP = 1_200_000_000
SPLIT_READS = 2
"""How often each process reads its part in one run."""

Logs = list[tuple[Path, int]]
"""Directories, and the bytes up to the end of the log."""


def _small() -> Logs:
    data = sysbench_log()
    return [(data.path, data.size)]


def _oob(*group_sizes: int) -> Logs:
    found = [oob_log(size, OOB_TOTAL) for size in group_sizes]
    return [(data.path, data.size) for data in found]


@benchmark("innodb.container.small.gb_per_s", unit="GB/s")
def small() -> float:
    """Bytes of the log to event tables, transactions of about 2.5 KB, one core, page cache warm."""
    return _size(_small()) / _read_seconds(_small()) / 1e9


@benchmark("innodb.container.small.events_per_s", unit="events/s")
def small_events() -> float:
    """Events in the same time."""
    return _events(_small()) / _read_seconds(_small())


@benchmark("innodb.container.small.crc32c_ratio", unit="x")
def small_by_crc32c() -> float:
    """How many times as long as CRC-32C over the same bytes in memory."""
    return _read_seconds(_small()) / _crc32c_seconds(_small())


@benchmark("innodb.container.small.copy_ratio", unit="x")
def small_by_copy() -> float:
    """How many times as long as a plain copy of the same bytes in memory."""
    return _read_seconds(_small()) / _copy_seconds(_small())


@benchmark("innodb.container.oob.gb_per_s", unit="GB/s")
def oob() -> float:
    """The same with out-of-band transactions, as many bytes in those of 100 KB as in those of 20 MB."""
    logs = _oob(MEDIUM_GROUP, LARGE_GROUP)
    return _size(logs) / _read_seconds(logs) / 1e9


@benchmark("innodb.container.oob_100kb.gb_per_s", unit="GB/s")
def oob_medium() -> float:
    """The same with out-of-band transactions of 100 KB alone."""
    return _size(_oob(MEDIUM_GROUP)) / _read_seconds(_oob(MEDIUM_GROUP)) / 1e9


@benchmark("innodb.container.oob_20mb.gb_per_s", unit="GB/s")
def oob_large() -> float:
    """The same with out-of-band transactions of 20 MB alone."""
    return _size(_oob(LARGE_GROUP)) / _read_seconds(_oob(LARGE_GROUP)) / 1e9


@benchmark("innodb.container.oob.crc32c_ratio", unit="x")
def oob_by_crc32c() -> float:
    """How many times as long as CRC-32C over the same bytes in memory."""
    logs = _oob(MEDIUM_GROUP, LARGE_GROUP)
    return _read_seconds(logs) / _crc32c_seconds(logs)


@benchmark("innodb.container.oob.copy_ratio", unit="x")
def oob_by_copy() -> float:
    """How many times as long as a plain copy of the same bytes in memory."""
    logs = _oob(MEDIUM_GROUP, LARGE_GROUP)
    return _read_seconds(logs) / _copy_seconds(logs)


@benchmark("innodb.container.oob_1gb.gb_per_s", unit="GB/s")
def oob_huge() -> float:
    """The same with one out-of-band transaction of 1.2 GB: most of it is read twice."""
    data = oob_log(HUGE_GROUP, HUGE_GROUP)
    return data.size / _read_seconds([(data.path, data.size)], runs=3) / 1e9


@benchmark("innodb.container.oob.peak_rss_mb", unit="MB")
def oob_peak() -> float:
    """Most memory that a process has resident while it reads that transaction, interpreter and libraries included."""
    data = oob_log(HUGE_GROUP, HUGE_GROUP)
    command = [sys.executable, "-m", "bench.innodb_container", str(data.path)]
    result = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(__file__).parents[1])
    events, peak = result.stdout.split()
    assert int(events) == data.events, f"{events} events came out, the log has {data.events}"
    return int(peak) / 1e6


@benchmark("innodb.container.split2.speedup", unit="x")
def split_in_two() -> float:
    """How many times as fast two processes read 1 GB of small transactions, each its range of pages."""
    one, halves, _ = _split_seconds()
    return one / halves


@benchmark("innodb.container.split2.limit", unit="x")
def split_limit() -> float:
    """What the machine has to give in the same minute: two processes that share nothing, each reads all of it."""
    one, _, twice = _split_seconds()
    return 2 * one / twice


@cache
def _split_seconds() -> tuple[float, float, float]:
    # Best wall times of one process reading the log, of two reading a half each, and of two reading all of it.
    path = sysbench_log(transactions=GIGABYTE_TRANSACTIONS).path
    with open_log(str(path)) as log:
        start = log.start_position()
        end = log.span(start).end
        (middle,) = log.split(start, end, 2)
    whole = (str(path), start, end)
    works = ([whole], [(str(path), start, middle), (str(path), middle, end)], [whole, whole])
    context = multiprocessing.get_context("spawn")
    with context.Pool(2) as pool:
        pool.starmap(_read_range, 2 * [whole], chunksize=1)
        taken: list[list[float]] = [[] for _ in works]
        for _ in range(RUNS):
            events = []
            for seconds, work in zip(taken, works, strict=True):
                started = time.perf_counter()
                events.append(sum(pool.starmap(_read_range, work, chunksize=1)))
                seconds.append(time.perf_counter() - started)
            assert events == [events[0], events[0], 2 * events[0]], f"the parts gave {events[1]} of {events[0]} events"
    one, halves, twice = (min(seconds) for seconds in taken)
    return one, halves, twice


def _read_range(path: str, start: Position, end: Position) -> int:
    with open_log(path) as log:
        for _ in range(SPLIT_READS):
            count = sum(len(block.events) for block in log.blocks(start, end))
    return count


def _read(path: Path) -> int:
    with open_log(str(path)) as log:
        return sum(len(block.events) for block in log.blocks())


def _size(logs: Logs) -> int:
    return sum(size for _, size in logs)


def _events(logs: Logs) -> int:
    return sum(_read(path) for path, _ in logs)


def _read_seconds(logs: Logs, runs: int = RUNS) -> float:
    return sum([_seconds(partial(_read, path), runs) for path, _ in logs])


def _crc32c_seconds(logs: Logs) -> float:
    return sum([_seconds(partial(crc32c, data.data)) for data in map(_content, logs)])


def _copy_seconds(logs: Logs) -> float:
    seconds = 0.0
    for data in map(_content, logs):
        target = np.empty_like(data)
        seconds += _seconds(partial(np.copyto, target, data))
    return seconds


def _content(log: tuple[Path, int]) -> NDArray[np.uint8]:
    path, size = log
    return np.concatenate([np.fromfile(file, np.uint8) for file in sorted(path.glob("*.ibb"))])[:size]


def _seconds(action: Callable[[], object], runs: int = RUNS) -> float:
    taken = []
    for _ in range(runs + 1):
        started = time.process_time()
        action()
        taken.append(time.process_time() - started)
    return statistics.median(taken[1:])


if __name__ == "__main__":
    print(_read(Path(sys.argv[1])), peak_bytes())
