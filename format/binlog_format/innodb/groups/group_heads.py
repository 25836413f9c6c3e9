"""Times, GTIDs and places of groups without joining their events: `GroupHeads`, `read_heads`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.block import GROUP_DTYPE
from binlog_format.events.event_table_kernels import read_gtid
from binlog_format.events.layout import EVENT_HEADER_SIZE
from binlog_format.innodb.groups.commit_kernels import HEAD_SIZE, read_commit_integers, read_first_events
from binlog_format.innodb.layout import COMMIT_HEADER_INTS_MAX, RecordKind
from binlog_format.innodb.pages.page_runs import PageRuns
from binlog_format.innodb.records import RecordReader
from binlog_format.kernels import as_bytes, empty_bytes
from binlog_format.log_format import Heads

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
