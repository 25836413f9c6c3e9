"""A definition that a mark states holds before it, back to the last statement that may be about its table."""

from __future__ import annotations

import pytest

from binlog_connector.schema.definitions import TableName
from binlog_connector.schema.log_ddl import DdlStatement
from binlog_connector.schema.stated_definitions import definition_of_server, later_definitions
from binlog_format.position import Position
from binlog_format.vendor import Vendor

ORDERS = TableName("shop", "orders")
TEXT = "CREATE TABLE `orders` (`id` int(11) NOT NULL, `n` int(11) DEFAULT NULL, PRIMARY KEY (`id`))"


def place(page: int) -> Position:
    return Position(0, page, 0)


def held(*texts: str) -> list[int]:
    """At which pages rows are known: statements are at 10, 20, ...; the mark is at 90."""
    statements = [DdlStatement(place(10 * number), 0, text, "shop") for number, text in enumerate(texts, 1)]
    mark = definition_of_server(ORDERS, TEXT, place(90), Vendor.MARIADB)
    found = later_definitions([*statements, mark])[ORDERS]
    assert [column.name for column in found.definition.columns or ()] == ["id", "n"]
    return [page for page in (5, 15, 25, 85, 90, 95) if found.holds_at(place(page))]


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE other (a INT)",
        "ALTER TABLE elsewhere.orders ADD b INT",
        "DROP DATABASE elsewhere",
        "CREATE VIEW v AS SELECT 1",
        "ALTER TABLE other ADD (b INT",
        "RENAME TABLE a TO b",
    ],
)
def test_statements_about_other_tables_change_nothing(text: str) -> None:
    assert held(text) == [5, 15, 25, 85]


@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE orders ADD b INT",
        "ALTER TABLE Orders RENAME COLUMN m TO n",
        "CREATE INDEX i ON orders (n)",
        "RENAME TABLE older TO orders",
        "RENAME TABLE orders TO older",
        "DROP TABLE IF EXISTS orders",
        "CREATE TABLE IF NOT EXISTS orders LIKE older",
        "DROP DATABASE shop",
        "DROP DATABASE Shop",
        "ALTER TABLE orders ADD (b INT",
        "ALTER TABLE !",
        "SET STATEMENT a = 'FOR ALTER TABLE orders ADD b INT",
    ],
)
def test_rows_before_a_statement_that_may_be_about_the_table_are_not_known(text: str) -> None:
    assert held(text) == [15, 25, 85]
    assert held(text, "CREATE TABLE other (a INT)") == [15, 25, 85]
    assert held("CREATE TABLE other (a INT)", text) == [25, 85]


def test_the_first_mark_counts() -> None:
    marks = [definition_of_server(ORDERS, TEXT, place(page), Vendor.MARIADB) for page in (40, 60)]
    later = DdlStatement(place(50), 0, "ALTER TABLE orders ADD b INT", "shop")
    found = later_definitions([marks[0], later, marks[1]])[ORDERS]
    assert (found.after, found.before) == (None, place(40))
