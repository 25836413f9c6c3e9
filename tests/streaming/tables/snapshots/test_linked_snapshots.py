"""Snapshots of tables that foreign keys link: what happens to a row of a parent happens to those of its children."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from binlog_lab.event_encoding.table_encoding import ColumnSpec
from binlog_streaming.lake.commit_id import COMPLETE_PROPERTY
from binlog_streaming.settings.choices import Begin
from tests.streaming.replay_runs import run
from tests.streaming.tables.jobs.test_admission import job, log, rows, stated
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
