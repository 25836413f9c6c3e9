"""Values of change messages, sized first and written where they shall stand: `ChangeValues`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from binlog_connector.envelope.json.template_kernels import add_message_sizes, write_messages
from binlog_connector.envelope.message_kernels import copy_texts, image_pair_sizes, write_image_pairs
from binlog_format.kernels import as_bytes
from binlog_format.rows.json.json_kernels import have_sizes, write_same

if TYPE_CHECKING:
    from binlog_connector.envelope.encoding import Texts
    from binlog_connector.envelope.json.template_kernels import MessageFields
    from binlog_format.kernels import Bytes, Int64s
    from binlog_format.rows.json.json_rows import JsonRows

_BEFORE, _AFTER = as_bytes(b'{"before":'), as_bytes(b',"after":')
_COMMA, _BRACE, _DATA = as_bytes(b","), as_bytes(b"}"), as_bytes(b',"data":')


class ChangeValues(Protocol):
    """Values that are written when it is known where.

    Attributes:
        sizes: Bytes of each.
        attributes: What the headers of each tell about it, objects of JSON; None: they tell nothing.
    """

    sizes: Int64s
    attributes: ChangeValues | None

    def write(self, out: Bytes, starts: Int64s) -> None:
        """Write value i at `out[starts[i]:starts[i] + sizes[i]]`."""


class TextValues:
    """Values that are texts already. *texts*: one for each value. *attributes*: see `ChangeValues`."""

    def __init__(self, texts: Texts, attributes: ChangeValues | None = None) -> None:
        self._texts, self.attributes = texts, attributes
        self.sizes: Int64s = texts.sizes

    def write(self, out: Bytes, starts: Int64s) -> None:
        """Write value i at `out[starts[i]:starts[i] + sizes[i]]`."""
        copy_texts(out, starts, self._texts.data, self._texts.offsets, np.arange(len(starts), dtype=np.int64))


class AttributeValues:
    """Attributes of CloudEvents, each event's by themselves."""

    attributes: ChangeValues | None = None

    def __init__(self, fields: MessageFields) -> None:
        self._fields = fields
        self.sizes: Int64s = np.zeros(len(fields.events), dtype=np.int64)
        add_message_sizes(fields, _BRACE.size, self.sizes)

    def write(self, out: Bytes, starts: Int64s) -> None:
        """Write value i at `out[starts[i]:starts[i] + sizes[i]]`."""
        write_messages(self._fields, out, starts.copy(), _BRACE)


class DebeziumValues:
    """Envelopes with the images before and after each change; as data of CloudEvents, if these have attributes.

    Args:
        before: Of each value its image before, or `NO_IMAGE`.
        fields: What comes after the images; None: nothing.
        wrapping: Before and after each value.
        event: Attributes of the event that all of that is the data of; None: it is none.
        attributes: See `ChangeValues`.
    """

    def __init__(
        self,
        images: JsonRows,
        before: Int64s,
        after: Int64s,
        fields: MessageFields | None,
        wrapping: tuple[Bytes, Bytes],
        event: MessageFields | None = None,
        attributes: ChangeValues | None = None,
    ) -> None:
        self._images = images
        self._before, self._after = before, after
        self._event, self._fields, self.attributes = event, fields, attributes
        ends = [_BRACE, wrapping[1]] if event is None else [_BRACE, wrapping[1], _BRACE]
        self._head, self._tail = np.concatenate([wrapping[0], _BEFORE]), np.concatenate(ends)
        self.sizes: Int64s = np.empty(len(before), dtype=np.int64)
        image_pair_sizes(before, after, images.sizes, self._head.size + _AFTER.size + _COMMA.size, self.sizes)
        if event is not None:
            add_message_sizes(event, _DATA.size, self.sizes)
        if fields is not None:
            add_message_sizes(fields, self._tail.size, self.sizes)
        else:
            self.sizes += self._tail.size - _COMMA.size

    def write(self, out: Bytes, starts: Int64s) -> None:
        """Write value i at `out[starts[i]:starts[i] + sizes[i]]`."""
        cursors = starts.copy()
        if self._event is not None:
            write_messages(self._event, out, cursors, _DATA)
        image_starts = np.empty(len(self._images.sizes), dtype=np.int64)
        write_image_pairs(out, cursors, self._head, _AFTER, self._before, self._after, self._images.sizes, image_starts)
        self._images.write(out, image_starts)
        if self._fields is not None:
            write_messages(self._fields, out, cursors, self._tail)
        else:
            cursors -= _COMMA.size
            write_same(out, cursors, self._tail)
        assert have_sizes(starts, cursors, self.sizes), "values were written with other sizes than computed"


class FlatValues:
    """Rows with their metadata. *wrapping*: before and after each value."""

    attributes: ChangeValues | None = None

    def __init__(self, rows: JsonRows, fields: MessageFields, wrapping: tuple[Bytes, Bytes]) -> None:
        self._rows = rows
        self._fields = fields
        self._head, self._tail = wrapping[0], np.concatenate([_BRACE, wrapping[1]])
        self.sizes: Int64s = rows.sizes + self._head.size  # a comma takes the place of the row's closing brace
        add_message_sizes(fields, self._tail.size, self.sizes)

    def write(self, out: Bytes, starts: Int64s) -> None:
        """Write value i at `out[starts[i]:starts[i] + sizes[i]]`."""
        cursors = starts.copy()
        write_same(out, cursors, self._head)
        self._rows.write(out, cursors)
        cursors += self._rows.sizes - 1
        write_same(out, cursors, _COMMA)
        write_messages(self._fields, out, cursors, self._tail)
        assert have_sizes(starts, cursors, self.sizes), "values were written with other sizes than computed"
