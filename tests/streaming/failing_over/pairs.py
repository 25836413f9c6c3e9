"""A primary under load and its replica, of either vendor, and what the topics of a job have of their rows."""

from __future__ import annotations

import random
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pymysql
import pytest

from binlog_connector.following.log_end import end_of_log
from binlog_connector.following.switching import Ignored, OldLog, find_switch
from binlog_connector.following.watched import WatchedLog
from binlog_format.errors import SwitchError
from binlog_lab.demo.mariadb.server import MariaDbServer
from binlog_lab.demo.proof.topics import read_topic
from binlog_streaming.server.session import DEADLOCK, LOCK_WAIT_TIMEOUT, number_of
from tests.program import run_program
from tests.servers import ServerKind, server_in
from tests.streaming.snapshot.live import run_sql

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

    from binlog_connector.following.offsets import SourceOffset
    from binlog_lab.demo.mariadb.server import DatabaseServer

TABLES = ("items", "orders")
SCHEMA = [
    "CREATE DATABASE shop",
    "CREATE TABLE shop.items (id INT PRIMARY KEY, n INT NOT NULL, v VARCHAR(40))",
    "CREATE TABLE shop.orders (a INT, b VARCHAR(10), n INT NOT NULL, PRIMARY KEY (a, b))",
]
TABLES_JOB = """
checkpoint = "checkpoint"
[source]
path = "{log}"
[[tables]]
select = 'shop\\..*'
mode = ["mirror", "changelog"]
target = "{{mode}}/{{table}}"
[sink]
directory = "tables"
"""
TOPICS_JOB = """
checkpoint = "topics"
[source]
path = "{log}"
[sink]
kind = "kafka"
bootstrap_servers = "{servers}"
topic_prefix = "{prefix}"
partitions = 3
"""
_WAIT_S = 60
_KEYS = 300


def server_of(kind: ServerKind, folder: Path, server_id: int, *options: str) -> DatabaseServer:
    """A server that can be primary and replica, with GTIDs; it is not started yet."""
    gtids = ["--gtid-mode=ON", "--enforce-gtid-consistency=ON"] if kind is ServerKind.MYSQL else ["--log-slave-updates"]
    return server_in(kind, folder, server_id=server_id, options=[*gtids, *options])


def follow(replica: DatabaseServer, primary: DatabaseServer) -> None:
    """Let a server replicate another one, from the last GTID on that it has; one that replicates already, too."""
    if isinstance(primary, MariaDbServer):
        run_sql(primary, ["GRANT REPLICATION SLAVE ON *.* TO replica@'127.0.0.1' IDENTIFIED BY 'secret'"])
        source = f"MASTER_HOST='127.0.0.1', MASTER_PORT={primary.port}, MASTER_USER='replica', MASTER_PASSWORD='secret'"
        start = ["SET GLOBAL gtid_slave_pos = @@gtid_current_pos"] if replica.gtid_position() else []
        source += ", MASTER_CONNECT_RETRY=1"
        run_sql(replica, ["STOP SLAVE", *start, f"CHANGE MASTER TO {source}, MASTER_USE_GTID=slave_pos", "START SLAVE"])
        return
    run_sql(
        primary,
        [
            "CREATE USER IF NOT EXISTS replica@'127.0.0.1' IDENTIFIED BY 'secret'",
            "GRANT REPLICATION SLAVE ON *.* TO replica@'127.0.0.1'",
        ],
    )
    source = f"SOURCE_HOST='127.0.0.1', SOURCE_PORT={primary.port}, SOURCE_USER='replica', SOURCE_PASSWORD='secret'"
    change = f"CHANGE REPLICATION SOURCE TO {source}, SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1"
    run_sql(replica, ["STOP REPLICA", change, "START REPLICA"])


def wait_until_at(replica: DatabaseServer, gtids: str) -> None:
    """Until a replica has executed transactions."""
    is_mysql = replica.installed.is_mysql
    query = "SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, %s)" if is_mysql else "SELECT MASTER_GTID_WAIT(%s, %s)"
    with replica.connect() as connection, connection.cursor() as cursor:
        cursor.execute(query, (gtids, _WAIT_S))
        assert cursor.fetchone() == (0,), f"not at {gtids}: {replica.gtid_position()}"


def purge(server: DatabaseServer) -> None:
    """Let a server forget all of its log before now."""
    run_sql(server, ["FLUSH BINARY LOGS"])
    *older, newest = sorted(server.binlog_directory.glob("*-bin.0*"))
    while any(file.exists() for file in older):  # the server may still need the last one for a moment
        run_sql(server, [f"PURGE BINARY LOGS TO '{newest.name}'"])


def promote(replica: DatabaseServer) -> None:
    """Let a replica take writes."""
    name = "REPLICA" if replica.installed.is_mysql else "SLAVE"
    run_sql(replica, [f"STOP {name}", f"RESET {name} ALL"])


class Load:
    """Writers on a server, until they are stopped or the server is gone; `n` of a row grows by 1 with each change."""

    def __init__(self, server: DatabaseServer, seed: int) -> None:
        self._server = server
        self._stopped = threading.Event()
        self._committed = threading.Semaphore(0)
        self._writers = [threading.Thread(target=self._write, args=(random.Random(seed * 10 + n),)) for n in (1, 2)]

    def __enter__(self) -> Self:
        for writer in self._writers:
            writer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for writer in self._writers:
            writer.join()

    def wait(self, transactions: int) -> None:
        """Until so many more have been committed."""
        for _ in range(transactions):
            assert self._committed.acquire(timeout=_WAIT_S), "the writers have stopped"

    def _write(self, chance: random.Random) -> None:
        try:
            with self._server.connect(autocommit=False) as connection, connection.cursor() as cursor:
                while not self._stopped.is_set():
                    try:
                        for _ in range(chance.randint(1, 6)):
                            cursor.execute(*_statement(chance, chance.randrange(_KEYS)))
                        connection.commit()
                    except pymysql.OperationalError as error:
                        if number_of(error) not in (DEADLOCK, LOCK_WAIT_TIMEOUT):
                            raise
                        connection.rollback()  # the other writer has the rows
                    else:
                        self._committed.release()
        except (pymysql.MySQLError, OSError):
            self._stopped.set()  # the server was killed


def _statement(chance: random.Random, key: int) -> tuple[str, tuple[object, ...]]:
    kind = chance.randrange(5)
    if kind == 0:
        return "DELETE FROM shop.items WHERE id = %s", (key,)
    if kind == 1:
        row = "INSERT INTO shop.orders VALUES (%s, %s, 1) ON DUPLICATE KEY UPDATE n = n + 1"
        return row, (key % 7, f"o{key}")
    change = "INSERT INTO shop.items VALUES (%s, 1, %s) ON DUPLICATE KEY UPDATE n = n + 1"
    return change, (key, f"v{chance.random()}")


def rows_of(server: DatabaseServer, table: str) -> list[tuple[Any, ...]]:
    """All rows of a table, by key."""
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM shop.{table} ORDER BY 1, 2")
        return list(cursor.fetchall())


@dataclass(frozen=True, slots=True)
class Topic:
    """The messages of a table's topic.

    Attributes:
        rows: What they leave of the table, by key.
        changes: Number of messages, without tombstones.
        faults: Changes that do not begin where the one before of their key ended, and keys in two partitions.
    """

    rows: list[tuple[Any, ...]]
    changes: int
    faults: list[str]


def read_changes(servers: str, topic: str, key_columns: int) -> Topic:
    """Follow each key through its topic: a change that is lost, or there twice, breaks the chain."""
    now: dict[tuple[Any, ...], dict[str, Any] | None] = {}
    partitions: dict[tuple[Any, ...], int] = {}
    faults: list[str] = []
    count = 0
    for change in read_topic(servers, topic):
        count += 1
        image = change.after or change.before
        assert image is not None
        key = tuple(image.values())[:key_columns]
        if now.get(key) != change.before:
            faults.append(f"{key} at {change.gtid}: {now.get(key)} was the last, {change.before} is the one before")
        if partitions.setdefault(key, change.partition) != change.partition:
            faults.append(f"{key} at {change.gtid}: in partition {change.partition}, and {partitions[key]} before")
        now[key] = change.after
    rows = sorted(tuple(row.values()) for row in now.values() if row is not None)
    return Topic(rows, count, faults)


def ran(folder: Path, *command: object, password: str = "") -> str:
    """Output of a command, which must end well."""
    done = run_program(*command, cwd=folder, environment={"BINLOG_STREAM_PASSWORD": password})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


INSERT = "INSERT INTO shop.items VALUES ({}, 1, 'a')"
NOTHING_IGNORED = Ignored()


class Pair:
    """A primary and its replica, and a job's place in the primary's log."""

    def __init__(self, primary: DatabaseServer, replica: DatabaseServer) -> None:
        self.primary, self.replica = primary, replica

    def write(self, *keys: int) -> None:
        run_sql(self.primary, [INSERT.format(key) for key in keys])

    def catch_up(self) -> None:
        wait_until_at(self.replica, self.primary.gtid_position())

    def stop_replica(self) -> None:
        run_sql(self.replica, ["STOP REPLICA"])

    def place(self) -> SourceOffset:
        with WatchedLog(str(self.primary.binlog_directory)) as log:
            return end_of_log(log)

    def found(self, offset: SourceOffset, *, has_old: bool = True, ignored: Ignored = NOTHING_IGNORED) -> SourceOffset:
        with ExitStack() as opened:
            new = opened.enter_context(WatchedLog(str(self.replica.binlog_directory)))
            old = opened.enter_context(WatchedLog(str(self.primary.binlog_directory)))
            return find_switch(new, offset, ignored=ignored, old=OldLog(old.log, offset.position) if has_old else None)

    def refused(self, offset: SourceOffset, *, has_old: bool = True) -> SwitchError:
        with pytest.raises(SwitchError) as caught:
            self.found(offset, has_old=has_old)
        return caught.value
