"""The `.ibb` files of a directory, damaged ones too: `view_files` -> `FileView`."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from binlog_format.errors import BinlogError, CorruptError
from binlog_format.innodb.files import READ_ATTEMPTS, LogFiles
from binlog_format.innodb.header import FileHeader, read_header
from binlog_format.innodb.layout import (
    HEADER_CHECKSUM_OFFSET,
    HEADER_FIELDS_SIZE,
    HEADER_SIZE,
    PAGE_CHECKSUM_SIZE,
    PAGE_SIZE_DEFAULT,
    PAGE_SIZE_MAX,
)
from binlog_format.innodb.pages.checksum import bad_checksum, page_checksum, stored_checksum
from binlog_format.kernels import empty_bytes
from binlog_format.position import Place

if TYPE_CHECKING:
    from binlog_format.kernels import Bytes
    from binlog_format.source_file import Directory

_DAMAGED_HINT = "The header page is damaged; take the file from a backup"


class HeaderState(StrEnum):
    """State of a file's first page."""

    GOOD = "good"
    EMPTY = "empty"  # made ahead, nothing written
    DAMAGED = "damaged"


@dataclass(slots=True)
class FileView:
    """One file and what its header page contains.

    Attributes:
        page_size: Bytes of a page; of a file without a good header that of the others.
        header: None when it cannot be read, or nothing is there.
        problems: What is wrong with the header page by itself.
    """

    file_no: int
    name: str
    path: str
    size: int
    page_size: int
    header: FileHeader | None
    state: HeaderState
    problems: list[BinlogError] = field(default_factory=list)

    @property
    def page_count(self) -> int:
        """Number of complete pages."""
        return self.size // self.page_size

    def place(self, page: int, byte_in_page: int = 0) -> Place:
        """A place in this file."""
        return Place(self.path, page=page, byte=page * self.page_size + byte_in_page)


def view_files(directory: Directory, only: str | None) -> list[FileView]:
    """Look at the header page of every file, by number. *only*: name of the one file to look at."""
    files = LogFiles(directory, only)
    views = []
    heads: list[Bytes] = []
    try:
        for file_no in files.numbers():
            name = files.name(file_no)
            found = _view(directory, name, file_no)
            if found is not None:
                views.append(found[0])
                heads.append(found[1])
    finally:
        files.close()
    sizes = Counter(view.header.page_size for view in views if view.header is not None)
    usual = sizes.most_common(1)[0][0] if sizes else PAGE_SIZE_DEFAULT
    for view, head in zip(views, heads, strict=True):
        if view.header is None:
            view.page_size = usual
        _check_page(view, head)
    return views


def _view(directory: Directory, name: str, file_no: int) -> tuple[FileView, Bytes] | None:
    """The file with its fields decoded, and its first bytes; None: it is gone."""
    try:
        source = directory.open(name)
    except FileNotFoundError:
        return None
    with closing(source):
        buffer = empty_bytes(PAGE_SIZE_MAX)
        for _ in range(READ_ATTEMPTS):
            head = buffer[: source.read_into(0, buffer)]
            view = FileView(file_no, name, source.path, source.size(), PAGE_SIZE_DEFAULT, None, HeaderState.EMPTY)
            if len(head) >= HEADER_SIZE:
                _decode(view, head)
            page = head[: view.page_size].data
            if not view.problems and (len(page) < HEADER_SIZE or stored_checksum(page) == page_checksum(page)):
                break  # else it may be half written: it is read again
        return view, head.copy()


def _decode(view: FileView, head: Bytes) -> None:
    try:
        view.header = read_header(head[:HEADER_SIZE].tobytes(), view.path)
    except BinlogError as error:
        view.problems.append(error)
        view.state = HeaderState.DAMAGED
        return
    if view.header is None:
        return
    view.state = HeaderState.GOOD
    view.page_size = view.header.page_size


def _check_page(view: FileView, head: Bytes) -> None:
    """Add what is wrong with the page as a whole."""
    page = head[: view.page_size]
    if view.state is HeaderState.EMPTY:
        if page.any():
            reason = "the header is empty, but there are data after it"
            view.problems = [CorruptError("HEADER", reason, at=view.place(0), hint=_DAMAGED_HINT)]
        return
    if len(page) < view.page_size:
        reason = f"the header page has {view.page_size} bytes, the file {view.size}"
        view.problems.append(CorruptError("HEADER", reason, at=view.place(0), hint=_DAMAGED_HINT))
        return
    if stored_checksum(page.data) != page_checksum(page.data):
        view.problems.append(bad_checksum(page.data, view.place(0), _DAMAGED_HINT))
    header = view.header
    if header is None:
        return
    if header.file_no != view.file_no:
        reason = f"file number: the name has {view.file_no}, the header has {header.file_no}"
        view.problems.append(CorruptError("HEADER", reason, at=view.place(0, 16)))
    reserved = page[HEADER_FIELDS_SIZE:HEADER_CHECKSUM_OFFSET].any() or page[HEADER_SIZE:-PAGE_CHECKSUM_SIZE].any()
    if reserved and not view.problems:
        reason = "bytes after the header's fields are not zero"
        view.problems.append(CorruptError("HEADER", reason, at=view.place(0, HEADER_FIELDS_SIZE)))
