"""Effects of a statement whose event has an error code: `left_of_failed(operations, code)`.

A server logs most statements that failed not at all. Those that it logs, with the code that a replica must meet too:

* CREATE OR REPLACE TABLE and SEQUENCE that failed after the old table was dropped (MariaDB sql/sql_table.cc,
  mysql_create_table: "Write log if no error or if we already deleted a table"): the drop is what it did;
* DROP TABLE of tables of which some were not there (MySQL to 5.7, MariaDB to 5.5 with their code, later ones without):
  all others are dropped. With any other code, that of a foreign key, some may be there still;
* DROP VIEW: likewise, and what it could not drop is no view (MariaDB sql/sql_view.cc, mysql_drop_view);
* statements about rows of tables without transactions, which keep the rows that were changed before the error;
  TRUNCATE of such a table (sql/sql_truncate.cc: TRUNCATE_FAILED_BUT_BINLOG);
* other DDL that a replica is to fail at as well: nothing was changed.

Seen on MariaDB 10.11: codes 1005 and 1068 of CREATE OR REPLACE, 4092 of DROP VIEW, 1062 of an INSERT into MyISAM.
MySQL 9.7 logs no DDL that failed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_connector.schema.operations import (
    ChangeRows,
    CreateSequence,
    CreateTable,
    DropTables,
    DropTemporaryTables,
    DropViews,
    NotParsed,
    TruncateTable,
)
from binlog_connector.schema.parsing.ddl import parse_ddl
from binlog_connector.schema.parsing.row_statements import parse_statement
from binlog_format.events.layout import EventType

if TYPE_CHECKING:
    from collections.abc import Iterable

    from binlog_connector.schema.log_ddl import DdlStatement
    from binlog_connector.schema.operations import Operation

NOT_THERE = frozenset({1051, 4091})
"""ER_BAD_TABLE_ERROR, ER_UNKNOWN_SEQUENCES: of a DROP, some tables were not there."""


def left_of_failed(operations: Iterable[Operation], code: int) -> list[Operation]:
    """The part of *operations* that took effect, of a statement that ended with *code* on the server; 0: all."""
    found = list(operations)
    if code == 0:
        return found
    if any(isinstance(operation, CreateTable | CreateSequence) for operation in found):
        # Without rows of a table that was not made.
        found = [operation for operation in found if not isinstance(operation, ChangeRows)]
    return [left for operation in found for left in _left(operation, code)]


def ddl_operations(statement: DdlStatement) -> list[Operation]:
    """Effects of a DDL statement on tables, in order."""
    return left_of_failed(parse_ddl(statement.text, statement.session), statement.error_code)


def statement_operations(statement: DdlStatement) -> list[Operation]:
    """Effects of a statement on tables and rows, in order, even if only its beginning is known."""
    if statement.event_type in (EventType.INCIDENT, EventType.FORMAT_DESCRIPTION):
        return []
    if statement.rows is not None:
        return [statement.rows]
    return left_of_failed(parse_statement(statement.text, statement.session), statement.error_code)


def _left(operation: Operation, code: int) -> list[Operation]:
    match operation:
        case CreateTable() | CreateSequence() if operation.or_replace:
            return [DropTables((operation.name,))]
        case DropTables() if code not in NOT_THERE:
            reason = f"it ended with error {code} on the server: some of its tables may be there still"
            return [NotParsed(operation.names, reason)]
        case DropTables() | DropViews() | DropTemporaryTables() | ChangeRows():
            return [operation]
        case TruncateTable():
            return [ChangeRows((operation.name,))]
    return []
