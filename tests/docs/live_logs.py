"""The two live logs on which the documents' examples must run: `demo_log`, `mariadb_log`."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_lab.demo.mariadb.load import ServerLoad
from binlog_lab.demo.processes import ReportingProcess
from binlog_lab.demo.real_log import find_real_log
from binlog_lab.demo.shop import DATABASE, TABLES
from tests.servers import mariadb_server_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ROWS = 4000
"""Row changes of one piece of work on the tables: hundreds of transactions."""
NAMED_SEQNO = 575
"""Of the transaction that the documents' examples name; a busy server reaches `ROWS` with fewer, but larger ones."""
PATIENCE_S = 600.0
"""For what comes in seconds: on a machine with too much to do, Spark alone has taken two minutes to begin."""


@dataclass(frozen=True, slots=True)
class LiveLog:
    """A log that somebody writes, with changes of `shop.orders`.

    Attributes:
        format: `innodb` or `classic`.
        work: Commits a few hundred transactions more, over a second or two; returns when they are in the files.
    """

    directory: Path
    format: str
    work: Callable[[], None]


@contextmanager
def demo_log(directory: Path) -> Iterator[LiveLog]:
    """What `make demo` writes, by the same process: a real server's log, repacked as `.ibb`, and then its workload."""
    real = find_real_log()
    assert real is not None

    def write(*more: object) -> None:
        arguments = [
            "--directory",
            directory / "log",
            "--expected",
            directory / "truth",
            "--rows",
            ROWS,
            "--seconds",
            2,
        ]
        with ReportingProcess(
            "binlog_lab.demo.live_writer",
            [str(argument) for argument in (*arguments, *more)],
            log_file=directory / "writer.log",
            listener=lambda _: None,
        ) as process:
            process.wait_for_first_report()
            process.wait()

    write("--real", real.directory)
    yield LiveLog(directory / "log", "innodb", write)


@contextmanager
def mariadb_log(directory: Path) -> Iterator[LiveLog]:
    """A MariaDB server on the same tables, under load now and then; a test without one is skipped."""
    with mariadb_server_in(directory / "server") as server:
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4")
            for spec in TABLES:
                cursor.execute(spec.create_statement())
        load = ServerLoad(server.connect, connections=2)
        load.fill()

        def work() -> None:
            wanted = sum(load.changes().values()) + ROWS
            deadline = time.monotonic() + PATIENCE_S
            while sum(load.changes().values()) < wanted:
                assert time.monotonic() < deadline, "the server is too slow"
                load.start(1.0)
                load.join()

        while int(server.gtid_position().rpartition("-")[2]) < NAMED_SEQNO:
            work()
        yield LiveLog(server.binlog_directory, "classic", work)
