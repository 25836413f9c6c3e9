"""EXCHANGE PARTITION between tables of a job: done where only one side has rows, else named.

Steps at which a job may be killed are tried with the stories of `statement_stories`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from binlog_format.errors import UnsupportedError
from binlog_lab.event_encoding.table_encoding import ColumnSpec
from binlog_streaming.lake.commit_id import COMPLETE_PROPERTY
from binlog_streaming.settings.choices import Mode, OnError
from tests.streaming.replay_runs import run
from tests.streaming.tables.jobs.test_admission import ITEMS, job, log, middle, record, rows, stated
from tests.streaming.tables.statements.statement_stories import (
    ID,
    NAME,
    ORDERS,
    PARTITIONED,
    PRICE,
    exchange_partitions,
    wanted,
)

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_streaming.settings.model import Job
    from tests.streaming.tables.shop import ShopLog

APPLY: dict[str, Any] = {"on_partition_drop": "apply"}
EXCHANGE = "ALTER TABLE orders EXCHANGE PARTITION p1 WITH TABLE items"


def tables(writer: ShopLog) -> None:
    writer.statement(PARTITIONED)
    writer.statement("CREATE TABLE items (id INT PRIMARY KEY, name VARCHAR(20))")


def archive(writer: ShopLog) -> None:
    tables(writer)
    writer.insert(ORDERS, (1, "a"), (20, "d"))
    writer.statement(EXCHANGE)


def refused(wanted: Job, why: str) -> None:
    for _ in range(2):  # again at every start
        with pytest.raises(UnsupportedError, match=rf"ROWS_NOT_LOGGED\] GTID 0-1-\d+, position .*: {why}"):
            run(wanted)


@pytest.mark.parametrize(
    "settings",
    [
        {"on_partition_drop": "fail"},
        {"on_partition_drop": "keep"},
        {"on_truncate": "ignore"},
        {"deletes": "mark"},
        {"mode": ["mirror", "changelog"]},
        {"select": r"shop\.orders"},
        {"select": r"shop\.items"},
    ],
    ids=str,
)
def test_targets_that_may_differ_from_their_tables_exchange_nothing(tmp_path: Path, settings: dict[str, Any]) -> None:
    log(tmp_path, archive)
    refused(job(tmp_path, **{**APPLY, **settings}), r"shop\.(orders|items).*EXCHANGE PARTITION p1 WITH TABLE")


def test_tables_of_other_modes_exchange_nothing(tmp_path: Path) -> None:
    log(tmp_path, archive)
    rules = [{"select": r"shop\.orders", **APPLY}, {"select": ".*", "mode": "scd2", **APPLY}]
    refused(job(tmp_path, top={"tables": rules}), r"shop\.(orders|items)")


def test_table_whose_earlier_rows_are_unknown_exchanges_nothing(tmp_path: Path) -> None:
    def story(writer: ShopLog) -> None:
        writer.statement("CREATE TABLE items LIKE orders")
        writer.insert(ORDERS, (3, "c"))
        writer.statement(EXCHANGE)

    refused(middle(tmp_path, story, begin="empty", **APPLY), r"shop\.orders")


@pytest.mark.parametrize(
    ("loaded", "held", "why"),
    [
        ([(5, "e")], [(1, "a")], "both have rows"),
        ([(5, "e"), (15, "f")], [], r"rows of shop\.items belong to other partitions"),
    ],
    ids=["both have rows", "without validation"],
)
def test_rows_that_a_killed_job_could_lose_are_named(
    tmp_path: Path, loaded: list[tuple[int, str]], held: list[tuple[int, str]], why: str
) -> None:
    def story(writer: ShopLog) -> None:
        tables(writer)
        writer.insert(ORDERS, *held, (20, "d"))
        writer.insert(ITEMS, *loaded)
        writer.statement(f"{EXCHANGE} WITHOUT VALIDATION")

    log(tmp_path, story)
    refused(job(tmp_path, **APPLY), f"shop.orders, shop.items: .*, and {why}")
    assert rows(tmp_path, "items") == loaded


def test_partition_whose_rows_are_not_known_is_named(tmp_path: Path) -> None:
    def story(writer: ShopLog) -> None:
        writer.statement("CREATE TABLE orders (id INT PRIMARY KEY, name VARCHAR(20)) PARTITION BY HASH (id)")
        writer.statement("CREATE TABLE items (id INT PRIMARY KEY, name VARCHAR(20))")
        writer.insert(ORDERS, (1, "a"))
        writer.statement("ALTER TABLE orders EXCHANGE PARTITION p0 WITH TABLE items")

    log(tmp_path, story)
    refused(job(tmp_path, **APPLY), "shop.orders, shop.items: .*cannot be told: PARTITION BY HASH")


def test_targets_with_other_columns_are_named(tmp_path: Path) -> None:
    """One that somebody widened: the server's tables have the same columns."""

    def story(writer: ShopLog) -> None:
        writer.statement(PARTITIONED)
        writer.statement("CREATE TABLE items (id INT PRIMARY KEY, name VARCHAR(20), price INT)")
        writer.insert(wanted("items", ID, NAME, PRICE), (1, "a", 2))
        writer.insert(wanted("orders", ID, ColumnSpec("name", "varchar(20)")), (20, "d"))
        writer.statement(EXCHANGE)

    log(tmp_path, story)
    refused(job(tmp_path, **APPLY), "shop.orders, shop.items: .*, and their targets have different columns")


def test_both_are_set_aside_where_one_cannot_go_on(tmp_path: Path) -> None:
    def story(writer: ShopLog) -> None:
        archive(writer)
        writer.statement("UPDATE items SET name = 'z'")
        writer.insert(wanted("others", ID, NAME), (7, "x"))

    log(tmp_path, story)
    aside = job(tmp_path, top={"on_error": OnError.SET_ASIDE}, **APPLY)
    run(aside)
    assert {str(stopped.name) for stopped in record(aside).set_aside} == {"shop.orders", "shop.items"}
    assert rows(tmp_path, "others") == [(7, "x")]


def test_versions_end_in_one_table_and_begin_in_the_other(tmp_path: Path) -> None:
    log(tmp_path, exchange_partitions)
    run(job(tmp_path, mode=Mode.SCD2, **APPLY))
    current = {name: [row[:2] for row in rows(tmp_path, name) if row[4]] for name in ("orders", "items")}
    assert current == {"orders": [(3, "c"), (11, "g"), (20, "d")], "items": [(4, "f")]}
    ended = {name: [row[:2] for row in rows(tmp_path, name) if not row[4]] for name in ("orders", "items")}
    assert ended["orders"] == [(1, "a"), (2, "b"), (10, "x"), (11, "e")]
    assert sorted(ended["items"]) == [(1, "a"), (2, "b"), (11, "e")]


def test_partition_becomes_a_table(tmp_path: Path) -> None:
    """MariaDB: as an exchange with a new table; the target of that name may be left from another one."""

    def story(writer: ShopLog) -> None:
        writer.insert(ITEMS, (7, "old"))
        writer.statement("DROP TABLE items")
        writer.statement(PARTITIONED)
        writer.insert(ORDERS, (1, "a"), (20, "d"))
        writer.statement("ALTER TABLE orders CONVERT PARTITION p1 TO TABLE items")
        writer.update(ITEMS, ((1, "a"), (1, "b")))

    log(tmp_path, story)
    run(job(tmp_path, **APPLY))
    assert {name: rows(tmp_path, name) for name in ("orders", "items")} == {"orders": [(20, "d")], "items": [(1, "b")]}


def test_targets_are_complete_after_it(tmp_path: Path) -> None:
    log(tmp_path, exchange_partitions)
    run(job(tmp_path, **APPLY))
    assert [stated(tmp_path, name, COMPLETE_PROPERTY) for name in ("orders", "items")] == ["true", "true"]
