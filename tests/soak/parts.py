"""What soaks of live servers share: `ServerPair`, `SoakError`, `each_soak`."""

from __future__ import annotations

import argparse
import contextlib
import random
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pymysql

from tests.streaming.failing_over.pairs import follow, promote, server_of, wait_until_at
from tests.streaming.snapshot.live import BLACKHOLE, run_sql

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Self

    from pymysql.connections import Connection

    from binlog_lab.demo.mariadb.server import DatabaseServer
    from tests.servers import ServerKind


class SoakError(Exception):
    """Something came otherwise than it must."""


class ServerPair:
    """A primary and its replica, which change their parts; writers connect to whoever is primary.

    Args:
        tables: Statements that make tables which are in no log.
    """

    def __init__(self, kind: ServerKind, work: Path, tables: Sequence[str] = ()) -> None:
        self._tables = tables
        self.primary: DatabaseServer = server_of(kind, work / "one", 1)
        self._replica: DatabaseServer = server_of(kind, work / "two", 2)
        self._has_primary = threading.Event()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as opened:
            for server in (self.primary, self._replica):
                opened.enter_context(server)
                plugin = [] if server.installed.is_mysql or server.installed.root is not None else [BLACKHOLE]
                run_sql(server, [*plugin, "SET SESSION sql_log_bin = 0", *self._tables])
            follow(self._replica, self.primary)
            self._has_primary.set()
            self._opened = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def connect(self) -> Connection:
        """Open a session on the primary; without one there is none."""
        if not self._has_primary.is_set():
            raise pymysql.OperationalError(2003, "no server takes writes now")
        return self.primary.connect()

    def crash(self, chance: random.Random) -> None:
        """The primary dies, and comes back."""
        self._has_primary.clear()  # what writers prepare from now on is theirs to decide
        self.primary.kill()
        self.primary.start()
        decide_prepared(self.primary, chance)
        self._has_primary.set()
        follow(self._replica, self.primary)  # at its new port

    def fail_over(self) -> None:
        """The primary dies for good, when its replica has all of it."""
        self._has_primary.clear()
        wait_until_at(self._replica, self.primary.gtid_position())
        self.primary.kill()
        promote(self._replica)
        self.primary, self._replica = self._replica, self.primary
        self._has_primary.set()

    def repair(self) -> None:
        """Let the server that died be the replica of its successor."""
        self._replica.start()
        follow(self._replica, self.primary)


def decide_prepared(server: DatabaseServer, chance: random.Random) -> None:
    """Commit or roll back what was prepared when a server died: it waits for somebody to decide."""
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("XA RECOVER CONVERT XID" if server.installed.is_mysql else "XA RECOVER FORMAT='SQL'")
        for *_, branch in cursor.fetchall():
            cursor.execute(f"XA {chance.choice(('COMMIT', 'ROLLBACK'))} {branch}")


def soak_arguments(description: str | None) -> argparse.ArgumentParser:
    """A parser of what all soaks take."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=None, help="default: another one each time")
    parser.add_argument("--work", type=Path, default=None, help="kept afterwards; default: a temporary directory")
    return parser


def each_soak(
    arguments: argparse.Namespace, names: Iterable[str]
) -> Iterator[tuple[str, Path, int, Callable[[str], None]]]:
    """Soaks one after the other: each one's name, its directory, the seed, and a function that prints what happens."""
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(1 << 31)
    for name in names:
        started = time.monotonic()

        def tell(what: str, name: str = name, started: float = started) -> None:
            sys.stdout.write(f"{name}, {time.monotonic() - started:.0f} s: {what}\n")
            sys.stdout.flush()

        tell(f"seed {seed}")
        with contextlib.ExitStack() as stack:
            work = arguments.work and arguments.work / name
            work = work or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="binlog-stream-soak-")))
            work.mkdir(parents=True, exist_ok=True)
            yield name, work, seed, tell
