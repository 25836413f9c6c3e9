"""How a large group ends, without reading it: `group_tail`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.innodb.groups.commit_kernels import read_commit_integers
from binlog_format.innodb.layout import COMMIT_HEADER_INTS_MAX, COMMIT_HEADER_SIZE_MAX, RecordKind
from binlog_format.innodb.pages.page_runs import PageRuns
from binlog_format.innodb.record_kernels import copy_pieces
from binlog_format.innodb.records import RecordReader
from binlog_format.kernels import empty_bytes

if TYPE_CHECKING:
    from binlog_format.innodb.pages.pages import PageReader


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
    for pieces in records.pieces(file_no, offset, kind):
        size = int(pieces.table["size"].sum())
        data = empty_bytes(size)
        copy_pieces(pieces.run.data, pieces.table, len(pieces.table), 0, size, data, 0)
        joined = [*joined[-1:], data.tobytes()]
    return b"".join(joined)
