"""Messages about tables that a statement has emptied: `Truncates`."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from binlog_connector.envelope.connect_schema import compact, envelope_schema, flat_schema, wrapping
from binlog_connector.envelope.message_batch import NO_KEY, OPS, MessageKind, MessageRun, Place, sort_keys
from binlog_connector.envelope.options import EnvelopeFormat, Operation
from binlog_connector.envelope.schema_changes import source_text
from binlog_connector.schema.operations import TruncateTable
from binlog_format.views.json_texts import JsonTexts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_connector.envelope.connect_schema import Schema
    from binlog_connector.envelope.occasion import LoggedStatement, Occasion
    from binlog_connector.envelope.options import EnvelopeOptions
    from binlog_connector.schema.definitions import TableName
    from binlog_format.views.table_filter import TableFilter


class Truncates:
    """Makes a message without a key, with `op` t, for each TRUNCATE of a wanted table.

    Args:
        options: What messages look like.
        tables: Which tables are wanted.
    """

    def __init__(self, options: EnvelopeOptions, tables: TableFilter) -> None:
        self._options = options
        self._tables = tables

    def runs(self, occasion: Occasion, statements: Sequence[LoggedStatement]) -> list[MessageRun]:
        """The messages about *statements* of a block, each a run of its own, in order."""
        if Operation.TRUNCATE in self._options.skipped_operations:
            return []
        return [
            self._run(occasion, event, operation.name)
            for event, _, operations in statements
            for operation in operations
            if isinstance(operation, TruncateTable) and self._tables.accepts_name(*operation.name)
        ]

    def _run(self, occasion: Occasion, event: int, name: TableName) -> MessageRun:
        events = np.array([event], dtype=np.int64)
        source = source_text(occasion, events, name.database, name.table)
        is_flat = self._options.format is EnvelopeFormat.FLAT
        value = _flat(source) if is_flat else _debezium(source, occasion.now_ns)
        head, tail = wrapping(self._schema(occasion, name))
        run = MessageRun.of_texts(
            MessageKind.CHANGE,
            name.database,
            name.table,
            sort_keys(events, Place.STATEMENT),
            events,
            JsonTexts.of([""]),
            JsonTexts.of([f"{head.tobytes().decode()}{value}{tail.tobytes().decode()}"]),
        )
        none = np.full(1, NO_KEY, dtype=np.int64)
        return replace(run, ops=np.full(1, OPS.index("t"), dtype=np.int32), keys=None, key=none)

    def _schema(self, occasion: Occasion, name: TableName) -> Schema | None:
        # Of a row without columns: the statement tells nothing about them.
        if not self._options.schemas:
            return None
        full_name = f"{self._options.topic_prefix}.{name}"
        if self._options.format is EnvelopeFormat.FLAT:
            return flat_schema([], full_name)
        return envelope_schema([], full_name, occasion.block.vendor)


def _debezium(source: str, now_ns: int) -> str:
    made = f'"ts_ms":{now_ns // 1_000_000},"ts_us":{now_ns // 1000},"ts_ns":{now_ns}'
    return f'{{"before":null,"after":null,"source":{source},"transaction":null,"op":"t",{made}}}'


def _flat(source: str) -> str:
    told = json.loads(source)
    return compact(
        {
            "__db": told["db"],
            "__table": told["table"],
            "__source_ts_ms": told["ts_ms"],
            "__source_sequence": told["sequence"],
            "__source_gtid": told["gtid"],
            "__op": "t",
            "__deleted": "false",
        }
    )
