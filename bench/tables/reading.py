"""A table read from a live MariaDB into Delta, `snapshot --method read`: 1,000,000 rows in sysbench's shape.

Server and reader share the machine. What is timed is all of the command: its plan, sessions at one point, ranges,
values, Parquet files, the commit and the job's record. A small table is read before, so that all code is loaded.
"""

from __future__ import annotations

import functools
import resource
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from bench.registry import benchmark, share
from binlog_lab.demo.mariadb.server import MariaDbServer
from binlog_streaming.server.address import Credentials, ServerAddress
from binlog_streaming.server.session import ServerSession, connect
from binlog_streaming.settings import Job, Sink, Source, TableRule
from binlog_streaming.snapshot.reading.plan import plan_reading
from binlog_streaming.snapshot.reading.run import run_reading

ROWS = 1_000_000
WARM_UP_ROWS = 10_000
SESSIONS = 2
_GROUPS = 10, 5
OPTIONS = ("--binlog-row-metadata=FULL", "--innodb-buffer-pool-size=1G")


@dataclass(frozen=True)
class _Measured:
    rows_per_s: float
    rows_per_cpu_s: float


@benchmark("snapshot.read.rows_per_s", unit="rows/s")
def rows_per_second() -> float:
    """Rows from a MariaDB on the same cores into a Delta table, mode mirror, in two sessions."""
    return _measured().rows_per_s


@benchmark("snapshot.read.rows_per_cpu_s", unit="rows/s")
def rows_per_processor_second() -> float:
    """Rows of that run in a processor second of the reader; what the server takes is not in it."""
    return _measured().rows_per_cpu_s


@functools.cache
def _measured() -> _Measured:
    rows = max(WARM_UP_ROWS, round(share() * ROWS))
    with tempfile.TemporaryDirectory(prefix="binlog-stream-bench-") as work:
        folder = Path(work)
        with MariaDbServer(folder / "server", options=OPTIONS) as server:
            fill(server, rows)
            _read(folder, server, "small")
            started, before = time.perf_counter(), time.process_time()
            assert _read(folder, server, "sbtest") == rows
            seconds, processor = time.perf_counter() - started, time.process_time() - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"  the reader's memory, at most: {peak:,.0f} MiB")
    return _Measured(rows / seconds, rows / processor)


def fill(server: MariaDbServer, rows: int, *, small: int = WARM_UP_ROWS, logged: bool = True) -> None:
    """Make `shop.sbtest` and `shop.small` with so many rows; *logged*: the server's log has them."""
    c, pad = (
        ", ".join(f"LPAD(FLOOR(RAND(seq + {number}) * 1e11), 11, '0')" for number in range(count)) for count in _GROUPS
    )
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"SET sql_log_bin = {logged:d}")
        cursor.execute("CREATE DATABASE shop")
        for table, count in (("small", small), ("sbtest", rows)):
            columns = "id INT PRIMARY KEY, k INT NOT NULL, c CHAR(120) NOT NULL, pad CHAR(60) NOT NULL"
            cursor.execute(f"CREATE TABLE shop.{table} ({columns})")
            select = f"SELECT seq, seq % 1000, CONCAT_WS('-', {c}), CONCAT_WS('-', {pad}) FROM shop.seq_1_to_{count}"
            cursor.execute(f"INSERT INTO shop.{table} {select}")
            cursor.execute(f"ANALYZE TABLE shop.{table}")


def _read(folder: Path, server: MariaDbServer, table: str) -> int:
    job = Job(
        source=Source(path=str(server.binlog_directory)),
        sink=Sink(directory=str(folder / "tables")),
        checkpoint=str(folder / f"checkpoint-{table}"),
        tables=(TableRule(select=rf"shop\.{table}"),),
    )

    def session() -> ServerSession:
        address = ServerAddress.parse(f"mysql://root@127.0.0.1:{server.port}/")
        return connect(address, Credentials("root", server.password))

    with session() as first:
        plan = plan_reading(first, job, sessions=SESSIONS)
    return run_reading(plan, job, session).rows
