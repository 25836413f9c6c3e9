"""Private servers, for the demo and for tests: `MariaDbServer`, `MySqlServer`."""

from __future__ import annotations

import functools
import secrets
import signal
import ssl
import subprocess
import tempfile
import time
from typing import TYPE_CHECKING, Self

import pymysql
from pymysql.constants import CLIENT

from binlog_lab.demo.mariadb.installed import MARIADB_OF_PATH, DatabaseServerError, find_server, tail_of
from binlog_lab.demo.servers.java_server import free_ports

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from binlog_lab.demo.mariadb.installed import Installed

_POLL_SECONDS = 0.05
_START_SECONDS = 60.0
_STOP_SECONDS = 60.0

_NEVER_SYNCED = "--loose-debug-no-sync"
"""Option by which nothing is forced to the disk. A server that is killed loses nothing by that, and starts in a third
of the time."""


@functools.cache
def _any_certificate() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # a server's own, on this machine
    return context


class DatabaseServer:
    """A server on its own data directory, with a binlog; a context manager that starts and stops it.

    It listens on a socket and on a port of the loopback interface alone, and its account has a random password.

    Args:
        installed: What to start.
        directory: Everything is below it: `data`, `binlog`, the error log. A data directory in it is used again.

    Attributes:
        binlog_directory: Where the binlog files are.
        error_log: Where it writes what goes wrong.
        port: TCP port, while it runs.
        password: Of root, its account for tests.
    """

    def __init__(self, installed: Installed, directory: Path, options: Sequence[str]) -> None:
        self.installed = installed
        self._directory = directory.resolve()
        self._data = self._directory / "data"
        # A server that starts removes what looks like temporary tables of servers there, also those of another one.
        self._temporary = self._directory / "tmp"
        self._options = options
        self.password = secrets.token_hex(16)
        self._process: subprocess.Popen[bytes] | None = None
        self._socket_folder: tempfile.TemporaryDirectory[str] | None = None
        self.binlog_directory = self._directory / "binlog"
        self.error_log = self._directory / "error.log"
        self.port = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def version(self) -> str:
        """Version as the server reports it."""
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT VERSION()")
            return str(cursor.fetchone()[0])

    def start(self) -> None:
        """Start the server and wait until it answers.

        Raises:
            DatabaseServerError: `NOT_STARTED`, with the last lines of the error log.
        """
        self.binlog_directory.mkdir(parents=True, exist_ok=True)
        self._temporary.mkdir(exist_ok=True)
        if not (self._data / "mysql").is_dir():
            self._install()
        self._write_accounts()
        (self.port,) = free_ports(1)
        # Paths of sockets are limited to about 100 bytes; the directory's own may be longer.
        self._socket_folder = tempfile.TemporaryDirectory(prefix="mariadb-")
        self._process = subprocess.Popen(
            [*self.installed.command(), *self._arguments()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the program that started it, which then stops the server in order
        )
        self._wait_until_it_answers(self._process)

    def connect(
        self, *, database: str | None = None, autocommit: bool = True, multi_statements: bool = False
    ) -> pymysql.connections.Connection:
        """A new connection as root; `with` closes it."""
        # For each connection without a context of its own, the client reads all certificates that the machine trusts.
        return pymysql.connect(
            host="127.0.0.1",
            port=self.port,
            user="root",
            password=self.password,
            database=database,
            charset="utf8mb4",
            autocommit=autocommit,
            client_flag=CLIENT.MULTI_STATEMENTS if multi_statements else 0,
            ssl=_any_certificate() if self.installed.is_mysql else None,
            ssl_disabled=not self.installed.is_mysql,  # MySQL takes passwords over TLS
        )

    def gtid_position(self) -> str:
        """`@@gtid_binlog_pos`, the last GTID of each domain in the binlog; of MySQL `@@gtid_executed`."""
        with self.connect() as connection, connection.cursor() as cursor:
            name = "gtid_executed" if self.installed.is_mysql else "gtid_binlog_pos"
            cursor.execute(f"SELECT @@global.{name}")
            return str(cursor.fetchone()[0]).replace("\n", "")

    def stop(self) -> None:
        """Shut down in order; nothing when it does not run."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the process, as a crash would."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(number)
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._remove_socket()

    def _remove_socket(self) -> None:
        folder, self._socket_folder = self._socket_folder, None
        if folder is not None:
            folder.cleanup()

    def _install(self) -> None:
        self.installed.make_data(self._data, [f"--tmpdir={self._temporary}", _NEVER_SYNCED])

    def _write_accounts(self) -> None:
        """SQL that the server runs before it listens; not in the binlog."""
        accounts = self._directory / "accounts.sql"
        accounts.touch(mode=0o600)
        accounts.write_text(
            "SET sql_log_bin=0;\n"
            "CREATE USER IF NOT EXISTS root@'127.0.0.1';\n"
            f"ALTER USER root@'127.0.0.1' IDENTIFIED BY '{self.password}';\n"
            "GRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;\n"
            f"ALTER USER root@localhost IDENTIFIED BY '{self.password}';\n"
            "DROP USER IF EXISTS root@'::1';\n"
        )

    def _arguments(self) -> list[str]:
        assert self._socket_folder is not None, "start() has made it"
        return [
            f"--datadir={self._data}",
            f"--tmpdir={self._temporary}",
            f"--socket={self._socket_folder.name}/mariadb.sock",
            f"--pid-file={self._directory}/server.pid",
            f"--log-error={self.error_log}",
            f"--init-file={self._directory}/accounts.sql",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            f"--log-bin={self.binlog_directory}/{'mysql' if self.installed.is_mysql else 'mariadb'}-bin",
            "--sync-binlog=0",
            "--innodb-flush-log-at-trx-commit=2",
            _NEVER_SYNCED,
            *self._options,
        ]

    def _wait_until_it_answers(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                self.connect().close()
            except pymysql.err.OperationalError:
                if time.monotonic() > deadline:
                    self.kill()
                    raise self._not_started("it does not answer") from None
            else:
                return
            try:
                status = process.wait(_POLL_SECONDS)  # ends the pause at once when the server dies
            except subprocess.TimeoutExpired:
                continue
            self._process = None
            self._remove_socket()
            raise self._not_started(f"it ended with status {status}")

    def _not_started(self, reason: str) -> DatabaseServerError:
        log = self.error_log.read_text(errors="replace") if self.error_log.exists() else ""
        return DatabaseServerError(
            "NOT_STARTED", f"the {self.installed.vendor} server did not start, {reason}: {tail_of(log)}"
        )


_ROWS = (
    "--skip-name-resolve",
    "--binlog-format=ROW",
    "--binlog-row-image=FULL",
    "--binlog-row-metadata=FULL",
    "--binlog-checksum=CRC32",
    "--character-set-server=utf8mb4",
    "--default-time-zone=+00:00",
)


class MariaDbServer(DatabaseServer):
    """A MariaDB server with a log of rows.

    Args:
        directory: As that of every server.
        server_id: `server_id`, the second number of its GTIDs.
        gtid_domain_id: The first one.
        options: More options for `mariadbd`; they win over those given here.
        installed: Which one; None: that of PATH.

    Raises:
        DatabaseServerError: `NOT_FOUND`: no server is installed.
    """

    def __init__(
        self,
        directory: Path,
        *,
        server_id: int = 1,
        gtid_domain_id: int = 0,
        options: Sequence[str] = (),
        installed: Installed | None = None,
    ) -> None:
        numbers = (f"--server-id={server_id}", f"--gtid-domain-id={gtid_domain_id}")
        super().__init__(installed or find_server(MARIADB_OF_PATH), directory, [*_ROWS, *numbers, *options])


class MySqlServer(DatabaseServer):
    """A MySQL server as it is installed: all that decides about its log has MySQL's defaults.

    Args:
        directory: As that of every server.
        server_id: `server_id`.
        options: More options for `mysqld`.
    """

    def __init__(
        self, directory: Path, installed: Installed, *, server_id: int = 1, options: Sequence[str] = ()
    ) -> None:
        # The X protocol would listen on a port that all servers of a machine share.
        super().__init__(installed, directory, [f"--server-id={server_id}", "--mysqlx=0", *options])
