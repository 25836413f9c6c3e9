"""Where entries can be read again after damage: `find_entries_in_file`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.kernels import empty_bytes
from binlog_format.structured.files.search_kernels import find_entries

if TYPE_CHECKING:
    from binlog_format.source_file import SourceFile
    from binlog_format.structured.known_metadata import IdTable


def find_entries_in_file(
    source: SourceFile, known: IdTable, start: int, limit: int, count: int, *, window: int
) -> int | None:
    """The first byte in [*start*, *limit*) where entries seem to follow one another.

    An entry counts when its size fits and it is an event of a known source, or metadata of a known kind whose fields
    fit.

    Args:
        source: The file.
        known: Sources that events can be of.
        start: Where to look.
        limit: No entry is looked for from there on.
        count: Entries wanted.
        window: Bytes to look at at a time; a row of entries that takes more than half of it is not found.

    Returns:
        None: there is no such place.
    """
    buffer = empty_bytes(window)
    while start < limit:
        size = source.read_into(start, buffer)
        is_end = size < window
        looked_at = min(size if is_end else window // 2, limit - start)
        found = find_entries(buffer, 0, looked_at, size, count, is_end, known.ids, known.slots)
        if found >= 0:
            return start + found
        if is_end:
            return None
        start += looked_at
    return None
