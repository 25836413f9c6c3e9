"""Tables by name, groups by GTID, ranges as a user says them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_format.errors import BinlogError
from binlog_format.events.table_map import TableLayout
from binlog_format.gtid import Gtid, GtidPosition
from binlog_format.position import Position
from binlog_format.views.group_filter import GroupFilter
from binlog_format.views.read_range import ReadRange
from binlog_format.views.table_filter import TableFilter
from tests.format.views.made_log import MadeGroup, MadeLog, xid


def _accepts(table_filter: TableFilter, name: str) -> bool:
    database, _, table = name.partition(".")
    return table_filter.accepts(TableLayout(database, table, (), (), "", b""))


@pytest.mark.parametrize(
    ("tables", "exclude", "name", "accepted"),
    [
        (None, None, "shop.orders", True),
        ("", "", "shop.orders", True),
        ("shop.orders", None, "shop.orders", True),
        ("shop.orders", None, "shop.orders2", False),
        ("orders", None, "shop.orders", False),
        (r"shop\..*,stock\.item", None, "stock.item", True),
        (r"shop\..*, stock\.item", None, "stock.items", False),
        (r"shop\.o.{2,5}s", None, "shop.orders", True),
        (r"shop\.[a,b]", None, "shop.b", True),
        (None, r"shop\.tmp_.*", "shop.tmp_1", False),
        (r"shop\..*", r"shop\.tmp_.*", "shop.orders", True),
        ("Shop.Orders", None, "shop.orders", False),
    ],
)
def test_expressions_match_whole_names(tables: str | None, exclude: str | None, name: str, accepted: bool) -> None:
    assert _accepts(TableFilter(tables, exclude), name) is accepted


def test_expression_that_is_none_is_named() -> None:
    with pytest.raises(BinlogError, match=r'INVALID_VALUE\] option excludeTables: .*"shop\.\("'):
        TableFilter("a", "b,shop.(")


GTIDS = st.builds(Gtid, st.integers(0, 3), st.integers(1, 2), st.integers(1, 2**64 - 1) | st.integers(1, 9))


@given(st.lists(st.none() | GTIDS, min_size=1, max_size=20), st.lists(GTIDS), st.lists(GTIDS))
def test_groups_are_kept_as_the_position_covers_them(
    gtids: list[Gtid | None], skipped: list[Gtid], last: list[Gtid]
) -> None:
    skip, until = GtidPosition.of(skipped), GtidPosition.of(last)
    log = MadeLog([MadeGroup(gtid, 1, [xid()]) for gtid in gtids], block_groups=100)
    (block,) = log.blocks()
    keep = GroupFilter(skip, until).keep(block)
    assert keep is not None
    assert keep.tolist() == [gtid is not None and not skip.covers(gtid) and until.covers(gtid) for gtid in gtids]
    assert GroupFilter().keep(block) is None


def _log(purged_to: int = 0) -> MadeLog:
    log = MadeLog([MadeGroup(Gtid(0, 1, number), 1, [xid()]) for number in range(1, 10)], block_groups=2)
    if purged_to:
        first = log.position(purged_to)
        log.start_position = lambda: first  # type: ignore[method-assign]
    return log


def test_range_takes_positions_and_gtids() -> None:
    log = _log()
    assert ReadRange.of(log, None, None) == ReadRange()
    assert ReadRange.of(log, "0:1:2", Position(0, 1, 3)) == ReadRange(Position(0, 1, 2), Position(0, 1, 3))
    read_range = ReadRange.of(log, "0-1-3", "0-1-5,1-1-1")
    wanted = ReadRange(log.start_position(), None, GtidPosition.parse("0-1-3"), GtidPosition.parse("0-1-5,1-1-1"))
    assert read_range == wanted


@pytest.mark.parametrize(("start", "end"), [("0-1", None), (None, "0:1"), ("latest", None), ("0-1-1,0-1-2", None)])
def test_edge_that_is_neither_is_named(start: str | None, end: str | None) -> None:
    with pytest.raises(BinlogError, match="INVALID_VALUE"):
        ReadRange.of(_log(), start, end)


def test_end_before_start_is_refused() -> None:
    with pytest.raises(BinlogError, match=r"START_AFTER_END\] start 0:2:0 lies behind end 0:1:9"):
        ReadRange.of(_log(), "0:2:0", "0:1:9")


def test_start_in_the_purged_part_is_data_loss() -> None:
    log = _log(purged_to=4)
    assert ReadRange.of(log, "0-1-4", None).skip == GtidPosition.parse("0-1-4")
    with pytest.raises(BinlogError, match=r"GTID_PURGED\] the log begins behind 0-1-4, the start is 0-1-3"):
        ReadRange.of(log, "0-1-3", None)


def test_reading_ends_behind_the_last_gtid() -> None:
    log = _log()
    read_range = ReadRange.of(log, None, "0-1-3")
    seen = [block.groups["seqno"].tolist() for block in read_range.blocks(log)]
    assert seen == [[1, 2], [3, 4]]
