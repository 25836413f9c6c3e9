"""The files of a log that is being written: `FileSet` makes them ahead, cuts, syncs and closes them.

The file after the active one is made when the one before it is complete, synced and closed. So when file N+2 exists,
file N is whole and durable. A file made ahead is all zero, header included.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from binlog_format.innodb.header import file_name, file_number
from binlog_format.innodb.layout import PAGE_CHECKSUM_SIZE
from binlog_lab.innodb_writer.encoding import set_page_checksum

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from binlog_lab.innodb_writer.options import WriterOptions

_PAGES_PER_CALL = 64
"""Pages handed to one system call; well below IOV_MAX."""


class WriterFile:
    """One file, open for writing.

    Attributes:
        page_count: Pages that records may take; FLUSH can make the file shorter than this.
    """

    def __init__(self, path: Path, file_no: int, page_size: int) -> None:
        self.file_no = file_no
        self._page_size = page_size
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o660)
        self.page_count = os.fstat(self._descriptor).st_size // page_size

    def write_pages(self, first_page_no: int, pages: Sequence[bytearray]) -> None:
        """Write whole pages that lie one after the other, and put the checksum into each."""
        for page in pages:
            set_page_checksum(page)
        for start in range(0, len(pages), _PAGES_PER_CALL):
            self._write((first_page_no + start) * self._page_size, pages[start : start + _PAGES_PER_CALL])

    def _write(self, file_offset: int, pages: Sequence[bytearray]) -> None:
        size = len(pages) * self._page_size
        done = os.pwritev(self._descriptor, pages, file_offset)
        if done < size:  # a signal or a full disk; the second try tells which
            rest = memoryview(b"".join(pages))
            while done < size:
                done += os.pwrite(self._descriptor, rest[done:], file_offset + done)

    def shorten_page(self, page_no: int, data: bytes) -> None:
        """Put zeros after *data*, the first bytes of a page.

        The checksum goes first: when the rest is interrupted, it shows how much of the page is right.
        """
        page = bytearray(data.ljust(self._page_size, b"\0"))
        set_page_checksum(page)
        checksum_offset = (page_no + 1) * self._page_size - PAGE_CHECKSUM_SIZE
        os.pwrite(self._descriptor, page[-PAGE_CHECKSUM_SIZE:], checksum_offset)
        self.write_pages(page_no, [page])

    def zero_pages(self, first_page_no: int, count: int) -> None:
        """Write zeros over whole pages, without checksums: as if they had never been written."""
        self._write(first_page_no * self._page_size, [bytearray(self._page_size)] * count)

    def set_size(self, page_count: int) -> None:
        """Make the file *page_count* pages long; what is new is allocated and zero."""
        size = page_count * self._page_size
        os.ftruncate(self._descriptor, min(size, os.fstat(self._descriptor).st_size))
        if size > 0:
            os.posix_fallocate(self._descriptor, 0, size)

    def sync(self) -> None:
        """Wait until everything written is on the disk."""
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._descriptor)


class FileSet:
    """The active file, the one before it until its pages are written, and the one made ahead.

    Args:
        options: Sizes, and whether to sync.
    """

    def __init__(self, directory: Path, options: WriterOptions) -> None:
        self._directory = directory
        self._options = options
        self._active: WriterFile | None = None
        self._next: WriterFile | None = None
        self.older: WriterFile | None = None

    @property
    def active(self) -> WriterFile:
        """The file that is being written."""
        assert self._active is not None, "no file is open"
        return self._active

    def create(self, file_no: int) -> None:
        """Make *file_no* and have it as the active file."""
        self._active = self._create(file_no)

    def open(self, file_no: int, *, page_count: int | None) -> None:
        """Open *file_no*, which exists, as the active file.

        Args:
            page_count: Size to give it; None: it keeps its own.
        """
        self._active = self._open(file_no)
        if page_count is not None:
            self._active.set_size(page_count)
            self._active.page_count = page_count

    def advance(self) -> WriterFile:
        """Go on to the next file; the caller writes the older one's pages and then calls `retire_older`."""
        assert self.older is None, "the file before the active one is still open"
        file = self._next if self._next is not None else self._create(self.active.file_no + 1)
        self.older, self._active, self._next = self.active, file, None
        return file

    def retire_older(self) -> None:
        """All pages of the file before the active one are written: sync and close it, then make the next file."""
        if self.older is not None:
            self.sync(self.older)
            self.older.close()
            self.older = None
        self.make_next()

    def make_next(self) -> None:
        """Make the file after the active one, if that is wanted and it is not there yet."""
        if self._options.preallocate and self._next is None:
            self._next = self._create(self.active.file_no + 1)

    def sync(self, file: WriterFile) -> None:
        """Sync *file*, if syncing is wanted."""
        if self._options.sync:
            file.sync()

    def close(self) -> None:
        """Close whatever is open."""
        for file in (self.older, self._active, self._next):
            if file is not None:
                file.close()
        self.older = self._active = self._next = None

    def _open(self, file_no: int) -> WriterFile:
        return WriterFile(self._directory / file_name(file_no), file_no, self._options.page_size)

    def _create(self, file_no: int) -> WriterFile:
        """A file of full size, all zero; one that a killed writer left unfinished is brought to size."""
        path = self._directory / file_name(file_no)
        file = self._open(file_no)
        try:
            file.set_size(self._options.page_count)
        except OSError:
            file.close()
            path.unlink()
            raise
        file.page_count = self._options.page_count
        return file


def find_files(directory: Path) -> dict[int, Path]:
    """The binlog files of *directory* by number."""
    found = {}
    for path in directory.iterdir():
        file_no = file_number(path.name)
        if file_no is not None:
            found[file_no] = path
    return found
