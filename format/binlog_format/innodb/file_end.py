"""Check of the end of a file that is not the last one: `check_file_end`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.errors import DataLossError
from binlog_format.gtids.gtid import GtidPosition
from binlog_format.innodb.groups.measure import measure
from binlog_format.innodb.gtid_state import read_state
from binlog_format.innodb.layout import CHUNK_HEADER_SIZE, CHUNK_KIND_MASK, FIRST_DATA_PAGE, RecordKind
from binlog_format.innodb.scan_kernels import scan_chunks
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
        reader: Where pages come from.
        file: The file; its last page has been read.
        following: The one after it.

    Returns:
        False: it cannot be told yet, the next file's state is not on disk.

    Raises:
        DataLossError: `TRUNCATED_TRANSACTION`.
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
