"""Counts, sizes and GTIDs of a stretch of the log without joining its events: `measure`.

Times, GTIDs and places of groups without joining their events: `GroupHeads`, `read_heads`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.block import GROUP_DTYPE
from binlog_format.events.event_table_kernels import read_gtid
from binlog_format.events.layout import EVENT_HEADER_SIZE
from binlog_format.gtids.gtid_history import gtids_of
from binlog_format.gtids.gtid_set import NO_GTIDS
from binlog_format.innodb.groups.commit_kernels import HEAD_SIZE, read_commit_integers, read_first_events
from binlog_format.innodb.layout import CHUNK_HEADER_SIZE, COMMIT_HEADER_INTS_MAX, RecordKind
from binlog_format.innodb.pages.page_runs import PageRuns
from binlog_format.innodb.records import RecordReader
from binlog_format.kernels import as_bytes, empty_bytes
from binlog_format.log_format import Heads, Span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_format.block import Table
    from binlog_format.innodb.pages.pages import PageReader
    from binlog_format.innodb.scanner import CommitScanner, CommitWindow, LongRecord
    from binlog_format.position import Position


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
        records = RecordReader(reader, PageRuns(reader))
        head = records.head(record.position.file_no, record.file_offset, RecordKind.COMMIT, HEAD_SIZE)
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
        reader: Where pages come from.
        scanner: Begins at *start*.
        start: Where the span begins.
        size_max: Bytes in the files; at least one group is taken when there is one.
    """
    span = _SpanBuilder(start, size_max)
    for window in scanner.windows():
        if span.take(window, reader):
            break
    return span.result()


class _SpanBuilder:
    def __init__(self, start: Position, size_max: int | None) -> None:
        self._start = start
        self._size_max = size_max
        self._end = start
        self._size = 0
        self._group_count = 0
        self._last_timestamp: int | None = None
        self._gtids = NO_GTIDS
        self._start_byte: int | None = None  # of `start` in the first page
        self._heads = GroupHeads()

    def result(self) -> Span:
        """The range that has been taken."""
        return Span(self._end, self._group_count, self._size, self._gtids, self._last_timestamp)

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
            count = max(count, 1) if self._group_count == 0 and len(records) > 0 else count
        self._take_groups(window, count)
        if count < len(records):
            row = int(records["end"][count - 1]) if count > 0 else None
            if row is not None:
                self._end = window.pages.position(int(chunks["page"][row]), int(chunks["number"][row]))
                self._size = int(ends[count - 1])
            elif window.long_record is not None:
                first = int(records["first"][0])
                self._end = window.pages.position(int(chunks["page"][first]), int(chunks["number"][first]))
                self._size = before
            return True
        self._end = window.next_position
        if window.boundary > 0:
            last = window.boundary - 1
            self._size = int(before + chunks["start"][last] + chunks["size"][last])
        return self._size_max is not None and self._group_count > 0 and self._size >= self._size_max

    def _take_groups(self, window: CommitWindow, count: int) -> None:
        if count > 0:
            self._take_heads(self._heads.of(window, count))

    def _take_heads(self, groups: Table) -> None:
        self._group_count += len(groups)
        self._last_timestamp = int(groups["timestamp"][-1])
        self._gtids = self._gtids.advanced_by(gtids_of(groups, ()))

    def _take_long(self, record: LongRecord, reader: PageReader, size: int) -> bool:
        """Take a record longer than a window, unless the limit is reached before its end, at about *size*."""
        if self._size_max is not None and self._group_count > 0 and size > self._size_max:
            return False
        self._take_heads(self._heads.of_long(record, reader))
        return True
