"""Messages about statements that change tables as a whole: `SchemaChanges`."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_connector.envelope.connect_schema import compact, schema_change_schemas, wrapping
from binlog_connector.envelope.message_batch import MessageKind, MessageRun, Place, sort_keys
from binlog_connector.envelope.message_template import EventTexts, source_template
from binlog_connector.envelope.template_kernels import SEQUENCE_WIDTHS
from binlog_connector.schema.operations import (
    AlterTable,
    CreateSequence,
    CreateTable,
    CreateView,
    DropTables,
    RenameTables,
    TruncateTable,
)
from binlog_format.rows.arrow_arrays import numbers_array, strings_array
from binlog_format.views.json_rows import JsonRows, JsonStyle, json_column
from binlog_format.views.json_texts import JsonTexts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from binlog_connector.envelope.occasion import LoggedStatement, Occasion
    from binlog_connector.envelope.options import EnvelopeOptions
    from binlog_connector.schema.definitions import TableName
    from binlog_connector.schema.log_ddl import DdlStatement
    from binlog_connector.schema.operations import Operation
    from binlog_format.views.table_filter import TableFilter

    Int64s = NDArray[np.int64]


class SchemaChanges:
    """Makes a message for each wanted statement; there are few of them.

    A statement is wanted where one of its tables is; one about no table, or whose tables cannot be made out, always.

    Args:
        options: What messages look like; none are made unless they ask for them.
        tables: Which tables are wanted.
    """

    def __init__(self, options: EnvelopeOptions, tables: TableFilter) -> None:
        self._options = options
        self._tables = tables

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
        source = source_text(occasion, events, database, table)
        listed = [{"type": kind, "id": f'"{name.database}"."{name.table}"'} for kind, name in changes]
        columns = [
            json_column("source", strings_array([source]), style=JsonStyle(ready=True)),
            json_column("ts_ms", numbers_array(np.array([occasion.now_ns // 1_000_000], dtype=np.int64))),
            json_column("databaseName", strings_array([database])),
            json_column("schemaName", pa.nulls(1, pa.string())),
            json_column("ddl", strings_array([statement.text])),
            json_column("tableChanges", strings_array([compact(listed)]), style=JsonStyle(ready=True)),
        ]
        key, value = schema_change_schemas(occasion.block.vendor) if self._options.schemas else (None, None)
        keys = JsonRows([json_column("databaseName", strings_array([database]))], 1)
        return MessageRun.of_texts(
            MessageKind.SCHEMA_CHANGE,
            database or None,
            table,
            sort_keys(events, Place.STATEMENT),
            events,
            JsonTexts.of_rows(keys, *wrapping(key)),
            JsonTexts.of_rows(JsonRows(columns, 1), *wrapping(value)),
        )


def source_text(occasion: Occasion, events: Int64s, database: str, table: str | None) -> str:
    """The object `source` of a message about a statement: that of the one event in *events*."""
    template = source_template(database, table, occasion.block.vendor, occasion.options)
    texts = EventTexts.of(occasion, [(template, events)])
    segments = [bytes(texts.data[start:end]).decode() for start, end in itertools.pairwise(texts.segments)]
    row_in_sequence, row = "0" * SEQUENCE_WIDTHS[-1], "0"
    return f"{segments[0]}{row_in_sequence}{segments[1]}{row}{segments[2]}".removeprefix('"source":')


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
