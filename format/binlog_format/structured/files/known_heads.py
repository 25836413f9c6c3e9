"""Heads of files that nobody writes any more: `known_heads`. So a look at many files costs a listing, and reads few.

A log is opened anew for each look and each batch, and the start of each file tells which one it is. In an object store
that would be a request for each file each time.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from binlog_format.source_file import FileEntry
    from binlog_format.structured.files.head import FileHead

SETTLED_NS = 2_000_000_000
"""A file that was changed within this time of the newest one may change again, and its time stays the same: those of
object stores, and of some file systems, are whole seconds."""

_LOGS_MAX = 64

_Key = tuple[str, int, int]


class KnownHeads:
    """Heads of files as a listing shows them: by name, size and the time of the last change."""

    def __init__(self) -> None:
        self._heads: dict[_Key, FileHead] = {}

    def of(self, entry: FileEntry) -> FileHead | None:
        """The head of a file; None: it has to be read."""
        return self._heads.get(_key(entry))

    def keep(self, found: Iterable[tuple[FileEntry, FileHead]]) -> None:
        """Keep the heads of a listing, and no others."""
        heads = dict(found)
        newest = max((entry.modified_ns for entry in heads), default=0)
        self._heads = {
            _key(entry): head for entry, head in heads.items() if 0 < entry.modified_ns <= newest - SETTLED_NS
        }

    def forget(self) -> None:
        """A file is not the one that it was taken for."""
        self._heads = {}


def _key(entry: FileEntry) -> _Key:
    return entry.name, entry.size, entry.modified_ns


@functools.lru_cache(_LOGS_MAX)
def known_heads(path: str, only: str | None) -> KnownHeads:
    """Known heads of the files of one log, shared by all readers in this process.

    Args:
        path: Of the directory.
        only: The name or the pattern of the files; None: all.
    """
    del path, only
    return KnownHeads()
