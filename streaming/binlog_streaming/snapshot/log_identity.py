"""Check that a server writes the log that a job reads: `check_is_writer` looks, `begin_writing` proves it.

Looking changes nothing, and tells apart all servers whose logs differ. A copy of the server with its files, which has
logged nothing since, differs in nothing; so before anything else is written, one statement that changes nothing is, and
it has to come in the log.
"""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING

import pymysql

from binlog_connector.following.log_end import end_of_log, log_end
from binlog_connector.following.watched import WatchedLog, file_start
from binlog_format.errors import ServerError
from binlog_format.gtids.gtid import Gtid, GtidPosition
from binlog_format.gtids.gtid_history import gtid_of
from binlog_format.gtids.gtid_set import GtidSet, parse_gtids
from binlog_format.views.filters import SNAPSHOT_DATABASE
from binlog_streaming.server.session import DENIED, NO_SUCH_LOG_PLACE, number_of
from binlog_streaming.snapshot.marks import EarlierRuns, MarksTable
from binlog_streaming.snapshot.sql_text import logged_place, prepare_session, table_sql

if TYPE_CHECKING:
    import numpy as np

    from binlog_connector.following.log_end import SeenEnd
    from binlog_connector.following.offsets import SourceOffset
    from binlog_format.gtids.gtid_set import AnyGtid, GtidPoint
    from binlog_format.position import Position
    from binlog_streaming.server.session import ServerSession
    from binlog_streaming.settings.model import JobLogSource

PATIENCE_SECONDS = 60.0
"""Seconds to wait for a log that is copied from the server's machine: it may get the server's last events a little
later."""
COMMIT_SECONDS = 5.0
"""Seconds to wait for a MySQL server to tell of what is in its log: it writes transactions into the file first, forces
them to the disk, and then tells of them."""
_POLL_SECONDS = 0.05
_FIRST_EVENT = 4
"""Byte of the first event in a file, where the server's positions begin."""
_HINT = "Give the URL of the server that writes the log which the job reads (source.path)"


def check_is_writer(session: ServerSession, path: str, format_name: str | None = None) -> SeenEnd:
    """See that the log at *path* is the server's own, and where it ends now; nothing is written.

    The server has the id that the log's newest file states, and has executed all GTIDs at the log's end. Its own
    binlog has a file of that name, which begins after the same GTIDs, and has them at the same byte.

    Args:
        format_name: The format that the log must have; None: whatever it is.
    """
    with WatchedLog(path, format_name) as watched:
        found = log_end(watched)
        end, newest = found.offset, watched.last_written()
        _check_vendor(session, path, end.gtid)
        if newest is not None:
            _check_server_id(session, path, watched, newest)
        _check_gtids(session, path, end.gtid)
        if newest is not None and session.version.is_mariadb:
            _check_places(session, path, watched, newest, end)
        elif newest is not None:
            _check_last_group(session, path, watched, end)
    return found


def begin_writing(session: ServerSession, source: JobLogSource) -> None:
    """Prove that the server is the right one, and create the marks, before anything else is written on it.

    Args:
        session: On the server; it is set up to write. `check_is_writer` has looked at it.
    """
    prepare_session(session)
    check_log_receives(session, source.path, source.format)
    MarksTable(session).create(begins_anew=not EarlierRuns(session).is_any_cut)


def check_log_receives(session: ServerSession, path: str, format_name: str | None) -> None:
    """See that what is written on the server comes in the log at *path*, by a statement that changes nothing.

    Args:
        session: On the server, with the right to drop tables in `binlog_stream`; `check_is_writer` has looked at it.
        format_name: The format that the log must have; None: whatever it is.
    """
    with WatchedLog(path, format_name) as watched:
        read_to = end_of_log(watched).position
    name = f"no_such_table_{uuid.uuid4().hex}"
    before = logged_place(session)
    session.execute(f"DROP TABLE IF EXISTS {table_sql(SNAPSHOT_DATABASE, name)}")
    after = logged_place(session)
    if before is not None and before == after:
        raise ServerError(
            "NOT_LOGGED",
            f"the server does not log statements about the database {SNAPSHOT_DATABASE}",
            at=session.place,
            hint="sql_log_bin, binlog_do_db or binlog_ignore_db leave it out",
        )
    end = time.monotonic() + PATIENCE_SECONDS
    while (unread := _end_without(path, format_name, read_to, name.encode())) is not None:
        read_to = unread
        if time.monotonic() > end:
            logged = f" as {after}" if after is not None and session.version.is_mariadb else ""
            raise ServerError(
                "OTHER_SERVER",
                f"a statement that changes nothing was logged there{logged}, and did not come in the log at {path} "
                f"within {PATIENCE_SECONDS:.0f} s: the log is that of another server, or what copies it is behind",
                at=session.place,
                hint=f"{_HINT}. Nothing else was written",
            )
        time.sleep(_POLL_SECONDS)


def _end_without(path: str, format_name: str | None, start: Position, text: bytes) -> Position | None:
    """End of what the log has after *start*, all of it without *text*; None: the text is there."""
    with WatchedLog(path, format_name) as watched:
        for block in watched.log.committed_blocks(start):
            if text in block.data.tobytes():
                return None
            start = block.next_position
    return start


def _check_vendor(session: ServerSession, path: str, gtids: GtidPoint) -> None:
    if gtids and isinstance(gtids, GtidSet) == session.version.is_mariadb:
        kinds = ("MySQL", "MariaDB") if isinstance(gtids, GtidSet) else ("MariaDB", "MySQL")
        raise _other(session, f"the log at {path} is of {kinds[0]}, the server is {kinds[1]}")


def _check_server_id(session: ServerSession, path: str, watched: WatchedLog, file_no: int) -> None:
    logged = watched.files.server_id(file_no)
    own = int(session.value("SELECT @@GLOBAL.server_id"))
    if logged is not None and logged != own:
        reason = f"{watched.names()[file_no]} at {path} was written by server id {logged}, this server has {own}"
        hint = f"{_HINT}; a replica of that server is another one. If its id was changed: FLUSH BINARY LOGS"
        raise ServerError("OTHER_SERVER", reason, at=session.place, hint=hint)


def _check_gtids(session: ServerSession, path: str, gtids: GtidPoint) -> None:
    if not gtids:
        return
    if isinstance(gtids, GtidSet):
        end = time.monotonic() + COMMIT_SECONDS
        while not _has_all(executed := session.value("SELECT @@GLOBAL.gtid_executed").replace("\n", ""), gtids):
            if time.monotonic() > end:
                reason = f"the log at {path} has GTIDs {gtids}, the server has executed {executed or 'none'}"
                raise _behind(session, reason)
            time.sleep(_POLL_SECONDS)
        return
    # The last number of each pair of domain and server; a position has the last one of each domain alone.
    state = str(session.value("SELECT @@GLOBAL.gtid_binlog_state"))
    known_by_server = {
        (gtid.domain, gtid.server): gtid.seqno for gtid in map(Gtid.parse, filter(None, state.split(",")))
    }
    for gtid in gtids.last.values():
        if known_by_server.get((gtid.domain, gtid.server), -1) < gtid.seqno:
            raise _behind(session, f"the log at {path} ends with GTID {gtid}, the server has logged {state or 'none'}")


def _has_all(executed: str, gtids: GtidSet) -> bool:
    known = parse_gtids(executed)
    return isinstance(known, GtidSet) and not gtids.without(known)


def _check_places(session: ServerSession, path: str, watched: WatchedLog, file_no: int, end: SourceOffset) -> None:
    # Two servers may have used the same numbers; that they wrote them to the same bytes of one file is no chance.
    start = file_start(file_no)
    _check_place(session, path, watched, start, watched.log.gtid_position_at(start))
    if end.position.file_no == file_no and end.position != start:
        _check_place(session, path, watched, end.position, end.gtid)


def _check_place(
    session: ServerSession, path: str, watched: WatchedLog, position: Position, expected: GtidPoint
) -> None:
    place = watched.log.server_position(position)
    if place is None or not isinstance(expected, GtidPosition):
        return
    name, _, byte = place.rpartition(":")
    found = session.value("SELECT BINLOG_GTID_POS(%s, %s)", name, max(int(byte), _FIRST_EVENT))
    is_start = position == file_start(position.file_no)
    if found is None:
        what = f"no file {name}" if is_start else f"no event that ends at {place}"
        raise _behind(session, f"the log at {path} has {place}, the server's binlog has {what}")
    if GtidPosition.parse(str(found)) != expected:
        what = f"{name} begins" if is_start else f"{place} is"
        raise _other(
            session, f"{what} after GTID {expected or 'none'} at {path}, after {found or 'none'} on the server"
        )


def _check_last_group(session: ServerSession, path: str, watched: WatchedLog, end: SourceOffset) -> None:
    """Check, for MySQL, that the last group of the log is at the same byte of the binlog, with the server's UUID."""
    found = _last_group(watched, end.position)
    if found is None:
        return
    gtid, own_uuids, group = found
    uuid_of_server = str(session.value("SELECT @@GLOBAL.server_uuid"))
    for other in sorted(own_uuids - {uuid_of_server}):
        raise _other(session, f"the log at {path} was written by the server {other}, this one is {uuid_of_server}")
    name = watched.names()[int(group["file_no"])]
    byte = max(int(group["file_offset"]), _FIRST_EVENT)
    try:
        there = _text_of_event(session, name, byte)
    except pymysql.MySQLError as error:
        if number_of(error) in DENIED:
            return
        with session.named_errors():
            raise
    if there is None or (gtid is not None and str(gtid) not in there):
        shown = "no event there" if there is None else there
        raise _behind(session, f"the log at {path} has GTID {gtid} at {name}:{byte}, the server's binlog has {shown}")


def _text_of_event(session: ServerSession, name: str, byte: int) -> str | None:
    """Text of the event at *byte* of MySQL's file *name*; None: it has none there."""
    end = time.monotonic() + COMMIT_SECONDS
    while True:
        try:
            rows = session.try_rows(f"SHOW BINLOG EVENTS IN {session.filled('%s', name)} FROM {byte} LIMIT 1")
        except pymysql.MySQLError as error:
            if number_of(error) != NO_SUCH_LOG_PLACE:
                raise
            rows = []
        if rows or time.monotonic() > end:
            return str(rows[0][5]) if rows else None
        time.sleep(_POLL_SECONDS)


def _last_group(watched: WatchedLog, end: Position) -> tuple[AnyGtid | None, set[str], np.void] | None:
    """The log's last group and its GTID, and the UUIDs of what the writer of its file has committed itself."""
    own, last, uuids = watched.files.server_id(end.file_no), None, set()
    for block in watched.log.committed_blocks(file_start(end.file_no), end):
        servers = block.events["server_id"][block.groups["first_event"]]
        for source in set(block.groups["gtid_source"][servers == own].tolist()):
            if source >= 0:
                uuids.add(block.gtid_sources[source].uuid)
        if len(block.groups):
            last = gtid_of(block.groups[-1], block.gtid_sources), block.groups[-1].copy()
    return None if last is None else (last[0], uuids, last[1])


def _behind(session: ServerSession, reason: str) -> ServerError:
    hint = f"{_HINT}. One that was set back to a backup, or has begun a new log, needs a job with a new checkpoint"
    return ServerError("OTHER_SERVER", reason, at=session.place, hint=hint)


def _other(session: ServerSession, reason: str) -> ServerError:
    return ServerError("OTHER_SERVER", reason, at=session.place, hint=_HINT)
