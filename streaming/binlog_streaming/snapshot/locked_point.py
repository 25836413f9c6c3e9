"""One point of the log for some tables, under a short lock: `begin_under_lock`, for servers that do not tell it.

All rows of a table as of one place of the log: `read_view(session, table, connect)` begins a transaction.

MariaDB tells with a consistent snapshot where in the binlog it is, without a lock. Where a server does not, as
MySQL, the table is locked against changes for the moment in which the snapshot is made.

Engines without transactions (MyISAM, Aria, MEMORY) have no such view. Their tables are read as they are, between two
places of the log, each taken under a lock of a moment, so that whatever is in the rows is in the log: what was read is
the table at both places if the log has no change of it between them (`TableProof`).
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pymysql

from binlog_format.errors import ServerError
from binlog_format.gtids.gtid import GtidPosition
from binlog_format.gtids.gtid_set import GtidSet, parse_gtids
from binlog_streaming.server.session import LOCK_WAIT_TIMEOUT, number_of
from binlog_streaming.snapshot.source_table import TableLock
from binlog_streaming.snapshot.sql_text import has_gtids, log_status_statement, table_sql

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from binlog_format.gtids.gtid_set import GtidPoint
    from binlog_streaming.server.session import ServerSession
    from binlog_streaming.snapshot.source_table import SourceTable

    Connect = Callable[[], ServerSession]


LOCK_TRIES = 30
"""Number of attempts to get the lock, a second each, before the tables count as busy."""

BEGIN_SNAPSHOT = (
    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
)


@dataclass(frozen=True, slots=True)
class LogPoint:
    """A place in a server's log, as it names it.

    Attributes:
        gtid: The last GTID of each domain before it; empty: there are none, or they are not known.
    """

    name: str
    byte: int
    gtid: GtidPosition

    def __str__(self) -> str:
        return f"{self.name}:{self.byte}"


def begin_under_lock(
    sessions: Sequence[ServerSession], locking: ServerSession, tables: Sequence[SourceTable]
) -> LogPoint | GtidPoint:
    """Begin a transaction in each session; they all see what the tables have at the place that this returns.

    Args:
        sessions: Without anything under way.
        locking: Another one, which holds the lock; others can read the tables meanwhile, and wait to write them.
    """
    locking.execute("SET SESSION lock_wait_timeout = 1")
    locks = ", ".join(f"{table_sql(table.schema, table.name)} READ" for table in tables)
    for _ in range(LOCK_TRIES):
        try:
            locking.try_execute(f"LOCK TABLES {locks}")
        except pymysql.MySQLError as error:
            if number_of(error) != LOCK_WAIT_TIMEOUT:
                with locking.named_errors():
                    raise
            continue
        # Nobody is within a change of the tables: what is committed of them is in both.
        for session in sessions:
            for statement in BEGIN_SNAPSHOT:
                session.execute(statement)
        point = _point(locking)
        locking.execute("UNLOCK TABLES")
        return point
    names = ", ".join(table.full_name for table in tables)
    reason = f"{names}: transactions that changed them were open for {LOCK_TRIES} s"
    raise ServerError("LOCKED", reason, at=locking.place, hint="See information_schema.INNODB_TRX; then start again")


def _point(session: ServerSession) -> LogPoint | GtidPoint:
    if session.version.is_mariadb:
        return GtidPosition.parse(str(session.value("SELECT @@GLOBAL.gtid_binlog_pos")))
    if has_gtids(session):
        return GtidSet.parse(str(session.value("SELECT @@GLOBAL.gtid_executed")))
    name, byte = session.rows(log_status_statement(session))[0][:2]
    return LogPoint(str(name), int(byte), GtidPosition({}))


@contextlib.contextmanager
def read_view(session: ServerSession, table: SourceTable, connect: Connect) -> Iterator[LogPoint | GtidPoint]:
    """Hold a read view within this context: *session* sees the table at the GTIDs, or the place, that it returns.

    A table of an engine without transactions may change meanwhile.

    Args:
        session: In autocommit, without anything under way.
        connect: Makes another session, for servers that need a lock.
    """
    if table.lock is TableLock.TABLE:
        yield place_under_lock(table, connect)
        return
    try:
        point: LogPoint | GtidPoint | None = _begin_at_place(session) if session.version.is_mariadb else None
        if point is None:
            session.roll_back()
            with connect() as locking:
                point = begin_under_lock([session], locking, [table])
        yield point
    finally:
        session.roll_back()


def place_under_lock(table: SourceTable, connect: Connect) -> LogPoint | GtidPoint:
    """The GTIDs, or the place, at a moment in which nobody is within a change of a table."""
    with connect() as locking:
        return begin_under_lock([], locking, [table])


def _begin_at_place(session: ServerSession) -> GtidPoint | None:
    # None: the server does not tell the place.
    for statement in BEGIN_SNAPSHOT:
        session.execute(statement)
    status = session.rows(r"SHOW SESSION STATUS LIKE 'binlog\_snapshot\_%'")
    names = {str(name).lower(): value for name, value in status}
    file, byte = names.get("binlog_snapshot_file"), names.get("binlog_snapshot_position")
    try:
        gtids = session.value("SELECT BINLOG_GTID_POS(%s, %s)", file, int(byte or 0)) if file else None
    except ServerError as error:
        if error.subclass == "UNREACHABLE":
            raise
        gtids = None  # a binlog of another kind than files of events
    return None if gtids is None else parse_gtids(str(gtids))
