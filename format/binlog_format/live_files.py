"""The files of a log as they are now, by a few small reads each time: `LiveFiles`; `open_live_files(path)` gives them.

Whoever follows a log compares what it saw with what is there later: who wrote a file, the bytes right before the place
up to which it has read, and what the end looks like. How a format shows these is known to it alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from binlog_format.errors import UnsupportedError
from binlog_format.position import VIRTUAL_PAGE_SIZE, byte_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_format.kernels import Bytes
    from binlog_format.position import Place, Position
    from binlog_format.source_file import Directory, SourceFile


@dataclass(frozen=True, slots=True)
class EndMark:
    """State of a log's end; if two marks are equal, nothing has been written in between.

    Attributes:
        file_no: The newest file that something has been written into; -1: there is none.
        identity: Who wrote that file; `classic`: its name, whoever goes on reading sees whether it is another one.
        size: `innodb`: its bytes up to the end of the last page that has been written to; `classic`: all of it.
        checksums: Of that last page, as stored and as computed; `classic`: zeros, files only grow; `structured`: how
            many files there are, and how many bytes.
        torn: Where the last page is, if its checksum is not right: it is being written, or is damaged.
    """

    file_no: int
    identity: str = ""
    size: int = 0
    checksums: tuple[int, int] = (0, 0)
    torn: Place | None = None


class FinalBlock(NamedTuple):
    """Bytes of a file that the server will not write again.

    Attributes:
        data: The bytes; their checksums are right. Used again for the next block.
        may_end: Whether `FinalFile.blocks` can begin right after them.
    """

    data: Bytes
    may_end: bool


class FinalFile(ABC):
    """One file, as far as its bytes are final: to copy exactly what was verified.

    Attributes:
        source: Bytes of the file; whoever opened it closes it.
        identity: Who wrote it, as `LiveFiles.identity`; empty where a killed server wrote nothing into it.
        is_complete: Whether no byte will be added, and the last one is there.
        is_sealed: Whether crash recovery of the server, too, can no longer change it.
    """

    file_no: int
    source: SourceFile
    identity: str
    is_complete: bool
    is_sealed: bool

    @abstractmethod
    def blocks(self, start: int) -> Iterator[FinalBlock]:
        """The final bytes from byte *start* on: 0, or right after a block that may end."""

    @abstractmethod
    def position_at(self, size: int) -> Position:
        """The position after the first *size* bytes, where a block may end."""


class LiveFiles(ABC):
    """Looks at the files of one log; not for several threads at once.

    Args:
        only: Name of the one file of the log; None: all that are there.

    Attributes:
        page_size: Bytes of a page, as positions count them.
    """

    page_size: int = VIRTUAL_PAGE_SIZE
    unstable_byte: ClassVar[int | None] = None
    """The byte of each file that the server changes although it is final; None: there is none."""

    def __init__(self, directory: Directory, only: str | None) -> None:
        self._directory = directory
        self._only = only

    def path_of(self, name: str) -> str:
        """Path of the file of that name, for messages."""
        return self._directory.path_of(name)

    @abstractmethod
    def names(self) -> dict[int, str]:
        """Names of the files that are there now, by number, ascending."""

    def modified_at(self, file_no: int) -> float | None:
        """Time of the file's last write, seconds since 1970 UTC; None: no such file, or it is not recorded."""
        name = self.names().get(file_no)
        entry = None if name is None else self._directory.entry(name)
        return entry.modified_ns / 1e9 if entry is not None and entry.modified_ns else None

    @abstractmethod
    def identity(self, file_no: int) -> str:
        """Identity of a file's writer: `order:detail`, with a larger order for a later file; empty: nothing yet."""

    def server_id(self, file_no: int) -> int | None:
        """The server id that the start of a file states; None: it states none, or nobody has written it yet."""
        del file_no
        return None

    def inode(self, file_no: int) -> int:
        """Number of a file in its file system, if who wrote it may begin it anew under that number; 0: none."""
        del file_no
        return 0

    def is_emptied(self, inode: int) -> bool:
        """True if a file of that number is there, and nothing has been written into it since it was cut."""
        del inode
        return False

    @abstractmethod
    def consumed(self, position: Position) -> bytes | None:
        """The bytes before *position* in the last page that has any, without what a server changes in them later.

        None when nothing lies before it in its file, and when there are not so many bytes (any more).
        """

    @abstractmethod
    def end_of(self, file_no: int) -> Position:
        """Approximate end of a file's data, by sizes alone: for a display, never to read from."""

    @abstractmethod
    def look(self) -> EndMark:
        """Read the present state of the log's end."""

    def byte_of(self, position: Position) -> int:
        """The byte of *position* in its file; the start of its page when what it counts there is not there."""
        return byte_of(position)

    @abstractmethod
    def size_of(self, file_no: int) -> int:
        """Size of a file in bytes, as the last look found it; 0 when it is not there."""

    def written_size(self, first: int) -> int:
        """Approximate bytes from the start of file *first* to the end of all data, by sizes alone."""
        numbers = [file_no for file_no in self.names() if file_no >= first]
        last = next((file_no for file_no in reversed(numbers) if self.identity(file_no)), None)
        if last is None:
            return 0
        return sum(self.size_of(file_no) for file_no in numbers if file_no < last) + self.byte_of(self.end_of(last))

    def oldest_reference(self, file_no: int) -> int:
        """The oldest file that groups of this file, or of later ones, may have data in, as its start records."""
        return file_no

    def final_file(self, file_no: int) -> FinalFile | None:
        """The final bytes of a file that is there now; None: nothing has been written into it yet, or it has gone.

        Raises:
            CorruptError: Its start cannot be right.
            UnsupportedError: `FORMAT`: files of this format cannot be archived.
        """
        raise UnsupportedError("FORMAT", f"file {file_no}: files of this format cannot be archived")

    @abstractmethod
    def close(self) -> None:
        """Close all files."""
