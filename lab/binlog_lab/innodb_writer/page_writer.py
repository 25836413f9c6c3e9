"""Records to pages: `PageWriter` cuts them into chunks and gets the pages to the files (docs/formats/innodb.md).

Complete pages go to the file at once, in order, all of an older file before the first of a newer one. The last page of
a file waits until the record that runs over it is complete. A partial page is written only by `checkpoint`, and again,
in place, by a later one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.innodb.header import FileHeader
from binlog_format.innodb.layout import (
    CHUNK_CONTINUATION,
    CHUNK_FILLER,
    CHUNK_HEADER_SIZE,
    CHUNK_HEADER_STRUCT,
    CHUNK_LAST,
    CHUNK_SPACE_MIN,
    DUMMY_DATA_BYTE,
    FIRST_DATA_PAGE,
    HEADER_SIZE,
    RecordKind,
)
from binlog_lab.innodb_writer.encoding import encode_header_page
from binlog_lab.innodb_writer.forest import Node
from binlog_lab.innodb_writer.options import RedoSync
from binlog_lab.innodb_writer.record_scan import PagePlace
from binlog_lab.innodb_writer.redo import RedoLog

if TYPE_CHECKING:
    from binlog_format.gtids.gtid import Gtid
    from binlog_lab.innodb_writer.files import FileSet, WriterFile
    from binlog_lab.innodb_writer.gtid_state import WrittenGtidState
    from binlog_lab.innodb_writer.options import WriterOptions
    from binlog_lab.innodb_writer.references import FileReferences

_QUEUED_PAGES_MAX = 64
"""Complete pages of an unfinished record that may wait in memory: 1 MiB."""

_RECORD_LSN_COST = 12
"""Bytes of redo log that a record takes beside its own; a model value, the LSN only has to grow."""


class PageWriter:
    """The end of the log.

    Args:
        files: Has its active file open.
        gtids: Takes in the GTID of each commit record, and is what the state records contain.
        references: What the headers of new files contain.
        lsn: Log sequence number to go on with.
    """

    def __init__(
        self, files: FileSet, gtids: WrittenGtidState, references: FileReferences, options: WriterOptions, lsn: int
    ) -> None:
        self._files = files
        self._gtids = gtids
        self._references = references
        self._options = options
        self._page_size = options.page_size
        self._data_size = options.data_size
        self._file = files.active
        self._page_no = FIRST_DATA_PAGE
        self._page_start = self._page_no * self._page_size
        self._offset = 0
        self._page: bytearray | None = None  # None: the page at the position has not been begun
        self._is_dirty = False
        self._state_interval = options.state_interval_pages
        self._queue: list[tuple[WriterFile, int, bytearray]] = []
        self._redo: RedoLog | None = None
        self.lsn = lsn

    @property
    def redo(self) -> RedoLog | None:
        """The redo log, if one is modelled."""
        return self._redo

    @property
    def position(self) -> Node:
        """Start of the next record, unless a state record or a new file comes before it."""
        return Node(self._file.file_no, self._page_start + self._offset)

    def start_fresh(self, state_interval: int) -> None:
        """Begin the first file: its header is written and synced before anything else.

        Args:
            state_interval: In pages; what the header contains and this file uses.
        """
        self._state_interval = state_interval
        self._begin_file()
        self._write_queue()
        self._files.sync(self._file)
        self._begin_page()
        self._start_redo()
        self._files.make_next()

    def resume(self, page_no: int, page_offset: int, page: bytearray | None, state_interval: int) -> None:
        """Go on in the active file.

        Args:
            page_no: Page where the next record starts.
            page_offset: Byte in it; 0 when nothing of the page is written.
            page: The page as it is on disk, if it is begun.
            state_interval: In pages, from the file's header.
        """
        self._state_interval = state_interval
        self._page_no = page_no
        self._page_start = page_no * self._page_size
        self._offset = page_offset
        self._page = page
        self._start_redo()
        self._files.make_next()

    def write(self, kind: int, data: bytes, gtid: Gtid | None = None, *, goes_on: bool = False) -> Node:
        """Write one record.

        Args:
            kind: `RecordKind`.
            data: At least one byte.
            gtid: Of a commit record; the state includes it from the record's first byte on.
            goes_on: The next record belongs to the same mini-transaction: a crash leaves both, or none.

        Returns:
            Where its first chunk is.
        """
        offset = self._offset
        size = len(data)
        end = offset + CHUNK_HEADER_SIZE + size
        self.lsn += size + _RECORD_LSN_COST
        if self._page is None or end >= self._data_size:
            node = self._write_cut(kind, data, gtid)
            self._record_written(kind, goes_on=goes_on)
            return node
        if gtid is not None:
            self._gtids.update(gtid)
        self._page[offset:end] = CHUNK_HEADER_STRUCT.pack(kind | CHUNK_LAST, size) + data
        self._offset = end
        self._is_dirty = True
        if self._redo is not None:
            self._redo.log(self._file.file_no, self._page_no, self._page, offset, end)
            self._record_written(kind, goes_on=goes_on)
        return Node(self._file.file_no, self._page_start + offset)

    def checkpoint(self) -> None:
        """Write the partial page and sync."""
        if self._page is not None and self._is_dirty:
            self._file.write_pages(self._page_no, [self._page])
            self._is_dirty = False
        self._files.sync(self._file)
        if self._redo is not None:
            self._redo.checkpoint(self._place(), self._page_bytes())

    def finish_file(self, new_gtids: list[Gtid] | None = None) -> None:
        """Cut the file after the current page, fill that with a dummy, go on to the next file.

        The next file's full state is *new_gtids*, if given.

        Where the dummy would come to lie in the next file (the file is full, or less than a chunk short of
        it), a server would write it there and then fail; here nothing is cut and the next file begins.
        """
        used = self._page_no + (self._page is not None and self._data_size - self._offset < CHUNK_SPACE_MIN)
        if used < self._file.page_count:
            self._file.set_size(self._page_no + 1)
            self._files.sync(self._file)
            room = self._make_room()
            self._put_chunk(RecordKind.DUMMY | CHUNK_LAST, bytes([DUMMY_DATA_BYTE]) * (room - CHUNK_HEADER_SIZE))
        elif self._page is not None:
            self._fill_page()
        if new_gtids is not None:
            self._gtids.replace(new_gtids)
        self._enter_next_file()
        self._begin_page()
        self._end_mini_transaction()
        self._write_queue()

    # --- redo log ------------------------------------------------------------------------------------------------

    def _start_redo(self) -> None:
        if self._options.redo_sync != RedoSync.NONE:
            self._redo = RedoLog(self._options.redo_sync, self._place(), self._page_bytes(), self.lsn)

    def _record_written(self, kind: int, *, goes_on: bool) -> None:
        """The pages of a record may go to the file, before its redo is durable; with its end, redo can become so."""
        if not goes_on:
            self._end_mini_transaction()
        self._write_queue()
        if self._redo is not None and not goes_on:
            if kind != RecordKind.OOB:
                self._redo.group_committed()
            if self._redo.is_full:
                self.checkpoint()

    def _end_mini_transaction(self) -> None:
        if self._redo is not None:
            self._redo.commit(self._place(), self.lsn)

    def _place(self) -> PagePlace:
        return PagePlace(self._file.file_no, self._page_no, self._offset)

    def _page_bytes(self) -> bytes:
        return b"" if self._page is None else bytes(self._page[: self._offset])

    def _log_change(self, start: int, end: int) -> None:
        if self._redo is not None:
            assert self._page is not None, "the page has been begun"
            self._redo.log(self._file.file_no, self._page_no, self._page, start, end)

    # --- pages ---------------------------------------------------------------------------------------------------

    def _write_cut(self, kind: int, data: bytes, gtid: Gtid | None) -> Node:
        """Cut *data* at page ends; `write` without its short way."""
        rest = memoryview(data)
        node = None
        while rest:
            size = min(len(rest), self._make_room() - CHUNK_HEADER_SIZE)
            type_byte = kind if size < len(rest) else kind | CHUNK_LAST
            if node is None:
                node = Node(self._file.file_no, self._page_start + self._offset)
                if gtid is not None:
                    self._gtids.update(gtid)
            else:
                type_byte |= CHUNK_CONTINUATION
            self._put_chunk(type_byte, rest[:size])
            rest = rest[size:]
        assert node is not None, "a record has at least one byte"
        return node

    def _make_room(self) -> int:
        """See to it that a chunk fits at the position.

        Returns:
            Free bytes in the page, at least `CHUNK_SPACE_MIN`.
        """
        while True:
            if self._page is None:
                self._begin_page()
                continue  # a state record can fill the page
            room = self._data_size - self._offset
            if room >= CHUNK_SPACE_MIN:
                return room
            self._fill_page()

    def _put_chunk(self, type_byte: int, data: bytes | memoryview) -> None:
        assert self._page is not None, "the page has been begun"
        start = self._offset + CHUNK_HEADER_SIZE
        self._offset = start + len(data)
        CHUNK_HEADER_STRUCT.pack_into(self._page, start - CHUNK_HEADER_SIZE, type_byte, len(data))
        self._page[start : self._offset] = data
        self._is_dirty = True
        self._log_change(start - CHUNK_HEADER_SIZE, self._offset)
        if self._offset == self._data_size:
            self._complete_page()

    def _fill_page(self) -> None:
        assert self._page is not None, "the page has been begun"
        room = self._data_size - self._offset
        self._page[self._offset : self._data_size] = bytes([CHUNK_FILLER]) * room
        self._log_change(self._offset, self._data_size)
        self._complete_page()

    def _complete_page(self) -> None:
        assert self._page is not None, "the page has been begun"
        self._queue.append((self._file, self._page_no, self._page))
        self._page = None
        self._is_dirty = False
        self._page_no += 1
        self._page_start += self._page_size
        self._offset = 0
        is_last = self._page_no == self._file.page_count
        if len(self._queue) >= _QUEUED_PAGES_MAX and not is_last and self._files.older is None:
            self._write_queue()

    def _begin_page(self) -> None:
        """Open the page at the position, in the next file if this one is full, with a state record if one is due."""
        if self._page_no >= self._file.page_count:
            self._enter_next_file()
        self._page = bytearray(self._page_size)
        is_first = self._page_no == FIRST_DATA_PAGE
        if is_first or (self._state_interval and self._page_no % self._state_interval == 0):
            self._write_state(full=is_first)

    def _write_state(self, *, full: bool) -> None:
        state = self._gtids.record(
            full=full, of_first_file=self._file.file_no == 0, xa_file_no=self._references.xa_file_no
        )
        page_count = -(-len(state) // self._data_size)
        if self._page_no + page_count >= self._file.page_count:
            return  # no page would be left after it
        rest = memoryview(state)
        type_byte = int(RecordKind.GTID_STATE)
        while rest:
            if self._page is None:
                self._page = bytearray(self._page_size)
            size = min(len(rest), self._data_size - CHUNK_HEADER_SIZE)
            self._put_chunk(type_byte if size < len(rest) else type_byte | CHUNK_LAST, rest[:size])
            type_byte |= CHUNK_CONTINUATION
            rest = rest[size:]

    # --- files ---------------------------------------------------------------------------------------------------

    def _enter_next_file(self) -> None:
        if self._files.older is not None:  # one record over three files: the last page cannot wait any longer
            self._write_queue()
        self._file = self._files.advance()
        self._references.enter_file(self._file.file_no)
        self._state_interval = self._options.state_interval_pages
        self._begin_file()

    def _begin_file(self) -> None:
        self._gtids.start_file()
        self._page_no = FIRST_DATA_PAGE
        self._page_start = self._page_no * self._page_size
        self._offset = 0
        self._page = None
        header = FileHeader(
            file_no=self._file.file_no,
            page_count=self._file.page_count,
            lsn=self.lsn,
            state_interval=self._state_interval,
            oob_reference_file_no=self._references.oob_file_no,
            xa_reference_file_no=self._references.xa_file_no,
            page_size=self._page_size,
        )
        self.lsn += self._page_size
        page = bytearray(encode_header_page(header))
        self._queue.append((self._file, 0, page))
        if self._redo is not None:
            self._redo.log(self._file.file_no, 0, page, 0, HEADER_SIZE)

    def _write_queue(self) -> None:
        """Write the complete pages in order; then the older file, if there is one, is done with."""
        queue = self._queue
        start = 0
        while start < len(queue):
            file, page_no, page = queue[start]
            run = [page]
            end = start + 1
            while end < len(queue) and queue[end][0] is file and queue[end][1] == page_no + len(run):
                run.append(queue[end][2])
                end += 1
            file.write_pages(page_no, run)
            start = end
        queue.clear()
        if self._files.older is not None:
            file_no = self._files.older.file_no
            self._files.retire_older()
            if self._redo is not None:
                self._redo.file_closed(file_no)
