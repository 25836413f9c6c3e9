"""All rows of a table as of one GTID: `read_view(session, table, connect)` begins a transaction that sees them.

MariaDB tells with a consistent snapshot where in the binlog it is, without a lock. Where a server does not, as
MySQL, the table is locked against changes for the moment in which the snapshot is made.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pymysql

from binlog_format.errors import ServerError
from binlog_format.gtids.gtid_set import parse_gtids
from binlog_streaming.server import failures
from binlog_streaming.snapshot.sql_text import table_sql

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from binlog_format.gtids.gtid_set import GtidPoint
    from binlog_streaming.server.session import ServerSession
    from binlog_streaming.snapshot.source_table import SourceTable

    Connect = Callable[[], ServerSession]

LOCK_TRIES = 30
"""Number of attempts to get the lock, a second each, before the table counts as busy."""

_BEGIN = (
    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
)


@contextlib.contextmanager
def read_view(session: ServerSession, table: SourceTable, connect: Connect) -> Iterator[GtidPoint]:
    """Hold a read view within this context: *session* sees the table at the GTIDs that it returns.

    Args:
        session: In autocommit, without anything under way.
        table: Which one.
        connect: Makes another session, for servers that need a lock.

    Raises:
        ServerError: `LOCKED`, `SETTINGS`, or what else the server answered.
    """
    try:
        gtids = _begin_at_place(session) if session.version.is_mariadb else None
        if gtids is None:
            session.roll_back()
            with connect() as locking:
                gtids = _begin_under_lock(session, locking, table)
        yield gtids
    finally:
        session.roll_back()


def _begin_at_place(session: ServerSession) -> GtidPoint | None:
    # None: the server does not tell the place.
    for statement in _BEGIN:
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


def _begin_under_lock(session: ServerSession, locking: ServerSession, table: SourceTable) -> GtidPoint:
    is_mariadb = session.version.is_mariadb
    if not is_mariadb and locking.variable("gtid_mode") != "ON":
        hint = "SET GLOBAL gtid_mode = ON, by the steps in MySQL's manual"
        raise ServerError(
            "SETTINGS", "gtid_mode is not ON: nothing tells a place in the log", at=session.place, hint=hint
        )
    locking.execute("SET SESSION lock_wait_timeout = 1")
    for _ in range(LOCK_TRIES):
        try:
            locking.try_execute(f"LOCK TABLES {table_sql(table.schema, table.name)} READ")
        except pymysql.MySQLError as error:
            if failures.number_of(error) != failures.LOCK_WAIT_TIMEOUT:
                with locking.named_errors():
                    raise
            continue
        # Nobody is within a change of the table: what is committed of it is in both.
        for statement in _BEGIN:
            session.execute(statement)
        name = "gtid_binlog_pos" if is_mariadb else "gtid_executed"
        gtids = parse_gtids(str(locking.value(f"SELECT @@GLOBAL.{name}")).replace("\n", ""))
        locking.execute("UNLOCK TABLES")
        return gtids
    reason = f"{table.full_name}: transactions that changed it were open for {LOCK_TRIES} s"
    raise ServerError("LOCKED", reason, at=session.place, hint="See information_schema.INNODB_TRX; then start again")
