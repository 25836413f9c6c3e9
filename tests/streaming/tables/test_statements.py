"""What statements do to targets, statement by statement; every one also cut off at every step, and repeated."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from binlog_format import open_log
from binlog_format.errors import SchemaError, TableError
from binlog_format.events.table_encoding import ColumnSpec, TableSpec
from binlog_streaming.settings import Deletes, Mode, OnStatement, TableRule, UnknownValues
from binlog_streaming.tables.progress import Note
from binlog_streaming.tables.steps import watched
from binlog_streaming.tables.target import DROPPED_PROPERTY, GTID_POSITION_KEY, KEYS_PROPERTY
from tests.streaming.tables.batches import MIRROR, cut, write
from tests.streaming.tables.memory_target import MemoryTargets
from tests.streaming.tables.shop import SECOND, ShopLog
from tests.streaming.tables.test_ddl_histories import CutOff, CutOffError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from binlog_streaming.tables.progress import TableProgress
    from binlog_streaming.tables.target import TargetFactory

    Story = Callable[[ShopLog], None]

ID, NAME = ColumnSpec("id", "int"), ColumnSpec("name", "varchar(20)", nullable=True)
PRICE = ColumnSpec("price", "int", nullable=True)
ORDERS = TableSpec("shop", "orders", (ID, NAME), ("id",))
PRICED = TableSpec("shop", "orders", (ID, NAME, PRICE), ("id",))
WHEN = dt.datetime.fromtimestamp(SECOND, dt.UTC)
STEPS_MAX = 60


def wanted(table: str, *columns: ColumnSpec) -> TableSpec:
    return TableSpec("shop", table, columns, ("id",))


def write_story(
    folder: Path, story: Story, rules: Sequence[TableRule] = (MIRROR,), targets: TargetFactory | None = None
) -> list[TableProgress]:
    """One batch of what *story* writes."""
    if not (folder / "log").exists():
        with ShopLog(folder / "log") as log:
            story(log)
    with open_log(str(folder / "log")) as opened:
        (batch,) = cut(opened, 1)
        return write(opened, batch, folder / "tables", rules=rules, targets=targets)


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


STORIES: dict[str, tuple[Story, dict[str, list[tuple[object, ...]]]]] = {
    "add with default": (add_with_default, {"orders": [(1, "a", 5), (2, "b", 7)]}),
    "rename and modify": (rename_and_modify, {"orders": [(1, "a", 3), (2, "b", 2**40)]}),
    "drop and add again": (
        drop_and_add_again,
        {"orders": [(1, "a", "none"), (2, "b", "none"), (3, "c", "7")]},
    ),
    "truncate": (truncate, {"orders": [(2, "c")]}),
    "drop and create": (drop_and_create, {"orders": [(1, 9)]}),
    "swap": (swap, {"orders": [(7, 70), (8, 80)], "items": [(1, "a"), (2, "b")]}),
    "gh-ost": (gh_ost, {"orders": [(1, "a", 5), (2, "b", 5), (3, "c", 5), (4, "d", 9)]}),
}
ONLY = TableRule(select=r"shop\.(orders|items)")
"""Neither the ghost nor `other.tmp` is selected."""


@pytest.mark.parametrize("name", STORIES)
def test_statement_brings_the_target_where_the_table_is(tmp_path: Path, name: str) -> None:
    story, held = STORIES[name]
    found = kept(tmp_path, story, ONLY)
    assert {table: found[table] for table in held} == held
    assert {table for table in found if not table.startswith(".binlog-stream/staging/")} == set(held)


@pytest.mark.parametrize("name", STORIES)
def test_statement_cut_off_at_any_step_and_repeated_does_the_same(tmp_path: Path, name: str) -> None:
    story, held = STORIES[name]
    for step in range(1, STEPS_MAX):
        targets = MemoryTargets()
        try:
            with watched(CutOff(step)):
                write_story(tmp_path, story, (ONLY,), targets)
        except CutOffError:
            write_story(tmp_path, story, (ONLY,), targets)
            assert {table: rows_of(targets)[table] for table in held} == held, step
            commits = {uri: table.commits for uri, table in targets.tables.items()}
            write_story(tmp_path, story, (ONLY,), targets)
            assert {uri: table.commits for uri, table in targets.tables.items()} == commits, step
        else:
            assert step > 4
            return
    raise AssertionError("there are more steps")


@pytest.mark.slow
@pytest.mark.parametrize("name", STORIES)
def test_delta_table_survives_a_cut_at_any_step(tmp_path: Path, name: str) -> None:
    story, held = STORIES[name]
    for step in range(1, STEPS_MAX):
        folder = tmp_path / str(step)
        cut_off = False
        try:
            with watched(CutOff(step)):
                write_story(folder, story, (ONLY,))
        except CutOffError:
            cut_off = True
        write_story(folder, story, (ONLY,))
        for table, rows in held.items():
            found = DeltaTable(str(folder / "tables" / "shop" / table)).to_pyarrow_table().to_pylist()
            assert sorted((tuple(row.values()) for row in found), key=str) == rows, step
        if not cut_off:
            return
    raise AssertionError("there are more steps")


def test_repeated_batch_commits_nothing(tmp_path: Path) -> None:
    targets = MemoryTargets()
    commits = []
    for _ in range(2):
        write_story(tmp_path, gh_ost, (ONLY,), targets)
        commits.append({uri: table.commits for uri, table in targets.tables.items()})
    assert commits[0] == commits[1]


def test_marked_rows_and_versions_stay_when_their_table_is_truncated(tmp_path: Path) -> None:
    mark = TableRule(deletes=Deletes.MARK)
    assert kept(tmp_path, truncate, mark)["orders"] == [(1, "a", True, WHEN), (2, "c", False, None)]
    versions = kept(tmp_path, truncate, TableRule(mode=Mode.SCD2))["orders"]
    assert [(row[0], row[1], row[3], row[4]) for row in versions] == [
        (1, "a", WHEN, False),
        (2, "b", WHEN, False),
        (2, "c", None, True),
    ]


def test_changelog_keeps_its_rows_and_says_what_happened(tmp_path: Path) -> None:
    def story(log: ShopLog) -> None:
        truncate(log)
        log.statement("DROP TABLE orders")

    rule = TableRule(mode=Mode.CHANGELOG, on_drop=OnStatement.APPLY)
    targets = MemoryTargets()
    write_story(tmp_path, story, (rule,), targets)
    rows = targets.tables["shop/orders"].rows
    assert [(row["id"], row["_change_type"], row["_gtid"]) for row in rows] == [
        (1, "insert", "0-1-1"),
        (2, "insert", "0-1-1"),
        (None, "truncate", "0-1-2"),
        (2, "insert", "0-1-3"),
        (None, "drop", "0-1-4"),
    ]
    versions = [row["_commit_version"] for row in rows]
    assert versions == sorted(versions)  # type: ignore[type-var]


def test_statements_can_be_ignored_or_refused(tmp_path: Path) -> None:
    assert kept(tmp_path, truncate, TableRule(on_truncate=OnStatement.IGNORE))["orders"] == [(1, "a"), (2, "c")]
    targets = MemoryTargets()
    with pytest.raises(TableError, match=r"STATEMENT_REFUSED\] shop\.orders: a TRUNCATE .* on_truncate = fail"):
        write_story(tmp_path, truncate, (TableRule(on_truncate=OnStatement.FAIL),), targets)
    assert rows_of(targets)["orders"] == [(1, "a"), (2, "b")]


@pytest.mark.parametrize(("on_drop", "rows"), [(OnStatement.IGNORE, [(1, "a")]), (OnStatement.APPLY, [])])
def test_dropped_table_says_so(tmp_path: Path, on_drop: OnStatement, rows: list[tuple[object, ...]]) -> None:
    def story(log: ShopLog) -> None:
        log.insert(ORDERS, (1, "a"))
        log.statement("DROP TABLE orders")

    targets = MemoryTargets()
    write_story(tmp_path, story, (TableRule(on_drop=on_drop),), targets)
    assert rows_of(targets)["orders"] == rows
    assert targets.tables["shop/orders"].properties[DROPPED_PROPERTY]


def test_new_table_appears_with_its_create_statement(tmp_path: Path) -> None:
    def story(log: ShopLog) -> None:
        log.statement("CREATE TABLE orders (id INT, name VARCHAR(20), PRIMARY KEY (id))")

    write_story(tmp_path, story)
    table = DeltaTable(str(tmp_path / "tables" / "shop" / "orders"))
    assert [field.name for field in table.schema().fields] == ["id", "name"]
    assert table.metadata().configuration[KEYS_PROPERTY] == "id"


def test_new_primary_key_is_taken_over(tmp_path: Path) -> None:
    def story(log: ShopLog) -> None:
        log.insert(ORDERS, (1, "a"), (2, "b"))
        log.statement("ALTER TABLE orders DROP PRIMARY KEY, ADD PRIMARY KEY (name)")
        log.update(TableSpec("shop", "orders", (ID, NAME), ("name",)), ((1, "a"), (5, "a")))

    assert kept(tmp_path, story)["orders"] == [(2, "b"), (5, "a")]


def test_unknown_values_are_refused_or_null(tmp_path: Path) -> None:
    def story(log: ShopLog) -> None:
        log.insert(ORDERS, (1, "a"))
        log.statement("ALTER TABLE orders ADD COLUMN price INT AS (id * 2) PERSISTENT")
        log.insert(PRICED, (2, "b", 4))

    with pytest.raises(SchemaError, match=r"SCHEMA_CHANGED\] shop\.orders: column price is new, .*generated column"):
        kept(tmp_path, story)
    assert kept(tmp_path, story, TableRule(unknown_values=UnknownValues.NULL))["orders"] == [
        (1, "a", None),
        (2, "b", 4),
    ]


def test_type_that_holds_other_values_is_refused_unless_there_are_none(tmp_path: Path) -> None:
    def story(log: ShopLog) -> None:
        log.insert(ORDERS, (1, "a"))
        log.statement("ALTER TABLE orders MODIFY name INT")

    def empty(log: ShopLog) -> None:
        log.insert(ORDERS, (1, "a"))
        log.delete(ORDERS, (1, "a"))
        log.statement("ALTER TABLE orders MODIFY name INT")
        log.insert(wanted("orders", ID, ColumnSpec("name", "int")), (1, 3))

    with pytest.raises(SchemaError, match=r"SCHEMA_CHANGED\] shop\.orders: column name was string and is int32 now"):
        kept(tmp_path / "rows", story)
    assert kept(tmp_path / "none", empty)["orders"] == [(1, 3)]


def test_rows_of_a_table_that_is_not_kept_are_not_made_up(tmp_path: Path) -> None:
    def story(log: ShopLog) -> None:
        log.insert(wanted("draft", ID, NAME), (1, "a"))
        log.statement("ALTER TABLE draft RENAME TO orders")

    with pytest.raises(SchemaError, match=r"TABLE_RENAMED\] shop\.orders was shop\.draft before"):
        kept(tmp_path, story, ONLY)


def test_dropped_database_takes_the_tables_that_are_known(tmp_path: Path) -> None:
    def story(log: ShopLog) -> None:
        log.insert(ORDERS, (1, "a"))
        log.statement("DROP DATABASE shop")

    def unknown(log: ShopLog) -> None:
        log.statement("DROP DATABASE shop")

    apply = TableRule(on_drop=OnStatement.APPLY)
    assert kept(tmp_path / "known", story, apply)["orders"] == []
    assert kept(tmp_path / "ignored", story)["orders"] == [(1, "a")]
    with pytest.raises(SchemaError, match=r"DDL_NOT_PARSED\] DROP DATABASE shop"):
        kept(tmp_path / "unknown", unknown, apply)
    assert kept(tmp_path / "unknown", unknown, TableRule(select=r"crm\..*", on_drop=OnStatement.APPLY)) == {}


def test_progress_counts_statements_and_says_what_is_kept_aside(tmp_path: Path) -> None:
    progress = {table.source_table: table for table in write_story(tmp_path, gh_ost, (ONLY,))}
    assert progress["shop.orders"].notes == frozenset()
    assert progress["shop._orders_gho"].notes == {Note.KEPT_ASIDE}
    assert progress["shop.orders"].statements == 1
    assert progress["shop.orders"].changes == 4
    commit = DeltaTable(str(tmp_path / "tables" / "shop" / "orders")).history(1)[0]
    assert commit[GTID_POSITION_KEY] == "0-1-77"
