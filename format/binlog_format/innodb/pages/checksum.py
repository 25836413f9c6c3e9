"""Page checksums: `page_checksum`, `verify_pages`, and the error for one that is wrong: `bad_checksum`.

The last 4 bytes of a written page are the CRC-32C (Castagnoli) of the bytes before them, little endian; a page that
was never written is zero throughout and has none.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from crc32c import crc32c

from binlog_format.errors import CorruptError
from binlog_format.innodb.layout import PAGE_CHECKSUM_SIZE, PAGE_CHECKSUM_STRUCT
from binlog_format.kernels import is_interpreted

if TYPE_CHECKING:
    from binlog_format.kernels import Bytes
    from binlog_format.position import Place


FEW_PAGES = 4
"""Pages that are checked one by one: they take a microsecond each, and the kernel is quicker for many together."""


class PageState(IntEnum):
    """State of a page, by its checksum."""

    GOOD = 0
    ZERO = 1  # never written
    BAD = 2


def page_checksum(page: bytes | bytearray | memoryview) -> int:
    """CRC-32C of a whole page without its last 4 bytes."""
    return crc32c(memoryview(page)[:-PAGE_CHECKSUM_SIZE])


def stored_checksum(page: bytes | bytearray | memoryview) -> int:
    """The checksum that a whole page carries."""
    checksum: int = PAGE_CHECKSUM_STRUCT.unpack_from(page, len(page) - PAGE_CHECKSUM_SIZE)[0]
    return checksum


def checksum_text(page: bytes | bytearray | memoryview) -> str:
    """Both checksums of a whole page that is damaged, for messages."""
    return f"page CRC-32C: stored {stored_checksum(page):#010x}, computed {page_checksum(page):#010x}"


def bad_checksum(page: memoryview, at: Place, hint: str, more: str = "") -> CorruptError:
    """The error for a whole page that is damaged. *more*: what else is known of it."""
    return CorruptError("PAGE_CHECKSUM", checksum_text(page) + more, at=at, hint=hint)


def verify_pages(data: Bytes, page_size: int) -> tuple[int, PageState]:
    """Check pages in turn until one is not good.

    Args:
        data: Whole pages.

    Returns:
        How many good pages there are at the start of *data*, and the state of the page that ended the count (`GOOD`
        when all are).
    """
    good = _count_good_pages(data, page_size)
    if good == len(data) // page_size:
        return good, PageState.GOOD
    # A page of zeros has a computed checksum that is not zero, so it always ends up here.
    is_written = data[good * page_size : (good + 1) * page_size].any()
    return good, PageState.BAD if is_written else PageState.ZERO


def _count_good_pages(data: Bytes, page_size: int) -> int:
    if len(data) > FEW_PAGES * page_size and not is_interpreted():
        from binlog_format.innodb.pages.checksum_kernels import count_good_pages  # loads the compiler

        if count_good_pages is not None:  # which it is on processors without the instruction
            return count_good_pages(data, page_size)
    view = data.data
    for start in range(0, len(data), page_size):
        page = view[start : start + page_size]
        if page_checksum(page) != stored_checksum(page):
            return start // page_size
    return len(data) // page_size
