"""Whether a restored server is at the place of a log that somebody names: `check_restored`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.errors import ServerError
from binlog_format.gtids.gtid import Gtid, GtidPosition

if TYPE_CHECKING:
    from binlog_format.gtids.gtid_set import GtidPoint
    from binlog_streaming.server.session import ServerSession


def check_restored(session: ServerSession, at: GtidPoint) -> bool:
    """See that nothing on the server contradicts *at*.

    A backup of a replica has its `gtid_slave_pos`, and after a restore it can be set. What the server has logged itself
    contradicts *at* where it is later, by the same domain and server.

    Returns:
        Whether the server confirms it; else it knows nothing of it.

    Raises:
        ServerError: `OTHER_SERVER`: it is at another one.
    """
    if not session.version.is_mariadb or not isinstance(at, GtidPosition):
        return False
    replicated = GtidPosition.parse(str(session.value("SELECT @@GLOBAL.gtid_slave_pos")))
    if replicated and replicated != at:
        raise _other(session, at, f"its gtid_slave_pos is {replicated}")
    logged = GtidPosition.parse(str(session.value("SELECT @@GLOBAL.gtid_binlog_pos")))
    states = str(session.value("SELECT @@GLOBAL.gtid_binlog_state"))
    for gtid in map(Gtid.parse, filter(None, states.split(","))):
        known = at.last.get(gtid.domain)
        if known is not None and known.server == gtid.server and gtid.seqno > known.seqno:
            raise _other(session, at, f"it has logged {gtid}")
    return at in (replicated, logged)


def _other(session: ServerSession, at: GtidPoint, why: str) -> ServerError:
    hint = "Give the GTID that was noted with the backup, and let nobody write on the restored server"
    return ServerError("OTHER_SERVER", f"--at {at}: the server is elsewhere: {why}", at=session.place, hint=hint)
