"""Commit records to blocks of event groups: `GroupReader`; the last bytes of a large group: `group_tail`.

Counts, sizes and GTIDs of a stretch of the log without joining its events: `measure`.

Times, GTIDs and places of groups without joining their events: `GroupHeads`, `read_heads`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.block import BLOCK_SIZE, GROUP_DTYPE
from binlog_format.errors import BinlogError, CorruptError, DataLossError
from binlog_format.events.event_table_kernels import read_gtid
from binlog_format.events.layout import EVENT_HEADER_SIZE
from binlog_format.gtids.gtid_history import gtid_of, gtids_of
from binlog_format.gtids.gtid_set import NO_GTIDS
from binlog_format.innodb.groups.block_builder import BlockBuilder
from binlog_format.innodb.groups.commit_kernels import (
    COMMIT_DONE,
    COMMIT_NO_ROOM,
    HEAD_SIZE,
    read_commit_integers,
    read_first_events,
)
from binlog_format.innodb.groups.forest import Forest, OobSet
from binlog_format.innodb.layout import (
    CHUNK_HEADER_SIZE,
    CHUNK_KIND_MASK,
    COMMIT_HEADER_INTS_MAX,
    COMMIT_HEADER_SIZE_MAX,
    RecordKind,
)
from binlog_format.innodb.pages.pages import PageRuns
from binlog_format.innodb.record_kernels import copy_pieces
from binlog_format.innodb.records import RecordReader
from binlog_format.innodb.scanner import window_extents
from binlog_format.innodb.tables import extent_runs
from binlog_format.kernels import as_bytes, empty_bytes
from binlog_format.log_format import Heads, Span
from binlog_format.position import Place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_format.block import Block, Table
    from binlog_format.gtids.gtid_set import AnyGtid
    from binlog_format.innodb.pages.pages import PageReader
    from binlog_format.innodb.scanner import CommitScanner, CommitWindow, LongRecord
    from binlog_format.position import Position


class GroupReader:
    """Gives the event groups that a scanner's commit records stand for; *skips_purged*: see `LogFormat.blocks`."""

    def __init__(self, reader: PageReader, scanner: CommitScanner, *, skips_purged: bool = False) -> None:
        self._scanner = scanner
        self._skips_purged = skips_purged
        self._files = reader.files
        self._runs = PageRuns(reader)
        self._records = RecordReader(reader, self._runs)
        self._forest = Forest(reader.files, self._records)
        self._builder = BlockBuilder(reader)
        self._position: Position | None = None  # where reading goes on after all that has been taken
        self._page_size = 0

    def blocks(self) -> Iterator[Block]:
        """The blocks. The last one may be empty: its `next_position` tells how far reading has come.

        Raises:
            BinlogError: When all groups before the damage have been given.
        """
        given: Position | None = None
        error: BinlogError | None = None
        try:
            for block in self._full_blocks():
                given = block.next_position
                yield block
        except BinlogError as raised:
            error = raised
        has_moved = error is None and self._position != given
        if self._position is not None and (self._builder.group_count > 0 or has_moved):
            yield self._builder.take(self._position)
        if error is not None:
            raise error

    def _full_blocks(self) -> Iterator[Block]:
        """Blocks that have become large enough; the rest stays in the builder."""
        for window in self._scanner.windows():
            self._page_size = window.pages.page_size
            self._runs.borrowed = window.pages.runs()
            self._forest.collect(window.pages.pages(), window.chunks)
            yield from self._take(window)
            self._position = window.next_position
            is_oob = window.chunks["type"] & CHUNK_KIND_MASK == RecordKind.OOB
            if is_oob.any() and not window.records["oob_records"].any():
                window.pages.retains = True  # a large transaction, whose commit record comes later

    def _take(self, window: CommitWindow) -> Iterator[Block]:
        """Take all groups of a window."""
        records = window.records
        if window.long_record is not None:
            self._position = window.long_record.position
            yield from self._add_long(window.long_record)
            yield from self._flush_piece(self._position_after(window, 0))
        if self._builder.group_count > 0 and self._builder.size + int(records["size"].sum()) > BLOCK_SIZE:
            yield self._builder.take(self._position_after(window, 0))
        row = 0
        while row < len(records):
            self._position = _position_of(window, row)
            code, row = self._builder.append_groups(window, row, self._forest.walk())
            if code == COMMIT_DONE:
                return
            self._position = _position_of(window, row)
            if code == COMMIT_NO_ROOM and self._builder.group_count > 0:
                yield self._builder.take(self._position)
                continue
            yield from self._add_oob(window, row)
            row += 1
            yield from self._flush_piece(self._position_after(window, row))

    def _add_oob(self, window: CommitWindow, row: int) -> Iterator[Block]:
        """Take record *row*, whose events are out-of-band."""
        record = window.records[row]
        chunks = window.chunks[int(record["first"]) : int(record["end"])]
        extents = window_extents(window.pages, chunks[chunks["type"] & CHUNK_KIND_MASK == RecordKind.COMMIT])
        first = OobSet(
            int(record["oob_records"]),
            (int(record["first_file_no"]), int(record["first_offset"])),
            (int(record["last_file_no"]), int(record["last_offset"])),
        )
        second = OobSet(
            int(record["oob_records_second_set"]),
            (int(record["first_file_no_second_set"]), int(record["first_offset_second_set"])),
            (int(record["last_file_no_second_set"]), int(record["last_offset_second_set"])),
        )
        file_offset = int(extents["file_offset"][0]) - CHUNK_HEADER_SIZE
        yield from self._add_group(
            _position_of(window, row), file_offset, [extents], int(record["header_size"]), (first, second)
        )

    def _add_long(self, record: LongRecord) -> Iterator[Block]:
        """Take a commit record that is longer than a window."""
        position = record.position
        head = self._records.head(position.file_no, record.file_offset, RecordKind.COMMIT, COMMIT_HEADER_SIZE_MAX)
        values = np.zeros(COMMIT_HEADER_INTS_MAX, dtype=np.uint64)
        header_size = read_commit_integers(head, len(head), values)
        if header_size < 0:
            place = Place(self._files.path(position.file_no), page=position.page, byte=record.file_offset)
            raise CorruptError("BAD_CHUNK", "the header of the commit record cannot be read", at=place)
        count, *places = (int(value) for value in values)
        first = OobSet(count, (places[0], places[1]), (places[2], places[3]))
        second = OobSet(places[4], (places[5], places[6]), (places[7], places[8]))
        yield from self._add_group(position, record.file_offset, record.extents, header_size, (first, second))

    def _add_group(
        self,
        position: Position,
        file_offset: int,
        commit_extents: list[Table],
        header_size: int,
        oob_sets: tuple[OobSet, OobSet],
    ) -> Iterator[Block]:
        """Take one group in parts: what its commit record holds, then both sets of out-of-band data."""
        begun_in = min((oob.first[0] for oob in oob_sets if oob.count), default=position.file_no)
        if begun_in < position.file_no and self._files.size(begun_in) is None:
            if self._skips_purged:
                return
            raise self._began_before(position, file_offset, begun_in)
        builder = self._builder
        builder.begin_group(position, file_offset, (oob_sets[0].count, oob_sets[1].count))
        try:
            skip = header_size
            for extents in commit_extents:
                for run, pieces in extent_runs(self._runs, extents, self._page_size):
                    file_start = run.first_page * self._page_size
                    skip = builder.append_pieces(run.data, pieces, skip, run.file_no, file_start)
                    yield from builder.cut_pieces()
            for oob in oob_sets:
                if oob.count > 0:
                    yield from self._forest.append(builder, oob, (position.file_no, file_offset))
            builder.end_group()
        except BinlogError:
            builder.drop_group()
            raise

    def _began_before(self, position: Position, file_offset: int, file_no: int) -> DataLossError:
        gtid = gtid_of(_head_of(self._records, position.file_no, file_offset)[0], ())
        return DataLossError(
            "FILE_PURGED",
            f"the file is not there, and the transaction {gtid}, committed at {position}, began in it",
            at=Place(self._files.path(file_no)),
            hint=f"The server has purged it, or it was not copied: bring it back, or start after {gtid}",
        )

    def _flush_piece(self, next_position: Position) -> Iterator[Block]:
        """A block that ends a large group holds nothing else."""
        if self._builder.ends_with_piece:
            yield self._builder.take(next_position)

    def _position_after(self, window: CommitWindow, row: int) -> Position:
        return _position_of(window, row) if row < len(window.records) else window.next_position


def _position_of(window: CommitWindow, row: int) -> Position:
    """Position of record *row* of a window."""
    chunk = window.chunks[int(window.records["first"][row])]
    return window.pages.position(int(chunk["page"]), int(chunk["number"]))


def group_tail(reader: PageReader, file_no: int, file_offset: int) -> bytes:
    """The data of the record in which the group ends whose commit record is at that place; empty: it is damaged.

    The last record of out-of-band data comes last; the commit record, where there
    is none. The record's own header is in front.
    """
    records = RecordReader(reader, PageRuns(reader))
    head = records.head(file_no, file_offset, RecordKind.COMMIT, COMMIT_HEADER_SIZE_MAX)
    values = np.zeros(COMMIT_HEADER_INTS_MAX, dtype=np.uint64)
    if read_commit_integers(head, len(head), values) < 0:
        return b""
    first_count, _, _, first_file_no, first_offset, second_count, _, _, second_file_no, second_offset = (
        int(value) for value in values
    )
    if second_count > 0:
        return _data(records, second_file_no, second_offset, RecordKind.OOB)
    if first_count > 0:
        return _data(records, first_file_no, first_offset, RecordKind.OOB)
    return _data(records, file_no, file_offset, RecordKind.COMMIT)


def _data(records: RecordReader, file_no: int, offset: int, kind: RecordKind) -> bytes:
    joined: list[bytes] = []
    for run, pieces in records.pieces(file_no, offset, kind):
        size = int(pieces["size"].sum())
        data = empty_bytes(size)
        copy_pieces(run.data, pieces, size, data, 0)
        joined = [*joined[-1:], data.tobytes()]
    return b"".join(joined)


class GroupHeads:
    """Reads the first events of groups; tables are used again by the next call."""

    def __init__(self) -> None:
        self._groups = np.empty(0, dtype=GROUP_DTYPE)
        self._head = empty_bytes(HEAD_SIZE)

    def of(self, window: CommitWindow, count: int) -> Table:
        """Timestamps and GTIDs of the first *count* records of a window; the other columns are undefined."""
        if len(self._groups) < count:
            self._groups = np.empty(2 * count, dtype=GROUP_DTYPE)
        read_first_events(window.pages.data, window.chunks, window.records, count, self._head, self._groups)
        return self._groups[:count]

    def of_long(self, record: LongRecord, reader: PageReader) -> Table:
        """The same of a record that is longer than a window: one row."""
        return _head_of(RecordReader(reader, PageRuns(reader)), record.position.file_no, record.file_offset)


def _head_of(records: RecordReader, file_no: int, file_offset: int) -> Table:
    """The first event of the group whose commit record is at a place: one row."""
    head = records.head(file_no, file_offset, RecordKind.COMMIT, HEAD_SIZE)
    header_size = read_commit_integers(head, len(head), np.zeros(COMMIT_HEADER_INTS_MAX, dtype=np.uint64))
    event = as_bytes(head[max(header_size, 0) :].data)
    groups = np.zeros(1, dtype=GROUP_DTYPE)
    groups["gtid_source"] = -1
    if len(event) >= EVENT_HEADER_SIZE:
        read_gtid(event, 0, len(event), groups, 0)
    return groups


def read_heads(reader: PageReader, scanner: CommitScanner) -> Iterator[Heads]:
    """The groups of a scan, with their places; tables are valid until the next step."""
    heads = GroupHeads()
    for window in scanner.windows():
        chunks = window.chunks[window.records["first"]]
        pages, page = window.pages, chunks["page"]
        if window.long_record is not None:
            groups, position = heads.of_long(window.long_record, reader), window.long_record.position
            groups["file_no"], groups["page"], groups["chunk"] = position.file_no, position.page, position.chunk
            after = pages.position(int(page[0]), int(chunks["number"][0])) if len(chunks) else window.next_position
            yield _whole(groups, after)
        groups = heads.of(window, len(window.records))
        groups["file_no"] = pages.file_no[page]
        groups["page"] = pages.page_start[page] // pages.page_size
        groups["chunk"] = chunks["number"]
        yield _whole(groups, window.next_position)


def _whole(groups: Table, next_position: Position) -> Heads:
    groups["begins"] = groups["ends"] = True
    return Heads(groups, next_position)


def measure(reader: PageReader, scanner: CommitScanner, start: Position, size_max: int | None) -> Span:
    """Measure the log from *start* to the end of the scanner's range, or at most *size_max* bytes of it.

    Args:
        scanner: Begins at *start*.
        size_max: Bytes in the files; at least one group is taken when there is one.
    """
    span = _SpanBuilder(start, size_max)
    for window in scanner.windows():
        if span.take(window, reader):
            break
    return Span(span.end, span.group_count, span.size, span.gtids, span.last_timestamp, span.last_gtid)


class _SpanBuilder:
    def __init__(self, start: Position, size_max: int | None) -> None:
        self._start = start
        self._size_max = size_max
        self.end = start
        self.size = 0
        self.group_count = 0
        self.last_timestamp: int | None = None
        self.last_gtid: AnyGtid | None = None
        self.gtids = NO_GTIDS
        self._start_byte: int | None = None  # of `start` in the first page
        self._heads = GroupHeads()

    def take(self, window: CommitWindow, reader: PageReader) -> bool:
        """Take a window, or the part of it that the limit allows; True: the limit has been reached."""
        chunks, records = window.chunks, window.records
        if self._start_byte is None:
            self._start_byte = int(chunks["start"][0]) - CHUNK_HEADER_SIZE if self._start.chunk and len(chunks) else 0
        before = window.pages.passed * window.pages.page_size - self._start_byte
        # Bytes from the start to the end of each record.
        ends = before + chunks["start"][records["end"] - 1] + chunks["size"][records["end"] - 1]
        if window.long_record is not None and not self._take_long(window.long_record, reader, before):
            return True
        count = len(records)
        if self._size_max is not None:
            count = int(np.searchsorted(ends, self._size_max, side="right"))
            count = max(count, 1) if self.group_count == 0 and len(records) > 0 else count
        if count > 0:
            self._take_heads(self._heads.of(window, count))
        if count < len(records):
            row = int(records["end"][count - 1]) if count > 0 else None
            if row is not None:
                self.end = window.pages.position(int(chunks["page"][row]), int(chunks["number"][row]))
                self.size = int(ends[count - 1])
            elif window.long_record is not None:
                first = int(records["first"][0])
                self.end = window.pages.position(int(chunks["page"][first]), int(chunks["number"][first]))
                self.size = before
            return True
        self.end = window.next_position
        if window.boundary > 0:
            last = window.boundary - 1
            self.size = int(before + chunks["start"][last] + chunks["size"][last])
        return self._size_max is not None and self.group_count > 0 and self.size >= self._size_max

    def _take_heads(self, groups: Table) -> None:
        self.group_count += len(groups)
        self.last_timestamp, self.last_gtid = int(groups["timestamp"][-1]), gtid_of(groups[-1], ())
        self.gtids = self.gtids.advanced_by(gtids_of(groups, ()))

    def _take_long(self, record: LongRecord, reader: PageReader, size: int) -> bool:
        """Take a record longer than a window, unless the limit is reached before its end, at about *size*."""
        if self._size_max is not None and self.group_count > 0 and size > self._size_max:
            return False
        self._take_heads(self._heads.of_long(record, reader))
        return True
