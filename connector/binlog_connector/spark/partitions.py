"""Spark partitions of a read: `plan_partitions` -> `RangePartition`."""

from __future__ import annotations

import itertools
import logging
import os
import zlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from binlog_connector.following.entry_marks import numbers_within, states_at
from binlog_connector.following.offsets import PreparedHistory
from binlog_connector.following.starts import sound_ranges

if TYPE_CHECKING:
    from binlog_connector.following.offsets import SourceOffset
    from binlog_connector.following.watched import WatchedLog
    from binlog_format.errors import CorruptError
    from binlog_format.gtids.gtid_set import Taken
    from binlog_format.log.log import Log
    from binlog_format.position import Position
    from binlog_format.transactions.xa import PreparedXa

logger = logging.getLogger(__name__)

PARTITION_SIZE_MIN = 4 << 20
"""Below this, starting a task costs more than reading."""

PARTITION_SIZE_MAX = 128 << 20
"""A partition is one Spark task: the unit that is retried, and that is spread over executors; of files Spark takes as
much. A task costs 20 ms and more of processor time, however little it reads."""

_REST_MAX = PARTITION_SIZE_MAX // 8
"""Size up to which a remainder joins the partition before: a batch ends after the transaction with which it is full,
and would be one task more than there are processors."""


@dataclass(frozen=True)
class RangePartition(InputPartition):
    """The groups whose position is in [start, end), without those that `skip` covers.

    `prepared_xa` are XA transactions known to be prepared at the start (`classic`). Only groups that `until` covers are
    wanted, where it is given. `gap` names what is missing before the start; `format` is the log's. `packed_state` is
    what is in force at the start of a structured log: a large program has much of it, and there are many partitions.
    `files` are the numbers of its later files, each of which has events.
    """

    start: Position
    end: Position
    skip: Taken | None = None
    prepared_xa: tuple[PreparedXa, ...] = ()
    until: Taken | None = None
    gap: str | None = None
    format: str | None = None
    packed_state: bytes = b""
    files: frozenset[int] = frozenset()

    @property
    def state(self) -> bytes:
        """`SourceOffset.state` at the start."""
        return zlib.decompress(self.packed_state) if self.packed_state else b""


def plan_partitions(
    log: Log,
    start: Position,
    end: Position,
    *,
    skip: Taken | None = None,
    count_min: int | None,
    prepared: PreparedHistory | None = None,
    state: bytes = b"",
) -> list[RangePartition]:
    """Cut [start, end) into parts of similar size, in order; none when it is empty.

    Args:
        count_min: Least number of parts; None: by size.
        state: `SourceOffset.state` at *start*; empty: the log has none.
    """
    if start >= end:
        return []
    count = partition_count(_size_between(log, start, end), count_min=count_min, parallelism=_parallelism())
    edges = [start, *(log.split(start, end, count) if count > 1 else []), end]
    prepared = prepared or PreparedHistory(start)
    states = [b""] * len(edges)
    if state and log.events is not None:
        states = [zlib.compress(state_there) for state_there in states_at(log.events, start, state, edges[:-1])]
    numbers = () if log.events is None else tuple(place.file_no for place in log.file_starts())
    return [
        RangePartition(
            left,
            right,
            skip,
            prepared.at(left),
            format=log.format_name,
            packed_state=packed,
            files=numbers_within(numbers, left, right),
        )
        for (left, right), packed in zip(itertools.pairwise(edges), states, strict=False)
        if left < right
    ]


def leave_out(error: CorruptError, _byte: int | None = None) -> None:
    """Warn of what is damaged, and therefore in no row of a query."""
    logger.warning("left out: %s", error)


def sound_partitions(
    watched: WatchedLog, begin: SourceOffset, end: Position | None, count_min: int | None
) -> list[RangePartition]:
    """Partitions of all parts of a structured log from *begin* on that can be read; others get a warning each."""
    return [
        part
        for start, stop in sound_ranges(watched, begin, end, leave_out)
        for part in plan_partitions(watched.log, start.position, stop.position, count_min=count_min, state=start.state)
    ]


def with_gap(parts: list[RangePartition], gap: str | None, start: Position) -> list[RangePartition]:
    """*parts*, the first of which names what is missing before *start*; a part of its own where there are none."""
    if gap is None:
        return parts
    if not parts:
        return [RangePartition(start, start, gap=gap)]
    return [replace(parts[0], gap=gap), *parts[1:]]


def partition_count(size: int, *, count_min: int | None, parallelism: int) -> int:
    """Number of partitions for *size* bytes: enough work for each task, and enough tasks for each processor."""
    by_size = -(-(size - _REST_MAX) // PARTITION_SIZE_MAX)
    if count_min is not None:
        return max(count_min, by_size)
    by_processors = min(parallelism, size // PARTITION_SIZE_MIN)
    return max(1, by_processors, by_size)


def _size_between(log: Log, start: Position, end: Position) -> int:
    whole = sum(log.file_sizes(start.file_no, end.file_no).values())
    return max(0, whole + log.size_before(end) - log.size_before(start))


def _parallelism() -> int:
    # Spark tells a Python data source nothing about the cluster; the processors here are right for local mode and a
    # start elsewhere. `minPartitions` is for the user to decide.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
