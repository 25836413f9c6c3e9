"""Files of a structured log as they are now: `StructuredLiveFiles`. A file is known by its start, not by its name."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from binlog_format.errors import DataLossError
from binlog_format.kernels import empty_bytes
from binlog_format.live_files import EndMark, LiveFiles
from binlog_format.structured.files.file_list import Series, list_series
from binlog_format.structured.layout import VIRTUAL_PAGE_SIZE
from binlog_format.structured.positions import byte_of, position_of

if TYPE_CHECKING:
    from binlog_format.position import Position
    from binlog_format.source_file import Directory
    from binlog_format.structured.files.file_list import SeriesFile


class StructuredLiveFiles(LiveFiles):
    """See `LiveFiles`."""

    page_size = VIRTUAL_PAGE_SIZE

    def __init__(self, directory: Directory, only: str | None) -> None:
        super().__init__(directory, only)
        self._series: Series | None = None

    def names(self) -> dict[int, str]:
        """See `LiveFiles`; files without an event have no number yet, and count only where there are no others."""
        series = self._list()
        files = series.begun.values() or series.unwritten
        return {file.file_no: file.name for file in files}

    def identity(self, file_no: int) -> str:
        """See `LiveFiles`: the time of the first event, and a checksum of all up to it."""
        file = self._file(file_no)
        return "" if file is None else file.head.identity

    def consumed(self, position: Position) -> bytes | None:
        """See `LiveFiles`."""
        page = position.page if position.chunk > 0 else position.page - 1
        if page < 0 or self._file(position.file_no) is None:
            return None
        data = empty_bytes(position.chunk or VIRTUAL_PAGE_SIZE)
        try:
            source = self._known().open(position.file_no)
        except DataLossError:  # removed since the listing
            return None
        with closing(source):
            whole = source.read_into(page * VIRTUAL_PAGE_SIZE, data) == len(data)
        return data.tobytes() if whole else None

    def end_of(self, file_no: int) -> Position:
        """See `LiveFiles`."""
        return position_of(file_no, self.size_of(file_no))

    def look(self) -> EndMark:
        """See `LiveFiles`; older files count too: they must not change, and whoever reads them finds out."""
        begun = self._list().begun
        newest = max(begun, default=-1)
        all_of_them = len(begun), sum(file.size for file in begun.values())
        if newest < 0:
            return EndMark(newest)
        return EndMark(newest, begun[newest].head.identity, begun[newest].size, checksums=all_of_them)

    def byte_of(self, position: Position) -> int:
        """See `LiveFiles`."""
        return byte_of(position)

    def size_of(self, file_no: int) -> int:
        """See `LiveFiles`."""
        file = self._file(file_no)
        return 0 if file is None else file.size

    def oldest_reference(self, file_no: int) -> int:
        """See `LiveFiles`."""
        return file_no

    def close(self) -> None:
        """See `LiveFiles`: none is kept open."""

    def _known(self) -> Series:
        return self._series or self._list()

    def _list(self) -> Series:
        self._series = list_series(self._directory, self._only)
        return self._series

    def _file(self, file_no: int) -> SeriesFile | None:
        """The file in the last listing; listed again before the result is None."""
        return self._known().begun.get(file_no) or self._list().begun.get(file_no)
