"""Runs of verified pages, found by file and page: `PageRun`, and the small cache `PageRuns`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.errors import CorruptError
from binlog_format.innodb.pages.pages import PageStop
from binlog_format.innodb.tables import Pages
from binlog_format.kernels import empty_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_format.innodb.files import OpenFile
    from binlog_format.innodb.pages.pages import PageReader
    from binlog_format.kernels import Bytes

RUN_SIZE_MAX = 1 << 20
"""Bytes read ahead where data lie in order."""

SINGLE_PAGES_MAX = 64
"""Pages kept of those that are looked at alone: roots of trees, each referred to by the next one."""


@dataclass(frozen=True, slots=True)
class PageRun:
    """Good pages of one file, one after the other.

    Attributes:
        file_no: The file.
        first_page: Number of the first page.
        page_count: How many.
        data: Their bytes.
    """

    file_no: int
    first_page: int
    page_count: int
    data: Bytes

    def holds(self, file_no: int, page: int) -> bool:
        """True if *page* of file *file_no* is in the run."""
        return file_no == self.file_no and self.first_page <= page < self.first_page + self.page_count

    def pages(self) -> Pages:
        """The run as kernels take it."""
        page_size = len(self.data) // self.page_count
        numbers = np.arange(self.first_page, self.first_page + self.page_count, dtype=np.int64)
        return Pages(self.data, page_size, np.full(self.page_count, self.file_no, dtype=np.int64), numbers * page_size)


class PageRuns:
    """Gives the run that holds a page; reads it when none does.

    Args:
        reader: Where pages come from.
    """

    def __init__(self, reader: PageReader) -> None:
        self._reader = reader
        self._borrowed: Sequence[PageRun] = ()
        self._ahead: PageRun | None = None
        self._buffer = empty_bytes(0)
        self._singles: dict[tuple[int, int], PageRun] = {}

    def borrow(self, runs: Sequence[PageRun]) -> None:
        """Look into *runs* too, which someone else has read; until the next call."""
        self._borrowed = runs

    def forget(self) -> None:
        """Drop everything: pages may have changed."""
        self._borrowed = ()
        self._ahead = None
        self._singles.clear()

    def find(self, file_no: int, page: int) -> PageRun | None:
        """The run that holds *page*, when one does already."""
        for run in self._borrowed:
            if run.holds(file_no, page):
                return run
        if self._ahead is not None and self._ahead.holds(file_no, page):
            return self._ahead
        return None

    def get(self, file_no: int, page: int, *, ahead: int = 1) -> PageRun:
        """The run that holds *page*.

        Args:
            file_no: Its file.
            page: Its number.
            ahead: Pages worth reading from there on when it has to be read; 1: it is wanted alone.

        Raises:
            CorruptError: The page is damaged, or nothing is there.
            DataLossError: The file is not there.
        """
        run = self.find(file_no, page)
        if run is not None:
            return run
        single = self._singles.get((file_no, page))
        if single is not None and ahead == 1:
            return single
        file = self._reader.files.existing(file_no)
        if ahead > 1:
            self._ahead = None
            size = min(ahead * file.page_size, max(RUN_SIZE_MAX, file.page_size))
            if len(self._buffer) < size:
                self._buffer = empty_bytes(size)
            self._ahead = self._read(file, page, self._buffer[:size])
            return self._ahead
        run = self._read(file, page, empty_bytes(file.page_size))
        if len(self._singles) >= SINGLE_PAGES_MAX:
            self._singles.pop(next(iter(self._singles)))
        self._singles[file_no, page] = run
        return run

    def _read(self, file: OpenFile, page: int, buffer: Bytes) -> PageRun:
        count, stop = self._reader.read(file, page, buffer)
        if count == 0:
            why = "the file ends before it" if stop is PageStop.FILE_END else "nothing has been written there"
            raise CorruptError(
                "OOB_REFERENCE",
                f"out-of-band data should be here, but {why}",
                at=file.place(page),
                hint="The file is incomplete, or not of the same log as the transaction that needs it",
            )
        return PageRun(file.file_no, page, count, buffer[: count * file.page_size])
