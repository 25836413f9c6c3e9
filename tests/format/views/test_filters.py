"""Tables by name, groups by GTID, ranges as a user gives them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_format.errors import BinlogError
from binlog_format.gtids.gtid import Gtid
from binlog_format.gtids.gtid_set import DomainStarts
from binlog_format.log.log import ReadRange
from binlog_format.views.filters import GroupFilter, TableFilter
from tests.format.views.made_log import MadeGroup, MadeLog, xid


def _accepts(table_filter: TableFilter, name: str) -> bool:
    database, _, table = name.partition(".")
    return table_filter.accepts_name(database, table)


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
        (None, None, "binlog_stream.snapshot_marks", False),
        (r"binlog_stream\..*", None, "binlog_stream.s_0123456789abcdef", False),
    ],
)
def test_expressions_match_whole_names(tables: str | None, exclude: str | None, name: str, accepted: bool) -> None:
    assert _accepts(TableFilter(tables, exclude), name) is accepted


@pytest.mark.parametrize(
    ("tables", "exclude", "database", "may_be"),
    [
        (None, None, "shop", True),
        (None, None, "binlog_stream", False),
        (r"shop\..*", None, "shop", True),
        (r"shop\..*", None, "hr", False),
        (r"shop\.a,hr[.]b", None, "hr", True),
        (r"s.*\.a", None, "shop", True),
        (".*", None, "hr", True),
        (r"(shop\.a|hr\.b)", None, "stock", True),  # not known: the dot is within a group
        (None, r"hr\..*", "hr", False),
        (None, r"hr\.a", "hr", True),
        ("shop.*,hr.*", r"hr\.[^.]+", "hr", False),
    ],
)
def test_whether_a_database_may_have_such_tables(
    tables: str | None, exclude: str | None, database: str, may_be: bool
) -> None:
    assert TableFilter(tables, exclude).may_accept_in(database) is may_be


def test_expression_that_is_none_is_named() -> None:
    with pytest.raises(BinlogError, match=r'INVALID_VALUE\] option excludeTables: .*"shop\.\("'):
        TableFilter("a", "b,shop.(")


GTIDS = st.builds(Gtid, st.integers(0, 3), st.integers(1, 2), st.integers(1, 2**64 - 1) | st.integers(1, 9))


@given(st.lists(st.none() | GTIDS, min_size=1, max_size=20), st.data())
def test_groups_are_kept_from_and_up_to_where_their_domains_are(gtids: list[Gtid | None], data: st.DataObject) -> None:
    """In whatever order the numbers are."""
    log = MadeLog([MadeGroup(gtid, 1, [xid()]) for gtid in gtids], block_groups=100)
    (block,) = log.blocks()
    places = st.dictionaries(st.integers(0, 3), st.integers(0, len(gtids)), max_size=4)
    skipped, last = data.draw(places), data.draw(places)
    skip, until = (
        DomainStarts({domain: log.position(row) for domain, row in rows.items()}) for rows in (skipped, last)
    )
    keep = GroupFilter(skip, until).keep(block)
    assert keep is not None
    assert keep.tolist() == [
        gtid is not None and skipped.get(gtid.domain, 0) <= row < last.get(gtid.domain, 0)
        for row, gtid in enumerate(gtids)
    ]
    assert GroupFilter().keep(block) is None
    assert DomainStarts.parse(str(skip)) == skip


def _log(purged_to: int = 0) -> MadeLog:
    log = MadeLog([MadeGroup(Gtid(0, 1, number), 1, [xid()]) for number in range(1, 10)], block_groups=2)
    if purged_to:
        first = log.position(purged_to)
        log.start_position = lambda: first  # type: ignore[method-assign]
    return log


def test_range_takes_positions_and_gtids() -> None:
    log = _log()
    assert ReadRange.of(log, None, None) == ReadRange()
    first, second = log.position(1), log.position(2)
    assert ReadRange.of(log, str(first), second) == ReadRange(first, second)
    start, end = log.position(3), log.position(5)
    wanted = ReadRange(start, end, DomainStarts({0: start}), DomainStarts({0: end}))
    assert ReadRange.of(log, "0-1-3", "0-1-5") == wanted


@pytest.mark.parametrize(("start", "end"), [("0-1", None), (None, "0:1"), ("latest", None), ("0-1-1,0-1-2", None)])
def test_edge_that_is_neither_is_named(start: str | None, end: str | None) -> None:
    with pytest.raises(BinlogError, match="INVALID_VALUE"):
        ReadRange.of(_log(), start, end)


def test_end_before_start_is_refused() -> None:
    log = _log()
    start, end = log.position(3), log.position(2)
    with pytest.raises(BinlogError, match=rf"START_AFTER_END\] start {start} comes after end {end}"):
        ReadRange.of(log, start, end)
    with pytest.raises(BinlogError, match=r"START_AFTER_END\] start 0-1-5 comes after end 0-1-3"):
        ReadRange.of(log, "0-1-5", "0-1-3")
    assert list(ReadRange.of(log, "0-1-3", "0-1-3").blocks(log)) == []


def test_what_the_log_has_not_come_to_is_refused() -> None:
    log = _log()
    for start, end in (("0-1-10", None), (None, "0-1-10"), ("7-1-1", None), (None, "0-1-3,7-1-1")):
        with pytest.raises(BinlogError, match="GTID_NOT_FOUND"):
            ReadRange.of(log, start, end)
    for start, end in (("0:99:0", None), (None, "1:0:0"), ("0:0:63", None)):
        with pytest.raises(BinlogError, match="POSITION_NOT_FOUND"):
            ReadRange.of(log, start, end)


def test_start_in_the_purged_part_is_data_loss() -> None:
    log = _log(purged_to=4)
    assert ReadRange.of(log, "0-1-4", None).skip == DomainStarts({0: log.start_position()})
    with pytest.raises(BinlogError, match=r"GTID_PURGED\] the log begins after 0-1-4, the start is 0-1-3"):
        ReadRange.of(log, "0-1-3", None)


def test_reading_ends_after_the_last_gtid() -> None:
    log = _log()
    read_range = ReadRange.of(log, None, "0-1-3")
    seen = [block.groups["seqno"].tolist() for block in read_range.blocks(log)]
    assert seen == [[1, 2], [3]]
