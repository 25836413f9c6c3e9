"""`binlog-stream repack --follow` beside a MariaDB server under load, killed and started again."""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pymysql
import pytest

from binlog_connector.following.watch import DirectoryWatch
from binlog_format import open_log
from binlog_format.errors import BinlogError
from binlog_format.innodb.reader import InnodbLog
from binlog_format.source_file import LocalDirectory
from binlog_lab.demo.mariadb.installed import DatabaseServerError, find_program
from tests.format.classic.logs import groups_of, open_classic
from tests.servers import mariadb_server_in
from tests.streaming.test_repack import expected_groups, packed_groups

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_lab.demo.mariadb.server import MariaDbServer

pytestmark = pytest.mark.server

PROGRAM = Path(sys.executable).with_name("binlog-stream")
WAIT_SECONDS = 300.0


@contextlib.contextmanager
def following(server: MariaDbServer, target: Path) -> Iterator[subprocess.Popen[str]]:
    """The program as a process of its own; killed at the end if it still runs."""
    process = subprocess.Popen(
        [
            *(PROGRAM, "repack", server.binlog_directory, "--to", target, "--follow"),
            *("--max-binlog-size", "1M", "--state-interval", "64K", "--cache-size", "8K", "--checkpoint-every", "0.05"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


class Load:
    """Connections that change two tables, each in a thread of its own, until stopped or the server is gone."""

    def __init__(self, server: MariaDbServer, connections: int) -> None:
        self._server = server
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(connections)]

    def __enter__(self) -> Load:
        with self._server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE IF NOT EXISTS shop")
            cursor.execute(
                "CREATE TABLE IF NOT EXISTS shop.orders (id INT PRIMARY KEY AUTO_INCREMENT, v TEXT) ENGINE=InnoDB"
            )
            cursor.execute(
                "CREATE TABLE IF NOT EXISTS shop.notes (id INT PRIMARY KEY AUTO_INCREMENT, v TEXT) ENGINE=Aria"
            )
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self, number: int) -> None:
        rng = random.Random(number)
        with (
            contextlib.suppress(pymysql.err.OperationalError, pymysql.err.InterfaceError),  # the server is gone
            self._server.connect(database="shop", autocommit=False) as connection,
            connection.cursor() as cursor,
        ):
            transaction = 0
            while not self._stop.is_set():
                transaction += 1
                self._transaction(connection, cursor, rng, f"{number}-{transaction}")

    def _transaction(
        self,
        connection: pymysql.connections.Connection,
        cursor: pymysql.cursors.Cursor,
        rng: random.Random,
        name: str,
    ) -> None:
        size = rng.choice([10, 100, 20_000])
        if rng.random() < 0.1:
            cursor.execute(f"XA START '{name}'")
            cursor.execute("INSERT INTO orders (v) VALUES (REPEAT('x', %s))", (size,))
            cursor.execute(f"XA END '{name}'")
            cursor.execute(f"XA PREPARE '{name}'")
            cursor.execute(f"XA {rng.choice(['COMMIT', 'ROLLBACK'])} '{name}'")
            return
        cursor.execute("INSERT INTO orders (v) VALUES (REPEAT('o', %s)), ('second')", (size,))
        if rng.random() < 0.2:
            cursor.execute("INSERT INTO notes (v) VALUES (REPEAT('n', %s))", (size,))
        cursor.execute("DELETE FROM orders WHERE id < %s ORDER BY id LIMIT 3", (cursor.lastrowid - 200,))
        if rng.random() < 0.1:
            connection.rollback()
        else:
            connection.commit()


def last_commit(server: MariaDbServer) -> str:
    """The server's position after one more commit.

    Load may end with XA PREPARE and XA ROLLBACK, whose GTIDs a classic log has and an `.ibb` log has not
    (docs/formats/innodb.md, "XA"): a target that has everything would stay one or two GTIDs before the server.
    """
    with server.connect(database="shop") as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO orders (v) VALUES ('the last one')")
    return server.gtid_position()


def visible_position(target: Path) -> str:
    """The last GTID of each domain that a reader of the target sees now."""
    log = InnodbLog(LocalDirectory(str(target)))
    return str(log.span(log.start_position()).gtids)


def wait_for_position(target: Path, position: str, process: subprocess.Popen[str]) -> None:
    """Wait until a reader of the live target sees everything up to *position*."""
    deadline = time.monotonic() + WAIT_SECONDS
    target.mkdir(exist_ok=True)
    with DirectoryWatch(target) as watch:
        while True:
            seen = "nothing"
            with contextlib.suppress(BinlogError):  # the target's first file is not there yet
                seen = visible_position(target)
            if seen == position:
                return
            assert time.monotonic() < deadline, f"the target is at {seen}, the server at {position}"
            assert process.poll() is None, process.communicate()[0]
            watch.wait(1)


def end_in_order(process: subprocess.Popen[str]) -> str:
    """SIGTERM; gives what the program printed."""
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == 0, output
    return output


def test_live_target_reaches_the_server_while_it_works(mariadb_server: MariaDbServer, tmp_path: Path) -> None:
    target = tmp_path / "ibb"
    with following(mariadb_server, target) as process:
        with Load(mariadb_server, 3), mariadb_server.connect() as connection, connection.cursor() as cursor:
            for _ in range(3):
                cursor.execute("FLUSH BINARY LOGS")
                position = mariadb_server.gtid_position()
                assert position
        position = last_commit(mariadb_server)
        wait_for_position(target, position, process)
        output = end_in_order(process)
    assert "event groups" in output
    assert position in output
    packed = packed_groups(target)
    assert packed == expected_groups(groups_of(open_classic(mariadb_server.binlog_directory).blocks()))
    assert packed[-1][0] == position


@pytest.mark.thorough
@pytest.mark.slow
def test_killed_again_and_again_it_neither_loses_nor_doubles(mariadb_server: MariaDbServer, tmp_path: Path) -> None:
    """SIGKILL at any moment, while the server goes on working."""
    target = tmp_path / "ibb"
    rng = random.Random(12)
    with Load(mariadb_server, 2):
        for _ in range(8):
            with following(mariadb_server, target) as process:
                # A random moment after it has begun is what this test is about.
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(0.4 + rng.random())
                assert process.poll() is None, process.communicate()[0]
                process.kill()
    with following(mariadb_server, target) as process:
        wait_for_position(target, last_commit(mariadb_server), process)
        end_in_order(process)
    source = open_classic(mariadb_server.binlog_directory)
    assert packed_groups(target) == expected_groups(groups_of(source.blocks()))


def test_killed_server_leaves_a_log_that_goes_on(mariadb_server: MariaDbServer, tmp_path: Path) -> None:
    """What a killed server has not finished never comes; what it writes after its restart does."""
    target = tmp_path / "ibb"
    with following(mariadb_server, target) as process:
        with Load(mariadb_server, 3), mariadb_server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("CREATE TABLE shop.large (id INT PRIMARY KEY AUTO_INCREMENT, v LONGTEXT)")
            for _ in range(4):
                cursor.execute("INSERT INTO shop.large (v) VALUES (REPEAT('l', 3000000))")
            mariadb_server.kill()
        mariadb_server.start()
        with Load(mariadb_server, 1), mariadb_server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("INSERT INTO shop.large (v) VALUES ('after the restart')")
        wait_for_position(target, last_commit(mariadb_server), process)
        end_in_order(process)
    source = open_classic(mariadb_server.binlog_directory)
    packed = packed_groups(target)
    assert packed == expected_groups(groups_of(source.blocks()))
    assert len({gtid for gtid, _ in packed}) == len(packed)


def test_classic_log_of_a_running_server_is_read_directly(mariadb_server: MariaDbServer) -> None:
    with mariadb_server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE d")
        cursor.execute("CREATE TABLE d.t (id INT PRIMARY KEY)")
        cursor.execute("INSERT INTO d.t VALUES (1), (2)")
        with open_log(str(mariadb_server.binlog_directory)) as log:
            span = log.span(log.start_position())
            assert str(span.gtids) == mariadb_server.gtid_position()
            cursor.execute("INSERT INTO d.t VALUES (3)")
            assert str(log.span(span.end).gtids) == mariadb_server.gtid_position()
            assert log.span(span.end).groups == 1


def test_missing_server_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(DatabaseServerError, match="apt-get install mariadb-server") as raised:
        find_program("a-server-that-nobody-has")
    assert raised.value.condition == "BINLOG_SERVER.NOT_FOUND"


def test_server_that_does_not_start_says_why(mariadb_server: MariaDbServer, tmp_path: Path) -> None:
    del mariadb_server  # only to be skipped with the others where there is none
    broken = mariadb_server_in(tmp_path / "broken", options=["--no-such-option"])
    with pytest.raises(DatabaseServerError, match=r"NOT_STARTED\].*no-such-option"):
        broken.start()
