"""A planned range is read whole, or the read says that it is not there any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from binlog_connector.spark.partitions import RangePartition
from binlog_connector.spark.reading import planned_blocks
from binlog_format import open_log
from binlog_format.errors import DataLossError
from binlog_format.gtid_set import NO_GTIDS
from tests.connector.shop import Shop
from tests.corpus import SERVER_CASES

if TYPE_CHECKING:
    from pathlib import Path

PAGE_SIZE = 16384


def _whole(path: str) -> RangePartition:
    with open_log(path) as log:
        start = log.start_position()
        return RangePartition(start, log.span(start).end, NO_GTIDS)


def _groups(path: str, partition: RangePartition) -> int:
    with open_log(path) as log:
        return sum(len(block.groups) for block in planned_blocks(log, partition))


@pytest.mark.parametrize("path", [SERVER_CASES / "mariadb-10.11" / "oltp_small"], ids=["classic"])
def test_a_range_up_to_the_end_of_a_closed_log_is_whole(path: Path) -> None:
    assert _groups(str(path), _whole(str(path))) == 309


def test_a_range_that_is_still_there_is_read_whole(tmp_path: Path) -> None:
    with Shop(tmp_path) as shop:
        shop.sell(200)
    assert _groups(str(tmp_path), _whole(str(tmp_path))) == 201  # and the group that the server's start wrote


def test_a_range_whose_end_was_taken_back_is_a_loss(tmp_path: Path) -> None:
    """Crash recovery zeroes pages that had been planned: the batch must fail, not come out smaller."""
    with Shop(tmp_path) as shop:
        shop.sell(200)
    partition = _whole(str(tmp_path))
    assert partition.end.page > 2
    with (tmp_path / "binlog-000000.ibb").open("r+b") as file:
        file.seek(2 * PAGE_SIZE)
        file.write(bytes((partition.end.page - 1) * PAGE_SIZE))
    with pytest.raises(DataLossError, match=r"TRUNCATED_TRANSACTION.*when this was planned"):
        _groups(str(tmp_path), partition)
