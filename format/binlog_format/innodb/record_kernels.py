"""One record, followed from its first chunk: `walk_record`; and `copy_pieces`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.innodb.layout import (
    CHUNK_CONTINUATION,
    CHUNK_END_OF_DATA,
    CHUNK_FILLER,
    CHUNK_HEADER_SIZE,
    CHUNK_KIND_MASK,
    CHUNK_LAST,
    CHUNK_SPACE_MIN,
    PAGE_CHECKSUM_SIZE,
    RecordKind,
)
from binlog_format.kernels import kernel
from binlog_format.memory_kernels import copy_bytes, load_u8, load_u16

if TYPE_CHECKING:
    from binlog_format.block import Table
    from binlog_format.kernels import Bytes

WALK_DONE = 0
"""The record ends here."""
WALK_MORE = 1
"""The record goes on behind these pages."""
WALK_ENOUGH = 2
"""As many bytes as were asked for have been found."""
WALK_TABLE_FULL = 3
WALK_NOT_A_START = 4
"""No record of the kind asked for starts here."""
WALK_END_MARK = 5
"""The data end before the record does."""
WALK_BAD_LENGTH = 6
WALK_MISSING_END = 7
"""A chunk of another record stands where this one should go on."""

_KIND_GTID_STATE = int(RecordKind.GTID_STATE)
_KIND_DUMMY = int(RecordKind.DUMMY)


@kernel
def walk_record(
    pages: Bytes, at: int, page_size: int, kind: int, begun: bool, size_max: int, pieces: Table
) -> tuple[int, int, int, bool]:
    """Find the stretches of one record's data in a run of pages.

    Args:
        pages: Whole pages with good checksums, consecutive ones of one file.
        at: Byte of a chunk in *pages*: the record's first one, or, when *begun*, the one to go on with.
        page_size: In bytes.
        kind: The record's.
        begun: The record's first chunk has been passed.
        size_max: Stop when this many bytes of data have been found.
        pieces: `PIECE_DTYPE`.

    Returns:
        Code (`WALK_DONE`, ...), rows of *pieces* written, the byte to go on from, and *begun* for that.
    """
    column_start = pieces["start"]
    column_size = pieces["size"]
    count = 0
    found = 0
    while at < len(pages):
        data_end = at - at % page_size + page_size - PAGE_CHECKSUM_SIZE
        chunk_type = CHUNK_FILLER
        if data_end - at >= CHUNK_SPACE_MIN:
            chunk_type = load_u8(pages, at)
        if chunk_type == CHUNK_FILLER:
            if not begun:
                return WALK_NOT_A_START, count, at, begun
            at = data_end + PAGE_CHECKSUM_SIZE
            continue
        if chunk_type == CHUNK_END_OF_DATA:
            return (WALK_END_MARK if begun else WALK_NOT_A_START), count, at, begun
        size = load_u16(pages, at + 1)
        after = at + CHUNK_HEADER_SIZE + size
        if after > data_end:
            return WALK_BAD_LENGTH, count, at, begun
        chunk_kind = chunk_type & CHUNK_KIND_MASK
        is_continuation = chunk_type & CHUNK_CONTINUATION != 0
        if begun and chunk_kind != kind and (chunk_kind == _KIND_GTID_STATE or chunk_kind == _KIND_DUMMY):
            at = after
            continue
        if chunk_kind != kind or is_continuation != begun:
            return (WALK_MISSING_END if begun else WALK_NOT_A_START), count, at, begun
        if count >= len(column_start):
            return WALK_TABLE_FULL, count, at, begun
        column_start[count] = at + CHUNK_HEADER_SIZE
        column_size[count] = size
        count += 1
        found += size
        begun = True
        at = after
        if chunk_type & CHUNK_LAST != 0:
            return WALK_DONE, count, at, begun
        if found >= size_max:
            return WALK_ENOUGH, count, at, begun
    return WALK_MORE, count, at, begun


@kernel
def copy_pieces(pages: Bytes, pieces: Table, count: int, skip: int, size_max: int, data: Bytes, to: int) -> int:
    """Join at most *size_max* bytes of *pieces*, without the first *skip* of them.

    Args:
        pages: What the pieces point into.
        pieces: `PIECE_DTYPE`.
        count: Rows of it.
        skip: Bytes to leave out at the start.
        size_max: Bytes to copy at most.
        data: Where they go; as long as needed.
        to: First byte there.

    Returns:
        The byte behind the last one written.
    """
    column_start = pieces["start"]
    column_size = pieces["size"]
    limit = to + size_max
    for row in range(count):
        left_out = min(skip, column_size[row])
        skip -= left_out
        size = min(column_size[row] - left_out, limit - to)
        copy_bytes(data, to, pages, column_start[row] + left_out, size)
        to += size
    return to


@kernel
def append_pieces(
    pages: Bytes,
    pieces: Table,
    count: int,
    skip: int,
    file_no: int,
    file_start: int,
    data: Bytes,
    size: int,
    extents: Table,
    extent: int,
) -> tuple[int, int, int]:
    """Join *pieces* behind what *data* holds, and note where they come from.

    Args:
        pages: What the pieces point into.
        pieces: `PIECE_DTYPE`.
        count: Rows of it.
        skip: Bytes to leave out at the start.
        file_no: File of *pages*.
        file_start: Byte in that file where *pages* begin.
        data: Where the bytes go; as long as needed.
        size: Bytes of it in use.
        extents: `EXTENT_DTYPE`, as long as needed.
        extent: Rows of it in use.

    Returns:
        Bytes of *data* and rows of *extents* in use now, and how many bytes are still to be left out.
    """
    for row in range(count):
        left_out = min(skip, pieces["size"][row])
        skip -= left_out
        length = pieces["size"][row] - left_out
        if length == 0:
            continue
        start = pieces["start"][row] + left_out
        copy_bytes(data, size, pages, start, length)
        extents["data_start"][extent] = size
        extents["file_no"][extent] = file_no
        extents["file_offset"][extent] = file_start + start
        extents["size"][extent] = length
        size += length
        extent += 1
    return size, extent, skip
