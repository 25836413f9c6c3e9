"""Named errors for what a server answers: `named_error(error)`, and the numbers that code decides by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.errors import ServerError
from binlog_format.position import Place

if TYPE_CHECKING:
    import pymysql

LOCK_WAIT_TIMEOUT = 1205
DEADLOCK = 1213
CACHE_FULL = 1197
STATEMENT_CACHE_FULL = 1705
NO_SUCH_TABLE = 1146
NO_SUCH_COLUMN = 1054
TABLE_CHANGED = 1412
NOWAIT_REFUSED = 3572
NO_SUCH_INDEX = 1176
NO_SUCH_LOG_PLACE = 1220
_LOST = {2006, 2013, 2055, 1053, 1927, 1080, 1152}
_UNREACHABLE = {2002, 2003, 2005}
_AUTHENTICATION = {1045, 1698, 1130, 1251, 1862, 1820, 2059, 2061, 3118, 4151}
DENIED = frozenset({1044, 1142, 1143, 1227, 1370})
_TLS = {2026, 3159}


def number_of(error: pymysql.MySQLError) -> int:
    """The server's or the client's number of an error; 0: it has none."""
    return error.args[0] if error.args and isinstance(error.args[0], int) else 0


def named_error(error: pymysql.MySQLError, server: str) -> ServerError:
    """The named error for what the server at *server* answered.

    Server and client library put no password into their texts: `using password: YES` is all that they tell.
    """
    number = number_of(error)
    text = str(error.args[1]) if len(error.args) > 1 else str(error)
    reason, at = f"{text} (error {number})", Place(server)
    if number in _AUTHENTICATION:
        hint = (
            "The password comes from --password-file, BINLOG_STREAM_PASSWORD or ~/.my.cnf, in this order. "
            "An account that must use TLS (REQUIRE SSL) is refused in the same words: ?ssl-mode=REQUIRED in the URL"
        )
        return ServerError("AUTHENTICATION", reason, at=at, hint=hint)
    if number in _TLS or (number in _UNREACHABLE and "SSL" in text):
        return ServerError("TLS", reason, at=at, hint="See ssl-mode and ssl-ca of the URL (docs/snapshot.md)")
    if number in _LOST:
        return ServerError(
            "UNREACHABLE", f"the connection was lost: {reason}", at=at, hint="Start it again: it goes on"
        )
    if number in _UNREACHABLE:
        return ServerError("UNREACHABLE", reason, at=at, hint="Does the server run, and is this its host and port?")
    if number == LOCK_WAIT_TIMEOUT:
        hint = "Who holds it: SHOW FULL PROCESSLIST, information_schema.INNODB_TRX. End that, then start again"
        return ServerError("LOCKED", f"another session holds a lock: {reason}", at=at, hint=hint)
    if number in DENIED:
        return ServerError("DENIED", reason, at=at, hint="Rights that a snapshot needs are in docs/snapshot.md")
    return ServerError("FAILED", reason, at=at)
