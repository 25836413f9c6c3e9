"""Directories behind a path: `open_directory` finds a directory, an archive, both, or some files of a directory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.fs

from binlog_format.archives.archive_directory import archive_in, require_archive
from binlog_format.archives.union_directory import UnionDirectory
from binlog_format.source_file import (
    ARCHIVE_MARK,
    ArrowDirectory,
    LocalDirectory,
    access_denied,
    is_pattern,
    path_not_found,
    refuse_keys,
)

if TYPE_CHECKING:
    from binlog_format.source_file import Directory


def open_directory(path: str) -> tuple[Directory, str | None]:
    """Find what *path* names: a directory, an archive, both, one file, or, by a pattern, some files of a directory.

    Args:
        path: A local path or a URL that `pyarrow.fs` understands (`s3://bucket/binlogs`); or what `with_archive` gives.
            Where nothing has that name, its last part may be a pattern: `app*.blog`.

    Returns:
        The directory; and the name of the one file when *path* is a file, or the pattern.

    Raises:
        OptionError: `INVALID_VALUE`: a URL has keys in it.
        StartError: `PATH_NOT_FOUND`: nothing is there; what `UnionDirectory` raises.
    """
    refuse_keys(path)
    server_path, has_archive, archive_path = path.partition(ARCHIVE_MARK)
    directory, only = _open_place(server_path)
    if only is not None:
        return directory, only
    if has_archive:
        return UnionDirectory(directory, require_archive(_open_place(archive_path)[0])), None
    return archive_in(directory) or directory, None


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
    filesystem, root = pyarrow.fs.FileSystem.from_uri(path)
    info = filesystem.get_file_info(root)
    if info.type == pyarrow.fs.FileType.Directory:
        return ArrowDirectory(path, filesystem, root), None
    parent, _, name = root.rpartition("/")
    if info.is_file or (is_pattern(name) and filesystem.get_file_info(parent).type == pyarrow.fs.FileType.Directory):
        return ArrowDirectory(path.rpartition("/")[0], filesystem, parent), name
    raise path_not_found(path)
