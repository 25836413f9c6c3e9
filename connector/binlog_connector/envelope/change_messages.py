"""The changes of one table in a block as messages: `ChangeMessages`; planned first, written when all are ordered.

The messages of a table's changes: `MessagePlan`.

A delete is followed by a tombstone. A change of the key is a delete of the old row, its tombstone, and the creation
of the new one: whoever keeps the last value of each key would else keep the old row for ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from binlog_connector.envelope.encoding import ValueRows
from binlog_connector.envelope.message_kernels import NO_IMAGE, TOMBSTONE, different_texts, plan_messages
from binlog_format.kernels import empty_bytes
from binlog_format.views.columns import pair_images

if TYPE_CHECKING:
    from binlog_connector.envelope.encoding import ChangeEncoder, Orders
    from binlog_connector.envelope.json.change_values import ChangeValues
    from binlog_connector.envelope.message_context import TableEnvelope
    from binlog_format.kernels import Bytes, Int64s
    from binlog_format.rows.images import Images
    from binlog_format.views.columns import Pairs


@dataclass(frozen=True, slots=True)
class MessagePlan:
    """The messages of some changes, in order; images by their number in `Images`, or `NO_IMAGE`.

    Attributes:
        change: Of each message the number of its change.
        op: `message_kernels.CREATE`, `UPDATE`, `DELETE` or `TOMBSTONE`.
        before: The image before the change, where the value has one.
        after: The image after it, where the value has one.
        key: The image that has the key.
        old_key: Of the creation after a change of the key: the image with the key before it; None: no key changes.
        new_key: Of the delete for a change of the key, and of its tombstone: the image with the key after it; None:
            no key changes.
    """

    change: Int64s
    op: Bytes
    before: Int64s
    after: Int64s
    key: Int64s
    old_key: Int64s | None
    new_key: Int64s | None

    @classmethod
    def of(cls, pairs: Pairs, key_changed: Bytes, *, tombstones: bool) -> MessagePlan:
        """The messages of *pairs*.

        Args:
            key_changed: 1 for the changes, updates all, that change the key.
            tombstones: Whether a delete is followed by one.
        """
        room = 3 * len(pairs)
        op = empty_bytes(room)
        moves = bool(key_changed.any())
        numbers = np.empty((4, room), dtype=np.int64)
        other_keys = np.full((2, room if moves else 0), NO_IMAGE, dtype=np.int64)
        count = plan_messages(pairs.before, pairs.after, key_changed, tombstones, op, numbers, other_keys)
        change, before, after, key = numbers[:, :count]
        old_key, new_key = other_keys[:, :count] if moves else (None, None)
        return cls(change, op[:count], before, after, key, old_key, new_key)


class ChangeMessages:
    """The messages of one table's changes.

    Args:
        images: Images of the table; both of an update.
        tombstones: Whether a delete is followed by one, where the table has a key.

    Attributes:
        keys: Of all images; None: the table has no key.
    """

    def __init__(self, envelope: TableEnvelope, images: Images, encoder: ChangeEncoder, *, tombstones: bool) -> None:
        self.envelope = envelope
        self._encoder = encoder
        pairs = pair_images(images)
        self.keys = encoder.keys
        # A message without key and value says nothing.
        self.plan = MessagePlan.of(pairs, self._changed_keys(pairs), tombstones=tombstones and self.keys is not None)
        self.events = pairs.events.take(self.plan.change)
        self.row_nos = pairs.row_nos.take(self.plan.change)

    def _changed_keys(self, pairs: Pairs) -> Bytes:
        changed = np.zeros(len(pairs), dtype=np.uint8)
        if self.keys is not None:
            different_texts(self.keys.data, self.keys.offsets, pairs.before, pairs.after, changed)
        return changed

    @cached_property
    def valued(self) -> Int64s:
        """The messages that have values: all but tombstones."""
        return np.flatnonzero(self.plan.op != TOMBSTONE)

    def values(self, orders: Orders | None) -> ChangeValues:
        """The values of the messages that are `valued`. *orders*: of those messages; None: they do not tell them."""
        plan, chosen = self.plan, self.valued
        rows = ValueRows(
            self.events.take(chosen),
            self.row_nos.take(chosen),
            plan.op.take(chosen).astype(np.int64),
            plan.before.take(chosen),
            plan.after.take(chosen),
            orders,
        )
        return self._encoder.values(rows)
