"""Chunks in the log become complete tables: what begins, what waits, what comes back, what does not count."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from binlog_format.errors import TableError, UnsupportedError
from binlog_lab.event_encoding.table_encoding import TableSpec
from binlog_streaming.lake.commit_id import COMPLETE_PROPERTY, SET_ASIDE_PROPERTY, SNAPSHOT_PROPERTY
from binlog_streaming.settings.choices import Begin, OnError, OnRowStatement
from tests.faults.processes import Killed
from tests.streaming.replay_runs import run
from tests.streaming.tables.jobs.test_admission import ITEMS, job, log, record, rows
from tests.streaming.tables.snapshots.snapshot_log import ShopSnapshot, begin_late
from tests.streaming.tables.statements.statement_stories import ID, NAME, ORDERS, PRICED
from tests.streaming.tables.statements.statement_stories import wanted as wanted_table

if TYPE_CHECKING:
    from pathlib import Path

    from tests.streaming.tables.shop import ShopLog
    from tests.streaming.tables.statements.statement_stories import Story


def older(log: ShopLog) -> None:
    """Changes of a table that has the rows 1, 2, 3 from before the log; chunks of it, and changes between them."""
    begin_late(log)
    log.update(ORDERS, ((1, "a"), (1, "b")))
    snapshot = ShopSnapshot(log, ORDERS)
    snapshot.begin()
    log.delete(ORDERS, (2, "two"))
    log.insert(ORDERS, (4, "four"))
    snapshot.chunk([(1, "b"), (3, "three")])
    log.update(ORDERS, ((3, "three"), (3, "drei")))
    snapshot.chunk([(4, "four")])
    snapshot.end()
    log.insert(ORDERS, (5, "five"))


def properties(folder: Path, table: str = "orders") -> dict[str, str]:
    return DeltaTable(str(folder / "tables/shop" / table)).metadata().configuration


BOUGHT = wanted_table("bought", ID, NAME)
OLDER = [(1, "b"), (3, "drei"), (4, "four"), (5, "five")]


def test_a_table_that_is_older_than_the_log_becomes_complete(tmp_path: Path) -> None:
    log(tmp_path, older)
    wanted = job(tmp_path, begin=Begin.SNAPSHOT)
    run(wanted)
    assert rows(tmp_path, "orders") == OLDER
    assert properties(tmp_path)[COMPLETE_PROPERTY] == "true"
    (snapshot,) = record(wanted).snapshots
    assert (snapshot.chunks, snapshot.rows, snapshot.is_ended, snapshot.problem) == (2, 3, True, None)
    assert properties(tmp_path)[SNAPSHOT_PROPERTY] == f"{snapshot.snapshot}: complete at {snapshot.ended_gtid}"
    assert record(wanted).complete == (("shop", "orders"),)
    assert list((tmp_path / "tables").rglob("*snapshot_marks*")) == []


def test_until_its_snapshot_begins_a_table_waits_and_others_go_on(tmp_path: Path) -> None:
    def changes(writer: ShopLog) -> None:
        begin_late(writer)
        writer.insert(ORDERS, (7, "seven"))
        writer.statement("CREATE TABLE shop.items (id INT PRIMARY KEY, name VARCHAR(20))")
        writer.insert(ITEMS, (1, "x"))

    log(tmp_path, changes)
    wanted = job(tmp_path, begin=Begin.SNAPSHOT)
    run(wanted)
    assert rows(tmp_path, "items") == [(1, "x")]
    assert not (tmp_path / "tables/shop/orders").exists()
    assert record(wanted).incomplete == ()
    log(tmp_path, lambda writer: ShopSnapshot(writer, ORDERS).take([(1, "b")], [(7, "seven")]), first=100)
    run(wanted)
    assert rows(tmp_path, "orders") == [(1, "b"), (7, "seven")]
    assert rows(tmp_path, "items") == [(1, "x")]


def test_a_table_waits_in_a_log_that_was_switched_on_after_it_was_created(tmp_path: Path) -> None:
    """Such a log begins with the server's first transaction, as that of a new server does."""
    log(tmp_path, lambda writer: writer.insert(ORDERS, (7, "seven")))
    wanted = job(tmp_path, begin=Begin.SNAPSHOT)
    run(wanted)
    assert not (tmp_path / "tables/shop/orders").exists()
    log(tmp_path, lambda writer: ShopSnapshot(writer, ORDERS).take([(1, "b")], [(7, "seven")]), first=100)
    run(wanted)
    assert rows(tmp_path, "orders") == [(1, "b"), (7, "seven")]
    assert properties(tmp_path)[COMPLETE_PROPERTY] == "true"


@pytest.mark.parametrize("at_once", [False, True])
def test_a_complete_table_that_is_renamed_does_not_wait_again(at_once: bool, tmp_path: Path) -> None:
    wanted = job(tmp_path, begin=Begin.SNAPSHOT)

    def renamed(writer: ShopLog) -> None:
        writer.statement("RENAME TABLE orders TO sold, sold TO bought")
        writer.insert(BOUGHT, (9, "nine"))

    log(tmp_path, older)
    if not at_once:
        run(wanted)
    log(tmp_path, renamed, first=300)
    run(wanted)
    assert rows(tmp_path, "bought") == [*OLDER, (9, "nine")]
    assert properties(tmp_path, "bought")[COMPLETE_PROPERTY] == "true"
    log(tmp_path, lambda writer: writer.insert(BOUGHT, (10, "ten")), first=400)
    run(wanted)
    assert rows(tmp_path, "bought") == [*OLDER, (9, "nine"), (10, "ten")]


def test_a_table_that_waits_goes_on_waiting_under_another_name(tmp_path: Path) -> None:
    wanted = job(tmp_path, begin=Begin.SNAPSHOT)

    def renamed(writer: ShopLog) -> None:
        begin_late(writer)
        writer.insert(ORDERS, (7, "seven"))
        writer.statement("RENAME TABLE orders TO bought")
        writer.insert(BOUGHT, (9, "nine"))

    log(tmp_path, renamed)
    run(wanted)
    assert not (tmp_path / "tables/shop/bought").exists()
    log(tmp_path, lambda writer: ShopSnapshot(writer, BOUGHT).take([(7, "seven")], [(9, "nine")]), first=400)
    run(wanted)
    assert rows(tmp_path, "bought") == [(7, "seven"), (9, "nine")]


@pytest.mark.parametrize("case", ["new", "has begun", "created in the log"])
def test_the_advice_about_a_statement_leads_on(case: str, tmp_path: Path) -> None:
    """What the log does not tell row by row comes with a snapshot, in a new job and in one that has begun."""

    def first(writer: ShopLog) -> None:
        if case == "created in the log":
            writer.statement("CREATE TABLE shop.orders (id INT PRIMARY KEY, name VARCHAR(20))")
        writer.insert(ORDERS, (1, "a"))

    wanted = job(tmp_path)
    log(tmp_path, first)
    if case == "has begun":
        run(wanted)
    log(tmp_path, lambda writer: writer.statement("UPDATE orders SET name = 'z'"), first=100)
    with pytest.raises(UnsupportedError, match="STATEMENT_FORMAT") as stopped:
        run(wanted)
    advice = {"begin": Begin.SNAPSHOT} if case == "new" else {"on_statement": OnRowStatement.IGNORE}
    ((setting, value),) = advice.items()
    assert f'{setting} = "{value}"' in str(stopped.value.hint)
    assert "the CREATE TABLE or a TRUNCATE of them, needs on_statement" in str(stopped.value.hint)
    wanted = job(tmp_path, **advice)
    run(wanted)
    log(tmp_path, lambda writer: ShopSnapshot(writer, ORDERS).take([(1, "z")]), first=200)
    run(wanted)
    assert rows(tmp_path, "orders") == [(1, "z")]
    assert properties(tmp_path)[COMPLETE_PROPERTY] == "true"


def test_an_empty_table_gets_an_empty_target(tmp_path: Path) -> None:
    def story(writer: ShopLog) -> None:
        begin_late(writer)
        ShopSnapshot(writer, ORDERS).take([])

    log(tmp_path, story)
    run(job(tmp_path, begin=Begin.SNAPSHOT))
    assert rows(tmp_path, "orders") == []
    assert properties(tmp_path)[COMPLETE_PROPERTY] == "true"


def test_without_its_snapshot_an_older_table_is_refused_with_the_way_on(tmp_path: Path) -> None:
    def story(writer: ShopLog) -> None:
        begin_late(writer)
        writer.insert(ORDERS, (7, "seven"))

    log(tmp_path, story)
    with pytest.raises(TableError, match=r'INCOMPLETE\] shop\.orders.*begin = "snapshot"'):
        run(job(tmp_path))


def test_a_table_that_was_set_aside_comes_back_and_others_go_on(tmp_path: Path) -> None:
    def first(writer: ShopLog) -> None:
        writer.statement("CREATE TABLE shop.orders (id INT PRIMARY KEY, name VARCHAR(20))")
        writer.statement("CREATE TABLE shop.items (id INT PRIMARY KEY, name VARCHAR(20))")
        writer.insert(ORDERS, (1, "a"), (2, "b"))

    def stopped(writer: ShopLog) -> None:
        writer.statement("UPDATE orders SET name = 'z'")
        writer.insert(ITEMS, (1, "x"))

    def back(writer: ShopLog) -> None:
        writer.statement("ALTER TABLE shop.orders ADD COLUMN price INT")
        writer.insert(PRICED, (3, "c", 30))
        ShopSnapshot(writer, PRICED, "resync").take([(1, "z", None), (2, "z", 20)], [(3, "c", 30)])
        writer.insert(PRICED, (4, "d", 40))
        writer.insert(ITEMS, (2, "y"))

    wanted = job(tmp_path, top={"on_error": OnError.SET_ASIDE})
    log(tmp_path, first)
    run(wanted)
    log(tmp_path, stopped, first=50)
    run(wanted)
    assert [one.table for one in record(wanted).set_aside] == ["orders"]
    log(tmp_path, back, first=100)
    run(wanted)
    assert rows(tmp_path, "orders") == [(1, "z", None), (2, "z", 20), (3, "c", 30), (4, "d", 40)]
    assert rows(tmp_path, "items") == [(1, "x"), (2, "y")]
    assert record(wanted).set_aside == ()
    assert properties(tmp_path)[SET_ASIDE_PROPERTY] == ""
    assert properties(tmp_path)[COMPLETE_PROPERTY] == "true"


def test_a_table_selected_later_waits_for_its_snapshot(tmp_path: Path) -> None:
    def first(writer: ShopLog) -> None:
        writer.statement("CREATE TABLE shop.orders (id INT PRIMARY KEY, name VARCHAR(20))")
        writer.insert(ORDERS, (1, "a"))
        writer.insert(ITEMS, (1, "x"))

    def second(writer: ShopLog) -> None:
        writer.insert(ORDERS, (2, "b"))
        writer.insert(ITEMS, (2, "y"))

    log(tmp_path, first)
    run(job(tmp_path, source={"excludeTables": r"shop\.orders"}))
    log(tmp_path, second, first=100)
    run(job(tmp_path))
    assert not (tmp_path / "tables/shop/orders").exists()
    log(tmp_path, lambda writer: ShopSnapshot(writer, ORDERS, "resync").take([(1, "a"), (2, "b")]), first=200)
    run(job(tmp_path))
    assert rows(tmp_path, "orders") == [(1, "a"), (2, "b")]
    assert rows(tmp_path, "items") == [(1, "x"), (2, "y")]
    assert record(job(tmp_path)).complete == (("shop", "items"), ("shop", "orders"))


def test_rows_that_an_incomplete_table_lacks_changes_of_go_first(tmp_path: Path) -> None:
    def lacking(writer: ShopLog) -> None:
        writer.statement("CREATE TABLE shop.orders (id INT PRIMARY KEY, name VARCHAR(20))")
        writer.insert(ORDERS, (1, "a"), (2, "b"))
        writer.statement("DELETE FROM orders WHERE id = 2")

    log(tmp_path, lacking)
    wanted = job(tmp_path, on_statement="ignore")
    run(wanted)
    assert rows(tmp_path, "orders") == [(1, "a"), (2, "b")]
    log(tmp_path, lambda writer: ShopSnapshot(writer, ORDERS).take([(1, "a")]), first=100)
    run(wanted)
    assert rows(tmp_path, "orders") == [(1, "a")]
    assert record(wanted).incomplete == ()


def altered(writer: ShopLog) -> None:
    begin_late(writer)
    snapshot = ShopSnapshot(writer, ORDERS)
    snapshot.begin()
    snapshot.chunk([(1, "a")])
    writer.statement("ALTER TABLE shop.orders ADD COLUMN price INT")
    snapshot.chunk([(2, "b")])
    snapshot.end()


def miscounted(writer: ShopLog) -> None:
    begin_late(writer)
    snapshot = ShopSnapshot(writer, ORDERS)
    snapshot.begin()
    snapshot.chunk([(1, "a")], said=2)
    snapshot.end()


def cancelled(writer: ShopLog) -> None:
    begin_late(writer)
    snapshot = ShopSnapshot(writer, ORDERS)
    snapshot.begin()
    snapshot.chunk([(1, "a")])
    snapshot.cancel()
    snapshot.end()


def lost_chunk(writer: ShopLog) -> None:
    begin_late(writer)
    snapshot = ShopSnapshot(writer, ORDERS)
    snapshot.begin()
    snapshot.chunks, snapshot.rows = 1, 1
    snapshot.end()


@pytest.mark.parametrize(
    ("story", "problem"),
    [
        (altered, "the table was changed at"),
        (miscounted, "chunks are not whole: 2 rows are in its marks and 1 in its shadow"),
        (cancelled, "it was cancelled"),
        (lost_chunk, "with 1 chunk of 1 row, and in the log are 0 chunks of 0 rows"),
    ],
)
def test_a_snapshot_that_does_not_hold_completes_nothing(story: Story, problem: str, tmp_path: Path) -> None:
    log(tmp_path, story)
    wanted = job(tmp_path, begin=Begin.SNAPSHOT)
    run(wanted)
    (snapshot,) = record(wanted).snapshots
    assert problem in str(snapshot.problem)
    assert record(wanted).complete == ()
    assert properties(tmp_path)[COMPLETE_PROPERTY] == "false"
    spec = PRICED if story is altered else ORDERS
    content = [(1, "a", 1)] if story is altered else [(1, "a")]
    log(tmp_path, lambda writer: ShopSnapshot(writer, spec, "resync").take(content), first=100)
    run(wanted)
    assert rows(tmp_path, "orders") == content
    assert record(wanted).complete == (("shop", "orders"),)


def test_a_table_without_a_key_is_its_only_chunk(tmp_path: Path) -> None:
    keyless = TableSpec("shop", "orders", ORDERS.columns)

    def story(writer: ShopLog) -> None:
        begin_late(writer)
        snapshot = ShopSnapshot(writer, keyless)
        snapshot.begin()
        writer.insert(keyless, (1, "a"), (1, "a"))
        writer.delete(keyless, (9, "before the log"))
        snapshot.chunk([(1, "a"), (1, "a"), (2, "b")])
        snapshot.end()
        writer.delete(keyless, (1, "a"))

    log(tmp_path, story)
    wanted = job(tmp_path, begin=Begin.SNAPSHOT, mode=("mirror", "changelog"), target="{mode}/{database}/{table}")
    run(wanted)
    table = DeltaTable(str(tmp_path / "tables/mirror/shop/orders")).to_pyarrow_table()
    assert sorted(tuple(row.values()) for row in table.to_pylist()) == [(1, "a"), (2, "b")]
    kinds = DeltaTable(str(tmp_path / "tables/changelog/shop/orders")).to_pyarrow_table().column("_change_type")
    assert sorted(kinds.to_pylist()) == ["delete"] * 2 + ["insert"] * 5 + ["truncate"]


def test_versions_go_on_where_a_chunk_has_the_same_values(tmp_path: Path) -> None:
    def story(writer: ShopLog) -> None:
        writer.statement("CREATE TABLE shop.orders (id INT PRIMARY KEY, name VARCHAR(20))")
        writer.insert(ORDERS, (1, "a"), (2, "b"))

    log(tmp_path, story)
    wanted = job(tmp_path, mode=("scd2", "changelog"), target="{mode}/{database}/{table}")
    run(wanted)
    log(tmp_path, lambda writer: ShopSnapshot(writer, ORDERS).take([(1, "a")], [(2, "other"), (3, "c")]), first=100)
    run(wanted)
    versions = DeltaTable(str(tmp_path / "tables/scd2/shop/orders")).to_pyarrow_table().to_pylist()
    assert sorted((row["id"], row["name"], row["_is_current"]) for row in versions) == [
        (1, "a", True),
        (2, "b", False),
        (2, "other", True),
        (3, "c", True),
    ]
    (snapshot,) = record(wanted).snapshots
    changes = DeltaTable(str(tmp_path / "tables/changelog/shop/orders")).to_pyarrow_table().to_pylist()
    assert sorted((row["id"], row["_snapshot"] or "") for row in changes) == [
        (1, ""),
        (1, snapshot.snapshot),
        (2, ""),
        (2, snapshot.snapshot),
        (3, snapshot.snapshot),
    ]


def test_rules_hide_values_of_chunks_too(tmp_path: Path) -> None:
    log(tmp_path, older)
    run(job(tmp_path, begin=Begin.SNAPSHOT, where="id <> 3", mask={"name": "null"}))
    assert rows(tmp_path, "orders") == [(1, None), (4, None), (5, None)]


def test_a_job_killed_after_its_record_was_written_does_the_batch_again(tmp_path: Path) -> None:
    log(tmp_path, older)
    wanted = job(tmp_path, begin=Begin.SNAPSHOT)
    with pytest.raises(Killed):
        run(wanted, batches_max=1, stop="before")
    run(wanted)
    assert rows(tmp_path, "orders") == OLDER
    (snapshot,) = record(wanted).snapshots
    assert (snapshot.chunks, snapshot.rows) == (2, 3)
