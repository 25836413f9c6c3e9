"""Messages about statements that change tables as a whole: `SchemaChanges`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_connector.envelope.encoding import SchemaChange
from binlog_connector.envelope.message_batch import MessageKind, MessageRun, Place, sort_keys
from binlog_connector.schema.operations import (
    AlterTable,
    CreateSequence,
    CreateTable,
    CreateView,
    DropTables,
    RenameTables,
    TruncateTable,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_connector.envelope.encoding import MessageEncoding
    from binlog_connector.envelope.occasion import LoggedStatement, Occasion
    from binlog_connector.envelope.options import EnvelopeOptions
    from binlog_connector.schema.definitions import TableName
    from binlog_connector.schema.log_ddl import DdlStatement
    from binlog_connector.schema.operations import Operation
    from binlog_format.views.table_filter import TableFilter


class SchemaChanges:
    """Makes a message for each wanted statement; there are few of them.

    A statement is wanted where one of its tables is; one about no table, or whose tables cannot be made out, always.

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

    def runs(self, occasion: Occasion, statements: Sequence[LoggedStatement]) -> list[MessageRun]:
        """The messages about *statements* of a block, each a run of its own, in order."""
        if not self._options.schema_changes:
            return []
        made = []
        for event, statement, operations in statements:
            changes = [one for operation in operations for one in _changes(operation)]
            if not changes or any(self._tables.accepts_name(*name) for _, name in changes):
                made.append(self._run(occasion, event, statement, changes))
        return made

    def _run(
        self, occasion: Occasion, event: int, statement: DdlStatement, changes: list[tuple[str, TableName]]
    ) -> MessageRun:
        database = changes[0][1].database if changes else statement.database
        table = changes[0][1].table if changes else None
        events = np.array([event], dtype=np.int64)
        text = statement.text if self._tells_text else None
        change = SchemaChange(event, database, table, text, changes)
        keys, values = self._encoding.schema_change(occasion, change)
        order = sort_keys(events, Place.STATEMENT)
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
        case DropTables():
            return [("DROP", name) for name in operation.names]
    return []
