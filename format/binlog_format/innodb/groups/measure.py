"""Counts, sizes and GTIDs of a stretch of the log without joining its events: `measure`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.gtids.gtid_groups import gtids_of
from binlog_format.gtids.gtid_set import NO_GTIDS
from binlog_format.innodb.groups.group_heads import GroupHeads
from binlog_format.innodb.layout import CHUNK_HEADER_SIZE
from binlog_format.log_format import Span

if TYPE_CHECKING:
    from binlog_format.block import Table
    from binlog_format.innodb.pages.pages import PageReader
    from binlog_format.innodb.scanner import CommitScanner, CommitWindow, LongRecord
    from binlog_format.position import Position


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
