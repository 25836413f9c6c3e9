"""How a server compares names: what its log proves, and what folds."""

from __future__ import annotations

import pytest

from binlog_connector.schema.definitions import TableName
from binlog_connector.schema.history import SchemaHistory
from binlog_connector.schema.operations import DropDatabase, RenameTables
from binlog_connector.schema.parsing.ddl import parse_ddl
from binlog_connector.schema.parsing.session import StatementSession
from binlog_connector.schema.statement_scope import StatementScope
from binlog_connector.schema.table_changes import TableDropped, TableTruncated
from binlog_connector.schema.table_names import NameRule, folded, has_if_exists
from tests.connector.schema.layouts import block_of, position, query
from tests.connector.schema.test_statement_scope import statement

SHOP = StatementSession("shop")
NEW = "CREATE DATABASE shop"


def rule_after(*texts: str, rows: str = "") -> bool | None:
    """What a log of these statements proves, with rows of the tables named in *rows* after them."""
    rule = NameRule()
    for text in texts:
        for operation in parse_ddl(text, SHOP):
            rule.observe(operation, may_be_missing=has_if_exists(text))
            rule = NameRule.from_json(rule.to_json())
    rule.take_rows([TableName.parse(name) for name in rows.split()])
    return rule.folds


@pytest.mark.parametrize(
    "needs",
    [
        *(
            "TRUNCATE Orders",
            "ALTER TABLE Orders ADD b INT",
            "CREATE INDEX i ON Orders (a)",
            "RENAME TABLE Orders TO x",
            "CREATE TABLE items LIKE Orders",
            "CREATE TABLE items (o INT, FOREIGN KEY (o) REFERENCES ORDERS (a))",
            "ALTER TABLE orders ADD FOREIGN KEY (a) REFERENCES ORDERS (a)",
        ),
        "RENAME TABLE orders TO x, X TO y",
    ],
)
def test_statement_about_a_table_that_was_never_created_proves_that_names_are_folded(needs: str) -> None:
    assert rule_after(NEW, "CREATE TABLE orders (a INT)", needs) is True
    # It may be older than the log, or of a statement that was not understood; or nothing need be there.
    assert rule_after("CREATE TABLE orders (a INT)", needs) is None
    assert rule_after("CREATE DATABASE IF NOT EXISTS shop", "CREATE TABLE orders (a INT)", needs) is None
    assert rule_after("ALTER DATABASE shop CHARACTER SET latin1", "CREATE TABLE orders (a INT)", needs) is None
    assert rule_after(NEW, "CREATE TABLE orders (a INT)", "CREATE TABLE !", needs) is None


def test_what_may_be_missing_proves_nothing() -> None:
    for text in (
        "ALTER TABLE IF EXISTS Orders ADD b INT",
        "DROP TABLE Orders",
        "RENAME TABLE IF EXISTS Orders TO x",
        "CREATE TABLE items LIKE shop2.Orders",
    ):
        assert rule_after(NEW, "CREATE TABLE orders (a INT)", text) is None


def test_two_tables_that_differ_in_case_prove_that_names_are_not_folded() -> None:
    both = ("CREATE TABLE orders (a INT)", "CREATE TABLE Orders (a INT)")
    assert rule_after(NEW, *both) is False
    assert rule_after(NEW, *both, "TRUNCATE ORDERS") is False
    assert rule_after(NEW, both[0], "DROP TABLE Orders", both[1]) is None
    assert rule_after(NEW, both[0], "CREATE TABLE IF NOT EXISTS Orders (a INT)") is None
    assert rule_after(NEW, both[0], "CREATE OR REPLACE TABLE Orders (a INT)") is None
    assert rule_after(NEW, both[0], "DROP DATABASE shop", NEW, both[1]) is None


def test_rows_prove_it() -> None:
    assert rule_after(rows="shop.orders Shop.orders") is False
    assert rule_after(rows="shop.Orders") is False
    assert rule_after(NEW, "CREATE TABLE Orders (a INT)", rows="shop.orders") is True
    assert rule_after("CREATE TABLE Orders (a INT)", rows="shop.orders") is None
    assert rule_after(NEW, "CREATE TABLE orders (a INT)", rows="shop.orders shop.other") is None


def test_all_names_of_an_operation_are_folded() -> None:
    (create,) = parse_ddl("CREATE TABLE A.T (Id INT, FOREIGN KEY (Id) REFERENCES B.P (Id)) ENGINE=InnoDB", SHOP)
    (small,) = parse_ddl("CREATE TABLE a.t (Id INT, FOREIGN KEY (Id) REFERENCES b.p (Id)) ENGINE=InnoDB", SHOP)
    assert folded(create) == small
    assert folded(small) == small
    a, b = TableName("a", "x"), TableName("b", "y")
    assert folded(RenameTables(((TableName("A", "X"), TableName("B", "y")),))) == RenameTables(((a, b),))
    assert folded(DropDatabase("Shop")) == DropDatabase("shop")


def test_scope_folds_what_it_knew_before_and_what_comes() -> None:
    scope = StatementScope()
    for text in ("CREATE DATABASE shop", "CREATE TABLE t (a INT)", "CREATE TEMPORARY TABLE Tmp (a INT)"):
        scope.observe(statement(text))
    assert scope.changes(statement("TRUNCATE T")) == [TableTruncated(TableName("shop", "T"))]
    assert scope.names.folds
    scope.fold_names()
    again = StatementScope.from_json(scope.to_json())
    for one in (scope, again):
        assert one.changes(statement("TRUNCATE T")) == [TableTruncated(TableName("shop", "t"))]
        assert one.changes(statement("DROP TABLE TMP, SHOP.T")) == [TableDropped(TableName("shop", "t"))]
    assert StatementScope.from_json({}).names == NameRule()


def test_history_takes_two_spellings_for_one_table_from_the_proof_on() -> None:
    texts = ["CREATE DATABASE shop", "CREATE TABLE Orders (a INT)", "ALTER TABLE orders ADD b INT", "TRUNCATE ORDERS"]
    history = SchemaHistory()
    history.observe(block_of(*map(query, texts)))
    for spelled in ("orders", "Orders"):
        found = history.definition("shop", spelled, position(3))
        assert found is not None
        assert found.columns is not None
        assert [column.name for column in found.columns] == ["a", "b"]
    older = SchemaHistory()
    older.observe(block_of(*map(query, texts[1:])))
    assert older.definition("shop", "orders", position(3)) is None
