"""Messages about statements that change tables as a whole: `SchemaChanges`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_connector.envelope.encoding import SchemaChangeMessage
from binlog_connector.envelope.message_batch import MessageKind, MessagePlace, MessageRun, sort_keys
from binlog_connector.schema.operations import (
    AlterTable,
    ChangeRows,
    CreateSequence,
    CreateTable,
    CreateView,
    DropDatabase,
    DropTables,
    DropViews,
    NotParsed,
    RenameTables,
    SetDatabaseCharset,
    TruncateTable,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_connector.envelope.block_context import BlockContext, LoggedStatement
    from binlog_connector.envelope.encoding import MessageEncoding
    from binlog_connector.envelope.options import EnvelopeOptions
    from binlog_connector.schema.definitions import TableName
    from binlog_connector.schema.log_ddl import DdlStatement
    from binlog_connector.schema.operations import Operation
    from binlog_format.views.table_filter import TableFilter


class SchemaChanges:
    """Makes a message for each wanted statement; there are few of them.

    A statement is wanted where one of its tables is, or its database may have such tables. Of one whose tables are not
    known the text is told only where all tables are wanted. What is about neither (routines, triggers, events,
    accounts, temporary tables) is no change of a schema.

    Args:
        options: What messages look like; none are made unless they ask for them.
        tables: Which tables are wanted.
        encoding: Makes keys and values.
        tells_text: Whether the text of a statement, which may hold values of rows, is in its message.
    """

    def __init__(
        self, options: EnvelopeOptions, tables: TableFilter, encoding: MessageEncoding, *, tells_text: bool = True
    ) -> None:
        self._options = options
        self._tells_text = tells_text
        self._tables = tables
        self._encoding = encoding

    def runs(self, context: BlockContext, statements: Sequence[LoggedStatement]) -> list[MessageRun]:
        """The messages about *statements* of a block, each a run of its own, in order."""
        if not self._options.schema_changes:
            return []
        made = []
        for event, statement, operations in statements:
            if any(map(self._is_wanted, operations)):
                named = [one for operation in operations for one in _changes(operation)]
                changes = [(kind, name) for kind, name in named if self._tables.accepts_name(*name)]
                is_clear = not any(isinstance(one, NotParsed) and not one.names for one in operations)
                text = statement.text if self._tells_text and (is_clear or self._tables.accepts_all) else None
                made.append(self._run(context, event, statement, text, changes))
        return made

    def _is_wanted(self, operation: Operation) -> bool:
        match operation:
            case SetDatabaseCharset() | DropDatabase():
                return self._tables.may_accept_in(operation.database)
            case ChangeRows():  # ALTER SEQUENCE
                return any(self._tables.accepts_name(*name) for name in operation.names or ())
            case NotParsed():
                return not operation.names or any(self._tables.accepts_name(*name) for name in operation.names)
        return any(self._tables.accepts_name(*name) for _, name in _changes(operation))

    def _run(
        self,
        context: BlockContext,
        event: int,
        statement: DdlStatement,
        text: str | None,
        changes: list[tuple[str, TableName]],
    ) -> MessageRun:
        database = changes[0][1].database if changes else statement.database
        table = changes[0][1].table if changes else None
        events = np.array([event], dtype=np.int64)
        change = SchemaChangeMessage(event, database, table, text, changes)
        keys, values = self._encoding.schema_change(context, change)
        order = sort_keys(events, MessagePlace.STATEMENT)
        return MessageRun.of_texts(MessageKind.SCHEMA_CHANGE, database or None, table, order, events, keys, values)


def _changes(operation: Operation) -> list[tuple[str, TableName]]:
    match operation:
        case CreateTable() | CreateSequence() | CreateView():
            return [("CREATE", operation.name)]
        case AlterTable():
            return [("ALTER", operation.name)]
        case TruncateTable():
            return [("TRUNCATE", operation.name)]
        case RenameTables():
            return [("ALTER", new) for _, new in operation.pairs]
        case DropTables() | DropViews():
            return [("DROP", name) for name in operation.names]
    return []
