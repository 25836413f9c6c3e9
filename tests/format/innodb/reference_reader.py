"""A second, slow reader of `.ibb` files, record by record as MariaDB's own client reads them: `read_log`.

It shares nothing with the package but what the format's specification says, so it can judge both reader and writer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crc32c import crc32c

if TYPE_CHECKING:
    from pathlib import Path

COMMIT, GTID_STATE, OOB, DUMMY, XA_PREPARE, XA_COMPLETE = 1, 2, 3, 4, 5, 6
NO_XA = 2**64 - 1


class Damaged(Exception):
    """The bytes break a rule of the format."""


@dataclass(frozen=True)
class Header:
    """Numbers of a header page."""

    file_no: int
    page_count: int
    lsn: int
    interval: int
    oob_file_no: int
    xa_file_no: int | None


@dataclass(frozen=True)
class Group:
    """A commit record and what it refers to."""

    file_no: int
    page: int
    chunk: int
    file_offset: int
    data: bytes
    oob_records: int
    oob_records_second_set: int


@dataclass(frozen=True)
class State:
    """A GTID state record, and how many commit records had begun before its first byte."""

    file_no: int
    page: int
    groups_before: int
    xa_file_no: int | None
    gtids: list[tuple[int, int, int]]


@dataclass
class Log:
    """All that a log records."""

    headers: dict[int, Header] = field(default_factory=dict)
    groups: list[Group] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    records: list[tuple[int, int, int]] = field(default_factory=list)  # kind, file, byte; whole ones, in order
    is_cut_off: bool = False  # a record begins at the end, whose end is not there


def compressed_int(data: bytes, at: int) -> tuple[int, int]:
    """The number at *at*, and the byte after it."""
    tag = data[at] & 7
    size = tag + 1 if tag < 7 else 9
    if at + size > len(data):
        raise Damaged("a compressed integer is cut off")
    return int.from_bytes(data[at : at + size], "little") >> 3, at + size


def compressed_ints(data: bytes, at: int, count: int) -> tuple[list[int], int]:
    """*count* numbers, and the byte after them."""
    numbers = []
    for _ in range(count):
        number, at = compressed_int(data, at)
        numbers.append(number)
    return numbers, at


class _Files:
    """Pages of a directory; every page is verified."""

    def __init__(self, directory: Path) -> None:
        self.data = {int(path.stem[7:]): path.read_bytes() for path in directory.glob("binlog-*.ibb")}
        self.headers = {file_no: header for file_no in self.data if (header := self._header(file_no)) is not None}
        sizes = {self._page_size(file_no) for file_no in self.headers}
        if len(sizes) > 1:
            raise Damaged(f"different page sizes: {sizes}")
        self.page_size = sizes.pop() if sizes else 16384
        for file_no in self.headers:
            self.page(file_no, 0)

    def _page_size(self, file_no: int) -> int:
        return 1 << int.from_bytes(self.data[file_no][4:8], "little")

    def _header(self, file_no: int) -> Header | None:
        head = self.data[file_no][:512]
        if not any(head):
            return None
        if head[:4] != b"\xfe\xfe\x0d\x01" or crc32c(head[:508]) != int.from_bytes(head[508:512], "little"):
            raise Damaged(f"file {file_no}: header")
        numbers = [int.from_bytes(head[at : at + 8], "little") for at in range(16, 64, 8)]
        if numbers[0] != file_no or head[8:16] != b"\1\0\0\0\0\0\0\0":
            raise Damaged(f"file {file_no}: number or version")
        number, page_count, lsn, interval, oob_file_no, xa_file_no = numbers
        return Header(number, page_count, lsn, interval, oob_file_no, None if xa_file_no == NO_XA else xa_file_no)

    def page_count(self, file_no: int) -> int:
        return len(self.data[file_no]) // self.page_size

    def page(self, file_no: int, page: int) -> bytes:
        """The page without its checksum."""
        content = self.data[file_no][page * self.page_size : (page + 1) * self.page_size]
        if any(content) and crc32c(content[:-4]) != int.from_bytes(content[-4:], "little"):
            raise Damaged(f"file {file_no} page {page}: checksum")
        return content[:-4]


@dataclass(frozen=True)
class _Chunk:
    kind: int
    is_first: bool
    is_last: bool
    data: bytes
    file_no: int
    page: int
    number: int
    file_offset: int


class _Walk:
    """Chunk by chunk from a place on."""

    def __init__(self, files: _Files, file_no: int, file_offset: int) -> None:
        self._files = files
        self._file_no = file_no
        self._page, self._offset = divmod(file_offset, files.page_size)
        self._number = 0

    def next(self) -> _Chunk | None:
        """The next chunk; None at the end of the log."""
        data_size = self._files.page_size - 4
        while True:
            if self._file_no not in self._files.data:
                return None
            if self._page >= self._files.page_count(self._file_no):
                self._file_no, self._page, self._offset, self._number = self._file_no + 1, 1, 0, 0
                continue
            page = self._files.page(self._file_no, self._page)
            if data_size - self._offset < 4 or page[self._offset] == 0xFF:
                self._page, self._offset, self._number = self._page + 1, 0, 0
                continue
            break
        type_byte = page[self._offset]
        if type_byte == 0:
            return None
        start = self._offset
        size = page[start + 1] | page[start + 2] << 8
        self._offset = start + 3 + size
        if self._offset > data_size or size == 0:
            raise Damaged(f"file {self._file_no} page {self._page} byte {start}: chunk length {size}")
        self._number += 1
        return _Chunk(
            type_byte & 0x3F,
            not type_byte & 0x80,
            bool(type_byte & 0x40),
            page[start + 3 : self._offset],
            self._file_no,
            self._page,
            self._number - 1,
            self._page * self._files.page_size + start,
        )


def read_log(directory: Path) -> Log:
    """Read all of *directory*, from its first file to the end of the log.

    Raises:
        Damaged: A rule of the format is broken; an incomplete last record breaks none.
    """
    files = _Files(directory)
    log = Log(headers=files.headers)
    if not files.headers:
        return log
    walk = _Walk(files, min(files.headers), files.page_size)
    commits = 0
    is_on = 0 in files.headers
    outer: list[_Chunk] = []
    state: list[_Chunk] = []
    while (chunk := walk.next()) is not None:
        if chunk.kind == GTID_STATE and (state or not outer or outer[0].kind != GTID_STATE):
            if chunk.is_first == bool(state) or chunk.file_offset % files.page_size:
                raise Damaged(f"GTID state chunk at byte {chunk.file_offset}")
            state.append(chunk)
            if chunk.is_last:
                log.states.append(_state(state, commits))
                log.records.append((GTID_STATE, state[0].file_no, state[0].file_offset))
                state = []
            continue
        if not chunk.is_first and not outer and not is_on:
            continue  # of a record that begins in a file that has been purged
        is_on = True
        if state or chunk.is_first == bool(outer) or (outer and outer[0].kind != chunk.kind):
            raise Damaged(f"file {chunk.file_no} byte {chunk.file_offset}: chunk of kind {chunk.kind} out of place")
        if outer and outer[-1].page == chunk.page and outer[-1].file_no == chunk.file_no:
            raise Damaged("two chunks of a record in one page")
        outer.append(chunk)
        commits += chunk.is_first and chunk.kind == COMMIT
        if chunk.is_last:
            log.records.append((chunk.kind, outer[0].file_no, outer[0].file_offset))
            if chunk.kind == COMMIT:
                log.groups.append(_group(files, outer))
            outer = []
    log.is_cut_off = bool(outer or state)
    return log


def _state(chunks: list[_Chunk], groups_before: int) -> State:
    data = b"".join(chunk.data for chunk in chunks)
    (count, xa), at = compressed_ints(data, 0, 2)
    gtids = []
    for _ in range(count):
        (domain, server, seqno), at = compressed_ints(data, at, 3)
        gtids.append((domain, server, seqno))
    if at != len(data):
        raise Damaged("bytes after a GTID state")
    return State(chunks[0].file_no, chunks[0].page, groups_before, xa - 1 if xa else None, gtids)


def _group(files: _Files, chunks: list[_Chunk]) -> Group:
    data = b"".join(chunk.data for chunk in chunks)
    counts = [0, 0]
    pieces = []
    first = chunks[0]
    count, at = compressed_int(data, 0)
    for number in range(2):
        if count == 0:
            break
        links, at = compressed_ints(data, at, 4)
        counts[number] = count
        pieces.append(_oob_set(files, count, (links[0], links[1]), (links[2], links[3]), first))
        if number == 0:
            count, at = compressed_int(data, at)
    return Group(
        first.file_no,
        first.page,
        first.number,
        first.file_offset,
        data[at:] + b"".join(pieces),
        counts[0],
        counts[1],
    )


def _oob_set(files: _Files, count: int, first: tuple[int, int], last: tuple[int, int], commit: _Chunk) -> bytes:
    """The data of one set, in order; every rule that a strict reader can check is checked."""
    records: list[tuple[int, int]] = []
    parts: list[bytes] = []
    # (place, whether it is reached by left steps only, whether its children are done)
    stack = [(last, True, False)]
    while stack:
        place, is_leftmost, is_open = stack.pop()
        data = _oob_record(files, place)
        (index, left_file, left_offset, right_file, right_offset), at = compressed_ints(data, 0, 5)
        left, right = (left_file, left_offset), (right_file, right_offset)
        if is_open:
            if index != len(records) or (records and place <= records[-1]) or at == len(data):
                raise Damaged(f"OOB record {index} at {place}")
            records.append(place)
            parts.append(data[at:])
            continue
        stack.append((place, is_leftmost, True))
        if left != (0, 0):
            stack.append((right, False, False))
            stack.append((left, is_leftmost, False))
        elif is_leftmost and right != (0, 0):
            stack.append((right, True, False))
        if len(stack) > 10_000:
            raise Damaged("OOB links in a circle")
    if len(records) != count or records[0] != first or records[-1] >= (commit.file_no, commit.file_offset):
        raise Damaged(f"OOB set: {len(records)} records, {count} expected")
    if min(records)[0] < files.headers[commit.file_no].oob_file_no:
        raise Damaged(f"OOB data in file {min(records)[0]}, which the header of file {commit.file_no} does not name")
    return b"".join(parts)


def _oob_record(files: _Files, place: tuple[int, int]) -> bytes:
    walk = _Walk(files, *place)
    parts: list[bytes] = []
    while True:
        chunk = walk.next()
        if chunk is None:
            raise Damaged(f"OOB record at {place}: no end")
        if not parts and (chunk.kind != OOB or not chunk.is_first or (chunk.file_no, chunk.file_offset) != place):
            raise Damaged(f"OOB record at {place}: wrong chunk type {chunk.kind}")
        if chunk.kind == OOB:
            parts.append(chunk.data)
            if chunk.is_last:
                return b"".join(parts)
        elif chunk.kind not in (GTID_STATE, DUMMY):
            raise Damaged(f"OOB record at {place}: no end before a chunk of kind {chunk.kind}")
