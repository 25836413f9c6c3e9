"""Verified pages by the places of bytes in them: `extent_runs`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.innodb.tables import PIECE_DTYPE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from binlog_format.block import Table
    from binlog_format.innodb.pages.page_runs import PageRun, PageRuns

AHEAD_PAGES_MAX = 64
"""Pages read at once for extents that lie close together."""

GAP_PAGES_MAX = 8
"""Pages without a wanted byte that are read along rather than jumped over."""


def extent_runs(runs: PageRuns, extents: Table, page_size: int) -> Iterator[tuple[PageRun, Table]]:
    """Find the pages of *extents*, in their order, as many extents at a time as lie in one run of pages.

    Args:
        runs: Gives pages.
        extents: `EXTENT_DTYPE`; each within one page.
        page_size: In bytes.

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


def _near_ends(file_nos: NDArray[np.int64], pages: NDArray[np.int64]) -> NDArray[np.int64]:
    """Extents whose next one is in another file, before the last one, or far away; the last of all too."""
    steps = np.diff(pages)
    is_far = (file_nos[1:] != file_nos[:-1]) | (steps < 0) | (steps > GAP_PAGES_MAX)
    return np.append(np.flatnonzero(is_far) + 1, len(pages))
