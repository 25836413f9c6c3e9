"""Tables that would become wrong without an error: they are refused, let in with a mark, or set aside."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from deltalake import DeltaTable

from binlog_connector.schema.definitions import TableName
from binlog_format.errors import DataLossError, OptionError, SchemaError, TableError, UnsupportedError
from binlog_lab.event_encoding.table_encoding import ColumnSpec
from binlog_streaming.job_state.progress import BatchProgress, Note
from binlog_streaming.job_state.record_keeper import RecordKeeper
from binlog_streaming.jobs.replay_run import ReplayRequest, plan_replay
from binlog_streaming.lake.commit_id import COMPLETE_PROPERTY, SET_ASIDE_PROPERTY
from binlog_streaming.settings.choices import Begin, Mode, OnCascade, OnError, OnRowStatement, OnStatement
from binlog_streaming.settings.model import Job
from tests.streaming.replay_runs import run
from tests.streaming.tables.shop import ShopLog
from tests.streaming.tables.statements.statement_stories import ID, NAME, ORDERS, wanted

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_streaming.job_state.record import JobRecord
    from tests.streaming.tables.statements.statement_stories import Story

    Given = dict[str, Any] | None

ITEMS = wanted("items", ID, NAME)
CREATE_ITEMS = "CREATE TABLE items (id INT PRIMARY KEY, name VARCHAR(20))"


def job(folder: Path, *, top: Given = None, source: Given = None, **rule: object) -> Job:
    sections = {
        "source": {"path": str(folder / "log"), **(source or {})},
        "sink": {"directory": str(folder / "tables")},
        "checkpoint": str(folder / "checkpoint"),
        "tables": [{"select": r"shop\..*", **rule}],
    } | (top or {})
    return msgspec.convert(sections, Job)


def log(folder: Path, *stories: Story, first: int = 0) -> None:
    for number, story in enumerate(stories):
        with ShopLog(folder / "log", first=first + 100 * number) as writer:
            story(writer)


def record(wanted: Job) -> JobRecord:
    keeper = RecordKeeper(wanted)
    keeper.changes()
    return keeper.record


def rows(folder: Path, table: str) -> list[tuple[object, ...]]:
    return sorted(
        tuple(row.values()) for row in DeltaTable(str(folder / "tables/shop" / table)).to_pyarrow_table().to_pylist()
    )


def stated(folder: Path, table: str, name: str) -> str | None:
    return DeltaTable(str(folder / "tables/shop" / table)).metadata().configuration.get(name)


def orders_twice(writer: ShopLog) -> None:
    writer.insert(ORDERS, (1, "a"))
    writer.insert(ORDERS, (2, "b"))


def middle(folder: Path, *stories: Story, **rule: Any) -> Job:
    """A job that begins after the first transaction of the log."""
    log(folder, orders_twice, *stories)
    return job(folder, source={"startingGtid": "0-1-1"}, **rule)


CHILD = "CREATE TABLE items (id INT PRIMARY KEY, name INT REFERENCES orders (id) ON DELETE CASCADE ON UPDATE CASCADE)"


def with_child(writer: ShopLog) -> None:
    writer.statement(CHILD)
    orders_twice(writer)
    writer.insert(ITEMS, (10, "1"))


def delete_parent(writer: ShopLog) -> None:
    writer.delete(ORDERS, (1, "a"))


@pytest.mark.parametrize("select", [r"shop\..*", r"shop\.items"])
@pytest.mark.parametrize("in_one_batch", [True, False])
def test_child_of_a_parent_that_may_cascade_is_refused_until_it_is_ignored(
    tmp_path: Path, select: str, in_one_batch: bool
) -> None:
    if in_one_batch:
        log(tmp_path, with_child, delete_parent)
    else:
        log(tmp_path, with_child)
        run(job(tmp_path, select=select))
        log(tmp_path, delete_parent, first=500)
    wanted = (
        r"FOREIGN_KEY_CASCADE\] GTID 0-1-\d+, position .*: a DELETE from shop\.orders may change rows of shop\.items"
    )
    for _ in range(2):
        with pytest.raises(UnsupportedError, match=wanted):
            run(job(tmp_path, select=select))
    ignoring = job(tmp_path, select=select, foreign_keys=OnCascade.IGNORE)
    run(ignoring)
    assert ("shop", "items") in record(ignoring).incomplete
    assert rows(tmp_path, "items") == [(10, "1")]


def test_child_is_refused_only_where_a_referenced_column_changes(tmp_path: Path) -> None:
    log(tmp_path, with_child, lambda writer: writer.update(ORDERS, ((1, "a"), (1, "b"))))
    run(job(tmp_path))
    log(tmp_path, lambda writer: writer.update(ORDERS, ((1, "b"), (7, "b"))), first=500)
    with pytest.raises(UnsupportedError, match=r"FOREIGN_KEY_CASCADE\] .*an UPDATE of a key of shop\.orders"):
        run(job(tmp_path))


def test_foreign_key_from_before_the_start_counts(tmp_path: Path) -> None:
    log(tmp_path, with_child, delete_parent)
    late = job(tmp_path, source={"startingGtid": "0-1-4"}, begin=Begin.EMPTY)
    with pytest.raises(UnsupportedError, match=r"FOREIGN_KEY_CASCADE\] .*shop\.items"):
        run(late)


@pytest.mark.parametrize(
    ("text", "is_refused"),
    [
        ("DELETE FROM orders WHERE id = 1", True),
        ("INSERT INTO orders VALUES (1, 'a') ON DUPLICATE KEY UPDATE id = 9", True),
        ("INSERT INTO orders VALUES (9, 'i')", False),
    ],
)
def test_child_is_refused_where_a_statement_as_text_may_change_its_rows(
    tmp_path: Path, text: str, is_refused: bool
) -> None:
    log(tmp_path, with_child, lambda writer: writer.statement(text))
    alone = job(tmp_path, select=r"shop\.items")
    if not is_refused:
        run(alone)
        return
    with pytest.raises(UnsupportedError, match=r"STATEMENT_FORMAT\].*shop\.items"):
        run(alone)
    run(job(tmp_path, select=r"shop\.items", foreign_keys=OnCascade.IGNORE))


@pytest.mark.parametrize("spelled", ["ITEMS orders", "items ORDERS"])
@pytest.mark.parametrize("on_cascade", [OnCascade.FAIL, OnCascade.APPLY])
def test_key_under_another_spelling_is_named_where_the_server_may_fold_names(
    tmp_path: Path, spelled: str, on_cascade: OnCascade
) -> None:
    child, parent = spelled.split()

    def story(writer: ShopLog) -> None:
        writer.statement(CHILD.replace("items", child).replace("orders", parent))
        orders_twice(writer)
        writer.insert(ITEMS, (10, "1"))

    log(tmp_path, story, delete_parent)
    wanted = job(tmp_path, foreign_keys=on_cascade)
    named = r"NAMES_UNCLEAR\] shop\.items: a foreign key of it changes its rows|FOREIGN_KEY_CASCADE\] .*shop\.ITEMS"
    with pytest.raises((SchemaError, UnsupportedError), match=named):
        run(wanted)
    run(job(tmp_path, foreign_keys=OnCascade.IGNORE))


def test_key_under_another_spelling_is_another_tables_where_the_server_does_not_fold_names(tmp_path: Path) -> None:
    def delete_other(writer: ShopLog) -> None:
        writer.delete(ORDERS, (2, "b"))

    log(tmp_path, lambda writer: writer.statement(CHILD.replace("items", "ITEMS")), orders_twice, delete_parent)
    with pytest.raises(UnsupportedError, match=r"FOREIGN_KEY_CASCADE\] .*shop\.ITEMS"):
        run(job(tmp_path))
    run(job(tmp_path, select=r"shop\.(items|orders)"))  # no table items is there
    log(tmp_path, lambda writer: writer.insert(ITEMS, (10, "1")), delete_other, first=500)
    with pytest.raises(SchemaError, match=r"NAMES_UNCLEAR\] shop\.items"):
        run(job(tmp_path, select=r"shop\.(items|orders)"))
    run(job(tmp_path, source={"lowerCaseTableNames": 0}, select=r"shop\.(items|orders)"))


def test_changelog_of_a_child_is_not_refused(tmp_path: Path) -> None:
    log(tmp_path, with_child, delete_parent)
    run(job(tmp_path, mode=Mode.CHANGELOG))
    assert len(rows(tmp_path, "items")) == 1


@pytest.mark.parametrize("select", [r"shop\..*", r"shop\.orders", r"shop\.items"])
def test_rows_that_no_log_has_are_refused_of_both_tables(tmp_path: Path, select: str) -> None:
    def story(writer: ShopLog) -> None:
        writer.statement(CREATE_ITEMS)
        orders_twice(writer)
        writer.statement("ALTER TABLE orders EXCHANGE PARTITION p0 WITH TABLE items")
        writer.insert(ORDERS, (3, "c"))

    log(tmp_path, story)
    expected = r"ROWS_NOT_LOGGED\] GTID 0-1-\d+, position .*: EXCHANGE PARTITION p0 WITH TABLE shop\.items exchanges"
    for _ in range(2):  # again at every start
        with pytest.raises(UnsupportedError, match=expected):
            run(job(tmp_path, select=select))
    ignoring = job(tmp_path, select=select, on_statement=OnRowStatement.IGNORE)
    run(ignoring)
    assert {("shop", name) for name in ("orders", "items") if name in select} <= set(record(ignoring).incomplete)


@pytest.mark.parametrize("start", [{}, {"startingGtid": "0-1-2"}])
def test_table_like_one_of_an_engine_without_rows_is_named(tmp_path: Path, start: dict[str, object]) -> None:
    def made(writer: ShopLog) -> None:
        writer.statement("CREATE TABLE swallowed (id INT PRIMARY KEY, name VARCHAR(20)) ENGINE=BLACKHOLE")

    def copied(writer: ShopLog) -> None:
        writer.statement("CREATE TABLE orders LIKE swallowed")
        writer.insert(ORDERS, (3, "c"))

    log(tmp_path, lambda writer: writer.insert(ITEMS, (1, "x")), made, copied)
    with pytest.raises(UnsupportedError, match=r"ROWS_NOT_LOGGED\].*of the engine BLACKHOLE has no rows of its own"):
        run(job(tmp_path, source=start, select=r"shop\.orders"))


def test_table_of_a_log_from_the_first_transaction_on_is_complete(tmp_path: Path) -> None:
    log(tmp_path, orders_twice)
    run(job(tmp_path))
    assert rows(tmp_path, "orders") == [(1, "a"), (2, "b")]
    assert stated(tmp_path, "orders", COMPLETE_PROPERTY) == "true"
    assert record(job(tmp_path)).complete == (("shop", "orders"),)


def test_table_whose_rows_begin_before_the_start_is_refused_by_name(tmp_path: Path) -> None:
    wanted = middle(tmp_path, lambda writer: writer.insert(ITEMS, (1, "x")))
    with pytest.raises(TableError, match=r"INCOMPLETE\] shop\.\w+: its rows begin before .*; so do shop\.\w+\."):
        run(wanted)
    assert not (tmp_path / "tables").exists(), "nothing of the batch is written"


def test_changes_before_a_table_begins_anew_prove_nothing(tmp_path: Path) -> None:
    """Its rows from before the log was read are not in the target, and nothing is wrong with it."""

    def anew(writer: ShopLog) -> None:
        writer.update(ORDERS, ((1, "a"), (1, "b")))
        writer.statement("TRUNCATE orders")
        writer.insert(ORDERS, (7, "g"))

    run(middle(tmp_path, anew))
    assert rows(tmp_path, "orders") == [(7, "g")]
    assert stated(tmp_path, "orders", COMPLETE_PROPERTY) == "true"


def test_table_that_may_begin_empty_states_that_it_is_not_complete(tmp_path: Path) -> None:
    wanted = middle(tmp_path, begin=Begin.EMPTY)
    run(wanted)
    assert rows(tmp_path, "orders") == [(2, "b")]
    assert stated(tmp_path, "orders", COMPLETE_PROPERTY) == "false"
    assert record(wanted).incomplete == (("shop", "orders"),)


def test_changelog_is_not_refused_and_states_that_it_is_not_complete(tmp_path: Path) -> None:
    run(middle(tmp_path, mode=Mode.CHANGELOG))
    assert stated(tmp_path, "orders", COMPLETE_PROPERTY) == "false"


@pytest.mark.parametrize(
    "statement", ["CREATE TABLE orders (id INT PRIMARY KEY, name VARCHAR(20))", "TRUNCATE orders", "DROP TABLE orders"]
)
def test_table_that_begins_within_the_log_is_complete(tmp_path: Path, statement: str) -> None:
    def anew(writer: ShopLog) -> None:
        writer.statement(statement)
        writer.insert(ORDERS, (7, "g"))

    log(tmp_path, lambda writer: writer.insert(ITEMS, (1, "x")), anew)
    wanted = job(tmp_path, source={"startingGtid": "0-1-1"})
    run(wanted)
    assert rows(tmp_path, "orders") == [(7, "g")]
    assert stated(tmp_path, "orders", COMPLETE_PROPERTY) == "true"


def test_create_if_not_exists_proves_nothing(tmp_path: Path) -> None:
    def maybe(writer: ShopLog) -> None:
        writer.statement("CREATE TABLE IF NOT EXISTS orders (id INT PRIMARY KEY, name VARCHAR(20))")
        writer.insert(ORDERS, (7, "g"))

    log(tmp_path, lambda writer: writer.insert(ITEMS, (1, "x")), maybe)
    with pytest.raises(TableError, match=r"INCOMPLETE\] shop\.orders"):
        run(job(tmp_path, source={"startingGtid": "0-1-1"}))


def test_truncate_in_a_later_batch_completes_a_table(tmp_path: Path) -> None:
    wanted = middle(tmp_path, begin=Begin.EMPTY)
    run(wanted)
    log(tmp_path, lambda writer: writer.statement("TRUNCATE orders"), first=500)
    run(wanted)
    assert stated(tmp_path, "orders", COMPLETE_PROPERTY) == "true"
    assert record(wanted).incomplete == ()


def test_table_that_a_rename_brings_in_from_outside_is_refused(tmp_path: Path) -> None:
    def brought_in(writer: ShopLog) -> None:
        writer.statement("RENAME TABLE other.orders TO shop.orders")

    log(tmp_path, lambda writer: writer.insert(ITEMS, (1, "x")), brought_in)
    with pytest.raises(TableError, match=r"INCOMPLETE\] shop\.orders"):
        run(job(tmp_path))
    run(job(tmp_path, begin=Begin.EMPTY))
    assert record(job(tmp_path)).incomplete == (("shop", "orders"),)


def test_table_that_lacks_rows_is_refused_also_under_a_name_that_the_job_has(tmp_path: Path) -> None:
    """Seed 62166: it was let in as the table that had this name before."""

    def first(writer: ShopLog) -> None:
        writer.insert(ORDERS, (1, "a"))
        writer.statement(CREATE_ITEMS)
        writer.insert(ITEMS, (1, "x"))

    def renamed(writer: ShopLog) -> None:
        writer.statement("RENAME TABLE items TO sold, orders TO items")

    log(tmp_path, first)
    wanted_job = job(tmp_path, source={"startingGtid": "0-1-1"})
    run(wanted_job)
    assert rows(tmp_path, "items") == [(1, "x")]
    log(tmp_path, renamed, first=300)
    with pytest.raises(TableError, match=r"INCOMPLETE\] shop\.items"):
        run(wanted_job)


def test_restart_does_not_forget_that_the_log_began_with_its_server(tmp_path: Path) -> None:
    def first(writer: ShopLog) -> None:
        orders_twice(writer)
        writer.flush()

    def second(writer: ShopLog) -> None:
        writer.insert(ITEMS, (1, "x"))
        writer.flush()
        writer.purge(before=1)

    log(tmp_path, first)
    run(job(tmp_path))
    log(tmp_path, second, first=300)
    run(job(tmp_path))
    assert rows(tmp_path, "items") == [(1, "x")]
    assert record(job(tmp_path)).from_first is True


def test_statement_that_changes_rows_stops_the_job_before_anything_is_written(tmp_path: Path) -> None:
    def by_statement(writer: ShopLog) -> None:
        orders_twice(writer)
        writer.statement("UPDATE orders SET name = 'z'")

    log(tmp_path, by_statement)
    with pytest.raises(UnsupportedError, match=r"STATEMENT_FORMAT\].*0-1-3.*shop\.orders.*UPDATE orders SET name"):
        run(job(tmp_path))
    assert not (tmp_path / "tables").exists()


def test_ignored_statement_leaves_a_mark(tmp_path: Path) -> None:
    def by_statement(writer: ShopLog) -> None:
        orders_twice(writer)
        writer.statement("UPDATE orders SET name = 'z'")

    log(tmp_path, by_statement)
    run(job(tmp_path, on_statement=OnRowStatement.IGNORE))
    assert rows(tmp_path, "orders") == [(1, "a"), (2, "b")]
    assert stated(tmp_path, "orders", COMPLETE_PROPERTY) == "false"


@pytest.mark.parametrize("text", ["UPDATE other.orders SET name = 'z'", "INSERT INTO shop.left_out VALUES (1)"])
def test_statement_about_other_tables_stops_nothing(tmp_path: Path, text: str) -> None:
    def by_statement(writer: ShopLog) -> None:
        orders_twice(writer)
        writer.statement(text)

    log(tmp_path, by_statement)
    wanted = job(tmp_path, source={"excludeTables": r"shop\.left_.*"})
    run(wanted)
    assert stated(tmp_path, "orders", COMPLETE_PROPERTY) == "true"


def test_excluded_table_gets_no_target(tmp_path: Path) -> None:
    def both(writer: ShopLog) -> None:
        orders_twice(writer)
        writer.statement(CREATE_ITEMS)
        writer.statement("ALTER TABLE items EXCHANGE PARTITION p0 WITH TABLE other.items")

    log(tmp_path, both)
    run(job(tmp_path, source={"excludeTables": r"shop\.items"}))
    assert [folder.name for folder in (tmp_path / "tables/shop").iterdir()] == ["orders"]


def statement_between(writer: ShopLog) -> None:
    writer.insert(ITEMS, (1, "x"))
    writer.insert(ORDERS, (2, "b"))
    writer.statement("UPDATE orders SET name = 'z'")
    writer.insert(ORDERS, (3, "c"))
    writer.insert(ITEMS, (2, "y"))


def test_table_is_set_aside_at_the_statement_and_others_go_on(tmp_path: Path) -> None:
    wanted = job(tmp_path, top={"on_error": OnError.SET_ASIDE})
    log(tmp_path, lambda writer: writer.insert(ORDERS, (1, "a")))
    run(wanted)
    log(tmp_path, statement_between, first=300)
    run(wanted)
    assert rows(tmp_path, "items") == [(1, "x"), (2, "y")]
    assert rows(tmp_path, "orders") == [(1, "a")]
    assert stated(tmp_path, "orders", COMPLETE_PROPERTY) == "true", "up to where it stands"
    (stopped,) = record(wanted).set_aside
    assert (stopped.name, stopped.gtid) == (TableName("shop", "orders"), "0-1-303")
    assert "STATEMENT_FORMAT" in stopped.reason
    assert "STATEMENT_FORMAT" in (stated(tmp_path, "orders", SET_ASIDE_PROPERTY) or "")

    def later(writer: ShopLog) -> None:
        writer.insert(ORDERS, (4, "d"))
        writer.statement("DROP TABLE orders")
        writer.insert(ITEMS, (3, "z"))

    log(tmp_path, later, first=500)
    run(wanted)
    assert rows(tmp_path, "orders") == [(1, "a")], "it stays as it was"
    assert rows(tmp_path, "items") == [(1, "x"), (2, "y"), (3, "z")]
    assert record(wanted).set_aside == (stopped,)


def test_table_that_was_set_aside_comes_back_by_replay_and_the_job_goes_on(tmp_path: Path) -> None:
    log(tmp_path, lambda writer: writer.insert(ORDERS, (1, "a")))
    run(job(tmp_path))
    log(tmp_path, statement_between, first=300)
    set_aside = {"on_error": OnError.SET_ASIDE}
    run(job(tmp_path, top=set_aside))
    with pytest.raises(UnsupportedError, match="STATEMENT_FORMAT"):
        give_back(job(tmp_path, top=set_aside))
    mended = job(tmp_path, top=set_aside, on_statement=OnRowStatement.IGNORE)
    give_back(mended)
    assert rows(tmp_path, "orders") == [(1, "a"), (2, "b"), (3, "c")]
    assert stated(tmp_path, "orders", SET_ASIDE_PROPERTY) == ""
    assert record(mended).set_aside == ()
    log(tmp_path, lambda writer: writer.insert(ORDERS, (4, "d")), first=500)
    run(mended)
    assert rows(tmp_path, "orders") == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]
    with pytest.raises(OptionError, match="the job has set no table aside"):
        ReplayRequest.of_set_aside(mended)


def give_back(wanted: Job) -> None:
    planned = plan_replay(ReplayRequest.of_set_aside(wanted))
    run(planned.job, held=planned.record.continued, from_first=planned.record.from_first)
    planned.finish()


def test_table_of_a_foreign_writer_is_set_aside(tmp_path: Path) -> None:
    log(tmp_path, lambda writer: writer.insert(ORDERS, (1, "a")))
    run(job(tmp_path))
    log(tmp_path, statement_free, first=300)
    other = msgspec.structs.replace(
        job(tmp_path, top={"on_error": OnError.SET_ASIDE}), checkpoint=str(tmp_path / "other")
    )
    run(other)
    assert rows(tmp_path, "orders") == [(1, "a")], "nothing of the other job is in it"
    assert rows(tmp_path, "items") == [(1, "x")]
    assert not stated(tmp_path, "orders", SET_ASIDE_PROPERTY), "nor does it state anything about it"
    assert [one.name.table for one in record(other).set_aside] == ["orders"]
    assert "OTHER_WRITER" in record(other).set_aside[0].reason


def statement_free(writer: ShopLog) -> None:
    writer.insert(ORDERS, (2, "b"))
    writer.insert(ITEMS, (1, "x"))


def test_table_that_takes_the_place_of_one_that_was_set_aside_is_set_aside_too(tmp_path: Path) -> None:
    def renamed(writer: ShopLog) -> None:
        statement_between(writer)
        writer.statement("RENAME TABLE orders TO archive")
        writer.insert(wanted("archive", ID, NAME), (9, "i"))

    log(tmp_path, renamed)
    of_all = job(tmp_path, top={"on_error": OnError.SET_ASIDE})
    run(of_all)
    assert [one.name.table for one in record(of_all).set_aside] == ["archive", "orders"]
    assert rows(tmp_path, "items") == [(1, "x"), (2, "y")]


@pytest.mark.parametrize("is_linked", [True, False])
def test_name_of_a_table_that_is_set_aside_was_another_one_s_before(tmp_path: Path, is_linked: bool) -> None:
    """Nothing of the batch is written for the name, so what was it before lacks rows under its new name."""
    child = (
        "CREATE TABLE child (id INT PRIMARY KEY, name INT, FOREIGN KEY (name) REFERENCES items (id) ON DELETE CASCADE)"
    )

    def swapped(writer: ShopLog) -> None:
        writer.insert(ITEMS, (1, "x"), (2, "y"))
        writer.statement(child if is_linked else "CREATE TABLE child (id INT PRIMARY KEY, name INT)")
        writer.statement("RENAME TABLE child TO swap_, items TO archive, swap_ TO items")
        writer.insert(wanted("archive", ID, NAME), (9, "i"))
        writer.delete(wanted("archive", ID, NAME), (1, "x"))
        writer.insert(ORDERS, (1, "a"))
        writer.statement("UPDATE items SET name = 5")

    log(tmp_path, swapped)
    of_all = job(tmp_path, top={"on_error": OnError.SET_ASIDE}, foreign_keys=OnCascade.APPLY)
    run(of_all)
    reasons = {stopped.name.table: stopped.reason for stopped in record(of_all).set_aside}
    assert "STATEMENT_FORMAT" in reasons["items"]
    assert re.search(r"TABLE_RENAMED\] shop\.archive was shop\.items before, .*STATEMENT_FORMAT", reasons["archive"])
    assert rows(tmp_path, "orders") == [(1, "a")]


def test_table_that_was_set_aside_stays_so_under_a_new_name_with_the_first_reason(tmp_path: Path) -> None:
    log(tmp_path, statement_between)
    of_all = job(tmp_path, top={"on_error": OnError.SET_ASIDE})
    run(of_all)
    assert [one.name.table for one in record(of_all).set_aside] == ["orders"]
    with ShopLog(tmp_path / "log", first=300) as writer:
        writer.statement("RENAME TABLE orders TO archive")
        writer.insert(wanted("archive", ID, NAME), (9, "i"))
    run(of_all)
    reasons = {stopped.name.table: stopped.reason for stopped in record(of_all).set_aside}
    assert re.search(
        r"TABLE_RENAMED\] shop\.archive was shop\.orders .*set aside at .*STATEMENT_FORMAT", reasons["archive"]
    )


def test_incident_stops_the_job_whatever_tables_may_do(tmp_path: Path) -> None:
    log(tmp_path, orders_twice)
    with ShopLog(tmp_path / "log", first=300) as writer:
        writer.incident("the disk of the cache was full")
    with pytest.raises(DataLossError, match=r"LOST_EVENTS"):
        run(job(tmp_path, top={"on_error": OnError.SET_ASIDE}))
    run(job(tmp_path, source={"failOnDataLoss": False}))
    assert stated(tmp_path, "orders", COMPLETE_PROPERTY) == "false"


def test_database_that_is_dropped_takes_all_its_tables_along(tmp_path: Path) -> None:
    def dropped(writer: ShopLog) -> None:
        writer.insert(ITEMS, (1, "x"))
        writer.insert(ORDERS, (1, "a"))
        writer.statement("DROP DATABASE shop")

    log(tmp_path, dropped)
    run(job(tmp_path, on_drop=OnStatement.APPLY))
    assert (rows(tmp_path, "items"), rows(tmp_path, "orders")) == ([], [])


def test_statement_spells_a_table_otherwise_than_row_events_do(tmp_path: Path) -> None:
    log(tmp_path, orders_twice, lambda writer: writer.statement("UPDATE Orders SET name = 'z'"))
    with pytest.raises(UnsupportedError, match=r"STATEMENT_FORMAT\].*shop\.orders"):
        run(job(tmp_path, select=r"shop\.[a-z]+"))


def test_table_that_cannot_be_understood_is_set_aside_and_others_go_on(tmp_path: Path) -> None:
    schema = tmp_path / "schema.sql"
    schema.write_text("CREATE TABLE shop.orders (id INT PRIMARY KEY)")

    def three(writer: ShopLog) -> None:
        writer.insert(ITEMS, (1, "x"))
        writer.insert(ORDERS, (1, "a"))
        writer.insert(ITEMS, (2, "y"))

    log(tmp_path, three)
    source = {"schemaFile": str(schema)}
    with pytest.raises(SchemaError, match=r"COLUMN_COUNT_MISMATCH\].*shop\.orders"):
        run(job(tmp_path, source=source))
    aside = job(tmp_path, source=source, top={"on_error": OnError.SET_ASIDE})
    run(aside)
    assert rows(tmp_path, "items") == [(1, "x"), (2, "y")]
    (stopped,) = record(aside).set_aside
    assert (stopped.name, stopped.gtid) == (TableName("shop", "orders"), "0-1-2")
    assert "COLUMN_COUNT_MISMATCH" in stopped.reason
    schema.write_text("CREATE TABLE shop.orders (id INT PRIMARY KEY, name VARCHAR(20))")
    give_back(aside)
    assert rows(tmp_path, "orders") == [(1, "a")]
    assert record(aside).set_aside == ()


def test_table_that_cannot_be_understood_is_set_aside_where_a_batch_has_nothing_else(tmp_path: Path) -> None:
    schema = tmp_path / "schema.sql"
    schema.write_text("CREATE TABLE shop.orders (id INT PRIMARY KEY)")
    aside = job(tmp_path, source={"schemaFile": str(schema)}, top={"on_error": OnError.SET_ASIDE})
    batches: list[BatchProgress] = []
    with ShopLog(tmp_path / "log") as writer:  # the start of a server would be something else in the batch
        writer.insert(ITEMS, (1, "x"))
        run(aside)
        writer.insert(ORDERS, (1, "a"))
        run(aside, listener=batches.append)
    (stopped,) = record(aside).set_aside
    assert (stopped.name, stopped.gtid) == (TableName("shop", "orders"), "0-1-2")
    assert [batch.set_aside for batch in batches] == [[stopped]]


def test_label_that_a_definition_lacks_stops_its_table_alone(tmp_path: Path) -> None:
    with ShopLog(tmp_path / "log", metadata=False) as writer:
        writer.statement("CREATE TABLE states (id INT PRIMARY KEY, state ENUM('a','b')) CHARSET=utf8mb4")
        writer.statement(f"{CREATE_ITEMS} CHARSET=utf8mb4")
        # An ALTER that is not in the log has added a label.
        writer.insert(wanted("states", ID, ColumnSpec("state", "enum('a','b','c')", nullable=True)), (1, "c"))
        writer.insert(ITEMS, (1, "x"))
    aside = job(tmp_path, top={"on_error": OnError.SET_ASIDE})
    run(aside)
    (stopped,) = record(aside).set_aside
    assert "COLUMN_MISMATCH] shop.states.state: value 0: number" in stopped.reason
    assert rows(tmp_path, "items") == [(1, "x")]


def test_text_that_is_none_in_its_character_set_stops_its_table_alone(tmp_path: Path) -> None:
    as_bytes = wanted("orders", ID, replace(NAME, sql_type="varbinary(20)"))

    def three(writer: ShopLog) -> None:
        writer.insert(ORDERS, (1, "a"))
        writer.insert(as_bytes, (2, b"b\xff"), seen_as=ORDERS)
        writer.insert(ITEMS, (2, "y"))

    log(tmp_path, three)
    with pytest.raises(UnsupportedError, match=r"INVALID_TEXT\].*shop\.orders\.name: value 1"):
        run(job(tmp_path))
    aside = job(tmp_path, top={"on_error": OnError.SET_ASIDE})
    run(aside)
    assert rows(tmp_path, "items") == [(2, "y")]
    (stopped,) = record(aside).set_aside
    assert stopped.name == TableName("shop", "orders")
    give_back(job(tmp_path, top={"on_error": OnError.SET_ASIDE}, source={"replaceInvalidText": True}))
    assert rows(tmp_path, "orders") == [(1, "a"), (2, "b\ufffd")]


@pytest.mark.parametrize(
    ("created", "begin", "is_assumed"),
    [
        ("", Begin.CREATED, True),
        ("IF NOT EXISTS ", Begin.CREATED, True),
        (None, Begin.CREATED, False),
        ("", Begin.EMPTY, False),
    ],
)
def test_it_is_told_that_a_table_of_a_first_log_may_be_older(
    tmp_path: Path, created: str | None, begin: Begin, is_assumed: bool
) -> None:
    def story(writer: ShopLog) -> None:
        if created is None:
            writer.statement(CREATE_ITEMS)
        elif created:
            writer.statement(CREATE_ITEMS.replace("CREATE TABLE ", f"CREATE TABLE {created}"))
        writer.insert(ITEMS, (1, "a"))

    batches: list[BatchProgress] = []

    def notes() -> set[Note]:
        return {note for batch in batches for table in batch.tables for note in table.notes}

    log(tmp_path, story)
    run(job(tmp_path, begin=begin), listener=batches.append)
    assert notes() == ({Note.ASSUMED_COMPLETE} if is_assumed else set())
    assert rows(tmp_path, "items") == [(1, "a")]
    batches.clear()
    log(tmp_path, lambda writer: writer.insert(ITEMS, (2, "b")), first=100)
    run(job(tmp_path, begin=begin), listener=batches.append)
    assert notes() == set()
    assert rows(tmp_path, "items") == [(1, "a"), (2, "b")]
