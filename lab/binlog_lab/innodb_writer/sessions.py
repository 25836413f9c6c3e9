"""The sessions of the modelled server and their caches: `Sessions`, what `BinlogWriter` does before a commit.

XA transactions between prepare and the end: `Xid`, their records, `PreparedTransactions`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from binlog_format.innodb.layout import XA_COMPLETE_COMMIT, XA_COMPLETE_ROLLBACK, XA_HEADER_STRUCT
from binlog_lab.innodb_writer.encoding import encode_compressed_ints
from binlog_lab.innodb_writer.transaction_cache import OobWriter, TransactionCache

if TYPE_CHECKING:
    from binlog_lab.innodb_writer.forest import OobReference
    from binlog_lab.innodb_writer.options import WriterOptions
    from binlog_lab.innodb_writer.references import FileReferences


class Cache(IntEnum):
    """Cache of a session for an event."""

    TRANSACTIONAL = 0
    STATEMENT = 1


class WriterSession:
    """The caches of a connection; few ever need the second one."""

    __slots__ = ("statement", "transaction")

    def __init__(self, transaction: TransactionCache) -> None:
        self.transaction = transaction
        self.statement: TransactionCache | None = None

    def used_caches(self) -> list[TransactionCache]:
        """Caches that are not empty, the statement cache first."""
        caches = (self.transaction,) if self.statement is None else (self.statement, self.transaction)
        return [cache for cache in caches if not cache.is_empty()]

    def holds_oob(self) -> bool:
        """True if the transaction has out-of-band data in the log."""
        caches = (self.transaction,) if self.statement is None else (self.statement, self.transaction)
        return any(cache.holds_oob() for cache in caches)

    def release(self) -> None:
        """The transaction is over."""
        self.transaction.release()
        if self.statement is not None:
            self.statement.release()


class Sessions:
    """Actions of clients before they commit. *options*: sizes of the caches."""

    def __init__(self, options: WriterOptions) -> None:
        self.options = options
        self._oob: OobWriter
        self._sessions: dict[int, WriterSession] = {}

    def begin(self, sid: int) -> None:
        """Begin a transaction in session *sid*; what that session had open is rolled back."""
        self.rollback(sid)
        self._open_session(sid)

    def event(self, sid: int, data: bytes | memoryview, cache: Cache = Cache.TRANSACTIONAL) -> None:
        """Put event bytes into a cache of session *sid*; whole events are usual, but not needed."""
        self._cache(sid, cache).append(data)

    def spill(self, sid: int, cache: Cache = Cache.TRANSACTIONAL) -> None:
        """Write what the cache holds now out of band."""
        self._cache(sid, cache).spill()

    def piece(self, sid: int, data: bytes, cache: Cache = Cache.TRANSACTIONAL) -> None:
        """Write *data* as one out-of-band record."""
        self._cache(sid, cache).write_piece(data)

    def savepoint(self, sid: int, savepoint: int) -> None:
        """SAVEPOINT; *savepoint* is a non-negative number in place of a name."""
        self._cache(sid, Cache.TRANSACTIONAL).set_savepoint(savepoint)

    def rollback_to(self, sid: int, savepoint: int) -> None:
        """ROLLBACK TO SAVEPOINT."""
        self._cache(sid, Cache.TRANSACTIONAL).roll_back_to(savepoint)

    def statement_start(self, sid: int) -> None:
        """A statement starts: `statement_rollback` goes back to here."""
        self._cache(sid, Cache.TRANSACTIONAL).start_statement()

    def statement_rollback(self, sid: int) -> None:
        """The running statement has failed."""
        self._cache(sid, Cache.TRANSACTIONAL).roll_back_statement()

    def rollback(self, sid: int) -> None:
        """Roll back; nothing is written, what is out of band stays as garbage."""
        session = self._sessions.pop(sid, None)
        if session is not None:
            session.release()

    def _take_session(self, sid: int) -> WriterSession:
        """The session whose transaction ends now."""
        return self._sessions.pop(sid, None) or self._new_session()

    def _open_session(self, sid: int) -> WriterSession:
        session = self._sessions[sid] = self._new_session()
        return session

    def _new_session(self) -> WriterSession:
        return WriterSession(TransactionCache(self.options.buffer_size, self._oob))

    def _cache(self, sid: int, cache: Cache) -> TransactionCache:
        session = self._sessions.get(sid) or self._open_session(sid)
        if cache == Cache.TRANSACTIONAL:
            return session.transaction
        if session.statement is None:
            session.statement = TransactionCache(self.options.stmt_buffer_size, self._oob)
        return session.statement


@dataclass(frozen=True, slots=True)
class Xid:
    """Name of an XA transaction, or of the server's own two-phase commit."""

    format_id: int
    gtrid: bytes
    bqual: bytes = b""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A prepared XA transaction.

    Attributes:
        reference: Its out-of-band data.
        oob_file_no: File for which that data is counted; None without data.
        record_file_no: File of its XA prepare record.
    """

    reference: OobReference
    oob_file_no: int | None
    record_file_no: int

    @property
    def first_file_no(self) -> int:
        """The first file that is needed to commit it."""
        return self.record_file_no if self.oob_file_no is None else self.oob_file_no


def prepare_record(xid: Xid, engine_count: int, reference: OobReference) -> bytes:
    """Payload of an XA prepare record."""
    return b"".join(
        (
            _head(engine_count, xid),
            encode_compressed_ints((reference.record_count, *reference.first, *reference.last)),
        )
    )


def complete_record(xid: Xid, *, commits: bool) -> bytes:
    """Payload of an XA complete record."""
    return _head(XA_COMPLETE_COMMIT if commits else XA_COMPLETE_ROLLBACK, xid)


def _head(first: int, xid: Xid) -> bytes:
    head = XA_HEADER_STRUCT.pack(first, xid.format_id, len(xid.gtrid), len(xid.bqual))
    return b"".join((head, xid.gtrid, xid.bqual))


class PreparedTransactions:
    """The XA transactions that are prepared and not ended. *references*: counts the files that they need."""

    def __init__(self, references: FileReferences) -> None:
        self._references = references
        self._prepared: dict[Xid, Prepared] = {}

    def __contains__(self, xid: Xid) -> bool:
        return xid in self._prepared

    def xids(self) -> list[Xid]:
        """Names of all of them, in the order of their XA PREPARE."""
        return list(self._prepared)

    def add(self, xid: Xid, prepared: Prepared) -> None:
        """*xid* has been prepared."""
        self._references.add_xa(prepared.first_file_no)
        self._prepared[xid] = prepared

    def reference_of(self, xid: Xid) -> OobReference:
        """The out-of-band data of *xid*. Raises `KeyError`: it is not prepared."""
        return self._prepared[xid].reference

    def remove(self, xid: Xid) -> None:
        """*xid* has been committed or rolled back."""
        prepared = self._prepared.pop(xid)
        if prepared.oob_file_no is not None:
            self._references.remove_oob(prepared.oob_file_no)
        self._references.remove_xa(prepared.first_file_no)
