"""Snapshots of tables that foreign keys link: what happens to a row of a parent happens to those of its children."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from binlog_lab.event_encoding.table_encoding import ColumnSpec
from binlog_streaming.lake.commit_id import COMPLETE_PROPERTY
from binlog_streaming.settings.choices import Begin
from tests.streaming.replay_runs import run
from tests.streaming.tables.jobs.test_admission import job, log, record, rows, stated
from tests.streaming.tables.snapshots.snapshot_log import ShopSnapshot, begin_late
from tests.streaming.tables.statements.statement_stories import ID, ORDERS, wanted

if TYPE_CHECKING:
    from pathlib import Path

    from tests.streaming.tables.shop import ShopLog

OF = ColumnSpec("of", "int", nullable=True)
ITEMS, PARTS = wanted("items", ID, OF), wanted("parts", ID, OF)


def link(log: ShopLog, child: str, parent: str) -> None:
    """A foreign key between tables that are older than the log."""
    key = f"FOREIGN KEY (of) REFERENCES {parent} (id) ON DELETE CASCADE"
    log.statement(f"ALTER TABLE {child} ADD CONSTRAINT of_{parent} {key}")


@pytest.mark.parametrize("at_once", [False, True])
def test_parent_that_waits_for_its_snapshot_takes_rows_of_its_child_along(at_once: bool, tmp_path: Path) -> None:
    def first(writer: ShopLog) -> None:
        begin_late(writer)
        link(writer, "items", "orders")
        writer.delete(ORDERS, (4, "d"))
        ShopSnapshot(writer, ITEMS).take([(10, 1), (20, 2)], [(30, 3)])
        writer.delete(ORDERS, (2, "b"))

    def second(writer: ShopLog) -> None:
        ShopSnapshot(writer, ORDERS).take([(1, "a"), (3, "c")])
        writer.delete(ORDERS, (3, "c"))

    selected = job(tmp_path, begin=Begin.SNAPSHOT, foreign_keys="apply")
    log(tmp_path, first)
    if not at_once:
        run(selected)
        assert rows(tmp_path, "items") == [(10, 1), (30, 3)]
        assert not (tmp_path / "tables/shop/orders").exists()
    log(tmp_path, second, first=100)
    run(selected)
    assert rows(tmp_path, "items") == [(10, 1)]
    assert rows(tmp_path, "orders") == [(1, "a")]
    assert stated(tmp_path, "items", COMPLETE_PROPERTY) == "true"


def chain(writer: ShopLog) -> None:
    """Parts of items of orders; orders and parts have their rows, and items wait for theirs."""
    begin_late(writer)
    link(writer, "items", "orders")
    link(writer, "parts", "items")
    ShopSnapshot(writer, ORDERS).take([(1, "a"), (2, "b"), (3, "c")])
    writer.delete(ORDERS, (3, "c"))
    ShopSnapshot(writer, PARTS).take([(100, 10), (200, 20)])


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("is_begun", [False, True])
def test_child_of_rows_that_are_still_to_come_is_not_complete(at_once: bool, is_begun: bool, tmp_path: Path) -> None:
    """The delete takes an item along that the job does not have yet, and the item its parts."""

    def deleted(writer: ShopLog) -> None:
        snapshot = ShopSnapshot(writer, ITEMS)
        if is_begun:
            snapshot.begin()
        writer.delete(ORDERS, (2, "b"))
        if not is_begun:
            snapshot.begin()
        snapshot.chunk([(10, 1)])
        snapshot.end()

    selected = job(tmp_path, begin=Begin.SNAPSHOT, foreign_keys="apply")
    log(tmp_path, chain)
    if not at_once:
        run(selected)
        assert stated(tmp_path, "parts", COMPLETE_PROPERTY) == "true"
    log(tmp_path, deleted, first=200)
    run(selected)
    assert rows(tmp_path, "items") == [(10, 1)]
    assert record(selected).incomplete == (("shop", "parts"),)
    assert stated(tmp_path, "parts", COMPLETE_PROPERTY) == "false"
    if at_once:
        problem = next(one.problem for one in record(selected).snapshots if one.table == "parts")
        assert "DELETE from shop.orders may change rows of shop.parts through shop.items" in str(problem)
    log(tmp_path, lambda writer: ShopSnapshot(writer, PARTS, "resync").take([(100, 10)]), first=300)
    run(selected)
    assert rows(tmp_path, "parts") == [(100, 10)]
    assert record(selected).incomplete == ()


def test_change_before_a_childs_rows_come_takes_nothing_from_them(tmp_path: Path) -> None:
    def story(writer: ShopLog) -> None:
        begin_late(writer)
        link(writer, "items", "orders")
        link(writer, "parts", "items")
        ShopSnapshot(writer, ORDERS).take([(1, "a"), (2, "b"), (3, "c"), (4, "d")])
        writer.delete(ORDERS, (4, "d"))
        items = ShopSnapshot(writer, ITEMS)
        items.begin()
        writer.delete(ORDERS, (3, "c"))
        items.chunk([(10, 1), (20, 2)])
        items.end()
        ShopSnapshot(writer, PARTS).take([(100, 10), (200, 20)])
        writer.delete(ORDERS, (2, "b"))

    log(tmp_path, story)
    selected = job(tmp_path, begin=Begin.SNAPSHOT, foreign_keys="apply")
    run(selected)
    assert rows(tmp_path, "items") == [(10, 1)]
    assert rows(tmp_path, "parts") == [(100, 10)]
    assert record(selected).incomplete == ()


@pytest.mark.parametrize("deleted", [True, False])
def test_table_that_refers_to_itself_is_complete_unless_rows_go_meanwhile(deleted: bool, tmp_path: Path) -> None:
    """Row 3 goes with row 5, which goes with row 1: the job has 1 and 3, and 5 is still to come."""

    def story(writer: ShopLog) -> None:
        begin_late(writer)
        link(writer, "items", "items")
        snapshot = ShopSnapshot(writer, ITEMS)
        snapshot.begin()
        snapshot.chunk([(1, None), (2, None), (3, 5)])
        if deleted:
            writer.delete(ITEMS, (1, None))
        snapshot.chunk([] if deleted else [(5, 1)])
        snapshot.end()

    log(tmp_path, story)
    selected = job(tmp_path, begin=Begin.SNAPSHOT, foreign_keys="apply")
    run(selected)
    assert record(selected).incomplete == ((("shop", "items"),) if deleted else ())
