"""Pages and chunks as rows to be listed: `page_rows` -> `PageRow`.

The first bytes of a record that a page walk has come to: `record_head`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.errors import BinlogError
from binlog_format.innodb.files import LogFiles
from binlog_format.innodb.inspection.contents import HEAD_SIZE, Content, describe, kind_name
from binlog_format.innodb.inspection.file_views import HeaderState, view_files
from binlog_format.innodb.inspection.link_kernels import PROBLEM_NONE
from binlog_format.innodb.inspection.page_walk import PageEnd, PageWalk
from binlog_format.innodb.layout import CHUNK_CONTINUATION, CHUNK_KIND_MASK, CHUNK_LAST, FIRST_DATA_PAGE, RecordKind
from binlog_format.innodb.log_end import check_file_end
from binlog_format.innodb.pages.checksum import PageState, checksum_text
from binlog_format.innodb.pages.pages import PageReader, PageRuns
from binlog_format.innodb.records import RecordReader
from binlog_format.kernels import as_bytes
from binlog_format.position import Position

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_format.innodb.inspection.file_views import FileView
    from binlog_format.innodb.inspection.page_walk import PageBatch
    from binlog_format.kernels import Bytes
    from binlog_format.source_file import Directory


_KNOWN_KINDS = frozenset(int(kind) for kind in RecordKind)


def record_head(batch: PageBatch, row: int, records: RecordReader) -> Bytes | None:
    """Up to `HEAD_SIZE` bytes of the record whose first chunk is *row* of the batch's chunk table.

    Args:
        records: For what follows the batch.

    Returns:
        None when the record goes on where nothing can be read.
    """
    chunk = batch.chunks[row]
    start, length = int(chunk["start"]), int(chunk["size"])
    if length >= HEAD_SIZE or int(chunk["type"]) & CHUNK_LAST:
        return as_bytes(batch.data[start : start + min(length, HEAD_SIZE)].data)
    kind = int(chunk["type"]) & CHUNK_KIND_MASK
    if kind not in _KNOWN_KINDS:
        return as_bytes(batch.data[start : start + length].data)
    try:
        return records.head(batch.file.file_no, batch.chunk_offset(row), RecordKind(kind), HEAD_SIZE)
    except BinlogError:
        return None


LOOK_BACK_PAGES = 64
"""Pages read before the first one listed, to see which record goes on in it; of one file at most."""


@dataclass(frozen=True, slots=True)
class PageRow:
    """A chunk, or a page (or a run of empty pages) that has none.

    Attributes:
        page_count: 1; of a run of empty pages how many.
        page_state: `header`, `good`, `empty` or `damaged`.
        file_offset: Byte of the chunk's type, or of the page.
        chunk: Number of the chunk in its page; None: the row is of a page.
        kind: Name of the record's kind; of a page without chunks None.
        begins: It is the record's first chunk.
        ends: It is the record's last chunk.
        length: Bytes of its data.
        record: Position of the record's first chunk; None when that was not read.
        holds: What the record holds, of its first chunk; what the header page contains.
        text: The same for people.
    """

    file_no: int
    file: str
    page: int
    page_count: int
    page_state: str
    file_offset: int
    chunk: int | None = None
    kind: str | None = None
    type: int | None = None
    begins: bool | None = None
    ends: bool | None = None
    length: int | None = None
    record: Position | None = None
    holds: dict[str, object] = field(default_factory=dict)
    text: str = ""
    is_wrong: bool = False


def page_rows(
    directory: Directory, only: str | None = None, start: Position | None = None, end: Position | None = None
) -> Iterator[PageRow]:
    """List what is in [*start*, *end*), page by page.

    Args:
        start: Default: the header page of the first file. A header page is listed when the file's start is.
        end: Default: the end of the last file.
    """
    walk = PageWalk(directory)
    for file in view_files(directory, only):
        if end is not None and Position(file.file_no, 0, 0) >= end:
            return
        if start is not None and file.file_no < start.file_no:
            if file.file_no == start.file_no - 1 and start.page <= LOOK_BACK_PAGES:
                for _ in walk.batches(file, file.page_count - LOOK_BACK_PAGES):
                    continue  # to see which record goes on in the next file
            continue
        first = start.page if start is not None and start.file_no == file.file_no else 0
        last = None if end is None or end.file_no != file.file_no else end.page + (1 if end.chunk > 0 else 0)
        for row in _Lister(directory, only, file).rows(walk, first, last):
            position = Position(row.file_no, row.page, row.chunk or 0)
            is_before = start is not None and row.chunk is not None and position < start
            if not is_before and (end is None or position < end):
                yield row


class _Lister:
    """Lists one file."""

    def __init__(self, directory: Directory, only: str | None, file: FileView) -> None:
        self._file = file
        reader = PageReader(LogFiles(directory, only), check_file_end)
        self._records = RecordReader(reader, PageRuns(reader))

    def rows(self, walk: PageWalk, first: int, end: int | None) -> Iterator[PageRow]:
        file = self._file
        if first == 0 and (end is None or end > 0) and file.state is not HeaderState.EMPTY:
            yield self._header_row()
        first = max(first, FIRST_DATA_PAGE if file.state is not HeaderState.EMPTY else 0)
        empty_from: int | None = 0 if file.state is HeaderState.EMPTY and first == 0 else None
        end = file.page_count if end is None else min(end, file.page_count)
        for batch in walk.batches(file, max(first - LOOK_BACK_PAGES, FIRST_DATA_PAGE), end):
            for index, state in enumerate(batch.states.tolist()):
                page = batch.first_page + index
                if page < first:
                    continue
                if state == PageState.ZERO:
                    empty_from = page if empty_from is None else empty_from
                    continue
                if empty_from is not None:
                    yield self._empty_row(empty_from, page)
                    empty_from = None
                yield from self._page_rows(batch, index, page)
        if empty_from is not None:
            yield self._empty_row(empty_from, max(end, empty_from + 1))

    def _header_row(self) -> PageRow:
        file = self._file
        state = "header" if file.header is not None and not file.problems else "damaged"
        if file.header is None:
            return self._page_row(0, 1, state, text=_problem_text(file), is_wrong=True)
        header = file.header
        holds: dict[str, object] = {
            "version": f"{header.version_major}.{header.version_minor}",
            "page_size": header.page_size,
            "file_no": header.file_no,
            "page_count": header.page_count,
            "lsn": header.lsn,
            "state_interval": header.state_interval,
            "oob_reference_file_no": header.oob_reference_file_no,
            "xa_reference_file_no": header.xa_reference_file_no,
        }
        text = f"file {header.file_no}, {header.page_count:,} pages of {header.page_size:,} bytes, LSN {header.lsn}"
        if file.problems:
            text = _problem_text(file)
        return self._page_row(0, 1, state, holds=holds, text=text, is_wrong=bool(file.problems))

    def _empty_row(self, first: int, end: int) -> PageRow:
        return self._page_row(first, end - first, "empty", text="nothing has been written")

    def _page_rows(self, batch: PageBatch, index: int, page: int) -> Iterator[PageRow]:
        if batch.states[index] == PageState.BAD:
            yield self._page_row(page, 1, "damaged", text=checksum_text(batch.page(index).data), is_wrong=True)
            return
        first, after = np.searchsorted(batch.chunks["page"], [index, index + 1]).tolist()
        for row in range(first, after):
            yield self._chunk_row(batch, row, page)
        offset = int(batch.end_bytes[index])
        if batch.ends[index] == PageEnd.BAD_LENGTH:
            text = f"the chunk at byte {page * self._file.page_size + offset:#x} does not fit into its page"
            yield self._page_row(page, 1, "good", text=text, is_wrong=True)
        elif first == after:
            yield self._page_row(page, 1, "good", text="no chunks")

    def _chunk_row(self, batch: PageBatch, row: int, page: int) -> PageRow:
        chunk = batch.chunks[row]
        chunk_type = int(chunk["type"])
        kind = chunk_type & CHUNK_KIND_MASK
        begins = not chunk_type & CHUNK_CONTINUATION
        record = batch.record_position(row)
        content = Content(kind_name(kind), {}, f"goes on from {record}" if record is not None else "goes on")
        if begins:
            head = record_head(batch, row, self._records)
            content = Content(kind_name(kind), {}, "goes on after what can be read")
            if head is not None:
                content = describe(kind, head)
        is_wrong = int(batch.links["problem"][row]) != PROBLEM_NONE
        return PageRow(
            self._file.file_no,
            self._file.name,
            page,
            1,
            "good",
            batch.chunk_offset(row),
            int(chunk["number"]),
            content.kind,
            chunk_type,
            begins,
            bool(chunk_type & CHUNK_LAST),
            int(chunk["size"]),
            record,
            content.fields,
            f"{content.text} (not where it should be: see verify)" if is_wrong else content.text,
            is_wrong,
        )

    def _page_row(
        self,
        page: int,
        count: int,
        state: str,
        *,
        holds: dict[str, object] | None = None,
        text: str,
        is_wrong: bool = False,
    ) -> PageRow:
        file = self._file
        offset = page * file.page_size
        return PageRow(
            file.file_no, file.name, page, count, state, offset, holds=holds or {}, text=text, is_wrong=is_wrong
        )


def _problem_text(file: FileView) -> str:
    return "; ".join(error.reason for error in file.problems)
