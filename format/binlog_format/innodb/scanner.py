"""Commit records of a log, window by window: `CommitScanner`.

A window is a run of verified pages of about `WINDOW_SIZE` bytes, over file ends where need be, with the table of its
chunks and the table of the whole commit records that start in it.

Errors about chunks and records found while scanning a window of pages.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.block import BLOCK_SIZE, EXTENT_DTYPE
from binlog_format.errors import BinlogError, CorruptError, DataLossError, StartError
from binlog_format.innodb.groups.commit_kernels import COMMIT_DONE, HEAD_SIZE, read_commit_headers
from binlog_format.innodb.layout import (
    CHUNK_HEADER_SIZE,
    CHUNK_KIND_MASK,
    CHUNK_LAST,
    COMMIT_HEADER_INTS_MAX,
    FIRST_DATA_PAGE,
    NESTED_KINDS,
    RecordKind,
)
from binlog_format.innodb.pages.page_window import PageWindow
from binlog_format.innodb.scan_kernels import (
    KIND_BIAS,
    LINK_DONE,
    LINK_MISSING_END,
    NO_RECORD,
    SCAN_BAD_LENGTH,
    SCAN_DONE,
    SCAN_END_MARK,
    SCAN_NO_SUCH_CHUNK,
    SCAN_TABLE_FULL,
    link_records,
    scan_chunks,
)
from binlog_format.innodb.tables import CHUNK_DTYPE, RECORD_DTYPE
from binlog_format.kernels import empty_bytes
from binlog_format.position import Place, Position

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_format.block import Table
    from binlog_format.innodb.pages.pages import PageReader


WINDOW_SIZE = 2 * BLOCK_SIZE
"""Bytes of a window: a group with out-of-band data that lies across two of them is read by its places, which takes
longer."""

CHUNKS_PER_WINDOW = 32768
"""Rows of the chunk table beside those that one page may need; a window of more chunks comes in parts."""

OVERRUN_PAGES = 16
"""Pages read at a time after the end of a range, for the last chunks of a record that starts in it."""

END_MARK_LOOKS_MAX = 3
"""A page with an end mark that later pages follow was read before it was complete; it is read so many times."""

_COMMIT_OPEN = int(RecordKind.COMMIT) + KIND_BIAS


@dataclass(slots=True)
class LongRecord:
    """A commit record that is longer than a window.

    Attributes:
        position: Of its first chunk.
        file_offset: Byte in the file where that is.
        extents: Its data, integers included: `EXTENT_DTYPE` without `data_start`, a table for each window.
    """

    position: Position
    file_offset: int
    extents: list[Table] = field(default_factory=list)


@dataclass(slots=True)
class CommitWindow:
    """Contents of a window of pages.

    Attributes:
        pages: The pages; valid until the next window, as all tables.
        records: `RECORD_DTYPE`: whole commit records in the range asked for, headers read.
        long_record: One that ended in this window, before all of *records*.
        next_position: After the last whole record.
        boundary: Row of *chunks* after the last whole record of any kind; negative: none ends in this window.
    """

    pages: PageWindow
    chunks: Table
    records: Table
    boundary: int
    long_record: LongRecord | None
    next_position: Position


@dataclass(slots=True)
class _Step:
    """Contents of one window, and the place to continue.

    Attributes:
        error: What is wrong after it.
        page: Index of the page to go on with.
        chunk: First chunk there.
        open_kind: Biased kind of the record that is open there.
        open_first: Row of its first chunk; negative: it began before the window.
        is_full: The window can take no more, though its first record may not have ended.
    """

    window: CommitWindow
    error: BinlogError | None
    finished: bool
    page: int
    chunk: int
    open_kind: int
    open_first: int
    is_full: bool


class CommitScanner:
    """Finds the commit records that start in [*start*, *end*).

    Args:
        start: Where to begin. Continuations of a record that began before are passed over.
        end: None: the end of what is there.
        window_size: Bytes of a window.
    """

    def __init__(
        self, reader: PageReader, start: Position, end: Position | None, *, window_size: int = WINDOW_SIZE
    ) -> None:
        self._reader = reader
        self._start = Position(start.file_no, max(start.page, FIRST_DATA_PAGE), start.chunk)
        self._end = end
        self._window_size = window_size
        self._first_chunk = start.chunk  # in the window's first page
        self._next_position = self._start
        self._open_kind = NO_RECORD
        self._skipping = True
        self._long: LongRecord | None = None
        self._has_kept = False  # the window begins with pages of a commit record that goes on
        self._end_mark_looks = 0
        self._head = empty_bytes(HEAD_SIZE)
        self._integers = np.empty(COMMIT_HEADER_INTS_MAX, dtype=np.uint64)

    def windows(self) -> Iterator[CommitWindow]:
        """The windows in order. Raises `BinlogError`: when everything before the damage has been given."""
        file = self._reader.files.begun(self._start.file_no)
        if file is None:
            if self._reader.files.later_begun(self._start.file_no - 1) is not None:
                self._reader.files.existing(self._start.file_no)  # reports what is wrong with it
            return
        if self._end is not None and self._end <= self._start:
            return
        page_count = file.page_count()
        if self._start.page > page_count or (self._start.page == page_count and self._start.chunk > 0):
            raise self._no_position("the file ends before it")
        pages = PageWindow(self._reader, file, self._start.page, self._window_size)
        self._chunks: Table = np.empty(CHUNKS_PER_WINDOW + pages.page_size // CHUNK_HEADER_SIZE, dtype=CHUNK_DTYPE)
        self._records: Table = np.empty(len(self._chunks), dtype=RECORD_DTYPE)
        while True:
            error = self._fill(pages)
            if pages.count == 0:
                if error is None and self._first_chunk > 0 and pages.at_end and pages.next_is_empty():
                    error = self._no_position("nothing has been written there")
                if error is not None:
                    raise error
                return
            step = self._take(pages, error)
            yield step.window
            if step.error is not None:
                raise step.error
            if step.finished:
                return
            self._advance(pages, step)

    def _no_position(self, reason: str) -> StartError:
        return _no_position(self._reader.files.path(self._start.file_no), self._start, reason)

    def _fill(self, pages: PageWindow) -> BinlogError | None:
        """Read on. Damage is given back, not raised: good pages may come before it."""
        try:
            pages.fill(self._end, pages.capacity)
            if pages.limited and (self._long is not None or self._has_kept):
                pages.fill(None, OVERRUN_PAGES)
        except BinlogError as error:
            return error
        return None

    def _take(self, pages: PageWindow, error: BinlogError | None) -> _Step:
        code, rows, page, chunk, byte = scan_chunks(
            pages.data, pages.count, pages.page_size, self._first_chunk, self._chunks
        )
        if code == SCAN_NO_SUCH_CHUNK:
            raise self._no_position(f"its page has {chunk} chunks")
        chunks = self._chunks[:rows]
        link_code, count, open_kind, open_first, boundary, self._skipping, reached = link_records(
            chunks, rows, self._open_kind, self._skipping, self._records
        )
        # An end mark is believed in the last page only: another page was read before it was complete.
        is_last_mark = code == SCAN_END_MARK and page == pages.count - 1
        if code == SCAN_BAD_LENGTH:
            error = CorruptError(
                "BAD_CHUNK", "the chunk does not fit into its page", at=_place(pages, page, byte), hint=_DAMAGED
            )
        elif code == SCAN_END_MARK:
            error = self._judge_end_mark(pages, page, byte, open_kind) or error
        if link_code != LINK_DONE:
            error = _bad_link(pages, chunks, link_code, reached)
            page, chunk = int(chunks["page"][reached]), int(chunks["number"][reached])
        long_record = None if self._long is None else self._continue_long(pages, chunks[:reached])
        stop_row = self._first_row_after_end(pages, chunks)
        records = self._records[: int(np.searchsorted(self._records["first"][:count], stop_row))]
        if boundary >= 0:
            self._next_position = (
                pages.position(int(chunks["page"][boundary]), int(chunks["number"][boundary]))
                if boundary < rows
                else pages.position(page, chunk)
            )
        is_owned_open = self._long is not None or (open_kind == _COMMIT_OPEN and 0 <= open_first < stop_row)
        finished = (pages.at_end or pages.limited) and not is_owned_open and is_last_mark
        finished = finished or (pages.at_end and (is_last_mark or code == SCAN_DONE))
        if self._end is not None and not is_owned_open:
            is_past = pages.position(page, chunk) >= self._end or (pages.limited and code == SCAN_DONE)
            if is_past and (link_code == LINK_DONE or reached >= stop_row):
                finished, error = True, None
                self._next_position = self._end  # its last page may hold more records, which are not of the range
        records, error = self._read_headers(pages, chunks, records, error)
        window = CommitWindow(pages, chunks, records, boundary, long_record, self._next_position)
        is_full = code == SCAN_TABLE_FULL or pages.count == pages.capacity
        return _Step(window, error, finished, page, chunk, open_kind, open_first, is_full)

    def _judge_end_mark(self, pages: PageWindow, page: int, byte: int, open_kind: int) -> BinlogError | None:
        """Return the error of an end mark; None: it can be right, or the page will be read again."""
        if page == pages.count - 1:
            self._end_mark_looks = 0
            file_no = pages.file.file_no
            # The server makes file N+2 only when N is complete and on disk.
            if pages.at_end and open_kind != NO_RECORD and self._reader.files.size(file_no + 2) is not None:
                return _cut_record(pages, page, byte)
            return None
        self._end_mark_looks += 1
        if self._end_mark_looks < END_MARK_LOOKS_MAX:
            return None
        if open_kind != NO_RECORD or pages.file_no[page] != pages.file_no[page + 1]:
            return _cut_record(pages, page, byte)
        reason = f"the data end here, but page {_page_no(pages, page + 1)} has been written"
        return CorruptError("BAD_CHUNK", reason, at=_place(pages, page, byte), hint=_DAMAGED)

    def _first_row_after_end(self, pages: PageWindow, chunks: Table) -> int:
        """Row of the first chunk at or after the end of the range."""
        end = self._end
        if end is None or len(chunks) == 0:
            return len(chunks)
        if pages.position(int(chunks["page"][-1]), int(chunks["number"][-1])) < end:
            return len(chunks)
        file_no = pages.file_no[chunks["page"]]
        page_no = pages.page_start[chunks["page"]] // pages.page_size
        is_after_in_file = (page_no > end.page) | ((page_no == end.page) & (chunks["number"] >= end.chunk))
        return int(np.argmax((file_no > end.file_no) | ((file_no == end.file_no) & is_after_in_file)))

    def _read_headers(
        self, pages: PageWindow, chunks: Table, records: Table, error: BinlogError | None
    ) -> tuple[Table, BinlogError | None]:
        code, count = read_commit_headers(pages.data, chunks, records, len(records), self._head, self._integers)
        if code == COMMIT_DONE:
            return records, error
        chunk = chunks[int(records["first"][count])]
        place = _place(pages, int(chunk["page"]), int(chunk["start"]) - CHUNK_HEADER_SIZE)
        reason = "the header of the commit record is cut off"
        return records[:count], CorruptError("BAD_CHUNK", reason, at=place, hint=_DAMAGED)

    def _continue_long(self, pages: PageWindow, chunks: Table) -> LongRecord | None:
        """Add the window's part of a long record; give the record when it ends here."""
        assert self._long is not None
        rows = np.flatnonzero(chunks["type"] & CHUNK_KIND_MASK == RecordKind.COMMIT)
        last = np.flatnonzero(chunks["type"][rows] & CHUNK_LAST)
        if len(last) == 0:
            self._long.extents.append(window_extents(pages, chunks[rows]))
            return None
        long_record, self._long = self._long, None
        long_record.extents.append(window_extents(pages, chunks[rows[: last[0] + 1]]))
        return long_record

    def _advance(self, pages: PageWindow, step: _Step) -> None:
        """Make room for the next window: keep the pages of a commit record that goes on, or note its places."""
        self._has_kept = False
        if step.open_kind == _COMMIT_OPEN and step.open_first >= 0:
            chunk = step.window.chunks[step.open_first]
            page, number = int(chunk["page"]), int(chunk["number"])
            if page > 0 or not step.is_full:
                pages.keep(page, max(page, step.page))
                self._first_chunk = number
                self._open_kind = NO_RECORD
                self._has_kept = True
                return
            offset = int(pages.page_start[page] + chunk["start"]) - CHUNK_HEADER_SIZE - page * pages.page_size
            self._long = LongRecord(pages.position(page, number), offset)
            self._continue_long(pages, step.window.chunks[step.open_first :])
        pages.keep(step.page, step.page)
        self._first_chunk = step.chunk
        self._open_kind = step.open_kind


def window_extents(pages: PageWindow, chunks: Table) -> Table:
    """Places in the files of the data of *chunks*."""
    extents = np.zeros(len(chunks), dtype=EXTENT_DTYPE)
    extents["file_no"] = pages.file_no[chunks["page"]]
    extents["file_offset"] = pages.page_start[chunks["page"]] + chunks["start"] - chunks["page"] * pages.page_size
    extents["size"] = chunks["size"]
    return extents


_COPY_AGAIN = "The file was cut off or copied before it was complete; copy it again"
_DAMAGED = "The page has a good checksum, but not what a server writes; restore the file"


def _no_position(path: str, position: Position, reason: str) -> StartError:
    """Reading cannot start at *position*, which is in the file at *path*."""
    return StartError(
        "POSITION_NOT_FOUND",
        f"position {position}: {reason}",
        at=Place(path, page=position.page),
        hint="The log may have been cut back after a crash of the server, or begun anew",
    )


def _cut_record(pages: PageWindow, page: int, byte: int) -> DataLossError:
    """The data of a file end before it was full, but a later file has been begun."""
    reason = "the data end here, but a later file has been begun"
    return DataLossError("TRUNCATED_TRANSACTION", reason, at=_place(pages, page, byte), hint=_COPY_AGAIN)


def _bad_link(pages: PageWindow, chunks: Table, code: int, row: int) -> BinlogError:
    """Chunks do not make records."""
    page = int(chunks["page"][row])
    place = _place(pages, page, int(chunks["start"][row]) - CHUNK_HEADER_SIZE)
    before = chunks["type"][:row][chunks["page"][:row] == page] & CHUNK_KIND_MASK
    is_first_of_file = _page_no(pages, page) == FIRST_DATA_PAGE and set(before.tolist()) <= NESTED_KINDS
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


def _page_no(pages: PageWindow, page: int) -> int:
    """Number in its file of the page at index *page* of the window."""
    return int(pages.page_start[page]) // pages.page_size


def _place(pages: PageWindow, page: int, byte: int) -> Place:
    """The place of a byte of the window."""
    path = pages.path(int(pages.file_no[page]))
    return Place(path, page=_page_no(pages, page), byte=int(pages.page_start[page]) + byte - page * pages.page_size)
