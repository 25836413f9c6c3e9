"""A log, and a cheap look at its files without scanning them: `WatchedLog`.

`resume.py` keeps in offsets what this module shows (identities of files, the bytes right before a position) and
compares it later. Only here is known how each format shows it.
"""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING, Protocol

import crc32c

from binlog_connector.following.pages import consumed_chunks, masked_classic_page
from binlog_format import open_log
from binlog_format.classic.layout import VIRTUAL_PAGE_SIZE
from binlog_format.errors import StartError
from binlog_format.innodb.layout import CHUNK_END_OF_DATA, FIRST_DATA_PAGE
from binlog_format.kernels import empty_bytes
from binlog_format.log import Bound
from binlog_format.position import Position
from binlog_format.source_file import open_directory

if TYPE_CHECKING:
    from binlog_format.log import Log
    from binlog_format.source_file import Directory, SourceFile


class _Files(Protocol):
    def names(self) -> dict[int, str]:
        """Names of the files that are there now, by number, ascending."""

    def identity(self, file_no: int) -> str:
        """See `WatchedLog.identity`; of a file that is there."""

    def consumed(self, position: Position) -> bytes | None:
        """Bytes of the last page before *position*, of a file that is there."""

    def used_size(self, file_no: int) -> int:
        """Bytes up to the end of data, or of the page that it is in; 0 for a file that is not there."""


class WatchedLog:
    """A log as a query sees it over time; a context manager, like the log.

    Args:
        path: Directory of the binlog files, one file, or a URL.
        format_name: The format that the log must have; None: whatever it is.
        bound: How far reading may go.

    Attributes:
        log: The log itself.

    Raises:
        StartError: `NO_LOG_FILES`, and what else `open_log` raises.
    """

    def __init__(self, path: str, format_name: str | None = None, *, bound: Bound = Bound.VISIBLE) -> None:
        self.log: Log = open_log(path, format_name=format_name, bound=bound)
        self._directory, only = open_directory(path)
        kind = _InnodbFiles if self.log.format_name == "innodb" else _ClassicFiles
        self._files: _Files = kind(self._directory, only)
        self._names: dict[int, str] | None = None
        if not self.names():
            self.log.close()
            raise StartError(
                "NO_LOG_FILES",
                f"{path}: there are no binlog files of the format {self.log.format_name}",
                hint="Leave the option format away: the format is detected",
            )

    def __enter__(self) -> WatchedLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.log.close()

    def names(self) -> dict[int, str]:
        """Names of the files by number, ascending, as the directory was when this object first looked."""
        if self._names is None:
            self._names = self._files.names()
        return self._names

    def path_of(self, name: str) -> str:
        """Path of the file of that name, for messages."""
        return self._directory.path_of(name)

    def last_number(self) -> int:
        """Number of the last file that is there, written or not."""
        return max(self.names())

    def has(self, file_no: int) -> bool:
        """Whether a file is there; looks at the directory again before it says no."""
        if file_no not in self.names():
            self._names = self._files.names()
        return file_no in self.names()

    def identity(self, file_no: int) -> str:
        """Who wrote a file: `order:detail`, a larger order is a file written later; empty for one not written yet."""
        return self._files.identity(file_no)

    def consumed_crc(self, position: Position) -> int | None:
        """CRC-32C of the last page's bytes before *position*.

        None when nothing lies before it in its file, and when there are not so many bytes (any more).
        """
        consumed = self._files.consumed(position)
        return None if consumed is None else crc32c.crc32c(consumed)

    def last_written(self) -> int | None:
        """Number of the newest file that something has been written into."""
        return next((file_no for file_no in reversed(self.names()) if self.identity(file_no)), None)

    def end_of_bytes(self) -> Position:
        """About where the data on disk ends, by sizes alone: for a display, never to read from."""
        file_no = self.last_written()
        if file_no is None:
            return self.log.start_position()
        return Position(file_no, *divmod(self._files.used_size(file_no), VIRTUAL_PAGE_SIZE))


def file_start(file_no: int) -> Position:
    """Before everything in file *file_no*, in every format."""
    return Position(file_no, 0, 0)


def written_order(identity: str) -> int:
    """When the file of *identity* was written, on a scale that only compares; -1 for none."""
    return int(identity.partition(":")[0]) if identity else -1


class _InnodbFiles:
    def __init__(self, directory: Directory, only: str | None) -> None:
        from binlog_format.innodb.files import LogFiles

        self._files = LogFiles(directory, only)

    def names(self) -> dict[int, str]:
        return {number: self._files.name(number) for number in self._files.numbers()}

    def identity(self, file_no: int) -> str:
        file = self._files.begun(file_no)
        # A file is begun once, at an LSN that no other file has; a log that was reset goes on at a higher one.
        return "" if file is None else f"{file.header.lsn}:{file.header.file_no}"

    def used_size(self, file_no: int) -> int:
        file = self._files.begun(file_no)
        if file is None:
            return 0
        # Pages are written in order, and the first byte of one that is not written yet is 0.
        page_count = bisect.bisect_left(
            range(FIRST_DATA_PAGE, file.page_count()),
            True,
            key=lambda page: _read(file.source, page * file.page_size, 1) == bytes([CHUNK_END_OF_DATA]),
        )
        return (FIRST_DATA_PAGE + page_count) * file.page_size

    def consumed(self, position: Position) -> bytes | None:
        file = self._files.begun(position.file_no)
        page = position.page if position.chunk > 0 else position.page - 1
        if file is None or page < 0:
            return None
        data = _read(file.source, page * file.page_size, file.page_size)
        return None if data is None else consumed_chunks(data, position.chunk)


class _ClassicFiles:
    def __init__(self, directory: Directory, only: str | None) -> None:
        self._directory = directory
        self._only = only
        self._names: dict[int, str] = {}

    def names(self) -> dict[int, str]:
        from binlog_format.classic.file_list import find_files

        self._names = {number: entry.name for number, entry in find_files(self._directory, self._only).items()}
        return self._names

    def _name(self, file_no: int) -> str | None:
        # A server's files have one base name, so a name that is known stays right.
        return self._names.get(file_no) or self.names().get(file_no)

    def identity(self, file_no: int) -> str:
        from binlog_format.classic.file import ClassicFile

        source = self._open(file_no)
        if source is None:
            return ""
        file = ClassicFile(source, file_no)
        try:
            about = file.description
            return "" if about is None else f"{about.timestamp}:{about.server_id}"
        finally:
            file.close()

    def used_size(self, file_no: int) -> int:
        name = self._name(file_no)
        entry = None if name is None else self._directory.entry(name)
        return 0 if entry is None else entry.size

    def consumed(self, position: Position) -> bytes | None:
        page = position.page if position.chunk > 0 else position.page - 1
        source = self._open(position.file_no) if page >= 0 else None
        if source is None:
            return None
        try:
            data = _read(source, page * VIRTUAL_PAGE_SIZE, position.chunk or VIRTUAL_PAGE_SIZE)
        finally:
            source.close()
        return masked_classic_page(data) if data is not None and page == 0 else data

    def _open(self, file_no: int) -> SourceFile | None:
        name = self._name(file_no)
        if name is None:
            return None
        try:
            return self._directory.open(name)
        except FileNotFoundError:  # purged between the listing and this
            return None


def _read(source: SourceFile, offset: int, size: int) -> bytes | None:
    buffer = empty_bytes(size)
    return buffer.tobytes() if source.read_into(offset, buffer) == size else None
