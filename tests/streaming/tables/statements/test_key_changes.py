"""Keys that statements change without PRIMARY KEY: unique keys, LIKE; every story also cut off at every step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from binlog_connector.crash_points import watched
from binlog_format.errors import SchemaError, TableError
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableSpec
from binlog_streaming.lake.commit_id import KEYS_OPEN_PROPERTY, KEYS_PROPERTY
from binlog_streaming.settings import Mode, TableRule, UnknownValues
from tests.faults.processes import Cut, CutOff
from tests.streaming.tables.lake.memory_target import MemoryTargets
from tests.streaming.tables.statements.statement_stories import STEPS_MAX, kept, rows_of, write_story

if TYPE_CHECKING:
    from pathlib import Path

    from tests.streaming.tables.shop import ShopLog

A, B = ColumnSpec("a", "int"), ColumnSpec("b", "int")
A_NULL, B_NULL = ColumnSpec("a", "int", nullable=True), ColumnSpec("b", "int", nullable=True)
NAME = ColumnSpec("name", "varchar(20)", nullable=True)


def orders(*columns: ColumnSpec, key: tuple[str, ...] = ()) -> TableSpec:
    return TableSpec("shop", "orders", columns, key)


def unique_key_added(log: ShopLog) -> None:
    log.insert(orders(A, B_NULL), (1, 1), (2, 2))
    log.statement("ALTER TABLE orders ADD UNIQUE (a)")
    keyed = orders(A, B_NULL, key=("a",))
    log.update(keyed, ((2, 2), (2, 20)))
    log.update(keyed, ((1, 1), (3, 1)))


def unique_index_created_and_dropped(log: ShopLog) -> None:
    log.insert(orders(A, B_NULL), (1, 1), (2, 2))
    log.statement("CREATE UNIQUE INDEX u ON orders (a)")
    log.update(orders(A, B_NULL, key=("a",)), ((2, 2), (2, 20)))
    log.statement("DROP INDEX u ON orders")
    log.insert(orders(A, B_NULL), (1, 1), (2, 20))
    log.delete(orders(A, B_NULL), (2, 20))


def column_cannot_be_null_any_more(log: ShopLog) -> None:
    log.statement("CREATE TABLE orders (a INT, b INT, UNIQUE (b))")
    log.insert(orders(A_NULL, B_NULL), (1, 1), (2, 2))
    log.statement("ALTER TABLE orders MODIFY b INT NOT NULL")
    log.update(orders(A_NULL, B, key=("b",)), ((2, 2), (20, 2)))
    log.statement("ALTER TABLE orders CHANGE b b INT NULL")
    log.insert(orders(A_NULL, B_NULL), (3, None), (3, None))


def primary_key_dropped(log: ShopLog) -> None:
    log.insert(orders(A, B, key=("a",)), (1, 1), (2, 2))
    log.statement("ALTER TABLE orders DROP PRIMARY KEY")
    log.update(orders(A, B, key=("b",)), ((1, 1), (7, 1)))


def key_column_dropped(log: ShopLog) -> None:
    log.insert(orders(A, B, NAME, key=("a", "b")), (1, 1, "x"), (2, 2, "y"))
    log.statement("ALTER TABLE orders DROP COLUMN b")
    log.update(orders(A, NAME, key=("a",)), ((1, "x"), (1, "z")))


STORIES = {
    "unique key added": (unique_key_added, [(2, 20), (3, 1)]),
    "index created and dropped": (unique_index_created_and_dropped, [(1, 1), (1, 1), (2, 20)]),
    "column NOT NULL": (column_cannot_be_null_any_more, [(1, 1), (20, 2), (3, None), (3, None)]),
    "primary key dropped": (primary_key_dropped, [(2, 2), (7, 1)]),
    "key column dropped": (key_column_dropped, [(1, 1, "z"), (2, 2, "y")]),
}


@pytest.mark.parametrize("name", STORIES)
def test_rows_are_told_apart_by_the_key_that_the_server_has(tmp_path: Path, name: str) -> None:
    story, held = STORIES[name]
    assert kept(tmp_path, story)["orders"] == held


@pytest.mark.parametrize("name", STORIES)
def test_key_change_cut_off_at_any_step_and_repeated_does_the_same(tmp_path: Path, name: str) -> None:
    story, held = STORIES[name]
    for step in range(1, STEPS_MAX):
        targets = MemoryTargets()
        try:
            with watched(CutOff(step)):
                write_story(tmp_path, story, targets=targets)
        except Cut:
            write_story(tmp_path, story, targets=targets)
            assert rows_of(targets)["orders"] == held, step
        else:
            assert step > 1
            return
    raise AssertionError(f"more than {STEPS_MAX} steps")


def test_versions_end_by_the_new_key(tmp_path: Path) -> None:
    rule = TableRule(mode=Mode.SCD2)
    targets = MemoryTargets()
    write_story(tmp_path, primary_key_dropped, (rule,), targets)
    rows = [(row["a"], row["b"], row["_is_current"]) for row in targets.tables["shop/orders"].rows]
    assert sorted(rows) == [(1, 1, False), (2, 2, True), (7, 1, True)]


def test_target_has_the_new_key_and_nothing_open(tmp_path: Path) -> None:
    targets = MemoryTargets()
    write_story(tmp_path, unique_key_added, targets=targets)
    properties = targets.tables["shop/orders"].properties
    assert (properties[KEYS_PROPERTY], properties[KEYS_OPEN_PROPERTY]) == ("a", "")


def test_key_that_no_statement_changed_is_refused(tmp_path: Path) -> None:
    def story(log: ShopLog) -> None:
        log.insert(orders(A, B, key=("a",)), (1, 1))
        log.statement("ALTER TABLE orders ADD COLUMN name VARCHAR(20)")
        log.insert(orders(A, B, NAME, key=("b",)), (2, 2, "x"))

    with pytest.raises(TableError, match=r"KEYS_CHANGED\] .*has the key a, rows in the log have the key b, and no"):
        kept(tmp_path, story)


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("begin", ["CREATE OR REPLACE TABLE orders LIKE other", "DROP TABLE orders", "TRUNCATE orders"])
def test_table_like_one_with_another_key(tmp_path: Path, begin: str, is_known: bool) -> None:
    def story(log: ShopLog) -> None:
        if is_known:
            log.statement("CREATE TABLE other (b INT, name VARCHAR(20), UNIQUE (b), PRIMARY KEY (name))")
            log.statement("ALTER TABLE other DROP PRIMARY KEY, MODIFY b INT NOT NULL")
        log.insert(orders(A, B, key=("a",)), (1, 1), (2, 2))
        log.statement(begin)
        if "LIKE" not in begin:
            log.statement("DROP TABLE orders")
            log.statement("CREATE TABLE orders LIKE other")
        like = orders(B, NAME, key=("b",))
        log.insert(like, (1, "x"), (2, "y"))
        log.update(like, ((2, "y"), (3, "y")))

    targets = MemoryTargets()
    write_story(tmp_path, story, targets=targets)
    table = targets.tables["shop/orders"]
    assert [(row["b"], row["name"]) for row in table.rows] == [(1, "x"), (3, "y")]
    assert table.properties[KEYS_PROPERTY] == "b"
    assert ("a" in table.schema.names) is not is_known


@pytest.mark.parametrize(
    ("alter", "name"),
    [
        ("ADD c INT NOT NULL DEFAULT (a ^ 5), DROP PRIMARY KEY, ADD PRIMARY KEY (c)", "c"),
        ("ADD c INT NOT NULL DEFAULT (a ^ 5); ALTER TABLE orders DROP PRIMARY KEY, ADD PRIMARY KEY (a, c)", "c"),
        ("ADD c INT NOT NULL DEFAULT (a ^ 5), DROP PRIMARY KEY, ADD UNIQUE (c)", "c"),
        ("ADD SYSTEM VERSIONING", "row_start"),
    ],
)
def test_values_that_the_log_lacks_are_no_key(tmp_path: Path, alter: str, name: str) -> None:
    def story(log: ShopLog) -> None:
        log.statement("CREATE TABLE orders (a INT PRIMARY KEY)")
        log.insert(orders(A, key=("a",)), (1,), (2,))
        for statement in f"ALTER TABLE orders {alter}".split("; "):
            log.statement(statement)
        log.insert(orders(A, ColumnSpec("c", "int"), key=("c",)), (3, 8))

    with pytest.raises(SchemaError, match=rf"SCHEMA_CHANGED\] .*column {name} is (part of the key|new)"):
        kept(tmp_path, story, TableRule(unknown_values=UnknownValues.NULL))
