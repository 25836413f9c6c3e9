"""Kernels that put values as Avro has them (https://avro.apache.org/docs/1.12.0/specification/), at one cursor a row.

As in `json_kernels` sizes are computed first, from the same input, and a row is written part by part: each kernel puts
its value at the row's cursor and moves the cursor on. Of each value a state sets whether it is in a union with null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_connector.envelope.json.template_kernels import SEQUENCE_WIDTHS, put_event_no, put_position
from binlog_format.kernels import kernel
from binlog_format.writing_kernels import put_bytes, put_fixed

if TYPE_CHECKING:
    from binlog_format.block import Table
    from binlog_format.kernels import Bytes, Int32s, Int64s

PLAIN = 0
"""A value that is in no union."""
NULL = 1
"""The first branch of the union `["null", type]`: nothing comes after it."""
VALUE = 2
"""Its second branch."""

LONG_SIZE_MAX = 10
"""Bytes of the longest `long`: seven bits in each."""

_NULL_BRANCH = 0
_VALUE_BRANCH = 2  # 1, as all whole numbers are written
_U1, _SEVEN = np.uint64(1), np.uint64(7)
_MORE = np.uint64(0x80)
_LOW_BITS = np.uint64(0x7F)


@kernel
def _zigzag(value: int) -> np.uint64:
    # Numbers with small magnitudes become small, whatever their sign: 0, -1, 1, -2 are 0, 1, 2, 3.
    if value >= 0:
        return np.uint64(value) << _U1
    return (np.uint64(-(value + 1)) << _U1) | _U1


@kernel
def _long_size(value: int) -> int:
    rest, size = _zigzag(value) >> _SEVEN, 1
    while rest != np.uint64(0):
        rest >>= _SEVEN
        size += 1
    return size


@kernel
def put_long(out: Bytes, at: int, value: int) -> int:
    """Put a whole number, at most `LONG_SIZE_MAX` bytes; the place after it."""
    rest = _zigzag(value)
    while rest >= _MORE:
        out[at] = np.uint8((rest & _LOW_BITS) | _MORE)
        rest >>= _SEVEN
        at += 1
    out[at] = np.uint8(rest)
    return at + 1


@kernel
def add_long_sizes(values: Int64s, states: Bytes, sizes: Int64s) -> None:
    """Add the bytes of an `int` or a `long` to each of *sizes*."""
    for row in range(len(sizes)):
        size = 0 if states[row] == PLAIN else 1
        sizes[row] += size if states[row] == NULL else size + _long_size(values[row])


@kernel
def write_longs(out: Bytes, cursors: Int64s, values: Int64s, states: Bytes) -> None:
    """Write an `int` or a `long` for each row."""
    for row in range(len(cursors)):
        at = cursors[row]
        if states[row] != PLAIN:
            out[at] = _NULL_BRANCH if states[row] == NULL else _VALUE_BRANCH
            at += 1
        cursors[row] = at if states[row] == NULL else put_long(out, at, values[row])


@kernel
def add_text_sizes(text_sizes: Int64s, states: Bytes, sizes: Int64s) -> None:
    """Add the bytes of a `string` or of `bytes` to each of *sizes*."""
    for row in range(len(sizes)):
        size = 0 if states[row] == PLAIN else 1
        sizes[row] += size if states[row] == NULL else size + _long_size(text_sizes[row]) + text_sizes[row]


@kernel
def write_texts(
    out: Bytes, cursors: Int64s, data: Bytes, text_starts: Int64s, text_sizes: Int64s, states: Bytes
) -> None:
    """Write a `string` or `bytes` for each row."""
    for row in range(len(cursors)):
        at = cursors[row]
        if states[row] != PLAIN:
            out[at] = _NULL_BRANCH if states[row] == NULL else _VALUE_BRANCH
            at += 1
        if states[row] != NULL:
            at = put_long(out, at, text_sizes[row])
            at = put_bytes(out, at, data, text_starts[row], text_starts[row] + text_sizes[row])
        cursors[row] = at


@kernel
def add_fixed_sizes(width: int, states: Bytes, sizes: Int64s) -> None:
    """Add the bytes of values that all have *width* of them."""
    for row in range(len(sizes)):
        size = 0 if states[row] == PLAIN else 1
        sizes[row] += size if states[row] == NULL else size + width


@kernel
def write_fixed(out: Bytes, cursors: Int64s, data: Bytes, width: int, states: Bytes) -> None:
    """Write a `boolean`, a `float` or a `double` for each row: its bytes in memory."""
    for row in range(len(cursors)):
        at = cursors[row]
        if states[row] != PLAIN:
            out[at] = _NULL_BRANCH if states[row] == NULL else _VALUE_BRANCH
            at += 1
        cursors[row] = at if states[row] == NULL else put_bytes(out, at, data, row * width, (row + 1) * width)


@kernel
def add_chosen_sizes(offsets: Int64s, chosen: Int64s, in_union: bool, sizes: Int64s) -> None:
    """Add the bytes of what `write_chosen` writes."""
    for row in range(len(sizes)):
        number = chosen[row]
        size = offsets[number + 1] - offsets[number] if number >= 0 else 0
        sizes[row] += size + 1 if in_union else size


@kernel
def write_chosen(out: Bytes, cursors: Int64s, data: Bytes, offsets: Int64s, chosen: Int64s, in_union: bool) -> None:
    """Write for each row one of some values that are encoded already.

    Args:
        cursors: Where each row has come to; moved on.
        offsets: Where each begins, and the last one ends.
        chosen: Of each row its value; below 0: null, or nothing.
        in_union: Whether they are in a union with null.
    """
    for row in range(len(cursors)):
        at, number = cursors[row], chosen[row]
        if in_union:
            out[at] = _VALUE_BRANCH if number >= 0 else _NULL_BRANCH
            at += 1
        if number >= 0:
            at = put_bytes(out, at, data, offsets[number], offsets[number + 1])
        cursors[row] = at


@kernel
def write_sequences(
    out: Bytes, cursors: Int64s, events: Table, groups: Table, event_rows: Int64s, row_nos: Int32s, files_before: int
) -> None:
    """Write the total order of each row's change, as digits alone.

    Args:
        cursors: Where each row has come to; moved on.
        event_rows: Of each row its event.
        row_nos: Number of its row in the event.
        files_before: Added to the number of each group's file.
    """
    event_groups, event_nos = events["group"], events["event_no"]
    file_nos, pages, chunks = groups["file_no"], groups["page"], groups["chunk"]
    for row in range(len(cursors)):
        event = event_rows[row]
        group = event_groups[event]
        at = put_position(out, cursors[row], files_before + file_nos[group], pages[group], chunks[group])
        at = put_event_no(out, at, event_nos[event])
        cursors[row] = put_fixed(out, at, row_nos[row], SEQUENCE_WIDTHS[4])
