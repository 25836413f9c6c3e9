"""Consecutive verified pages of a log in one buffer, over file ends: `PageWindow`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from binlog_format.innodb.layout import FIRST_DATA_PAGE
from binlog_format.innodb.pages.pages import PageRun, PageStop
from binlog_format.innodb.tables import Pages
from binlog_format.kernels import empty_bytes
from binlog_format.position import Position

if TYPE_CHECKING:
    from binlog_format.innodb.files import OpenFile
    from binlog_format.innodb.pages.pages import PageReader
    from binlog_format.kernels import Bytes, Int64s

PAGES_MIN = 8
"""A window holds at least so many pages, however large they are."""

PAST_WINDOWS_MAX = 7
"""Windows kept when asked to: reading their pages again, and verifying them, takes longer than what else is done."""


class PageWindow:
    """A buffer of pages that moves forward through the log.

    Attributes:
        data: The pages, `capacity` of them; the first `count` are filled.
        passed: Pages that were there before them and have been let go.
        file_no: File of each page.
        page_start: Byte in its file where each page is.
        at_end: The last fill stopped because nothing more is there yet.
        limited: The last fill stopped at its limit.
        file: The file that is being read.
        retains: Keep what the window holds now for `runs`, though it moves on; set for one move.

    Args:
        size: Bytes of the buffer.
    """

    def __init__(self, reader: PageReader, file: OpenFile, page: int, size: int) -> None:
        self._reader = reader
        self.file = file
        self._next_page = page
        self.page_size = file.page_size
        self.capacity = max(size // self.page_size, PAGES_MIN)
        self.data = self._buffer()
        self.file_no: Int64s = np.zeros(self.capacity, dtype=np.int64)
        self.page_start: Int64s = np.zeros(self.capacity, dtype=np.int64)
        self.count = 0
        self.passed = 0
        self.at_end = False
        self.limited = False
        self.retains = False
        self._past: list[tuple[Bytes, list[PageRun]]] = []

    def path(self, file_no: int) -> str:
        """Path of a file, for messages."""
        return self._reader.files.path(file_no)

    def fill(self, limit: Position | None, page_count: int) -> None:
        """Read on until the buffer is full, *limit* is reached, or nothing more is there.

        Args:
            limit: Pages from here on are not wanted.
            page_count: Read at most so many.

        Raises:
            BinlogError: The next page is damaged. Those before it have been taken.
        """
        self.at_end = False
        self.limited = False
        target = min(self.count + page_count, self.capacity)
        while self.count < target:
            wanted = self._wanted(limit, target - self.count)
            if wanted == 0:
                self.limited = True
                return
            start = self.count * self.page_size
            buffer = self.data[start : start + wanted * self.page_size]
            count, stop = self._reader.read(self.file, self._next_page, buffer)
            self.file_no[self.count : self.count + count] = self.file.file_no
            numbers = np.arange(self._next_page, self._next_page + count, dtype=np.int64)
            self.page_start[self.count : self.count + count] = numbers * self.page_size
            self.count += count
            self._next_page += count
            if stop is PageStop.FILE_END and not self._next_file(limit):
                return
            if stop is PageStop.NOT_YET:
                self.at_end = True
                return

    def _wanted(self, limit: Position | None, room: int) -> int:
        """Number of pages that may be read from the present file."""
        if limit is None or self.file.file_no < limit.file_no:
            return room
        if self.file.file_no > limit.file_no:
            return 0
        page_end = limit.page + (1 if limit.chunk > 0 else 0)
        return max(min(room, page_end - self._next_page), 0)

    def _next_file(self, limit: Position | None) -> bool:
        if limit is not None and Position(self.file.file_no + 1, FIRST_DATA_PAGE, 0) >= limit:
            self.limited = True
            return False
        following = self._reader.next_file(self.file)
        if following is None:
            self.at_end = True
            return False
        # The next file has been begun, so that this one is final: it may have grown since it was read.
        if self.file.page_count() <= self._next_page:
            self.file = following
            self._next_page = FIRST_DATA_PAGE
        return True

    def position(self, page: int, chunk: int) -> Position:
        """The position of a chunk.

        Args:
            page: Index in the window; `count`: the page after it.
            chunk: Number of the chunk in the page.
        """
        if page >= self.count:
            return Position(self.file.file_no, self._next_page, chunk)
        return Position(int(self.file_no[page]), int(self.page_start[page]) // self.page_size, chunk)

    def keep(self, first: int, end: int) -> None:
        """Keep the pages from index *first* up to *end*; go on reading with page *end*."""
        if end < self.count:
            position = self.position(end, 0)
            if position.file_no != self.file.file_no:
                self.file = self._reader.files.existing(position.file_no)
            self._next_page = position.page
        self.passed += first
        size = (end - first) * self.page_size
        target = self._next_buffer(end)
        target[:size] = self.data[first * self.page_size : end * self.page_size]
        self.data = target
        self.file_no[: end - first] = self.file_no[first:end].copy()
        self.page_start[: end - first] = self.page_start[first:end].copy()
        self.count = end - first

    def pages(self) -> Pages:
        """The window as kernels take it."""
        data = self.data[: self.count * self.page_size]
        return Pages(data, self.page_size, self.file_no[: self.count], self.page_start[: self.count])

    def runs(self) -> list[PageRun]:
        """The pages as runs, one for each file; and those that have been retained."""
        return self._runs_before(self.count) + [run for _, runs in reversed(self._past) for run in runs]

    def _next_buffer(self, end: int) -> Bytes:
        """The buffer to go on with; when the present one is retained, pages from index *end* on are not worth it."""
        if not self.retains:
            return self.data
        self.retains = False
        self._past.append((self.data, self._runs_before(end)))
        if len(self._past) <= PAST_WINDOWS_MAX:
            return self._buffer()
        return self._past.pop(0)[0]

    def _buffer(self) -> Bytes:
        size = self.capacity * self.page_size
        return cast("Bytes", self._reader.page_buffers.take(size))[:size]

    def _runs_before(self, page_end: int) -> list[PageRun]:
        found = []
        first = 0
        while first < page_end:
            file_no = self.file_no[first]
            end = int(np.searchsorted(self.file_no[:page_end], file_no, side="right"))
            data = self.data[first * self.page_size : end * self.page_size]
            first_page = int(self.page_start[first]) // self.page_size
            found.append(PageRun(int(file_no), first_page, end - first, data))
            first = end
        return found

    def next_is_empty(self) -> bool:
        """True if the page after the window exists and is zero (not merely torn)."""
        page = empty_bytes(self.page_size)
        size = self.file.source.read_into(self._next_page * self.page_size, page)
        return size < self.page_size or not page.any()
