"""Messages about tables that a statement has emptied: `Truncates`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from binlog_connector.envelope.message_batch import NO_KEY, OPS, MessageKind, MessageRun, Place, sort_keys
from binlog_connector.envelope.options import Operation
from binlog_connector.schema.operations import TruncateTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_connector.envelope.encoding import MessageEncoding, Texts
    from binlog_connector.envelope.occasion import LoggedStatement, Occasion
    from binlog_connector.envelope.options import EnvelopeOptions
    from binlog_connector.schema.definitions import TableName
    from binlog_format.views.table_filter import TableFilter


class Truncates:
    """Makes a message without a key, with `op` t, for each TRUNCATE of a wanted table.

    Args:
        options: What messages look like.
        tables: Which tables are wanted.
        encoding: Makes values.
    """

    def __init__(self, options: EnvelopeOptions, tables: TableFilter, encoding: MessageEncoding) -> None:
        self._options = options
        self._tables = tables
        self._encoding = encoding

    def runs(self, occasion: Occasion, statements: Sequence[LoggedStatement]) -> list[MessageRun]:
        """The messages about *statements* of a block, each a run of its own, in order."""
        if Operation.TRUNCATE in self._options.skipped_operations:
            return []
        wanted = (
            (event, operation.name)
            for event, _, operations in statements
            for operation in operations
            if isinstance(operation, TruncateTable) and self._tables.accepts_name(*operation.name)
        )
        made = ((event, name, self._encoding.truncate(occasion, event, name)) for event, name in wanted)
        return [_run(event, name, value) for event, name, value in made if value is not None]


def _run(event: int, name: TableName, value: Texts) -> MessageRun:
    events, none = np.array([event], dtype=np.int64), np.full(1, NO_KEY, dtype=np.int64)
    order = sort_keys(events, Place.STATEMENT)
    run = MessageRun.of_texts(MessageKind.CHANGE, name.database, name.table, order, events, value, value)
    return replace(run, ops=np.full(1, OPS.index("t"), dtype=np.int32), keys=None, key=none)
