"""Pages to chunks to records: `scan_chunks` and `link_records`.

Chunks follow one another from byte 0 of a page; a record is a chunk and its continuations, and only chunks of GTID
states and dummies may be between them.
"""

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
from binlog_format.memory_kernels import load_u8, load_u16

if TYPE_CHECKING:
    from binlog_format.block import Table
    from binlog_format.kernels import Bytes

SCAN_DONE = 0
"""All pages have been scanned."""
SCAN_END_MARK = 1
"""The data end in the page given, before the chunk and byte given."""
SCAN_TABLE_FULL = 2
"""The chunk table may not hold the page given; it has not been begun."""
SCAN_BAD_LENGTH = 3
"""The chunk given does not fit into its page."""
SCAN_NO_SUCH_CHUNK = 4
"""The first page has fewer chunks than were to be passed over."""

LINK_DONE = 0
LINK_MISSING_END = 1
"""A chunk of another record stands where a record should go on."""
LINK_STRAY_CONTINUATION = 2
"""A record goes on that has not begun."""

NO_RECORD = 0
"""Used in place of a kind: no record is open. (A chunk can have kind 0: it is followed like any unknown one.)"""
KIND_BIAS = 1
"""Open kinds are counted from 1, so that `NO_RECORD` is none of them."""

_KIND_COMMIT = int(RecordKind.COMMIT)
_KIND_GTID_STATE = int(RecordKind.GTID_STATE)
_KIND_DUMMY = int(RecordKind.DUMMY)


@kernel
def scan_chunks(
    pages: Bytes, page_count: int, page_size: int, first_chunk: int, chunks: Table
) -> tuple[int, int, int, int, int]:
    """Write a row of *chunks* for each chunk of the pages.

    Args:
        pages: Pages with good checksums, one after the other.
        first_chunk: Chunks of the first page to pass over.

    Returns:
        Code (`SCAN_DONE`, ...), rows written, and the place: index of the page, number of the chunk in it, and byte in
        *pages*.
    """
    column_page = chunks["page"]
    column_number = chunks["number"]
    column_type = chunks["type"]
    column_start = chunks["start"]
    column_size = chunks["size"]
    rows = 0
    for page in range(page_count):
        if len(column_page) - rows < page_size // CHUNK_HEADER_SIZE:
            return SCAN_TABLE_FULL, rows, page, 0, page * page_size
        at = page * page_size
        data_end = at + page_size - PAGE_CHECKSUM_SIZE
        number = 0
        wanted = first_chunk if page == 0 else 0
        while data_end - at >= CHUNK_SPACE_MIN:
            chunk_type = load_u8(pages, at)
            if chunk_type == CHUNK_FILLER:
                break
            if chunk_type == CHUNK_END_OF_DATA:
                code = SCAN_END_MARK if number >= wanted else SCAN_NO_SUCH_CHUNK
                return code, rows, page, number, at
            size = load_u16(pages, at + 1)
            after = at + CHUNK_HEADER_SIZE + size
            if after > data_end:
                return SCAN_BAD_LENGTH, rows, page, number, at
            if number >= wanted:
                column_page[rows] = page
                column_number[rows] = number
                column_type[rows] = chunk_type
                column_start[rows] = at + CHUNK_HEADER_SIZE
                column_size[rows] = size
                rows += 1
            number += 1
            at = after
        if number < wanted:
            return SCAN_NO_SUCH_CHUNK, rows, page, number, at
    return SCAN_DONE, rows, page_count, 0, page_count * page_size


@kernel
def link_records(
    chunks: Table, chunk_count: int, open_kind: int, skipping: bool, records: Table
) -> tuple[int, int, int, int, int, bool, int]:
    """Follow records through the chunk table and write a row of *records* for each whole commit record.

    Args:
        chunk_count: Rows used of it.
        open_kind: `KIND_BIAS` + kind of the record that is open where the table begins, or `NO_RECORD`.
        skipping: Reading began in the middle of the log: continuations of a record begun before are passed over.
        records: `RECORD_DTYPE`, at least *chunk_count* rows.

    Returns:
        Code (`LINK_DONE`, ...); rows written; the record open at the end (biased kind, row of its first chunk or -1
        when that lies before the table); row after the last whole record of any kind (-1: none ended here, or only
        states and dummies that may be inside one that began before);
        *skipping* at the end; and the row reached (that of the offending chunk).
    """
    column_type = chunks["type"]
    column_size = chunks["size"]
    record_first = records["first"]
    record_end = records["end"]
    record_size = records["size"]
    count = 0
    open_first = -1
    boundary = -1
    size = 0
    for row in range(chunk_count):
        chunk_type = int(column_type[row])
        kind = chunk_type & CHUNK_KIND_MASK
        is_continuation = chunk_type & CHUNK_CONTINUATION != 0
        if open_kind != NO_RECORD:
            if kind + KIND_BIAS != open_kind:
                if kind == _KIND_GTID_STATE or kind == _KIND_DUMMY:
                    continue
                return LINK_MISSING_END, count, open_kind, open_first, boundary, skipping, row
            if not is_continuation:
                return LINK_MISSING_END, count, open_kind, open_first, boundary, skipping, row
        elif is_continuation:
            if not skipping:
                return LINK_STRAY_CONTINUATION, count, open_kind, open_first, boundary, skipping, row
            if chunk_type & CHUNK_LAST != 0 and kind != _KIND_GTID_STATE and kind != _KIND_DUMMY:
                boundary = row + 1
                skipping = False  # the record that began before has ended
            continue
        else:
            open_kind = kind + KIND_BIAS
            open_first = row
            size = 0
            # A state or a dummy may be inside a record that began before: that record can still go on.
            if kind != _KIND_GTID_STATE and kind != _KIND_DUMMY:
                skipping = False
        size += column_size[row]
        if chunk_type & CHUNK_LAST != 0:
            if kind == _KIND_COMMIT and open_first >= 0:
                record_first[count] = open_first
                record_end[count] = row + 1
                record_size[count] = size
                count += 1
            open_kind = NO_RECORD
            open_first = -1
            if not skipping:
                boundary = row + 1
    return LINK_DONE, count, open_kind, open_first, boundary, skipping, chunk_count
