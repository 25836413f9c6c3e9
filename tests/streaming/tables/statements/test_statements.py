"""What statements do to targets, statement by statement; every one also cut off at every step, and repeated."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from binlog_connector.crash_points import watched
from binlog_connector.schema.definitions import TableName
from binlog_format import open_log
from binlog_format.errors import SchemaError, TableError
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableSpec
from binlog_streaming.job_state.progress import Note
from binlog_streaming.lake.commit_id import DROPPED_PROPERTY, GTID_POSITION_KEY, KEYS_PROPERTY
from binlog_streaming.settings import (
    Deletes,
    Mode,
    OnPartitionDrop,
    OnStatement,
    Sink,
    TableFormat,
    TableRule,
    UnknownValues,
)
from tests.chance import stride
from tests.faults.processes import Cut, CutOff
from tests.streaming.tables.batches import cut, plan
from tests.streaming.tables.lake.memory_target import MemoryTargets
from tests.streaming.tables.lake.sink_cases import MIRROR_SINKS, Place
from tests.streaming.tables.statements.statement_stories import (
    ID,
    NAME,
    ONLY,
    ORDERS,
    PRICED,
    STEPS_MAX,
    STORIES,
    WHEN,
    drop_and_add_in_other_case,
    drop_partitions,
    gh_ost,
    kept,
    rows_of,
    truncate,
    wanted,
    write_story,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.streaming.tables.shop import ShopLog


@pytest.mark.parametrize("name", STORIES)
def test_statement_brings_the_target_where_the_table_is(tmp_path: Path, name: str) -> None:
    story, held = STORIES[name]
    found = kept(tmp_path, story, ONLY)
    assert {table: found[table] for table in held} == held
    assert {table for table in found if not table.startswith(".binlog-stream/staging/")} == set(held)


@pytest.mark.parametrize("name", STORIES)
def test_statement_cut_off_at_any_step_and_repeated_does_the_same(tmp_path: Path, name: str) -> None:
    story, held = STORIES[name]
    for step in range(1, STEPS_MAX, stride(2)):
        targets = MemoryTargets()
        try:
            with watched(CutOff(step)):
                write_story(tmp_path, story, (ONLY,), targets)
        except Cut:
            write_story(tmp_path, story, (ONLY,), targets)
            assert {table: rows_of(targets)[table] for table in held} == held, step
            commits = {uri: table.commits for uri, table in targets.tables.items()}
            write_story(tmp_path, story, (ONLY,), targets)
            assert {uri: table.commits for uri, table in targets.tables.items()} == commits, step
        else:
            assert step > 4
            return
    raise AssertionError("there are more steps")


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("table_format", MIRROR_SINKS, ids=str)
def test_kill_at_any_step_then_the_same_batch_again(tmp_path: Path, table_format: TableFormat) -> None:
    """kill -9 in the middle of a batch with statements."""
    names = ("drop and add again", "swap", "gh-ost", "drop partitions")
    step = stride(3)
    program = [sys.executable, "-m", "tests.streaming.tables.jobs.killed_writes", str(tmp_path), str(table_format)]
    program += [str(step), *names]
    done = subprocess.run(program, check=False, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    places = [(name, place) for name in names for place in (tmp_path / name).iterdir() if place.name.isdecimal()]
    assert len(places) > 25 // step
    for name, place in places:
        for table, rows in STORIES[name][1].items():
            assert sorted(Place(place / "tables", table_format, f"shop/{table}").rows(), key=str) == rows, place


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


def drop_partitions_of(log: ShopLog) -> None:
    drop_partitions(log)
    log.update(ORDERS, ((20, "d"), (20, "g")))
    log.statement("ALTER TABLE orders TRUNCATE PARTITION p2, p3")


@pytest.mark.parametrize("table_format", MIRROR_SINKS, ids=str)
def test_rows_of_partitions_go_from_real_tables_once_however_often_it_is_done(
    tmp_path: Path, table_format: TableFormat
) -> None:
    for _ in range(2):
        write_story(
            tmp_path, drop_partitions, (ONLY,), sink=Sink(directory=str(tmp_path / "tables"), format=table_format)
        )
        rows = Place(tmp_path / "tables", table_format, "shop/orders").rows()
        assert sorted(rows, key=str) == STORIES["drop partitions"][1]["orders"]


def test_marked_rows_and_versions_of_dropped_partitions_stay(tmp_path: Path) -> None:
    apply = OnPartitionDrop.APPLY
    mark = TableRule(deletes=Deletes.MARK, on_partition_drop=apply)
    gone = [(1, "a"), (10, "e"), (19, "c"), (20, "g")]
    assert kept(tmp_path, drop_partitions_of, mark)["orders"] == sorted(
        [*((*row, True, WHEN) for row in gone), (2, "f", True, WHEN)], key=str
    )
    versions = kept(tmp_path, drop_partitions_of, TableRule(mode=Mode.SCD2, on_partition_drop=apply))["orders"]
    held = [(row[0], row[1], row[3], row[4]) for row in versions]
    assert held == sorted(((*row, WHEN, False) for row in [*gone, (2, "f"), (10, "b"), (20, "d")]), key=str)


def test_rows_of_dropped_partitions_can_be_kept_and_a_changelog_keeps_them(tmp_path: Path) -> None:
    keep = TableRule(on_partition_drop=OnPartitionDrop.KEEP)
    assert kept(tmp_path, drop_partitions, keep)["orders"] == [(1, "a"), (10, "e"), (19, "c"), (2, "f"), (20, "d")]
    assert len(kept(tmp_path, drop_partitions, TableRule(mode=Mode.CHANGELOG))["orders"]) == 6


def test_dropped_partitions_are_refused_by_default_with_the_setting(tmp_path: Path) -> None:
    targets = MemoryTargets()
    wanted = r"STATEMENT_REFUSED\] shop\.orders: at .*, TRUNCATE PARTITION p2 takes .* on_partition_drop = fail"
    for rule in (TableRule(), TableRule(unknown_values=UnknownValues.NULL)):
        with pytest.raises(TableError, match=wanted) as error:
            write_story(tmp_path, drop_partitions, (rule,), targets)
        assert 'on_partition_drop = "keep"' in str(error.value.hint)
        assert len(rows_of(targets)["orders"]) == 4, "the rows before it"


def test_dropped_partitions_that_nobody_defines_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    def story(log: ShopLog) -> None:
        log.insert(ORDERS, (1, "a"))
        log.statement("ALTER TABLE orders DROP PARTITION p1")

    with pytest.raises(SchemaError, match=r"PARTITION_BOUNDS\] shop\.orders: .*no CREATE TABLE of it is known"):
        write_story(tmp_path, story, (ONLY,), MemoryTargets())


def test_partitions_of_a_table_that_takes_the_place_of_another_are_dropped_in_it(tmp_path: Path) -> None:
    def story(log: ShopLog) -> None:
        log.insert(ORDERS, (1, "a"))
        log.statement(
            "CREATE TABLE _orders_new (id INT PRIMARY KEY, name VARCHAR(20)) PARTITION BY RANGE (id) "
            "(PARTITION p1 VALUES LESS THAN (5), PARTITION p2 VALUES LESS THAN MAXVALUE)"
        )
        log.insert(wanted("_orders_new", ID, NAME), (1, "a"), (7, "x"))
        log.statement("ALTER TABLE _orders_new TRUNCATE PARTITION p2")
        log.statement("RENAME TABLE orders TO _orders_old, _orders_new TO orders")

    assert kept(tmp_path, story, TableRule(select=r"shop\.orders"))["orders"] == [(1, "a")]


def test_marked_rows_stay_when_their_table_is_made_anew_with_other_columns(tmp_path: Path) -> None:
    """A column with values of another kind takes the place of the one before; one that has gone is a dropped one."""

    def story(log: ShopLog) -> None:
        log.insert(PRICED, (1, "a", 3))
        log.statement("DROP TABLE orders")
        log.statement("CREATE TABLE orders (id INT PRIMARY KEY, name DECIMAL(5,2))")
        log.statement("ALTER TABLE orders ADD price VARCHAR(20) DEFAULT 'x'")
        log.insert(wanted("orders", ID, ColumnSpec("name", "decimal(5,2)"), ColumnSpec("price", "varchar(20)")), NEW)

    NEW = (1, Decimal("1.50"), "y")
    targets = MemoryTargets()
    write_story(tmp_path, story, (TableRule(deletes=Deletes.MARK),), targets)
    (row,) = targets.tables["shop/orders"].rows
    assert row == {"id": 1, "name": Decimal("1.50"), "price": "y", "_deleted": False, "_deleted_at": None}


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


@pytest.mark.parametrize(
    ("alter", "value"),
    [
        ("DROP name, ADD name VARCHAR(20)", "refused"),
        ("DROP name, ADD name VARCHAR(20) DEFAULT 'b'", "b"),
        ("DROP PRIMARY KEY, DROP name, ADD name VARCHAR(20)", None),
    ],
)
def test_null_in_a_column_that_stays_in_its_key_is_refused(tmp_path: Path, alter: str, value: str | None) -> None:
    """Servers make the new column NOT NULL, as it is in the primary key."""

    def story(log: ShopLog) -> None:
        log.statement("CREATE TABLE orders (id INT, name VARCHAR(20), PRIMARY KEY (id, name))")
        log.insert(TableSpec("shop", "orders", (ID, NAME), ("id", "name")), (1, "a"))
        log.statement(f"ALTER TABLE orders {alter}")

    if value != "refused":
        assert kept(tmp_path, story)["orders"] == [(1, value)]
    else:
        with pytest.raises(SchemaError, match=r"SCHEMA_CHANGED\] shop\.orders: column name is new, .*stays in its key"):
            kept(tmp_path, story)


def test_unknown_values_are_refused_or_null(tmp_path: Path) -> None:
    def story(log: ShopLog) -> None:
        log.insert(ORDERS, (1, "a"))
        log.statement("ALTER TABLE orders ADD COLUMN price INT AS (id ^ 6) PERSISTENT")
        log.insert(PRICED, (2, "b", 4))

    with pytest.raises(
        SchemaError, match=r"SCHEMA_CHANGED\] shop\.orders: column price is new, .*generated column, and"
    ):
        kept(tmp_path, story)
    assert kept(tmp_path, story, TableRule(unknown_values=UnknownValues.NULL))["orders"] == [
        (1, "a", None),
        (2, "b", 4),
    ]


def test_column_that_only_a_statement_knows_the_type_of_comes_with_its_rows(tmp_path: Path) -> None:
    """Rows have a UUID as bytes, where no schema says what it is, and as text where one does."""
    uuid = ColumnSpec("u", "binary(16)", nullable=True)

    def story(log: ShopLog) -> None:
        log.statement("CREATE TABLE orders (id INT PRIMARY KEY, u UUID, name VARCHAR(20))")
        log.insert(wanted("orders", ID, uuid, NAME), (1, b"0123456789abcdef", "a"))
        log.statement("ALTER TABLE orders ADD v INET6, DROP COLUMN u")
        log.insert(wanted("orders", ID, NAME, replace(uuid, name="v")), (2, "b", b"fedcba9876543210"))

    def unknown(log: ShopLog) -> None:
        log.insert(ORDERS, (1, "a"))
        log.statement("ALTER TABLE orders ADD u UUID NOT NULL")

    assert kept(tmp_path / "known", story)["orders"] == [
        (1, "a", b"0123456789abcdef", None),
        (2, "b", None, b"fedcba9876543210"),
    ]
    with pytest.raises(SchemaError, match=r"SCHEMA_CHANGED\] shop\.orders: column u is new"):
        kept(tmp_path / "unknown", unknown)
    assert kept(tmp_path / "unknown", unknown, TableRule(unknown_values=UnknownValues.NULL))["orders"] == [(1, "a")]


@pytest.mark.parametrize("effect", ["DROP COLUMN price", "CHANGE price cost INT", "RENAME COLUMN price TO cost"])
def test_statement_about_a_column_that_nothing_has_brought_is_refused(tmp_path: Path, effect: str) -> None:
    """The server had that column: what is known of the table is wrong, and its rows may be, too."""
    create = "CREATE TABLE orders (id INT PRIMARY KEY, name VARCHAR(20))"

    def story(log: ShopLog) -> None:
        log.statement(create)
        log.insert(ORDERS, (1, "a"))
        log.statement(f"ALTER TABLE orders {effect}")

    def brought_by_rows(log: ShopLog) -> None:
        log.statement(create)
        log.insert(PRICED, (1, "a", 3))
        log.statement(f"ALTER TABLE orders {effect}")

    def if_there(log: ShopLog) -> None:
        log.statement(create)
        log.insert(ORDERS, (1, "a"))
        log.statement(f"ALTER TABLE orders {effect.replace('price', 'IF EXISTS price', 1)}")

    with pytest.raises(SchemaError, match=r"DDL_NOT_PARSED\] shop\.orders: an ALTER TABLE .*no column 'price'"):
        kept(tmp_path, story)
    assert kept(tmp_path, story, TableRule(unknown_values=UnknownValues.NULL))["orders"][0][:2] == (1, "a")
    assert kept(tmp_path / "if there", if_there)["orders"] == [(1, "a")]
    assert kept(tmp_path / "brought", brought_by_rows)["orders"][0][:2] == (1, "a")


def test_type_that_holds_other_values_is_refused_unless_there_are_none(tmp_path: Path) -> None:
    def story(log: ShopLog) -> None:
        log.insert(ORDERS, (1, "a"))
        log.statement("ALTER TABLE orders MODIFY name INT")

    def empty(log: ShopLog) -> None:
        log.insert(ORDERS, (1, "a"))
        log.delete(ORDERS, (1, "a"))
        log.statement("ALTER TABLE orders MODIFY name INT")
        log.insert(wanted("orders", ID, ColumnSpec("name", "int")), (1, 3))

    with pytest.raises(
        TableError, match=r"REWRITTEN_BY_SERVER\] shop\.orders: column name was varchar\(20\) and is int"
    ):
        kept(tmp_path / "rows", story)
    assert kept(tmp_path / "none", empty)["orders"] == [(1, 3)]


def test_rows_of_a_table_that_is_not_kept_are_not_made_up(tmp_path: Path) -> None:
    def story(log: ShopLog) -> None:
        log.insert(wanted("draft", ID, NAME), (1, "a"))
        log.statement("ALTER TABLE draft RENAME TO orders")

    with pytest.raises(SchemaError, match=r"TABLE_RENAMED\] shop\.orders was shop\.draft before"):
        kept(tmp_path, story, ONLY)


@pytest.mark.parametrize(
    ("before", "after", "rows"),
    [
        (Deletes.MARK, Deletes.REMOVE, [(2, "b")]),
        (Deletes.REMOVE, Deletes.MARK, [(2, "b", False, None)]),
        (Deletes.MARK, Deletes.MARK, [(1, "a", True, WHEN), (2, "b", False, None)]),
    ],
)
def test_renamed_table_has_the_marks_that_its_new_rule_asks_for(
    tmp_path: Path, before: Deletes, after: Deletes, rows: list[tuple[object, ...]]
) -> None:
    def story(log: ShopLog) -> None:
        log.insert(wanted("draft", ID, NAME), (1, "a"), (2, "b"))
        log.delete(wanted("draft", ID, NAME), (1, "a"))
        log.statement("RENAME TABLE draft TO orders")

    draft = TableRule(select=r"shop\.draft", deletes=before)
    assert kept(tmp_path, story, draft, [TableRule(deletes=after)])["orders"] == rows


def test_column_may_be_spelled_otherwise(tmp_path: Path) -> None:
    """With a statement that says so, or without one; also a key."""

    def story(log: ShopLog) -> None:
        log.insert(ORDERS, (1, "a"))
        log.statement("ALTER TABLE orders MODIFY Name VARCHAR(30), MODIFY ID BIGINT NOT NULL")
        log.update(BIG, ((1, "a"), (2, "b")))
        log.insert(TableSpec("shop", "orders", (ColumnSpec("Id", "bigint"), NAME), ("Id",)), (3, "c"))

    big = ColumnSpec("ID", "bigint")
    BIG = TableSpec("shop", "orders", (big, replace(NAME, name="Name")), ("ID",))
    targets = MemoryTargets()
    write_story(tmp_path, story, targets=targets)
    assert rows_of(targets)["orders"] == [(2, "b"), (3, "c")]
    assert [name.casefold() for name in targets.tables["shop/orders"].schema.names] == ["id", "name"]


def test_columns_whose_names_are_alike_in_larger_letters_are_two(tmp_path: Path) -> None:
    """`maße` and `masse`: existing rows do not get the values of the other one."""
    size, mass = ColumnSpec("maße", "varchar(20)"), ColumnSpec("masse", "int")
    both = TableSpec("shop", "orders", (ID, size, mass), ("id",))

    def story(log: ShopLog) -> None:
        log.insert(TableSpec("shop", "orders", (ID, size), ("id",)), (1, "a"))
        log.statement("ALTER TABLE orders ADD masse INT NOT NULL DEFAULT 5")
        log.insert(both, (2, "b", 7))

    targets = MemoryTargets()
    write_story(tmp_path, story, targets=targets)
    assert rows_of(targets)["orders"] == [(1, "a", 5), (2, "b", 7)]


def test_column_that_takes_the_name_of_a_dropped_one_is_no_dropped_column(tmp_path: Path) -> None:
    """Also where the process ends between the commit and what the target says of itself."""

    def story(log: ShopLog) -> None:
        log.insert(PRICED, (1, "a", 3))
        log.statement("ALTER TABLE orders DROP COLUMN price")
        log.statement("ALTER TABLE orders RENAME COLUMN name TO price")
        log.statement("ALTER TABLE orders ADD COLUMN IF NOT EXISTS price INT DEFAULT 5")

    for step in range(1, STEPS_MAX):
        targets = MemoryTargets()
        with contextlib.suppress(Cut), watched(CutOff(step)):
            write_story(tmp_path, story, targets=targets)
        write_story(tmp_path, story, targets=targets)
        assert rows_of(targets)["orders"] == [(1, "a")], step


def test_column_that_is_there_before_the_statement_is_not_added_if_it_drops_it(tmp_path: Path) -> None:
    """MariaDB leaves out what IF NOT EXISTS adds, and then drops the column."""

    def story(log: ShopLog) -> None:
        log.insert(PRICED, (1, "a", 3))
        log.statement("ALTER TABLE orders DROP COLUMN IF EXISTS price, ADD COLUMN IF NOT EXISTS price BIGINT DEFAULT 5")
        log.insert(ORDERS, (2, "b"))

    # In the target it stays, as after any DROP COLUMN.
    assert kept(tmp_path, story)["orders"] == [(1, "a", 3), (2, "b", None)]


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
    with open_log(str(tmp_path / "unknown" / "log")) as log:
        (batch,) = cut(log, 1)
        (component,) = plan(
            log,
            batch,
            (apply,),
            written=dict.fromkeys((TableName("shop", "items"), TableName("crm", "a")), frozenset()),
        ).components
    assert list(component.tables) == [TableName("shop", "items")]
    assert kept(tmp_path / "unknown", unknown, TableRule(select=r"crm\..*", on_drop=OnStatement.APPLY)) == {}


def test_a_table_that_a_dropped_database_had_begins_anew_where_drops_are_ignored(tmp_path: Path) -> None:
    def story(log: ShopLog) -> None:
        log.insert(ORDERS, (1, "a"))
        log.statement("DROP DATABASE shop")
        log.statement("CREATE DATABASE shop")
        log.statement("CREATE TABLE IF NOT EXISTS orders (id INT PRIMARY KEY, name VARCHAR(20))")
        log.insert(ORDERS, (2, "b"))

    assert kept(tmp_path, story)["orders"] == [(2, "b")]


def test_progress_counts_statements_and_says_what_is_kept_aside(tmp_path: Path) -> None:
    progress = {table.source_table: table for table in write_story(tmp_path, gh_ost, (ONLY,))}
    assert progress["shop.orders"].notes == frozenset()
    assert progress["shop._orders_gho"].notes == {Note.KEPT_ASIDE}
    assert progress["shop.orders"].statements == 1
    assert progress["shop.orders"].changes == 4
    commit = DeltaTable(str(tmp_path / "tables" / "shop" / "orders")).history(1)[0]
    assert commit[GTID_POSITION_KEY] == "0-1-77"


@pytest.mark.parametrize("table_format", MIRROR_SINKS, ids=str)
def test_columns_that_differ_in_case_alone_are_one(tmp_path: Path, table_format: TableFormat) -> None:
    """Also to targets: most readers find columns without regard to case."""
    sink = Sink(directory=str(tmp_path / "tables"), format=table_format)
    write_story(tmp_path, drop_and_add_in_other_case, sink=sink)
    table = Place(tmp_path / "tables", table_format).content()
    assert table.column_names == ["id", "name", "pricE"]
    assert sorted(table.column("pricE").to_pylist()) == ["7", "none", "none"]
