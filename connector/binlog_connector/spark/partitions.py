"""How a read is cut into Spark's partitions: `plan_partitions` -> `RangePartition`."""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from binlog_format.classic.layout import VIRTUAL_PAGE_SIZE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_format.gtid import GtidPosition
    from binlog_format.log import Log, LogFile
    from binlog_format.position import Position

PARTITION_SIZE_MIN = 4 << 20
"""Below this, starting a task costs more than reading."""

PARTITION_SIZE_MAX = 64 << 20
"""A partition is one Spark task: the unit that is retried, and that is spread over executors."""


@dataclass(frozen=True)
class RangePartition(InputPartition):
    """The groups whose position is in [start, end), without those that `skip_gtid` covers."""

    start: Position
    end: Position
    skip_gtid: GtidPosition


def plan_partitions(
    log: Log, start: Position, end: Position, *, skip_gtid: GtidPosition, count_min: int | None
) -> list[RangePartition]:
    """Cut [start, end) into parts of similar size, in order; none when it is empty."""
    if start >= end:
        return []
    count = partition_count(_size_between(log.files(), start, end), count_min=count_min, parallelism=_parallelism())
    edges = [start, *(log.split(start, end, count) if count > 1 else []), end]
    return [RangePartition(left, right, skip_gtid) for left, right in itertools.pairwise(edges) if left < right]


def partition_count(size: int, *, count_min: int | None, parallelism: int) -> int:
    """Number of partitions for *size* bytes: enough work for each task, and enough tasks for each processor."""
    if count_min is not None:
        return max(count_min, -(-size // PARTITION_SIZE_MAX))
    by_processors = min(parallelism, size // PARTITION_SIZE_MIN)
    return max(1, by_processors, -(-size // PARTITION_SIZE_MAX))


def _size_between(files: Sequence[LogFile], start: Position, end: Position) -> int:
    whole = sum(file.used_size for file in files if start.file_no <= file.file_no < end.file_no)
    # An estimate: pages of `innodb` are of this size too, except in logs made for tests.
    return max(0, whole + (end.page - start.page) * VIRTUAL_PAGE_SIZE)


def _parallelism() -> int:
    # Spark tells a Python data source nothing about the cluster; the processors here are right for local mode and a
    # start elsewhere. `minPartitions` is the user's say.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
