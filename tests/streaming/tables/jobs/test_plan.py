"""What a batch does, in which order and under which numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_connector.schema.definitions import TableName
from binlog_format import open_log
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableSpec
from binlog_streaming.plan.batch_plan import RowsStep
from binlog_streaming.plan.cascade_links import LinkedRowsStep
from binlog_streaming.plan.job_state import TableSelection
from binlog_streaming.plan.plan import spread
from binlog_streaming.settings import Deletes, Mode, TableRule
from tests.streaming.tables.batches import MIRROR, cut, plan
from tests.streaming.tables.shop import ShopLog

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from binlog_streaming.plan.batch_plan import BatchPlan, ChangeStep, Component

GROUPS_MAX = 100
"""So many ranges that each holds one event group: then every step that is planned has rows."""

ID = ColumnSpec("id", "int")


def table(name: str) -> TableSpec:
    return TableSpec("shop", name, (ID,), ("id",))


def plan_of(folder: Path, story: Callable[[ShopLog], None], rule: TableRule = MIRROR) -> BatchPlan:
    with ShopLog(folder) as log:
        story(log)
    with open_log(str(folder)) as opened:
        (batch,) = cut(opened, 1)
        return plan(opened, batch, (rule,), partitions=GROUPS_MAX)


def steps(component: Component) -> list[tuple[int, str]]:
    """Number of each step, and what it is: the table whose rows, or the change."""
    return [(step.number, _what(step)) for step in component.steps]


def _what(step: RowsStep | LinkedRowsStep | ChangeStep) -> str:
    if isinstance(step, LinkedRowsStep):
        return ", ".join(name.table for name in step.tables)
    return step.table.table if isinstance(step, RowsStep) else type(step.change).__name__


def numbers(planned: BatchPlan) -> set[tuple[str, int]]:
    return {(component.name, step.number) for component in planned.components for step in component.steps}


def rows_between_statements(log: ShopLog) -> None:
    log.insert(table("orders"), (1,))
    log.insert(table("items"), (1,))
    log.statement("TRUNCATE orders")
    log.insert(table("orders"), (2,))
    log.insert(table("items"), (2,))
    log.statement("CREATE TABLE other (id INT PRIMARY KEY)")
    log.insert(table("orders"), (3,))
    log.statement("TRUNCATE items")


def test_statements_cut_the_rows_of_their_own_table_alone(tmp_path: Path) -> None:
    planned = plan_of(tmp_path, rows_between_statements)
    assert {component.name: steps(component) for component in planned.components} == {
        "shop.items": [(2, "items"), (9, "TableTruncated")],
        "shop.orders": [(2, "orders"), (3, "TableTruncated"), (5, "orders")],
        "shop.other": [(6, "TableCreated")],
    }


def test_numbers_do_not_depend_on_the_tables_that_are_kept(tmp_path: Path) -> None:
    planned = plan_of(tmp_path, rows_between_statements, TableRule(select=r"shop\.items"))
    assert [steps(component) for component in planned.components] == [[(2, "items"), (9, "TableTruncated")]]


def test_wider_ranges_only_add_steps_that_may_hold_nothing(tmp_path: Path) -> None:
    with ShopLog(tmp_path) as log:
        rows_between_statements(log)
    with open_log(str(tmp_path)) as opened:
        (batch,) = cut(opened, 1)
        planned = [plan(opened, batch, partitions=count) for count in (1, 2, GROUPS_MAX)]
    assert all(numbers(one) >= numbers(planned[-1]) for one in planned)


def test_tables_that_a_rename_links_are_one_component(tmp_path: Path) -> None:
    def story(log: ShopLog) -> None:
        log.insert(table("a"), (1,))
        log.statement("RENAME TABLE a TO b, c TO a")
        log.insert(table("b"), (2,))
        log.insert(table("d"), (2,))

    planned = plan_of(tmp_path, story)
    assert {component.name: steps(component) for component in planned.components} == {
        "shop.a": [(2, "a"), (3, "TableRenamed"), (5, "b"), (6, "TableRenamed")],
        "shop.d": [(2, "d")],
    }
    assert set(planned.components[0].tables) == {TableName("shop", name) for name in "abc"}


def test_statement_about_other_tables_alone_makes_no_component(tmp_path: Path) -> None:
    def story(log: ShopLog) -> None:
        log.statement("TRUNCATE other")
        log.statement("CREATE DATABASE x")

    planned = plan_of(tmp_path, story, TableRule(select=r"shop\.items"))
    assert planned.components == ()
    assert planned.end is not None


def test_sequences_that_rules_select_are_named_and_have_no_steps(tmp_path: Path) -> None:
    def story(log: ShopLog) -> None:
        log.statement("CREATE SEQUENCE shop.numbers")
        log.statement("ALTER SEQUENCE shop.numbers RESTART 5")
        log.statement("CREATE SEQUENCE other.numbers")
        log.statement("RENAME TABLE shop.numbers TO shop.counted")

    planned = plan_of(tmp_path, story, TableRule(select=r"shop\..*"))
    assert planned.components == ()
    assert planned.state_change.sequences == {TableName("shop", "counted")}


def test_ghosts_are_kept_with_the_rule_of_their_table() -> None:
    selection = TableSelection((TableRule(select=r"shop\.orders", target="{table}"), TableRule(select=r"crm\..*")))
    for name, is_aside in (("orders", False), ("_orders_gho", True), ("_orders_new", True), ("__orders_new", True)):
        found = selection.find(TableName("shop", name))
        assert found is not None
        assert (found.rule.select, found.is_aside) == (r"shop\.orders", is_aside)
    found = selection.find(TableName("crm", "_orders_gho"))
    assert found is not None
    assert not found.is_aside
    for name in ("_orders_del", "_orders_ghc", "_items_gho", "items"):
        assert selection.find(TableName("shop", name)) is None


def test_ghost_is_a_plain_mirror_whatever_is_kept_of_its_table() -> None:
    rule = TableRule(select=r"shop\.orders", mode=(Mode.SCD2, Mode.CHANGELOG), keys=("id",), deletes=Deletes.MARK)
    found = TableSelection((rule,)).find(TableName("shop", "_orders_gho"))
    assert found is not None
    assert (found.rule.modes, found.rule.deletes, found.rule.keys) == ((Mode.MIRROR,), Deletes.REMOVE, ("id",))
    changelog = TableRule(select=r"shop\.orders", mode=Mode.CHANGELOG)
    assert TableSelection((changelog,)).find(TableName("shop", "_orders_gho")) is None, "it takes nothing over"


def test_rules_that_may_be_about_a_database_are_found() -> None:
    selection = TableSelection(
        tuple(TableRule(select=select) for select in (r"shop\..*", "crm[.]a,x[.]b", ".*", r"(a\.b|c\.d)"))
    )
    assert [rule.select for rule in selection.rules_about("shop")] == [r"shop\..*", ".*", r"(a\.b|c\.d)"]
    assert [rule.select for rule in selection.rules_about("x")] == ["crm[.]a,x[.]b", ".*", r"(a\.b|c\.d)"]


def test_components_are_spread_by_weight(tmp_path: Path) -> None:
    def story(log: ShopLog) -> None:
        for name in ("a", "b", "c", "d"):
            log.insert(table(name), (1,))

    components = plan_of(tmp_path, story).components
    assert [len(pile) for pile in spread(components, 2)] == [2, 2]
    assert [len(pile) for pile in spread(components, 8)] == [1, 1, 1, 1]
    assert spread((), 3) == []
