"""The files of a log as they are now, by a few small reads each time: `LiveFiles`; `open_live_files(path)` gives them.

Whoever follows a log compares what it saw with what is there later: who wrote a file, the bytes right before the place
up to which it has read, and what the end looks like. How a format shows these is known to it alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

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


class LiveFiles(ABC):
    """Looks at the files of one log; not for several threads at once.

    Args:
        directory: Where they are.
        only: Name of the one file of the log; None: all that are there.

    Attributes:
        page_size: Bytes of a page, as positions count them.
    """

    page_size: int

    def __init__(self, directory: Directory, only: str | None) -> None:
        self._directory = directory
        self._only = only

    def path_of(self, name: str) -> str:
        """Path of the file of that name, for messages."""
        return self._directory.path_of(name)

    @abstractmethod
    def names(self) -> dict[int, str]:
        """Names of the files that are there now, by number, ascending."""

    @abstractmethod
    def identity(self, file_no: int) -> str:
        """Who wrote a file that is there: `order:detail`, a larger order is a file written later; empty: nobody yet."""

    @abstractmethod
    def consumed(self, position: Position) -> bytes | None:
        """The bytes before *position* in the last page that has any, without what a server changes in them later.

        None when nothing lies before it in its file, and when there are not so many bytes (any more).
        """

    @abstractmethod
    def end_of(self, file_no: int) -> Position:
        """About where the data of a file ends, by sizes alone: for a display, never to read from."""

    @abstractmethod
    def look(self) -> EndMark:
        """What the end of the log looks like now.

        Raises:
            BinlogError: The newest file's start cannot be read, or there are no files.
        """

    @abstractmethod
    def byte_of(self, position: Position) -> int:
        """The byte of *position* in its file; the start of its page when what it counts there is not there."""

    @abstractmethod
    def size_of(self, file_no: int) -> int:
        """Size of a file in bytes, as the last look found it; 0 when it is not there."""

    @abstractmethod
    def oldest_reference(self, file_no: int) -> int:
        """The oldest file that groups of this file, or of later ones, may have data in, as its start says."""

    @abstractmethod
    def close(self) -> None:
        """Let all files go."""
