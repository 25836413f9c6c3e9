"""Four writers on hot rows of a live server: `storm(server)`."""

from __future__ import annotations

import contextlib
import random
import threading
from typing import TYPE_CHECKING, Protocol

import pymysql

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pymysql.connections import Connection
    from pymysql.cursors import Cursor

WRITERS = 4
HOT_ROWS = 60
ROWS = 1800
TABLES = (
    "CREATE DATABASE shop",
    "CREATE TABLE shop.items (id INT PRIMARY KEY, v INT NOT NULL, t VARCHAR(40))",
    f"INSERT INTO shop.items SELECT seq * 10, 0, CONCAT('row ', seq) FROM shop.seq_1_to_{ROWS}",
    "CREATE TABLE shop.notes (a INT, t VARCHAR(40))",
    "INSERT INTO shop.notes SELECT seq MOD 50, 'note' FROM shop.seq_1_to_200",
)
# Deadlock, lock wait timeout, a key that is there, a branch that was rolled back, one that a crash has left, a table
# that was altered: the writer goes on.
LOST_TO_OTHERS = (1213, 1205, 1062, 1402, 1614, 1440, 1412)
SERVER_IS_GONE = (0, 2003, 2006, 2013)
RECONNECT_S = 0.1


class Connects(Protocol):
    """A server, or what stands for the one that takes writes now."""

    def connect(self) -> Connection:
        """A new session; `with` closes it."""


@contextlib.contextmanager
def working(work: Callable[[int], None], count: int, stop: threading.Event) -> Iterator[None]:
    """Threads at work, which end when *stop* is set; what one of them raised is raised in the end."""
    failures: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:  # raised again below, on the thread of the test
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]


@contextlib.contextmanager
def storm(
    server: Connects,
    *,
    pause: float = 0.0,
    survives_crashes: bool = False,
    turns: threading.Semaphore | None = None,
) -> Iterator[list[int]]:
    """Writers at work; gives how many transactions each has ended.

    Args:
        server: With the tables of `TABLES`.
        pause: Seconds between the transactions of a writer.
        survives_crashes: Writers that lose their server wait for it to come back.
        turns: `WRITERS` of them: each transaction takes one, and who has all has no transaction beside it.
    """
    stop = threading.Event()
    turns = turns or threading.Semaphore(WRITERS)
    counts = [0] * WRITERS

    def work(number: int) -> None:
        numbers = random.Random(number)
        while not stop.is_set():
            try:
                write(number, numbers)
            except pymysql.MySQLError as error:
                if not (survives_crashes and error.args[0] in SERVER_IS_GONE):
                    raise
                stop.wait(RECONNECT_S)

    def write(number: int, numbers: random.Random) -> None:
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SET innodb_lock_wait_timeout = 1")
            while not stop.wait(pause):
                with turns:
                    _transaction(cursor, numbers, f"'w{number}-{counts[number]}'")
                counts[number] += 1

    with working(work, WRITERS, stop):
        yield counts


def _transaction(cursor: Cursor, numbers: random.Random, branch: str) -> None:
    is_xa = numbers.random() < 0.1
    try:
        cursor.execute(f"XA START {branch}" if is_xa else "BEGIN")
        for _ in range(numbers.choice((1, 1, 2, 5))):
            cursor.execute(_statement(numbers))
        if is_xa:
            cursor.execute(f"XA END {branch}")
            cursor.execute(f"XA PREPARE {branch}")
        cursor.execute(f"XA COMMIT {branch}" if is_xa else numbers.choice(("COMMIT", "COMMIT", "COMMIT", "ROLLBACK")))
    except pymysql.MySQLError as error:
        if error.args[0] not in LOST_TO_OTHERS:
            raise
        with contextlib.suppress(pymysql.MySQLError):
            cursor.execute(f"XA END {branch}" if is_xa else "ROLLBACK")
        with contextlib.suppress(pymysql.MySQLError):
            cursor.execute(f"XA ROLLBACK {branch}" if is_xa else "ROLLBACK")


def _statement(numbers: random.Random) -> str:
    # Hot rows are everywhere in the table.
    row = 10 * (1 + numbers.randrange(HOT_ROWS) * (ROWS // HOT_ROWS))
    value = numbers.randrange(1 << 30)
    return numbers.choice(
        (
            f"UPDATE shop.items SET v = {value}, t = 'changed {value}' WHERE id = {row}",
            f"UPDATE shop.items SET v = v + 1 WHERE id BETWEEN {row} AND {row + 30}",
            f"UPDATE shop.items SET id = {10 * numbers.randrange(ROWS) + 5} WHERE id = {row}",
            f"DELETE FROM shop.items WHERE id = {row}",
            f"REPLACE INTO shop.items (id, v, t) VALUES ({row}, {value}, 'new')",
            f"INSERT IGNORE INTO shop.items (id, v, t) VALUES ({10 * numbers.randrange(ROWS) + 7}, {value}, 'between')",
            f"UPDATE shop.notes SET t = 'changed {value}' WHERE a = {value % 50} LIMIT 2",
            f"INSERT INTO shop.notes VALUES ({value % 50}, 'note')",
            f"DELETE FROM shop.notes WHERE a = {value % 50} LIMIT 1",
        )
    )
