"""Parts of Avro records: each is the same field of all rows; `Encoded.of` writes them.

A record has no frame in Avro: it is its fields, one after the other. So records in records are parts as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from binlog_connector.envelope.avro import avro_kernels as kernels
from binlog_connector.envelope.json.template_kernels import SEQUENCE_WIDTHS
from binlog_format.kernels import as_bytes, empty_bytes, offsets_of
from binlog_format.rows.json.json_kernels import write_same
from binlog_format.rows.json.json_rows import text_buffers

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from binlog_connector.envelope.json.change_values import ChangeValues
    from binlog_connector.envelope.message_context import BlockContext
    from binlog_format.kernels import Bytes, Int32s, Int64s, Mask

NULL_BRANCH, VALUE_BRANCH = b"\x00", b"\x02"
"""Branches of a union `["null", type]`; with a default other than null the union is `[type, "null"]`, and they change
places."""


class AvroPart(Protocol):
    """The same field of some rows."""

    def add_sizes(self, sizes: Int64s) -> None:
        """Add the bytes of each row's value."""

    def write(self, out: Bytes, cursors: Int64s) -> None:
        """Write each row's value at its cursor, and move the cursor on."""


def plain_states(count: int) -> Bytes:
    """States of values that are in no union."""
    return np.zeros(count, dtype=np.uint8)


def union_states(present: Mask) -> Bytes:
    """States of values in a union with null."""
    return np.where(present, np.uint8(kernels.VALUE), np.uint8(kernels.NULL))


class SameParts:
    """Bytes that all rows have."""

    def __init__(self, content: bytes) -> None:
        self._content = as_bytes(content)

    def add_sizes(self, sizes: Int64s) -> None:
        """See `AvroPart`."""
        sizes += self._content.size

    def write(self, out: Bytes, cursors: Int64s) -> None:
        """See `AvroPart`."""
        write_same(out, cursors, self._content)


class Longs:
    """Whole numbers, as `int` or `long`. *states*: of `avro_kernels`; None: they are in no union."""

    def __init__(self, values: NDArray[Any], states: Bytes | None = None) -> None:
        self._values = np.array(values, dtype=np.int64)  # a copy: kernels take no read-only arrays
        self._states = plain_states(len(values)) if states is None else states

    def add_sizes(self, sizes: Int64s) -> None:
        """See `AvroPart`."""
        kernels.add_long_sizes(self._values, self._states, sizes)

    def write(self, out: Bytes, cursors: Int64s) -> None:
        """See `AvroPart`."""
        kernels.write_longs(out, cursors, self._values, self._states)


class AvroTexts:
    """AvroTexts, as `string`, or `bytes`.

    Args:
        sizes: Bytes of each.
        states: Of `avro_kernels`; None: they are in no union.
    """

    def __init__(self, data: Bytes, starts: Int64s, sizes: Int64s, states: Bytes | None = None) -> None:
        self._data, self._starts, self._sizes = data, starts, sizes
        self._states = plain_states(len(sizes)) if states is None else states

    @classmethod
    def of(cls, values: pa.Array, kind: pa.DataType, states: Bytes | None = None) -> AvroTexts:
        """Texts of an array, read as *kind* (`string` or `binary`)."""
        data, offsets = text_buffers(values, kind)
        wide = offsets.astype(np.int64)
        return cls(data, wide[:-1], np.diff(wide), states)

    def add_sizes(self, sizes: Int64s) -> None:
        """See `AvroPart`."""
        kernels.add_text_sizes(self._sizes, self._states, sizes)

    def write(self, out: Bytes, cursors: Int64s) -> None:
        """See `AvroPart`."""
        kernels.write_texts(out, cursors, self._data, self._starts, self._sizes, self._states)


class Fixed:
    """Values that all have the same number of bytes: `boolean`, `float`, `double`.

    Args:
        values: What Avro has is what is in memory: the low byte first.
        states: Of `avro_kernels`.
    """

    def __init__(self, values: NDArray[Any], states: Bytes) -> None:
        self._data = np.array(values).view(np.uint8)
        self._width = values.itemsize
        self._states = states

    def add_sizes(self, sizes: Int64s) -> None:
        """See `AvroPart`."""
        kernels.add_fixed_sizes(self._width, self._states, sizes)

    def write(self, out: Bytes, cursors: Int64s) -> None:
        """See `AvroPart`."""
        kernels.write_fixed(out, cursors, self._data, self._width, self._states)


@dataclass(frozen=True, slots=True)
class Encoded:
    """Values, or runs of fields, that are encoded. *offsets*: where each begins, and the last one ends."""

    data: Bytes
    offsets: Int64s

    @property
    def sizes(self) -> Int64s:
        """Bytes of each."""
        sizes: Int64s = np.diff(self.offsets)
        return sizes

    @classmethod
    def of(cls, parts: Sequence[AvroPart], count: int) -> Encoded:
        """Join *parts*, of *count* rows each, one after the other."""
        sizes = np.zeros(count, dtype=np.int64)
        for part in parts:
            part.add_sizes(sizes)
        offsets = offsets_of(sizes)
        out = empty_bytes(int(offsets[-1]))
        _write(parts, out, offsets[:-1], sizes)
        return cls(out, offsets)


class Chosen:
    """One of several encoded values for each row.

    Args:
        chosen: Of each row its value; below 0: null in a union, else nothing.
        in_union: Whether they are in a union with null.
    """

    def __init__(self, values: Encoded, chosen: Int64s, *, in_union: bool = False) -> None:
        self._values, self._chosen, self._in_union = values, chosen, in_union

    def add_sizes(self, sizes: Int64s) -> None:
        """See `AvroPart`."""
        kernels.add_chosen_sizes(self._values.offsets, self._chosen, self._in_union, sizes)

    def write(self, out: Bytes, cursors: Int64s) -> None:
        """See `AvroPart`."""
        kernels.write_chosen(out, cursors, self._values.data, self._values.offsets, self._chosen, self._in_union)


class Sequences:
    """The total order of changes, as a run of digits: `SEQUENCE_SIZE` bytes, the length of which comes before it.

    Args:
        events: Of each row its event.
        row_nos: Number of its row in the event.
    """

    def __init__(self, context: BlockContext, events: Int64s, row_nos: Int32s) -> None:
        self._context, self._events, self._row_nos = context, events, row_nos

    def add_sizes(self, sizes: Int64s) -> None:
        """See `AvroPart`."""
        sizes += SEQUENCE_SIZE

    def write(self, out: Bytes, cursors: Int64s) -> None:
        """See `AvroPart`."""
        block, files_before = self._context.block, self._context.options.files_before
        kernels.write_sequences(out, cursors, block.events, block.groups, self._events, self._row_nos, files_before)


SEQUENCE_SIZE = sum(SEQUENCE_WIDTHS) + len(SEQUENCE_WIDTHS) - 1  # and the dots


class PartValues:
    """Values of messages; see `ChangeValues`."""

    attributes: ChangeValues | None = None

    def __init__(self, parts: Sequence[AvroPart], count: int) -> None:
        self._parts = parts
        self.sizes: Int64s = np.zeros(count, dtype=np.int64)
        for part in parts:
            part.add_sizes(self.sizes)

    def write(self, out: Bytes, starts: Int64s) -> None:
        """Write value i at `out[starts[i]:starts[i] + sizes[i]]`."""
        _write(self._parts, out, starts, self.sizes)


def _write(parts: Sequence[AvroPart], out: Bytes, starts: Int64s, sizes: Int64s) -> None:
    cursors = starts.copy()
    for part in parts:
        part.write(out, cursors)
    assert np.array_equal(cursors, starts + sizes), "values were written with other sizes than computed"


def array_parts(counts: Int64s, items: Encoded) -> list[AvroPart]:
    """Arrays: one block of items, and the block without items that ends an array.

    Args:
        counts: Items of each array.
        items: All items of each array, as one run.
    """
    rows = np.arange(len(counts), dtype=np.int64)
    with_items = np.where(counts > 0, rows, -1)
    sizes = Encoded.of([Longs(counts)], len(counts))
    end = Encoded(as_bytes(b"\x00"), np.array([0, 1], dtype=np.int64))
    return [Chosen(sizes, with_items), Chosen(items, with_items), Chosen(end, np.zeros_like(rows))]


def encoded_long(value: int) -> bytes:
    """A whole number, as `int` or `long`."""
    out = empty_bytes(kernels.LONG_SIZE_MAX)
    return out[: kernels.put_long(out, 0, value)].tobytes()


def encoded_text(content: str) -> bytes:
    """A text, as `string`."""
    data = content.encode()
    return encoded_long(len(data)) + data
