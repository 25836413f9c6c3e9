"""The first bytes of a record that a page walk has come to: `record_head`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.errors import BinlogError
from binlog_format.innodb.layout import CHUNK_KIND_MASK, CHUNK_LAST, RecordKind
from binlog_format.kernels import as_bytes

if TYPE_CHECKING:
    from binlog_format.innodb.inspection.page_walk import PageBatch
    from binlog_format.innodb.records import RecordReader
    from binlog_format.kernels import Bytes

_KNOWN_KINDS = frozenset(int(kind) for kind in RecordKind)


def record_head(batch: PageBatch, row: int, records: RecordReader, size: int) -> Bytes | None:
    """Up to *size* bytes of the record whose first chunk is *row* of the batch's chunk table.

    Args:
        batch: Where the record begins.
        row: Its first chunk.
        records: For what follows the batch.
        size: Bytes wanted; fewer come only when the record has no more.

    Returns:
        None when the record goes on where nothing can be read.
    """
    chunk = batch.chunks[row]
    start, length = int(chunk["start"]), int(chunk["size"])
    if length >= size or int(chunk["type"]) & CHUNK_LAST:
        return as_bytes(batch.data[start : start + min(length, size)].data)
    kind = int(chunk["type"]) & CHUNK_KIND_MASK
    if kind not in _KNOWN_KINDS:
        return as_bytes(batch.data[start : start + length].data)
    try:
        return records.head(batch.file.file_no, batch.chunk_offset(row), RecordKind(kind), size)
    except BinlogError:
        return None
