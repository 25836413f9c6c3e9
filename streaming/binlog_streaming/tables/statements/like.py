"""CREATE TABLE ... LIKE: `liked` gives the new table the columns and the key of the one that it is like."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from binlog_connector.schema.parsing.charsets import UTF8MB4
from binlog_connector.schema.parsing.columns import CHARACTER_TYPES
from binlog_connector.schema.table_changes import default_facts
from binlog_format.errors import BinlogError

if TYPE_CHECKING:
    from binlog_connector.schema.definitions import TableDefinition
    from binlog_connector.schema.table_changes import TableCreated
    from binlog_streaming.tables.statements.work import StatementContext


def liked(context: StatementContext, change: TableCreated) -> TableCreated:
    """*change* with what the log states of the other table at this place; as it is where that is not known.

    Then the rows that come next have the columns and the key. So it is where rules hide some: they are about names of
    this table, and statements come here under them.
    """
    if change.columns is not None or change.like is None or context.shown_by is not None:
        return change
    try:
        source = context.facts.definition_before(change.like, context.step.statement)
        return change if source is None else _like(context, change, source)
    except BinlogError:
        return change  # a statement about the other table, or the type of a column, is not known


def _like(context: StatementContext, change: TableCreated, source: TableDefinition) -> TableCreated:
    if source.columns is None or not source.knows("keys"):
        return change
    statement = context.step.statement
    # Which character set a text has does not matter for the target's column.
    charset = statement.server_charset or UTF8MB4
    columns = (
        replace(column, charset=charset) if column.charset is None and column.type_name in CHARACTER_TYPES else column
        for column in source.columns
    )
    facts = tuple(default_facts(column, statement.vendor, context.decoding) for column in columns)
    return replace(change, columns=facts, primary_key=source.row_key)
