"""Fields of values about the event that a change is in: `EventParts`."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_connector.envelope.avro.parts import (
    NULL_BRANCH,
    SEQUENCE_SIZE,
    VALUE_BRANCH,
    AvroTexts,
    Chosen,
    Encoded,
    Longs,
    SameParts,
    Sequences,
    encoded_long,
    encoded_text,
    union_states,
)
from binlog_connector.envelope.connect_schema import connector_name
from binlog_connector.envelope.json.message_template import FORMAT_VERSION
from binlog_connector.envelope.transactions import EventGroups

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_connector.envelope.avro.parts import AvroPart
    from binlog_connector.envelope.block_context import BlockContext
    from binlog_connector.envelope.encoding import Orders

    Int32s = NDArray[np.int32]
    Int64s = NDArray[np.int64]

_SNAPSHOT = b"\x00" + encoded_text("false")  # the first branch of a union whose default it is


class EventParts:
    """Fields of values, encoded once for each event of a block, and then chosen for each value.

    Args:
        context: The block.
        rows: The events, by their rows in its event table, each once.
    """

    def __init__(self, context: BlockContext, rows: Int64s) -> None:
        block = context.block
        self._occasion, self._rows = context, rows
        self._groups = EventGroups(block, rows)
        self._slots = np.empty(len(block.events), dtype=np.int64)
        self._slots[rows] = np.arange(len(rows))
        seconds = block.events["timestamp"][rows].astype(np.int64)
        sure = union_states(np.ones(len(seconds), dtype=np.bool_))
        fixed = [FORMAT_VERSION, connector_name(block.vendor), context.options.topic_prefix]
        gtids = self._groups.gtids()
        self._start = self._encoded(
            SameParts(b"".join(map(encoded_text, fixed))), Longs(seconds * 1000), SameParts(_SNAPSHOT)
        )
        self._times = self._encoded(Longs(seconds * 1_000_000, sure), Longs(seconds * 1_000_000_000, sure))
        self._place = self._encoded(
            Longs(block.events["server_id"][rows]),
            AvroTexts.of(gtids, pa.string(), union_states(gtids.is_valid().to_numpy(zero_copy_only=False))),
            AvroTexts.of(self._groups.file_names(), pa.string()),
            Longs(self._groups.file_offsets()),
        )
        self._session = self._encoded(self._threads(), self._queries())

    def source(self, database: str, table: str | None, events: Int64s, row_nos: Int32s) -> list[AvroPart]:
        """The fields of `source`.

        Args:
            database: Of the values' table; may be empty.
            table: Its name; None: none.
            events: Of each value its event.
            row_nos: Number of its row in the event.
        """
        slots = self._slots[events]
        return [
            Chosen(self._start, slots),
            SameParts(encoded_text(database) + VALUE_BRANCH + encoded_long(SEQUENCE_SIZE)),
            Sequences(self._occasion.block, events, row_nos),
            Chosen(self._times, slots),
            SameParts(NULL_BRANCH if table is None else VALUE_BRANCH + encoded_text(table)),
            Chosen(self._place, slots),
            Longs(row_nos),
            Chosen(self._session, slots),
        ]

    def transaction(self, events: Int64s, orders: Orders | None) -> list[AvroPart]:
        """The field `transaction`.

        Args:
            events: Of each value its event.
            orders: Of the values; None: they do not tell them.
        """
        if orders is None:
            return [SameParts(NULL_BRANCH)]
        ids = Chosen(self._transaction_ids, self._slots[events])
        return [SameParts(VALUE_BRANCH), ids, Longs(orders.total), Longs(orders.of_table)]

    @cached_property
    def _transaction_ids(self) -> Encoded:
        return self._encoded(AvroTexts.of(self._groups.transaction_ids(), pa.string()))

    def _encoded(self, *parts: AvroPart) -> Encoded:
        return Encoded.of(parts, len(self._rows))

    def _threads(self) -> AvroPart:
        threads = self._occasion.threads[self._groups.rows]
        return Longs(threads, union_states(threads >= 0))

    def _queries(self) -> AvroPart:
        queries = self._occasion.queries
        if queries is None:
            return SameParts(NULL_BRANCH)
        of_events, texts = queries
        encoded = Encoded.of([AvroTexts.of(texts, pa.string())], len(texts))
        return Chosen(encoded, of_events[self._rows].astype(np.int64), in_union=True)
