"""A log, and a cheap look at its files without scanning them: `WatchedLog`.

`resume.py` keeps in offsets what this module shows (identities of files, the bytes right before a position) and
compares it later.
"""

from __future__ import annotations

import crc32c

from binlog_format.errors import StartError
from binlog_format.formats.opening import open_log_and_files
from binlog_format.log_format import Bound
from binlog_format.position import Position


class WatchedLog:
    """A log as a query sees it over time; a context manager, like the log.

    Args:
        path: Directory of the binlog files, one file, or a URL.
        format_name: The format that the log must have; None: whatever it is.
    """

    def __init__(self, path: str, format_name: str | None = None, *, bound: Bound = Bound.VISIBLE) -> None:
        self.log, self.files = open_log_and_files(path, format_name=format_name, bound=bound)
        self._names: dict[int, str] | None = None
        if not self.names():
            self.log.close()
            raise StartError(
                "NO_LOG_FILES",
                f"{path}: there are no binlog files of the format {self.log.format_name}",
                hint="Leave out the option format: the format is detected",
            )

    def __enter__(self) -> WatchedLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.log.close()

    def names(self) -> dict[int, str]:
        """Names of the files by number, ascending, as the directory was when this object first looked."""
        if self._names is None:
            self._names = self.files.names()
        return self._names

    def last_number(self) -> int:
        """Number of the last file that is there, written or not."""
        return max(self.names())

    def has(self, file_no: int) -> bool:
        """True if a file exists; reads the directory again before it returns False."""
        if file_no not in self.names():
            self._names = self.files.names()
        return file_no in self.names()

    def is_gone(self, file_no: int) -> bool:
        """True if a file does not exist any more; reads the directory again."""
        self._names = self.files.names()
        return file_no not in self._names

    def consumed_crc(self, position: Position) -> int | None:
        """CRC-32C of the last page's bytes before *position*.

        None when nothing lies before it in its file, and when there are not so many bytes (any more).
        """
        consumed = self.files.consumed(position)
        return None if consumed is None else crc32c.crc32c(consumed)

    def last_written(self) -> int | None:
        """Number of the newest file that something has been written into."""
        return next((file_no for file_no in reversed(self.names()) if self.files.identity(file_no)), None)

    def end_of_bytes(self) -> Position:
        """Approximate end of the data on disk, by sizes alone: for a display, never to read from."""
        file_no = self.last_written()
        if file_no is None:
            return self.log.start_position()
        return self.files.end_of(file_no)


def file_start(file_no: int) -> Position:
    """Position before everything in file *file_no*, in every format."""
    return Position(file_no, 0, 0)


def written_order(identity: str) -> int:
    """Write time of the file of *identity*, on a scale that only compares; -1 for none."""
    return int(identity.partition(":")[0]) if identity else -1
