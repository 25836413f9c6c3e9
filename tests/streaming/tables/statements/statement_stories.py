"""What statements do to tables, as stories: `STORIES`; `write_story` writes one, `kept` says what is left of it."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from binlog_format import open_log
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableSpec
from binlog_streaming.settings import OnPartitionDrop, TableRule
from tests.streaming.tables.batches import MIRROR, cut, write
from tests.streaming.tables.lake.memory_target import MemoryTargets
from tests.streaming.tables.shop import SECOND, ShopLog

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from binlog_streaming.job_state.progress import TableProgress
    from binlog_streaming.lake.target import TargetFactory
    from binlog_streaming.settings import Sink

    Story = Callable[[ShopLog], None]

ID, NAME = ColumnSpec("id", "int"), ColumnSpec("name", "varchar(20)", nullable=True)
PRICE = ColumnSpec("price", "int", nullable=True)
ORDERS = TableSpec("shop", "orders", (ID, NAME), ("id",))
PRICED = TableSpec("shop", "orders", (ID, NAME, PRICE), ("id",))
WHEN = dt.datetime.fromtimestamp(SECOND, dt.UTC)
STEPS_MAX = 60
"""More than any of the stories has."""


def wanted(table: str, *columns: ColumnSpec) -> TableSpec:
    return TableSpec("shop", table, columns, ("id",))


def write_story(
    folder: Path,
    story: Story,
    rules: Sequence[TableRule] = (MIRROR,),
    targets: TargetFactory | None = None,
    sink: Sink | None = None,
) -> list[TableProgress]:
    """One batch of what *story* writes."""
    if not (folder / "log").exists():
        with ShopLog(folder / "log") as log:
            story(log)
    with open_log(str(folder / "log")) as opened:
        (batch,) = cut(opened, 1)
        return write(opened, batch, folder / "tables", rules=rules, targets=targets, sink=sink)


def kept(
    folder: Path, story: Story, rule: TableRule = MIRROR, others: Sequence[TableRule] = ()
) -> dict[str, list[tuple[object, ...]]]:
    """Rows of all tables behind *story*, in memory."""
    targets = MemoryTargets()
    write_story(folder, story, (rule, *others), targets)
    return rows_of(targets)


def rows_of(targets: MemoryTargets) -> dict[str, list[tuple[object, ...]]]:
    return {
        name.removeprefix("shop/"): sorted((tuple(row.values()) for row in table.rows), key=str)
        for name, table in targets.tables.items()
    }


def add_with_default(log: ShopLog) -> None:
    log.insert(ORDERS, (1, "a"))
    log.statement("ALTER TABLE orders ADD COLUMN price INT DEFAULT 5")
    log.insert(PRICED, (2, "b", 7))


def rename_and_modify(log: ShopLog) -> None:
    log.insert(PRICED, (1, "a", 3))
    log.statement("ALTER TABLE orders CHANGE price cost BIGINT NULL, RENAME COLUMN name TO title")
    cost = ColumnSpec("cost", "bigint", nullable=True)
    log.insert(wanted("orders", ID, ColumnSpec("title", "varchar(20)"), cost), (2, "b", 2**40))


def drop_and_add_again(log: ShopLog) -> None:
    log.insert(PRICED, (1, "a", 3))
    log.statement("ALTER TABLE orders DROP COLUMN price")
    log.insert(ORDERS, (2, "b"))
    log.statement("ALTER TABLE orders ADD COLUMN price VARCHAR(20) DEFAULT 'none'")
    log.insert(wanted("orders", ID, NAME, ColumnSpec("price", "varchar(20)")), (3, "c", "7"))


def drop_and_add_in_other_case(log: ShopLog) -> None:
    log.insert(PRICED, (1, "a", 3))
    log.statement("ALTER TABLE orders DROP COLUMN price")
    log.statement("ALTER TABLE orders ADD COLUMN PRICE INT DEFAULT 5")
    log.insert(wanted("orders", ID, NAME, ColumnSpec("PRICE", "int")), (2, "b", 7))
    log.statement("ALTER TABLE orders DROP COLUMN PRICE, ADD COLUMN Cost INT DEFAULT 6")
    log.statement("ALTER TABLE orders RENAME COLUMN Cost TO Price")
    log.statement("ALTER TABLE orders DROP COLUMN Price, ADD COLUMN pricE VARCHAR(20) DEFAULT 'none'")
    log.insert(wanted("orders", ID, NAME, ColumnSpec("pricE", "varchar(20)")), (3, "c", "7"))


def truncate(log: ShopLog) -> None:
    log.insert(ORDERS, (1, "a"), (2, "b"))
    log.statement("TRUNCATE orders")
    log.insert(ORDERS, (2, "c"))


def drop_and_create(log: ShopLog) -> None:
    log.insert(ORDERS, (1, "a"))
    log.statement("DROP TABLE orders")
    log.statement("CREATE TABLE orders (id INT PRIMARY KEY, price INT)")
    log.insert(wanted("orders", ID, PRICE), (1, 9))


def swap(log: ShopLog) -> None:
    log.insert(ORDERS, (1, "a"))
    log.insert(wanted("items", ID, PRICE), (7, 70))
    log.statement("RENAME TABLE orders TO other.tmp, items TO orders, other.tmp TO items")
    log.insert(wanted("items", ID, NAME), (2, "b"))
    log.insert(wanted("orders", ID, PRICE), (8, 80))


def gh_ost(log: ShopLog) -> None:
    log.insert(ORDERS, (1, "a"), (2, "b"))
    log.statement("CREATE TABLE _orders_gho LIKE orders")
    log.statement("ALTER TABLE _orders_gho ADD COLUMN price INT DEFAULT 5")
    ghost = wanted("_orders_gho", ID, NAME, PRICE)
    log.insert(ghost, (1, "a", 5), (2, "b", 5))
    log.insert(ORDERS, (3, "c"))
    log.insert(ghost, (3, "c", 5))
    log.statement("RENAME TABLE orders TO _orders_del, _orders_gho TO orders")
    log.insert(PRICED, (4, "d", 9))


PARTITIONED = (
    "CREATE TABLE orders (id INT PRIMARY KEY, name VARCHAR(20)) PARTITION BY RANGE (id) (PARTITION p1 VALUES LESS "
    "THAN (10), PARTITION p2 VALUES LESS THAN (20), PARTITION p3 VALUES LESS THAN MAXVALUE)"
)


def drop_partitions(log: ShopLog) -> None:
    log.statement(PARTITIONED)
    log.insert(ORDERS, (1, "a"), (10, "b"), (19, "c"), (20, "d"))
    log.statement("ALTER TABLE orders TRUNCATE PARTITION p2")
    log.insert(ORDERS, (10, "e"))
    log.statement("ALTER TABLE orders DROP PARTITION p1")
    log.insert(ORDERS, (2, "f"))


def exchange_partitions(log: ShopLog) -> None:
    """One goes to an archive, another one is loaded."""
    items = wanted("items", ID, NAME)
    log.statement(PARTITIONED)
    log.insert(ORDERS, (1, "a"), (2, "b"), (10, "x"), (20, "d"))
    log.delete(ORDERS, (10, "x"))
    log.statement("CREATE TABLE items LIKE orders")
    log.statement("ALTER TABLE items REMOVE PARTITIONING")
    log.statement("ALTER TABLE orders EXCHANGE PARTITION p1 WITH TABLE items")
    log.update(items, ((1, "a"), (11, "e")))
    log.insert(ORDERS, (3, "c"))
    log.delete(items, (2, "b"))
    log.statement("ALTER TABLE orders EXCHANGE PARTITION p2 WITH TABLE items")
    log.insert(items, (4, "f"))
    log.update(ORDERS, ((11, "e"), (11, "g")))


STORIES: dict[str, tuple[Story, dict[str, list[tuple[object, ...]]]]] = {
    "add with default": (add_with_default, {"orders": [(1, "a", 5), (2, "b", 7)]}),
    "rename and modify": (rename_and_modify, {"orders": [(1, "a", 3), (2, "b", 2**40)]}),
    "drop and add again": (
        drop_and_add_again,
        {"orders": [(1, "a", "none"), (2, "b", "none"), (3, "c", "7")]},
    ),
    "drop and add in other case": (
        drop_and_add_in_other_case,
        {"orders": [(1, "a", "none"), (2, "b", "none"), (3, "c", "7")]},
    ),
    "truncate": (truncate, {"orders": [(2, "c")]}),
    "drop and create": (drop_and_create, {"orders": [(1, 9)]}),
    "drop partitions": (drop_partitions, {"orders": [(10, "e"), (2, "f"), (20, "d")]}),
    "exchange partitions": (
        exchange_partitions,
        {"orders": [(11, "g"), (20, "d"), (3, "c")], "items": [(4, "f")]},
    ),
    "swap": (swap, {"orders": [(7, 70), (8, 80)], "items": [(1, "a"), (2, "b")]}),
    "gh-ost": (gh_ost, {"orders": [(1, "a", 5), (2, "b", 5), (3, "c", 5), (4, "d", 9)]}),
}
ONLY = TableRule(select=r"shop\.(orders|items)", on_partition_drop=OnPartitionDrop.APPLY)
"""Neither the ghost nor `other.tmp` is selected."""
