"""Replicas that would receive the chunks too: `find_replicas`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pymysql

from binlog_streaming.server.failures import DENIED, number_of

if TYPE_CHECKING:
    from binlog_streaming.server.session import ServerSession

_MARIADB_REPLICA_WORDS = (10, 5, 1)
_MYSQL_REPLICA_WORDS = (8, 0, 22)


@dataclass(frozen=True, slots=True)
class Replica:
    """A replica that is connected.

    Attributes:
        server_id: Its `server_id`.
        host: What it reports as its host; empty: nothing.
    """

    server_id: int
    host: str

    def __str__(self) -> str:
        return f"server id {self.server_id}" + (f" ({self.host})" if self.host else "")


def find_replicas(session: ServerSession) -> tuple[Replica, ...] | None:
    """Replicas that are connected; None: the account may not see them.

    Raises:
        ServerError: What the server answered otherwise.
    """
    number = session.version.number
    if session.version.is_mariadb:
        statement = "SHOW REPLICA HOSTS" if number >= _MARIADB_REPLICA_WORDS else "SHOW SLAVE HOSTS"
    else:
        statement = "SHOW REPLICAS" if number >= _MYSQL_REPLICA_WORDS else "SHOW SLAVE HOSTS"
    try:
        rows = session.try_rows(statement)
    except pymysql.MySQLError as error:
        if number_of(error) in DENIED:
            return None
        with session.named_errors():
            raise
    return tuple(Replica(int(row[0]), str(row[1] or "")) for row in rows)
