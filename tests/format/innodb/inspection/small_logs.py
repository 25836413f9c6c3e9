"""Logs of tiny pages, made by the modelled server, in memory so that thousands of damaged ones take no time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format import Gtid
from binlog_format.events.layout import EventType
from binlog_lab.innodb_writer.encoding import set_page_checksum
from binlog_lab.innodb_writer.options import WriterOptions
from binlog_lab.innodb_writer.server import BinlogWriter, Cache
from binlog_lab.innodb_writer.sessions import Xid
from tests.format.classic.logs import MemoryDirectory, MemoryFile
from tests.format.innodb.test_large_groups import event, gtid_event, write_group

if TYPE_CHECKING:
    from pathlib import Path

PAGE_SIZE = 512

Files = dict[str, bytes]


class LogInMemory(MemoryDirectory):
    """Files as bytes; one that is not there is missing as on a disk."""

    def open(self, name: str) -> MemoryFile:
        if name not in self.files:
            raise FileNotFoundError(name)
        return super().open(name)


def read_files(directory: Path) -> Files:
    return {path.name: path.read_bytes() for path in sorted(directory.glob("*.ibb"))}


def tiny_log(directory: Path) -> Files:
    """One full file of 4 pages, one with an empty tail, one made ahead: every kind of page."""
    options = WriterOptions(
        page_size=PAGE_SIZE, max_binlog_size=4 * PAGE_SIZE, state_interval=2 * PAGE_SIZE, sync=False
    )
    with BinlogWriter(directory, options) as writer:
        for seqno in range(1, 5):
            write_group(writer, seqno, [event(EventType.QUERY, 140, seqno), event(EventType.XID, 27)])
        # Left open: a piece of a transaction that is never committed.
        writer.begin(2)
        writer.piece(2, event(EventType.QUERY, 120, 9))
        for seqno in range(5, 8):
            write_group(writer, seqno, [event(EventType.QUERY, 200, seqno), event(EventType.XID, 27)])
    return read_files(directory)


def mixed_log(directory: Path, *, page_size: int = PAGE_SIZE, pages: int = 32) -> Files:
    """Many small files with every kind of record: out-of-band sets, both caches, savepoints, XA, FLUSH, a restart."""
    options = WriterOptions(
        page_size=page_size,
        max_binlog_size=pages * page_size,
        state_interval=4 * page_size,
        cache_size=2 * page_size,
        stmt_cache_size=2 * page_size,
        preallocate=False,
        sync=False,
    )
    with BinlogWriter(directory, options) as writer:
        for seqno in range(1, 60):
            events = [event(EventType.QUERY, 60 + 37 * (seqno % 7), number) for number in range(1 + 9 * (seqno % 6))]
            if seqno % 5 == 0:
                _larger_than_its_cache(writer, seqno, page_size)
            elif seqno % 13 == 0:
                xid = Xid(1, b"branch", str(seqno).encode())
                writer.begin(3)
                for data in events:
                    writer.event(3, data)
                writer.xa_prepare(3, xid)
                write_group(writer, 1000 + seqno, events[:1])
                writer.xa_commit(xid, Gtid(0, 1, 2000 + seqno), gtid_event(2000 + seqno))
            else:
                statement = [event(EventType.QUERY, 70)] if seqno % 11 == 0 else None
                write_group(writer, 100 + seqno, events, statement)
            if seqno == 30:
                writer.flush_logs()
            if seqno == 45:
                writer.restart(_format_description())
    return read_files(directory)


def _larger_than_its_cache(writer: BinlogWriter, seqno: int, page_size: int) -> None:
    """Pieces out of band, some of them rolled back."""
    writer.begin(4)
    for number in range(seqno):
        writer.piece(4, event(EventType.QUERY, page_size // 2 + number, number))
        if number == 2:
            writer.savepoint(4, 1)
    if seqno > 20:
        writer.rollback_to(4, 1)
        writer.piece(4, event(EventType.QUERY, 90))
    writer.event(4, event(EventType.QUERY, 50), Cache.TRANSACTIONAL)
    writer.commit(4, Gtid(0, 1, 100 + seqno), gtid_event(100 + seqno))


def _format_description() -> bytes:
    import zlib

    body = event(EventType.FORMAT_DESCRIPTION, 200)[:-4]
    return body + zlib.crc32(body).to_bytes(4, "little")


def edited(files: Files, name: str, byte: int, data: bytes) -> Files:
    """The files with some bytes of one overwritten."""
    content = bytearray(files[name])
    content[byte : byte + len(data)] = data
    return {**files, name: bytes(content)}


def forged(files: Files, name: str, byte: int, data: bytes, page_size: int = PAGE_SIZE) -> Files:
    """The same, and the page's checksum made right again."""
    content = bytearray(files[name])
    content[byte : byte + len(data)] = data
    start = byte - byte % page_size
    page = bytearray(content[start : start + page_size])
    set_page_checksum(page)
    content[start : start + page_size] = page
    return {**files, name: bytes(content)}
