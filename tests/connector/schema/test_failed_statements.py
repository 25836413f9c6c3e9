"""What a statement did that ended with an error on the server."""

from __future__ import annotations

import pytest

from binlog_connector.schema.definitions import TableName
from binlog_connector.schema.history import SchemaHistory
from binlog_connector.schema.log_ddl import DdlStatement, ddl_statements
from binlog_connector.schema.operations import (
    ChangeRows,
    DropTables,
    DropViews,
    NotParsed,
    Operation,
)
from binlog_connector.schema.parsing.row_statements import left_of_failed, parse_statement
from binlog_connector.schema.parsing.session import StatementSession
from binlog_connector.schema.statement_rows import find_statement_rows, find_statements
from binlog_lab.event_encoding.event_encoding import Origin, QueryContext, encode_query
from tests.connector.schema.layouts import block_of, position, query

A, B = TableName("shop", "a"), TableName("shop", "b")


def left(text: str, code: int) -> list[Operation]:
    return left_of_failed(parse_statement(text, StatementSession("shop")), code)


def failed(text: str, code: int) -> bytes:
    return encode_query(text, Origin(17, 3), QueryContext(database="shop", error_code=code))


@pytest.mark.parametrize(
    ("text", "code", "operations"),
    [
        ("CREATE OR REPLACE TABLE a (id INT PRIMARY KEY, x INT, PRIMARY KEY (x))", 1068, [DropTables((A,))]),
        ("CREATE OR REPLACE TABLE a (id INT PRIMARY KEY) SELECT 1 AS id UNION ALL SELECT 1", 1062, [DropTables((A,))]),
        ("CREATE OR REPLACE SEQUENCE a", 4085, [DropTables((A,))]),
        ("DROP TABLE a, b", 1051, [DropTables((A, B))]),
        ("DROP VIEW a, b", 4092, [DropViews((A, B))]),
        ("INSERT INTO a VALUES (1), (1)", 1062, [ChangeRows((A,), adds=True)]),
        ("DELETE FROM a", 1317, [ChangeRows((A,))]),
        ("TRUNCATE a", 1030, [ChangeRows((A,))]),
        ("CREATE TABLE a (id INT)", 1050, []),
        ("CREATE TABLE a (id INT) SELECT 1", 1062, []),
        ("ALTER TABLE a ADD b INT, RENAME TO b", 1060, []),
        ("RENAME TABLE a TO b", 1050, []),
        ("CREATE OR REPLACE VIEW a AS SELECT 1", 1347, []),
        ("DROP DATABASE shop", 1008, []),
        ("CREATE TRIGGER x AFTER INSERT ON a FOR EACH ROW DELETE FROM b", 1359, []),
    ],
)
def test_what_is_left_of_a_statement_that_failed(text: str, code: int, operations: list[Operation]) -> None:
    assert left(text, code) == operations
    assert left(text, 0) == parse_statement(text, StatementSession("shop"))


def test_drop_that_ended_early_is_not_understood() -> None:
    (operation,) = left("DROP TABLE a, b", 1451)
    assert isinstance(operation, NotParsed)
    assert operation.names == (A, B)
    assert "error 1451 on the server: some of its tables may be there still" in operation.reason


def test_code_of_the_event_reaches_definitions_and_plans() -> None:
    replaced = "CREATE OR REPLACE TABLE a (id INT, id INT)"
    block = block_of(
        query("CREATE TABLE a (id INT)"),
        failed("ALTER TABLE a ADD b INT", 1060),
        failed(replaced, 1060),
        failed("DELETE FROM b", 1317),
        query("CREATE TABLE IF NOT EXISTS a (x INT)"),
    )
    assert [one.error_code for one in ddl_statements(block)] == [0, 1060, 1060, 0]
    history = SchemaHistory()
    history.observe(block)
    names = [history.definition("shop", "a", position(number)) for number in (2, 3, 5)]
    assert [None if one is None else [column.name for column in one.columns or ()] for one in names] == [
        ["id"],
        None,
        ["x"],
    ]
    rows = [DdlStatement.from_row(row) for _, row in find_statement_rows(block)]
    assert [(one.text, one.error_code) for one in rows] == [
        ("CREATE TABLE a (id INT)", 0),
        (replaced, 1060),
        ("DELETE FROM b", 1317),
        ("CREATE TABLE IF NOT EXISTS a (x INT)", 0),
    ]
    assert rows[2].rows == ChangeRows((B,))
    assert [(one.table, one.op) for one in find_statements(block)][1] == (None, "ddl"), "it did nothing to the table"
