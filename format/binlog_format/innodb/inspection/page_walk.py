"""Pages of `.ibb` files in order, good or not, with their chunks and records: `PageWalk.batches` -> `PageBatch`."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.innodb.files import READ_ATTEMPTS
from binlog_format.innodb.inspection.link_kernels import (
    LINK_DTYPE,
    STATE_OUTER,
    STATE_SIZE,
    STATE_SKIPPING,
    link_chunks,
)
from binlog_format.innodb.layout import CHUNK_HEADER_SIZE, FIRST_DATA_PAGE, PAGE_CHECKSUM_SIZE
from binlog_format.innodb.pages.checksum import PageState, verify_pages
from binlog_format.innodb.scan_kernels import KIND_BIAS, NO_RECORD, SCAN_BAD_LENGTH, SCAN_END_MARK, scan_chunks
from binlog_format.innodb.tables import CHUNK_DTYPE
from binlog_format.kernels import empty_bytes
from binlog_format.position import Position

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_format.block import Table
    from binlog_format.innodb.inspection.file_views import FileView
    from binlog_format.kernels import Bytes, Int64s
    from binlog_format.source_file import Directory, SourceFile

BATCH_SIZE = 1 << 20
"""Bytes of pages in a batch."""


class PageEnd(IntEnum):
    """Kinds of data after the last chunk of a good page."""

    FULL = 0  # nothing, or filler
    END_MARK = 1  # the end of data
    BAD_LENGTH = 2  # a chunk that does not fit


@dataclass(slots=True)
class PageBatch:
    """Consecutive pages of one file.

    Attributes:
        states: `PageState` of each page.
        ends: `PageEnd` of each page; meaningless unless it is good.
        end_bytes: For each page the byte, in the page, after its last whole chunk.
        chunks: `CHUNK_DTYPE`: chunks of the good pages.
        links: `LINK_DTYPE`, a row for each chunk.
    """

    file: FileView
    first_page: int
    data: Bytes
    states: Bytes
    ends: Bytes
    end_bytes: Int64s
    chunks: Table
    links: Table

    @property
    def page_count(self) -> int:
        """The number of pages."""
        return len(self.states)

    def page(self, index: int) -> Bytes:
        """The bytes of a page."""
        return self.data[index * self.file.page_size : (index + 1) * self.file.page_size]

    def free_bytes(self, index: int) -> Bytes:
        """The bytes between the last chunk of a good page and its checksum."""
        return self.page(index)[int(self.end_bytes[index]) : -PAGE_CHECKSUM_SIZE]

    def chunk_offset(self, row: int) -> int:
        """Byte in the file of a chunk's type."""
        start = int(self.chunks["start"][row]) - CHUNK_HEADER_SIZE
        return self.first_page * self.file.page_size + start

    def chunk_position(self, row: int) -> Position:
        """Position of a chunk."""
        chunk = self.chunks[row]
        return Position(self.file.file_no, self.first_page + int(chunk["page"]), int(chunk["number"]))

    def record_position(self, row: int) -> Position | None:
        """Position of the record that a chunk belongs to; None: it begins where nothing was read."""
        link = self.links[row]
        if link["file_no"] < 0:
            return None
        return Position.of(link)


class PageWalk:
    """Walks through files; give them in order, so that records are followed from one into the next."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._state = np.zeros(STATE_SIZE, dtype=np.int64)
        self._next: Position | None = None  # what the state is good for
        self._chunks = np.empty(0, dtype=CHUNK_DTYPE)
        self._is_lost = True
        self._forget()

    @property
    def open_record(self) -> tuple[int, Position] | None:
        """Kind and position of the record that goes on after what has been walked through."""
        kind, file_no, page, chunk = self._state[STATE_OUTER : STATE_OUTER + 4].tolist()
        return None if kind == NO_RECORD else (kind - KIND_BIAS, Position(file_no, page, chunk))

    def batches(self, file: FileView, first: int = FIRST_DATA_PAGE, end: int | None = None) -> Iterator[PageBatch]:
        """Pages [*first*, *end*) of a file; the header page is not one of them.

        Each batch is valid until the next one.
        """
        first = max(first, FIRST_DATA_PAGE)
        end = file.page_count if end is None else min(end, file.page_count)
        if self._next != Position(file.file_no, first, 0):
            self._forget()
        count_max = max(BATCH_SIZE // file.page_size, 1)
        data = empty_bytes(min(count_max, max(end - first, 0)) * file.page_size)
        try:
            source = self._directory.open(file.name)
        except FileNotFoundError:
            return
        with closing(source):
            while first < end:
                wanted = data[: min(count_max, end - first) * file.page_size]
                size = source.read_into(first * file.page_size, wanted)
                count = size // file.page_size
                if count == 0:
                    break
                yield self._batch(file, source, first, data[: count * file.page_size])
                first += count
        is_file_end = first >= file.page_count
        self._next = Position(file.file_no + 1, FIRST_DATA_PAGE, 0) if is_file_end else Position(file.file_no, first, 0)

    def _forget(self) -> None:
        self._state[:] = 0
        self._state[STATE_SKIPPING] = 1
        self._is_lost = False

    def _batch(self, file: FileView, source: SourceFile, first: int, data: Bytes) -> PageBatch:
        page_size = file.page_size
        count = len(data) // page_size
        states = self._page_states(source, first, data, page_size)
        if len(self._chunks) < (wanted := count * (page_size // CHUNK_HEADER_SIZE)):
            self._chunks = np.empty(wanted, dtype=CHUNK_DTYPE)
        ends = np.zeros(count, dtype=np.uint8)
        rows = self._scan(data, states, page_size, ends)
        chunks = self._chunks[:rows]
        end_bytes = np.zeros(count, dtype=np.int64)
        end_bytes[chunks["page"]] = chunks["start"] + chunks["size"] - chunks["page"].astype(np.int64) * page_size
        is_unreadable = (states != PageState.GOOD) | (ends != PageEnd.FULL)
        is_lost = np.empty(count, dtype=np.uint8)
        is_lost[0] = self._is_lost
        is_lost[1:] = is_unreadable[:-1]
        # Kept until a chunk is seen again: what is open at the end of data stays known.
        last = int(chunks["page"][-1]) if rows else 0
        self._is_lost = bool(is_unreadable[last:].any()) or (rows == 0 and self._is_lost)
        links = np.empty(rows, dtype=LINK_DTYPE)
        link_chunks(chunks, rows, file.file_no, first, page_size, is_lost, self._state, links)
        return PageBatch(file, first, data, states, ends, end_bytes, chunks, links)

    def _page_states(self, source: SourceFile, first: int, data: Bytes, page_size: int) -> Bytes:
        """The state of each page; one that is not good is read again, since it may be written at this moment."""
        count = len(data) // page_size
        states = np.zeros(count, dtype=np.uint8)
        page = 0
        while page < count:
            good, state = verify_pages(data[page * page_size :], page_size)
            page += good
            if page >= count:
                break
            target = data[page * page_size : (page + 1) * page_size]
            for _ in range(READ_ATTEMPTS - 1):
                if state is not PageState.BAD:
                    break
                if source.read_into((first + page) * page_size, target) == page_size:
                    state = verify_pages(target, page_size)[1]
            states[page] = state
            page += 1
        return states

    def _scan(self, data: Bytes, states: Bytes, page_size: int, ends: Bytes) -> int:
        """Fill the chunk table from all good pages, past pages that end early; return the rows."""
        rows = 0
        page = 0
        count = len(states)
        while page < count:
            if states[page] != PageState.GOOD:
                page += 1
                continue
            after = page + 1
            while after < count and states[after] == PageState.GOOD:
                after += 1
            run = data[page * page_size : after * page_size]
            table = self._chunks[rows:]
            code, found, reached, _, _ = scan_chunks(run, after - page, page_size, 0, table)
            table["page"][:found] += page
            table["start"][:found] += page * page_size
            rows += found
            page += reached
            if code in (SCAN_END_MARK, SCAN_BAD_LENGTH):
                ends[page] = PageEnd.END_MARK if code == SCAN_END_MARK else PageEnd.BAD_LENGTH
                page += 1
        return rows
