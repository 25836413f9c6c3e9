"""The `.ibb` files of a directory: `LogFiles` opens them by number and verifies their headers.

A live server makes files before it uses them, cuts the last one, purges the first ones and may begin anew.
Each file is looked up again whenever it is needed.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_format.errors import BinlogError, CorruptError, DataLossError
from binlog_format.innodb.header import FileHeader, file_name, file_number, read_header
from binlog_format.innodb.layout import (
    HEADER_SIZE,
    PAGE_CHECKSUM_SIZE,
    PAGE_SIZE_DEFAULT,
    PAGE_SIZE_LOG2_MAX,
    PAGE_SIZE_LOG2_MIN,
    PAGE_SIZE_MAX,
)
from binlog_format.innodb.pages.checksum import bad_checksum, page_checksum, stored_checksum
from binlog_format.kernels import as_bytes, empty_bytes
from binlog_format.position import Place

if TYPE_CHECKING:
    from binlog_format.source_file import Directory, SourceFile

OPEN_FILES_MAX = 8
"""Descriptors kept: the file being read, its neighbours, and those that out-of-band data comes from."""

READ_ATTEMPTS = 4
"""A page that is written while it is read looks torn; the next read finds it whole."""

_HEADER_HINT = "The header page is damaged; take the file from a backup"


@dataclass(slots=True)
class OpenFile:
    """A file that has been begun, with a good header. *source*: bytes of the file. *header*: its header."""

    file_no: int
    source: SourceFile
    header: FileHeader

    @property
    def name(self) -> str:
        """File name."""
        return self.source.name

    @property
    def page_size(self) -> int:
        """Page size in bytes."""
        return self.header.page_size

    def page_count(self) -> int:
        """Whole pages that the file has now; a rest after them does not count."""
        return self.source.size() // self.page_size

    def place(self, page: int, byte_in_page: int = 0) -> Place:
        """A place in this file for an error."""
        return Place(self.source.path, page=page, byte=page * self.page_size + byte_in_page)


class LogFiles:
    """Files of one log, opened by number.

    Args:
        only: Name of the one file that the caller gave; it is found under its number whatever it is called.
    """

    def __init__(self, directory: Directory, only: str | None = None) -> None:
        self._directory = directory
        self._open: dict[int, OpenFile] = {}
        self._page_size: int | None = None
        self._names: dict[int, str] = {}
        self.only: int | None = None
        if only is not None:
            self.only = self._number_of(only)
            self._names[self.only] = only

    def numbers(self) -> list[int]:
        """Numbers of the files that are there now (or of the only one), ascending."""
        if self.only is not None:
            return [self.only]
        return self._listed()

    def _listed(self) -> list[int]:
        return sorted(number for number in map(file_number, self._directory.names()) if number is not None)

    def last_number(self) -> int:
        """Number of the last file that is there, begun or not; -1: there is none."""
        return max(self._listed(), default=-1)

    def name(self, file_no: int) -> str:
        """Name of file *file_no*."""
        return self._names.get(file_no, file_name(file_no))

    def path(self, file_no: int) -> str:
        """Path of file *file_no*, for messages."""
        return self._directory.path_of(self.name(file_no))

    def size(self, file_no: int) -> int | None:
        """Size in bytes of file *file_no*, begun or not; None: it is not there."""
        entry = self._directory.entry(self.name(file_no))
        return None if entry is None else entry.size

    def begun(self, file_no: int) -> OpenFile | None:
        """Open file *file_no*; None when it is not there, or nothing has been written into it yet."""
        known = self._open.get(file_no)
        if known is not None:
            return known
        try:
            source = self._directory.open(self.name(file_no))
        except FileNotFoundError:
            return None
        try:
            header = self._read_header(source, file_no)
        except BaseException:
            source.close()
            raise
        if header is None:
            source.close()
            return None
        self._page_size = self._page_size or header.page_size
        if self._page_size != header.page_size:
            reason = f"page size: the other files have {self._page_size}, this one has {header.page_size}"
            raise CorruptError("HEADER", reason, at=Place(source.path, page=0, byte=4))
        if len(self._open) >= OPEN_FILES_MAX:
            # Not closed: whoever reads from it still holds it; the descriptor goes with the last reference.
            self._open.pop(next(iter(self._open)))
        opened = self._open[file_no] = OpenFile(file_no, source, header)
        return opened

    def existing(self, file_no: int) -> OpenFile:
        """Open file *file_no*, which must be there: something refers to it."""
        opened = self.begun(file_no)
        if opened is not None:
            return opened
        path = self.path(file_no)
        if self.size(file_no) is None:
            raise DataLossError(
                "FILE_PURGED",
                "the file is not there, but it is needed",
                at=Place(path),
                hint="The server has purged it, or it was not copied; start from a later position, or bring it back",
            )
        raise CorruptError("HEADER", "the file is empty, but it should hold data", at=Place(path, page=0, byte=0))

    def later_begun(self, file_no: int) -> int | None:
        """Number of a file after *file_no* + 1 that has been begun; None: there is none."""
        later = (number for number in reversed(self._listed()) if number > file_no + 1)
        return next((number for number in later if self.begun(number) is not None), None)

    def check_same(self, file: OpenFile) -> None:
        """Check that *file* is still the one of its name, or gone, before going on to the next one."""
        self._open.pop(file.file_no, None)
        now = self.begun(file.file_no)
        if now is not None and now.header != file.header:
            raise DataLossError(
                "LOG_RESET",
                f"another file has taken its name: LSN {file.header.lsn} before, {now.header.lsn} now",
                at=file.place(0),
                hint="The log was begun anew (RESET MASTER); what was not read of the old one is gone",
            )

    def refresh(self) -> None:
        """Forget open files: the next look finds what has their names then. Readers under way keep theirs."""
        self._open.clear()

    def close(self) -> None:
        """Close all files."""
        for opened in self._open.values():
            opened.source.close()
        self._open.clear()

    def _number_of(self, name: str) -> int:
        number = file_number(name)
        if number is not None:
            return number
        source = self._directory.open(name)
        try:
            header = self._read_header(source, None)
        finally:
            source.close()
        return 0 if header is None else header.file_no

    def _read_header(self, source: SourceFile, file_no: int | None) -> FileHeader | None:
        # Nearly always one page is enough; what is not good is looked at with what follows it.
        head = empty_bytes(self._page_size or PAGE_SIZE_DEFAULT)
        if source.read_into(0, head) == len(head):
            with contextlib.suppress(BinlogError):
                header = _verified_header(head.data, source.path, file_no)
                if header is not None:
                    return header
        head = empty_bytes(PAGE_SIZE_MAX)
        attempt = 0
        while True:
            attempt += 1
            size = source.read_into(0, head)
            if size < HEADER_SIZE:
                return None
            try:
                return _verified_header(head[:size].data, source.path, file_no)
            except BinlogError as error:
                if attempt < READ_ATTEMPTS:
                    continue
                if _is_unfinished_header(head[:size].data, error) and self._is_last(source.name):
                    return None
                raise

    def _is_last(self, name: str) -> bool:
        """True if no file after *name* has been begun; a header is written when all files before it are complete."""
        number = file_number(name)
        return number is not None and all(self.begun(later) is None for later in self._listed() if later > number)


def _is_unfinished_header(head: memoryview, error: BinlogError) -> bool:
    """True if *head*, which has *error*, may be a header page whose write is under way or was interrupted.

    Sector by sector a header page is zero up to the checksum at its end, apart from its first 512 bytes: either is
    whole, or not there; and there is nothing after it.
    """
    first, rest = bytes(head[:HEADER_SIZE]), bytes(head[HEADER_SIZE:])
    if first.strip(b"\0"):
        return error.condition == "BINLOG_CORRUPT.PAGE_CHECKSUM" and not rest.strip(b"\0")
    sizes = (1 << bits for bits in range(PAGE_SIZE_LOG2_MIN, PAGE_SIZE_LOG2_MAX + 1))
    ends = ((size - PAGE_CHECKSUM_SIZE - HEADER_SIZE, size - HEADER_SIZE) for size in sizes if size > HEADER_SIZE)
    return any(not rest[:start].strip(b"\0") and not rest[end:].strip(b"\0") for start, end in ends)


def _verified_header(head: memoryview, path: str, file_no: int | None) -> FileHeader | None:
    header = read_header(bytes(head[:HEADER_SIZE]), path, file_no)
    if header is None:
        if as_bytes(head).any():
            reason = "the header is empty, but there are data after it"
            raise CorruptError("HEADER", reason, at=Place(path, page=0, byte=0), hint=_HEADER_HINT)
        return None
    if len(head) < header.page_size:
        return None
    page = head[: header.page_size]
    if stored_checksum(page) != page_checksum(page):
        raise bad_checksum(page, Place(path, page=0, byte=0), _HEADER_HINT)
    return header
