"""Search for the end of a log without reading all of it: `written_page_count`, `used_size`, `end_position`.

Pages are written in order and never begin with a zero byte, so that the last one is found by halving.

Check of the end of a file that is not the last one: `check_file_end`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.errors import DataLossError
from binlog_format.gtids.gtid import GtidPosition
from binlog_format.innodb.groups.group_reader import measure
from binlog_format.innodb.gtid_state import read_state
from binlog_format.innodb.layout import (
    CHUNK_END_OF_DATA,
    CHUNK_HEADER_SIZE,
    CHUNK_KIND_MASK,
    FIRST_DATA_PAGE,
    RecordKind,
)
from binlog_format.innodb.scan_kernels import SCAN_END_MARK, scan_chunks
from binlog_format.innodb.scanner import CommitScanner
from binlog_format.innodb.tables import CHUNK_DTYPE
from binlog_format.kernels import compiled, empty_bytes
from binlog_format.position import Position

if TYPE_CHECKING:
    from binlog_format.innodb.files import OpenFile
    from binlog_format.innodb.pages.pages import PageReader


def check_file_end(reader: PageReader, file: OpenFile, following: OpenFile) -> bool:
    """Tell a file that FLUSH made shorter from one that was cut off: nothing in its pages would show it.

    A file has the length in its header, or ends with a dummy record. A crash during FLUSH can leave a short file
    without one, which is then filled to its end: only there the GTIDs of the file have to be
    compared with the state at the start of the next one.

    Args:
        file: The file; its last page has been read.

    Returns:
        False: it cannot be told yet, the next file's state is not on disk.
    """
    page_count = file.page_count()
    if page_count >= file.header.page_count or _ends_with_dummy(reader, file, page_count - 1):
        return True
    state_after = read_state(reader, following)
    if state_after is None:
        return False
    state_before = read_state(reader, file)
    if state_before is not None:
        start, end = Position(file.file_no, FIRST_DATA_PAGE, 0), Position(following.file_no, 0, 0)
        with compiled():  # that is all of the file
            written = measure(reader, CommitScanner(reader, start, end), start, None).gtids
        reached = state_before.position().advanced_by(written)
        assert isinstance(reached, GtidPosition), "files of this format are MariaDB's"
        last = reached.last
        # The next file's state may lack domains (FLUSH ... DELETE_DOMAIN_ID), but never be ahead.
        if all(last.get(domain) == gtid for domain, gtid in state_after.position().last.items()):
            return True
    raise DataLossError(
        "TRUNCATED_TRANSACTION",
        f"the file ends here, with {page_count} of {file.header.page_count} pages, and transactions that "
        f"{following.name} builds on are not in it",
        at=file.place(page_count),
        hint="The file was cut off or copied before it was complete; copy it again",
    )


def _ends_with_dummy(reader: PageReader, file: OpenFile, page: int) -> bool:
    if page < FIRST_DATA_PAGE:
        return False
    buffer = empty_bytes(file.page_size)
    if reader.read(file, page, buffer)[0] == 0:
        return False
    chunks = np.empty(file.page_size // CHUNK_HEADER_SIZE, dtype=CHUNK_DTYPE)
    _, count, _, _, _ = scan_chunks(buffer, 1, file.page_size, 0, chunks)
    return count > 0 and int(chunks["type"][count - 1]) & CHUNK_KIND_MASK == RecordKind.DUMMY


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
