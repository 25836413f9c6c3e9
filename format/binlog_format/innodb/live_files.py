"""The `.ibb` files of a log as they are now: `InnodbLiveFiles`.

Sizes and times tell nothing: files are made at their full size, and pages are written again until they are full. So the
last page itself is looked at. Where the log's last file is known, a look costs the same however many files there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.block import BLOCK_SIZE
from binlog_format.innodb.files import LogFiles
from binlog_format.innodb.layout import (
    CHUNK_END_OF_DATA,
    CHUNK_FILLER,
    CHUNK_HEADER_SIZE,
    CHUNK_HEADER_STRUCT,
    CHUNK_SPACE_MIN,
    PAGE_CHECKSUM_SIZE,
    PAGE_SIZE_DEFAULT,
)
from binlog_format.innodb.log_end import check_file_end, written_page_count
from binlog_format.innodb.pages.checksum import page_checksum, stored_checksum
from binlog_format.innodb.pages.pages import PageReader
from binlog_format.kernels import empty_bytes
from binlog_format.live_files import EndMark, FinalBlock, FinalFile, LiveFiles
from binlog_format.position import Position

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_format.innodb.files import OpenFile
    from binlog_format.source_file import Directory

_FILLER = bytes((CHUNK_FILLER,))


class InnodbLiveFiles(LiveFiles):
    """See `LiveFiles`."""

    def __init__(self, directory: Directory, only: str | None) -> None:
        super().__init__(directory, only)
        self._files = LogFiles(directory, only)
        self._newest = -1
        self.page_size = PAGE_SIZE_DEFAULT

    def names(self) -> dict[int, str]:
        """See `LiveFiles`."""
        return {number: self._files.name(number) for number in self._files.numbers()}

    def identity(self, file_no: int) -> str:
        """See `LiveFiles`."""
        file = self._files.begun(file_no)
        return "" if file is None else _identity(file)

    def consumed(self, position: Position) -> bytes | None:
        """See `LiveFiles`."""
        file = self._files.begun(position.file_no)
        page = position.page if position.chunk > 0 else position.page - 1
        data = None if file is None or page < 0 else _read_page(file, page)
        return None if data is None else _first_chunks(data, position.chunk)

    def end_of(self, file_no: int) -> Position:
        """See `LiveFiles`."""
        file = self._files.begun(file_no)
        return Position(file_no, 0 if file is None else written_page_count(file), 0)

    def look(self) -> EndMark:
        """See `LiveFiles`."""
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
            identity=_identity(file),
            size=count * file.page_size,
            checksums=(stored, computed),
            torn=None if stored == computed else file.place(count - 1),
        )

    def byte_of(self, position: Position) -> int:
        """See `LiveFiles`."""
        file = self._files.begun(position.file_no)
        start = position.page * (self.page_size if file is None else file.page_size)
        page = None if file is None or position.chunk == 0 else _read_page(file, position.page)
        return start if page is None else start + len(_first_chunks(page, position.chunk) or b"")

    def size_of(self, file_no: int) -> int:
        """See `LiveFiles`."""
        return self._files.size(file_no) or 0

    def oldest_reference(self, file_no: int) -> int:
        """See `LiveFiles`."""
        file = self._files.begun(file_no)
        if file is None:
            return file_no
        references = (file_no, file.header.oob_reference_file_no, file.header.xa_reference_file_no)
        return min(number for number in references if number is not None)

    def final_file(self, file_no: int) -> FinalFile | None:
        """See `LiveFiles`."""
        self._files.refresh()
        # Looked at first: what is final when these are there stays so.
        is_sealed = self._files.size(file_no + 2) is not None
        is_complete = is_sealed or self._files.begun(file_no + 1) is not None
        file = self._files.begun(file_no)
        if file is None:
            return None
        if is_complete and not _is_closed(file):
            is_complete = is_sealed = False  # it is seen as it was before the server closed it
        return InnodbFinalFile(self._files, file, _identity(file), is_complete=is_complete, is_sealed=is_sealed)

    def close(self) -> None:
        """See `LiveFiles`."""
        self._files.close()

    def _newest_begun(self) -> int:
        """The newest file with something in it; lists the directory only when the one known is not there any more."""
        newest = self._newest
        if newest < 0 or self._files.begun(newest) is None:
            numbers = reversed(self._files.numbers())
            return next((number for number in numbers if self._files.begun(number) is not None), -1)
        while self._only is None and self._files.begun(newest + 1) is not None:
            newest += 1
        return newest


def _identity(file: OpenFile) -> str:
    # A file is begun once, at an LSN that no other file has; a log that was reset goes on at a higher one.
    return f"{file.header.lsn}:{file.header.file_no}"


def _is_closed(file: OpenFile) -> bool:
    """True if the last page is written up to its end: a server fills it before it begins the next file."""
    page = _read_page(file, file.page_count() - 1)
    if page is None:
        return False
    end = len(page) - PAGE_CHECKSUM_SIZE
    after, _ = _end_of_chunks(page, end, end)
    return after + CHUNK_SPACE_MIN > end or page[after] == CHUNK_FILLER


def _read_page(file: OpenFile, page: int) -> bytes | None:
    data = empty_bytes(file.page_size)
    return data.tobytes() if file.source.read_into(page * file.page_size, data) == file.page_size else None


def _first_chunks(page: bytes, chunk_count: int) -> bytes | None:
    """The bytes of the first *chunk_count* chunks; 0: the whole page.

    The page's checksum is not looked at: what comes after the chunks, and the checksum with it, changes while the
    server fills the page. Nor are the last bytes of a page, in which no chunk has room: the server fills them only
    when it goes on, so they count as filled.

    Returns:
        None when there are not so many chunks.
    """
    end = len(page) - PAGE_CHECKSUM_SIZE
    after, count = _end_of_chunks(page, end, chunk_count or end)
    if chunk_count == 0:
        is_full = after <= end < after + CHUNK_SPACE_MIN
        whole = page[:after].ljust(end, _FILLER) if is_full else page[:end]
        return None if page[0] == CHUNK_END_OF_DATA else whole
    return page[:after] if count == chunk_count and after <= end else None


def _end_of_chunks(page: bytes, end: int, count_max: int) -> tuple[int, int]:
    """The byte after the first *count_max* chunks before byte *end*, or after as many as there are; and their count."""
    start = count = 0
    while count < count_max and start + CHUNK_SPACE_MIN <= end:
        if page[start] in (CHUNK_END_OF_DATA, CHUNK_FILLER):
            break
        _, size = CHUNK_HEADER_STRUCT.unpack_from(page, start)
        start += CHUNK_HEADER_SIZE + size
        count += 1
    return start, count


# A page is final once a later one, or the next file's header, is on the disk.


class InnodbFinalFile(FinalFile):
    """See `FinalFile`."""

    def __init__(self, files: LogFiles, file: OpenFile, identity: str, *, is_complete: bool, is_sealed: bool) -> None:
        self.file_no = file.file_no
        self.source = file.source
        self.identity = identity
        self.is_complete = is_complete
        self.is_sealed = is_sealed
        self._file = file
        self._reader = PageReader(files, check_file_end)

    def blocks(self, start: int) -> Iterator[FinalBlock]:
        """See `FinalFile`: whole pages."""
        page_size = self._file.page_size
        # Of a file that is being written, the last page is written again until it is full.
        end = self._file.page_count() if self.is_complete else written_page_count(self._file) - 1
        buffer = empty_bytes(max(BLOCK_SIZE, page_size))
        page = start // page_size
        while page < end:
            room = buffer[: (end - page) * page_size]
            count, _ = self._reader.read(self._file, page, room)
            if count == 0:
                return  # it is being written again by crash recovery
            yield FinalBlock(room[: count * page_size], may_end=True)
            page += count

    def position_at(self, size: int) -> Position:
        """See `FinalFile`."""
        return Position(self.file_no, size // self._file.page_size, 0)
