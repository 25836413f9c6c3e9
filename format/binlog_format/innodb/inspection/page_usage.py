"""Use of the bytes of each page: `measure_pages` gives `LogUsage`."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.errors import BinlogError
from binlog_format.gtids.gtid import Gtid
from binlog_format.innodb.inspection.file_views import HeaderState, view_files
from binlog_format.innodb.inspection.page_walk import PageEnd, PageWalk
from binlog_format.innodb.layout import CHUNK_HEADER_SIZE, CHUNK_KIND_MASK, PAGE_CHECKSUM_SIZE, RecordKind
from binlog_format.innodb.pages.checksum import PageState
from binlog_format.innodb.reader import InnodbLog
from binlog_format.position import Position

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_format.block import Block, Table
    from binlog_format.innodb.inspection.file_views import FileView
    from binlog_format.kernels import Int64s
    from binlog_format.source_file import Directory

    OnProgress = Callable[[int, int], None]


class InnodbUse(IntEnum):
    """Uses of the bytes of a page; columns of `InnodbFileUsage.bytes`."""

    HEADER = 0
    COMMIT = 1
    OOB = 2
    GTID_STATE = 3
    XA = 4
    FILLER = 5  # dummy records and bytes that no chunk fits into
    OTHER = 6  # records of kinds that are not known
    EMPTY = 7
    DAMAGED = 8


_USE_OF_KIND = np.full(CHUNK_KIND_MASK + 1, int(InnodbUse.OTHER))
for _kind, _use in (
    (RecordKind.COMMIT, InnodbUse.COMMIT),
    (RecordKind.GTID_STATE, InnodbUse.GTID_STATE),
    (RecordKind.OOB, InnodbUse.OOB),
    (RecordKind.DUMMY, InnodbUse.FILLER),
    (RecordKind.XA_PREPARE, InnodbUse.XA),
    (RecordKind.XA_COMPLETE, InnodbUse.XA),
):
    _USE_OF_KIND[_kind] = _use


@dataclass(slots=True)
class InnodbFileUsage:
    """One file. *page_size*: in bytes. *bytes*: shape (pages, uses); checksums of pages are not counted."""

    file_no: int
    name: str
    page_size: int
    bytes: Int64s


@dataclass(slots=True)
class TransactionUsage:
    """A transaction with out-of-band data.

    Attributes:
        gtid: Text; None without.
        position: Of its commit record.
        size: Bytes of its events.
        pages: Rows of file number, page and bytes.
    """

    gtid: str | None
    position: Position
    size: int = 0
    pages: list[Int64s] = field(default_factory=list)

    def page_bytes(self) -> Int64s:
        """File number, page and bytes of each page it lies in."""
        return _summed(np.concatenate(self.pages)) if self.pages else np.zeros((0, 3), dtype=np.int64)


@dataclass(slots=True)
class LogUsage:
    """A whole log.

    Attributes:
        files: By number.
        transactions: Those with out-of-band data, the largest first.
        problem: Why not all transactions are there; None: they are.
    """

    files: list[InnodbFileUsage]
    transactions: list[TransactionUsage]
    problem: BinlogError | None = None


def measure_pages(
    directory: Directory,
    only: str | None = None,
    *,
    start: Position | None = None,
    end: Position | None = None,
    on_progress: OnProgress | None = None,
) -> LogUsage:
    """Measure what the pages of a log hold, and which transactions lie where.

    Args:
        on_progress: Told bytes done and bytes to do.
    """
    views = [
        view
        for view in view_files(directory, only)
        if (start is None or view.file_no >= start.file_no) and (end is None or Position(view.file_no, 0, 0) < end)
    ]
    total = 2 * sum(view.size for view in views)
    done = 0
    files = []
    walk = PageWalk(directory)
    for view in views:
        files.append(_measure_file(walk, view))
        done += view.size
        if on_progress is not None:
            on_progress(done, total)
    usage = LogUsage(files, [])
    log = InnodbLog(directory, only)
    found: dict[Position, TransactionUsage] = {}
    try:
        for block in log.blocks(start, end):
            _take_block(block, found, views[0].page_size)
            if on_progress is not None and len(block.groups):
                passed = sum(view.size for view in views if view.file_no < block.next_position.file_no)
                on_progress(done + passed + block.next_position.page * views[0].page_size, total)
    except BinlogError as error:
        usage.problem = error
    finally:
        log.close()
    usage.transactions = sorted(found.values(), key=lambda transaction: (-transaction.size, transaction.position))
    return usage


def _measure_file(walk: PageWalk, view: FileView) -> InnodbFileUsage:
    data_size = view.page_size - PAGE_CHECKSUM_SIZE
    uses = np.zeros((max(view.page_count, 1), len(InnodbUse)), dtype=np.int64)
    first = {
        HeaderState.GOOD: InnodbUse.HEADER,
        HeaderState.EMPTY: InnodbUse.EMPTY,
        HeaderState.DAMAGED: InnodbUse.DAMAGED,
    }[view.state]
    uses[0, InnodbUse.DAMAGED if view.problems else first] = data_size
    for batch in walk.batches(view):
        part = uses[batch.first_page : batch.first_page + batch.page_count]
        pages = batch.chunks["page"].astype(np.int64)
        kinds = _USE_OF_KIND[batch.chunks["type"] & CHUNK_KIND_MASK]
        np.add.at(part, (pages, kinds), batch.chunks["size"].astype(np.int64) + CHUNK_HEADER_SIZE)
        rest = data_size - batch.end_bytes
        is_good = batch.states == PageState.GOOD
        for page_end, use in (
            (PageEnd.FULL, InnodbUse.FILLER),
            (PageEnd.END_MARK, InnodbUse.EMPTY),
            (PageEnd.BAD_LENGTH, InnodbUse.DAMAGED),
        ):
            rows = is_good & (batch.ends == page_end)
            part[rows, use] += rest[rows]
        part[batch.states == PageState.ZERO, InnodbUse.EMPTY] = data_size
        part[batch.states == PageState.BAD, InnodbUse.DAMAGED] = data_size
    return InnodbFileUsage(view.file_no, view.name, view.page_size, uses)


def _take_block(block: Block, found: dict[Position, TransactionUsage], page_size: int) -> None:
    """Note where the groups with out-of-band data lie."""
    for group in block.groups[block.groups["oob_records"] > 0]:
        position = Position.of(group)
        gtid = Gtid(int(group["domain"]), int(group["server_id"]), int(group["seqno"]))
        transaction = found.setdefault(position, TransactionUsage(str(gtid) if group["has_gtid"] else None, position))
        transaction.size += int(group["size"])
        start = int(block.events["start"][int(group["first_event"])])
        transaction.pages.append(_summed(_places(block.extents, start, start + int(group["size"]), page_size)))


def _places(extents: Table, start: int, end: int, page_size: int) -> Int64s:
    """File number, page and size of the extents that hold the bytes [*start*, *end*) of a block."""
    first = max(int(np.searchsorted(extents["data_start"], start, side="right")) - 1, 0)
    part = extents[first : int(np.searchsorted(extents["data_start"], end))]
    begin = np.maximum(part["data_start"], start)
    size = np.minimum(part["data_start"] + part["size"], end) - begin
    return np.stack([part["file_no"], part["file_offset"] // page_size, size], axis=1)


def _summed(places: Int64s) -> Int64s:
    """One row for each page."""
    if len(places) == 0:
        return places
    pages, inverse = np.unique(places[:, :2], axis=0, return_inverse=True)
    sizes = np.bincount(inverse.reshape(-1), weights=places[:, 2].astype(np.float64)).astype(np.int64)
    return np.concatenate([pages, sizes[:, None]], axis=1)
