"""The first and the last GTID state record of a file: `file_states`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_format.innodb.file_end import check_file_end
from binlog_format.innodb.files import LogFiles
from binlog_format.innodb.gtid_state import read_state
from binlog_format.innodb.layout import FIRST_DATA_PAGE
from binlog_format.innodb.pages.pages import PageReader

if TYPE_CHECKING:
    from collections.abc import Iterable

    from binlog_format.gtids.gtid import Gtid
    from binlog_format.innodb.files import OpenFile
    from binlog_format.log_format import LogFile
    from binlog_format.source_file import Directory


@dataclass(frozen=True, slots=True)
class FileStates:
    """Contents of a file's state records; None: there is none (yet).

    Attributes:
        first: GTIDs of the full state in page 1.
        last: The same with what the last state record of the file changes.
        last_page: Page of that record.
    """

    first: tuple[Gtid, ...] | None
    last: tuple[Gtid, ...] | None
    last_page: int | None


def file_states(directory: Directory, only: str | None, files: Iterable[LogFile]) -> dict[int, FileStates]:
    """Read the states of *files*, by file number; a few pages of each file are read.

    Raises:
        CorruptError: A page or a state is damaged.
    """
    opened = LogFiles(directory, only)
    reader = PageReader(opened, check_file_end)
    found = {}
    try:
        for described in files:
            file = opened.begun(described.file_no)
            if file is not None:
                found[described.file_no] = _states(reader, file, described.used_size)
    finally:
        opened.close()
    return found


def _states(reader: PageReader, file: OpenFile, used_size: int) -> FileStates:
    first = read_state(reader, file)
    if first is None:
        return FileStates(None, None, None)
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
            return FileStates(first.gtids, tuple(latest.values()), page)
        page -= interval
    return FileStates(first.gtids, first.gtids, FIRST_DATA_PAGE)
