"""A private MariaDB server, for the demo and for tests: `MariaDbServer`."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from typing import TYPE_CHECKING

import pymysql
from pymysql.constants import CLIENT

from binlog_format.errors import BinlogError
from binlog_lab.demo.servers.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

EXTRA_FOLDERS = ("/usr/sbin", "/usr/local/sbin", "/usr/local/bin", "/usr/bin")
"""Folders of servers that are not on the PATH of ordinary users."""

_POLL_SECONDS = 0.05
_START_SECONDS = 60.0
_STOP_SECONDS = 60.0
_LOG_TAIL_LINES = 5

_NEVER_SYNCED = "--loose-debug-no-sync"
"""Option by which nothing is forced to the disk. A server that is killed loses nothing by that, and starts in a third
of the time."""


class MariaDbError(BinlogError):
    """The server is not there, or does not run."""

    FAMILY = "BINLOG_SERVER"
    SUBCLASSES = frozenset({"NOT_FOUND", "NOT_STARTED"})


class MariaDbServer:
    """A server on its own data directory, with a row-based binlog; a context manager that starts and stops it.

    It listens on a socket and on a port of the loopback interface alone, and its account has a random password.

    Args:
        directory: Everything is below it: `data`, `binlog`, the error log. A data directory in it is used again.
        server_id: `server_id`, the second number of its GTIDs.
        gtid_domain_id: The first one.
        options: More options for `mariadbd`; they win over those given here.

    Attributes:
        binlog_directory: Where the binlog files are.
        port: TCP port, while it runs.
        password: Of root, its account for tests.

    Raises:
        MariaDbError: `NOT_FOUND`: no server is installed.
    """

    def __init__(
        self, directory: Path, *, server_id: int = 1, gtid_domain_id: int = 0, options: Sequence[str] = ()
    ) -> None:
        self._server = find_program("mariadbd")
        self._installer = find_program("mariadb-install-db")
        self._directory = directory.resolve()
        self._data = self._directory / "data"
        # A server that starts removes what looks like temporary tables of servers there, also those of another one.
        self._temporary = self._directory / "tmp"
        self._options = [f"--server-id={server_id}", f"--gtid-domain-id={gtid_domain_id}", *options]
        self.password = secrets.token_hex(16)
        self._process: subprocess.Popen[bytes] | None = None
        self._socket_folder: tempfile.TemporaryDirectory[str] | None = None
        self.binlog_directory = self._directory / "binlog"
        self.error_log = self._directory / "error.log"
        self.port = 0

    def __enter__(self) -> MariaDbServer:
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
            MariaDbError: `NOT_STARTED`, with the last lines of the error log.
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
            [self._server, "--no-defaults", *self._arguments()],
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
        return pymysql.connect(
            host="127.0.0.1",
            port=self.port,
            user="root",
            password=self.password,
            database=database,
            charset="utf8mb4",
            autocommit=autocommit,
            client_flag=CLIENT.MULTI_STATEMENTS if multi_statements else 0,
        )

    def gtid_position(self) -> str:
        """`@@gtid_binlog_pos`: the last GTID of each domain in the binlog."""
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT @@global.gtid_binlog_pos")
            return str(cursor.fetchone()[0])

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
        result = subprocess.run(
            [
                self._installer,
                "--no-defaults",
                f"--datadir={self._data}",
                f"--tmpdir={self._temporary}",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
                "--skip-name-resolve",
                _NEVER_SYNCED,
                *_as_user(),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode != 0:
            raise MariaDbError("NOT_STARTED", f"mariadb-install-db failed: {_tail(result.stdout + result.stderr)}")

    def _write_accounts(self) -> None:
        """SQL that the server runs before it listens; not in the binlog."""
        accounts = self._directory / "accounts.sql"
        accounts.touch(mode=0o600)
        accounts.write_text(
            "SET sql_log_bin=0;\n"
            f"CREATE OR REPLACE USER root@'127.0.0.1' IDENTIFIED BY '{self.password}';\n"
            "GRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;\n"
            f"ALTER USER root@localhost IDENTIFIED BY '{self.password}';\n"
            "DROP USER IF EXISTS root@'::1';\n"
        )

    def _arguments(self) -> list[str]:
        assert self._socket_folder is not None, "start() has made it"
        return [
            *_as_user(),
            f"--datadir={self._data}",
            f"--tmpdir={self._temporary}",
            f"--socket={self._socket_folder.name}/mariadb.sock",
            f"--pid-file={self._directory}/mariadbd.pid",
            f"--log-error={self.error_log}",
            f"--init-file={self._directory}/accounts.sql",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            "--skip-name-resolve",
            f"--log-bin={self.binlog_directory}/mariadb-bin",
            "--binlog-format=ROW",
            "--binlog-row-image=FULL",
            "--binlog-row-metadata=FULL",
            "--binlog-checksum=CRC32",
            "--character-set-server=utf8mb4",
            "--default-time-zone=+00:00",
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

    def _not_started(self, reason: str) -> MariaDbError:
        log = self.error_log.read_text(errors="replace") if self.error_log.exists() else ""
        return MariaDbError("NOT_STARTED", f"the MariaDB server did not start, {reason}: {_tail(log)}")


def find_program(name: str) -> str:
    """Path of one of the server's programs.

    Raises:
        MariaDbError: `NOT_FOUND`.
    """
    folders = os.pathsep.join((os.environ.get("PATH", ""), *EXTRA_FOLDERS))
    found = shutil.which(name, path=folders)
    if found is None:
        raise MariaDbError(
            "NOT_FOUND",
            f"there is no {name} on PATH",
            hint="On Debian or Ubuntu: apt-get install mariadb-server",
        )
    return found


def _as_user() -> list[str]:
    return ["--user=root"] if os.geteuid() == 0 else []


def _tail(text: str) -> str:
    return " | ".join(text.strip().splitlines()[-_LOG_TAIL_LINES:])
