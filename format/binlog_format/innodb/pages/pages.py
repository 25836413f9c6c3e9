"""Verified pages of a log, in order: `PageReader`.

Nothing in a page is believed before its checksum is verified. What is not there yet is told from damage by what lies
after: the server writes pages strictly in order, so a page is final once a later one, or the next file's header, is
on disk.

Runs of verified pages, found by file and page: `PageRun`, and the small cache `PageRuns`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.block import EVENT_DTYPE, Recycler
from binlog_format.errors import CorruptError, DataLossError
from binlog_format.innodb.files import READ_ATTEMPTS
from binlog_format.innodb.layout import PAGE_SIZE_MAX
from binlog_format.innodb.pages.checksum import PageState, bad_checksum, verify_pages
from binlog_format.innodb.tables import Pages
from binlog_format.kernels import empty_bytes
from binlog_format.source_file import LocalFile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from binlog_format.innodb.files import LogFiles, OpenFile
    from binlog_format.kernels import Bytes


READ_SIZE = 256 << 10
"""Bytes of a local file read at a time: checksums are computed while they are in the processor's cache, and at the end
of a live log, whose file is longer than what is written, little is read in vain."""


DAMAGED_PAGE = "The page is damaged; take the file from a backup, or start after it"
"""Hint for a page whose checksum is wrong."""


class PageStop(Enum):
    """Reason why no more pages were given."""

    FULL = "the buffer is full"
    FILE_END = "the file has no more pages"
    NOT_YET = "the next page has not been written, or not completely"


class PageReader:
    """Reads runs of verified pages.

    Attributes:
        page_buffers: Memory for windows of pages, used again by the next read of the log.
        data_buffers: The same for event bytes.
        event_tables: The same for event tables.

    Args:
        check_end: Tells whether a file is whole before reading goes on in the next one; False: not yet to be told.
    """

    def __init__(self, files: LogFiles, check_end: Callable[[PageReader, OpenFile, OpenFile], bool]) -> None:
        self.files = files
        self.page_buffers = Recycler(np.dtype(np.uint8))
        self.data_buffers = Recycler(np.dtype(np.uint8))
        self.event_tables = Recycler(EVENT_DTYPE)
        self._check_end = check_end
        self._whole_files: set[tuple[int, int]] = set()
        self._page = empty_bytes(PAGE_SIZE_MAX)

    def read(self, file: OpenFile, page: int, buffer: Bytes) -> tuple[int, PageStop]:
        """Fill *buffer* with good pages of *file* from *page* on.

        Returns:
            How many pages were given, and why not more.

        Raises:
            CorruptError: `PAGE_CHECKSUM`: the very first page is damaged, and waiting will not help. Damage further on
                shows when the read begins there.
        """
        page_size = file.page_size
        # Elsewhere each part would be a request.
        step = max(READ_SIZE if isinstance(file.source, LocalFile) else len(buffer), page_size) // page_size
        count = 0
        while count * page_size < len(buffer):
            part = buffer[count * page_size :][: step * page_size]
            size = file.source.read_into((page + count) * page_size, part)
            good, state = verify_pages(part[: size - size % page_size], page_size)
            count += good
            if state is not PageState.GOOD:
                # The caller comes back for the page that is not good.
                return (count, PageStop.FULL) if count > 0 else self._judge(file, page, buffer[:page_size])
            if good * page_size < len(part):
                return count, PageStop.FILE_END
        return count, PageStop.FULL

    def reread(self, file: OpenFile, page: int, target: Bytes) -> bool:
        """Read one page again; False: it is still not good."""
        page_size = file.page_size
        scratch = self._page[:page_size]
        if file.source.read_into(page * page_size, scratch) < page_size:
            return False
        if verify_pages(scratch, page_size)[1] is not PageState.GOOD:
            return False
        target[:] = scratch
        return True

    def next_file(self, file: OpenFile) -> OpenFile | None:
        """The file after *file*, whose last page has been read; None when it has not been begun."""
        following = self.files.begun(file.file_no + 1)
        if following is None:
            later = self.files.later_begun(file.file_no)
            if later is None:
                return None
            following = self.files.existing(file.file_no + 1)
        self.files.check_same(file)
        return following if self._is_whole(file, following) else None

    def _is_whole(self, file: OpenFile, following: OpenFile) -> bool:
        known = file.file_no, file.header.lsn
        if known in self._whole_files:
            return True
        # Noted before the check, which may itself read on into the next file.
        self._whole_files.add(known)
        is_whole = False
        try:
            is_whole = self._check_end(self, file, following)
        finally:
            if not is_whole:
                self._whole_files.discard(known)
        return is_whole

    def has_data_after(self, file: OpenFile, page: int) -> str | None:
        """Proof that something was written after *page* of *file*, for a message; None: there is none."""
        if page + 1 < file.page_count():
            following = self._page[: file.page_size]
            if file.source.read_into((page + 1) * file.page_size, following) == file.page_size and following.any():
                return f"page {page + 1}"
        if self.files.begun(file.file_no + 1) is not None:
            return self.files.name(file.file_no + 1)
        # The server makes file N+2 only when N is complete and on disk, so its existence is enough.
        if self.files.size(file.file_no + 2) is not None:
            return self.files.name(file.file_no + 2)
        later = self.files.later_begun(file.file_no)
        return None if later is None else self.files.name(later)

    def _judge(self, file: OpenFile, page: int, target: Bytes) -> tuple[int, PageStop]:
        """Decide about a page that is not good: read it again, look after it, and read it once more."""
        for _ in range(READ_ATTEMPTS):
            if self.reread(file, page, target):
                return 1, PageStop.FULL
            if page >= file.page_count():
                return 0, PageStop.FILE_END
        after = self.has_data_after(file, page)
        if after is None:
            return 0, PageStop.NOT_YET
        # Now that something follows it the page is final; it may have become so between the two looks.
        if self.reread(file, page, target):
            return 1, PageStop.FULL
        if page >= file.page_count():
            return 0, PageStop.FILE_END
        self.files.check_same(file)
        self.files.existing(file.file_no)  # of one that was purged meanwhile nobody knows what it became
        if not target.any() and not after.startswith("page"):
            raise DataLossError(
                "TRUNCATED_TRANSACTION",
                f"nothing has been written from here on, though {after} was made after it",
                at=file.place(page),
                hint="The file was cut off or copied before it was complete; copy it again",
            )
        raise bad_checksum(target.data, file.place(page), DAMAGED_PAGE, f"; {after} was written after it")


RUN_SIZE_MAX = 1 << 20
"""Bytes read ahead where data lie in order."""

SINGLE_PAGES_MAX = 64
"""Pages kept of those that are looked at alone: roots of trees, each referred to by the next one."""


@dataclass(frozen=True, slots=True)
class PageRun:
    """Good pages of one file, one after the other. *data*: bytes of the pages."""

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


@dataclass(slots=True)
class PageRuns:
    """Gives the run that holds a page; reads it when none does.

    Attributes:
        borrowed: Runs that someone else has read, where pages are looked for, too.
    """

    reader: PageReader
    borrowed: Sequence[PageRun] = ()
    _ahead: PageRun | None = None
    _buffer: Bytes = field(default_factory=lambda: empty_bytes(0))
    _singles: dict[tuple[int, int], PageRun] = field(default_factory=dict)

    def forget(self) -> None:
        """Drop everything: pages may have changed."""
        self.borrowed = ()
        self._ahead = None
        self._singles.clear()

    def find(self, file_no: int, page: int) -> PageRun | None:
        """The run that holds *page*, when one does already."""
        for run in self.borrowed:
            if run.holds(file_no, page):
                return run
        if self._ahead is not None and self._ahead.holds(file_no, page):
            return self._ahead
        return None

    def get(self, file_no: int, page: int, *, ahead: int = 1) -> PageRun:
        """The run that holds *page*.

        Args:
            ahead: Pages worth reading from there on when it has to be read; 1: it is wanted alone.
        """
        run = self.find(file_no, page)
        if run is not None:
            return run
        single = self._singles.get((file_no, page))
        if single is not None and ahead == 1:
            return single
        file = self.reader.files.existing(file_no)
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
        count, stop = self.reader.read(file, page, buffer)
        if count == 0:
            why = "the file ends before it" if stop is PageStop.FILE_END else "nothing has been written there"
            raise CorruptError(
                "OOB_REFERENCE",
                f"out-of-band data should be here, but {why}",
                at=file.place(page),
                hint="The file is incomplete, or not of the same log as the transaction that needs it",
            )
        return PageRun(file.file_no, page, count, buffer[: count * file.page_size])
