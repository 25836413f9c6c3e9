"""GTID state records: `GtidState`, `read_state`; the first and the last one of a file: `file_gtids`.

Page 1 of every file begins with the full state, pages at the header's interval with what has changed since page 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.errors import CorruptError
from binlog_format.gtids.gtid import Gtid, GtidPosition
from binlog_format.innodb.compressed_int_kernels import read_ints
from binlog_format.innodb.layout import FIRST_DATA_PAGE, RecordKind
from binlog_format.innodb.pages.pages import PageRun, PageRuns, PageStop
from binlog_format.innodb.records import RecordReader
from binlog_format.kernels import empty_bytes
from binlog_format.log_format import NO_FILE_GTIDS, FileGtids

if TYPE_CHECKING:
    from collections.abc import Iterable

    from binlog_format.innodb.files import OpenFile
    from binlog_format.innodb.pages.pages import PageReader

STATE_SIZE_MAX = 16 << 20
"""Bytes of a state record that are read at most: over half a million GTIDs."""

_HEADER_INTS = 2
_GTID_INTS = 3
_UINT32_MAX = 2**32 - 1


@dataclass(frozen=True, slots=True)
class GtidState:
    """Contents of a state record.

    Attributes:
        gtids: The last GTID of each domain and server id; of a domain the most recent one comes last.
        xa_reference_file_no: Lowest file with a prepared XA transaction; None: there is none.
    """

    gtids: tuple[Gtid, ...]
    xa_reference_file_no: int | None

    def position(self) -> GtidPosition:
        """The last GTID of each domain."""
        return GtidPosition.of(self.gtids)


def read_state(reader: PageReader, file: OpenFile, page: int = FIRST_DATA_PAGE) -> GtidState | None:
    """Read the state record at the start of a page.

    Args:
        page: 1 for the full state; else a multiple of the header's interval.

    Returns:
        None when the page has not been written yet, or does not begin with a state.
    """
    buffer = empty_bytes(file.page_size)
    count, stop = reader.read(file, page, buffer)
    if count == 0:
        assert stop is not PageStop.FULL
        return None
    runs = PageRuns(reader)
    runs.borrowed = [PageRun(file.file_no, page, 1, buffer)]
    records = RecordReader(reader, runs)
    try:
        data = records.head(file.file_no, page * file.page_size, RecordKind.GTID_STATE, STATE_SIZE_MAX)
    except CorruptError as error:
        if error.subclass == "OOB_REFERENCE":
            return None  # no state starts here, or it goes on in a page that is not there yet
        raise
    return _decode(data, file, page)


def _decode(data: np.ndarray[tuple[int], np.dtype[np.uint8]], file: OpenFile, page: int) -> GtidState:
    values = np.empty(len(data), dtype=np.uint64)
    after, count = read_ints(data, 0, len(data), values)
    numbers = [int(value) for value in values[:count]]
    if after < 0 or count < _HEADER_INTS or count != _HEADER_INTS + _GTID_INTS * numbers[0]:
        raise CorruptError("BAD_CHUNK", "the GTID state record cannot be read", at=file.place(page))
    triples = zip(*(numbers[_HEADER_INTS + part :: _GTID_INTS] for part in range(_GTID_INTS)), strict=True)
    gtids = tuple(Gtid(domain, server, seqno) for domain, server, seqno in triples)
    if any(gtid.domain > _UINT32_MAX or gtid.server > _UINT32_MAX for gtid in gtids):
        raise CorruptError("BAD_CHUNK", "the GTID state record has a domain above 32 bits", at=file.place(page))
    return GtidState(gtids, numbers[1] - 1 if numbers[1] > 0 else None)


def file_gtids(reader: PageReader, file: OpenFile, used_size: int) -> FileGtids:
    """The first and the last state record of *file*, which holds *used_size* bytes; a few pages are read."""
    first = read_state(reader, file)
    if first is None:
        return NO_FILE_GTIDS
    interval = file.header.state_interval
    used_pages = -(-used_size // file.page_size)
    page = (used_pages - 1) // interval * interval if interval > 0 else 0
    # The last one may be left out, where no page would remain after it.
    while page > FIRST_DATA_PAGE:
        state = read_state(reader, file, page)
        if state is not None:
            latest = {(gtid.domain, gtid.server): gtid for gtid in first.gtids}
            for gtid in state.gtids:
                latest.pop((gtid.domain, gtid.server), None)
                latest[gtid.domain, gtid.server] = gtid
            return FileGtids(_text(first.gtids), _text(latest.values()), page)
        page -= interval
    return FileGtids(_text(first.gtids), _text(first.gtids), FIRST_DATA_PAGE)


def _text(gtids: Iterable[Gtid]) -> str:
    return ",".join(map(str, gtids))
