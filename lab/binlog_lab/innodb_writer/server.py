"""The modelled server: `BinlogWriter` writes what a MariaDB 12.3 server would write for what its sessions do.

Example:
    A small live log, with a transaction that goes out of band::

        from pathlib import Path
        from binlog_format.gtids.gtid import Gtid
        from binlog_lab.innodb_writer.options import WriterOptions
    from binlog_lab.innodb_writer.redo import RedoLog
        from binlog_lab.innodb_writer.server import BinlogWriter

        options = WriterOptions(max_binlog_size=64 << 20)
        with BinlogWriter(Path("binlogs"), options, format_description=fde) as writer:
            writer.write_group(Gtid(0, 1, 1), gtid_event, [table_map, write_rows, xid_event])  # one whole group
            writer.begin(7)                                # or a session, step by step
            writer.event(7, table_map)
            writer.event(7, large_write_rows)              # does not fit into the cache: goes out of band
            writer.event(7, xid_event)
            writer.commit(7, Gtid(0, 1, 2), gtid_event_2)
            writer.checkpoint()                            # now everything committed can be read from the files

    Events carry no checksum and `end_log_pos` 0, the Format_description event (its own checksum) excepted. Until
    `checkpoint`, `flush_logs` or `close`, the last, partial page is not in the file, as with a real server. Opening a
    directory that holds a log goes on after its last whole record, whether it was closed or the writer was killed;
    `gtids()` then gives what is in the log.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from binlog_format.innodb.header import read_header
from binlog_format.innodb.layout import HEADER_SIZE, RecordKind
from binlog_lab.innodb_writer.encoding import encode_compressed_ints
from binlog_lab.innodb_writer.files import FileSet, find_files
from binlog_lab.innodb_writer.forest import Node
from binlog_lab.innodb_writer.gtid_state import WrittenGtidState
from binlog_lab.innodb_writer.page_writer import PageWriter
from binlog_lab.innodb_writer.recovery import LogEnd, find_end, recover, repair
from binlog_lab.innodb_writer.references import FileReferences
from binlog_lab.innodb_writer.sessions import (
    Cache,
    Prepared,
    PreparedTransactions,
    Sessions,
    Xid,
    complete_record,
    prepare_record,
)
from binlog_lab.innodb_writer.transaction_cache import OobWriter, TransactionCache

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from binlog_format.gtids.gtid import Gtid
    from binlog_lab.innodb_writer.forest import OobReference
    from binlog_lab.innodb_writer.options import WriterOptions
    from binlog_lab.innodb_writer.redo import RedoLog

__all__ = ["BinlogWriter", "Cache"]

_NO_OOB_HEAD = b"\x00"
"""A commit record without out-of-band data begins with the one number 0."""


class BinlogWriter(Sessions):
    """A server that writes its binlog into *directory*; a context manager that shuts down cleanly.

    Args:
        directory: Where the `.ibb` files are; made if it is not there. A log in it is continued.
        format_description: A Format_description event; every server start writes one before anything else.
        gtids: GTID state of a fresh log; ignored when there is one.

    Raises:
        CorruptError: The log in *directory* is damaged where it would have to be read.
        OptionError: The log in *directory* has another page size.
    """

    def __init__(
        self,
        directory: Path,
        options: WriterOptions,
        *,
        format_description: bytes | None = None,
        gtids: Iterable[Gtid] = (),
    ) -> None:
        super().__init__(options)
        self.directory = directory
        self._is_open = False
        self._first_lsn = options.lsn
        directory.mkdir(parents=True, exist_ok=True)
        self._start(gtids)
        if format_description is not None:
            self.raw_commit(format_description)

    def __enter__(self) -> BinlogWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- transactions --------------------------------------------------------------------------------------------

    def commit(self, sid: int, gtid: Gtid, gtid_event: bytes, *, two_phase: Xid | None = None) -> Node:
        """Commit what session *sid* has in its caches, as one event group.

        Args:
            sid: The session; its transaction is over.
            gtid: The GTID that *gtid_event* holds.
            gtid_event: First event of the group.
            two_phase: Another engine takes part: an XA complete record comes directly before.

        Returns:
            Where the commit record begins.
        """
        session = self._take_session(sid)
        session.transaction.end_statement()
        parts: list[bytes | memoryview] = []
        sets: list[OobReference] = []
        caches = session.used_caches()
        if len(caches) == 1 and caches[0].is_inline_with(gtid_event):
            parts = caches[0].parts()
        else:
            if session.transaction.has_spilled():
                session.transaction.spill()
            for cache in caches:
                cache.spill()
            sets = [cache.reference() for cache in caches]
        two_phase_file_no = self._begin_two_phase(two_phase) if two_phase is not None else None
        node = self._pages.write(RecordKind.COMMIT, b"".join((_commit_head(sets), gtid_event, *parts)), gtid)
        if two_phase_file_no is not None:
            self._references.remove_xa(two_phase_file_no)
            self._references.remove_oob(two_phase_file_no)
        session.release()
        return node

    def write_group(self, gtid: Gtid, gtid_event: bytes, events: Iterable[bytes | memoryview]) -> Node:
        """Write a whole group at once: `begin`, `event` for each of *events*, `commit`, in a session of its own."""
        cache = TransactionCache(self.options.buffer_size, self._oob)
        for event in events:
            cache.append(event)
        if cache.is_inline_with(gtid_event):
            return self._pages.write(RecordKind.COMMIT, b"".join((_NO_OOB_HEAD, gtid_event, *cache.parts())), gtid)
        cache.spill()
        node = self._pages.write(RecordKind.COMMIT, _commit_head([cache.reference()]) + gtid_event, gtid)
        cache.release()
        return node

    def raw_commit(self, event: bytes) -> Node:
        """Write a commit record without GTID event, for a Format_description event."""
        return self._pages.write(RecordKind.COMMIT, _NO_OOB_HEAD + event)

    # --- XA ------------------------------------------------------------------------------------------------------

    def xa_prepare(self, sid: int, xid: Xid, engine_count: int = 1) -> Node:
        """XA PREPARE: the transaction's events, end event included, go out of band; the session is free again."""
        if xid in self._prepared:
            raise ValueError(f"{xid} is prepared already")
        session = self._take_session(sid)
        cache = session.transaction
        cache.end_statement()
        cache.spill()
        reference = cache.reference()
        node = self._pages.write(RecordKind.XA_PREPARE, prepare_record(xid, engine_count, reference))
        self._prepared.add(xid, Prepared(reference, cache.detach(), node.file_no))
        session.release()
        return node

    def xa_commit(self, xid: Xid, gtid: Gtid, gtid_event: bytes) -> Node:
        """XA COMMIT of a prepared transaction; an empty one is only ended. Raises `KeyError`: *xid* is not prepared."""
        reference = self._prepared.reference_of(xid)
        commits = reference.record_count > 0
        node = self._pages.write(RecordKind.XA_COMPLETE, complete_record(xid, commits=commits), goes_on=commits)
        if commits:
            node = self._pages.write(RecordKind.COMMIT, _commit_head([reference]) + gtid_event, gtid)
        self._prepared.remove(xid)
        return node

    def xa_rollback(self, xid: Xid) -> Node:
        """XA ROLLBACK of a prepared transaction. Raises `KeyError`: *xid* is not prepared."""
        self._prepared.reference_of(xid)
        node = self._pages.write(RecordKind.XA_COMPLETE, complete_record(xid, commits=False))
        self._prepared.remove(xid)
        return node

    # --- the server ----------------------------------------------------------------------------------------------

    def flush_logs(self, new_state: Iterable[Gtid] | None = None) -> None:
        """FLUSH BINARY LOGS; with *new_state*, as after `DELETE_DOMAIN_ID`."""
        self._pages.finish_file(None if new_state is None else list(new_state))

    def checkpoint(self) -> None:
        """An InnoDB checkpoint: the partial page reaches the file, and everything is synced."""
        self._pages.checkpoint()

    def restart(self, format_description: bytes | None = None) -> None:
        """A clean shutdown and start: open transactions are rolled back, prepared XA transactions stay."""
        self.close()
        self._start(())
        if format_description:
            self.raw_commit(format_description)

    def close(self) -> None:
        """A clean shutdown: everything is written, the partial page too."""
        if self._is_open:
            self._pages.checkpoint()
            self.kill()

    def kill(self) -> None:
        """Close the files like a killed process: data that is not written is lost."""
        self._files.close()
        self._sessions.clear()
        self._is_open = False

    def sync_redo(self) -> None:
        """The redo log reaches the disk: what has been written so far survives a crash.

        With the settings 0 and 2 of `innodb_flush_log_at_trx_commit` a server does it about once a second.
        """
        self._redo().sync()

    def crash(self, format_description: bytes | None = None) -> None:
        """The server crashes and starts again: the log goes on where the durable part of its redo log ends.

        What was written after that is zeroed or deleted, even if it was on disk and readers have seen it; open
        transactions are gone; the GTIDs of lost transactions are free again. Interrupted, it can be called again.

        Raises:
            ValueError: No redo log is modelled (`RedoSync.NONE`).
        """
        redo = self._redo()
        self.kill()
        recover(self.directory, redo, self.options.page_size)
        self._start((), lsn=redo.durable_lsn)
        if format_description:
            self.raw_commit(format_description)

    def reset_master(self, gtids: Iterable[Gtid] = ()) -> None:
        """RESET MASTER, or with *gtids* `SET GLOBAL gtid_binlog_state`: the log begins again at file 0."""
        if self._prepared.xids() or any(session.holds_oob() for session in self._sessions.values()):
            raise ValueError("RESET MASTER: a transaction is open that has data in the log")
        self.close()
        self._first_lsn = self._pages.lsn
        for _, path in sorted(find_files(self.directory).items()):
            path.unlink()
        self._start(gtids, is_reset=True)

    def purge(
        self, before_file_no: int, *, is_automatic: bool = False, replica_file_nos: Iterable[int] = ()
    ) -> list[int]:
        """PURGE BINARY LOGS: delete the files below *before_file_no* that nobody needs.

        Args:
            before_file_no: The first file to stay.
            is_automatic: By the server itself, which also keeps what the active file's header refers to.
            replica_file_nos: The files that connected replicas are reading, which keep them, and what their headers
                refer to.

        Returns:
            The numbers of the deleted files.
        """
        active = self._files.active.file_no
        limit = min(before_file_no, active, self._references.oob_file_no)
        if self._references.xa_file_no is not None:
            limit = min(limit, self._references.xa_file_no)
        files = find_files(self.directory)
        for file_no in [*replica_file_nos, *([active] if is_automatic else ())]:
            limit = min(limit, file_no, _first_file_needed_by(files.get(file_no), file_no))
        deleted = [file_no for file_no in sorted(files) if file_no < limit]
        for file_no in deleted:
            files[file_no].unlink()
        return deleted

    def gtids(self) -> list[Gtid]:
        """The GTID state: the newest GTID of every domain and server, in each domain the last one last."""
        return self._gtids.gtids()

    def prepared_xids(self) -> list[Xid]:
        """The XA transactions that are prepared, also those from before a restart."""
        return self._prepared.xids()

    @property
    def position(self) -> Node:
        """The end of the log in memory: file number and byte."""
        return self._pages.position

    @property
    def durable_position(self) -> Node:
        """The end of the log after a crash that happened now.

        Raises:
            ValueError: No redo log is modelled (`RedoSync.NONE`).
        """
        file_no, page_no, page_offset = self._redo().end
        return Node(file_no, page_no * self.options.page_size + page_offset)

    def _redo(self) -> RedoLog:
        redo = self._pages.redo
        if redo is None:
            raise ValueError("no redo log is modelled: redo_sync = NONE")
        return redo

    def _begin_two_phase(self, xid: Xid) -> int:
        """Write the XA complete record of an internal two-phase commit.

        Returns:
            The active file, which counts as one with a pending XA transaction until the commit record is written.
        """
        file_no = self._references.add_oob()
        self._references.add_xa(file_no)
        self._pages.write(RecordKind.XA_COMPLETE, complete_record(xid, commits=True), goes_on=True)
        return file_no

    def _start(self, gtids: Iterable[Gtid], *, is_reset: bool = False, lsn: int | None = None) -> None:
        self._sessions.clear()
        self._gtids = WrittenGtidState()
        self._files = FileSet(self.directory, self.options)
        end = find_end(self.directory, self.options.page_size)
        try:
            if end is None:
                self._start_fresh(gtids, is_reset=is_reset)
            else:
                self._resume(end if lsn is None else replace(end, lsn=lsn))
        except BaseException:
            self._files.close()
            raise
        self._oob = OobWriter(self._pages, self._references, self.options.oob_data_max)
        self._is_open = True

    def _start_fresh(self, gtids: Iterable[Gtid], *, is_reset: bool) -> None:
        self._files.create(0)
        self._references = FileReferences(0)
        self._prepared = PreparedTransactions(self._references)
        self._gtids.replace(gtids)
        self._pages = PageWriter(self._files, self._gtids, self._references, self.options, self._first_lsn)
        in_bytes = self.options.fresh_interval_in_bytes and not is_reset
        self._pages.start_fresh(self.options.state_interval if in_bytes else self.options.state_interval_pages)

    def _resume(self, end: LogEnd) -> None:
        file_no, page_no, page_offset = end.place
        if not end.is_clean:
            repair(self.directory, end, self.options.page_size)
        self._files.open(file_no, page_count=None if end.is_clean else end.header.page_count)
        self._references = FileReferences(file_no)
        self._prepared = PreparedTransactions(self._references)
        for xid, (reference, record_file_no) in end.prepared.items():
            oob_file_no = reference.first.file_no if reference.record_count > 0 else None
            if oob_file_no is not None:
                self._references.keep_oob(oob_file_no)
            self._prepared.add(xid, Prepared(reference, oob_file_no, record_file_no))
        self._gtids.replace(end.gtids)
        self._pages = PageWriter(self._files, self._gtids, self._references, self.options, end.lsn)
        page = None if end.page is None else bytearray(end.page[:page_offset].ljust(self.options.page_size, b"\0"))
        self._pages.resume(page_no, page_offset, page, end.header.state_interval)


def _commit_head(sets: list[OobReference]) -> bytes:
    """Integers at the start of a commit record, for one or two sets of out-of-band records."""
    sets = [reference for reference in sets if reference.record_count > 0]
    if not sets:
        return _NO_OOB_HEAD
    numbers: list[int] = []
    for reference in sets:
        numbers += (reference.record_count, *reference.first, *reference.last)
    if len(sets) == 1:
        numbers.append(0)
    return encode_compressed_ints(numbers)


def _first_file_needed_by(path: Path | None, file_no: int) -> int:
    """The first file that the header of *path* refers to."""
    if path is None:
        return file_no
    with path.open("rb") as file:
        header = read_header(file.read(HEADER_SIZE), str(path), file_no)
    if header is None:
        return file_no
    needed = min(file_no, header.oob_reference_file_no)
    return needed if header.xa_reference_file_no is None else min(needed, header.xa_reference_file_no)
