"""A live MariaDB with tables older than its log: its chunks, and a job that is cut off, make tables equal SELECT."""

from __future__ import annotations

import random
import threading
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import pymysql
import pytest

from binlog_connector.crash_points import watched
from binlog_connector.schema.snapshot_marks import Purpose
from binlog_streaming.job_state.record_keeper import RecordKeeper
from binlog_streaming.settings import Begin, Job, Sink, Source, TableFormat, TableRule
from binlog_streaming.snapshot.shadow import ShadowEngine
from binlog_streaming.snapshot.source_table import read_table
from binlog_streaming.snapshot.table_snapshot import RowsLockedError, TableSnapshot
from tests.faults.processes import Cut, CutOff
from tests.servers import mariadb_server_in
from tests.streaming.replay_runs import run
from tests.streaming.snapshot.live import BLACKHOLE, run_sql, session_on
from tests.streaming.snapshot.reading.test_join import forget_earlier_logs
from tests.streaming.tables.jobs.test_live_tables import Live
from tests.truth.live.tables import TABLES, LiveTable, column_infos, true_rows

if TYPE_CHECKING:
    from pathlib import Path

    from pymysql.cursors import Cursor

    from binlog_lab.demo.mariadb.server import MariaDbServer

pytestmark = [pytest.mark.server, pytest.mark.slow]

DATABASE = "older"
ROWS = 12
CHUNK_ROWS = 4
_KINDS = {table.name: table for table in TABLES if "InnoDB" in table.options}
OLDER = tuple(replace(kind, name=f"{name}_{number}") for number in range(2) for name, kind in _KINDS.items())


def connected(server: MariaDbServer) -> pymysql.connections.Connection:
    connection = server.connect(database=DATABASE)
    with connection.cursor() as cursor:
        cursor.execute("SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO', innodb_lock_wait_timeout = 2")
    return connection


def insert(cursor: Cursor, table: LiveTable, key: int, numbers: random.Random) -> None:
    names = ", ".join(["id", *(column.name for column in table.columns)])
    values = ", ".join(["%s", *(column.sql for column in table.columns)])
    row = [key, *(column.value(numbers) for column in table.columns)]
    cursor.execute(f"INSERT IGNORE INTO {table.name} ({names}) VALUES ({values})", row)


class Load:
    """Writers that change rows of all tables until they are stopped, each with pauses of so many seconds."""

    def __init__(self, server: MariaDbServer, pause: float = 0.0) -> None:
        self._server = server
        self._pause = pause
        self._stopped = threading.Event()
        self._failures: list[Exception] = []
        self._threads = [threading.Thread(target=self._write, args=(number,)) for number in range(2)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()
        assert self._failures == []

    def _write(self, seed: int) -> None:
        numbers = random.Random(seed)
        try:
            with connected(self._server) as connection, connection.cursor() as cursor:
                while not self._stopped.wait(self._pause):
                    with suppress(pymysql.err.OperationalError, pymysql.err.IntegrityError):  # locks, keys
                        self._change(cursor, numbers)
        except Exception as error:  # told by the test's own thread
            self._failures.append(error)

    @staticmethod
    def _change(cursor: Cursor, numbers: random.Random) -> None:
        table, key = numbers.choice(OLDER), numbers.randrange(ROWS)
        column = numbers.choice(table.columns)
        match numbers.randrange(6):
            case 0 | 1:
                insert(cursor, table, key, numbers)
            case 2:
                cursor.execute(f"DELETE FROM {table.name} WHERE id = %s", (key,))
            case 3:
                cursor.execute(f"UPDATE IGNORE {table.name} SET id = %s WHERE id = %s", (numbers.randrange(ROWS), key))
            case _:
                sql = f"UPDATE IGNORE {table.name} SET {column.name} = {column.sql} WHERE id = %s"
                cursor.execute(sql, (column.value(numbers), key))


def write_chunk(snapshot: TableSnapshot) -> None:
    """The next chunk, once nobody has its rows locked."""
    while True:
        with suppress(RowsLockedError):
            snapshot.write(snapshot.next_bounds(CHUNK_ROWS), is_waiting=True)
            return


def fill(server: MariaDbServer) -> None:
    """Tables, rows in them, and then a log that begins after these."""
    numbers = random.Random(1)
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4")
    with connected(server) as connection, connection.cursor() as cursor:
        for table in OLDER:
            cursor.execute(table.create)
            for key in range(ROWS):
                insert(cursor, table, key, numbers)
        cursor.execute("FLUSH BINARY LOGS")
    forget_earlier_logs(server)


def run_cut_off(job: Job, chance: random.Random) -> None:
    """The job, cut off somewhere."""
    with suppress(Cut), watched(CutOff(chance.randint(1, 25))):
        run(job)


@pytest.mark.parametrize("table_format", [TableFormat.DELTA], ids=str)
def test_tables_older_than_the_log_equal_select(table_format: TableFormat, tmp_path: Path) -> None:
    chance = random.Random(2)
    with mariadb_server_in(tmp_path / "server") as server:
        run_sql(server, [BLACKHOLE])
        fill(server)
        job = Job(
            source=Source(path=str(server.binlog_directory), max_bytes_per_trigger="200k"),
            sink=Sink(directory=str(tmp_path / "tables"), format=table_format),
            checkpoint=str(tmp_path / "checkpoint"),
            tables=(TableRule(begin=Begin.SNAPSHOT),),
        )
        session = session_on(server)
        with Load(server):
            for number, table in enumerate(OLDER):
                source = read_table(session, DATABASE, table.name)
                if number % 3 == 0:  # one that was killed: the next one cancels it
                    killed = TableSnapshot.start(session, source, Purpose.COMPLETE, ShadowEngine.INNODB)
                    write_chunk(killed)
                purpose = Purpose.RESYNC if number % 2 else Purpose.COMPLETE
                snapshot = TableSnapshot.start(session, source, purpose, ShadowEngine.BLACKHOLE)
                write_chunk(snapshot)
                if number % 4 == 0:
                    run_cut_off(job, chance)
                while not snapshot.is_complete:
                    write_chunk(snapshot)
                snapshot.end()
        run_cut_off(job, chance)
        run(job)
        with connected(server) as connection, connection.cursor() as cursor:
            tables = {}
            for table in OLDER:
                columns = column_infos(cursor, table.name)
                tables[f"{DATABASE}.{table.name}"] = (columns, true_rows(cursor, table.name, columns))
        Live(server.binlog_directory, tables, is_declared=True).check(tmp_path / "tables", table_format)
    keeper = RecordKeeper(job)
    keeper.changes()
    assert keeper.record.complete == tuple(sorted((DATABASE, table.name) for table in OLDER))
