"""The bytes before a position in one page: `consumed_chunks` (innodb), `masked_classic_page` (classic)."""

from __future__ import annotations

from binlog_format.events.layout import EVENT_FLAGS_OFFSET
from binlog_format.innodb.layout import (
    CHUNK_END_OF_DATA,
    CHUNK_FILLER,
    CHUNK_HEADER_SIZE,
    CHUNK_HEADER_STRUCT,
    CHUNK_SPACE_MIN,
    PAGE_CHECKSUM_SIZE,
)

_MAGIC_SIZE = 4
_IN_USE_BYTE = _MAGIC_SIZE + EVENT_FLAGS_OFFSET
"""Behind the magic of a classic file stands its Format_description event. The flag LOG_EVENT_BINLOG_IN_USE_F in it is
cleared when the file is closed, so this byte says nothing about who wrote the file."""


def consumed_chunks(page: bytes, chunk_count: int) -> bytes | None:
    """The bytes of the first *chunk_count* chunks of an `.ibb` page; 0: the whole page.

    The page's checksum is not looked at: what stands behind the chunks, and the checksum with it, changes while the
    server fills the page.

    Returns:
        None when there are not so many chunks.
    """
    end = len(page) - PAGE_CHECKSUM_SIZE
    if chunk_count == 0:
        return page[:end] if page[0] != CHUNK_END_OF_DATA else None
    start = 0
    for _ in range(chunk_count):
        if start + CHUNK_SPACE_MIN > end or page[start] in (CHUNK_END_OF_DATA, CHUNK_FILLER):
            return None
        _, size = CHUNK_HEADER_STRUCT.unpack_from(page, start)
        start += CHUNK_HEADER_SIZE + size
    return page[:start] if start <= end else None


def masked_classic_page(page: bytes) -> bytes:
    """The first bytes of a classic file without what the server changes in them later."""
    return page[:_IN_USE_BYTE] + b"\0" + page[_IN_USE_BYTE + 1 :] if len(page) > _IN_USE_BYTE else page
