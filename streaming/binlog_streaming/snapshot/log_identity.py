"""Check that a server writes the log that a job reads: `check_is_writer`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_connector.following.log_end import end_of_log
from binlog_connector.following.watched import WatchedLog, file_start
from binlog_format.errors import ServerError
from binlog_format.gtids.gtid import Gtid, GtidPosition
from binlog_format.gtids.gtid_set import GtidSet, parse_gtids

if TYPE_CHECKING:
    from binlog_format.gtids.gtid_set import GtidPoint
    from binlog_streaming.server.session import ServerSession

_FIRST_EVENT = 4
"""Byte of the first event in a file, where the server's positions begin."""
_HINT = "Give the URL of the server that writes the log which the job reads (source.path)"


def check_is_writer(session: ServerSession, path: str, format_name: str | None = None) -> None:
    """See that the log at *path* is the server's own: all GTIDs at its end are the server's, and its files begin alike.

    Args:
        session: On the server.
        path: Of the log.
        format_name: The format that the log must have; None: whatever it is.

    Raises:
        ServerError: `OTHER_SERVER`.
        BinlogError: The log cannot be read.
    """
    with WatchedLog(path, format_name) as watched:
        end = end_of_log(watched)
        _check_gtids(session, path, end.gtid)
        _check_file_start(session, path, watched, end.position.file_no)


def _check_gtids(session: ServerSession, path: str, gtids: GtidPoint) -> None:
    if not gtids:
        return
    is_log_of_mysql = isinstance(gtids, GtidSet)
    if is_log_of_mysql == session.version.is_mariadb:
        kinds = ("MySQL", "MariaDB") if is_log_of_mysql else ("MariaDB", "MySQL")
        raise _other(session, f"the log at {path} is of {kinds[0]}, the server is {kinds[1]}")
    if isinstance(gtids, GtidSet):
        executed = str(session.value("SELECT @@GLOBAL.gtid_executed")).replace("\n", "")
        known = parse_gtids(executed)
        if not isinstance(known, GtidSet) or gtids.without(known):
            raise _other(session, f"the log at {path} has GTIDs {gtids}, the server has executed {executed or 'none'}")
        return
    # The last number of each pair of domain and server; a position has the last one of each domain alone.
    state = str(session.value("SELECT @@GLOBAL.gtid_binlog_state"))
    known_by_server = {
        (gtid.domain, gtid.server): gtid.seqno for gtid in map(Gtid.parse, filter(None, state.split(",")))
    }
    for gtid in gtids.last.values():
        if known_by_server.get((gtid.domain, gtid.server), -1) < gtid.seqno:
            raise _other(session, f"the log at {path} ends with GTID {gtid}, the server has logged {state or 'none'}")


def _check_file_start(session: ServerSession, path: str, watched: WatchedLog, file_no: int) -> None:
    # Two servers may have used the same numbers; that they began a file of one name after the same GTID is no chance.
    start = file_start(file_no)
    place = watched.log.server_position(start)
    if place is None or not session.version.is_mariadb:
        return
    name, _, byte = place.rpartition(":")
    found = session.value("SELECT BINLOG_GTID_POS(%s, %s)", name, max(int(byte), _FIRST_EVENT))
    expected = watched.log.gtid_position_at(start)
    if found is not None and isinstance(expected, GtidPosition) and GtidPosition.parse(str(found)) != expected:
        raise _other(session, f"{name} begins after GTID {expected} at {path}, after {found} on the server")


def _other(session: ServerSession, reason: str) -> ServerError:
    return ServerError("OTHER_SERVER", reason, at=session.place, hint=_HINT)
