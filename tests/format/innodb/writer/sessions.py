"""Random sessions: what a server's clients may do (`operations`), and what must come of it (`Model`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from binlog_format.gtids.gtid import Gtid
from binlog_lab.innodb_writer.options import WriterOptions
from binlog_lab.innodb_writer.server import BinlogWriter, Cache
from binlog_lab.innodb_writer.sessions import Xid

if TYPE_CHECKING:
    from pathlib import Path

SESSIONS = 3
EVENT_HEADER_SIZE = 19
GTID_EVENT_SIZE = 38
IGNORABLE = 28
FORMAT_DESCRIPTION = 15

Operation = tuple[str, int, int, int]
"""Name, session, and two numbers whose meaning depends on the name."""

sids = st.integers(0, SESSIONS - 1)
sizes = st.one_of(st.integers(1, 40), st.integers(1, 600), st.integers(400, 9000), st.just(20_000))


def _operation(
    name: str, first: st.SearchStrategy[int], second: st.SearchStrategy[int]
) -> st.SearchStrategy[Operation]:
    return st.tuples(st.just(name), sids, first, second)


none = st.just(0)
caches = st.sampled_from([0, 0, 0, 1])
SESSION_OPERATIONS = [
    _operation("event", caches, sizes),
    _operation("event", caches, sizes),
    _operation("event", caches, sizes),
    _operation("piece", caches, st.integers(1, 700)),
    _operation("spill", caches, none),
    _operation("commit", none, none),
    _operation("commit", none, none),
    _operation("commit", none, none),
    _operation("group", sizes, none),
    _operation("group", sizes, none),
    _operation("two_phase", none, none),
    _operation("rollback", none, none),
    _operation("savepoint", st.integers(0, 2), none),
    _operation("rollback_to", st.integers(0, 2), none),
    _operation("statement_start", none, none),
    _operation("statement_rollback", none, none),
    _operation("xa_prepare", none, none),
    _operation("xa_commit", st.integers(0, 3), none),
    _operation("xa_rollback", st.integers(0, 3), none),
]
SERVER_OPERATIONS = [
    _operation("raw_commit", none, none),
    _operation("flush", none, none),
    _operation("checkpoint", none, none),
    _operation("restart", none, none),
]
operations = st.lists(st.one_of(*SESSION_OPERATIONS, *SESSION_OPERATIONS, *SERVER_OPERATIONS), max_size=60)
kills = st.one_of(*SESSION_OPERATIONS, *SESSION_OPERATIONS, *SERVER_OPERATIONS, _operation("kill", none, none))
crashes = st.one_of(
    *SESSION_OPERATIONS,
    *SESSION_OPERATIONS,
    *SERVER_OPERATIONS,
    _operation("mark", none, none),
    _operation("crash", none, none),
    _operation("crash", none, none),
)
operations_with_crashes = st.lists(crashes, max_size=60)
operations_with_kills = st.lists(kills, max_size=60)


@st.composite
def options(draw: st.DrawFn) -> WriterOptions:
    """Small pages and tiny files, so that everything happens at page and file ends."""
    page_size = draw(st.sampled_from([512, 512, 1024, 4096, 16384]))
    pages = draw(st.sampled_from([4, 5, 8, 16, 33, 64]))
    interval = draw(st.sampled_from([0, 1, 2, 4, 8]))
    return WriterOptions(
        page_size=page_size,
        max_binlog_size=pages * page_size,
        state_interval=interval * page_size,
        cache_size=draw(st.sampled_from([100, 1000, 8192, 32768])),
        stmt_cache_size=draw(st.sampled_from([1000, 32768])),
        preallocate=draw(st.booleans()),
        sync=False,
    )


def gtid_event(gtid: Gtid) -> bytes:
    """A GTID event as the server writes it."""
    header = bytes(4) + b"\xa2" + gtid.server.to_bytes(4, "little") + GTID_EVENT_SIZE.to_bytes(4, "little") + bytes(6)
    return header + gtid.seqno.to_bytes(8, "little") + gtid.domain.to_bytes(4, "little") + bytes(7)


@dataclass
class _Session:
    data: dict[int, bytes] = field(default_factory=lambda: {0: b"", 1: b""})
    savepoints: dict[int, int] = field(default_factory=dict)
    statement: int = 0


class Driver:
    """Does operations with a writer, and knows which groups must be in the log after each.

    A group counts as committed from before its commit is begun: a writer that is killed in it may have written it.
    """

    def __init__(self, directory: Path, options: WriterOptions) -> None:
        self.directory = directory
        self.options = options
        self.writer = BinlogWriter(directory, options)
        self.committed: list[bytes] = []
        self.gtids: list[Gtid | None] = []
        self.durable = 0
        """Groups that must be in the files."""
        self.prepared: dict[Xid, bytes] = {}
        self._xa_data: dict[Xid, bytes] = {}  # of all that were ever prepared: a kill can undo an XA COMMIT
        self._sessions: dict[int, _Session] = {}
        self._number = 0

    def do(self, operation: Operation) -> None:
        """Do one operation; one that makes no sense now does nothing."""
        name, sid, first, second = operation
        getattr(self, f"_{name}")(sid, first, second)

    def newest_gtids(self) -> dict[tuple[int, int], int]:
        """The newest sequence number of each domain and server."""
        return {(gtid.domain, gtid.server): gtid.seqno for gtid in self.gtids if gtid is not None}

    def forget_after(self, count: int) -> None:
        """Only the first *count* groups have survived."""
        del self.committed[count:]
        del self.gtids[count:]
        self.durable = count

    def _session(self, sid: int) -> _Session:
        if sid not in self._sessions:
            self.writer.begin(sid)
            self._sessions[sid] = _Session()
        return self._sessions[sid]

    def _data(self, size: int, event_type: int = IGNORABLE) -> bytes:
        """One event of about *size* bytes; no two are equal."""
        self._number += 1
        size = max(size, EVENT_HEADER_SIZE)
        header = self._number.to_bytes(4, "little") + bytes([event_type]) + bytes(4) + size.to_bytes(4, "little")
        body = self._number.to_bytes(4, "big") * (size // 4)
        return header + bytes(6) + body[: size - EVENT_HEADER_SIZE]

    def _gtid(self, sid: int) -> tuple[Gtid, bytes]:
        self._number += 1
        gtid = Gtid(self._number % 3, sid + 1, self._number)
        return gtid, gtid_event(gtid)

    def _add(self, gtid: Gtid | None, data: bytes) -> None:
        self.committed.append(data)
        self.gtids.append(gtid)

    def _event(self, sid: int, cache: int, size: int) -> None:
        data = self._data(size)
        self._session(sid).data[cache] += data
        self.writer.event(sid, data, Cache(cache))

    def _piece(self, sid: int, cache: int, size: int) -> None:
        data = self._data(size)
        self._session(sid).data[cache] += data
        self.writer.piece(sid, data, Cache(cache))

    def _spill(self, sid: int, cache: int, _: int) -> None:
        self._session(sid)
        self.writer.spill(sid, Cache(cache))

    def _commit(self, sid: int, *_: int, two_phase: Xid | None = None) -> None:
        session = self._sessions.pop(sid, None)
        if session is None or not any(session.data.values()):
            if session is not None:
                self.writer.rollback(sid)
            return
        gtid, event = self._gtid(sid)
        self._add(gtid, event + session.data[1] + session.data[0])
        self.writer.commit(sid, gtid, event, two_phase=two_phase)

    def _two_phase(self, sid: int, *_: int) -> None:
        self._commit(sid, two_phase=Xid(1, b"MySQLXid" + self._number.to_bytes(8, "little")))

    def _group(self, sid: int, size: int, _: int) -> None:
        gtid, event = self._gtid(sid)
        data = [self._data(size), self._data(27)]
        self._add(gtid, event + b"".join(data))
        self.writer.write_group(gtid, event, data)

    def _rollback(self, sid: int, *_: int) -> None:
        self._sessions.pop(sid, None)
        self.writer.rollback(sid)

    def _savepoint(self, sid: int, number: int, _: int) -> None:
        session = self._session(sid)
        session.savepoints.pop(number, None)
        session.savepoints[number] = len(session.data[0])
        self.writer.savepoint(sid, number)

    def _rollback_to(self, sid: int, number: int, _: int) -> None:
        session = self._session(sid)
        if number not in session.savepoints:
            return
        names = list(session.savepoints)
        for later in names[names.index(number) + 1 :]:
            del session.savepoints[later]
        session.data[0] = session.data[0][: session.savepoints[number]]
        session.statement = len(session.data[0])
        self.writer.rollback_to(sid, number)
        self.writer.statement_start(sid)

    def _statement_start(self, sid: int, *_: int) -> None:
        session = self._session(sid)
        session.statement = len(session.data[0])
        self.writer.statement_start(sid)

    def _statement_rollback(self, sid: int, *_: int) -> None:
        session = self._session(sid)
        session.data[0] = session.data[0][: session.statement]
        for number, position in list(session.savepoints.items()):
            if position > session.statement:
                del session.savepoints[number]
        self.writer.statement_rollback(sid)

    def _xa_prepare(self, sid: int, *_: int) -> None:
        session = self._sessions.get(sid)
        if session is None or session.data[1]:
            return
        del self._sessions[sid]
        self._number += 1
        xid = Xid(sid, b"gtrid" * (self._number % 5 + 1), self._number.to_bytes(4, "big"))
        self.prepared[xid] = self._xa_data[xid] = session.data[0]
        self.writer.xa_prepare(sid, xid)

    def _xa_commit(self, sid: int, number: int, _: int) -> None:
        if number < len(self.prepared):
            xid = list(self.prepared)[number]
            data = self.prepared.pop(xid)
            gtid, event = self._gtid(sid)
            if data:
                self._add(gtid, event + data)
            self.writer.xa_commit(xid, gtid, event)

    def _xa_rollback(self, sid: int, number: int, _: int) -> None:
        if number < len(self.prepared):
            xid = list(self.prepared)[number]
            del self.prepared[xid]
            self.writer.xa_rollback(xid)

    def _raw_commit(self, *_: int) -> None:
        data = self._data(120, FORMAT_DESCRIPTION)
        self._add(None, data)
        self.writer.raw_commit(data)

    def _flush(self, *_: int) -> None:
        self.writer.flush_logs()
        self.durable = len(self.committed)

    def _checkpoint(self, *_: int) -> None:
        self.writer.checkpoint()
        self.durable = len(self.committed)

    def _restart(self, *_: int) -> None:
        data = self._data(120, FORMAT_DESCRIPTION)
        durable = len(self.committed)
        self._add(None, data)
        self._sessions.clear()
        self.writer.restart(data)
        self.durable = durable

    def _mark(self, *_: int) -> None:
        self.writer.sync_redo()
        self.durable = len(self.committed)

    def _crash(self, *_: int) -> None:
        """The caller says with `forget_after` what has survived, and goes on with `recovered`."""
        self._sessions.clear()
        self.writer.crash()

    def recovered(self) -> None:
        """After a crash: the XA transactions that are prepared are those of the log now."""
        self.prepared = {xid: self._xa_data[xid] for xid in self.writer.prepared_xids()}

    def _kill(self, *_: int) -> None:
        self.writer.kill()
        self._sessions.clear()

    def reopen(self) -> None:
        """Start again after a kill."""
        self.writer = BinlogWriter(self.directory, self.options)
        self.prepared = {xid: self._xa_data[xid] for xid in self.writer.prepared_xids()}
