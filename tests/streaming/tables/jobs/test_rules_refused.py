"""Statements after which a rule would show a table otherwise: its tables are set aside, and others go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from binlog_format.errors import OptionError, SchemaError, TableError
from binlog_lab.event_encoding.table_encoding import ColumnSpec
from binlog_streaming.settings.choices import OnError
from tests.streaming.replay_runs import run
from tests.streaming.tables.jobs.test_admission import ITEMS, job, log, record, rows
from tests.streaming.tables.statements.statement_stories import ID, NAME, ORDERS, wanted

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_streaming.settings.model import Job
    from tests.streaming.tables.shop import ShopLog
    from tests.streaming.tables.statements.statement_stories import Story

SECRET = "PLANTED"
CALLED = ColumnSpec("called", "varchar(20)", nullable=True)
PLAIN = wanted("plain", ID, NAME)


def masking(folder: Path, on_error: OnError) -> Job:
    tables = [{"select": r"shop\.orders", "mask": {"name": "null"}}, {"select": r"shop\..*"}]
    return job(folder, top={"on_error": on_error, "tables": tables})


def first(writer: ShopLog) -> None:
    for table in (ORDERS, ITEMS):
        writer.statement(table.create_statement())
        writer.insert(table, (1, SECRET))


def renamed_column(writer: ShopLog) -> None:
    writer.statement("ALTER TABLE orders RENAME COLUMN name TO called")
    writer.insert(wanted("orders", ID, CALLED), (2, SECRET))
    writer.insert(ITEMS, (2, "b"))


def renamed_table(writer: ShopLog) -> None:
    writer.statement("RENAME TABLE orders TO plain")
    writer.insert(PLAIN, (2, SECRET))
    writer.insert(ITEMS, (2, "b"))


@pytest.mark.parametrize(
    ("story", "stopped"), [(renamed_column, {"orders"}), (renamed_table, {"orders", "plain"})], ids=["column", "table"]
)
def test_tables_are_set_aside_with_what_is_hidden(tmp_path: Path, story: Story, stopped: set[str]) -> None:
    wanted_job = masking(tmp_path, OnError.SET_ASIDE)
    log(tmp_path, first)
    run(wanted_job)
    log(tmp_path, story, first=300)
    run(wanted_job)

    def later(writer: ShopLog) -> None:
        # Their rows are nobody's from then on, and so are statements about them.
        writer.insert(wanted("orders", ID, CALLED), (3, SECRET))
        writer.statement("ALTER TABLE orders RENAME COLUMN called TO name")
        writer.statement("RENAME TABLE plain TO again")
        writer.insert(wanted("again", ID, NAME), (4, SECRET))
        writer.insert(ITEMS, (3, "c"))

    log(tmp_path, later, first=600)
    run(wanted_job)
    assert rows(tmp_path, "items") == [(1, SECRET), (2, "b"), (3, "c")]
    assert rows(tmp_path, "orders") == [(1, None)]
    assert stopped <= {table.name.table for table in record(wanted_job).set_aside}


@pytest.mark.parametrize("story", [renamed_column, renamed_table])
def test_the_job_stops_unless_it_sets_tables_aside(tmp_path: Path, story: Story) -> None:
    log(tmp_path, first, story)
    with pytest.raises(SchemaError, match="show"):
        run(masking(tmp_path, OnError.STOP))


@pytest.mark.parametrize("on_error", OnError)
def test_rows_that_come_through_a_hidden_name_are_those_of_the_table_before(tmp_path: Path, on_error: OnError) -> None:
    tables = [{"select": r"shop\.orders", "mask": {"name": "null"}}, {"select": r"shop\.(items|plain)"}]
    wanted_job = job(tmp_path, top={"on_error": on_error, "tables": tables})

    def before(writer: ShopLog) -> None:
        first(writer)
        writer.statement(PLAIN.create_statement())
        writer.insert(PLAIN, (1, SECRET))

    def moved(writer: ShopLog) -> None:
        writer.statement("DROP TABLE orders")
        writer.statement("RENAME TABLE plain TO passing, passing TO orders")
        writer.insert(ORDERS, (2, SECRET))

    log(tmp_path, before)
    run(wanted_job)
    log(tmp_path, moved, first=300)
    if on_error is OnError.STOP:
        with pytest.raises(SchemaError, match=r"TABLE_RENAMED.*orders was shop.plain before, and the rules show"):
            run(wanted_job)
    else:
        run(wanted_job)
    assert rows(tmp_path, "orders") == [(1, None)]


def test_another_table_under_a_name_that_rows_came_through_is_not_theirs(tmp_path: Path) -> None:
    tables = [{"select": r"shop\.orders", "mask": {"name": "null"}}, {"select": r"shop\.(items|plain)"}]
    wanted_job = job(tmp_path, top={"tables": tables})

    def passing(writer: ShopLog) -> None:
        first(writer)
        writer.statement("RENAME TABLE items TO passing")
        writer.statement("DROP TABLE passing")
        writer.statement("RENAME TABLE orders TO passing, passing TO orders")
        writer.insert(ORDERS, (2, SECRET))

    log(tmp_path, passing)
    run(wanted_job)
    assert rows(tmp_path, "orders") == [(1, None), (2, None)]


LIKE: dict[str, object] = {"where": "name LIKE 'P%'"}
LAST: dict[str, object] = {"mask": {"name": "last 2"}}
HIDDEN: dict[str, object] = {"drop_columns": ["name"]}


def column_dropped(writer: ShopLog) -> None:
    writer.statement("ALTER TABLE orders DROP name")
    writer.insert(wanted("orders", ID), (2,))


def row_without_the_column(writer: ShopLog) -> None:
    writer.insert(wanted("orders", ID), (2,))


def column_of_another_type(writer: ShopLog) -> None:
    writer.statement("DROP TABLE orders")
    writer.statement("CREATE TABLE orders (id INT PRIMARY KEY, name BLOB)")
    writer.insert(wanted("orders", ID, ColumnSpec("name", "blob", nullable=True)), (2, b"x"))


@pytest.mark.parametrize(
    ("story", "rule"),
    [
        *((column_dropped, rule) for rule in (LIKE, LAST, HIDDEN)),
        *((row_without_the_column, rule) for rule in (LIKE, LAST, HIDDEN)),
        *((column_of_another_type, rule) for rule in (LIKE, LAST)),
    ],
)
def test_a_table_that_its_rule_does_not_fit_any_more_is_set_aside(
    tmp_path: Path, story: Story, rule: dict[str, object]
) -> None:
    tables = [{"select": r"shop\.orders", **rule}, {"select": r"shop\..*"}]
    wanted_job = job(tmp_path, top={"on_error": OnError.SET_ASIDE, "tables": tables})
    log(tmp_path, first)
    run(wanted_job)

    def later(writer: ShopLog) -> None:
        story(writer)
        writer.insert(ITEMS, (2, "b"))

    log(tmp_path, later, first=300)
    run(wanted_job)
    assert rows(tmp_path, "items") == [(1, SECRET), (2, "b")]
    assert {table.name.table for table in record(wanted_job).set_aside} == {"orders"}
    stopping = job(tmp_path / "stopping", top={"tables": tables})
    log(tmp_path / "stopping", first, story)
    with pytest.raises((OptionError, TableError)):
        run(stopping)
