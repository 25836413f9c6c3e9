"""Targets that somebody took away between two batches."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from binlog_format import open_log
from binlog_format.errors import TableError
from binlog_streaming.settings import Deletes, Mode, Sink, TableFormat, TableRule
from binlog_streaming.tables.open_targets import check_folders
from tests.streaming.tables.batches import plan, write, written_behind
from tests.streaming.tables.lake.memory_target import MemoryTargets
from tests.streaming.tables.lake.sink_cases import MIRROR_SINKS
from tests.streaming.tables.shop import ShopLog
from tests.streaming.tables.statements.statement_stories import ID, NAME, ORDERS, wanted

if TYPE_CHECKING:
    from binlog_format.position import Position
    from binlog_streaming.plan.batch_plan import BatchPlan
    from binlog_streaming.plan.job_state import Written
    from tests.streaming.tables.statements.statement_stories import Story

ITEMS = wanted("items", ID, NAME)
GHOST = wanted("_orders_gho", ID, NAME)
RULES = {
    "mirror": TableRule(),
    "mark": TableRule(deletes=Deletes.MARK),
    "scd2": TableRule(mode=Mode.SCD2),
}


@dataclass
class Batches:
    """A job that does a batch for each part of a story."""

    folder: Path
    rule: TableRule
    targets: MemoryTargets | None = None
    sink: Sink | None = None
    batch_id: int = 0
    end: Position | None = None
    written: Written | None = None

    def do(self, story: Story) -> BatchPlan:
        """A batch with what *story* writes."""
        with ShopLog(self.folder, first=100 * self.batch_id) as writer:
            story(writer)
        with open_log(str(self.folder)) as log:
            start = self.end or log.start_position()
            batch = start, log.span(start).end
            planned = plan(log, batch, (self.rule,), written=self.written)
            if self.sink is not None:
                check_folders(planned.components, self.sink)
            directory = "memory" if self.sink is None else self.sink.directory
            tables = write(
                log,
                batch,
                directory,
                self.batch_id,
                (self.rule,),
                targets=self.targets,
                sink=self.sink,
                written=self.written,
            )
            self.written = written_behind(self.written or {}, planned, tables)
            self.end, self.batch_id = batch[1], self.batch_id + 1
            return planned


def begin(log: ShopLog) -> None:
    log.insert(ORDERS, (1, "a"))
    log.insert(ITEMS, (1, "a"))


def rows(log: ShopLog) -> None:
    log.insert(ITEMS, (2, "b"))
    log.insert(ORDERS, (2, "b"))


def statement(text: str) -> Story:
    """One statement, and rows of the table behind it."""

    def story(log: ShopLog) -> None:
        log.statement(text)
        log.insert(ORDERS, (2, "b"))

    return story


BEGUN_ANEW = {
    "dropped and made again": ("DROP TABLE orders", "CREATE TABLE orders LIKE items"),
    "renamed away and made again": ("RENAME TABLE orders TO old", "CREATE TABLE orders LIKE items"),
    "another one renamed": ("RENAME TABLE orders TO old", "RENAME TABLE items TO orders"),
    "database dropped": ("DROP DATABASE shop", "CREATE TABLE orders LIKE other"),
}


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
@pytest.mark.parametrize(
    "story",
    [
        rows,
        statement("ALTER TABLE orders MODIFY name VARCHAR(30)"),
        statement("CREATE TABLE IF NOT EXISTS orders (id INT PRIMARY KEY, name VARCHAR(20))"),
        statement("TRUNCATE orders"),
        lambda log: log.statement("RENAME TABLE orders TO archive"),
    ],
    ids=["rows", "alter", "create if not exists", "truncate", "rename"],
)
def test_job_stops_before_it_writes_when_a_target_is_gone(tmp_path: Path, rule: TableRule, story: Story) -> None:
    targets = MemoryTargets()
    batches = Batches(tmp_path, rule, targets)
    batches.do(begin)
    del targets.tables["shop/orders"]
    with pytest.raises(
        TableError, match=r"TARGET_GONE\] shop\.orders: .*shop/orders was written by this job"
    ) as caught:
        batches.do(story)
    assert "binlog-stream replay" in (caught.value.hint or "")
    assert r"snapshot JOB.toml --server URL --tables 'shop\.orders'" in (caught.value.hint or "")
    assert set(targets.tables) <= {"shop/items"}, "no partial table was begun"


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
@pytest.mark.parametrize("texts", BEGUN_ANEW.values(), ids=BEGUN_ANEW)
def test_target_of_a_table_that_is_gone_may_be_taken_away(
    tmp_path: Path, rule: TableRule, texts: tuple[str, str]
) -> None:
    targets = MemoryTargets()
    batches = Batches(tmp_path, rule, targets)
    batches.do(begin)
    batches.do(lambda log: log.statement(texts[0]))
    targets.tables.pop("shop/orders")
    batches.do(lambda log: log.statement(texts[1]))
    batches.do(lambda log: log.insert(ORDERS, (2, "b")))
    assert (2, "b") in [(row["id"], row["name"]) for row in targets.tables["shop/orders"].rows]


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_table_that_is_made_again_or_dropped_needs_no_target(tmp_path: Path, rule: TableRule) -> None:
    """Also where nobody saw that it was dropped before."""
    for text in (
        "CREATE TABLE orders (id INT PRIMARY KEY, name VARCHAR(20))",
        "DROP TABLE orders",
        "DROP DATABASE shop",
    ):
        targets = MemoryTargets()
        batches = Batches(tmp_path / text.replace(" ", "-"), rule, targets)
        batches.do(begin)
        del targets.tables["shop/orders"]
        batches.do(lambda log, text=text: log.statement(text))  # type: ignore[misc]


def test_changelog_that_is_gone_begins_anew(tmp_path: Path) -> None:
    targets = MemoryTargets()
    batches = Batches(tmp_path, TableRule(mode=Mode.CHANGELOG), targets)
    batches.do(begin)
    del targets.tables["shop/orders"]
    batches.do(rows)
    assert [row["id"] for row in targets.tables["shop/orders"].rows] == [2]


def test_ghost_that_is_gone_does_not_empty_its_table(tmp_path: Path) -> None:
    targets = MemoryTargets()
    batches = Batches(tmp_path, TableRule(select=r"shop\.orders"), targets)
    batches.do(begin)
    batches.do(lambda log: log.insert(GHOST, (1, "a")))
    before = targets.tables["shop/orders"].rows
    del targets.tables[".binlog-stream/staging/shop/_orders_gho/mirror"]
    with pytest.raises(TableError, match=r"TARGET_GONE\] shop\._orders_gho"):
        batches.do(lambda log: log.statement("RENAME TABLE orders TO _orders_del, _orders_gho TO orders"))
    assert targets.tables["shop/orders"].rows == before


@pytest.mark.parametrize("table_format", MIRROR_SINKS, ids=str)
def test_folder_that_is_gone_is_seen_before_anything_is_written(tmp_path: Path, table_format: TableFormat) -> None:
    sink = Sink(directory=str(tmp_path / "lake"), format=table_format)
    batches = Batches(tmp_path / "log", TableRule(), sink=sink)
    batches.do(begin)
    shutil.rmtree(Path(sink.directory) / "shop" / "orders")
    files = set(Path(sink.directory).rglob("*"))
    with pytest.raises(TableError, match=r"TARGET_GONE\] shop\.orders"):
        batches.do(rows)
    assert set(Path(sink.directory).rglob("*")) == files


@pytest.mark.parametrize("story", [begin, rows])
def test_a_second_table_in_a_place_is_named_whichever_of_them_comes_first(story: Story, tmp_path: Path) -> None:
    """Of the one that comes second the step may have a lower number than what is in the target."""
    sink = Sink(directory=str(tmp_path / "tables"))
    batches = Batches(tmp_path / "log", TableRule(target="all"), sink=sink)
    with pytest.raises(TableError, match="SAME_TARGET"):
        batches.do(story)
