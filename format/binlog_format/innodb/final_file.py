"""The pages of an `.ibb` file that the server will not write again: `InnodbFinalFile`.

A page is final once a later one, or the next file's header, is on the disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.block import BLOCK_SIZE
from binlog_format.innodb.file_end import check_file_end
from binlog_format.innodb.log_end import written_page_count
from binlog_format.innodb.pages.pages import PageReader
from binlog_format.kernels import empty_bytes
from binlog_format.live_files import FinalBlock, FinalFile
from binlog_format.position import Position

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_format.innodb.files import LogFiles, OpenFile


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
