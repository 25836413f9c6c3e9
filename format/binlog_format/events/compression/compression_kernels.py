"""Kernels of the expansion of compressed events: `stored_form`, `locate_streams`, `write_heads`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.events.compression.compression_layout import (
    COMPRESSED_ALGORITHM_MASK,
    COMPRESSED_ALGORITHM_ZLIB,
    COMPRESSED_LENGTH_SIZE_MASK,
    COMPRESSED_LENGTH_SIZE_MAX,
    COMPRESSED_MARK,
    PACKED_1_BYTE_MAX,
    ZLIB_RATIO_MAX,
)
from binlog_format.events.event_table_kernels import query_text_start
from binlog_format.events.layout import (
    EVENT_HEADER_SIZE,
    EVENT_SIZE_MAX,
    EVENT_SIZE_OFFSET,
    EVENT_TYPE_OFFSET,
    EventType,
)
from binlog_format.events.query_layout import QUERY_FIXED_SIZE
from binlog_format.events.table_map_layout import COLUMN_COUNT_MAX, TABLE_BODY_OFFSET
from binlog_format.kernels import kernel
from binlog_format.memory_kernels import copy_bytes, load_u8, load_u16

if TYPE_CHECKING:
    from binlog_format.kernels import Bytes, Int64s

STREAM_FOUND = 0
STREAM_TOO_SHORT = 1
"""The event ends before its compressed part begins."""
STREAM_UNMARKED = 2
"""The bytes at the place of the compressed part are not a compressed stream."""
STREAM_ALGORITHM = 3
STREAM_LENGTH = 4
"""The uncompressed size has no bytes, too many, or is 0."""
STREAM_LIE = 5
"""Uncompressed, it would be larger than any event, or than a stream of this size can become."""

_QUERY = int(EventType.QUERY_COMPRESSED)
_UPDATE_V1 = int(EventType.UPDATE_ROWS_COMPRESSED_V1)
_UPDATE_V2 = int(EventType.UPDATE_ROWS_COMPRESSED)
_FIRST_V2 = int(EventType.WRITE_ROWS_COMPRESSED)


@kernel
def stored_form(types: Bytes, forms: Bytes) -> int:
    """The largest of the forms (`STORED_FORMS`) that *types* are of; 0: all are plain."""
    found = 0
    for i in range(len(types)):
        found = max(found, forms[types[i]])
    return found


@kernel
def _query_head_size(data: Bytes, start: int, size: int) -> int:
    if size < QUERY_FIXED_SIZE:
        return -1
    return query_text_start(data, start) - start


@kernel
def rows_head_size(data: Bytes, start: int, size: int, kind: int) -> int:
    """Bytes before the rows of a row event that is compressed, by its type *kind*; -1: it is too short for them."""
    at = TABLE_BODY_OFFSET
    if kind >= _FIRST_V2:
        if at + 2 > size:
            return -1
        extra = load_u16(data, start + at)
        if extra < 2:
            return -1
        at += extra
    if at + 1 > size:
        return -1
    columns = load_u8(data, start + at)
    if columns <= PACKED_1_BYTE_MAX:
        at += 1
    else:
        # No table has more columns than two bytes count.
        if columns != 252 or at + 3 > size:
            return -1
        columns = load_u16(data, start + at + 1)
        at += 3
    if columns > COLUMN_COUNT_MAX:
        return -1
    bitmap = (columns + 7) // 8
    return at + (2 * bitmap if kind == _UPDATE_V1 or kind == _UPDATE_V2 else bitmap)


@kernel
def locate_streams(
    data: Bytes,
    starts: Int64s,
    sizes: Int64s,
    types: Bytes,
    head_sizes: Int64s,
    plain_sizes: Int64s,
    stream_starts: Int64s,
) -> tuple[int, int]:
    """Find the compressed part of events that MariaDB has compressed.

    Args:
        starts: Byte of each event's header.
        sizes: Of each event, checksum not counted.
        types: Type codes of compressed events.
        head_sizes: Gets the bytes of each event that are not compressed.
        plain_sizes: Gets the size of each event when it is plain.
        stream_starts: Gets the byte in *data* where each zlib stream begins; it goes to the end of the event.

    Returns:
        Code (`STREAM_FOUND`, ...) and the number of the event that it is about.
    """
    for i in range(len(starts)):
        start, size, kind = int(starts[i]), int(sizes[i]), int(types[i])
        if start < 0 or size < EVENT_HEADER_SIZE or start + size > data.size:
            return STREAM_TOO_SHORT, i
        head = _query_head_size(data, start, size) if kind == _QUERY else rows_head_size(data, start, size, kind)
        if head < 0 or head + 1 > size:
            return STREAM_TOO_SHORT, i
        mark = load_u8(data, start + head)
        if mark & COMPRESSED_MARK == 0:
            return STREAM_UNMARKED, i
        if mark & COMPRESSED_ALGORITHM_MASK != COMPRESSED_ALGORITHM_ZLIB:
            return STREAM_ALGORITHM, i
        length_size = mark & COMPRESSED_LENGTH_SIZE_MASK
        if length_size < 1 or length_size > COMPRESSED_LENGTH_SIZE_MAX:
            return STREAM_LENGTH, i
        stream = head + 1 + length_size
        if stream > size:
            return STREAM_TOO_SHORT, i
        length = 0
        for j in range(start + head + 1, start + stream):
            length = length << 8 | load_u8(data, j)
        if length == 0:
            return STREAM_LENGTH, i
        if head + length > EVENT_SIZE_MAX or length > ZLIB_RATIO_MAX * (size - stream):
            return STREAM_LIE, i
        head_sizes[i] = head
        plain_sizes[i] = head + length
        stream_starts[i] = start + stream
    return STREAM_FOUND, 0


@kernel
def write_heads(
    data: Bytes,
    starts: Int64s,
    head_sizes: Int64s,
    plain_sizes: Int64s,
    plain_types: Bytes,
    target: Bytes,
    target_starts: Int64s,
) -> bool:
    """Copy what precedes the compressed part of each event; type and size become those of the plain event.

    Returns:
        False: something is outside of *data* or *target*; nothing after that has been written.
    """
    for i in range(len(starts)):
        start, head, to = starts[i], head_sizes[i], target_starts[i]
        if start < 0 or to < 0 or head < EVENT_HEADER_SIZE or start + head > data.size or to + head > target.size:
            return False
        copy_bytes(target, to, data, start, head)
        target[to + EVENT_TYPE_OFFSET] = plain_types[i]
        size = plain_sizes[i]
        for j in range(4):
            target[to + EVENT_SIZE_OFFSET + j] = (size >> (8 * j)) & 0xFF
    return True
