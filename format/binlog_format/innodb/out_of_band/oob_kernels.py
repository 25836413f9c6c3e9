"""Out-of-band data of a group that lies wholly in a window: `append_oob_sets`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.innodb.out_of_band.forest_kernels import (
    FOREST_DONE,
    NUMBER_BITS_MAX,
    WANTED_COUNT,
    WANTED_FILE_NO,
    WANTED_OFFSET,
    start_walk,
    walk_forest,
)
from binlog_format.innodb.record_kernels import WALK_DONE, WALK_TABLE_FULL, append_record
from binlog_format.kernels import kernel

if TYPE_CHECKING:
    from binlog_format.block import Table
    from binlog_format.innodb.tables import Joined, Pages, TableWalk

OOB_DONE = 0
OOB_ELSEWHERE = 1
"""The set is not wholly in the window, too large, or damaged: it has to be read by its places."""
OOB_NO_ROOM = 2
"""The data or the extents are full."""


@kernel
def _byte_in_pages(pages: Pages, file_no: int, offset: int) -> int:
    """Byte of *pages* where a byte of a file is; -1: it is not there."""
    low = 0
    high = len(pages.data) // pages.page_size
    while low < high:
        middle = (low + high) // 2
        here = pages.file_no[middle]
        if here < file_no or (here == file_no and pages.start[middle] + pages.page_size <= offset):
            low = middle + 1
        else:
            high = middle
    if low < len(pages.data) // pages.page_size and pages.file_no[low] == file_no and pages.start[low] <= offset:
        return low * pages.page_size + offset - int(pages.start[low])
    return -1


@kernel
def _append_set(
    pages: Pages,
    count: int,
    first: tuple[np.uint64, np.uint64],
    last: tuple[np.uint64, np.uint64],
    commit: tuple[int, int],
    walk: TableWalk,
    joined: Joined,
    size: int,
    extent: int,
) -> tuple[int, int, int]:
    """Join the payload of a set of *count* records; first and last one, and the commit record, by file and byte."""
    if (first[0] | first[1] | last[0] | last[1]) >> np.uint64(NUMBER_BITS_MAX) != 0 or count > len(walk.order):
        return OOB_ELSEWHERE, size, extent
    walk.wanted[WANTED_COUNT] = count
    walk.wanted[WANTED_FILE_NO] = first[0]
    walk.wanted[WANTED_OFFSET] = first[1]
    last_file_no, last_offset = np.int64(last[0]), np.int64(last[1])
    start_walk(walk, last_file_no, last_offset, commit[0], commit[1])
    code, found = walk_forest(walk)
    if code != FOREST_DONE:
        return OOB_ELSEWHERE, size, extent
    for row in range(found):
        at = _byte_in_pages(pages, walk.order["file_no"][row], walk.order["offset"][row])
        if at < 0:
            return OOB_ELSEWHERE, size, extent
        header_size = walk.order["header_size"][row]
        code, at, _, _, size, extent = append_record(pages, at, False, header_size, joined, size, extent)
        if code != WALK_DONE:
            return (OOB_NO_ROOM if code == WALK_TABLE_FULL else OOB_ELSEWHERE), size, extent
    return OOB_DONE, size, extent


@kernel
def append_oob_sets(
    pages: Pages,
    records: Table,
    record: int,
    commit: tuple[int, int],
    walk: TableWalk,
    joined: Joined,
    size: int,
    extent: int,
) -> tuple[int, int, int]:
    """Join a group's out-of-band data after what *joined* holds.

    Args:
        records: `RECORD_DTYPE`, headers read.
        record: The group's commit record.
        commit: File and byte of it.
        walk: Knows what the scan has passed; the rest is scratch.
        joined: Where the bytes go.
        size: Bytes of its data in use.
        extent: Rows of its extents in use.

    Returns:
        Code (`OOB_DONE`, ...), *size* and *extent* now.
    """
    code = OOB_DONE
    if records["oob_records"][record] > 0:
        first = records["first_file_no"][record], records["first_offset"][record]
        last = records["last_file_no"][record], records["last_offset"][record]
        count = records["oob_records"][record]
        code, size, extent = _append_set(pages, count, first, last, commit, walk, joined, size, extent)
    if code == OOB_DONE and records["oob_records_second_set"][record] > 0:
        first = records["first_file_no_second_set"][record], records["first_offset_second_set"][record]
        last = records["last_file_no_second_set"][record], records["last_offset_second_set"][record]
        count = records["oob_records_second_set"][record]
        code, size, extent = _append_set(pages, count, first, last, commit, walk, joined, size, extent)
    return code, size, extent
