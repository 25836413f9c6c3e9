"""All rows of a table as of one place of the log: `read_view(session, table, connect)` begins a transaction.

MariaDB tells with a consistent snapshot where in the binlog it is, without a lock. Where a server does not, as
MySQL, the table is locked against changes for the moment in which the snapshot is made.

Engines without transactions (MyISAM, Aria, MEMORY) have no such view. Their tables are read as they are, between two
places of the log, each taken under a lock of a moment, so that whatever is in the rows is in the log: what was read is
the table at both places if the log has no change of it between them (`TableProof`).
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from binlog_format.errors import ServerError
from binlog_format.gtids.gtid_set import parse_gtids
from binlog_streaming.snapshot.locked_point import BEGIN_SNAPSHOT, begin_under_lock
from binlog_streaming.snapshot.source_table import TableLock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from binlog_format.gtids.gtid_set import GtidPoint
    from binlog_streaming.server.session import ServerSession
    from binlog_streaming.snapshot.locked_point import LogPoint
    from binlog_streaming.snapshot.source_table import SourceTable

    Connect = Callable[[], ServerSession]


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
