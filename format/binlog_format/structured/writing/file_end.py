"""End of the last complete entry of a file: `whole_entries_end`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from binlog_format.errors import CorruptError
from binlog_format.position import Place
from binlog_format.structured.layout import ENTRY_HEAD_SIZE, METADATA_BIT, SIZE_STRUCT, TAG_STRUCT

if TYPE_CHECKING:
    from pathlib import Path

_READ_SIZE = 1 << 20
CUT_MAX = 1 << 26
"""Bytes of an incomplete entry that can be what a crash has left; more are a damaged size before whole entries."""


def whole_entries_end(file: int, path: Path) -> int:
    """The byte after the last whole entry of a structured log.

    Args:
        file: Descriptor, open for reading.
        path: Of the file, for messages.

    Raises:
        CorruptError: `BAD_ENTRY`: it is no structured log, or is damaged.
    """
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
