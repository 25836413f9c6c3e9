"""The binlog file that peers decode: `server_log()`, made by a real MariaDB server once, and kept.

The workload is sysbench's `oltp_write_only`: a transaction updates the indexed column of a row and the text of another,
then deletes a row and inserts it anew. Several connections run it at the same time.
"""

from __future__ import annotations

import json
import random
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.logs.datasets import DATA

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_lab.demo.mariadb.server import MariaDbServer

TRANSACTIONS = 120_000
CHANGES_PER_TRANSACTION = 4
ROWS = 10_000
CONNECTIONS = 4
FILE_NAME = "mariadb-bin.000001"
_VERSION = 1
"""Counts up when the workload below changes."""

_TRANSACTIONS_PER_PACKET = 20
_LOAD_ROWS = 500
_OPTIONS = (
    "--max-binlog-size=1G",  # all of it in one file
    "--binlog-annotate-row-events=ON",
    "--sync-binlog=0",
    "--innodb-flush-log-at-trx-commit=0",
    "--transaction-isolation=READ-COMMITTED",
)
_CREATE = (
    "CREATE TABLE sbtest1 (id INTEGER NOT NULL AUTO_INCREMENT, k INTEGER DEFAULT 0 NOT NULL, "
    "c CHAR(120) DEFAULT '' NOT NULL, pad CHAR(60) DEFAULT '' NOT NULL, PRIMARY KEY (id), KEY k_1 (k)) "
    "ENGINE = InnoDB CHARACTER SET utf8mb4"
)


@dataclass(frozen=True, slots=True)
class ServerLog:
    """The file and what is in it.

    Attributes:
        server: Version of the server that wrote it.
        size: Bytes.
    """

    path: Path
    server: str
    changes: int
    size: int


def server_log(transactions: int = TRANSACTIONS) -> ServerLog:
    """The file; a server is started and makes it if it is not there, which takes a minute or two.

    Raises:
        DatabaseServerError: No server is installed.
    """
    directory = DATA / f"server-{_VERSION}-{transactions}"
    about = directory / "about.json"
    if not about.exists():
        partial = directory.with_name(f"{directory.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        (partial / "about.json").write_text(json.dumps(_write(partial, transactions)))
        shutil.rmtree(directory, ignore_errors=True)
        partial.rename(directory)
    path = directory / FILE_NAME
    return ServerLog(
        path, json.loads(about.read_text())["server"], transactions * CHANGES_PER_TRANSACTION, path.stat().st_size
    )


def _write(directory: Path, transactions: int) -> dict[str, str]:
    from binlog_lab.demo.mariadb.server import MariaDbServer  # pymysql is needed to make the file alone

    with MariaDbServer(directory / "server", options=_OPTIONS) as server:
        version = server.version
        _load(server)
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            running = [
                pool.submit(_connection, server, number, transactions // CONNECTIONS) for number in range(CONNECTIONS)
            ]
            for one in running:
                one.result()
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("FLUSH BINARY LOGS")  # closes the file as a rotation does
        shutil.copyfile(server.binlog_directory / FILE_NAME, directory / FILE_NAME)
    shutil.rmtree(directory / "server")
    return {"server": version}


def _load(server: MariaDbServer) -> None:
    numbers = random.Random(0)
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE sbtest")
        cursor.execute("USE sbtest")
        cursor.execute(_CREATE)
        for first in range(1, ROWS + 1, _LOAD_ROWS):
            rows = (
                f"({row},{numbers.randint(1, ROWS)},'{_digits(numbers, 10)}','{_digits(numbers, 5)}')"
                for row in range(first, first + _LOAD_ROWS)
            )
            cursor.execute("INSERT INTO sbtest1 (id, k, c, pad) VALUES " + ",".join(rows))
        cursor.execute("RESET MASTER")


def _connection(server: MariaDbServer, number: int, transactions: int) -> None:
    # Each connection has rows of its own, so that none waits for another, or has to begin again.
    numbers = random.Random(number + 1)
    with server.connect(database="sbtest", multi_statements=True) as connection:
        for first in range(0, transactions, _TRANSACTIONS_PER_PACKET):
            count = min(_TRANSACTIONS_PER_PACKET, transactions - first)
            with connection.cursor() as cursor:
                cursor.execute(";".join(_transaction(numbers, number) for _ in range(count)))
                while cursor.nextset():
                    pass


def _transaction(numbers: random.Random, connection: int) -> str:
    def row() -> int:
        return numbers.randrange(ROWS // CONNECTIONS) * CONNECTIONS + connection + 1

    again = row()
    values = f"({again}, {numbers.randint(1, ROWS)}, '{_digits(numbers, 10)}', '{_digits(numbers, 5)}')"
    return ";".join(
        (
            "BEGIN",
            f"UPDATE sbtest1 SET k=k+1 WHERE id={row()}",
            f"UPDATE sbtest1 SET c='{_digits(numbers, 10)}' WHERE id={row()}",
            f"DELETE FROM sbtest1 WHERE id={again}",
            f"INSERT INTO sbtest1 (id, k, c, pad) VALUES {values}",
            "COMMIT",
        )
    )


def _digits(numbers: random.Random, groups: int) -> str:
    # sysbench's texts: groups of eleven digits, joined by dashes.
    return "-".join(f"{numbers.randrange(10**11):011d}" for _ in range(groups))
