"""Values of change messages, sized first and written where they shall stand: `ChangeValues`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from binlog_connector.envelope.json.template_kernels import add_message_sizes, write_messages
from binlog_connector.envelope.message_kernels import image_pair_sizes, write_image_pairs
from binlog_format.kernels import as_bytes
from binlog_format.rows.json.json_kernels import write_same

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_connector.envelope.json.message_template import EventTexts
    from binlog_format.kernels import Bytes
    from binlog_format.rows.json.json_rows import JsonRows
    from binlog_format.views.json.json_texts import JsonTexts

    Int32s = NDArray[np.int32]
    Int64s = NDArray[np.int64]

_BEFORE, _AFTER = as_bytes(b'{"before":'), as_bytes(b',"after":')
_COMMA = as_bytes(b",")


@dataclass(frozen=True, slots=True)
class MessageFields:
    """Fields that are filled in for each value.

    Attributes:
        texts: Of the events.
        events: Of each value its event.
        row_nos: Number of its row in the event.
        total_orders: Its number in the transaction.
        table_orders: Its number there among those of the same table.
        ops: `CREATE`, `UPDATE` or `DELETE`.
        op_texts: What is written for them.
    """

    texts: EventTexts
    events: Int64s
    row_nos: Int32s
    total_orders: Int64s
    table_orders: Int64s
    ops: Int64s
    op_texts: JsonTexts

    def add_sizes(self, around: int, sizes: Int64s) -> None:
        """Add to each size the bytes that `write` writes; *around*: of the closing brace and the tail."""
        add_message_sizes(
            self.texts.message_fields,
            self.texts.segments,
            self.texts.slots,
            self.events,
            self.row_nos,
            self.total_orders,
            self.table_orders,
            self.ops,
            self.op_texts.offsets,
            around,
            sizes,
        )

    def write(self, out: Bytes, cursors: Int64s, tail: Bytes) -> None:
        """Write what comes after the row at each cursor, a closing brace, and *tail*; the cursors move on."""
        write_messages(
            out,
            cursors,
            self.texts.message_fields,
            self.texts.data,
            self.texts.segments,
            self.texts.slots,
            self.events,
            self.row_nos,
            self.total_orders,
            self.table_orders,
            self.ops,
            self.op_texts.data,
            self.op_texts.offsets,
            tail,
        )


class ChangeValues(Protocol):
    """Values that are written when it is known where.

    Attributes:
        sizes: Bytes of each.
    """

    sizes: Int64s

    def write(self, out: Bytes, starts: Int64s) -> None:
        """Write value i at `out[starts[i]:starts[i] + sizes[i]]`."""


class DebeziumValues:
    """Envelopes with the images before and after each change.

    Args:
        images: All images that occur.
        before: Of each value its image before, or `NO_IMAGE`.
        after: Its image after.
        fields: What comes after the images.
        wrapping: Before and after each value.
    """

    def __init__(
        self, images: JsonRows, before: Int64s, after: Int64s, fields: MessageFields, wrapping: tuple[Bytes, Bytes]
    ) -> None:
        self._images = images
        self._before, self._after = before, after
        self._fields = fields
        self._head, self._tail = np.concatenate([wrapping[0], _BEFORE]), wrapping[1]
        self.sizes: Int64s = np.empty(len(before), dtype=np.int64)
        image_pair_sizes(before, after, images.sizes, self._head.size + _AFTER.size + _COMMA.size, self.sizes)
        fields.add_sizes(1 + self._tail.size, self.sizes)

    def write(self, out: Bytes, starts: Int64s) -> None:
        """Write value i at `out[starts[i]:starts[i] + sizes[i]]`."""
        cursors = starts.copy()
        image_starts = np.empty(len(self._images.sizes), dtype=np.int64)
        write_image_pairs(out, cursors, self._head, _AFTER, self._before, self._after, self._images.sizes, image_starts)
        self._images.write(out, image_starts)
        self._fields.write(out, cursors, self._tail)
        assert np.array_equal(cursors, starts + self.sizes), "values were written with other sizes than computed"


class FlatValues:
    """Rows with their metadata.

    Args:
        rows: Of each value.
        fields: What comes after its columns.
        wrapping: Before and after each value.
    """

    def __init__(self, rows: JsonRows, fields: MessageFields, wrapping: tuple[Bytes, Bytes]) -> None:
        self._rows = rows
        self._fields = fields
        self._head, self._tail = wrapping
        self.sizes: Int64s = rows.sizes + self._head.size  # a comma takes the place of the row's closing brace
        fields.add_sizes(1 + self._tail.size, self.sizes)

    def write(self, out: Bytes, starts: Int64s) -> None:
        """Write value i at `out[starts[i]:starts[i] + sizes[i]]`."""
        cursors = starts.copy()
        write_same(out, cursors, self._head)
        self._rows.write(out, cursors)
        cursors += self._rows.sizes - 1
        write_same(out, cursors, _COMMA)
        self._fields.write(out, cursors, self._tail)
        assert np.array_equal(cursors, starts + self.sizes), "values were written with other sizes than computed"
