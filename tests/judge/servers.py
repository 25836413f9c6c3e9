"""Live servers for histories: MariaDB on PATH, and any other one in a folder of its own: `find_server`.

A folder is what `deploy/fetch-server.sh` makes: a root directory with the server and all its libraries, in which it
runs. Each server has its own data directory, listens on a socket alone, and is stopped in the end.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pymysql

from binlog_lab.demo.mariadb.server import MariaDbError, find_program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pymysql.connections import Connection

START_SECONDS = 90.0
STOP_SECONDS = 60.0
POLL_SECONDS = 0.1
SYSTEM = ("mysql", "information_schema", "performance_schema", "sys")
MARIADB_TABLES = (
    "mariadb_system_tables.sql",
    "mariadb_performance_tables.sql",
    "mariadb_system_tables_data.sql",
    "mariadb_sys_schema.sql",
)
COMMON = (
    "--no-defaults",
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
    "--innodb-file-per-table=OFF",
    "--max-connections=50",
)
MARIADB = ("--sync-frm=OFF", "--innodb-log-file-size=32M", "--aria-pagecache-buffer-size=8M")
MYSQL = ("--mysqlx=0", "--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--skip-name-resolve", "--secure-file-priv=")


class NoServerError(Exception):
    """There is no such server here; the text says what is missing."""


@dataclass(frozen=True)
class Installed:
    """A server that can be started.

    Attributes:
        name: As it was asked for.
        root: The folder that it runs in; None: it is installed on this machine.
        vendor: `MariaDB` or `MySQL`.
    """

    name: str
    root: Path | None
    vendor: str


def find_server(name: str) -> Installed:
    """The server `mariadb` of PATH, or that in the folder *name*.

    Raises:
        NoServerError: There is none, or it cannot be run here.
    """
    if name == "mariadb":
        try:
            find_program("mariadbd")
        except MariaDbError as error:
            raise NoServerError(str(error)) from error
        return Installed(name, None, "MariaDB")
    root = Path(name)
    # MariaDB has a program mysqld too.
    vendors = {"MariaDB": root / "usr/sbin/mariadbd", "MySQL": root / "usr/sbin/mysqld"}
    found = [vendor for vendor, program in vendors.items() if program.exists()]
    if not found:
        raise NoServerError(f"there is no server in {root}: deploy/fetch-server.sh fetches one")
    if os.geteuid() != 0:
        raise NoServerError(f"the server in {root} runs in a root directory of its own, which only root can do")
    return Installed(name, root, found[0])


class LiveServer:
    """A server on a fresh data directory; a context manager that starts and stops it.

    Args:
        installed: What to start.
        folded_names: `lower_case_table_names`.

    Attributes:
        log_directory: Where its log is.
        version: What it calls itself.
    """

    def __init__(self, installed: Installed, *, folded_names: int = 0) -> None:
        self.installed = installed
        self._folded_names = folded_names
        self._process: subprocess.Popen[bytes] | None = None
        self.version = ""
        self._chroot = () if installed.root is None else ("chroot", str(installed.root))
        base = None if installed.root is None else installed.root / "data"
        if base is not None:
            base.mkdir(exist_ok=True)
        self._folder = Path(tempfile.mkdtemp(prefix="judge-", dir=base))
        self.log_directory = self._folder / "log"
        self.log_directory.mkdir()
        (self._folder / "tmp").mkdir()

    def __enter__(self) -> LiveServer:
        try:
            self._install()
            self._start()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._remove()

    @property
    def is_mysql(self) -> bool:
        """Whether it is MySQL."""
        return self.installed.vendor == "MySQL"

    def connect(self) -> Connection:
        """A new connection; `with` closes it."""
        return pymysql.connect(
            unix_socket=str(self._folder / "socket"), user="root", charset="utf8mb4", autocommit=True
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
        self.ask("RESET BINARY LOGS AND GTIDS" if self.is_mysql else "RESET MASTER")

    def _inside(self, path: Path) -> str:
        # A path as the server sees it.
        root = self.installed.root
        return str(path) if root is None else f"/{path.relative_to(root)}"

    def _program(self, name: str) -> str:
        return find_program(name) if self.installed.root is None else f"/usr/sbin/{name}"

    def _data(self) -> str:
        return self._inside(self._folder / "data")

    def _names(self) -> str:
        return f"--lower-case-table-names={self._folded_names}"

    def _install(self) -> None:
        if self.is_mysql:
            self._run([self._program("mysqld"), *COMMON[:1], "--initialize-insecure", self._names()], b"")
        elif self.installed.root is None:
            options = ["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"]
            self._run([self._program("mariadb-install-db"), *COMMON[:1], *options, *MARIADB[:1]], b"")
        else:
            (self._folder / "data" / "mysql").mkdir(parents=True)
            texts = [(self.installed.root / "usr/share/mariadb" / name).read_bytes() for name in MARIADB_TABLES]
            script = b"".join([b"create database if not exists mysql;\nuse mysql;\n", *texts])
            messages = "--lc-messages-dir=/usr/share/mariadb"
            self._run([self._program("mariadbd"), *COMMON[:1], "--bootstrap", messages], script)

    def _run(self, command: Sequence[str], stdin: bytes) -> None:
        where = [f"--datadir={self._data()}", *_as_user()]
        done = subprocess.run([*self._chroot, *command, *where], input=stdin, capture_output=True, check=False)
        if done.returncode != 0:
            raise NoServerError(f"{self.installed.name}: {_tail((done.stdout + done.stderr).decode(errors='replace'))}")

    def _start(self) -> None:
        program = self._program("mysqld" if self.is_mysql else "mariadbd")
        options = [*COMMON, *(MYSQL if self.is_mysql else MARIADB), *_as_user(), self._names()]
        if self.installed.root is not None and not self.is_mysql:
            options.append("--lc-messages-dir=/usr/share/mariadb")
        paths = {
            "datadir": "data",
            "tmpdir": "tmp",
            "socket": "socket",
            "pid-file": "pid",
            "log-error": "error.log",
            "log-bin": "log/mysql-bin",
        }
        options += [f"--{option}={self._inside(self._folder / name)}" for option, name in paths.items()]
        self._process = subprocess.Popen(
            [*self._chroot, program, *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the program that started it
        )
        deadline = time.monotonic() + START_SECONDS
        while not self.version:
            with suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
                probe.connect(str(self._folder / "socket"))
                ((self.version,),) = self.ask("SELECT VERSION()")
            if not self.version and (self._process.poll() is not None or time.monotonic() > deadline):
                log = self._folder / "error.log"
                raise NoServerError(f"{self.installed.name} does not start: {_tail(log.read_text(errors='replace'))}")
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


def _as_user() -> list[str]:
    return ["--user=root"] if os.geteuid() == 0 else []


def _tail(text: str) -> str:
    return " | ".join(text.strip().splitlines()[-5:])
