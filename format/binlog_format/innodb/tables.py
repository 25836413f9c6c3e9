"""Tables between pages and event groups: chunks, commit records, out-of-band records, pieces of a record.

Verified pages by the places of bytes in them: `extent_runs`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_format.block import Table
    from binlog_format.innodb.pages.pages import PageRun, PageRuns
    from binlog_format.kernels import Bytes, Int64s


# One row per chunk of a window of pages. All chunks count, of whatever record.
CHUNK_DTYPE = np.dtype(
    [
        ("page", np.int32),  # index of its page in the window
        ("number", np.int32),  # of the chunk in its page
        ("type", np.uint8),  # kind and flags
        ("start", np.int64),  # byte of its data in the window
        ("size", np.int32),  # bytes of data
    ]
)

# One row per whole commit record of a window.
RECORD_DTYPE = np.dtype(
    [
        ("first", np.int64),  # its first chunk: row in the chunk table
        ("end", np.int64),  # row after its last chunk; chunks of other kinds may be between
        ("size", np.int64),  # bytes of data: the header of integers, and event bytes
        ("header_size", np.int64),
        ("oob_records", np.int64),  # records of the first set of out-of-band data
        ("first_file_no", np.uint64),  # where its first record is
        ("first_offset", np.uint64),
        ("last_file_no", np.uint64),  # where its last record is: the root to start from
        ("last_offset", np.uint64),
        ("oob_records_second_set", np.int64),
        ("first_file_no_second_set", np.uint64),
        ("first_offset_second_set", np.uint64),
        ("last_file_no_second_set", np.uint64),
        ("last_offset_second_set", np.uint64),
    ]
)

# A stretch of a record's data in a run of pages.
PIECE_DTYPE = np.dtype(
    [
        ("start", np.int64),  # byte in the run
        ("size", np.int64),
    ]
)

# One row per out-of-band record that a scan has passed, ascending by place. No numbers above 2**62: records that hold
# such are left out, and reading them by their place names what is wrong.
NODE_DTYPE = np.dtype(
    [
        ("file_no", np.int64),  # where its first chunk is
        ("offset", np.int64),
        ("end", np.int64),  # byte in that file after the record; 0: not known, or in the next file
        ("index", np.int64),  # number in its set
        ("left_file_no", np.int64),  # left child; zeros in a leaf
        ("left_offset", np.int64),
        ("right_file_no", np.int64),  # right child; in a leaf the root of the tree before
        ("right_offset", np.int64),
        ("header_size", np.int64),  # bytes of its data before the payload
    ]
)

# One row per record on the way from the root to where a walk is.
VISIT_DTYPE = np.dtype(
    [
        ("file_no", np.int64),
        ("offset", np.int64),
        ("bound_file_no", np.int64),  # it has to lie before this place
        ("bound_offset", np.int64),
        ("follows_links", np.bool_),  # it is on the left edge: a leaf here names the tree before
        ("index", np.int64),  # -1 until it has been looked up
        ("end", np.int64),
        ("header_size", np.int64),
    ]
)

# One row per out-of-band record of a set, in the order of the payload.
ORDER_DTYPE = np.dtype(
    [
        ("file_no", np.int64),
        ("offset", np.int64),
        ("end", np.int64),  # as in `NODE_DTYPE`
        ("header_size", np.int64),
    ]
)


class Pages(NamedTuple):
    """Consecutive pages of a log, with good checksums, as kernels take them.

    Attributes:
        file_no: File of each page.
        start: Byte in that file where the page is.
    """

    data: Bytes
    page_size: int
    file_no: Int64s
    start: Int64s


class Joined(NamedTuple):
    """Room in which kernels join the bytes of events. *extents*: `EXTENT_DTYPE`: where they come from."""

    data: Bytes
    extents: Table


class TableWalk(NamedTuple):
    """State of a walk through the out-of-band records of a set.

    Attributes:
        nodes: `NODE_DTYPE`, ascending by place: the records that are known.
        given: One row more, for a record that is not among them.
        stack: `VISIT_DTYPE`; its rows state how deep a walk may go.
        state: Where the walk is: `STATE_...` of `forest_kernels`.
        wanted: What the commit record contains: `WANTED_...` of `forest_kernels`.
        order: `ORDER_DTYPE`: the records put in order.
    """

    nodes: Table
    given: Table
    stack: Table
    state: Int64s
    wanted: Int64s
    order: Table


AHEAD_PAGES_MAX = 64
"""Pages read at once for extents that lie close together."""

GAP_PAGES_MAX = 8
"""Pages without a wanted byte that are read along rather than jumped over."""


def extent_runs(runs: PageRuns, extents: Table, page_size: int) -> Iterator[tuple[PageRun, Table]]:
    """Find the pages of *extents*, in their order, as many extents at a time as lie in one run of pages.

    Args:
        extents: `EXTENT_DTYPE`; each within one page.

    Yields:
        A run, and which of its bytes (`PIECE_DTYPE`).

    Raises:
        ValueError: An extent leaves its page.
    """
    in_page = extents["file_offset"] % page_size
    if ((extents["size"] < 0) | (in_page + extents["size"] > page_size) | (extents["file_offset"] < 0)).any():
        raise ValueError("an extent does not lie within one page")
    file_nos, pages = extents["file_no"], extents["file_offset"] // page_size
    ends = _near_ends(file_nos, pages)
    row = 0
    while row < len(extents):
        near = pages[row : ends[np.searchsorted(ends, row, side="right")]]
        wanted = near[np.searchsorted(near, near[0] + AHEAD_PAGES_MAX) - 1]
        run = runs.get(int(file_nos[row]), int(near[0]), ahead=int(wanted - near[0]) + 1)
        count = int(np.searchsorted(near, run.first_page + run.page_count))
        pieces = np.empty(count, dtype=PIECE_DTYPE)
        pieces["start"] = extents["file_offset"][row : row + count] - run.first_page * page_size
        pieces["size"] = extents["size"][row : row + count]
        yield run, pieces
        row += count


def _near_ends(file_nos: Int64s, pages: Int64s) -> Int64s:
    """Extents whose next one is in another file, before the last one, or far away; the last of all too."""
    steps = np.diff(pages)
    is_far = (file_nos[1:] != file_nos[:-1]) | (steps < 0) | (steps > GAP_PAGES_MAX)
    return np.append(np.flatnonzero(is_far) + 1, len(pages))
