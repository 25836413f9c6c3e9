from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from binlog_connector.following.watched import WatchedLog
from binlog_connector.spark.partitions import (
    PARTITION_SIZE_MAX,
    PARTITION_SIZE_MIN,
    partition_count,
    plan_partitions,
)
from tests.connector.shop import Shop

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("size", "count_min", "parallelism", "expected"),
    [
        (0, None, 8, 1),
        (PARTITION_SIZE_MIN - 1, None, 8, 1),
        (PARTITION_SIZE_MIN * 3, None, 8, 3),
        (PARTITION_SIZE_MIN * 30, None, 8, 8),
        (PARTITION_SIZE_MAX * 100, None, 8, 100),
        (1000, 5, 8, 5),
        (PARTITION_SIZE_MAX * 100 + PARTITION_SIZE_MAX // 4, 5, 8, 101),
        (PARTITION_SIZE_MAX * 2 + 1, None, 2, 2),
    ],
)
def test_partitions_are_neither_tiny_nor_huge(
    size: int, count_min: int | None, parallelism: int, expected: int
) -> None:
    assert partition_count(size, count_min=count_min, parallelism=parallelism) == expected


def test_partitions_lie_side_by_side_and_cover_the_range(tmp_path: Path) -> None:
    with Shop(tmp_path, files_of=8 * 16384) as shop:
        shop.sell(800)
    with WatchedLog(str(tmp_path)) as watched:
        start = watched.log.start_position()
        end = watched.log.span(start).end
        parts = plan_partitions(watched.log, start, end, count_min=6)
        assert len(parts) == 6
        assert (parts[0].start, parts[-1].end) == (start, end)
        assert all(left.end == right.start for left, right in pairwise(parts))
        groups = [sum(len(block.groups) for block in watched.log.blocks(part.start, part.end)) for part in parts]
        assert sum(groups) == 801  # and the group that the server's start wrote
        assert max(groups) < 3 * min(groups)
        assert plan_partitions(watched.log, end, end, count_min=6) == []
