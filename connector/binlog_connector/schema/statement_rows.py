"""Statements as views have them: `find_statements(block)` for `changes`, `find_statement_rows(block)` for `tables`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from binlog_connector.schema.log_ddl import all_statements, table_statements
from binlog_connector.schema.operations import (
    AlterTable,
    ChangeRows,
    CreateSequence,
    CreateTable,
    CreateView,
    DropDatabase,
    DropTables,
    NotParsed,
    RenameTables,
    SetDatabaseCharset,
    TruncateTable,
)
from binlog_connector.schema.parsing.ddl import TRUNCATE
from binlog_connector.schema.server.failed_statements import ddl_operations, statement_operations
from binlog_connector.schema.server.table_names import folded
from binlog_connector.schema.statement_errors import STATEMENT_SHOWN_MAX
from binlog_format.events.account_statements import contains_password
from binlog_format.events.layout import EventType
from binlog_format.views.change_extras import ChangeStatement

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_connector.schema.definitions import TableName
    from binlog_connector.schema.log_ddl import DdlStatement
    from binlog_connector.schema.operations import Operation
    from binlog_connector.schema.server_runs import ServerRuns
    from binlog_format.block import Block

DDL_OP = "ddl"
TRUNCATE_OP = "truncate"

_STATEMENT_SIZE_MAX = STATEMENT_SHOWN_MAX + 1
"""Characters of a statement that changes rows: what messages show, and one that tells that there are more."""


def find_statements(block: Block, *, folds_names: bool = False) -> Iterator[ChangeStatement]:
    """DDL and TRUNCATE in a block: one for each table that a statement names, under its name before it.

    A statement about no table, or about one that cannot be made out, is one with the session's database.

    Args:
        block: Of plain events.
        folds_names: Names are in small letters, as those of rows (`lower_case_table_names`).

    Raises:
        CorruptError: `BAD_EVENT`.
    """
    for row, word, statement in table_statements(block):
        op = TRUNCATE_OP if word == TRUNCATE else DDL_OP
        text = None if contains_password(statement.text) else statement.text
        for database, table in _named(statement, folds_names) or [(statement.database, None)]:
            yield ChangeStatement(row, op, database, table, text)


def find_statement_rows(block: Block, server_runs: ServerRuns | None = None) -> Iterator[tuple[int, dict[str, object]]]:
    """Statements in a block that have to do with tables or their rows: row of the event, `DdlStatement.to_row`.

    Left out are statements about users, settings and the like. Of a statement that changes rows only the beginning is
    given, and what was read in it.

    Args:
        block: Of plain events.
        server_runs: Of the log; None: temporary tables are taken to outlive a restart of the server.

    Raises:
        CorruptError: `BAD_EVENT`.
    """
    for row, _, statement in all_statements(block, server_runs):
        if statement.event_type in (EventType.INCIDENT, EventType.FORMAT_DESCRIPTION):
            yield row, statement.to_row()
            continue
        operations = statement_operations(statement)
        if len(operations) == 1 and isinstance(rows := operations[0], ChangeRows):
            yield row, replace(statement, text=statement.text[:_STATEMENT_SIZE_MAX], rows=rows).to_row()
        elif operations:
            yield row, statement.to_row()


def _named(statement: DdlStatement, folds_names: bool) -> list[tuple[str, str | None]]:
    found: list[tuple[str, str | None]] = []
    for written in ddl_operations(statement):
        operation = folded(written) if folds_names else written
        if isinstance(operation, SetDatabaseCharset | DropDatabase):
            found.append((operation.database, None))
        else:
            found += _tables(operation)
    return found


def _tables(operation: Operation) -> tuple[TableName, ...]:
    match operation:
        case CreateTable() | CreateSequence() | CreateView() | AlterTable() | TruncateTable():
            return (operation.name,)
        case RenameTables():
            return tuple(old for old, _ in operation.pairs)
        case DropTables() | NotParsed():
            return operation.names
    return ()
