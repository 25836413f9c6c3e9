"""The binlog files of a directory: `find_files`. The server's index file is not needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.classic.file import check_magic
from binlog_format.classic.layout import (
    FILE_NAME,
    MAGIC,
    MAGIC_ENCRYPTED,
    MAGIC_SIZE,
    MYSQL_ENCRYPTION_HEADER_SIZE,
)
from binlog_format.errors import StartError
from binlog_format.kernels import empty_bytes

if TYPE_CHECKING:
    from binlog_format.source_file import Directory, FileEntry


def find_files(directory: Directory, only: str | None = None) -> dict[int, FileEntry]:
    """The binlog files of *directory* by number, ascending.

    Files belong together when they have the name `<base>.NNNNNN` with the same base; one file of each base is looked
    into. A file that has just been made may be empty still; it counts.

    Args:
        directory: Where to look.
        only: Take this file alone.

    Raises:
        StartError: `NO_LOG_FILES`; or `CONFLICTING_OPTIONS`: files of several bases are there.
        CorruptError: `HEADER`: *only* is something else.
        UnsupportedError: `ENCRYPTED`.
    """
    if only is not None:
        return _only_file(directory, only)
    by_base: dict[str, dict[int, FileEntry]] = {}
    for entry in directory.entries():
        match = FILE_NAME.fullmatch(entry.name)
        if match is not None:
            by_base.setdefault(match["base"], {})[int(match["number"])] = entry
    found = {base: files for base, files in by_base.items() if _is_binlog(directory, files)}
    if not found:
        raise StartError(
            "NO_LOG_FILES",
            f"{directory.path}: there are no binlog files",
            hint="They are named <base>.NNNNNN and are in the directory of the server variable log_bin_basename",
        )
    if len(found) > 1:
        names = " and ".join(f"{base}.*" for base in sorted(found))
        raise StartError(
            "CONFLICTING_OPTIONS",
            f"{directory.path}: there are files of {len(found)} logs: {names}",
            hint="Move the files of the others away (relay logs, for example), or name one file",
        )
    (files,) = found.values()
    return dict(sorted(files.items()))


def _only_file(directory: Directory, name: str) -> dict[int, FileEntry]:
    match = FILE_NAME.fullmatch(name)
    entry = directory.entry(name)
    if match is None or entry is None:
        raise StartError("NO_LOG_FILES", f"{name} is not named like a binlog file, <base>.NNNNNN")
    head = _read_head(directory, name)
    if len(head) >= MAGIC_SIZE:
        check_magic(head[:MAGIC_SIZE], directory.path_of(name), head)
    return {int(match["number"]): entry}


def _is_binlog(directory: Directory, files: dict[int, FileEntry]) -> bool:
    for _, entry in sorted(files.items()):
        if entry.size < MAGIC_SIZE:
            continue  # made this moment, or by a server that was killed then
        head = _read_head(directory, entry.name)
        if head[:MAGIC_SIZE] == MAGIC_ENCRYPTED:
            check_magic(MAGIC_ENCRYPTED, directory.path_of(entry.name), head)
        return head[:MAGIC_SIZE] == MAGIC
    return False


def _read_head(directory: Directory, name: str) -> bytes:
    try:
        file = directory.open(name)
    except FileNotFoundError:
        return b""  # purged since the listing
    try:
        buffer = empty_bytes(MYSQL_ENCRYPTION_HEADER_SIZE)
        return buffer[: file.read_into(0, buffer)].tobytes()
    finally:
        file.close()
