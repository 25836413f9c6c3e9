"""A server whose changes the log of a replica has: `ReplicatedServer`, in the place of a `LiveServer`."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

import pymysql

from binlog_format.vendor import server_version_of
from tests.judge.servers import POLL_SECONDS, LiveServer

if TYPE_CHECKING:
    from binlog_lab.demo.mariadb.installed import Installed

ACCOUNT = "replica"
CATCH_UP_SECONDS = 120.0
_OF_SOURCES = (8, 0, 23)
"""MySQL's version from which on a primary is a source, and what it had of these names before is gone in later ones."""
_KEYS_SINCE = (8, 0, 4)
"""MySQL's version from which on passwords are sent encrypted with a key that a replica asks for."""
_NETWORK = ("--skip-networking=OFF", "--bind-address=127.0.0.1")


class ReplicaStoppedError(Exception):
    """The replica cannot do what the primary did, or is too late."""


class ReplicatedServer(LiveServer):
    """A primary, with a replica of the same kind that writes a log of its own."""

    def __init__(self, installed: Installed, *, folded_names: int = 0) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        super().__init__(installed, folded_names=folded_names, options=(*_NETWORK, f"--port={self._port}"))
        of_replica = ("--server-id=8", "--loose-log-replica-updates=ON", "--loose-log-slave-updates=ON")
        self.replica = LiveServer(installed, folded_names=folded_names, options=of_replica)
        self.log_directory = self.replica.log_directory
        self._stack = ExitStack()

    def __enter__(self) -> ReplicatedServer:
        with ExitStack() as stack:
            stack.enter_context(self.replica)
            super().__enter__()
            stack.push(super().__exit__)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    @property
    def all(self) -> tuple[LiveServer, ...]:
        """Both."""
        return self, self.replica

    def forget(self) -> None:
        """Leave nothing on either of them, and begin to replicate anew."""
        word = "REPLICA" if self._is_of_sources else "SLAVE"
        self.replica.ask(f"STOP {word}", f"RESET {word} ALL")
        super().forget()
        self.replica.forget()
        account = f"{ACCOUNT}@'{'127.0.0.1' if self.is_mysql else 'localhost'}'"  # MySQL is told to resolve no names
        with suppress(pymysql.Error):  # it is there from the history before; servers of 2013 know no IF NOT EXISTS
            self.ask("SET sql_log_bin = 0", f"CREATE USER {account} IDENTIFIED BY '{ACCOUNT}'")
        self.ask("SET sql_log_bin = 0", f"GRANT REPLICATION SLAVE ON *.* TO {account}")
        role = "SOURCE" if self._is_of_sources else "MASTER"
        where = {"HOST": "'127.0.0.1'", "PORT": self._port, "USER": f"'{ACCOUNT}'", "PASSWORD": f"'{ACCOUNT}'"}
        to = ", ".join(f"{role}_{name} = {value}" for name, value in where.items())
        if self.is_mysql:
            to += f", {role}_AUTO_POSITION = 1"
            to += f", GET_{role}_PUBLIC_KEY = 1" if self._version >= _KEYS_SINCE else ""
            change = "REPLICATION SOURCE" if self._is_of_sources else "MASTER"
            self.replica.ask(f"CHANGE {change} TO {to}")
        else:
            to += ", MASTER_USE_GTID = slave_pos, MASTER_SSL = 0"
            self.replica.ask("SET GLOBAL gtid_slave_pos = ''", f"CHANGE MASTER TO {to}")
        self.replica.ask(f"START {word}")

    @property
    def _is_of_sources(self) -> bool:
        # Whether it calls its primary a source.
        return self.is_mysql and self._version >= _OF_SOURCES

    @property
    def _version(self) -> tuple[int, ...]:
        return server_version_of(self.version)

    def settle(self) -> None:
        """Wait until the replica has what the primary has.

        Raises:
            ReplicaStoppedError: It has stopped, or does not come there in time.
        """
        name = "@@global.gtid_executed" if self.is_mysql else "@@global.gtid_binlog_pos"
        of_replica = name if self.is_mysql else "@@global.gtid_slave_pos"
        deadline = time.monotonic() + CATCH_UP_SECONDS
        while self.ask(f"SELECT {name}") != self.replica.ask(f"SELECT {of_replica}"):
            reason = self._stopped_by()
            if reason or time.monotonic() > deadline:
                raise ReplicaStoppedError(reason or "it does not catch up")
            time.sleep(POLL_SECONDS)

    def _stopped_by(self) -> str:
        with self.replica.connect() as connection, connection.cursor(pymysql.cursors.DictCursor) as cursor:
            cursor.execute(f"SHOW {'REPLICA' if self._is_of_sources else 'SLAVE'} STATUS")
            status = cursor.fetchone() or {}
        return str(status.get("Last_SQL_Error") or status.get("Last_IO_Error") or "")
