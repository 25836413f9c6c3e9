"""Kernels of the expansion of MySQL's compressed transactions: `locate_payloads`, `cut_inner_events`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.events.compression.compression_layout import (
    PACKED_1_BYTE_MAX,
    PACKED_2_BYTES,
    PACKED_3_BYTES,
    PACKED_8_BYTES,
    PAYLOAD_COMPRESSION_NONE,
    PAYLOAD_COMPRESSION_ZSTD,
    PAYLOAD_FIELD_COMPRESSION,
    PAYLOAD_FIELD_END,
    PAYLOAD_FIELD_PLAIN_SIZE,
    PAYLOAD_FIELD_SIZE,
    ZSTD_BLOCK_HEADER_SIZE,
    ZSTD_BLOCK_LAST,
    ZSTD_BLOCK_PLAIN_SIZE_MAX,
    ZSTD_BLOCK_RESERVED,
    ZSTD_BLOCK_RLE,
    ZSTD_BLOCK_SIZE_SHIFT,
    ZSTD_BLOCK_TYPE_MASK,
    ZSTD_BLOCK_TYPE_SHIFT,
    ZSTD_CHECKSUM,
    ZSTD_CHECKSUM_SIZE,
    ZSTD_CONTENT_SIZE_2_BYTES_FROM,
    ZSTD_CONTENT_SIZE_SHIFT,
    ZSTD_CONTENT_SIZE_SIZES,
    ZSTD_DICTIONARY_MASK,
    ZSTD_MAGIC,
    ZSTD_MAGIC_SIZE,
    ZSTD_RESERVED,
    ZSTD_SINGLE_SEGMENT,
)
from binlog_format.events.layout import (
    EVENT_FLAGS_OFFSET,
    EVENT_HEADER_SIZE,
    EVENT_SERVER_ID_OFFSET,
    EVENT_SIZE_MAX,
    EVENT_SIZE_OFFSET,
    EVENT_TYPE_OFFSET,
)
from binlog_format.kernels import kernel
from binlog_format.memory_kernels import load_u8, load_u16, load_u32

if TYPE_CHECKING:
    from binlog_format.block import Table
    from binlog_format.kernels import Bytes, Int64s

PAYLOAD_FOUND = 0
PAYLOAD_CUT_OFF = 1
"""The event ends within its fields."""
PAYLOAD_BAD_NUMBER = 2
"""A packed integer is invalid, or its size is not the size of its field."""
PAYLOAD_MANY_FIELDS = 3
PAYLOAD_BAD_SIZE = 4
"""The payload is not of the size that the event claims."""
PAYLOAD_ALGORITHM = 5
PAYLOAD_BAD_FRAME = 6
"""The head of a zstd frame, or of a block in it, is not one."""
PAYLOAD_CUT_FRAME = 7
PAYLOAD_LIE = 8
"""The inner events cannot be as many bytes as the event claims."""

CUT_DONE = 0
CUT_OFF = 1
"""The last event goes on beyond the end; it has not been taken."""
CUT_TABLE_FULL = 2
CUT_BAD_SIZE = 3
CUT_NOT_PLAIN = 4
"""An event that does not stand inside another one."""

FIELDS_MAX = 64
"""More fields than any version has; a list of them that goes on and on is damage."""
NUMBER_MAX = 1 << 62

# Columns of what `locate_payloads` finds.
CONTENT_START = 0  # byte where the compressed bytes begin
COMPRESSION = 1
PLAIN_SIZE = 2  # bytes of the inner events, claimed
PLAIN_SIZE_MAX = 3  # that are possible
IS_SIMPLE = 4  # 1: one zstd frame, which itself records that its content is `PLAIN_SIZE` bytes
FOUND_FIELDS = 5


@kernel
def _packed(data: Bytes, at: int, end: int) -> tuple[int, int]:
    # A packed integer and the byte after it; that is -1 where none stands.
    if at >= end:
        return 0, -1
    first = load_u8(data, at)
    if first <= PACKED_1_BYTE_MAX:
        return first, at + 1
    size = 2 if first == PACKED_2_BYTES else 3 if first == PACKED_3_BYTES else 8 if first == PACKED_8_BYTES else 0
    if size == 0 or at + 1 + size > end:
        return 0, -1
    number = 0
    for i in range(size):
        byte = load_u8(data, at + 1 + i)
        if i == 7 and byte >= 0x40:
            return NUMBER_MAX, at + 1 + size
        number |= byte << (8 * i)
    return number, at + 1 + size


@kernel
def _frame_head(data: Bytes, at: int, end: int) -> tuple[int, int, int]:
    # Byte after the head of a frame (-1: there is none), size of its content (-1: not recorded), its descriptor.
    if end - at < ZSTD_MAGIC_SIZE + 1 or load_u32(data, at) != ZSTD_MAGIC:
        return -1, -1, 0
    descriptor = load_u8(data, at + ZSTD_MAGIC_SIZE)
    if descriptor & ZSTD_RESERVED != 0 or descriptor & ZSTD_DICTIONARY_MASK != 0:
        return -1, -1, 0
    is_single = descriptor & ZSTD_SINGLE_SEGMENT != 0
    size = int(ZSTD_CONTENT_SIZE_SIZES[descriptor >> ZSTD_CONTENT_SIZE_SHIFT])
    if size == 0 and is_single:
        size = 1
    place = at + ZSTD_MAGIC_SIZE + 1 + (0 if is_single else 1)
    if place + size > end:
        return -1, -1, 0
    content_size = -1 if size == 0 else 0
    for i in range(size):
        byte = load_u8(data, place + i)
        if i == 7 and byte >= 0x40:
            return -1, -1, 0
        content_size |= byte << (8 * i)
    if size == 2:
        content_size += ZSTD_CONTENT_SIZE_2_BYTES_FROM
    return place + size, content_size, descriptor


@kernel
def _walk_frames(data: Bytes, start: int, end: int) -> tuple[int, int, int]:
    # Code, bytes that the frames can become at most, and the size of the content if it is one frame that records it.
    # They must end where the payload does: that one is cut is not noticed while it is decompressed.
    at = start
    blocks = frames = 0
    content_size = -1
    while at < end:
        at, content_size, descriptor = _frame_head(data, at, end)
        if at < 0:
            return PAYLOAD_BAD_FRAME, 0, -1
        is_last = False
        while not is_last:
            if at + ZSTD_BLOCK_HEADER_SIZE > end:
                return PAYLOAD_CUT_FRAME, 0, -1
            block = load_u16(data, at) | load_u8(data, at + 2) << 16
            kind = (block >> ZSTD_BLOCK_TYPE_SHIFT) & ZSTD_BLOCK_TYPE_MASK
            if kind == ZSTD_BLOCK_RESERVED:
                return PAYLOAD_BAD_FRAME, 0, -1
            at += ZSTD_BLOCK_HEADER_SIZE + (1 if kind == ZSTD_BLOCK_RLE else block >> ZSTD_BLOCK_SIZE_SHIFT)
            is_last = block & ZSTD_BLOCK_LAST != 0
            blocks += 1
        if descriptor & ZSTD_CHECKSUM != 0:
            at += ZSTD_CHECKSUM_SIZE
        frames += 1
    if at != end or frames == 0:
        return PAYLOAD_CUT_FRAME, 0, -1
    return PAYLOAD_FOUND, blocks * ZSTD_BLOCK_PLAIN_SIZE_MAX, content_size if frames == 1 else -1


@kernel
def _fields(data: Bytes, start: int, end: int) -> tuple[int, int, int, int, int]:
    # Code, byte after the fields, compression, plain size (-1: not given), size of the payload (-1: not given).
    compression, plain_size, size_said = PAYLOAD_COMPRESSION_NONE, -1, -1
    at = start
    for _ in range(FIELDS_MAX):
        kind, at = _packed(data, at, end)
        if at < 0:
            return PAYLOAD_CUT_OFF, 0, 0, 0, 0
        if kind == PAYLOAD_FIELD_END:
            return PAYLOAD_FOUND, at, compression, plain_size, size_said
        size, at = _packed(data, at, end)
        if at < 0 or size > end - at:
            return PAYLOAD_CUT_OFF, 0, 0, 0, 0
        # What is not known may be passed over: every field states how long it is.
        if kind == PAYLOAD_FIELD_SIZE or kind == PAYLOAD_FIELD_COMPRESSION or kind == PAYLOAD_FIELD_PLAIN_SIZE:
            number, after = _packed(data, at, at + size)
            if after != at + size:
                return PAYLOAD_BAD_NUMBER, 0, 0, 0, 0
            if kind == PAYLOAD_FIELD_SIZE:
                size_said = number
            elif kind == PAYLOAD_FIELD_COMPRESSION:
                compression = number
            else:
                plain_size = number
        at += size
    return PAYLOAD_MANY_FIELDS, 0, 0, 0, 0


@kernel
def locate_payloads(data: Bytes, starts: Int64s, sizes: Int64s, found: Int64s) -> tuple[int, int]:
    """Take TRANSACTION_PAYLOAD events apart, without decompressing anything.

    Args:
        starts: Byte of each event's header.
        sizes: Of each event, checksum not counted.
        found: Shape (number of events, `FOUND_FIELDS`): gets what they contain.

    Returns:
        Code (`PAYLOAD_FOUND`, ...) and the number of the event that it is about.
    """
    for i in range(len(starts)):
        start, size = int(starts[i]), int(sizes[i])
        if start < 0 or size < EVENT_HEADER_SIZE or start + size > data.size:
            return PAYLOAD_CUT_OFF, i
        end = start + size
        code, at, compression, plain_size, size_said = _fields(data, start + EVENT_HEADER_SIZE, end)
        if code != PAYLOAD_FOUND:
            return code, i
        found[i, CONTENT_START] = at
        found[i, COMPRESSION] = compression
        if size_said >= 0 and size_said != end - at:
            return PAYLOAD_BAD_SIZE, i
        content_size = -1
        if compression == PAYLOAD_COMPRESSION_ZSTD:
            code, plain_max, content_size = _walk_frames(data, at, end)
            if code != PAYLOAD_FOUND:
                return code, i
        elif compression == PAYLOAD_COMPRESSION_NONE:
            plain_max = end - at
            if plain_size < 0:
                plain_size = plain_max
        else:
            return PAYLOAD_ALGORITHM, i
        found[i, PLAIN_SIZE] = plain_size
        found[i, PLAIN_SIZE_MAX] = plain_max
        found[i, IS_SIMPLE] = 1 if content_size >= 0 and content_size == plain_size else 0
        if plain_size < EVENT_HEADER_SIZE or plain_size > plain_max:
            return PAYLOAD_LIE, i
    return PAYLOAD_FOUND, 0


@kernel
def cut_inner_events(
    data: Bytes,
    starts: Int64s,
    ends: Int64s,
    forms: Bytes,
    events: Table,
    counts: Int64s,
    first: int,
    row: int,
) -> tuple[int, int, int, int]:
    """Write a row of *events* for each whole event in each `data[starts[i]:ends[i]]`; they have no checksums.

    Args:
        starts: Byte of each first event's header.
        ends: Byte after the last one that is there.
        forms: `STORED_FORMS`.
        events: `EVENT_DTYPE`; `group` and `event_no` are left alone.
        counts: Gets the number of events of each range.
        first: Range to begin with.
        row: First row to write.

    Returns:
        Code (`CUT_DONE`, ...), the range that it is about, row after the last event of a range that is done, and the
        byte of the first event not taken; with `CUT_OFF` the events before that are in the table, too.
    """
    column_start = events["start"]
    column_size = events["size"]
    column_type = events["type"]
    column_flags = events["flags"]
    column_timestamp = events["timestamp"]
    column_server_id = events["server_id"]
    at = 0
    for i in range(first, len(starts)):
        at, end = int(starts[i]), int(ends[i])
        row_start = row
        if at < 0 or end > data.size:
            return CUT_BAD_SIZE, i, row_start, at
        while at < end:
            if end - at < EVENT_HEADER_SIZE:
                counts[i] = row - row_start
                return CUT_OFF, i, row, at
            size = load_u32(data, at + EVENT_SIZE_OFFSET)
            if size < EVENT_HEADER_SIZE or size > EVENT_SIZE_MAX:
                return CUT_BAD_SIZE, i, row_start, at
            kind = load_u8(data, at + EVENT_TYPE_OFFSET)
            if forms[kind] != 0:
                return CUT_NOT_PLAIN, i, row_start, at
            if size > end - at:
                counts[i] = row - row_start
                return CUT_OFF, i, row, at
            if row >= len(column_start):
                return CUT_TABLE_FULL, i, row_start, at
            column_start[row] = at
            column_size[row] = size
            column_type[row] = kind
            column_flags[row] = load_u16(data, at + EVENT_FLAGS_OFFSET)
            column_timestamp[row] = load_u32(data, at)
            column_server_id[row] = load_u32(data, at + EVENT_SERVER_ID_OFFSET)
            row += 1
            at += size
        counts[i] = row - row_start
    return CUT_DONE, len(starts), row, at
