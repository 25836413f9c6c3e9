"""Statements as views have them: `find_statements(block)` for `changes`, `find_statement_rows(block)` for `tables`.

The errors for what a log does not tell row by row: `statement_error`, `events_lost_error`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from binlog_connector.schema.log_ddl import table_statements
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
from binlog_connector.schema.parsing.lexer import without_literals
from binlog_connector.schema.parsing.row_statements import ddl_operations, statement_operations
from binlog_connector.schema.replaced_rows import row_statements
from binlog_connector.schema.table_changes import RowsMoved
from binlog_connector.schema.table_names import folded
from binlog_format.errors import DataLossError, UnsupportedError
from binlog_format.events.layout import EventType
from binlog_format.events.query import contains_password
from binlog_format.messages import shows_values
from binlog_format.views.change_extras import ChangeStatement

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from binlog_connector.schema.definitions import TableName
    from binlog_connector.schema.log_ddl import DdlStatement, ServerRuns
    from binlog_connector.schema.operations import Operation
    from binlog_connector.schema.table_changes import RowsChanged
    from binlog_format.block import Block
    from binlog_format.rows.decoding import TableSchemas


STATEMENT_SHOWN_MAX = 200
"""Characters of a statement in messages, and of one that the view `tables` passes on."""

STATEMENT_HINT = (
    "Set binlog_format=ROW on the server, for all sessions (those that are open keep the old format), then copy the "
    'tables again. A new job that keeps tables needs begin = "snapshot" for them. A job that has run before, or whose '
    'log has the CREATE TABLE or a TRUNCATE of them, needs on_statement = "ignore" instead; a job that publishes needs '
    "failOnStatement = false. Then run binlog-stream snapshot JOB.toml"
)
OWN_FORMAT_HINT = (
    "A table that a tool writes in this format on purpose (as pt-heartbeat and pt-table-checksum do) can be left out "
    "(option source.excludeTables)"
)

REPLACED_HINT = (
    "Set binlog_row_image=FULL on the server, or write INSERT ... ON DUPLICATE KEY UPDATE instead (with "
    "binlog_annotate_row_events=ON, which tells them apart), and take the tables anew from the server"
)

_HIDDEN = "its text is left out, as rules hide values of rows"
_SECRET = "its text is left out, as it contains a password"

MOVED_HINT = (
    "Take the tables anew from the server from a position after the statement; "
    'on_statement = "ignore" for them goes on without these rows'
)


def statement_error(
    statement: DdlStatement,
    names: Sequence[TableName] | None,
    changed: RowsChanged,
    *,
    tells_text: bool = True,
    moved_hint: str = MOVED_HINT,
) -> UnsupportedError:
    """The error for a statement whose changed rows the log does not tell, or in part.

    `STATEMENT_FORMAT`, `ROWS_NOT_LOGGED`, `ROW_IMAGE`.

    Args:
        names: Tables of the reader that it concerns; None: any.
        tells_text: Whether the statement, which holds the values that it writes, is in the message.
        moved_hint: What to do where rows moved.
    """
    text = shown(statement) if tells_text else _HIDDEN
    about = "any table" if names is None else ", ".join(map(str, names))
    if isinstance(changed, RowsMoved):
        return UnsupportedError(
            "ROWS_NOT_LOGGED", f"{_place(statement)}: {about}: {changed.reason}: {text}", hint=moved_hint
        )
    if statement.event_type == EventType.ANNOTATE_ROWS:
        return _replaced_rows_error(statement, about, text if statement.text else "the log has no texts of statements")
    why = f" ({changed.reason})" if changed.reason else ""
    return UnsupportedError(
        "STATEMENT_FORMAT",
        f"{_place(statement)}: a statement that changes rows of {about}{why} is logged as text, not row by row: {text}",
        hint=STATEMENT_HINT if names is None else f"{STATEMENT_HINT}. {OWN_FORMAT_HINT}",
    )


def _replaced_rows_error(statement: DdlStatement, about: str, text: str) -> UnsupportedError:
    return UnsupportedError(
        "ROW_IMAGE",
        f"{_place(statement)}: {about}: an update whose row image is not whole is, or may be, that of a REPLACE: the "
        f"columns that it lacks got their defaults, or kept their values: {text}",
        hint=REPLACED_HINT,
    )


def events_lost_error(statement: DdlStatement) -> DataLossError:
    """The error for an INCIDENT event: `LOST_EVENTS`."""
    return DataLossError(
        "LOST_EVENTS",
        f"{_place(statement)}: the server recorded an incident: changes were made that are not in the log: "
        f"{statement.text[:STATEMENT_SHOWN_MAX]}",
        hint="Take the tables anew from the server and begin after this event",
    )


def shown(statement: DdlStatement) -> str:
    """The first characters of the statement, in one line, without values of rows; not of one with a password."""
    if contains_password(statement.text):
        return _SECRET
    text = statement.text[: STATEMENT_SHOWN_MAX + 1]
    text = " ".join(text.split()) if shows_values() else without_literals(text, sql_mode=statement.sql_mode)
    return f"{text[:STATEMENT_SHOWN_MAX]}..." if len(statement.text) > STATEMENT_SHOWN_MAX else text


def _place(statement: DdlStatement) -> str:
    gtid = "" if statement.gtid is None else f"GTID {statement.gtid}, "
    return f"{gtid}position {statement.position}, event {statement.event_no}"


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
    """
    for row, word, statement in table_statements(block):
        op = TRUNCATE_OP if word == TRUNCATE else DDL_OP
        text = None if contains_password(statement.text) else statement.text
        for database, table in dict.fromkeys(_named(statement, folds_names)) or [(statement.database, None)]:
            yield ChangeStatement(row, op, database, table, text)


def find_statement_rows(
    block: Block, server_runs: ServerRuns | None = None, schemas: TableSchemas | None = None
) -> Iterator[tuple[int, dict[str, object]]]:
    """Statements in a block that have to do with tables or their rows: row of the event, `DdlStatement.to_row`.

    Left out are statements about users, settings and the like. Of a statement that changes rows only the beginning is
    given, and what was read in it.

    Args:
        block: Of plain events.
        server_runs: Of the log; None: temporary tables are taken to outlive a restart of the server.
        schemas: See `row_statements`.
    """
    for row, _, statement in row_statements(block, server_runs, schemas):
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
