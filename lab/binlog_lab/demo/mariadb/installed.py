"""Database servers that can be started here: `find_server(name)` -> `Installed`.

A server is that of PATH, or one in a folder. What `deploy/fetch-server.sh` has made is a root with all libraries, and
the server is run by their loader: it needs no rights, and its data may be anywhere. What `make old-servers` has made is
as a vendor's archive: `bin` and `share`, with the libraries that a newer machine lacks in `libs`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from binlog_format.errors import BinlogError

if TYPE_CHECKING:
    from collections.abc import Sequence

EXTRA_FOLDERS = ("/usr/sbin", "/usr/local/sbin", "/usr/local/bin", "/usr/bin")
"""Folders of servers that are not on the PATH of ordinary users."""

MARIADB_OF_PATH = "mariadb"
"""The name of the server that is installed on this machine."""

_MARIADB_TABLES = (
    "mariadb_system_tables.sql",
    "mariadb_performance_tables.sql",
    "mariadb_system_tables_data.sql",
    "mariadb_sys_schema.sql",
)
_PROGRAMS = ("bin/mariadbd", "bin/mysqld")
_LOADERS = ("lib64/ld-linux-x86-64.so.2", "lib/ld-linux-aarch64.so.1")
_LOG_TAIL_LINES = 5


class DatabaseServerError(BinlogError):
    """The server is not there, or does not run."""

    FAMILY = "BINLOG_SERVER"
    SUBCLASSES = frozenset({"NOT_FOUND", "NOT_STARTED"})


@dataclass(frozen=True)
class Installed:
    """A server that can be started.

    Attributes:
        name: As it was asked for.
        root: The folder that has it and its libraries; None: it is installed on this machine.
        vendor: `MariaDB` or `MySQL`.
    """

    name: str
    root: Path | None
    vendor: str

    @property
    def is_mysql(self) -> bool:
        """True for MySQL."""
        return self.vendor == "MySQL"

    def command(self) -> list[str]:
        """The words that start the server, without its data; options follow."""
        program = "mysqld" if self.is_mysql else "mariadbd"
        if self.root is None:
            return [find_program(program), "--no-defaults", *_as_user()]
        if _is_archive(self.root):
            return self._of_archive(self.root)
        loader = next(self.root / name for name in _LOADERS if (self.root / name).exists())
        libraries = os.pathsep.join(sorted(str(path) for path in (self.root / "usr/lib").glob("*-linux-gnu")))
        texts = self.root / "usr/share" / self.vendor.lower()
        words = [str(loader), "--library-path", libraries, str(self.root / "usr/sbin" / program), "--no-defaults"]
        words += [*_as_user(), f"--basedir={self.root / 'usr'}", f"--lc-messages-dir={texts}"]
        plugins = self.root / "usr/lib/mysql/plugin"
        # Without one, servers that look for plugins fail.
        words.append(f"--plugin-dir={plugins if plugins.is_dir() else texts}")
        words.append(f"--character-sets-dir={texts / 'charsets'}")
        return [*words, "--secure-file-priv="] if self.is_mysql else words

    def make_data(self, data: Path, options: Sequence[str] = ()) -> None:
        """Make a data directory with the system's tables and an account `root@localhost` without a password.

        Args:
            data: Where; it is not there yet.
            options: More options of the server.
        """
        where, script = [f"--datadir={data}", *options], b""
        if self.root is not None and (self.root / "data/mysql/mysql").is_dir():
            # MySQL 5.6 makes none by itself; and each server has a UUID of its own.
            shutil.copytree(self.root / "data/mysql", data, ignore=shutil.ignore_patterns("auto.cnf"))
            return
        if self.is_mysql:
            command = [*self.command(), "--initialize-insecure", *where]
        elif self.root is None:
            command = [find_program("mariadb-install-db"), "--no-defaults", *_as_user(), "--skip-name-resolve"]
            command += ["--auth-root-authentication-method=normal", "--skip-test-db", *where]
        else:
            (data / "mysql").mkdir(parents=True)
            script = b"create database if not exists mysql;\nuse mysql;\n" + _mariadb_tables(self.root)
            command = [*self.command(), "--bootstrap", *where]
        done = subprocess.run(command, input=script, capture_output=True, check=False)
        if done.returncode != 0:
            told = tail_of((done.stdout + done.stderr).decode(errors="replace"))
            raise DatabaseServerError("NOT_STARTED", f"{self.name}: its data directory could not be made: {told}")

    def _of_archive(self, root: Path) -> list[str]:
        program = next(root / name for name in _PROGRAMS if (root / name).exists())
        libraries = os.pathsep.join((str(root / "libs"), str(root / "bin")))
        words = ["env", f"LD_LIBRARY_PATH={libraries}", str(program), "--no-defaults", *_as_user()]
        return [*words, f"--basedir={root}", f"--lc-messages-dir={root / 'share'}"]


def find_server(name: str) -> Installed:
    """The server `mariadb` of PATH, or that in the folder *name*. Raises `DatabaseServerError`: `NOT_FOUND`."""
    if name == MARIADB_OF_PATH:
        find_program("mariadbd")
        return Installed(name, None, "MariaDB")
    root = Path(name).resolve()
    if _is_archive(root):
        return Installed(name, root, "MariaDB" if "mariadb" in root.name else "MySQL")
    # MariaDB has a program mysqld too.
    vendors = {"MariaDB": root / "usr/sbin/mariadbd", "MySQL": root / "usr/sbin/mysqld"}
    found = [vendor for vendor, program in vendors.items() if program.exists()]
    if not found:
        hint = "deploy/fetch-server.sh fetches one"
        raise DatabaseServerError("NOT_FOUND", f"there is no server in {root}", hint=hint)
    if not any((root / loader).exists() for loader in _LOADERS):
        raise DatabaseServerError("NOT_FOUND", f"the server in {root} has no loader for this machine")
    return Installed(name, root, found[0])


def _is_archive(root: Path) -> bool:
    return not (root / "usr").exists() and any((root / name).exists() for name in _PROGRAMS)


def _mariadb_tables(root: Path) -> bytes:
    """The statements that make MariaDB's own tables; before 10.4 the files have the other vendor's name."""
    if not _is_archive(root):
        return b"".join([(root / "usr/share/mariadb" / name).read_bytes() for name in _MARIADB_TABLES])
    names = [name.replace("mariadb_", prefix, 1) for prefix in ("mariadb_", "mysql_") for name in _MARIADB_TABLES[:3]]
    return b"".join([(root / "share" / name).read_bytes() for name in names if (root / "share" / name).exists()])


def find_program(name: str) -> str:
    """Path of one of the server's programs. Raises `DatabaseServerError`: `NOT_FOUND`."""
    folders = os.pathsep.join((os.environ.get("PATH", ""), *EXTRA_FOLDERS))
    found = shutil.which(name, path=folders)
    if found is None:
        raise DatabaseServerError(
            "NOT_FOUND",
            f"there is no {name} on PATH",
            hint="On Debian or Ubuntu: apt-get install mariadb-server",
        )
    return found


def tail_of(text: str) -> str:
    """The last lines of a server's log, as one."""
    return " | ".join(text.strip().splitlines()[-_LOG_TAIL_LINES:])


def _as_user() -> list[str]:
    return ["--user=root"] if os.geteuid() == 0 else []
