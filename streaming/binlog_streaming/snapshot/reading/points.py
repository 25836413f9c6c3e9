"""One point of a server's log for several sessions: `sessions_at_one_point`.

Each session begins a transaction with a consistent snapshot, and asks where in the log that is. Those of one point see
the same rows. Where something was committed between, all begin again: at the first or second attempt they agree.
MySQL does not tell where that is: there the tables are locked against changes while the sessions begin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.errors import ServerError
from binlog_format.gtids.gtid import GtidPosition
from binlog_streaming.snapshot.locked_point import LogPoint, begin_under_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import ExitStack

    from binlog_format.gtids.gtid_set import GtidPoint
    from binlog_streaming.server.session import ServerSession
    from binlog_streaming.snapshot.source_table import SourceTable

ATTEMPTS = 1000
"""Number of attempts to reach one point with all sessions: each takes a millisecond or two."""

_SETTINGS = (
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    # Texts come in the character sets of their columns, as the log has them, and without spaces at their ends.
    "SET SESSION character_set_results = NULL, sql_mode = ''",
    # Between two ranges a session may wait for what writes the table.
    "SET SESSION net_write_timeout = 3600, wait_timeout = 86400",
)


def sessions_at_one_point(
    connect: Callable[[], ServerSession], count: int, tables: Sequence[SourceTable], opened: ExitStack
) -> tuple[list[ServerSession], LogPoint | GtidPoint]:
    """Open sessions that all see the rows of one point of the log.

    Raises:
        ServerError: `SETTINGS`: the server does not tell the point of a snapshot; `BUSY`: no point was found;
            `LOCKED`: others write the tables without a pause; or what it answered otherwise.
    """
    sessions = [opened.enter_context(connect()) for _ in range(count)]
    for session in sessions:
        prepare_reading(session)
    if not sessions[0].version.is_mariadb:
        with connect() as locking:
            return sessions, begin_under_lock(sessions, locking, tables)
    for _ in range(ATTEMPTS):
        for session in sessions:
            begin_snapshot(session)
        points = {_point(session) for session in sessions}
        if len(points) == 1:
            name, byte = points.pop()
            gtids = str(sessions[0].value("SELECT BINLOG_GTID_POS(%s, %s)", name, byte) or "")
            return sessions, LogPoint(name, byte, GtidPosition.parse(gtids))
    reason = f"in {ATTEMPTS} attempts no two commits were far enough apart for {count} sessions to begin at one point"
    raise ServerError("BUSY", reason, at=sessions[0].place, hint="Give fewer --sessions")


def prepare_reading(session: ServerSession) -> None:
    """Set up a session to read rows as the log has them."""
    for statement in _SETTINGS:
        session.execute(statement)
    if session.version.is_mariadb:
        session.execute("SET SESSION max_statement_time = 0")


def begin_snapshot(session: ServerSession) -> None:
    """See the rows of now, until the next one."""
    session.execute("ROLLBACK")
    session.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")


def _point(session: ServerSession) -> tuple[str, int]:
    rows = session.rows("SHOW SESSION STATUS LIKE 'binlog_snapshot_%'")
    found = {_text(name).lower(): _text(value) for name, value in rows}
    name, byte = found.get("binlog_snapshot_file", ""), found.get("binlog_snapshot_position", "0")
    if not name:
        reason = "the server does not tell where in its log a snapshot is (binlog_snapshot_file)"
        hint = "It needs a binlog; of a restored backup without one give its place, --at GTID, and --sessions 1"
        raise ServerError("SETTINGS", reason, at=session.place, hint=hint)
    return name, int(byte)


def _text(value: object) -> str:
    # Without a character set for results some come as bytes.
    return value.decode() if isinstance(value, bytes) else str(value)
