"""`RotatingStream`: a session's log in a file, which is renamed when it is large and begun anew.

End of the last complete entry of a file: `whole_entries_end`.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import TYPE_CHECKING, Self

from binlog_format.errors import CorruptError, StorageError, storage_error
from binlog_format.position import Place
from binlog_format.structured.layout import ENTRY_HEAD_SIZE, METADATA_BIT, SIZE_STRUCT, TAG_STRUCT

if TYPE_CHECKING:
    from binlog_format.structured.writing.session import Session


_READ_SIZE = 1 << 20
CUT_MAX = 1 << 26
"""Bytes of an incomplete entry that can be what a crash has left; more are a damaged size before whole entries."""


def whole_entries_end(file: int, path: Path) -> int:
    """The byte after the last whole entry of a structured log. *file*: descriptor, open for reading."""
    size = os.fstat(file).st_size
    _check_first_entry(file, size, path)
    buffer, start, at = b"", 0, 0  # `start`: where in the file the buffer is
    while size - at >= ENTRY_HEAD_SIZE:
        if not start <= at <= start + len(buffer) - ENTRY_HEAD_SIZE:
            buffer, start = os.pread(file, _READ_SIZE, at), at
        (entry_size,) = SIZE_STRUCT.unpack_from(buffer, at - start)
        if entry_size < TAG_STRUCT.size:
            raise _damaged(path, at, f"an entry of {entry_size} bytes: expected at least {TAG_STRUCT.size}")
        if entry_size > size - at - ENTRY_HEAD_SIZE:
            break
        at += ENTRY_HEAD_SIZE + entry_size
    if size - at > CUT_MAX:
        raise _damaged(path, at, f"an incomplete entry has {size - at} bytes: a crash leaves at most {CUT_MAX}")
    return at


def _check_first_entry(file: int, size: int, path: Path) -> None:
    # Of a log the first entry is metadata, and whatever else begins so by chance is rare.
    head = os.pread(file, ENTRY_HEAD_SIZE + TAG_STRUCT.size, 0)
    if len(head) < ENTRY_HEAD_SIZE + TAG_STRUCT.size:
        if size:
            raise _damaged(path, 0, f"{size} bytes: expected a structured log")
        return
    (tag,) = TAG_STRUCT.unpack_from(head, ENTRY_HEAD_SIZE)
    if not tag & METADATA_BIT:
        raise _damaged(path, 0, f"the first entry has the tag {tag:#x}: expected metadata of a structured log")


def _damaged(path: Path, byte: int, reason: str) -> CorruptError:
    return CorruptError(
        "BAD_ENTRY", reason, at=Place(str(path), byte=byte), hint="Move the file away, or write to another one"
    )


MAX_BYTES = 1 << 28
"""Size of a file unless another one is asked for."""


class RotatingStream:
    """The stream to give to `Session.consume`: `NAME` is the newest file, `NAME.1` the one before, and so on.

    Every file can be read alone: it begins with all clocks and sources. A file that is there already is continued; an
    entry that a crash has left incomplete at its end is cut off first. Files begin where a `consume` begins, so the
    times at which they begin are in the order of the files, too. One process at a time writes a log, and one thread.
    What a `consume` writes is given to the system by one call: a process that is killed leaves whole entries, or an
    incomplete last one.

    Args:
        max_bytes: A file is renamed before it would become larger; only what one `consume` writes alone makes it so.
        backups: How many renamed files are kept, the oldest is deleted; None: all.

    Raises:
        StorageError: `IN_USE`: another process writes this log. Otherwise what the file system answered.
        CorruptError: `BAD_ENTRY`: the file that is there is no structured log, or is damaged.
    """

    def __init__(
        self, session: Session, path: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES, backups: int | None = None
    ) -> None:
        self.path = Path(path).absolute()
        self._session = session
        self._max_bytes = max_bytes
        self._backups = backups
        # Bytes that the file has not taken of what it was given last: the file cannot be renamed before it has them.
        self._rest = 0
        # Of the metadata that the file begins with: a file without events is not renamed.
        self._head_size = 0
        self._file = self._lock_file = -1
        try:
            self._lock_file = _lock(self.path)
            self._fresh_path.unlink(missing_ok=True)  # of a process that was killed in a rotation
            self._file = _open(self.path, os.O_RDWR)
            self._size = self._cut_incomplete_entry()
            is_new = not self._size
            session.reconsume_metadata(self)
            self._head_size = self._size if is_new else 0
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                raise storage_error(self.path, "write", error) from error
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, data: bytes) -> int:
        """Append entries, or the rest of those that were not taken as a whole.

        Args:
            data: Whole entries; after a call that has taken less: what is left.

        Returns:
            How many bytes are in the file.

        Raises:
            StorageError: The file system has refused, and *data* is not in the file.
        """
        try:
            if not self._rest and self._size > self._head_size and self._size + len(data) > self._max_bytes:
                self._rotate()
            written = os.write(self._file, data)
        except OSError as error:
            raise storage_error(self.path, "write", error) from error
        self._size += written
        self._rest = len(data) - written
        return written

    def sync(self) -> None:
        """Force what was written to the disk. Raises `StorageError`: the file system has refused."""
        try:
            os.fsync(self._file)
        except OSError as error:
            raise storage_error(self.path, "sync", error) from error

    def close(self) -> None:
        """Close the file; again: nothing happens."""
        for file in (self._file, self._lock_file):
            if file >= 0:
                os.close(file)
        self._file = self._lock_file = -1

    def _cut_incomplete_entry(self) -> int:
        # The size that the file has then.
        end = whole_entries_end(self._file, self.path)
        if end < os.fstat(self._file).st_size:
            os.ftruncate(self._file, end)
        return end

    def _rotate(self) -> None:
        # The next file has all metadata before it has its name: none is ever found without.
        fresh_path = self._fresh_path
        fresh = _open(fresh_path, os.O_WRONLY | os.O_TRUNC)
        try:
            stream = _Unbuffered(fresh)
            self._session.reconsume_metadata(stream)
            os.fsync(self._file)
            if self.path.exists():  # unless it was renamed, and then something failed
                self._shift_backups()
                self.path.rename(self._backup(1))
            fresh_path.rename(self.path)
        except BaseException:
            os.close(fresh)
            raise
        os.close(self._file)
        self._file, self._size, self._head_size = fresh, stream.size, stream.size

    def _shift_backups(self) -> None:
        # A rename replaces what has the new name: from the oldest on, up to the first free number.
        count = 0
        while self._backup(count + 1).exists():
            count += 1
        if self._backups is not None and count >= self._backups:
            for number in range(max(self._backups, 1), count + 1):
                self._backup(number).unlink()
            count = max(self._backups, 1) - 1
        for number in range(count, 0, -1):
            self._backup(number).rename(self._backup(number + 1))

    @property
    def _fresh_path(self) -> Path:
        return self.path.with_name(f".{self.path.name}.new")

    def _backup(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")


class _Unbuffered:
    """A file that is new, as a stream."""

    def __init__(self, file: int) -> None:
        self._file = file
        self.size = 0

    def write(self, data: bytes) -> int:
        written = os.write(self._file, data)
        self.size += written
        return written


def _open(path: Path, flags: int) -> int:
    return os.open(path, flags | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)


def _lock(path: Path) -> int:
    """Hold the lock of the log at *path*, as long as the descriptor is open; the operating system ends it, too."""
    file = _open(path.with_name(f".{path.name}.lock"), os.O_WRONLY)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(file)
        raise StorageError(
            "IN_USE",
            "another process writes this log",
            at=Place(str(path)),
            hint="Give each process a file of its own, for example with its process id in the name",
        ) from error
    return file
