"""What the cut-over of gh-ost and pt-online-schema-change does to each kind of target."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_connector.crash_points import watched
from binlog_format import open_log
from binlog_format.errors import SchemaError
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableSpec
from binlog_streaming.lake.commit_id import DROPPED_COLUMNS_PROPERTY, KEYS_PROPERTY, MODE_PROPERTY
from binlog_streaming.settings import Deletes, Mode, OnStatement, TableRule
from tests.chance import examples, stride
from tests.faults.processes import Cut, CutOff
from tests.streaming.tables.lake.memory_target import MemoryTargets
from tests.streaming.tables.lake.sink_cases import MIRROR_VARIANTS
from tests.streaming.tables.shop import ShopLog
from tests.streaming.tables.statements.ddl_histories import ModelServer
from tests.streaming.tables.statements.statement_stories import (
    ID,
    NAME,
    ORDERS,
    PRICE,
    PRICED,
    STEPS_MAX,
    WHEN,
    gh_ost,
    write_story,
)
from tests.streaming.tables.statements.test_ddl_histories import write_with_faults

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from binlog_lab.event_encoding.value_encoding import Value
    from tests.streaming.tables.lake.sink_cases import Variant
    from tests.streaming.tables.statements.statement_stories import Story

SELECT = r"shop\.orders"
SCD2 = TableRule(select=SELECT, mode=Mode.SCD2)
MARK = TableRule(select=SELECT, deletes=Deletes.MARK)
GHOST = TableSpec("shop", "_orders_gho", (ID, NAME, PRICE), ("id",))
STAGING = ".binlog-stream/staging/shop/_orders_gho/mirror"
CUT_OVER = "RENAME TABLE orders TO _orders_del, _orders_gho TO orders"


def build(log: ShopLog, *rows: tuple[Value, ...], spec: TableSpec = GHOST) -> None:
    """What gh-ost does: the ghost has *rows* in the end, and takes the table's place."""
    log.statement("CREATE TABLE _orders_gho LIKE orders")
    log.insert(spec, *rows)
    log.statement(CUT_OVER)


def with_a_past(log: ShopLog) -> None:
    """Of the ghost's rows one is the same, one is not, one is new; one that the table had is missing."""
    log.insert(ORDERS, (1, "a"), (2, "b"), (3, "c"), (4, "d"))
    log.update(ORDERS, ((1, "a"), (1, "A")))
    log.delete(ORDERS, (4, "d"))
    build(log, (1, "A", 10), (2, "B", 20), (5, "e", 50))
    log.update(PRICED, ((1, "A", 10), (1, "A", 11)))


def rows_in(folder: Path, story: Story, *rules: TableRule, table: str = "shop/orders") -> list[dict[str, object]]:
    """What a target in memory holds behind *story*."""
    targets = MemoryTargets()
    write_story(folder, story, rules, targets)
    return targets.tables[table].rows


def versions(rows: Sequence[dict[str, object]], *names: str) -> list[tuple[object, ...]]:
    """Some columns of versions, and whether they hold; the versions of a row in their order."""
    ordered = sorted(rows, key=lambda row: (row["id"] is None, row["id"], row["_position"]))
    assert all((row["_valid_to"] is None) == row["_is_current"] for row in rows)
    assert all(row["_valid_from"] == WHEN and row["_valid_to"] in (None, WHEN) for row in rows)
    return [(*(row[name] for name in names), row["_is_current"]) for row in ordered]


def test_versions_stay_and_a_row_with_the_same_values_is_the_same_version(tmp_path: Path) -> None:
    assert versions(rows_in(tmp_path, with_a_past, SCD2), "id", "name", "price") == [
        (1, "a", None, False),
        (1, "A", 10, False),
        (1, "A", 11, True),
        (2, "b", None, False),
        (2, "B", 20, True),
        (3, "c", None, False),
        (4, "d", None, False),
        (5, "e", 50, True),
    ]


def test_version_that_a_cut_over_begins_stands_where_the_statement_does(tmp_path: Path) -> None:
    def story(log: ShopLog) -> None:
        log.insert(ORDERS, (2, "b"))
        build(log, (2, "B", 20))
        log.update(PRICED, ((2, "B", 20), (2, "C", 20)))

    rows = {row["name"]: row["_position"] for row in rows_in(tmp_path, story, SCD2)}
    assert str(rows["b"]) < str(rows["B"]) < str(rows["C"])
    assert len({len(str(position)) for position in rows.values()}) == 1


def test_marked_rows_stay_and_a_row_that_is_gone_is_marked(tmp_path: Path) -> None:
    found = {row["id"]: tuple(row.values())[1:] for row in rows_in(tmp_path, with_a_past, MARK)}
    assert found == {
        1: ("A", False, None, 11),
        2: ("B", False, None, 20),
        3: ("c", True, WHEN, None),
        4: ("d", True, WHEN, None),
        5: ("e", False, None, 50),
    }


def test_marked_row_that_the_ghost_has_is_there_again(tmp_path: Path) -> None:
    def story(log: ShopLog) -> None:
        log.insert(ORDERS, (1, "a"))
        log.delete(ORDERS, (1, "a"))
        build(log, (1, "b", 5))

    (row,) = rows_in(tmp_path, story, MARK)
    assert row == {"id": 1, "name": "b", "_deleted": False, "_deleted_at": None, "price": 5}


def test_changelog_goes_on_without_the_rows_of_the_copy(tmp_path: Path) -> None:
    targets = MemoryTargets()
    write_story(tmp_path, with_a_past, (rule_for(Mode.CHANGELOG),), targets)
    assert list(targets.tables) == ["changelog/orders"]
    rows = targets.tables["changelog/orders"].rows
    assert [(row["_change_type"], row["id"], row["name"], row["price"]) for row in rows] == [
        ("insert", 1, "a", None),
        ("insert", 2, "b", None),
        ("insert", 3, "c", None),
        ("insert", 4, "d", None),
        ("update_preimage", 1, "a", None),
        ("update_postimage", 1, "A", None),
        ("delete", 4, "d", None),
        ("update_preimage", 1, "A", 10),
        ("update_postimage", 1, "A", 11),
    ]


def rule_for(*modes: Mode) -> TableRule:
    """A rule for some modes, each with a target of its own."""
    return TableRule(select=SELECT, mode=modes, target="{mode}/{table}")


@pytest.mark.parametrize(
    "rule", [SCD2, MARK, rule_for(Mode.SCD2, Mode.CHANGELOG, Mode.MIRROR)], ids=["scd2", "mark", "several"]
)
def test_ghost_is_kept_aside_as_a_plain_mirror(tmp_path: Path, rule: TableRule) -> None:
    def story(log: ShopLog) -> None:
        log.insert(ORDERS, (1, "a"))
        log.statement("CREATE TABLE _orders_gho LIKE orders")
        log.insert(GHOST, (1, "a", 5), (2, "b", 6))
        log.delete(GHOST, (2, "b", 6))

    targets = MemoryTargets()
    write_story(tmp_path, story, (rule,), targets)
    assert [name for name in targets.tables if name.startswith(".")] == [STAGING]
    assert targets.tables[STAGING].rows == [{"id": 1, "name": "a", "price": 5}]
    assert targets.tables[STAGING].properties[MODE_PROPERTY] == Mode.MIRROR


def test_ghost_that_is_begun_anew_has_no_rows_of_the_one_before(tmp_path: Path) -> None:
    """Whatever the job says of TRUNCATE and DROP of the table itself."""

    def story(log: ShopLog) -> None:
        log.insert(ORDERS, (1, "a"))
        log.statement("CREATE TABLE _orders_gho LIKE orders")
        log.insert(GHOST, (7, "x", 5), (8, "y", 5))
        log.statement("TRUNCATE _orders_gho")
        log.insert(GHOST, (9, "z", 5))
        log.statement("DROP TABLE _orders_gho")
        build(log, (1, "a", 5))

    for ignored in (OnStatement.IGNORE, OnStatement.FAIL):
        rule = TableRule(select=SELECT, mode=Mode.SCD2, on_truncate=ignored, on_drop=ignored)
        assert versions(rows_in(tmp_path, story, rule), "id", "price") == [(1, 5, True)]


@pytest.mark.parametrize("rule", [SCD2, MARK], ids=["scd2", "mark"])
def test_ghost_that_a_rule_selects_is_one_all_the_same(tmp_path: Path, rule: TableRule) -> None:
    """With `select = "shop\\..*"` its target keeps rows too; only those that it has count."""

    def story(log: ShopLog) -> None:
        log.insert(ORDERS, (1, "a"), (2, "b"))
        log.delete(ORDERS, (2, "b"))
        log.statement("CREATE TABLE _orders_gho LIKE orders")
        log.insert(GHOST, (1, "a", 5), (3, "c", 5))
        log.delete(GHOST, (3, "c", 5))
        log.statement(CUT_OVER)

    everything = TableRule(mode=rule.mode, deletes=rule.deletes)
    selected, aside = (rows_in(tmp_path / name, story, one) for name, one in (("all", everything), ("one", rule)))
    assert sorted(map(str, selected)) == sorted(map(str, aside))
    assert len(selected) == 2


def test_columns_change_as_by_alter_table(tmp_path: Path) -> None:
    """One goes and keeps its values, one becomes wider, one comes; a row with the same values is the same version."""

    def story(log: ShopLog) -> None:
        log.insert(PRICED, (1, "a", 3), (2, "b", 4))
        log.delete(PRICED, (2, "b", 4))
        wide = (ColumnSpec("id", "bigint"), replace(PRICE, sql_type="bigint"), ColumnSpec("state", "varchar(9)"))
        build(log, (1, 3, "new"), spec=TableSpec("shop", "_orders_gho", wide, ("id",)))
        log.update(TableSpec("shop", "orders", wide, ("id",)), ((1, 3, "new"), (1, 2**40, "old")))

    targets = MemoryTargets()
    write_story(tmp_path, story, (SCD2,), targets)
    table = targets.tables["shop/orders"]
    assert versions(table.rows, "id", "name", "price", "state") == [
        (1, "a", 3, "new", False),
        (1, None, 2**40, "old", True),
        (2, "b", 4, None, False),
    ]
    assert table.properties[DROPPED_COLUMNS_PROPERTY] == "name"


def test_column_of_another_kind_is_refused_unless_the_table_had_no_rows(tmp_path: Path) -> None:
    spec = TableSpec("shop", "_orders_gho", (ID, ColumnSpec("name", "int")), ("id",))

    def story(log: ShopLog) -> None:
        log.insert(ORDERS, (1, "a"))
        build(log, (1, 5), spec=spec)

    def empty(log: ShopLog) -> None:
        log.statement("CREATE TABLE orders (id INT PRIMARY KEY, name VARCHAR(20))")
        build(log, (1, 5), spec=spec)

    with pytest.raises(SchemaError, match=r"SCHEMA_CHANGED\] shop\.orders: column name was string and is int32 now"):
        rows_in(tmp_path / "rows", story, SCD2)
    assert versions(rows_in(tmp_path / "none", empty, SCD2), "id", "name") == [(1, 5, True)]


def test_rows_are_brought_together_by_a_key_that_both_have(tmp_path: Path) -> None:
    code = ColumnSpec("code", "int")

    def story(log: ShopLog, columns: tuple[ColumnSpec, ...], rows: Sequence[tuple[Value, ...]]) -> None:
        log.insert(TableSpec("shop", "orders", (ID, NAME, code), ("id",)), (1, "a", 10), (2, "b", 20))
        build(log, rows[0], spec=TableSpec("shop", "_orders_gho", columns, ("code",)))
        log.update(TableSpec("shop", "orders", columns, ("code",)), (rows[0], rows[1]))

    def both(log: ShopLog) -> None:
        story(log, (ID, NAME, code), [(1, "a", 10), (1, "z", 10)])

    def new(log: ShopLog) -> None:
        story(log, (NAME, code), [("a", 10), ("z", 10)])

    for number, one in enumerate((both, new)):
        targets = MemoryTargets()
        write_story(tmp_path / str(number), one, (SCD2,), targets)
        rows = targets.tables["shop/orders"].rows
        assert sorted((row["code"], row["name"], row["_is_current"]) for row in rows) == [
            (10, "a", False),
            (10, "z", True),
            (20, "b", False),
        ]
        assert targets.tables["shop/orders"].properties[KEYS_PROPERTY] == "code"


def test_rows_without_a_common_key_end_and_those_of_the_ghost_begin(tmp_path: Path) -> None:
    def story(log: ShopLog) -> None:
        log.insert(ORDERS, (1, "a"))
        columns = (ColumnSpec("number", "bigint"), NAME)
        build(log, (1, "a"), spec=TableSpec("shop", "_orders_gho", columns, ("number",)))

    rows = rows_in(tmp_path, story, SCD2)
    assert [(row["id"], row["number"], row["_is_current"]) for row in rows] == [(1, None, False), (None, 1, True)]


def test_name_of_a_ghost_may_be_a_stop_on_the_way(tmp_path: Path) -> None:
    def story(log: ShopLog) -> None:
        log.insert(ORDERS, (1, "a"), (2, "b"))
        log.delete(ORDERS, (2, "b"))
        log.statement("RENAME TABLE orders TO _orders_new")
        log.statement("RENAME TABLE _orders_new TO orders")
        log.insert(ORDERS, (3, "c"))

    assert versions(rows_in(tmp_path, story, SCD2), "id", "name") == [
        (1, "a", True),
        (2, "b", False),
        (3, "c", True),
    ]


def test_table_that_is_not_there_yet_begins_with_the_cut_over(tmp_path: Path) -> None:
    def story(log: ShopLog) -> None:
        build(log, (1, "a", 5))
        log.update(PRICED, ((1, "a", 5), (1, "b", 5)))

    assert versions(rows_in(tmp_path, story, SCD2), "id", "name", "price") == [(1, "a", 5, False), (1, "b", 5, True)]
    assert rows_in(tmp_path, story, MARK)[0]["name"] == "b"


def with_other_keys(log: ShopLog) -> None:
    """What the target says of itself changes with it: keys, dropped columns."""
    log.insert(PRICED, (1, "a", 3), (2, "b", 4))
    log.delete(PRICED, (2, "b", 4))
    columns = (ID, ColumnSpec("price", "int"), ColumnSpec("state", "varchar(9)"))
    build(log, (1, 3, "new"), (5, 6, "new"), spec=TableSpec("shop", "_orders_gho", columns, ("price",)))
    log.statement("CREATE TABLE _orders_gho (id INT PRIMARY KEY)")
    log.update(TableSpec("shop", "orders", columns, ("price",)), ((1, 3, "new"), (1, 3, "old")))


STORIES = {"with a past": with_a_past, "other keys": with_other_keys, "gh-ost": gh_ost}
RULES = {
    "scd2": SCD2,
    "mark": MARK,
    "several": rule_for(Mode.SCD2, Mode.CHANGELOG, Mode.MIRROR),
    "selected": TableRule(mode=Mode.SCD2),
}


@pytest.mark.thorough_where("several|selected|mark")
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_cut_off_at_any_step_and_repeated_does_the_same(tmp_path: Path, story: Story, rule: TableRule) -> None:
    whole = MemoryTargets()
    write_story(tmp_path, story, (rule,), whole)
    for step in range(1, 2 * STEPS_MAX, stride(2)):
        targets = MemoryTargets()
        try:
            with watched(CutOff(step)):
                write_story(tmp_path, story, (rule,), targets)
        except Cut:
            write_story(tmp_path, story, (rule,), targets)
            for name in whole.tables:
                if not name.startswith("."):
                    assert _content(targets, name) == _content(whole, name), (step, name)
            commits = {uri: table.commits for uri, table in targets.tables.items()}
            write_story(tmp_path, story, (rule,), targets)
            assert {uri: table.commits for uri, table in targets.tables.items()} == commits, step
        else:
            assert step > 8
            return
    raise AssertionError("there are more steps")


def _content(targets: MemoryTargets, name: str) -> tuple[object, ...]:
    table = targets.tables[name]
    # What is said to be empty is as if it were not said.
    return sorted(map(str, table.rows)), {key: text for key, text in table.properties.items() if text}


@pytest.mark.thorough_where("iceberg")
@pytest.mark.slow
@pytest.mark.parametrize("rule", [SCD2, MARK], ids=["scd2", "mark"])
@pytest.mark.parametrize("variant", MIRROR_VARIANTS)
def test_sinks_hold_what_memory_does_wherever_they_are_cut_off(
    tmp_path: Path, variant: Variant, rule: TableRule
) -> None:
    wanted = sorted(map(_plain, rows_in(tmp_path, with_a_past, rule)))
    for step in range(1, STEPS_MAX, stride(3)):
        place = variant.place(tmp_path / str(step))
        is_cut_off = False
        try:
            with watched(CutOff(step)):
                write_story(tmp_path, with_a_past, (rule,), sink=place.sink)
        except Cut:
            is_cut_off = True
            write_story(tmp_path, with_a_past, (rule,), sink=place.sink)
        assert sorted(map(_plain, place.content().to_pylist())) == wanted, step
        if not is_cut_off:
            assert step > 8
            return
    raise AssertionError("there are more steps")


def _plain(row: dict[str, object]) -> str:
    return str(sorted((name, str(value)) for name, value in row.items()))


MODEL_RULES = [
    TableRule(select=r"shop\.(orders|items)", mode=Mode.SCD2),
    TableRule(select=r"shop\.(orders|items)", deletes=Deletes.MARK),
]


@settings(max_examples=examples(40))
@given(seed=st.integers(0, 2**32 - 1), batches=st.integers(1, 4), rule=st.sampled_from(MODEL_RULES))
def test_cut_over_leaves_what_the_same_alter_table_does(
    tmp_path_factory: pytest.TempPathFactory, seed: int, batches: int, rule: TableRule
) -> None:
    held = []
    for by_ghost in (True, False):
        folder = tmp_path_factory.mktemp("history")
        chance = random.Random(seed)
        with ShopLog(folder) as writer:
            server = ModelServer(writer, chance, builds_ghosts=by_ghost)
            server.create()
            server.create()
            server.live(30, without=("drop", "drop_column"))
        targets = MemoryTargets()
        with open_log(str(folder)) as log:
            write_with_faults(log, targets, batches if by_ghost else 1, chance, rule)
        tables = {name: table for name, table in targets.tables.items() if "_gho" not in name and "_del" not in name}
        held.append({name: sorted(_unplaced(row) for row in table.rows) for name, table in tables.items()})
    assert held[0] == held[1]


def _unplaced(row: dict[str, object]) -> str:
    # A ghost without rows does not say which columns it has; they come with the first row.
    return _plain({name: value for name, value in row.items() if name != "_position" and value is not None})
