"""A server's crash recovery of its binlog files at a start: `recover`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.innodb.header import file_name, read_header
from binlog_format.innodb.layout import HEADER_SIZE
from binlog_lab.innodb_writer.files import WriterFile, find_files

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_lab.innodb_writer.redo import RedoLog

_ZEROED_PAGES = 64
"""Pages that are zeroed by one call."""


def recover(directory: Path, redo: RedoLog, page_size: int) -> None:
    """Make the files end where the durable part of *redo* ends.

    Every page that it knows is written whole, the last one with zeros after the data; all later pages of that file are
    zeroed, and it gets the length that its header contains, even if FLUSH had cut it; all later files are deleted.

    A server does nothing when there is no redo after the last checkpoint; here the
    files end at the checkpoint then.

    Args:
        directory: Where the files are. Those that were purged stay away.
        redo: The redo log of the server that crashed. It stays as it is: recovery can be interrupted and begun again.
        page_size: In bytes.
    """
    files = find_files(directory)
    pages = list(redo.recovered_pages())
    opened: dict[int, WriterFile] = {}
    try:
        for file_no in {redo.end.file_no, *(file_no for file_no, _, _ in pages)} & files.keys():
            opened[file_no] = WriterFile(files[file_no], file_no, page_size)
        for file_no, page_no, page in pages:
            if file_no in opened:
                opened[file_no].write_pages(page_no, [page.ljust(page_size, b"\0")])
        _zero_rest(opened[redo.end.file_no], directory, redo)
        for file in opened.values():
            file.sync()
    finally:
        for file in opened.values():
            file.close()
    for file_no in sorted(files, reverse=True):
        if file_no > redo.end.file_no:
            files[file_no].unlink()


def _zero_rest(file: WriterFile, directory: Path, redo: RedoLog) -> None:
    """Zero what follows the end of the log in its last file, and give the file back its full size."""
    _, page_no, page_offset = redo.end
    first = page_no + (page_offset > 0)
    for start in range(first, file.page_count, _ZEROED_PAGES):
        file.zero_pages(start, min(_ZEROED_PAGES, file.page_count - start))
    path = directory / file_name(file.file_no)
    with path.open("rb") as source:
        header = read_header(source.read(HEADER_SIZE), str(path), file.file_no)
    assert header is not None, "a file that the log has reached has a header, in the file or in the redo log"
    file.set_size(header.page_count)
