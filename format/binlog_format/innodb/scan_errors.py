"""Errors about chunks and records found while scanning a window of pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.errors import CorruptError, DataLossError, StartError
from binlog_format.innodb.layout import CHUNK_HEADER_SIZE, CHUNK_KIND_MASK, FIRST_DATA_PAGE, NESTED_KINDS
from binlog_format.innodb.scan_kernels import LINK_MISSING_END
from binlog_format.position import Place

if TYPE_CHECKING:
    from binlog_format.block import Table
    from binlog_format.errors import BinlogError
    from binlog_format.innodb.pages.page_window import PageWindow
    from binlog_format.position import Position

_COPY_AGAIN = "The file was cut off or copied before it was complete; copy it again"
_DAMAGED = "The page has a good checksum, but not what a server writes; restore the file"


def no_position(path: str, position: Position, reason: str) -> StartError:
    """Reading cannot start at *position*, which is in the file at *path*."""
    return StartError(
        "POSITION_NOT_FOUND",
        f"position {position}: {reason}",
        at=Place(path, page=position.page),
        hint="The log may have been cut back after a crash of the server, or begun anew",
    )


def bad_length(pages: PageWindow, page: int, byte: int) -> CorruptError:
    """A chunk leaves its page."""
    return CorruptError(
        "BAD_CHUNK", "the chunk does not fit into its page", at=_place(pages, page, byte), hint=_DAMAGED
    )


def early_end_mark(pages: PageWindow, page: int, byte: int) -> CorruptError:
    """The data end in a page, but later pages have been written."""
    reason = f"the data end here, but page {page_no(pages, page + 1)} has been written"
    return CorruptError("BAD_CHUNK", reason, at=_place(pages, page, byte), hint=_DAMAGED)


def cut_record(pages: PageWindow, page: int, byte: int) -> DataLossError:
    """The data of a file end before it was full, but a later file has been begun."""
    reason = "the data end here, but a later file has been begun"
    return DataLossError("TRUNCATED_TRANSACTION", reason, at=_place(pages, page, byte), hint=_COPY_AGAIN)


def bad_link(pages: PageWindow, chunks: Table, code: int, row: int) -> BinlogError:
    """Chunks do not make records."""
    page = int(chunks["page"][row])
    place = _place(pages, page, int(chunks["start"][row]) - CHUNK_HEADER_SIZE)
    before = chunks["type"][:row][chunks["page"][:row] == page] & CHUNK_KIND_MASK
    is_first_of_file = page_no(pages, page) == FIRST_DATA_PAGE and set(before.tolist()) <= NESTED_KINDS
    if is_first_of_file:
        reason = (
            "the file before ends inside a record, but it does not go on here"
            if code == LINK_MISSING_END
            else "a record goes on here, but it does not begin in the file before"
        )
        return DataLossError("TRUNCATED_TRANSACTION", reason, at=place, hint=_COPY_AGAIN)
    reason = (
        "a record should go on here, but another one begins"
        if code == LINK_MISSING_END
        else "a record goes on here, but none has begun"
    )
    return CorruptError("BAD_CHUNK", reason, at=place, hint=_DAMAGED)


def bad_commit_header(pages: PageWindow, chunks: Table, row: int) -> CorruptError:
    """The integers of the commit record whose first chunk is *row* cannot be read."""
    place = _place(pages, int(chunks["page"][row]), int(chunks["start"][row]) - CHUNK_HEADER_SIZE)
    return CorruptError("BAD_CHUNK", "the header of the commit record is cut off", at=place, hint=_DAMAGED)


def page_no(pages: PageWindow, page: int) -> int:
    """Number in its file of the page at index *page* of the window."""
    return int(pages.page_start[page]) // pages.page_size


def _place(pages: PageWindow, page: int, byte: int) -> Place:
    """The place of a byte of the window."""
    path = pages.path(int(pages.file_no[page]))
    return Place(path, page=page_no(pages, page), byte=int(pages.page_start[page]) + byte - page * pages.page_size)
