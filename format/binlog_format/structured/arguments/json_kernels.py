"""The loops of `json_texts`: `write_arguments` of events without floats, `insert_floats`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.kernels import kernel
from binlog_format.memory_kernels import copy_bytes
from binlog_format.structured.arguments.json_value_kernels import (
    CLOSE_LIST,
    NO_NODE,
    OPEN_LIST,
    members_left,
    push_members,
    write_value,
)
from binlog_format.structured.arguments.value_kernels import GROW, OK, OUTSIDE
from binlog_format.structured.layout import ARGUMENTS_OFFSET, ENTRY_HEAD_SIZE, EVENT_SIZE_MIN
from binlog_format.writing_kernels import put_bytes

if TYPE_CHECKING:
    from binlog_format.block import Table
    from binlog_format.kernels import Bytes, Int32s, Int64s
    from binlog_format.structured.arguments.json_value_kernels import JsonTypes


@kernel
def _write_event(
    types: JsonTypes,
    source: int,
    data: Bytes,
    place: int,
    end: int,
    out: Bytes,
    at: int,
    floats: Table,
    float_count: int,
    stack: Int64s,
    failure: Table,
) -> tuple[int, int, int]:
    # Code, the byte after the text, the number of floats then.
    if at >= out.size:
        return GROW, at, float_count
    out[at] = OPEN_LIST
    first = types.first_argument[source]
    count = types.first_argument[source + 1] - first
    push_members(stack, 0, CLOSE_LIST, first, 1, count)
    code, _, at, float_count = write_value(
        types, NO_NODE, 1, -1, data, place, end, out, at + 1, floats, float_count, stack, failure
    )
    failure["argument"][0] = count - 1 - members_left(stack)
    return code, at, float_count


@kernel
def write_arguments(
    types: JsonTypes,
    data: Bytes,
    events: Table,
    rows: Int64s,
    first: int,
    out: Bytes,
    out_offsets: Int64s,
    floats: Table,
    float_count: int,
    stack: Int64s,
    failure: Table,
) -> tuple[int, int, int]:
    """Write all arguments of events as JSON arrays, one after the other, without the floats in them.

    Args:
        types: Of all sources that the events name.
        data: What *events* points into.
        first: Index in *rows* to start at.
        out: Room for the texts.
        out_offsets: Gets the start of each text, and the end of the last; filled up to *first*.
        floats: As in `write_value`, and so are *float_count*, *stack* and *failure*.
        float_count: How many of them there are already.
        stack: Scratch.
        failure: One row.

    Returns:
        A code; the index in *rows* that it is about; the number of floats then. After `GROW` call again from there
        with more room.
    """
    starts, sizes, sources = events["start"], events["size"], events["source"]
    for i in range(first, rows.size):
        row = rows[i]
        failure["row"][0] = row
        place, end = starts[row] + ARGUMENTS_OFFSET, starts[row] + ENTRY_HEAD_SIZE + sizes[row]
        if starts[row] < 0 or sizes[row] < EVENT_SIZE_MIN or end > data.size:
            return OUTSIDE, i, float_count
        code, at, count = _write_event(
            types, sources[row], data, place, end, out, out_offsets[i], floats, float_count, stack, failure
        )
        if code != OK:
            return code, i, float_count
        out_offsets[i + 1] = at
        float_count = count
    return OK, rows.size, float_count


@kernel
def insert_floats(
    source: Bytes, floats: Table, texts: Bytes, text_offsets: Int32s, offsets: Int64s, out: Bytes
) -> None:
    """Put the texts of floats to where `write_value` has left them out, and move the starts of the texts.

    Args:
        source: What it has written.
        floats: What it has noted, no more.
        texts: Of the floats, one after the other.
        text_offsets: Where each starts, and the end of the last.
        offsets: Where the texts in *source* start, and the end of the last; gets those in *out*. No float is at the
            start of a text, nor at its end.
        out: Room for all.
    """
    places = floats["at"]
    number = 0
    read = 0
    at = 0
    for i in range(offsets.size):
        while number < places.size and places[number] < offsets[i]:
            copy_bytes(out, at, source, read, places[number] - read)
            at += places[number] - read
            read = places[number]
            at = put_bytes(out, at, texts, text_offsets[number], text_offsets[number + 1])
            number += 1
        copy_bytes(out, at, source, read, offsets[i] - read)
        at += offsets[i] - read
        read = offsets[i]
        offsets[i] = at
