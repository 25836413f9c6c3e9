"""Rows, ALTER TABLE and huge transactions beside a storm of small ones: `heavy(server, ...)`."""

from __future__ import annotations

import contextlib
import random
import threading
from collections import Counter
from typing import TYPE_CHECKING

import pymysql

from tests.streaming.snapshot.live import of_mysql
from tests.streaming.snapshot.storm import LOST_TO_OTHERS, RECONNECT_S, SERVER_IS_GONE, working

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pymysql.cursors import Cursor

    from tests.soak.parts import ServerPair

BULKY = tuple(f"bulk{number}" for number in range(1, 7))
"""Six tables; with the two of the storm they are eight."""
COLUMNS = ("id", "v", "t")
"""Those that the tables have from the beginning."""
BULKY_TABLES = tuple(
    f"CREATE TABLE shop.{name} (id INT PRIMARY KEY, v INT NOT NULL, t VARCHAR(200), at DATETIME(6) DEFAULT NOW(6))"
    for name in BULKY
)
KEYS = 8000
ROWS = 100
"""Of an ordinary transaction."""
HUGE = 0.02
"""Share of the transactions that insert, or change, all rows of a table, three times."""
ALTERS = 0.03
COLUMNS_MAX = 10
"""That are added to a table before they are dropped again."""
WIDTHS = 5000
"""A text column gets wider, up to so much."""


@contextlib.contextmanager
def heavy(server: ServerPair, *, pause: float, turns: threading.Semaphore, seed: int) -> Iterator[Counter[str]]:
    """A writer at work; gives how many statements of each kind were committed.

    Args:
        server: With `BULKY_TABLES`.
        pause: Seconds between transactions.
        turns: Of the storm; a transaction takes one.
    """
    stop, counts = threading.Event(), Counter[str]()
    numbers = random.Random(seed)

    def work(_: int) -> None:
        while not stop.is_set():
            try:
                write()
            except pymysql.MySQLError as error:
                if error.args[0] not in (*SERVER_IS_GONE, *LOST_TO_OTHERS):
                    raise
                stop.wait(RECONNECT_S)

    def write() -> None:
        with server.connect() as connection, connection.cursor() as cursor:
            if server.primary.installed.is_mysql:
                cursor.execute("SET cte_max_recursion_depth = 1000000")
            while not stop.wait(pause):
                with turns:
                    counts[_transaction(cursor, numbers, is_mysql=server.primary.installed.is_mysql)] += 1

    with working(work, 1, stop):
        yield counts


def _transaction(cursor: Cursor, numbers: random.Random, *, is_mysql: bool) -> str:
    """Run one; gives its kind."""
    table, value = f"shop.{numbers.choice(BULKY)}", numbers.randrange(1 << 20)
    chance = numbers.random()
    if chance < ALTERS:
        cursor.execute(f"ALTER TABLE {table} {_alteration(cursor, table, numbers)}")
        return "ALTER TABLE"
    is_huge = chance < ALTERS + HUGE
    cursor.execute("BEGIN")
    for part in range(3):
        first, rows = (0, KEYS) if is_huge else (numbers.randrange(KEYS - ROWS), ROWS)
        for statement in (
            of_mysql(_statement(table, first, rows, value + part))
            if is_mysql
            else (_statement(table, first, rows, value + part),)
        ):
            cursor.execute(statement)
    cursor.execute("COMMIT")
    return "huge transaction" if is_huge else "transaction"


def _statement(table: str, first: int, rows: int, value: int) -> str:
    match value % 4:
        case 0:
            return f"DELETE FROM {table} WHERE id > {first} AND id <= {first + rows // 2}"
        case 1:
            changed = f"v = v + 1, t = CONCAT('changed ', {value})"
            return f"UPDATE {table} SET {changed} WHERE id BETWEEN {first} AND {first + rows}"
        case _:
            return (
                f"INSERT INTO {table} (id, v, t) SELECT {first} + seq, {value}, REPEAT('x', seq MOD 100)"
                f" FROM shop.seq_1_to_{rows} ON DUPLICATE KEY UPDATE v = v + {1 + value % 7}"
            )


def _alteration(cursor: Cursor, table: str, numbers: random.Random) -> str:
    database, _, name = table.partition(".")
    cursor.execute(
        "SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND table_name = %s"
        " AND column_name LIKE 'more%%'",
        (database, name),
    )
    added = [column for (column,) in cursor.fetchall()]
    if len(added) > numbers.randrange(COLUMNS_MAX):
        return f"DROP COLUMN {numbers.choice(sorted(added))}"
    if numbers.random() < 0.3:
        return f"MODIFY t VARCHAR({200 + numbers.randrange(WIDTHS)})"
    number = numbers.randrange(1 << 30)
    return f"ADD COLUMN more{number} INT NOT NULL DEFAULT {number}"
