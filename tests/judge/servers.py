"""Live servers for histories: `LiveServer(find_server(name))`, as fast as a server without care for its data is.

Each has its own data directory, listens on a socket alone, and is stopped in the end.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pymysql

from binlog_lab.demo.mariadb.installed import DatabaseServerError, tail_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pymysql.connections import Connection

    from binlog_lab.demo.mariadb.installed import Installed

SYSTEM_TIME_ZONE = "America/New_York"
"""Of their machine, as they see it: one whose clocks are put forward and back."""
START_SECONDS = 90.0
STOP_SECONDS = 60.0
POLL_SECONDS = 0.1
SYSTEM = ("mysql", "information_schema", "performance_schema", "sys")
COMMON = (
    "--server-id=7",
    "--skip-networking",
    "--binlog-format=ROW",
    "--character-set-server=utf8mb4",
    "--default-time-zone=+00:00",
    "--sync-binlog=0",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-buffer-pool-size=64M",
    "--innodb-flush-method=nosync",
    "--innodb-doublewrite=OFF",
    "--max-connections=50",
    # A statement may meet a prepared transaction whose end a shorter history lacks: the default is a year.
    "--lock-wait-timeout=30",
)
# MySQL has no partitions in a shared tablespace.
MARIADB = (
    "--innodb-file-per-table=OFF",
    "--sync-frm=OFF",
    "--innodb-log-file-size=32M",
    "--aria-pagecache-buffer-size=8M",
    # Some statements never end by themselves: the server opens tables of triggers and sequences again and again.
    "--max-statement-time=60",
)
MYSQL = (
    "--gtid-mode=ON",
    "--enforce-gtid-consistency=ON",
    "--skip-name-resolve",
    "--loose-mysqlx=0",
    "--loose-log-slave-updates",  # MySQL 5.6 has no GTIDs without it
    "--loose-explicit-defaults-for-timestamp=1",
)


class LiveServer:
    """A server on a fresh data directory; a context manager that starts and stops it.

    Args:
        folded_names: `lower_case_table_names`.
        options: More options of the server.
    """

    def __init__(self, installed: Installed, *, folded_names: int = 0, options: Sequence[str] = ()) -> None:
        self.installed = installed
        self._folded_names = folded_names
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self.version = ""
        self._folder = Path(tempfile.mkdtemp(prefix="judge-"))
        self.log_directory = self._folder / "log"
        self.log_directory.mkdir()
        (self._folder / "tmp").mkdir()

    def __enter__(self) -> LiveServer:
        try:
            options = [self._names()] if self.is_mysql else MARIADB[:2]
            self.installed.make_data(self._folder / "data", [f"--tmpdir={self._folder / 'tmp'}", *options])
            self._start()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._remove()

    @property
    def all(self) -> tuple[LiveServer, ...]:
        """The servers that live a history."""
        return (self,)

    def settle(self) -> None:
        """Wait until the log has all that was done; a server's own log always has."""

    @property
    def is_mysql(self) -> bool:
        """Whether it is MySQL."""
        return self.installed.is_mysql

    def has_crashed(self) -> bool:
        """True if the process has ended by itself; one that is about to is waited for."""
        assert self._process is not None, "it was started"
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_SECONDS)
        return self._process.poll() is not None

    def connect(self) -> Connection:
        """A new connection; `with` closes it."""
        # Without TLS, a quarter of the judge's time is saved: for each connection, it read all certificates it trusts.
        return pymysql.connect(
            unix_socket=str(self._folder / "socket"),
            user="root",
            charset="utf8mb4",
            autocommit=True,
            ssl_disabled=True,
        )

    def ask(self, *statements: str) -> list[tuple[Any, ...]]:
        """The rows of the last of some statements."""
        with self.connect() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall())

    def forget(self) -> None:
        """Leave nothing: no databases, and a log that begins with the next transaction."""
        for (name,) in self.ask("SHOW DATABASES"):
            if name not in SYSTEM:
                self.ask("SET FOREIGN_KEY_CHECKS = 0", f"DROP DATABASE `{name}`")
        self.ask(self._reset)

    @property
    def _reset(self) -> str:
        since = 8, 4  # where the old words are an error
        is_new = self.is_mysql and tuple(int(part) for part in self.version.split(".")[:2]) >= since
        return "RESET BINARY LOGS AND GTIDS" if is_new else "RESET MASTER"

    def _names(self) -> str:
        return f"--lower-case-table-names={self._folded_names}"

    def _start(self) -> None:
        options = [*COMMON, *(MYSQL if self.is_mysql else MARIADB), self._names()]
        paths = {
            "datadir": "data",
            "tmpdir": "tmp",
            "socket": "socket",
            "pid-file": "pid",
            "log-error": "error.log",
            "log-bin": "log/mysql-bin",
        }
        options += [f"--{option}={self._folder / name}" for option, name in paths.items()]
        options += self._options
        self._process = subprocess.Popen(
            [*self.installed.command(), *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "TZ": SYSTEM_TIME_ZONE},
            start_new_session=True,  # Ctrl-C is for the program that started it
        )
        deadline = time.monotonic() + START_SECONDS
        while not self.version:
            with suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
                probe.connect(str(self._folder / "socket"))
                ((self.version,),) = self.ask("SELECT VERSION()")
            if not self.version and (self._process.poll() is not None or time.monotonic() > deadline):
                log = self._folder / "error.log"
                told = tail_of(log.read_text(errors="replace"))
                raise DatabaseServerError("NOT_STARTED", f"{self.installed.name} does not start: {told}")
            time.sleep(POLL_SECONDS)

    def _remove(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
