"""Files of a log, wherever they are: `Directory` -> `SourceFile`; `formats.directories.open_directory` finds them.

Local files are read with `preadv` into the caller's buffer; other URLs go through `pyarrow.fs`. Files are never mapped
into memory: a server cuts files that are being read, and a mapped page that is cut away kills the process.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from binlog_format.errors import AccessError, OptionError, StartError
from binlog_format.kernels import empty_bytes
from binlog_format.messages import KEYS_IN_URL, has_keys
from binlog_format.position import Place

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pyarrow.fs

    from binlog_format.kernels import Bytes

L = TypeVar("L")
T = TypeVar("T")

PACKED_BY = {
    b"\x1f\x8b": ("gzip", "gunzip"),
    b"\xfd7zX": ("xz", "unxz"),
    b"\x28\xb5\x2f\xfd": ("zstd", "unzstd"),
    b"BZh": ("bzip2", "bunzip2"),
}
"""First bytes of compressed files: what made them, and what unpacks them."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file in a directory.

    Attributes:
        name: Without the directory.
        modified_ns: When it was written last, nanoseconds since 1970 UTC; 0: not known.
        inode: Its number in the file system, which it keeps when it is renamed or cut; 0: not known.
    """

    name: str
    size: int
    modified_ns: int = field(default=0, compare=False)
    inode: int = field(default=0, compare=False)


class SourceFile(Protocol):
    """An open file, read at any place. *name*: without its directory. *path*: with it, for messages."""

    name: str
    path: str

    def size(self) -> int:
        """Present size in bytes; a live file changes."""

    def read_into(self, offset: int, buffer: Bytes) -> int:
        """Fill *buffer* from byte *offset* on; fewer bytes than asked for only at the end of the file."""

    def close(self) -> None:
        """Close the file."""


class Directory(Protocol):
    """A folder that holds binlog files."""

    path: str

    def path_of(self, name: str) -> str:
        """Path of a file that is in it, or might be, for messages."""
        return f"{self.path.rstrip('/')}/{name}"

    def entries(self) -> list[FileEntry]:
        """Its files, in no order."""

    def names(self) -> list[str]:
        """Their names alone, in no order: of a local folder the cheaper look."""

    def entry(self, name: str) -> FileEntry | None:
        """One file of it; None when it is not there."""

    def open(self, name: str) -> SourceFile:
        """Open a file of it.

        Raises:
            FileNotFoundError: It is not there (any more).
            AccessError: The file system refuses.
        """


def first_bytes(directory: Directory, name: str, size: int) -> Bytes:
    """The first bytes of a file, *size* or what it has; none if it was purged since it was listed."""
    buffer = empty_bytes(size)
    try:
        file = directory.open(name)
    except FileNotFoundError:
        return buffer[:0]
    try:
        return buffer[: file.read_into(0, buffer)]
    finally:
        file.close()


def look_until_listed_again(listed: Callable[[], L], find: Callable[[L], T | None]) -> T | None:
    """Find something in a listing; None only if two listings in a row are the same.

    Files that would tell may have been purged since the first one.
    """
    seen: L | None = None
    while (listing := listed()) != seen:
        found = find(listing)
        if found:
            return found
        seen = listing
    return None


class LocalFile:
    """A file of the local file system. *descriptor*: of the open file; -1: it is closed."""

    descriptor = -1

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self.name = self.path.rpartition("/")[2]
        try:
            self.descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except PermissionError as error:
            raise access_denied(self.path, "open", error) from error

    @property
    def inode(self) -> int:
        """Its number in the file system, which it keeps when it is renamed."""
        return os.fstat(self.descriptor).st_ino

    def size(self) -> int:
        """Present size in bytes."""
        return os.fstat(self.descriptor).st_size

    def read_into(self, offset: int, buffer: Bytes) -> int:
        """Fill *buffer* from byte *offset* on."""
        view = buffer.data
        done = 0
        while done < len(view):
            count = os.preadv(self.descriptor, [view[done:]], offset + done)
            if count == 0:
                break
            done += count
        return done

    def close(self) -> None:
        """Close the descriptor."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    __del__ = close


class LocalDirectory(Directory):
    """A folder of the local file system."""

    def __init__(self, path: str) -> None:
        self.path = path

    def entries(self) -> list[FileEntry]:
        """Its regular files."""
        found = []
        try:
            with os.scandir(self.path) as scan:
                for item in scan:
                    try:
                        if item.is_file():
                            found.append(_entry(item.name, item.stat()))
                    except FileNotFoundError:
                        continue  # purged between the listing and the stat
        except PermissionError as error:
            raise access_denied(self.path, "list", error) from error
        except FileNotFoundError as error:
            raise path_not_found(self.path) from error
        return found

    def names(self) -> list[str]:
        """Names of its regular files."""
        try:
            with os.scandir(self.path) as scan:
                return [item.name for item in scan if item.is_file()]
        except PermissionError as error:
            raise access_denied(self.path, "list", error) from error
        except FileNotFoundError as error:
            raise path_not_found(self.path) from error

    def entry(self, name: str) -> FileEntry | None:
        """One file of it."""
        try:
            return _entry(name, os.stat(self.path_of(name)))  # noqa: PTH116 (asked for at each opening of a log)
        except FileNotFoundError:
            return None
        except PermissionError as error:
            raise access_denied(self.path, "look into", error) from error

    def open(self, name: str) -> SourceFile:
        """Open a file of it."""
        return LocalFile(self.path_of(name))


class ArrowFile:
    """A file of a `pyarrow.fs` file system."""

    def __init__(self, filesystem: pyarrow.fs.FileSystem, inner_path: str, path: str) -> None:
        self.name = path.rpartition("/")[2]
        self.path = path
        self._handle = filesystem.open_input_file(inner_path)

    def size(self) -> int:
        """Size in bytes when it was opened; object stores do not grow objects."""
        return cast("int", self._handle.size())

    def read_into(self, offset: int, buffer: Bytes) -> int:
        """Fill *buffer* from byte *offset* on."""
        self._handle.seek(min(offset, self.size()))
        return cast("int", self._handle.readinto(buffer))

    def close(self) -> None:
        """Close the handle."""
        self._handle.close()


class ArrowDirectory(Directory):
    """A folder of a `pyarrow.fs` file system."""

    def __init__(self, path: str, filesystem: pyarrow.fs.FileSystem, root: str) -> None:
        self.path = path
        self._filesystem = filesystem
        self._root = root.rstrip("/")

    def entries(self) -> list[FileEntry]:
        """Its files."""
        from pyarrow.fs import FileSelector  # local files need no Arrow

        try:
            infos = self._filesystem.get_file_info(FileSelector(self._root))
        except FileNotFoundError as error:
            raise path_not_found(self.path) from error
        return [FileEntry(info.base_name, info.size, info.mtime_ns or 0) for info in infos if info.is_file]

    def names(self) -> list[str]:
        """Their names."""
        return [entry.name for entry in self.entries()]

    def entry(self, name: str) -> FileEntry | None:
        """One file of it."""
        info = self._filesystem.get_file_info(f"{self._root}/{name}")
        return FileEntry(name, info.size, info.mtime_ns or 0) if info.is_file else None

    def open(self, name: str) -> SourceFile:
        """Open a file of it."""
        return ArrowFile(self._filesystem, f"{self._root}/{name}", self.path_of(name))


ARCHIVE_MARK = "?archive="
"""Separator between a directory and the archive of its purged files: `/var/lib/mysql?archive=s3://b/log`."""


def with_archive(path: str, archive: str) -> str:
    """The path of the log whose files are at *path*, and in *archive* those that the server has purged."""
    return f"{path}{ARCHIVE_MARK}{archive}"


def with_places(path: str, change: Callable[[str], str]) -> str:
    """*path*, with *change* done to the place of the files and to that of the archive."""
    return ARCHIVE_MARK.join(change(place) for place in path.split(ARCHIVE_MARK, 1))


def without_archive(path: str) -> str:
    """The path of the server's files alone."""
    return path.partition(ARCHIVE_MARK)[0]


def refuse_keys(url: str) -> None:
    """See that a URL has no keys in it: it goes into checkpoints, records and messages.

    Raises:
        OptionError: `INVALID_VALUE`; what the URL has is not repeated.
    """
    if has_keys(url):
        raise OptionError(
            "INVALID_VALUE",
            f"option path: {KEYS_IN_URL}",
            hint="Give it in the environment: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
        )


def is_pattern(name: str) -> bool:
    """True if the name of a file is a pattern for several: `*`, `?` and `[...]` as in a shell."""
    return any(sign in name for sign in "*?[")


def _entry(name: str, status: os.stat_result) -> FileEntry:
    return FileEntry(name, status.st_size, status.st_mtime_ns, status.st_ino)


def path_not_found(path: str) -> StartError:
    """The error for a path that names nothing."""
    return StartError(
        "PATH_NOT_FOUND",
        f"{path}: there is no such directory or file",
        hint="Give the directory that holds the server's binlog files, or one of them",
    )


def access_denied(path: str, action: str, error: PermissionError) -> AccessError:
    """The error for a path that this user may not *action*."""
    return AccessError(
        "DENIED",
        f"cannot {action} it: {error.strerror}",
        at=Place(path),
        hint="Run as a user who may read it: of a database server's files, one in the group mysql",
    )
