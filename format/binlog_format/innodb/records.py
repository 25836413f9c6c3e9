"""Single records, found by their place: `RecordReader`, for out-of-band data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.errors import BinlogError, CorruptError, DataLossError
from binlog_format.innodb.layout import FIRST_DATA_PAGE, PAGE_SIZE_MIN, RecordKind
from binlog_format.innodb.pages.pages import RUN_SIZE_MAX
from binlog_format.innodb.record_kernels import (
    WALK_BAD_LENGTH,
    WALK_DONE,
    WALK_END_MARK,
    WALK_ENOUGH,
    WALK_MORE,
    WALK_NOT_A_START,
    WALK_TABLE_FULL,
    copy_pieces,
    walk_record,
)
from binlog_format.innodb.tables import PIECE_DTYPE
from binlog_format.kernels import empty_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_format.block import Table
    from binlog_format.innodb.files import OpenFile
    from binlog_format.innodb.pages.pages import PageReader, PageRun, PageRuns
    from binlog_format.kernels import Bytes
    from binlog_format.position import Place

PIECES_MAX = 512
"""Pieces found in one step; a record with more takes several."""

_NO_LIMIT = 1 << 62


class RecordReader:
    """Follows one record after the other from their first chunks."""

    def __init__(self, reader: PageReader, runs: PageRuns) -> None:
        self._reader = reader
        self._runs = runs
        self._table = np.empty(PIECES_MAX, dtype=PIECE_DTYPE)

    def head(self, file_no: int, offset: int, kind: RecordKind, size: int, *, is_next: bool = False) -> Bytes:
        """The first *size* bytes of a record's data; fewer only when it has no more.

        With *is_next* what follows is likely to be wanted soon.
        """
        head = empty_bytes(size)
        taken = 0
        ahead = RUN_SIZE_MAX // PAGE_SIZE_MIN if is_next else 1
        for run, pieces in self.pieces(file_no, offset, kind, size_max=size, ahead=ahead):
            taken = copy_pieces(run.data, pieces, size - taken, head, taken)
            if taken == size:
                break
        return head[:taken]

    def pieces(
        self, file_no: int, offset: int, kind: RecordKind, *, size_max: int = _NO_LIMIT, ahead: int = 1
    ) -> Iterator[tuple[PageRun, Table]]:
        """The stretches of a record's data, run by run: `PIECE_DTYPE`, overwritten by the next step.

        Args:
            offset: Byte of the first chunk in the file.
            size_max: Stop after about so many bytes.
        """
        file = self._reader.files.existing(file_no)
        page_size = file.page_size
        page, at_in_page = divmod(offset, page_size)
        if page < FIRST_DATA_PAGE:
            raise bad_reference(file.place(page, at_in_page), "it points into the header page")
        begun = False
        while True:
            run = self.run_at(file, page, begun=begun, ahead=ahead)
            if run.file_no != file.file_no:
                file = self._reader.files.existing(run.file_no)
                page, at_in_page = FIRST_DATA_PAGE, 0
            start = (page - run.first_page) * page_size + at_in_page
            code, count, at, begun = walk_record(run.data, start, page_size, int(kind), begun, size_max, self._table)
            if code not in (WALK_DONE, WALK_ENOUGH, WALK_MORE, WALK_TABLE_FULL):
                raise walk_error(code, file, run, at, kind)
            yield run, self._table[:count]
            if code in (WALK_DONE, WALK_ENOUGH):
                return
            page, at_in_page = divmod(run.first_page * page_size + at, page_size)

    def run_at(self, file: OpenFile, page: int, *, begun: bool, ahead: int) -> PageRun:
        """The run that holds *page*, where a record starts, or, when *begun*, goes on.

        After the end of the file that is the first page with data of the next one.
        """
        run = self._runs.find(file.file_no, page)
        if run is None and page >= file.page_count():
            file = self._next_file(file, page, begun)
            page = FIRST_DATA_PAGE
            run = self._runs.find(file.file_no, page)
        return self._runs.get(file.file_no, page, ahead=ahead) if run is None else run

    def _next_file(self, file: OpenFile, page: int, begun: bool) -> OpenFile:
        if not begun:
            raise bad_reference(file.place(page), "the file ends before it")
        following = self._reader.next_file(file)
        if following is None:
            raise DataLossError(
                "TRUNCATED_TRANSACTION",
                "a record goes on beyond the end of the file, but the next file has not been begun",
                at=file.place(page),
                hint="The files were not copied together, or the next one is missing",
            )
        return following


def bad_reference(place: Place, reason: str) -> CorruptError:
    """An error about a reference to out-of-band data at *place*."""
    return CorruptError(
        "OOB_REFERENCE",
        f"reference to out-of-band data: {reason}",
        at=place,
        hint="The transaction cannot be read; files may be damaged, or not of the same log",
    )


def walk_error(code: int, file: OpenFile, run: PageRun, at: int, kind: RecordKind) -> BinlogError:
    """The error that a walk over a record in *run* ended with, at byte *at* of it."""
    offset = run.first_page * file.page_size + at
    place = file.place(offset // file.page_size, offset % file.page_size)
    if code == WALK_NOT_A_START:
        return bad_reference(place, f"no record of kind {int(kind)} starts here")
    if code == WALK_END_MARK:
        reason = "a record goes on here, but nothing has been written"
        return DataLossError("TRUNCATED_TRANSACTION", reason, at=place, hint="The file is incomplete; copy it again")
    if code == WALK_BAD_LENGTH:
        return CorruptError("BAD_CHUNK", "the chunk does not fit into its page", at=place)
    return CorruptError("BAD_CHUNK", "a record should go on here, but another one begins", at=place)
