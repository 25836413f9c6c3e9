"""Out-of-band records, noted while a scan passes them, and put in order: `collect_nodes`, `walk_forest`.

Data of a group that lies wholly in a window: `append_oob_sets`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.innodb.compressed_int_kernels import read_int
from binlog_format.innodb.layout import (
    CHUNK_CONTINUATION,
    CHUNK_HEADER_SIZE,
    CHUNK_KIND_MASK,
    CHUNK_LAST,
    OOB_HEADER_INTS,
    RecordKind,
)
from binlog_format.innodb.record_kernels import WALK_DONE, WALK_TABLE_FULL, append_record
from binlog_format.kernels import kernel
from binlog_format.memory_kernels import copy_bytes

if TYPE_CHECKING:
    from binlog_format.block import Table
    from binlog_format.innodb.tables import Joined, Pages, TableWalk
    from binlog_format.kernels import Bytes, Int64s, Uint64s


FOREST_DONE = 0
FOREST_ORDER_FULL = 1
"""The order table has no row left; the walk can go on."""
FOREST_UNKNOWN = 2
"""The record on top of the stack is in neither table; the walk can go on once it is."""
FOREST_NOT_BEFORE = 3
"""The record on top of the stack does not lie before the one that needs it."""
FOREST_TOO_DEEP = 4
FOREST_BAD_INDEX = 5
FOREST_TOO_MANY = 6
FOREST_BAD_FIRST = 7
FOREST_NOT_ASCENDING = 8
FOREST_BAD_COUNT = 9
"""The walk has come to its end before it found as many records as the commit record names."""

NUMBER_BITS_MAX = 62
"""Numbers of more bits are in no table."""

# Rows of `TableWalk.state`: entries on the stack; records put in order; the last of them.
STATE_DEPTH, STATE_COUNT, STATE_FILE_NO, STATE_OFFSET = range(4)
STATE_SIZE = 4
# Rows of `TableWalk.wanted`: what the commit record contains.
WANTED_COUNT, WANTED_FILE_NO, WANTED_OFFSET = range(3)
WANTED_SIZE = 3

_KIND_OOB = int(RecordKind.OOB)


@kernel
def _read_header(data: Bytes, at: int, end: int, values: Uint64s) -> int:
    """Decode the five integers of an out-of-band record; the byte after them, or a negative number."""
    for number in range(OOB_HEADER_INTS):
        at, value = read_int(data, at, end)
        if at < 0:
            return -1
        values[number] = value
    return at


@kernel
def _join_head(pages: Bytes, chunks: Table, row: int, head: Bytes) -> int:
    """Join the first bytes of the out-of-band record whose first chunk is *row*; how many are in these chunks."""
    chunk_type = chunks["type"]
    chunk_start = chunks["start"]
    chunk_size = chunks["size"]
    taken = 0
    for part in range(row, len(chunks)):
        kind_and_flags = int(chunk_type[part])
        if kind_and_flags & CHUNK_KIND_MASK != _KIND_OOB:
            continue
        size = min(chunk_size[part], len(head) - taken)
        copy_bytes(head, taken, pages, chunk_start[part], size)
        taken += size
        if taken == len(head) or kind_and_flags & CHUNK_LAST != 0:
            break
    return taken


@kernel
def _add_node(nodes: Table, count: int, place: tuple[int, int], header_size: int, values: Uint64s) -> int:
    """Write a row of *nodes* when its numbers fit; rows in use then."""
    if (values[0] | values[1] | values[2] | values[3] | values[4]) >> np.uint64(NUMBER_BITS_MAX) != 0:
        return count
    nodes["file_no"][count], nodes["offset"][count] = place
    nodes["end"][count] = 0
    nodes["index"][count] = values[0]
    nodes["left_file_no"][count] = values[1]
    nodes["left_offset"][count] = values[2]
    nodes["right_file_no"][count] = values[3]
    nodes["right_offset"][count] = values[4]
    nodes["header_size"][count] = header_size
    return count + 1


@kernel
def collect_nodes(
    pages: Pages, chunks: Table, nodes: Table, count: int, is_open: bool, head: Bytes, values: Uint64s
) -> tuple[int, bool]:
    """Add the out-of-band records of a window to *nodes*; those that are in it already are left out.

    Args:
        nodes: `NODE_DTYPE`, with room for a row more per chunk.
        count: Rows of it in use.
        is_open: The last of them goes on after the window before.
        head: Scratch, `OOB_HEADER_SIZE_MAX` bytes.
        values: Scratch, five integers.

    Returns:
        Rows of *nodes* in use now, and *is_open* for the next window.
    """
    for row in range(len(chunks)):
        kind_and_flags = int(chunks["type"][row])
        if kind_and_flags & CHUNK_KIND_MASK != _KIND_OOB:
            continue
        page = chunks["page"][row]
        start = chunks["start"][row]
        data_end = start + chunks["size"][row]
        file_no = pages.file_no[page]
        to_file = pages.start[page] - page * pages.page_size
        is_last = kind_and_flags & CHUNK_LAST != 0
        if kind_and_flags & CHUNK_CONTINUATION == 0:
            offset = start - CHUNK_HEADER_SIZE + to_file
            last_file_no = nodes["file_no"][count - 1] if count > 0 else -1
            last_offset = nodes["offset"][count - 1] if count > 0 else -1
            is_open = file_no == last_file_no and offset == last_offset
            if file_no > last_file_no or (file_no == last_file_no and offset > last_offset):
                after = _read_header(pages.data, start, data_end, values)
                header_size = after - start
                if after < 0 and not is_last:
                    after = _read_header(head, 0, _join_head(pages.data, chunks, row, head), values)
                    header_size = after
                if after >= 0:
                    count_before = count
                    count = _add_node(nodes, count, (file_no, offset), header_size, values)
                    is_open = count > count_before
        if is_open and is_last:
            if file_no == nodes["file_no"][count - 1]:
                nodes["end"][count - 1] = data_end + to_file
            is_open = False
    return count, is_open


@kernel
def _find_node(nodes: Table, file_no: int, offset: int) -> int:
    """Row of the record at a place; -1: it is not in the table."""
    column_file_no = nodes["file_no"]
    column_offset = nodes["offset"]
    low = 0
    high = len(nodes)
    while low < high:
        middle = (low + high) // 2
        here = column_file_no[middle]
        if here < file_no or (here == file_no and column_offset[middle] < offset):
            low = middle + 1
        else:
            high = middle
    if low < len(nodes) and column_file_no[low] == file_no and column_offset[low] == offset:
        return low
    return -1


@kernel
def _push(
    stack: Table,
    row: int,
    file_no: int | np.int64,
    offset: int | np.int64,
    bound_file_no: int,
    bound_offset: int,
    follows_links: bool,
) -> None:
    stack["file_no"][row] = file_no
    stack["offset"][row] = offset
    stack["bound_file_no"][row] = bound_file_no
    stack["bound_offset"][row] = bound_offset
    stack["follows_links"][row] = follows_links
    stack["index"][row] = -1


@kernel
def start_walk(
    walk: TableWalk, file_no: int | np.int64, offset: int | np.int64, bound_file_no: int, bound_offset: int
) -> None:
    """Begin a walk at the root of the last tree, which has to lie before a bound, the commit record."""
    _push(walk.stack, 0, file_no, offset, bound_file_no, bound_offset, True)
    walk.state[:] = 0
    walk.state[STATE_DEPTH] = 1


@kernel
def _check_order(stack: Table, top: int, state: Int64s, wanted: Int64s) -> int:
    """Check that the record on top of the stack can be the next one."""
    file_no = stack["file_no"][top]
    offset = stack["offset"][top]
    expected = state[STATE_COUNT]
    if stack["index"][top] != expected:
        return FOREST_BAD_INDEX
    if expected >= wanted[WANTED_COUNT]:
        return FOREST_TOO_MANY
    if expected == 0 and (file_no != wanted[WANTED_FILE_NO] or offset != wanted[WANTED_OFFSET]):
        return FOREST_BAD_FIRST
    previous = state[STATE_FILE_NO]
    if file_no < previous or (file_no == previous and offset <= state[STATE_OFFSET]):
        return FOREST_NOT_ASCENDING
    return FOREST_DONE


@kernel
def _visit(nodes: Table, row: int, stack: Table, top: int) -> int:
    """Note what row *row* of *nodes* says about the record on top of the stack, and push its children."""
    file_no = stack["file_no"][top]
    offset = stack["offset"][top]
    follows_links = stack["follows_links"][top]
    stack["index"][top] = nodes["index"][row]
    stack["end"][top] = nodes["end"][row]
    stack["header_size"][top] = nodes["header_size"][row]
    left_file_no, left_offset = nodes["left_file_no"][row], nodes["left_offset"][row]
    right_file_no, right_offset = nodes["right_file_no"][row], nodes["right_offset"][row]
    if left_file_no != 0 or left_offset != 0:
        _push(stack, top + 1, right_file_no, right_offset, file_no, offset, False)
        _push(stack, top + 2, left_file_no, left_offset, right_file_no, right_offset, follows_links)
        return top + 3
    if follows_links and (right_file_no != 0 or right_offset != 0):
        _push(stack, top + 1, right_file_no, right_offset, file_no, offset, True)
        return top + 2
    return top + 1


@kernel
def walk_forest(walk: TableWalk) -> tuple[int, int]:
    """Put the records of a set in the order of their payload: children before their parent, tree by tree.

    Args:
        walk: From `start_walk`; `order` is filled from row 0 on.

    Returns:
        Code (`FOREST_DONE`, ...) and rows of `order` filled.
    """
    stack, state, order = walk.stack, walk.state, walk.order
    written = 0
    while state[STATE_DEPTH] > 0:
        top = state[STATE_DEPTH] - 1
        file_no = stack["file_no"][top]
        offset = stack["offset"][top]
        if stack["index"][top] >= 0:
            code = _check_order(stack, top, state, walk.wanted)
            if code != FOREST_DONE:
                return code, written
            if written == len(order):
                return FOREST_ORDER_FULL, written
            order["file_no"][written] = file_no
            order["offset"][written] = offset
            order["end"][written] = stack["end"][top]
            order["header_size"][written] = stack["header_size"][top]
            written += 1
            state[STATE_COUNT] += 1
            state[STATE_FILE_NO] = file_no
            state[STATE_OFFSET] = offset
            state[STATE_DEPTH] = top
            continue
        bound = stack["bound_file_no"][top]
        if file_no > bound or (file_no == bound and offset >= stack["bound_offset"][top]):
            return FOREST_NOT_BEFORE, written
        if top + 3 > len(stack):
            return FOREST_TOO_DEEP, written
        row = _find_node(walk.nodes, file_no, offset)
        if row >= 0:
            state[STATE_DEPTH] = _visit(walk.nodes, row, stack, top)
        elif walk.given["file_no"][0] == file_no and walk.given["offset"][0] == offset:
            state[STATE_DEPTH] = _visit(walk.given, 0, stack, top)
        else:
            return FOREST_UNKNOWN, written
    if state[STATE_COUNT] != walk.wanted[WANTED_COUNT]:
        return FOREST_BAD_COUNT, written
    return FOREST_DONE, written


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
