"""The end of a live log, by a few small reads: `LogEnd`.

Sizes and times of files are no help with `.ibb` files, which are made at their full size and whose pages are written
again until they are full; so the last page itself is looked at. Where the log's last file is known, a look costs the
same however many files there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from binlog_connector.following.pages import consumed_chunks
from binlog_format.classic.layout import VIRTUAL_PAGE_SIZE
from binlog_format.detect import INNODB
from binlog_format.kernels import empty_bytes
from binlog_format.source_file import open_directory

if TYPE_CHECKING:
    from binlog_format.position import Place, Position
    from binlog_format.source_file import Directory


@dataclass(frozen=True, slots=True)
class EndMark:
    """What the end of a log looks like; equal marks: nothing has been written in between.

    Attributes:
        file_no: The newest file that something has been written into; -1: there is none.
        identity: Who wrote that file; `classic`: its name, whoever goes on reading sees whether it is another one.
        size: `innodb`: its bytes up to the end of the last page that has been written to; `classic`: all of it.
        checksums: Of that last page, as stored and as computed; `classic`: zeros, files only grow.
        torn: Where the last page is, if its checksum is not right: it is being written, or is damaged.
    """

    file_no: int
    identity: str = ""
    size: int = 0
    checksums: tuple[int, int] = (0, 0)
    torn: Place | None = None


class LogEnd(Protocol):
    """Looks at the files of one log; not for several threads at once."""

    page_size: int

    def look(self) -> EndMark:
        """What the end looks like now.

        Raises:
            BinlogError: The newest file's start cannot be read, or there are no files.
        """

    def byte_of(self, position: Position) -> int:
        """The byte of *position* in its file; the start of its page when the chunk is not there."""

    def size_of(self, file_no: int) -> int:
        """Size of a file in bytes; 0 when it is not there."""

    def oldest_reference(self, file_no: int) -> int:
        """The oldest file that groups of this file, or of later ones, may have data in, as its start says."""

    def close(self) -> None:
        """Let all files go."""


def open_log_end(path: str, format_name: str) -> LogEnd:
    """The end of the log at *path*.

    Args:
        path: Directory of the binlog files, one file, or a URL.
        format_name: Its format; `Log.format_name`.

    Raises:
        StartError: `PATH_NOT_FOUND`.
    """
    directory, only = open_directory(path)
    return _InnodbEnd(directory, only) if format_name == INNODB else _ClassicEnd(directory, only)


class _InnodbEnd:
    def __init__(self, directory: Directory, only: str | None) -> None:
        from binlog_format.innodb.files import LogFiles  # compiled code takes a moment to load
        from binlog_format.innodb.layout import PAGE_SIZE_DEFAULT

        self._files = LogFiles(directory, only)
        self._newest = -1
        self.page_size = PAGE_SIZE_DEFAULT

    def look(self) -> EndMark:
        from binlog_format.innodb.checksum import page_checksum, stored_checksum
        from binlog_format.innodb.end_of_data import written_page_count

        self._files.refresh()
        self._newest = self._newest_begun()
        file = self._files.begun(self._newest) if self._newest >= 0 else None
        if file is None:
            return EndMark(-1)
        self.page_size = file.page_size
        count = written_page_count(file)
        page = empty_bytes(file.page_size)
        file.source.read_into((count - 1) * file.page_size, page)
        stored, computed = stored_checksum(page.data), page_checksum(page.data)
        return EndMark(
            file.file_no,
            identity=f"{file.header.lsn}:{file.header.file_no}",
            size=count * file.page_size,
            checksums=(stored, computed),
            torn=None if stored == computed else file.place(count - 1),
        )

    def byte_of(self, position: Position) -> int:
        file = self._files.begun(position.file_no)
        size = self.page_size if file is None else file.page_size
        start = position.page * size
        if file is None or position.chunk == 0:
            return start
        page = empty_bytes(size)
        if file.source.read_into(start, page) < size:
            return start
        return start + len(consumed_chunks(page.tobytes(), position.chunk) or b"")

    def size_of(self, file_no: int) -> int:
        return self._files.size(file_no) or 0

    def oldest_reference(self, file_no: int) -> int:
        file = self._files.begun(file_no)
        if file is None:
            return file_no
        references = (file_no, file.header.oob_reference_file_no, file.header.xa_reference_file_no)
        return min(number for number in references if number is not None)

    def close(self) -> None:
        self._files.close()

    def _newest_begun(self) -> int:
        """The newest file with something in it; lists the directory only when the one known is not there any more."""
        newest = self._newest
        if newest < 0 or self._files.begun(newest) is None:
            numbers = reversed(self._files.numbers())
            return next((number for number in numbers if self._files.begun(number) is not None), -1)
        while self._files.only is None and self._files.begun(newest + 1) is not None:
            newest += 1
        return newest


class _ClassicEnd:
    def __init__(self, directory: Directory, only: str | None) -> None:
        self._directory = directory
        self._only = only
        self.page_size = VIRTUAL_PAGE_SIZE
        self._sizes: dict[int, int] = {}

    def look(self) -> EndMark:
        from binlog_format.classic.file_list import find_files

        listing = find_files(self._directory, self._only)
        self._sizes = {number: entry.size for number, entry in listing.items()}
        newest = max(listing)
        return EndMark(newest, identity=listing[newest].name, size=self._sizes[newest])

    def byte_of(self, position: Position) -> int:
        return position.page * VIRTUAL_PAGE_SIZE + position.chunk

    def size_of(self, file_no: int) -> int:
        return self._sizes.get(file_no, 0)

    def oldest_reference(self, file_no: int) -> int:
        return file_no

    def close(self) -> None:
        self._sizes = {}
