"""A folder as the place of a table: `FolderStore`."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import uuid
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from binlog_streaming.lake.store import UNFINISHED, NewFile, Store, StoredFile

if TYPE_CHECKING:
    from collections.abc import Iterator


_NO_LINKS = frozenset({errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS})
"""Another file system, or one without links; a file of another user (fs.protected_hardlinks); too many links."""


class FolderStore(Store):
    """A folder. *is_private*: whether files are for this user alone; else the system decides (umask)."""

    def __init__(self, uri: str, *, is_private: bool = False) -> None:
        self.uri = uri
        self._folder = Path(uri)
        self._start = f"{self._folder}/"
        self._mode = 0o600 if is_private else 0o666
        self._written_to: set[Path] = set()

    def read(self, name: str) -> bytes:
        """See `Store`."""
        with open(self._start + name, "rb") as file:  # noqa: PTH123 (a job reads small files of its state all the time)
            return file.read()

    def read_part(self, name: str, start: int, size: int) -> bytes:
        """See `Store`."""
        with (self._folder / name).open("rb") as file:
            file.seek(start)
            return file.read(size)

    def opened(self, name: str) -> pa.NativeFile:
        """See `Store`."""
        return pa.OSFile(str(self._folder / name), "rb")

    def create(self, name: str, content: bytes) -> bool:
        """See `Store`."""
        path = self._folder / name
        made = [] if path.parent.exists() else [folder for folder in path.parents if not folder.exists()]
        path.parent.mkdir(parents=True, exist_ok=True)
        for folder in made:
            sync_folder(folder.parent)
        # deltalake names its own ones in the same way; readers of a log pass over them.
        with _staged(path.with_name(f"_commit_{uuid.uuid4()}.json.tmp"), content, self._mode) as staged:
            return _linked(staged, path)

    def exchange(self, name: str, before: bytes | None, content: bytes) -> bool:
        """See `Store`."""
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # One name, which only who holds the lock uses: what a killed writer leaves, the next one writes over.
        with _locked(path.parent):
            if (path.read_bytes() if path.exists() else None) != before:
                return False
            with _staged(path.with_name(f"{UNFINISHED}{path.name}"), content, self._mode) as staged:
                staged.replace(path)
            sync_folder(path.parent)
        return True

    def write(self, name: str, content: bytes) -> None:
        """See `Store`."""
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with _staged(path.with_name(f"{UNFINISHED}{path.name}"), content, self._mode) as staged:
            staged.replace(path)
        sync_folder(path.parent)

    def may_hold(self, name: str) -> bool:
        """See `Store`."""
        return (self._folder / name).exists()

    def new_file(self, name: str) -> NewFile:
        """See `Store`."""
        path = self._folder / name
        if not path.parent.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            within = path.parent.relative_to(self._folder).parents
            self._written_to.update(self._folder / folder for folder in within)  # the new folders have names in them
        self._written_to.add(path.parent)
        return _FolderFile(self._folder, path)

    def link(self, path: str, name: str) -> bool:
        """See `Store`: on the same file system, where the system allows it."""
        target = self._folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(path, target)
        except FileNotFoundError:
            return False  # its owner has removed it; whoever has it open can copy it
        except OSError as error:
            if error.errno in _NO_LINKS:
                return False
            raise
        sync_folder(target.parent)
        return True

    def files(self, folder: str = "", *, after: str = "") -> Iterator[StoredFile]:
        """See `Store`."""
        try:
            entries = sorted(os.scandir(self._folder / folder), key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            return
        for entry in entries:
            name = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_dir():
                yield from self.files(name)
            elif name > after:
                with suppress(FileNotFoundError):  # it has just been removed
                    stat = entry.stat()
                    yield StoredFile(name, stat.st_size, stat.st_mtime)

    def remove(self, name: str) -> None:
        """See `Store`."""
        (self._folder / name).unlink(missing_ok=True)

    def clear(self) -> None:
        """See `Store`."""
        with suppress(FileNotFoundError):
            shutil.rmtree(self._folder)

    def sync(self, name: str) -> None:
        """See `Store`."""
        path = self._folder / name
        with suppress(FileNotFoundError), path.open("rb") as file:
            os.fsync(file.fileno())
            sync_folder(path.parent)

    def sync_names(self) -> None:
        """See `Store`."""
        for folder in self._written_to:
            sync_folder(folder)
        self._written_to.clear()


class _FolderFile(NewFile):
    def __init__(self, folder: Path, path: Path) -> None:
        self._folder = folder
        self._path = path
        self.sink = pa.OSFile(str(path), "wb")

    def finish(self) -> int:
        self.sink.close()
        with self._path.open("rb") as file:
            os.fsync(file.fileno())
            return os.fstat(file.fileno()).st_size

    def finish_as(self, name: str) -> bool:
        self.finish()
        is_free = _linked(self._path, self._folder / name)
        self._path.unlink()
        return is_free

    def abandon(self) -> None:
        with suppress(OSError, pa.ArrowException):
            self.sink.close()
        self._path.unlink(missing_ok=True)


@contextmanager
def _staged(path: Path, content: bytes, mode: int) -> Iterator[Path]:
    # A file with *content*, safe from a loss of power, that is to get another name.
    try:
        path.unlink(missing_ok=True)  # what a killed writer left may have another mode
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        yield path
    finally:
        path.unlink(missing_ok=True)


def _linked(path: Path, name: Path) -> bool:
    # A link, unlike a rename, never replaces a file.
    try:
        os.link(path, name)
    except FileExistsError:
        return False
    sync_folder(name.parent)
    return True


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    held = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)  # goes when it is closed, also when the process dies
        yield
    finally:
        os.close(held)


def sync_folder(folder: Path) -> None:
    """Write the names of new files to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
