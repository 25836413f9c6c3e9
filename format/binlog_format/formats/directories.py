"""Directories behind a path: `open_directory` finds a directory, an archive, both, or some files of a directory.

A server's directory and its archive as one: `UnionDirectory` gives from the archive what the server has purged.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.fs

from binlog_format.classic.layout import FILE_NAME
from binlog_format.errors import DataLossError, StartError, storage_error
from binlog_format.formats.archive_directory import ArchiveDirectory, require_archive
from binlog_format.formats.manifest import MANIFEST_NAME, probes
from binlog_format.innodb.header import file_number
from binlog_format.position import Place
from binlog_format.source_file import (
    ARCHIVE_MARK,
    ArrowDirectory,
    Directory,
    FileEntry,
    LocalDirectory,
    access_denied,
    is_pattern,
    path_not_found,
    refuse_keys,
)

if TYPE_CHECKING:
    from binlog_format.formats.manifest import ArchivedFile
    from binlog_format.source_file import SourceFile


_OTHER_LOG_HINT = (
    "The server was set up anew, restored, or took transactions back when it recovered from a crash; or the archive is "
    "of another server. Name the archive of this log, or begin a new archive and new checkpoints"
)


class UnionDirectory(Directory):
    """Files of the server, and of the archive those that the server has purged.

    A file that both have is read from the server; its first and last archived bytes must be the same in both.
    """

    def __init__(self, server: Directory, archive: ArchiveDirectory) -> None:
        self.path = server.path
        self._server = server
        self._archive = archive
        self._newest_on_server = -1
        self.names()

    def path_of(self, name: str) -> str:
        """See `Directory`; where the file really is."""
        is_archived = self._server.entry(name) is None and self._archive.entry(name) is not None
        return (self._archive if is_archived else self._server).path_of(name)

    def entries(self) -> list[FileEntry]:
        """See `Directory`."""
        # The server's list first: what it purges afterwards is archived by then.
        found = {entry.name: entry for entry in self._server.entries()}
        purged = self._purged(set(found))
        return [*(FileEntry(file.name, file.size) for file in purged), *found.values()]

    def names(self) -> list[str]:
        """See `Directory`."""
        found = self._server.names()
        return [*(file.name for file in self._purged(set(found))), *found]

    def entry(self, name: str) -> FileEntry | None:
        """See `Directory`."""
        entry = self._server.entry(name)
        if entry is not None:
            return entry
        file = self._archive.file(name)
        return None if file is None else FileEntry(name, self._readable(file).size)

    def open(self, name: str) -> SourceFile:
        """See `Directory`.

        Raises:
            DataLossError: `FILE_REUSED`: the server's file is not the one that was archived; `FILE_PURGED`.
        """
        try:
            source = self._server.open(name)
        except FileNotFoundError:
            file = self._archive.file(name)
            if file is None:
                raise
            self._readable(file)
            return self._archive.open(name)
        try:
            self._compare(source)
        except BaseException:
            source.close()
            raise
        return source

    def _purged(self, on_server: set[str]) -> list[ArchivedFile]:
        """The archived files that the server has no more."""
        self._archive.refresh()
        files = self._archive.manifest.files
        if not files:
            return []
        numbers = [number for name in on_server if (number := self._number(name, files[-1].name)) is not None]
        if not numbers:
            raise StartError(
                "NO_LOG_FILES",
                f"{self.path}: there are no files of the log that {self._archive.path} is an archive of",
                hint=f"To read the archive alone, name it as the path: {self._archive.path}",
            )
        self._newest_on_server = max(numbers)
        if self._newest_on_server < files[-1].file_no:
            raise DataLossError(
                "LOG_RESET",
                f"{self.path}: the log ends before {files[-1].name}, which {self._archive.path} holds",
                hint=_OTHER_LOG_HINT,
            )
        return [self._readable(file) for file in files if file.name not in on_server]

    def _number(self, name: str, archived: str) -> int | None:
        """The number of a file of the log that *archived* belongs to; None: it is of another, or none."""
        if self._archive.manifest.format == "innodb":
            return file_number(name)
        match, known = FILE_NAME.fullmatch(name), FILE_NAME.fullmatch(archived)
        is_ours = match is not None and known is not None and match["base"] == known["base"]
        return int(match["number"]) if is_ours and match is not None else None

    def _readable(self, file: ArchivedFile) -> ArchivedFile:
        """*file*, which the server has no more, if nothing of it is missing."""
        if not file.is_complete and file.file_no < self._newest_on_server:
            raise DataLossError(
                "FILE_PURGED",
                f"the server purged the file when only its first {file.size} bytes were archived",
                at=Place(self._server.path_of(file.name)),
                hint="Let binlog-stream archive run all the time, and the server keep files for longer than it needs",
            )
        return file

    def _compare(self, source: SourceFile) -> None:
        """See that the server's file is the one that was archived."""
        file = self._archive.manifest.by_name().get(source.name)
        if file is None or file.size == 0:
            return
        found = probes(source, file.size, self._archive.manifest.unstable_byte)
        if found == (file.head_crc32c, file.tail_crc32c):
            return
        what = "is shorter" if found is None else "has other bytes"
        raise DataLossError(
            "FILE_REUSED",
            f"the server's file {what} than the {file.size} bytes of it that {self._archive.path} holds",
            at=Place(source.path),
            hint=_OTHER_LOG_HINT,
        )


def open_directory(path: str) -> tuple[Directory, str | None]:
    """Find what *path* names: a directory, an archive, both, one file, or, by a pattern, some files of a directory.

    Args:
        path: A local path or a URL that `pyarrow.fs` understands (`s3://bucket/binlogs`); or what `with_archive` gives.
            Where nothing has that name, its last part may be a pattern: `app*.blog`.

    Returns:
        The directory; and the name of the one file when *path* is a file, or the pattern.
    """
    refuse_keys(path)
    server_path, has_archive, archive_path = path.partition(ARCHIVE_MARK)
    directory, only = _open_place(server_path)
    if only is not None:
        return directory, only
    if has_archive:
        return UnionDirectory(directory, require_archive(_open_place(archive_path)[0])), None
    return (directory if directory.entry(MANIFEST_NAME) is None else ArchiveDirectory(directory)), None


def _open_place(path: str) -> tuple[Directory, str | None]:
    if "://" not in path:
        local = Path(path)
        try:
            if local.is_dir():
                return LocalDirectory(str(local)), None
            if local.is_file():
                return LocalDirectory(str(local.parent)), local.name
            if is_pattern(local.name) and local.parent.is_dir():
                return LocalDirectory(str(local.parent)), local.name
        except PermissionError as error:
            raise access_denied(path, "look at", error) from error
        raise path_not_found(path)
    try:
        filesystem, root = pyarrow.fs.FileSystem.from_uri(path)
        info = filesystem.get_file_info(root)
    except OSError as error:
        raise storage_error(path, "look at", error) from error
    if info.type == pyarrow.fs.FileType.Directory:
        return ArrowDirectory(path, filesystem, root), None
    parent, _, name = root.rpartition("/")
    if info.is_file or (is_pattern(name) and filesystem.get_file_info(parent).type == pyarrow.fs.FileType.Directory):
        return ArrowDirectory(path.rpartition("/")[0], filesystem, parent), name
    raise path_not_found(path)
