"""Servers of tests: `server_in(kind, folder)`, `mariadb_server_in(folder)`; nothing else in the tests makes one.

MariaDB is that of PATH. Others are in folders that `deploy/fetch-server.sh` has made: those that `make servers` keeps,
and those that `BINLOG_STREAM_SERVERS` names, separated by commas.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from binlog_lab.demo.mariadb.installed import MARIADB_OF_PATH, DatabaseServerError, Installed, find_server

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_lab.demo.mariadb.server import DatabaseServer, MariaDbServer

SERVERS_VARIABLE = "BINLOG_STREAM_SERVERS"
MADE_DATA_VARIABLE = "BINLOG_STREAM_TESTS_MADE_DATA"
FETCHED = tuple(Path(__file__).parent.parent / ".venv" / name for name in ("server-mysql", "server-mariadb"))
_COMPLETE = ("--binlog-row-metadata=FULL",)
"""What a job needs beside what MySQL has by default."""


class MadeOnce(Installed):
    """A server whose data directory is made once for all processes of a run, and then copied: that takes seconds."""

    def make_data(self, data: Path, options: Sequence[str] = ()) -> None:
        """See `Installed`; *options* do not decide what is in it."""
        del options
        folder = made_data_folder() / str(self.root or self.name).strip("/").replace("/", "-")
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (folder / "made").exists():
                super().make_data(folder / "data", [f"--tmpdir={folder}", "--loose-debug-no-sync"])
                (folder / "data" / "auto.cnf").unlink(missing_ok=True)  # each MySQL server gives itself a UUID
                (folder / "made").touch()
        shutil.copytree(folder / "data", data)


def made_data_folder() -> Path:
    """Folder of data directories that are copied; the process that asks first makes it, and takes it away at its end.

    Processes that it starts then take the same.
    """
    if MADE_DATA_VARIABLE not in os.environ:
        os.environ[MADE_DATA_VARIABLE] = tempfile.mkdtemp(prefix="binlog-stream-servers-")
        atexit.register(shutil.rmtree, os.environ[MADE_DATA_VARIABLE], ignore_errors=True)
    return Path(os.environ[MADE_DATA_VARIABLE])


class ServerKind(StrEnum):
    """A server that tests run on."""

    MARIADB = "mariadb"
    """MariaDB of PATH."""
    NEW_MARIADB = "new_mariadb"
    """A MariaDB that was fetched, of a newer series."""
    MYSQL = "mysql"
    """A MySQL that was fetched."""


def fetched_servers() -> list[str]:
    """Folders with servers: those that the environment names, and those that `make servers` has fetched."""
    named = filter(None, os.environ.get(SERVERS_VARIABLE, "").split(","))
    return [*named, *(str(path) for path in FETCHED if path.is_dir())]


def server_in(kind: ServerKind, folder: Path, *, server_id: int = 1, options: Sequence[str] = ()) -> DatabaseServer:
    """A server that is not started yet, with a log of rows and names; skips where there is none of its kind."""
    if kind is ServerKind.MARIADB:
        return mariadb_server_in(folder, server_id=server_id, options=options)
    from binlog_lab.demo.mariadb.server import MariaDbServer, MySqlServer

    installed = fetched(kind)
    if kind is ServerKind.MYSQL:
        return MySqlServer(folder, installed, server_id=server_id, options=[*_COMPLETE, *options])
    return MariaDbServer(folder, installed=installed, server_id=server_id, options=options)


def as_installed(kind: ServerKind, folder: Path, *, options: Sequence[str] = ()) -> DatabaseServer:
    """A server that is not started yet, with what its vendor's defaults make of its log; skips as `server_in` does."""
    if kind is ServerKind.MYSQL:
        from binlog_lab.demo.mariadb.server import MySqlServer

        return MySqlServer(folder, fetched(kind), options=options)
    defaults = ["--binlog-format=MIXED", "--binlog-row-metadata=NO_LOG", "--binlog-checksum=NONE"]
    defaults += ["--character-set-server=latin1", "--default-time-zone=SYSTEM"]
    return server_in(kind, folder, options=[*defaults, *options])


def fetched(kind: ServerKind) -> Installed:
    """The server of a kind that was fetched; the test is skipped where there is none."""
    vendor = "MySQL" if kind is ServerKind.MYSQL else "MariaDB"
    for name in fetched_servers():
        installed = find_server(name)
        if installed.vendor == vendor:
            return MadeOnce(name, installed.root, vendor)
    pytest.skip(f"no {vendor} server was fetched: make servers, or {SERVERS_VARIABLE}=FOLDER")


def mariadb_server_in(folder: Path, *, server_id: int = 1, options: Sequence[str] = ()) -> MariaDbServer:
    """A server that is not started yet; a test is skipped where none is installed, but fails in CI."""
    from binlog_lab.demo.mariadb.server import MariaDbServer

    installed = mariadb_of_path()
    made_once = MadeOnce(installed.name, installed.root, installed.vendor)
    return MariaDbServer(folder, server_id=server_id, options=options, installed=made_once)


def mariadb_of_path() -> Installed:
    """MariaDB of PATH; a test is skipped where there is none, but fails in CI."""
    try:
        return find_server(MARIADB_OF_PATH)
    except DatabaseServerError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))
