"""The changes of one table in a block as messages: `ChangeMessages`; planned first, written when all are ordered."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from binlog_connector.envelope.change_values import ChangeValues, DebeziumValues, FlatValues, MessageFields
from binlog_connector.envelope.message_kernels import DELETE, TOMBSTONE, different_texts
from binlog_connector.envelope.message_plan import MessagePlan
from binlog_connector.envelope.options import EnvelopeFormat
from binlog_format.views.columns import pair_images
from binlog_format.views.json_rows import JsonRows
from binlog_format.views.json_texts import JsonTexts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_connector.envelope.message_template import EventTexts
    from binlog_connector.envelope.options import EnvelopeOptions
    from binlog_connector.envelope.table_envelope import TableEnvelope
    from binlog_format.kernels import Bytes
    from binlog_format.rows.images import Images
    from binlog_format.views.columns import Pairs

    Int64s = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Orders:
    """Where values stand in their transaction, counted from 1.

    Attributes:
        total: Among all of it.
        of_table: Among those of the same table.
    """

    total: Int64s
    of_table: Int64s


class ChangeMessages:
    """The messages of one table's changes.

    Args:
        envelope: Of the table.
        images: Its images; both of an update.
        options: What messages look like.

    Attributes:
        plan: Which messages there are.
        keys: Texts of the keys, by image; None: the table has no key.
    """

    def __init__(self, envelope: TableEnvelope, images: Images, options: EnvelopeOptions) -> None:
        self.envelope = envelope
        self._images = images
        self._options = options
        pairs = pair_images(images)
        self.keys = None
        if options.format is EnvelopeFormat.FLAT:
            key = [envelope.column(images, index) for index in envelope.key]
        else:
            self._rows = envelope.row_columns(images)
            key = [self._rows[index] for index in envelope.key]
        if key:
            self.keys = JsonTexts.of_rows(JsonRows(key, len(images)), *envelope.key_wrapping)
        # A message without key and value says nothing.
        tombstones = options.tombstones and self.keys is not None
        self.plan = MessagePlan.of(pairs, self._changed_keys(pairs), tombstones=tombstones)
        self.events = pairs.events[self.plan.change]
        self.row_nos = pairs.row_nos[self.plan.change]

    def _changed_keys(self, pairs: Pairs) -> Bytes:
        changed = np.zeros(len(pairs), dtype=np.uint8)
        if self.keys is not None:
            different_texts(self.keys.data, self.keys.offsets, pairs.before, pairs.after, changed)
        return changed

    @cached_property
    def valued(self) -> Int64s:
        """The messages that have values: all but tombstones."""
        return np.flatnonzero(self.plan.op != TOMBSTONE)

    def values(self, texts: EventTexts, op_texts: JsonTexts, orders: Orders | None) -> ChangeValues:
        """The values of the messages that are `valued`.

        Args:
            texts: What comes after the rows, by event.
            op_texts: `op_texts`.
            orders: Of those messages; None: they do not say them.

        Raises:
            BinlogError: As `TableEnvelope.row_columns`.
        """
        plan, chosen = self.plan, self.valued
        events, ops = self.events[chosen], plan.op[chosen].astype(np.int64)
        total, of_table = (events, events) if orders is None else (orders.total, orders.of_table)
        fields = MessageFields(texts, events, self.row_nos[chosen], total, of_table, ops, op_texts)
        before, after = plan.before[chosen], plan.after[chosen]
        if self._options.format is EnvelopeFormat.FLAT:
            images = self._images.select(np.where(ops == DELETE, before, after))
            rows = JsonRows(self.envelope.row_columns(images), len(images))
            return FlatValues(rows, fields, self.envelope.value_wrapping)
        rows = JsonRows(self._rows, len(self._images))
        return DebeziumValues(rows, before, after, fields, self.envelope.value_wrapping)
