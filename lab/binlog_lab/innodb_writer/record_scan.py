"""A straight walk over the records of files that a writer takes up again: `RecordScan`.

For a restart only: page by page, in Python, and of most records only the first bytes. Readers have their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from binlog_format.errors import CorruptError
from binlog_format.innodb.header import file_name
from binlog_format.innodb.layout import (
    CHUNK_CONTINUATION,
    CHUNK_END_OF_DATA,
    CHUNK_FILLER,
    CHUNK_HEADER_SIZE,
    CHUNK_HEADER_STRUCT,
    CHUNK_KIND_MASK,
    CHUNK_LAST,
    CHUNK_SPACE_MIN,
    FIRST_DATA_PAGE,
    NESTED_KINDS,
    PAGE_CHECKSUM_SIZE,
    RecordKind,
)
from binlog_format.innodb.pages.checksum import page_checksum, stored_checksum
from binlog_format.position import Place

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PREFIX_SIZE = 512
"""Bytes kept of a record: more than any XA record, and than a commit record up to the end of its GTID event."""

_READ_PAGES = 64


class PagePlace(NamedTuple):
    """A byte in a page."""

    file_no: int
    page_no: int
    page_offset: int


class Record(NamedTuple):
    """A whole record.

    Attributes:
        kind: `RecordKind`, or a number that is not known.
        start: Its first chunk.
        data: The first bytes of it; of a GTID state all of it.
    """

    kind: int
    start: PagePlace
    data: bytes


class RecordScan:
    """Walks the files *first* to *last*, all of them begun; its attributes count when the walk is over.

    Args:
        first: File to begin with, at its first record.
        last: The last file that has been begun.
        page_size: In bytes.

    Attributes:
        end: After the last chunk, and after filler.
        page: The page there, as far as it can be trusted; None when nothing of it is written.
        open_start: First chunk of a record whose end is not there.
        is_anchored: A record starts or ends in these files: nothing before them can be incomplete.
        is_torn: The write of the last page was interrupted; on disk it is not what `page` contains.
    """

    def __init__(self, directory: Path, first: int, last: int, page_size: int) -> None:
        self._directory = directory
        self._first = first
        self._last = last
        self._page_size = page_size
        self._data_size = page_size - PAGE_CHECKSUM_SIZE
        self._kind = -1
        self._parts: list[bytes] = []
        self._kept = 0
        self.end = PagePlace(first, FIRST_DATA_PAGE, 0)
        self.page: bytes | None = None
        self.open_start: PagePlace | None = None
        self.is_anchored = False
        self.is_torn = False

    def records(self) -> Iterator[Record]:
        """The whole records in order; state records in the middle of others are left out.

        Raises:
            CorruptError: Damage that a killed writer cannot leave.
        """
        for file_no in range(self._first, self._last + 1):
            self.end, self.page = PagePlace(file_no, FIRST_DATA_PAGE, 0), None
            for page_no, page in self._pages(file_no):
                yield from self._page_records(file_no, page_no, page)

    def _pages(self, file_no: int) -> Iterator[tuple[int, bytes]]:
        size = self._page_size
        page_no = FIRST_DATA_PAGE
        zero = bytes(size)
        with (self._directory / file_name(file_no)).open("rb") as file:
            file.seek(page_no * size)
            while batch := file.read(_READ_PAGES * size):
                for start in range(0, len(batch) - size + 1, size):
                    page = batch[start : start + size]
                    if page_checksum(page) != stored_checksum(page):
                        is_empty = page == zero
                        after = batch[start + size : start + 2 * size] or file.read(size)
                        if file_no != self._last or after.strip(b"\0"):
                            raise self._bad_page(file_no, page_no, page, is_empty=is_empty)
                        if not is_empty:
                            self.is_torn = True
                            page = self._before_torn_write(file_no, page_no, page)
                            if page[0] != CHUNK_END_OF_DATA:
                                yield page_no, page
                        return
                    yield page_no, page
                    page_no += 1

    def _page_records(self, file_no: int, page_no: int, page: bytes) -> Iterator[Record]:
        offset = 0
        while offset <= self._data_size - CHUNK_SPACE_MIN:
            type_byte, size = CHUNK_HEADER_STRUCT.unpack_from(page, offset)
            if type_byte == CHUNK_END_OF_DATA:
                break
            if type_byte == CHUNK_FILLER:
                offset = self._data_size
                break
            place = PagePlace(file_no, page_no, offset)
            data_start = offset + CHUNK_HEADER_SIZE
            offset = data_start + size
            if offset > self._data_size:
                raise self._bad_chunk(place, f"its length is {size}")
            if self._takes_chunk(type_byte, place):
                if self._kept < _PREFIX_SIZE or self._kind == RecordKind.GTID_STATE:
                    end = offset if self._kind == RecordKind.GTID_STATE else min(offset, data_start + _PREFIX_SIZE)
                    self._parts.append(page[data_start:end])
                    self._kept += size
                if type_byte & CHUNK_LAST and self.open_start is not None:
                    yield Record(self._kind, self.open_start, b"".join(self._parts))
                    self.open_start = None
        self.end, self.page = PagePlace(file_no, page_no, offset), page
        if offset == self._data_size or page[offset : self._data_size].strip(b"\0"):
            self.end, self.page = PagePlace(file_no, page_no + 1, 0), None

    def _takes_chunk(self, type_byte: int, place: PagePlace) -> bool:
        """Begin a record where one begins, and tell whether the chunk belongs to it."""
        kind = type_byte & CHUNK_KIND_MASK
        if self.open_start is None:
            if type_byte & CHUNK_CONTINUATION:  # of a record from before the first file
                self.is_anchored = self.is_anchored or bool(type_byte & CHUNK_LAST)
                return False
            self.open_start = place
            self._kind = kind
            self._kept = 0
            self._parts.clear()
            self.is_anchored = self.is_anchored or kind != RecordKind.GTID_STATE
            return True
        if kind == self._kind and type_byte & CHUNK_CONTINUATION:
            return True
        if kind not in NESTED_KINDS:
            raise self._bad_chunk(place, "the record before it has no end")
        return False

    def _before_torn_write(self, file_no: int, page_no: int, page: bytes) -> bytes:
        """The page as it was written before: a page is only ever written again with more data after the same bytes.

        The stored checksum is still the old one, so it shows how far the old data went.
        """
        offset = 0
        stored = stored_checksum(page)
        while stored != 0 and offset <= self._data_size - CHUNK_SPACE_MIN:
            type_byte, size = CHUNK_HEADER_STRUCT.unpack_from(page, offset)
            offset += CHUNK_HEADER_SIZE + size
            if type_byte == CHUNK_END_OF_DATA or offset > self._data_size:
                break
            before = page[:offset].ljust(self._page_size, b"\0")
            if page_checksum(before) == stored:
                return before
        if stored != 0:
            raise self._bad_page(file_no, page_no, page, is_empty=False)
        return bytes(self._page_size)

    def _bad_page(self, file_no: int, page_no: int, page: bytes, *, is_empty: bool) -> CorruptError:
        at = Place(str(self._directory / file_name(file_no)), page_no, page_no * self._page_size)
        if is_empty:
            return CorruptError("PAGE_CHECKSUM", "the page is empty, but later ones are not", at=at)
        stored, computed = stored_checksum(page), page_checksum(page)
        return CorruptError("PAGE_CHECKSUM", f"page CRC-32C: stored {stored:#010x}, computed {computed:#010x}", at=at)

    def _bad_chunk(self, place: PagePlace, problem: str) -> CorruptError:
        byte = place.page_no * self._page_size + place.page_offset
        path = str(self._directory / file_name(place.file_no))
        return CorruptError("BAD_CHUNK", problem, at=Place(path, place.page_no, byte))
