"""The log that a writer finds when it starts: `find_end`; what a server does after a crash: `recover`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from binlog_format.errors import CorruptError, OptionError
from binlog_format.events.layout import (
    EVENT_SERVER_ID_OFFSET,
    EVENT_TYPE_OFFSET,
    GTID_DOMAIN_OFFSET,
    GTID_SEQNO_OFFSET,
    GTID_SIZE_MIN,
    EventType,
)
from binlog_format.gtids.gtid import Gtid
from binlog_format.innodb.header import FileHeader, file_name, read_header
from binlog_format.innodb.layout import (
    HEADER_SIZE,
    XA_COMPLETE_COMMIT,
    XA_HEADER_STRUCT,
    XA_PREPARE_INTS,
    RecordKind,
)
from binlog_format.innodb.pages.checksum import page_checksum, stored_checksum
from binlog_format.position import Place
from binlog_lab.innodb_writer.encoding import decode_compressed_int
from binlog_lab.innodb_writer.files import WriterFile, find_files
from binlog_lab.innodb_writer.forest import Node, OobReference
from binlog_lab.innodb_writer.gtid_state import WrittenGtidState
from binlog_lab.innodb_writer.record_scan import PagePlace, Record, RecordScan
from binlog_lab.innodb_writer.sessions import Xid

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_lab.innodb_writer.redo import RedoLog


_LSN_PER_BYTE = 4
"""More than the model LSN grows for a byte of the file, whatever the records in it."""


@dataclass(frozen=True, slots=True)
class LogEnd:
    """State of the log's end, from which a writer continues.

    Attributes:
        header: Of the file to go on with.
        place: Where the next record starts.
        page: The begun page there, with zeros after the data; None: it is to be begun.
        is_clean: The files end exactly there; else they have to be repaired.
        gtids: GTID state.
        prepared: XA transactions that are prepared, with their out-of-band data, and the file of their record.
        lsn: A log sequence number after all that the log has seen.
    """

    header: FileHeader
    place: PagePlace
    page: bytes | None
    is_clean: bool
    gtids: list[Gtid]
    prepared: dict[Xid, tuple[OobReference, int]]
    lsn: int


def find_end(directory: Path, page_size: int) -> LogEnd | None:
    """Find out where the log in *directory* ends.

    Returns:
        None when no file has been begun.

    Raises:
        CorruptError: Damage that a killed writer cannot leave.
        OptionError: The log has pages of another size than *page_size*.
    """
    headers, has_torn_header = _begun_headers(directory, page_size)
    if not headers:
        return None
    last = max(headers)
    xa_file_no = headers[last].xa_reference_file_no
    first = last if xa_file_no is None else min(last, xa_file_no)
    while True:
        first = max(first, min(headers))
        content = _Content()
        scan = RecordScan(directory, first, last, page_size)
        for record in scan.records():
            content.take(record)
        if scan.is_anchored or first == min(headers):
            break
        first -= 1  # a record that begins there may run over everything seen so far
    # An XA complete record and the commit record after it are written together, or not at all.
    place = content.complete_start or scan.open_start or scan.end
    page = scan.page if place == scan.end else _read_page(directory, place, page_size)
    header = headers[place.file_no]
    used = max(header.page_count, place.page_no) * page_size
    return LogEnd(
        header,
        place,
        page if place.page_offset else None,
        place == scan.end and not scan.is_torn and not has_torn_header,
        content.gtids.gtids(),
        content.prepared,
        headers[last].lsn + _LSN_PER_BYTE * used,
    )


def repair(directory: Path, end: LogEnd, page_size: int) -> None:
    """Make the files end at *end*: later files go, later pages are zero, and its page is as in *end*.

    Interrupted at any place, it leaves files for which `find_end` gives the same.
    """
    files = find_files(directory)
    for file_no in sorted(files, reverse=True):
        if file_no > end.place.file_no:
            files[file_no].unlink()
    file = WriterFile(files[end.place.file_no], end.place.file_no, page_size)
    try:
        if end.page is None:
            file.set_size(end.place.page_no)
        else:
            file.set_size(end.place.page_no + 1)
            file.shorten_page(end.place.page_no, end.page[: end.place.page_offset])
    finally:
        file.close()


@dataclass(slots=True)
class _Content:
    """Contents of all records of a scan."""

    gtids: WrittenGtidState = field(default_factory=WrittenGtidState)
    prepared: dict[Xid, tuple[OobReference, int]] = field(default_factory=dict)
    complete_start: PagePlace | None = None  # of an XA complete record whose commit record has not come yet
    _completing: Xid | None = None
    _records: int = 0

    def take(self, record: Record) -> None:
        """Take in the next record."""
        self._records += 1
        if record.kind == RecordKind.COMMIT:
            self._take_commit(record)
        elif record.kind == RecordKind.GTID_STATE:
            if self._records == 1:  # in page 1 of the first file, so the full one; commit records contain the rest
                self.gtids.replace(_state_gtids(record.data))
        elif record.kind == RecordKind.XA_PREPARE:
            xid, at = _xid_of(record.data)
            (count, *links), _ = _ints(record.data, at, XA_PREPARE_INTS)
            reference = OobReference(count, Node(links[0], links[1]), Node(links[2], links[3]))
            self.prepared[xid] = (reference, record.start.file_no)
        elif record.kind == RecordKind.XA_COMPLETE:
            xid, _ = _xid_of(record.data)
            if record.data[0] == XA_COMPLETE_COMMIT:
                self.complete_start, self._completing = record.start, xid
            else:
                self.prepared.pop(xid, None)

    def _take_commit(self, record: Record) -> None:
        if self._completing is not None:
            self.prepared.pop(self._completing, None)
            self.complete_start = self._completing = None
        gtid = _gtid_of(record.data)
        if gtid is not None:
            self.gtids.update(gtid)


def _begun_headers(directory: Path, page_size: int) -> tuple[dict[int, FileHeader], bool]:
    """Headers of the files that have one, and whether the write of one more was interrupted."""
    headers = {}
    is_torn = False
    for file_no, path in sorted(find_files(directory).items()):
        with path.open("rb") as file:
            page = file.read(page_size)
            first_data = file.read(1)
        header = read_header(page, str(path), file_no) if page.strip(b"\0") else None
        if header is None:
            continue
        if header.page_size != page_size:
            reason = f"page_size = {page_size}: {path.name} has pages of {header.page_size} bytes"
            raise OptionError("INVALID_VALUE", reason)
        if page_checksum(page) == stored_checksum(page):
            headers[file_no] = header
        elif first_data == b"\0":
            is_torn = True  # not begun
        else:
            stored, computed = stored_checksum(page), page_checksum(page)
            reason = f"page CRC-32C: stored {stored:#010x}, computed {computed:#010x}"
            raise CorruptError("PAGE_CHECKSUM", reason, at=Place(str(path), page=0, byte=0))
    return headers, is_torn


def _read_page(directory: Path, place: PagePlace, page_size: int) -> bytes:
    with (directory / file_name(place.file_no)).open("rb") as file:
        file.seek(place.page_no * page_size)
        return file.read(page_size)


def _ints(data: bytes, at: int, count: int) -> tuple[list[int], int]:
    """Decode *count* integers; also gives the byte after them."""
    values = []
    for _ in range(count):
        value, at = decode_compressed_int(data, at)
        values.append(value)
    return values, at


def _gtid_of(commit: bytes) -> Gtid | None:
    """The GTID of a commit record; None without a GTID event."""
    (count,), at = ([0], 1) if commit[0] == 0 else _ints(commit, 0, 1)
    if count > 0:
        links, at = _ints(commit, at, 5)
        if links[4] > 0:
            _, at = _ints(commit, at, 4)
    event = commit[at : at + GTID_SIZE_MIN]
    if len(event) < GTID_SIZE_MIN or event[EVENT_TYPE_OFFSET] != EventType.MARIADB_GTID:
        return None
    return Gtid(
        domain=int.from_bytes(event[GTID_DOMAIN_OFFSET : GTID_DOMAIN_OFFSET + 4], "little"),
        server=int.from_bytes(event[EVENT_SERVER_ID_OFFSET : EVENT_SERVER_ID_OFFSET + 4], "little"),
        seqno=int.from_bytes(event[GTID_SEQNO_OFFSET : GTID_SEQNO_OFFSET + 8], "little"),
    )


def _state_gtids(state: bytes) -> list[Gtid]:
    (count, _), at = _ints(state, 0, 2)
    gtids = []
    for _ in range(count):
        numbers, at = _ints(state, at, 3)
        gtids.append(Gtid(*numbers))
    return gtids


def _xid_of(record: bytes) -> tuple[Xid, int]:
    """The XID of an XA record, and the byte after it."""
    _, format_id, gtrid_size, bqual_size = XA_HEADER_STRUCT.unpack_from(record)
    gtrid_end = XA_HEADER_STRUCT.size + gtrid_size
    end = gtrid_end + bqual_size
    return Xid(format_id, record[XA_HEADER_STRUCT.size : gtrid_end], record[gtrid_end:end]), end


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
