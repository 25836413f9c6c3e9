"""A modelled redo log: `RedoLog` knows which part of the log a crash leaves.

A mini-transaction is one record of the log, or the few that belong together: all of it is recovered, or nothing. What
is durable ends with a mini-transaction, and with it the log ends after a crash. The changes of pages are kept since the
last checkpoint, and the page that was not full then, whole: a server logs that one whole when it goes on in it.

The redo log lives in memory: it outlives a modelled crash (`BinlogWriter.crash`), not the process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from binlog_lab.innodb_writer.options import RedoSync

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_lab.innodb_writer.record_scan import PagePlace

REDO_SIZE_MAX = 96 << 20
"""Bytes of changes since the last checkpoint that call for the next one: the server's default size of its redo log."""

RECOVERED_FILES = 2
"""Recovery touches the last two files only."""


class PageChange(NamedTuple):
    """Bytes written into a page; at offset 0 they begin it."""

    file_no: int
    page_no: int
    page_offset: int
    data: bytes


class _MiniTransaction(NamedTuple):
    lsn: int
    end: PagePlace
    changes: list[PageChange]


class RedoLog:
    """Redo of what has been written since the last checkpoint.

    Args:
        sync: When it becomes durable.
        place: Where the log ends now; up to here everything is on the disk, its last page apart.
        page: Bytes of the page there, in front of the place.
        lsn: Log sequence number there.

    Attributes:
        durable_lsn: Log sequence number up to which it survives a crash.
    """

    def __init__(self, sync: RedoSync, place: PagePlace, page: bytes, lsn: int) -> None:
        self._sync_setting = sync
        self._waiting: list[_MiniTransaction] = []
        self._durable: list[_MiniTransaction] = []
        self._open: list[PageChange] = []
        self._size = 0
        self._closed_below = 0
        self._start, self._start_page = place, page
        self.durable_lsn = lsn

    @property
    def is_explicit(self) -> bool:
        """True if only `sync` makes it durable (`RedoSync.EXPLICIT`)."""
        return self._sync_setting == RedoSync.EXPLICIT

    @property
    def is_full(self) -> bool:
        """True if a checkpoint is due."""
        return self._size > REDO_SIZE_MAX and not self.is_explicit

    @property
    def end(self) -> PagePlace:
        """End of the log if the server crashes now."""
        return self._durable[-1].end if self._durable else self._start

    def log(self, file_no: int, page_no: int, page: bytearray, start: int, end: int) -> None:
        """Bytes *start* to *end* of *page* have been written, by the mini-transaction that is open."""
        self._open.append(PageChange(file_no, page_no, start, bytes(page[start:end])))

    def commit(self, end: PagePlace, lsn: int) -> None:
        """End the open mini-transaction: the log ends at *end*, with *lsn*."""
        self._size += sum(len(change.data) for change in self._open)
        self._waiting.append(_MiniTransaction(lsn, end, self._open))
        self._open = []
        if self.is_explicit:
            self._keep_recoverable(end.file_no)

    def group_committed(self) -> None:
        """A transaction has ended: with `RedoSync.COMMIT` everything up to here is durable."""
        if self._sync_setting == RedoSync.COMMIT:
            self.sync()

    def sync(self) -> None:
        """Make everything up to here durable."""
        self._make_durable(len(self._waiting))

    def checkpoint(self, place: PagePlace, page: bytes) -> None:
        """Everything up to *place* is in the files and synced, *page* being its last page; the redo of it goes."""
        if self.is_explicit:
            return
        self.sync()
        self._start, self._start_page = place, page
        self._durable.clear()
        self._size = 0

    def file_closed(self, file_no: int) -> None:
        """All of file *file_no* is written and synced; then the redo log is synced, too."""
        self._closed_below = file_no + 1
        if self.is_explicit:
            self._trim()
        else:
            self.sync()

    def recovered_pages(self) -> Iterator[tuple[int, int, bytearray]]:
        """Pages that recovery writes: file, page and its bytes, without zeros at the end.

        Pages of a file that was closed, which are in the file, are among them where a change of them is left.
        """
        pages: dict[tuple[int, int], bytearray] = {}
        if self._start_page:
            pages[self._start.file_no, self._start.page_no] = bytearray(self._start_page)
        for transaction in self._durable:
            for file_no, page_no, start, data in transaction.changes:
                page = pages.get((file_no, page_no))
                if start == 0:
                    pages[file_no, page_no] = bytearray(data)
                elif page is not None:  # else its file is closed, and the changes before this one were dropped
                    page[start:] = data
        for (file_no, page_no), page in sorted(pages.items()):
            yield file_no, page_no, page

    def _make_durable(self, count: int) -> None:
        if count > 0:
            self._durable += self._waiting[:count]
            del self._waiting[:count]
            self.durable_lsn = self._durable[-1].lsn
        self._trim()

    def _keep_recoverable(self, active_file_no: int) -> None:
        """Make the log before the last two files durable: it cannot be undone, whatever the settings are."""
        first = active_file_no - (RECOVERED_FILES - 1)
        count = 0
        while count < len(self._waiting) and any(change.file_no < first for change in self._waiting[count].changes):
            count += 1
        self._make_durable(count)

    def _trim(self) -> None:
        """Forget changes of closed files, unless the log would end in one of them."""
        limit = min(self.end.file_no, self._closed_below)
        done = 0
        while done < len(self._durable) and self._durable[done].end.file_no < limit:
            self._size -= sum(len(change.data) for change in self._durable[done].changes)
            done += 1
        if done > 0:
            self._start, self._start_page = self._durable[done - 1].end, b""
            del self._durable[:done]
