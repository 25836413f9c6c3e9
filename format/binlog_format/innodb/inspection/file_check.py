"""Checks on pages, chunks and single records of a file: `PageCheck`.

Reads all groups of a file, past those that cannot be read: `GroupCheck`.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.block import GROUP_DTYPE
from binlog_format.errors import BinlogError, CorruptError, DataLossError
from binlog_format.events.layout import EVENT_CHECKSUM_SIZE, EventType
from binlog_format.fragments.walk import FragmentWalk
from binlog_format.innodb.groups.commit_kernels import read_commit_integers
from binlog_format.innodb.groups.forest import NO_PLACE
from binlog_format.innodb.inspection.contents import (
    place_text,
    read_oob_header,
    read_xa_complete,
    read_xa_prepare,
)
from binlog_format.innodb.inspection.file_views import HeaderState
from binlog_format.innodb.inspection.link_kernels import (
    PROBLEM_EARLY_END,
    PROBLEM_EMPTY,
    PROBLEM_MISSING_END,
    PROBLEM_STRAY_CONTINUATION,
)
from binlog_format.innodb.inspection.page_rows import record_head
from binlog_format.innodb.inspection.page_walk import PageEnd
from binlog_format.innodb.layout import (
    CHUNK_CONTINUATION,
    CHUNK_KIND_MASK,
    COMMIT_HEADER_INTS_MAX,
    FIRST_DATA_PAGE,
    OOB_HEADER_SIZE_MAX,
    RecordKind,
)
from binlog_format.innodb.pages.checksum import PageState, bad_checksum
from binlog_format.innodb.pages.pages import DAMAGED_PAGE
from binlog_format.log_format import Finding
from binlog_format.position import Position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from binlog_format.block import Block, Table
    from binlog_format.innodb.groups.forest import FilePlace, OobSet
    from binlog_format.innodb.inspection.file_views import FileView
    from binlog_format.innodb.inspection.page_walk import PageBatch
    from binlog_format.innodb.reader import InnodbLog
    from binlog_format.innodb.records import RecordReader
    from binlog_format.kernels import Int64s

_DAMAGED = "The page has a good checksum, but not what a server writes; restore the file"
_STATE_PAGES_MAX = 16
"""Pages that a state may need: it is left out where no page would remain after it."""

_PROBLEMS = {
    PROBLEM_MISSING_END: "a record should go on here, but another one begins",
    PROBLEM_STRAY_CONTINUATION: "a record goes on here, but none has begun",
    PROBLEM_EMPTY: "the chunk holds no data",
    PROBLEM_EARLY_END: "the record goes on in another page, though there is room after this chunk",
}


@dataclass(slots=True)
class PageCheck:
    """Checks page after page, and gathers facts for later checks.

    Attributes:
        records: Reads records that go on after a batch.
        commits: Page and chunk of each commit record, a table for each batch.
        states: Pages that begin with a GTID state record.
        prepared: Out-of-band sets that XA prepare records refer to, and the byte of the record.
        oob_indexes: Indexes of out-of-band records by their places, of this file and those before it.
    """

    file: FileView
    records: RecordReader
    oob_indexes: dict[FilePlace, int]
    commits: list[Int64s] = field(default_factory=list)
    states: list[int] = field(default_factory=list)
    prepared: list[tuple[OobSet, int]] = field(default_factory=list)
    _zero_from: int | None = None
    _ended_at: tuple[int, int] | None = None  # page, byte in it

    def take(self, batch: PageBatch) -> Iterator[Finding]:
        """Check a batch; batches come in order."""
        for index, state in enumerate(batch.states.tolist()):
            page = batch.first_page + index
            if state == PageState.ZERO:
                if self._zero_from is None:
                    self._zero_from = page
                continue
            if state == PageState.BAD:
                yield Finding.of(bad_checksum(batch.page(index).data, self.file.place(page), DAMAGED_PAGE))
                continue
            yield from self._take_good_page(batch, index, page)
        for row in np.flatnonzero(batch.links["problem"]).tolist():
            reason = _PROBLEMS[int(batch.links["problem"][row])]
            yield Finding.of(self._bad_chunk(batch.chunk_offset(row), reason))
        yield from self._take_records(batch)

    def finish(self, successor: str | None) -> Iterator[Finding]:
        """Check how the file ends.

        Args:
            successor: Name of a file that a server makes only when this one is complete; None: there is none.
        """
        if successor is None:
            return
        if self._ended_at is not None:
            page, byte = self._ended_at
        elif self._zero_from is not None:
            page, byte = self._zero_from, 0
        else:
            return
        yield Finding.of(
            DataLossError(
                "TRUNCATED_TRANSACTION",
                f"the data end here, though {successor} was made after it",
                at=self.file.place(page, byte),
                hint="The file was cut off or copied before it was complete; copy it again",
            )
        )

    def _take_good_page(self, batch: PageBatch, index: int, page: int) -> Iterator[Finding]:
        if self.file.state is HeaderState.EMPTY:
            reason = f"the header is empty, but page {page} has been written"
            yield Finding.of(CorruptError("HEADER", reason, at=self.file.place(0)))
        if self._ended_at is not None:
            reason = f"the data end here, but page {page} has been written"
            yield Finding.of(self._bad_chunk(self._ended_at[0] * self.file.page_size + self._ended_at[1], reason))
        elif self._zero_from is not None:
            reason = f"pages {self._zero_from} to {page - 1} are empty, but page {page} has been written"
            yield Finding.of(CorruptError("PAGE_CHECKSUM", reason, at=self.file.place(self._zero_from)))
        self._zero_from = self._ended_at = None
        yield from self._check_state_there(batch, index, page)
        end = int(batch.ends[index])
        if end == PageEnd.FULL:
            return
        byte = int(batch.end_bytes[index])
        place = page * self.file.page_size + byte
        if end == PageEnd.BAD_LENGTH:
            yield Finding.of(self._bad_chunk(place, "the chunk does not fit into its page"))
            return
        self._ended_at = page, byte
        if batch.free_bytes(index).any():
            yield Finding.of(self._bad_chunk(place, "the data end here, but the rest of the page is not zero"))

    def _take_records(self, batch: PageBatch) -> Iterator[Finding]:
        types = batch.chunks["type"]
        kinds = np.where(types & CHUNK_CONTINUATION, 0, types & CHUNK_KIND_MASK)
        commits = np.flatnonzero(kinds == RecordKind.COMMIT)
        places = batch.chunks[["page", "number"]][commits]
        self.commits.append(
            np.stack([places["page"].astype(np.int64) + batch.first_page, places["number"].astype(np.int64)], axis=1)
        )
        # A commit record without out-of-band data begins with the number 0.
        starts = batch.chunks["start"][commits]
        for row in commits[batch.data[np.minimum(starts, len(batch.data) - 1)] != 0].tolist():
            yield from self._check_commit(batch, row)
        for row in np.flatnonzero(kinds == RecordKind.OOB).tolist():
            yield from self._check_oob(batch, row)
        is_xa = (kinds == RecordKind.XA_PREPARE) | (kinds == RecordKind.XA_COMPLETE)
        for row in np.flatnonzero(is_xa).tolist():
            yield from self._check_xa(batch, row, int(kinds[row]))
        for row in np.flatnonzero(kinds == RecordKind.GTID_STATE).tolist():
            yield from self._check_state_place(batch, row)

    def _check_commit(self, batch: PageBatch, row: int) -> Iterator[Finding]:
        head = record_head(batch, row, self.records)
        values = np.zeros(COMMIT_HEADER_INTS_MAX, dtype=np.uint64)
        if head is None or self.file.header is None or read_commit_integers(head, len(head), values) < 0:
            return  # reading the groups shows what is wrong
        lowest = self.file.header.oob_reference_file_no
        first_files = [int(values[at + 1]) for at in (0, 5) if values[at] > 0]
        for file_no in first_files:
            if file_no < lowest:
                reason = (
                    f"reference to out-of-band data in file {file_no}; the header states that none lie before {lowest}"
                )
                yield Finding.of(self._error("OOB_REFERENCE", batch.chunk_offset(row), reason))

    def _check_oob(self, batch: PageBatch, row: int) -> Iterator[Finding]:
        head = record_head(batch, row, self.records)
        if head is None:
            return  # it goes on where nothing can be read
        header = read_oob_header(head)
        offset = batch.chunk_offset(row)
        if header is None or header.size >= len(head):
            yield Finding.of(self._bad_chunk(offset, "the out-of-band record has no header and data"))
            return
        own = (self.file.file_no, offset)
        self.oob_indexes[own] = header.index
        if header.left >= own or header.right >= own:
            reason = "the out-of-band record refers to one that does not lie before it"
            yield Finding.of(self._error("OOB_REFERENCE", offset, reason))
            return
        # Whatever the shape of the trees, the record on the right is the one before.
        if (header.right == NO_PLACE) != (header.index == 0) or (header.index == 0 and header.left != NO_PLACE):
            reason = f"out-of-band record {header.index} refers to {place_text(header.right)}"
            yield Finding.of(self._error("OOB_REFERENCE", offset, reason))
            return
        for place in (header.left, header.right):
            if place != NO_PLACE:
                yield from self._check_link(offset, header.index, place, is_right=place == header.right)

    def _check_link(self, offset: int, index: int, place: FilePlace, *, is_right: bool) -> Iterator[Finding]:
        """Out-of-band record *index* at *offset* refers to the one at *place*."""
        found = self.oob_indexes.get(place)
        if found is None:
            try:
                head = self.records.head(place[0], place[1], RecordKind.OOB, OOB_HEADER_SIZE_MAX)
            except DataLossError:
                return  # purged; when the transaction was committed, reading it shows that
            except BinlogError as error:
                yield Finding.of(error)
                return
            target = read_oob_header(head)
            found = -1 if target is None else target.index
        if not (found == index - 1 if is_right else 0 <= found < index - 1):
            reason = f"out-of-band record {index} refers to {place_text(place)}, which is record {found}"
            yield Finding.of(self._error("OOB_REFERENCE", offset, reason))

    def _check_xa(self, batch: PageBatch, row: int, kind: int) -> Iterator[Finding]:
        head = record_head(batch, row, self.records)
        if head is None:
            return
        if kind == RecordKind.XA_COMPLETE:
            if read_xa_complete(head) is None:
                yield Finding.of(self._bad_chunk(batch.chunk_offset(row), "the XA complete record cannot be read"))
            return
        prepare = read_xa_prepare(head)
        if prepare is not None and prepare.oob.count > 0:
            self.prepared.append((prepare.oob, batch.chunk_offset(row)))

    def _check_state_place(self, batch: PageBatch, row: int) -> Iterator[Finding]:
        position = batch.chunk_position(row)
        interval = 0 if self.file.header is None else self.file.header.state_interval
        is_due = position.page == FIRST_DATA_PAGE or (interval > 0 and position.page % interval == 0)
        if position.chunk == 0 and (is_due or self.file.header is None):
            self.states.append(position.page)
            return
        reason = f"a GTID state stands here; they begin page 1 and each page that is a multiple of {interval}"
        yield Finding.of(self._error("GTID_STATE", batch.chunk_offset(row), reason))

    def _check_state_there(self, batch: PageBatch, index: int, page: int) -> Iterator[Finding]:
        """Page 1 begins with a GTID state, and every page at the interval unless the file's end is near."""
        header = self.file.header
        row = int(np.searchsorted(batch.chunks["page"], index))
        if header is None or row == len(batch.chunks) or batch.chunks["page"][row] != index:
            return
        interval = header.state_interval
        is_due = interval > 0 and page % interval == 0 and page + _STATE_PAGES_MAX < header.page_count
        is_there = int(batch.chunks["type"][row]) & CHUNK_KIND_MASK == RecordKind.GTID_STATE
        if not is_there and (page == FIRST_DATA_PAGE or is_due):
            yield Finding.of(self._error("GTID_STATE", page * self.file.page_size, "no GTID state begins this page"))

    def _bad_chunk(self, offset: int, reason: str) -> BinlogError:
        return self._error("BAD_CHUNK", offset, reason)

    def _error(self, subclass: str, offset: int, reason: str) -> BinlogError:
        return CorruptError(subclass, reason, at=self.file.place(*divmod(offset, self.file.page_size)), hint=_DAMAGED)


@dataclass(slots=True)
class GroupCheck:
    """The groups whose commit records lie in one file.

    Attributes:
        commits: Page and chunk of every commit record, ascending.
        on_bytes: Told the bytes of the file that were passed.
        groups: `GROUP_DTYPE`: those that could be read.
    """

    log: InnodbLog
    file: FileView
    commits: Int64s
    on_bytes: Callable[[int], None]
    groups: Table = field(default_factory=lambda: np.zeros(0, dtype=GROUP_DTYPE))

    def findings(self, start: Position, end: Position) -> Iterator[Finding]:
        """Read all groups of [*start*, *end*); after one that cannot be read go on with the next."""
        tables: list[Table] = []
        position: Position | None = start
        while position is not None:
            last: Position | None = None
            fragments = FragmentWalk()
            try:
                for block in self.log.blocks(position, end):
                    ended = block.groups[block.groups["ends"]]
                    if len(ended):
                        tables.append(ended.copy())
                        last = Position.of(ended[-1])
                        self.on_bytes(int(ended["file_offset"][-1]))
                    yield from self._check_server_starts(block)
                    if fragments.concerns(block.events):
                        yield from fragments.findings(block.data, block.events, block.groups, block.place)
            except BinlogError as error:
                yield Finding.of(error)
            position = self._next(position, last, end)
        if tables:
            self.groups = np.concatenate(tables)

    def _next(self, position: Position, last: Position | None, end: Position) -> Position | None:
        """The first commit record that has not been tried yet; None: all have."""
        # What is at the place that was read from has been tried; so has the last group given.
        tried = position if last is None else last
        if last is None and position.chunk == 0 and not self._is_commit(position):
            row = self._row_after(Position(position.file_no, position.page, -1))
        else:
            row = self._row_after(tried)
        if row >= len(self.commits):
            return None
        page, chunk = self.commits[row].tolist()
        found = Position(self.file.file_no, page, chunk)
        return found if found < end else None

    def _is_commit(self, position: Position) -> bool:
        return bool(((self.commits[:, 0] == position.page) & (self.commits[:, 1] == position.chunk)).any())

    def _row_after(self, position: Position) -> int:
        pages, chunks = self.commits[:, 0], self.commits[:, 1]
        is_after = (pages > position.page) | ((pages == position.page) & (chunks > position.chunk))
        return int(np.argmax(is_after)) if is_after.any() else len(self.commits)

    def _check_server_starts(self, block: Block) -> Iterator[Finding]:
        """A server start logs its Format_description event, the only one that carries a checksum."""
        for group in block.groups[~block.groups["has_gtid"] & block.groups["begins"]]:
            event = block.events[int(group["first_event"])]
            if int(event["type"]) != EventType.FORMAT_DESCRIPTION or event["size"] <= EVENT_CHECKSUM_SIZE:
                continue
            start, end = int(event["start"]), int(event["start"] + event["size"])
            stored = int.from_bytes(block.data[end - EVENT_CHECKSUM_SIZE : end].tobytes(), "little")
            computed = zlib.crc32(block.data[start : end - EVENT_CHECKSUM_SIZE].data)
            if stored != computed:
                reason = f"Format_description event, CRC-32: stored {stored:#010x}, computed {computed:#010x}"
                place = self.file.place(*divmod(int(group["file_offset"]), self.file.page_size))
                yield Finding.of(CorruptError("EVENT_CHECKSUM", reason, at=place))
