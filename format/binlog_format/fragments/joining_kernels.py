"""Kernels of the joining of fragments: `finish_joined`, `rows_end`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.block import FROM_FRAGMENTS, NOT_INNER
from binlog_format.events.compression.compression_kernels import rows_head_size
from binlog_format.events.compression.compression_layout import (
    COMPRESSED_ALGORITHM_ZLIB,
    COMPRESSED_LENGTH_SIZE_MASK,
    COMPRESSED_LENGTH_SIZE_MAX,
    COMPRESSED_MARK,
    ZLIB_HEADER_MULTIPLE,
    ZLIB_METHOD_DEFLATE,
    ZLIB_METHOD_MASK,
)
from binlog_format.events.layout import (
    EVENT_CHECKSUM_SIZE,
    EVENT_FLAGS_OFFSET,
    EVENT_SERVER_ID_OFFSET,
    EVENT_SIZE_OFFSET,
    EVENT_TYPE_OFFSET,
    EventType,
)
from binlog_format.fragments.layout import ORIGINAL_SIZE_MIN
from binlog_format.kernels import kernel
from binlog_format.memory_kernels import load_u8, load_u16, load_u32
from binlog_format.rows.partial_image_kernels import image_end
from binlog_format.rows.row_event_kernels import DELETE, OK, WRITE

if TYPE_CHECKING:
    from binlog_format.block import Table
    from binlog_format.kernels import Bytes, Int32s, Int64s

FINISHED = 0
NOT_ROWS = 1
"""The joined fragments are not a row event."""
OTHER_SIZE = 2
"""The header of the original event contains another size."""

_FIRST_COMPRESSED = int(EventType.WRITE_ROWS_COMPRESSED_V1)
_LAST_COMPRESSED = int(EventType.DELETE_ROWS_COMPRESSED_V1)
_UINT32 = 0xFFFF_FFFF


@kernel
def _are_compressed(data: Bytes, start: int, size: int, kind: int) -> bool:
    # Whether the rows of an event of a compressed type are so: the mark, a length, and a zlib stream after them.
    head = rows_head_size(data, start, size, kind)
    if head < 0 or head + 1 > size:
        return False
    mark = load_u8(data, start + head)
    length_size = mark & COMPRESSED_LENGTH_SIZE_MASK
    if mark != COMPRESSED_MARK | COMPRESSED_ALGORITHM_ZLIB | length_size or length_size == 0:
        return False
    if length_size > COMPRESSED_LENGTH_SIZE_MAX or head + length_size + 3 > size:
        return False
    first, second = load_u8(data, start + head + length_size + 1), load_u8(data, start + head + length_size + 2)
    return first & ZLIB_METHOD_MASK == ZLIB_METHOD_DEFLATE and (first << 8 | second) % ZLIB_HEADER_MULTIPLE == 0


@kernel
def original_type(data: Bytes, start: int, size: int, plain_types: Bytes) -> int:
    """The type that an original event is to have: compressed only where its rows are.

    Args:
        size: Bytes of it that are there.
        plain_types: `PLAIN_TYPES`.

    Returns:
        The type; 0 when it is no row event of a kind that MariaDB writes (version 1).
    """
    if size < ORIGINAL_SIZE_MIN or start + size > data.size:
        return 0
    kind = int(data[start + EVENT_TYPE_OFFSET])
    if WRITE <= kind <= DELETE:
        return kind
    if kind < _FIRST_COMPRESSED or kind > _LAST_COMPRESSED:
        return 0
    return kind if _are_compressed(data, start, size, kind) else int(plain_types[kind])


@kernel
def has_size(data: Bytes, start: int, size: int) -> bool:
    """True if the header at *start* has this *size* (low 32 bits only), with or without a checksum."""
    stored = load_u32(data, start + EVENT_SIZE_OFFSET)
    return stored == size & _UINT32 or stored == (size + EVENT_CHECKSUM_SIZE) & _UINT32


@kernel
def finish_joined(data: Bytes, events: Table, rows: Int64s, plain_types: Bytes, inner_nos: Int64s) -> tuple[int, int]:
    """Give events that were joined from fragments the header of a whole event, and their rows in the event table.

    Args:
        data: What the events are in; type and size in their headers are set.
        events: `EVENT_DTYPE`: start and size are there, what a header tells is filled in.
        plain_types: `PLAIN_TYPES`.
        inner_nos: Column of `ORIGIN_DTYPE`, for all *events*.

    Returns:
        Code (`FINISHED`, ...) and the row of *events* that it is about.
    """
    starts, sizes, types = events["start"], events["size"], events["type"]
    flags, timestamps, server_ids = events["flags"], events["timestamp"], events["server_id"]
    for i in range(len(rows)):
        row = rows[i]
        start, size = int(starts[row]), int(sizes[row])
        kind = original_type(data, start, size, plain_types)
        if kind == 0:
            return NOT_ROWS, row
        if not has_size(data, start, size):
            return OTHER_SIZE, row
        data[start + EVENT_TYPE_OFFSET] = kind
        for k in range(4):
            data[start + EVENT_SIZE_OFFSET + k] = (size >> (8 * k)) & 0xFF
        types[row] = kind
        flags[row] = load_u16(data, start + EVENT_FLAGS_OFFSET)
        timestamps[row] = load_u32(data, start)
        server_ids[row] = load_u32(data, start + EVENT_SERVER_ID_OFFSET)
        inner_nos[row] = NOT_INNER if kind >= _FIRST_COMPRESSED else FROM_FRAGMENTS
    return FINISHED, 0


@kernel
def rows_end(data: Bytes, present: Int32s, before: int, after: int, widths: Int32s) -> int:
    """The byte after the last whole row of *data*, which begins with a row; -1: a row takes no bytes.

    Args:
        data: Rows, the last one perhaps in part.
        present: Shape (2, column count): the columns of the images before and after.
        before: Columns of the (first) image of a row.
        after: Columns of the second one; -1: there is none.
        widths: Of `value_widths`.
    """
    place = 0
    while place < data.size:
        end, code = image_end(data, place, data.size, present[0], before, widths)
        if code == OK and after >= 0:
            end, code = image_end(data, end, data.size, present[1], after, widths)
        if code != OK:
            break
        if end == place:
            return -1
        place = end
    return place
