"""Search for the end of a log without reading all of it: `written_page_count`, `used_size`, `end_position`.

Pages are written in order and never begin with a zero byte, so that the last one is found by halving.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.innodb.groups.measure import measure
from binlog_format.innodb.layout import CHUNK_END_OF_DATA, CHUNK_HEADER_SIZE, FIRST_DATA_PAGE
from binlog_format.innodb.scan_kernels import SCAN_END_MARK, scan_chunks
from binlog_format.innodb.scanner import CommitScanner
from binlog_format.innodb.tables import CHUNK_DTYPE
from binlog_format.kernels import empty_bytes
from binlog_format.position import Position

if TYPE_CHECKING:
    from binlog_format.innodb.files import OpenFile
    from binlog_format.innodb.pages.pages import PageReader

WINDOW_PAGES = 16
"""Pages read at a time: the end is near."""

_STEP_GROWTH = 4


def written_page_count(file: OpenFile) -> int:
    """Pages of *file* that something has been written to, the header page included."""
    first_byte = empty_bytes(1)
    low, high = 0, file.page_count()  # page `low` has been written, page `high` has not
    while high - low > 1:
        middle = (low + high) // 2
        size = file.source.read_into(middle * file.page_size, first_byte)
        is_written = size > 0 and first_byte[0] != CHUNK_END_OF_DATA
        low, high = (middle, high) if is_written else (low, middle)
    return low + 1


def used_size(reader: PageReader, file: OpenFile) -> int:
    """Bytes of *file* up to the end of data; a last page that is not whole does not count."""
    last = written_page_count(file) - 1
    if last < FIRST_DATA_PAGE:
        return file.page_size
    page = empty_bytes(file.page_size)
    if reader.read(file, last, page)[0] == 0:
        return last * file.page_size
    chunks = np.empty(file.page_size // CHUNK_HEADER_SIZE, dtype=CHUNK_DTYPE)
    code, _, _, _, byte = scan_chunks(page, 1, file.page_size, 0, chunks)
    return last * file.page_size + (byte if code == SCAN_END_MARK else file.page_size)


def end_position(reader: PageReader, numbers: list[int]) -> Position:
    """The place after the last whole record: where `blocks` ends, found from the end.

    Args:
        reader: Where pages come from.
        numbers: Numbers of the files, ascending; at least one.
    """
    for file_no in reversed(numbers):
        file = reader.files.begun(file_no)
        if file is None:
            continue
        last = written_page_count(file) - 1
        step = 1
        while last >= FIRST_DATA_PAGE:
            # A record that began further back hides its own end: it is looked for from further back then.
            start = Position(file_no, max(last - step + 1, FIRST_DATA_PAGE), 0)
            scanner = CommitScanner(reader, start, None, window_size=WINDOW_PAGES * file.page_size)
            end = measure(reader, scanner, start, None).end
            if end != start:
                return end
            if start.page == FIRST_DATA_PAGE:
                break
            step *= _STEP_GROWTH
    return Position(numbers[0], FIRST_DATA_PAGE, 0)
