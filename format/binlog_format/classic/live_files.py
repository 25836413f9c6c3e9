"""Classic files of a log as they are now: `ClassicLiveFiles`. They only grow: sizes tell how much has been written.

The bytes of a classic file that the server will not write again: `ClassicFinalFile`.

Files only grow, group by group. A server that was killed cuts the end of its last file back to the last whole group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.block import BLOCK_SIZE
from binlog_format.classic.file import ClassicFile, checksum_error, find_files
from binlog_format.classic.file_scan import NO_LIMIT, ClassicFileScan
from binlog_format.classic.layout import MAGIC_SIZE
from binlog_format.classic.scan_kernels import check_events
from binlog_format.classic.scratch import Scratch
from binlog_format.errors import CorruptError
from binlog_format.events.layout import EVENT_FLAGS_OFFSET
from binlog_format.kernels import empty_bytes
from binlog_format.live_files import EndMark, FinalBlock, FinalFile, LiveFiles
from binlog_format.position import VIRTUAL_PAGE_SIZE, Position, position_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_format.kernels import Bytes
    from binlog_format.source_file import Directory, SourceFile


IN_USE_BYTE = MAGIC_SIZE + EVENT_FLAGS_OFFSET
"""After the magic of a classic file stands its Format_description event. The flag LOG_EVENT_BINLOG_IN_USE_F in it is
cleared when the file is closed, so this byte does not tell who wrote the file."""


class ClassicFinalFile(FinalFile):
    """See `FinalFile`."""

    def __init__(self, file: ClassicFile, identity: str, *, is_complete: bool) -> None:
        self.file_no = file.file_no
        self.source = file.source
        self.identity = identity
        self.is_complete = self.is_sealed = is_complete
        self._file = file

    def blocks(self, start: int) -> Iterator[FinalBlock]:
        """See `FinalFile`: whole event groups; of a complete file also what a killed server left after them."""
        done = start
        if self._file.description is not None:
            if done < self._file.events_start:
                yield FinalBlock(self._file.read(done, self._file.events_start - done), may_end=True)
                done = self._file.events_start
            for block in self._groups(done):
                yield block
                done += len(block.data)
        while self.is_complete and len(data := self._file.read(done, BLOCK_SIZE)):
            yield FinalBlock(data, may_end=True)
            done += len(data)

    def position_at(self, size: int) -> Position:
        """See `FinalFile`."""
        return position_of(self.file_no, size)

    def _groups(self, start: int) -> Iterator[FinalBlock]:
        """Whole groups and the events between them.

        Headers show where groups end; the bytes that are given are read once, and their checksums computed.
        """
        scan = ClassicFileScan(self._file, start, NO_LIMIT, Scratch(), verify=False)
        done = start
        for piece in scan.pieces():
            yield FinalBlock(self._checked(done, piece.next_offset), may_end=bool(piece.groups["ends"][-1]))
            done = piece.next_offset
        if done < scan.stopped_at:
            yield FinalBlock(self._checked(done, scan.stopped_at), may_end=True)

    def _checked(self, start: int, end: int) -> Bytes:
        assert self._file.description is not None, "a file without Format_description event has no groups"
        data = self._file.read(start, end - start)
        check = check_events(data, len(data), self._file.description.checksum_size)
        if check.checked < end - start:
            at = self._file.place(start + check.checked)
            if check.stored != check.computed:
                raise checksum_error(check.stored, check.computed, at)
            raise CorruptError("BAD_EVENT", "an event has another size than it had a moment ago", at=at)
        return data


class ClassicLiveFiles(LiveFiles):
    """See `LiveFiles`."""

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

    def server_id(self, file_no: int) -> int | None:
        """See `LiveFiles`."""
        _, _, server_id = self.identity(file_no).partition(":")
        return int(server_id) if server_id else None

    def end_of(self, file_no: int) -> Position:
        """See `LiveFiles`."""
        name = self._name(file_no)
        entry = None if name is None else self._directory.entry(name)
        return position_of(file_no, 0 if entry is None else entry.size)

    def look(self) -> EndMark:
        """See `LiveFiles`."""
        self._list()
        newest = max(self._names)
        return EndMark(newest, identity=self._names[newest], size=self._sizes[newest])

    def size_of(self, file_no: int) -> int:
        """See `LiveFiles`."""
        return self._sizes.get(file_no, 0)

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
