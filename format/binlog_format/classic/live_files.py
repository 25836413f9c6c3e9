"""Classic files of a log as they are now: `ClassicLiveFiles`. They only grow: sizes tell how much has been written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.classic.file import ClassicFile
from binlog_format.classic.file_list import find_files
from binlog_format.classic.final_file import IN_USE_BYTE, ClassicFinalFile
from binlog_format.classic.layout import VIRTUAL_PAGE_SIZE
from binlog_format.kernels import empty_bytes
from binlog_format.live_files import EndMark, LiveFiles
from binlog_format.position import Position

if TYPE_CHECKING:
    from binlog_format.live_files import FinalFile
    from binlog_format.source_file import Directory, SourceFile


class ClassicLiveFiles(LiveFiles):
    """See `LiveFiles`."""

    page_size = VIRTUAL_PAGE_SIZE
    unstable_byte = IN_USE_BYTE

    def __init__(self, directory: Directory, only: str | None) -> None:
        super().__init__(directory, only)
        self._names: dict[int, str] = {}
        self._sizes: dict[int, int] = {}

    def names(self) -> dict[int, str]:
        """See `LiveFiles`."""
        self._list()
        return self._names

    def identity(self, file_no: int) -> str:
        """See `LiveFiles`."""
        source = self._open(file_no)
        if source is None:
            return ""
        file = ClassicFile(source, file_no)
        try:
            return _identity(file)
        finally:
            file.close()

    def consumed(self, position: Position) -> bytes | None:
        """See `LiveFiles`."""
        page = position.page if position.chunk > 0 else position.page - 1
        source = self._open(position.file_no) if page >= 0 else None
        if source is None:
            return None
        data = empty_bytes(position.chunk or VIRTUAL_PAGE_SIZE)
        try:
            if source.read_into(page * VIRTUAL_PAGE_SIZE, data) < len(data):
                return None
        finally:
            source.close()
        if page == 0 and len(data) > IN_USE_BYTE:
            data[IN_USE_BYTE] = 0
        return data.tobytes()

    def end_of(self, file_no: int) -> Position:
        """See `LiveFiles`."""
        name = self._name(file_no)
        entry = None if name is None else self._directory.entry(name)
        return Position(file_no, *divmod(0 if entry is None else entry.size, VIRTUAL_PAGE_SIZE))

    def look(self) -> EndMark:
        """See `LiveFiles`."""
        self._list()
        newest = max(self._names)
        return EndMark(newest, identity=self._names[newest], size=self._sizes[newest])

    def byte_of(self, position: Position) -> int:
        """See `LiveFiles`."""
        return position.page * VIRTUAL_PAGE_SIZE + position.chunk

    def size_of(self, file_no: int) -> int:
        """See `LiveFiles`."""
        return self._sizes.get(file_no, 0)

    def oldest_reference(self, file_no: int) -> int:
        """See `LiveFiles`."""
        return file_no

    def final_file(self, file_no: int) -> FinalFile | None:
        """See `LiveFiles`."""
        # Looked at first: a server writes no more into a file when it has begun a later one.
        is_complete = any(self.identity(later) for later in self.names() if later > file_no)
        source = self._open(file_no)
        if source is None:
            return None
        file = ClassicFile(source, file_no)
        if file.description is None and not is_complete:
            file.close()
            return None
        return ClassicFinalFile(file, _identity(file), is_complete=is_complete)

    def close(self) -> None:
        """See `LiveFiles`: none is kept open."""

    def _list(self) -> None:
        listing = find_files(self._directory, self._only)
        self._names = {number: entry.name for number, entry in listing.items()}
        self._sizes = {number: entry.size for number, entry in listing.items()}

    def _name(self, file_no: int) -> str | None:
        # A server's files have one base name, so a name that is known stays right.
        return self._names.get(file_no) or self.names().get(file_no)

    def _open(self, file_no: int) -> SourceFile | None:
        name = self._name(file_no)
        if name is None:
            return None
        try:
            return self._directory.open(name)
        except FileNotFoundError:  # purged between the listing and this
            return None


def _identity(file: ClassicFile) -> str:
    about = file.description
    return "" if about is None else f"{about.timestamp}:{about.server_id}"
