"""A planned range is read whole, or the read says that it is not there any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from binlog_connector.following.watched import WatchedLog
from binlog_connector.given_definitions import GivenDefinitions
from binlog_connector.log_definitions import known_statements
from binlog_connector.options.query_views import make_view
from binlog_connector.options.source_options import SourceOptions
from binlog_connector.spark.partitions import RangePartition
from binlog_connector.spark.reading import RangeReader, planned_blocks
from binlog_connector.spark.schema import spark_json
from binlog_format import open_log
from binlog_format.errors import DataLossError, UnsupportedError
from tests.connector.shop import Shop
from tests.corpus import SERVER_CASES

if TYPE_CHECKING:
    from pathlib import Path

PAGE_SIZE = 16384


def _whole(path: str) -> RangePartition:
    with open_log(path) as log:
        start = log.start_position()
        return RangePartition(start, log.span(start).end)


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


def _rows(path: Path, **given: str) -> int:
    options = SourceOptions.parse({"path": str(path), **given})
    reader = RangeReader(options, spark_json(make_view(options).schema(None)))
    return sum(batch.num_rows for batch in reader.read(_whole(str(path))))


def test_statement_that_changes_rows_of_a_wanted_table_ends_the_read() -> None:
    ops = SERVER_CASES / "mariadb-10.11" / "ops"
    with pytest.raises(UnsupportedError, match=r"STATEMENT_FORMAT.*0-1011-.*t\.audit"):
        _rows(ops, tables="t[.]audit")
    with pytest.raises(UnsupportedError, match="STATEMENT_FORMAT"):
        _rows(ops)
    assert _rows(ops, failOnStatement="false") > 100
    assert _rows(ops, excludeTables="t[.](audit|many|sq|sv3)") > 100
    assert _rows(ops, view="tables") > 10


def test_what_statements_before_a_part_say_is_read_on_from_where_it_was_known() -> None:
    path = str(SERVER_CASES / "mariadb-10.11" / "ops")
    with WatchedLog(path) as watched:
        start, end = watched.log.start_position(), watched.log.end_position()
        (middle,) = watched.log.split(start, end, 2)
        whole = known_statements(watched).scope_before(watched, end).to_json()
        assert known_statements(watched).scope_before(watched, start).to_json() != whole
        part = known_statements(watched).scope_before(watched, middle).to_json()
        assert known_statements(watched).scope_before(watched, end).to_json() == whole != part


@pytest.mark.parametrize("folds", [True, False, None])
def test_statements_before_a_part_are_understood_with_names_as_the_server_compares_them(folds: bool | None) -> None:
    with WatchedLog(str(SERVER_CASES / "mariadb-10.11" / "ops")) as watched:
        (middle,) = watched.log.split(watched.log.start_position(), watched.log.end_position(), 2)
        known = known_statements(watched, GivenDefinitions(folds_names=folds))
        assert known.scope_before(watched, middle).names.folds is folds
