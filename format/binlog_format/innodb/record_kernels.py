"""Records, followed from their first chunk: `walk_record`, `append_record`, `append_nodes`; and `copy_pieces`."""

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
    from binlog_format.innodb.tables import Joined, Pages
    from binlog_format.kernels import Bytes

WALK_DONE = 0
"""The record ends here."""
WALK_MORE = 1
"""The record goes on beyond these pages."""
WALK_ENOUGH = 2
"""The requested number of bytes has been found."""
WALK_TABLE_FULL = 3
WALK_NOT_A_START = 4
"""No record of the kind asked for starts here."""
WALK_END_MARK = 5
"""The data end before the record does."""
WALK_BAD_LENGTH = 6
WALK_MISSING_END = 7
"""A chunk of another record stands where this one should go on."""
WALK_ELSEWHERE = 8
"""The record does not start in these pages."""

_KIND_OOB = int(RecordKind.OOB)
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
        begun: The record's first chunk has been passed.
        size_max: Stop when this many bytes of data have been found.

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
def copy_pieces(pages: Bytes, pieces: Table, size_max: int, data: Bytes, to: int) -> int:
    """Join at most *size_max* bytes of *pieces*.

    Args:
        pages: What the pieces point into.
        size_max: Bytes to copy at most.
        data: Where they go; as long as needed.
        to: First byte there.

    Returns:
        The byte after the last one written.
    """
    column_start = pieces["start"]
    column_size = pieces["size"]
    limit = to + size_max
    for row in range(len(pieces)):
        size = min(column_size[row], limit - to)
        copy_bytes(data, to, pages, column_start[row], size)
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
    """Join *pieces* after what *data* holds, and note where they come from.

    Args:
        pages: What the pieces point into.
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


@kernel
def append_record(
    pages: Pages, at: int, begun: bool, skip: int, joined: Joined, size: int, extent: int
) -> tuple[int, int, bool, int, int, int]:
    """Join one out-of-band record after what *joined* holds.

    Args:
        at: Byte of a chunk in them: the record's first one, or, when *begun*, the one to go on with.
        begun: The record's first chunk has been passed.
        skip: Bytes of the record to leave out.
        joined: Where the bytes go.
        size: Bytes of its data in use.
        extent: Rows of its extents in use.

    Returns:
        Code (`WALK_DONE`, `WALK_MORE`, `WALK_TABLE_FULL`: *joined* is full, or an error); the byte to go on from,
        *begun* and *skip* for that; *size* and *extent* now.
    """
    data_size = pages.page_size - PAGE_CHECKSUM_SIZE
    while at < len(pages.data):
        page = at // pages.page_size
        data_end = page * pages.page_size + data_size
        chunk_type = CHUNK_FILLER
        if data_end - at >= CHUNK_SPACE_MIN:
            chunk_type = load_u8(pages.data, at)
        if chunk_type == CHUNK_FILLER:
            if not begun:
                return WALK_NOT_A_START, at, begun, skip, size, extent
            at = data_end + PAGE_CHECKSUM_SIZE
            continue
        if chunk_type == CHUNK_END_OF_DATA:
            return (WALK_END_MARK if begun else WALK_NOT_A_START), at, begun, skip, size, extent
        chunk_size = load_u16(pages.data, at + 1)
        after = at + CHUNK_HEADER_SIZE + chunk_size
        if after > data_end:
            return WALK_BAD_LENGTH, at, begun, skip, size, extent
        kind = chunk_type & CHUNK_KIND_MASK
        if begun and (kind == _KIND_GTID_STATE or kind == _KIND_DUMMY):
            at = after
            continue
        if kind != _KIND_OOB or (chunk_type & CHUNK_CONTINUATION != 0) != begun:
            return (WALK_MISSING_END if begun else WALK_NOT_A_START), at, begun, skip, size, extent
        left_out = min(skip, chunk_size)
        length = chunk_size - left_out
        if length > 0:
            if size + length > len(joined.data) or extent >= len(joined.extents):
                return WALK_TABLE_FULL, at, begun, skip, size, extent
            start = at + CHUNK_HEADER_SIZE + left_out
            copy_bytes(joined.data, size, pages.data, start, length)
            joined.extents["data_start"][extent] = size
            joined.extents["file_no"][extent] = pages.file_no[page]
            joined.extents["file_offset"][extent] = pages.start[page] + start - page * pages.page_size
            joined.extents["size"][extent] = length
            size += length
            extent += 1
        skip -= left_out
        begun = True
        at = after
        if chunk_type & CHUNK_LAST != 0:
            return WALK_DONE, at, begun, skip, size, extent
    return WALK_MORE, at, begun, skip, size, extent


@kernel
def append_nodes(
    pages: Pages,
    order: Table,
    row: int,
    at: int,
    begun: bool,
    skip: int,
    joined: Joined,
    size: int,
    size_wanted: int,
    extent: int,
) -> tuple[int, int, int, bool, int, int, int]:
    """Join the payload of out-of-band records after what *joined* holds, as many as are in a run of pages.

    Args:
        pages: Pages of one file.
        order: `ORDER_DTYPE`: the records.
        at: Byte in *pages* to go on from within it; negative: it has not been begun.
        begun: Its first chunk has been passed.
        skip: Bytes of it to leave out.
        joined: Where the bytes go.
        size: Bytes of its data in use.
        size_wanted: Stop after a record with which so many are in use.
        extent: Rows of its extents in use.

    Returns:
        Code (`WALK_DONE`: all records have been taken; `WALK_ENOUGH`, `WALK_ELSEWHERE`, and those of `append_record`);
        the record to go on with, *at*, *begun* and *skip* for it; *size* and *extent* now.
    """
    while row < len(order):
        if at < 0:
            at = order["offset"][row] - pages.start[0]
            if order["file_no"][row] != pages.file_no[0] or at < 0 or at >= len(pages.data):
                return WALK_ELSEWHERE, row, -1, False, 0, size, extent
            begun = False
            skip = order["header_size"][row]
        code, at, begun, skip, size, extent = append_record(pages, at, begun, skip, joined, size, extent)
        if code != WALK_DONE:
            return code, row, at, begun, skip, size, extent
        row += 1
        at = -1
        if size >= size_wanted and row < len(order):
            return WALK_ENOUGH, row, -1, False, 0, size, extent
    return WALK_DONE, row, -1, False, 0, size, extent


@kernel
def pages_ahead(order: Table, row: int, page: int, page_size: int, gap_max: int, pages_max: int) -> int:
    """Count the pages from *page* on that one read should fetch, for record *row* of *order* and those after it.

    Args:
        row: A record that starts or goes on in *page*.
        page: Number of a page in that record's file.
        gap_max: Pages that nobody wants are read along when there are no more of them at a time.
    """
    file_no = order["file_no"][row]
    last = page
    while row < len(order) and order["file_no"][row] == file_no:
        start = order["offset"][row] // page_size
        if start > last + gap_max or start >= page + pages_max:
            break
        end = order["end"][row]
        # Of a record whose end is not known, its first page and those up to the next record.
        last = max(last, start if end == 0 else (end - 1) // page_size)
        row += 1
    return min(last - page + 1, pages_max)
