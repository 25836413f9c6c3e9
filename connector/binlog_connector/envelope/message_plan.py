"""The messages of a table's changes: `MessagePlan`.

A delete is followed by a tombstone. A change of the key is a delete of the old row, its tombstone, and the creation
of the new one: whoever keeps the last value of each key would else keep the old row for ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from binlog_connector.envelope.message_kernels import plan_messages
from binlog_format.kernels import empty_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_format.kernels import Bytes
    from binlog_format.views.columns import Pairs

    Int64s = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class MessagePlan:
    """The messages of some changes, in order; images by their number in `Images`, or `NO_IMAGE`.

    Attributes:
        change: Of each message the number of its change.
        op: `message_kernels.CREATE`, `UPDATE`, `DELETE` or `TOMBSTONE`.
        before: The image before the change, where the value has one.
        after: The image after it, where the value has one.
        key: The image that has the key.
        old_key: Of the creation after a change of the key: the image with the key before it.
        new_key: Of the delete for a change of the key: the image with the key after it.
    """

    change: Int64s
    op: Bytes
    before: Int64s
    after: Int64s
    key: Int64s
    old_key: Int64s
    new_key: Int64s

    @classmethod
    def of(cls, pairs: Pairs, key_changed: Bytes, *, tombstones: bool) -> MessagePlan:
        """The messages of *pairs*.

        Args:
            pairs: The changes.
            key_changed: 1 for those of them, updates all, that change the key.
            tombstones: Whether a delete is followed by one.
        """
        room = 3 * len(pairs)
        op = empty_bytes(room)
        numbers = np.empty((6, room), dtype=np.int64)
        count = plan_messages(pairs.before, pairs.after, key_changed, tombstones, op, numbers)
        return cls(numbers[0, :count], op[:count], *numbers[1:, :count])
