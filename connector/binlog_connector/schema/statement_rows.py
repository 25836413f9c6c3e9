"""Statements as rows of the view `changes`: `find_statements(block)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_connector.schema.ddl import parse_ddl
from binlog_connector.schema.lexer import DdlSyntaxError, Lexer, TokenReader
from binlog_connector.schema.log_ddl import TRUNCATE, table_statements
from binlog_connector.schema.operations import (
    AlterTable,
    CreateSequence,
    CreateTable,
    DropDatabase,
    DropTables,
    NotParsed,
    RenameTables,
    SetDatabaseCharset,
)
from binlog_connector.schema.table_parser import StatementContext, table_name
from binlog_format.views.change_extras import Statement

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_connector.schema.definitions import TableName
    from binlog_connector.schema.log_ddl import DdlStatement
    from binlog_connector.schema.operations import Operation
    from binlog_format.block import Block

DDL_OP = "ddl"
TRUNCATE_OP = "truncate"


def find_statements(block: Block) -> Iterator[Statement]:
    """DDL and TRUNCATE in a block: one for each table that a statement names, under its name before it.

    A statement about no table, or about one that cannot be made out, is one with the session's database.

    Args:
        block: Of plain events.

    Raises:
        CorruptError: `BAD_EVENT`.
    """
    for row, word, statement in table_statements(block):
        is_truncate = word == TRUNCATE
        tables = _truncated(statement) if is_truncate else _named(statement)
        op = TRUNCATE_OP if is_truncate else DDL_OP
        for database, table in tables or [(statement.database, None)]:
            yield Statement(row, op, database, table, statement.text)


def _named(statement: DdlStatement) -> list[tuple[str, str | None]]:
    found: list[tuple[str, str | None]] = []
    for operation in parse_ddl(statement.text, statement.session):
        if isinstance(operation, SetDatabaseCharset | DropDatabase):
            found.append((operation.database, None))
        else:
            found += _tables(operation)
    return found


def _tables(operation: Operation) -> tuple[TableName, ...]:
    match operation:
        case CreateTable() | CreateSequence() | AlterTable():
            return (operation.name,)
        case RenameTables():
            return tuple(old for old, _ in operation.pairs)
        case DropTables() | NotParsed():
            return operation.names
    return ()


def _truncated(statement: DdlStatement) -> list[tuple[str, str | None]]:
    # TRUNCATE [TABLE] name [WAIT n | NOWAIT]
    lexer = Lexer(statement.text, sql_mode=statement.sql_mode, vendor=statement.vendor)
    try:
        reader = TokenReader(lexer.tokens())
        reader.accept(TRUNCATE)
        reader.accept("TABLE")
        return [table_name(reader, StatementContext(statement.database, statement.sql_mode))]
    except DdlSyntaxError:
        return []
