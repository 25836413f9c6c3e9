"""Statements that spell a table otherwise than its rows: the setting, the log's proof, or a named problem."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from binlog_connector.schema.definitions import TableName
from binlog_connector.schema.statement_rows import find_statement_rows
from binlog_connector.schema.statement_scope import StatementScope
from binlog_format import open_log
from binlog_format.errors import OptionError, SchemaError
from binlog_format.rows.decoding import DEFAULT_DECODING
from binlog_format.views.tables import TablesView
from binlog_lab.event_encoding.table_encoding import ColumnSpec
from binlog_streaming.plan.job_state import JobState, TableSelection
from binlog_streaming.plan.plan import plan_batch
from binlog_streaming.settings import OnError, OnStatement, TableRule
from tests.streaming.replay_runs import run
from tests.streaming.tables.batches import cut
from tests.streaming.tables.jobs.test_admission import job, log, rows
from tests.streaming.tables.jobs.test_plan import GROUPS_MAX, numbers, steps, table
from tests.streaming.tables.shop import ShopLog
from tests.streaming.tables.statements.statement_stories import ID, NAME, ORDERS, wanted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from binlog_streaming.plan.batch_plan import BatchPlan
    from binlog_streaming.plan.job_state import StateChange

STAGE = TableName("shop", "Stage")
RULE = TableRule(select=r"(?i:shop\..*)", on_drop=OnStatement.APPLY)


def plan_of(
    folder: Path,
    story: Sequence[str],
    *,
    folds: bool | None = None,
    scope: StatementScope | None = None,
    job_state: JobState | None = None,
    on_error: OnError = OnError.STOP,
) -> BatchPlan:
    """The plan of statements, and of rows of the tables that are named between them."""
    with ShopLog(folder) as log:
        for number, one in enumerate(story):
            if " " in one:
                log.statement(one)
            else:
                log.insert(table(one), (number,))
    view = TablesView(decoding=DEFAULT_DECODING, find_statements=find_statement_rows)
    with open_log(str(folder)) as opened:
        parts = [opened.committed_blocks(*part) for part in cut(opened, GROUPS_MAX)]
        rows = [row for blocks in parts for found in view.batches(blocks) for row in found.to_pylist()]
    job_state = job_state or JobState(scope=scope or StatementScope())
    return plan_batch(rows, DEFAULT_DECODING, TableSelection((RULE,), None, folds), job_state, on_error=on_error)


STORY = ["stage", "TRUNCATE Stage", "ALTER TABLE SHOP.Stage ADD b INT", "RENAME TABLE Stage TO Old", "old"]
DONE = ["stage", "TableTruncated", "TableAltered", "TableRenamed", "old"]


@pytest.mark.parametrize("folds", [True, None])
def test_statements_are_about_the_table_that_the_server_means(tmp_path: Path, folds: bool | None) -> None:
    created = [] if folds else ["CREATE DATABASE shop", "CREATE TABLE STAGE (id INT PRIMARY KEY)"]
    (component,) = plan_of(tmp_path, [*created, *STORY], folds=folds).components
    assert set(component.tables) == {TableName("shop", "stage"), TableName("shop", "old")}, "no target by another name"
    assert [what for _, what in steps(component)] == [*(["TableCreated"] if created else []), *DONE]


def test_what_was_proved_counts_in_later_batches(tmp_path: Path) -> None:
    scope = StatementScope()
    created = ["CREATE DATABASE shop", "CREATE TABLE STAGE (id INT PRIMARY KEY)", "stage"]
    change = plan_of(tmp_path / "a", created, scope=scope).state_change
    later = StatementScope.from_json(change.scope.to_json())
    (component,) = plan_of(tmp_path / "b", STORY, scope=later).components
    assert [what for _, what in steps(component)] == DONE


def state_after(change: StateChange, **more: object) -> JobState:
    """What the job knows after a batch that wrote `shop.Stage`."""
    scope = StatementScope.from_json(change.scope.to_json())
    complete = {STAGE: True, **change.complete}
    return JobState(written={STAGE: frozenset()}, complete=complete, from_first=False, scope=scope, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("story", [["stage"], ["TRUNCATE STAGE", "stage"]])
def test_empty_target_under_another_spelling_goes_when_the_server_is_known_to_fold_names(
    tmp_path: Path, story: list[str]
) -> None:
    created = ["CREATE DATABASE shop", "CREATE TABLE Stage (id INT PRIMARY KEY)"]
    before = plan_of(tmp_path / "a", created)
    assert numbers(before) == {("shop.Stage", 3)}
    planned = plan_of(tmp_path / "b", story, job_state=state_after(before.state_change))
    steps_of = {str(name): steps(component) for component in planned.components for name in component.tables}
    assert steps_of["shop.Stage"] == [(0, "TableDropped")]
    assert steps_of["shop.stage"][-1][1] == "stage"
    assert planned.state_change.gone == {STAGE}
    assert planned.state_change.complete[STAGE.lowered] is True, "as it was under the other name"
    later = plan_of(tmp_path / "c", story, job_state=state_after(planned.state_change))
    assert STAGE not in {name for component in later.components for name in component.tables}, "once"


def test_table_that_was_set_aside_under_another_spelling_does_not_go_on(tmp_path: Path) -> None:
    created = ["CREATE DATABASE shop", "CREATE TABLE Stage (id INT PRIMARY KEY) ENGINE = BLACKHOLE"]
    before = plan_of(tmp_path / "a", created, on_error=OnError.SET_ASIDE)
    stopped = next(one.tables[STAGE].set_aside for one in before.components if STAGE in one.tables)
    assert stopped is not None
    job_state = state_after(before.state_change, set_aside={STAGE: stopped})
    with pytest.raises(SchemaError, match=r"TABLE_RENAMED\] shop\.stage is shop\.Stage, which was set aside at"):
        plan_of(tmp_path / "b", ["stage"], job_state=job_state)


def test_tables_that_differ_in_case_stay_apart(tmp_path: Path) -> None:
    story = ["stage", "Stage", "TRUNCATE Stage"]
    planned = plan_of(tmp_path / "a", story)
    assert numbers(planned) == {("shop.stage", 2), ("shop.Stage", 2), ("shop.Stage", 3)}
    assert numbers(plan_of(tmp_path / "b", story, folds=False)) == numbers(planned)
    with pytest.raises(OptionError, match=r"lowerCaseTableNames: rows of shop\.Stage are in the log"):
        plan_of(tmp_path / "c", story, folds=True)


def test_capitals_of_an_earlier_start_of_the_server_prove_nothing(tmp_path: Path) -> None:
    story = ["stage", "TRUNCATE Stage"]  # the log begins with a start of its server
    stated = StatementScope.from_json({"names": {"folds": False}})
    assert ("shop.Stage", 3) in numbers(plan_of(tmp_path / "a", ["CREATE TABLE Stage (id INT)", *story], scope=stated))
    proved = StatementScope.from_json({"names": {"folds": False, "proved": True}})
    with pytest.raises(SchemaError, match=r"NAMES_UNCLEAR\] shop\.stage: a statement is about shop\.Stage"):
        plan_of(tmp_path / "b", story, scope=proved)
    capitals = StatementScope.from_json({"names": {"folds": False, "proved": True}})
    planned = plan_of(tmp_path / "c", ["Stage", *story], scope=capitals)
    assert planned.state_change.scope.names.folds is False, "proved again"


@pytest.mark.parametrize(
    "text",
    [
        *("TRUNCATE Stage", "ALTER TABLE Stage ADD b INT", "RENAME TABLE Stage TO other", "DROP TABLE Stage"),
        *("RENAME TABLE other TO Stage", "CREATE OR REPLACE TABLE Stage (id INT)", "DROP DATABASE Shop"),
        "ALTER TABLE Stage FOO BAR BAZ (",
    ],
)
def test_what_the_log_leaves_open_is_named(tmp_path: Path, text: str) -> None:
    with pytest.raises(SchemaError, match=r"shop\.stage: a statement is about \S+, and the log does not show") as error:
        plan_of(tmp_path / "a", ["stage", text])
    assert error.value.subclass == "NAMES_UNCLEAR"
    assert "lowerCaseTableNames" in (error.value.hint or "")
    elsewhere = plan_of(tmp_path / "b", ["items", text.replace("DROP DATABASE Shop", "TRUNCATE Crm.stage")])
    assert ("shop.items", 2) in numbers(elsewhere)


@pytest.mark.parametrize(
    "texts",
    [
        ["RENAME TABLE Stage TO items"],
        ["RENAME TABLE Stage TO old, stage2 TO stage, old TO items"],
        ["RENAME TABLE Stage TO old", "ALTER TABLE old RENAME items"],
    ],
)
@pytest.mark.parametrize("later", [[], ["items"]])
def test_table_that_may_have_got_the_rows_is_named(tmp_path: Path, texts: list[str], later: list[str]) -> None:
    planned = plan_of(tmp_path, ["stage", *texts, *later], on_error=OnError.SET_ASIDE)
    tables = [table for component in planned.components for table in component.tables.items()]
    stopped = {str(name): table.set_aside for name, table in tables if table.set_aside}
    assert set(stopped) == {"shop.stage", "shop.items"}
    assert "whether it has got the rows of shop.stage" in stopped["shop.items"].reason


def test_table_that_is_created_is_new_whatever_its_spelling(tmp_path: Path) -> None:
    story = ["stage", "CREATE TABLE Stage (id INT)", "CREATE TABLE IF NOT EXISTS STAGE (id INT)"]
    assert ("shop.stage", 2) in numbers(plan_of(tmp_path, story))


def test_values_are_converted_by_the_definition_under_another_spelling(tmp_path: Path) -> None:
    wanted_job = job(tmp_path, source={"lowerCaseTableNames": 1})

    def created(writer: ShopLog) -> None:
        writer.statement("CREATE TABLE Shop.Orders (id INT PRIMARY KEY, name VARCHAR(20))")
        writer.insert(ORDERS, (1, "12"))

    def converted(writer: ShopLog) -> None:
        writer.statement("ALTER TABLE Shop.ORDERS MODIFY name BIGINT")
        writer.insert(wanted("orders", ID, ColumnSpec(NAME.name, "bigint", nullable=True)), (2, 3))

    log(tmp_path, created)
    run(wanted_job)
    log(tmp_path, converted, first=300)
    run(wanted_job)
    assert rows(tmp_path, "orders") == [(1, 12), (2, 3)]
