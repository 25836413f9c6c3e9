"""Bytes by their places in the files: `extent_runs` and `read_extents`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.errors import CorruptError, DataLossError
from binlog_format.innodb.record_kernels import copy_pieces
from binlog_format.innodb.tables import PIECE_DTYPE
from binlog_format.kernels import empty_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from binlog_format.block import Table
    from binlog_format.innodb.page_runs import PageRun, PageRuns
    from binlog_format.kernels import Bytes

AHEAD_PAGES_MAX = 64
"""Pages read at once for extents that lie close together."""

GAP_PAGES_MAX = 8
"""Pages without a wanted byte that are read along rather than jumped over."""

LOOK_AHEAD_MAX = 4096
"""Extents looked at in one step."""


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
    row = 0
    while row < len(extents):
        file_no = extents["file_no"][row : row + LOOK_AHEAD_MAX]
        pages = extents["file_offset"][row : row + LOOK_AHEAD_MAX] // page_size
        run = runs.get(int(file_no[0]), int(pages[0]), ahead=_pages_ahead(file_no, pages))
        is_inside = (file_no == run.file_no) & (pages >= run.first_page) & (pages < run.first_page + run.page_count)
        count = _leading(is_inside)
        pieces = np.empty(count, dtype=PIECE_DTYPE)
        pieces["start"] = extents["file_offset"][row : row + count] - run.first_page * page_size
        pieces["size"] = extents["size"][row : row + count]
        yield run, pieces
        row += count


def _pages_ahead(file_no: NDArray[np.int64], pages: NDArray[np.int64]) -> int:
    """Pages worth reading from the first one on."""
    step = np.diff(pages, prepend=pages[0])
    is_near = (file_no == file_no[0]) & (step >= 0) & (step <= GAP_PAGES_MAX) & (pages < pages[0] + AHEAD_PAGES_MAX)
    return int(pages[_leading(is_near) - 1] - pages[0]) + 1


def _leading(flags: NDArray[np.bool_]) -> int:
    """How many are true before the first that is not."""
    return len(flags) if flags.all() else int(np.argmin(flags))


def read_extents(runs: PageRuns, extents: Table, page_size: int) -> Bytes:
    """Join the bytes of *extents*, from pages with good checksums.

    Raises:
        DataLossError: `PAGE_REWRITTEN`: nothing is there any more; `FILE_PURGED`.
    """
    data = empty_bytes(int(extents["size"].sum()))
    size = 0
    try:
        for run, pieces in extent_runs(runs, extents, page_size):
            size = copy_pieces(run.data, pieces, len(pieces), 0, len(data), data, size)
    except CorruptError as error:
        if error.subclass != "OOB_REFERENCE":
            raise
        raise DataLossError(
            "PAGE_REWRITTEN",
            "event data that were here are not there any more",
            at=error.at,
            hint="The log was cut back after a crash of the server; see what was written since, and start again",
        ) from error
    return data
