"""One point of the log for some tables, under a short lock: `begin_under_lock`, for servers that do not tell it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pymysql

from binlog_format.errors import ServerError
from binlog_format.gtids.gtid import GtidPosition
from binlog_format.gtids.gtid_set import GtidSet
from binlog_streaming.server.session import LOCK_WAIT_TIMEOUT, number_of
from binlog_streaming.snapshot.sql_text import has_gtids, log_status_statement, table_sql

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_format.gtids.gtid_set import GtidPoint
    from binlog_streaming.server.session import ServerSession
    from binlog_streaming.snapshot.source_table import SourceTable

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
