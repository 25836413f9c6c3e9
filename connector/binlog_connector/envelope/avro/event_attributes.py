"""Attributes of CloudEvents in Avro: `AttributeParts`."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_connector.envelope.avro.message_parts import EventParts
from binlog_connector.envelope.avro.parts import (
    NULL_BRANCH,
    SEQUENCE_SIZE,
    VALUE_BRANCH,
    AvroTexts,
    Chosen,
    Encoded,
    SameParts,
    Sequences,
    encoded_long,
    encoded_text,
    union_states,
)
from binlog_connector.envelope.connect_schema import TRANSACTION_FIELDS, connector_name
from binlog_connector.envelope.json.message_template import NO_SNAPSHOT, OF_SNAPSHOT
from binlog_connector.envelope.message_batch import OPS
from binlog_format.rows.arrow_arrays import numbers_array

if TYPE_CHECKING:
    from binlog_connector.envelope.avro.parts import AvroPart
    from binlog_connector.envelope.encoding import ValueRows
    from binlog_connector.envelope.message_context import BlockContext
    from binlog_format.events.table_map import TableLayout
    from binlog_format.kernels import Int64s, Mask


class AttributeParts(EventParts):
    """Also what CloudEvents have before `data`, in the order of `event_schema`; numbers of 64 bits are texts."""

    def __init__(self, context: BlockContext, rows: Int64s, *, are_copied: bool) -> None:
        super().__init__(context, rows, are_copied=are_copied)
        self._are_copied = are_copied
        letters = ["r" if are_copied else op for op in OPS]
        self._letters = Encoded.of([SameParts(b";op:"), _letters(letters)], len(letters))
        self._ops = Encoded.of([SameParts(encoded_long(1)), _letters(letters)], len(letters))

    def attributes(self, layout: TableLayout, schema_url: str, rows: ValueRows) -> list[AvroPart]:
        """All of them. *layout*: of the values' table. *schema_url*: of the schema of their data."""
        connector, name = connector_name(layout.vendor), self._occasion.options.topic_prefix
        start = f"name:{name};sequence:".encode()
        source, kind = f"/debezium/{connector}/{name}", f"io.debezium.connector.{connector}.DataChangeEvent"
        return [
            SameParts(encoded_long(len(start) + SEQUENCE_SIZE + len(";op:") + 1) + start),
            Sequences(self._occasion, rows.events, rows.row_nos),
            Chosen(self._letters, rows.ops),
            SameParts(b"".join(map(encoded_text, (source, "1.0", kind)))),
            Chosen(self._times, self._slots[rows.events]),
            SameParts(encoded_text("application/avro") + encoded_text(schema_url)),
            Chosen(self._ops, rows.ops),
            *self._filled(self._attributes, layout.database, layout.table, rows.events, rows.row_nos),
            *self._transaction(rows),
        ]

    def _transaction(self, rows: ValueRows) -> list[AvroPart]:
        if rows.orders is None:
            return [SameParts(NULL_BRANCH * len(TRANSACTION_FIELDS))]
        ids = Chosen(self._transaction_ids, self._slots[rows.events])
        return [SameParts(VALUE_BRANCH), ids, _optional(rows.orders.total), _optional(rows.orders.of_table)]

    @cached_property
    def _times(self) -> Encoded:
        moments = numbers_array(self._seconds).cast(pa.timestamp("s"))
        return self._encoded(AvroTexts.of(pc.strftime(moments, "%Y-%m-%dT%H:%M:%S.000Z"), pa.string()))

    @cached_property
    def _attributes(self) -> list[Encoded | str]:
        threads = self._occasion.threads[self._groups.rows]
        snapshot = OF_SNAPSHOT if self._are_copied else NO_SNAPSHOT
        return self._in_order(
            self._of_events
            | {
                "ts_ms": _text(self._seconds * 1000),
                "snapshot": SameParts(VALUE_BRANCH + encoded_text(snapshot)),
                "ts_us": _optional(self._seconds * 1_000_000),
                "ts_ns": _optional(self._seconds * 1_000_000_000),
                "server_id": _text(self._occasion.block.events["server_id"][self._rows].astype(np.int64)),
                "pos": _text(self._groups.file_offsets()),
                "thread": _optional(threads, threads >= 0),
            }
        )


def _letters(letters: list[str]) -> AvroPart:
    offsets = np.arange(len(letters) + 1, dtype=np.int64)
    whole = Encoded(np.frombuffer("".join(letters).encode(), dtype=np.uint8), offsets)
    return Chosen(whole, offsets[:-1])


def _text(numbers: Int64s) -> AvroPart:
    return AvroTexts.of(numbers_array(numbers).cast(pa.string()), pa.string())


def _optional(numbers: Int64s, present: Mask | None = None) -> AvroPart:
    there = np.ones(len(numbers), dtype=np.bool_) if present is None else present
    return AvroTexts.of(numbers_array(numbers).cast(pa.string()), pa.string(), union_states(there))
