"""A table taken through the log of a live MariaDB into Delta, `snapshot --method log`: 1,000,000 rows of sysbench.

Server, snapshot, job and an application share the machine. The application changes rows of that table by their key, on
one connection and at a fixed rate, before and meanwhile. What is timed begins with the snapshot and ends with the
commit that makes the table complete. A small table goes before, so that all code is loaded.
"""

from __future__ import annotations

import functools
import multiprocessing
import random
import shutil
import tempfile
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from bench.registry import benchmark, share
from bench.spark.source import session as spark_session
from bench.tables.reading import OPTIONS, ROWS, fill
from binlog_lab.demo.mariadb.server import MariaDbServer
from binlog_streaming.server.address import Credentials, ServerAddress
from binlog_streaming.server.session import ServerSession, connect
from binlog_streaming.settings import Begin, Job, Sink, Source, TableRule, Trigger
from binlog_streaming.snapshot.plan import make_plan
from binlog_streaming.snapshot.run import run_snapshot
from binlog_streaming.tables.job import TablesJob

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

WARM_UP_ROWS = 300_000
"""So many that all of Spark's workers have something to do, and have loaded all code."""
TRIGGER = "1s"
UPDATES_PER_S = 200
ALONE_S = 15
"""For so long the application runs before the snapshot, with the job beside it."""
PATIENCE_S = 300


@dataclass(frozen=True)
class _Measured:
    rows_per_s: float
    p99_ratio: float


@benchmark("snapshot.log.rows_per_s", unit="rows/s")
def rows_per_second() -> float:
    """Rows from a MariaDB on the same cores through its log into a Delta mirror, while they are changed."""
    return _measured().rows_per_s


@benchmark("snapshot.log.update_p99_ratio", unit="x")
def update_p99_ratio() -> float:
    """99th percentile of an application's UPDATE during that run, by the one before it, in the same run."""
    return _measured().p99_ratio


@functools.cache
def _measured() -> _Measured:
    rows = max(1000, round(share() * ROWS))
    work = Path(tempfile.mkdtemp(prefix="binlog-stream-bench-"))
    try:
        with MariaDbServer(work / "server", options=OPTIONS) as server:
            fill(server, rows, small=WARM_UP_ROWS, logged=False)
            with _running_job(work, server) as job:
                with _Application(server, rows) as application:
                    job.take("small")
                    application.begin()
                    time.sleep(ALONE_S)
                    alone = application.taken()
                    seconds = job.take("sbtest")
                    meanwhile = application.taken()
                job.wait_until_equal("sbtest")
    finally:
        shutil.rmtree(work)
    before, during = (1000 * np.percentile(some, (50, 99)) for some in (alone, meanwhile))
    print(f"  the application's UPDATE, median and 99th percentile: {before.round(2)} ms alone, {during.round(2)} ms")
    return _Measured(rows / seconds, float(during[1] / before[1]))


class _RunningJob:
    # A job whose tables wait for their snapshot.
    def __init__(self, work: Path, server: MariaDbServer) -> None:
        self._work = work
        self._server = server
        self._arrived = threading.Condition()
        self.job = Job(
            source=Source(path=str(server.binlog_directory)),
            sink=Sink(directory=str(work / "tables")),
            checkpoint=str(work / "checkpoint"),
            trigger=Trigger(interval=TRIGGER),
            tables=(TableRule(select=r"shop\..*", begin=Begin.SNAPSHOT),),
        )

    def target(self, table: str) -> str:
        return str(self._work / "tables" / "shop" / table)

    def arrived(self, _: Any) -> None:
        with self._arrived:
            self._arrived.notify_all()

    def take(self, table: str) -> float:
        # Seconds until the table is complete.
        with self._session() as session:
            plan = make_plan(session, self.job, tables=rf"shop\.{table}")
            started = time.monotonic()
            result = run_snapshot(session, plan)
            with self._arrived:
                assert self._arrived.wait_for(lambda: self._is_complete(table), PATIENCE_S), f"{table} is not complete"
        seconds = time.monotonic() - started
        print(
            f"  {table}: {result.rows:,} rows in the log after {result.seconds:.2f} s, complete after {seconds:.2f} s"
        )
        return seconds

    def wait_until_equal(self, table: str) -> None:
        query = f"SELECT COUNT(*), SUM(id), SUM(k) FROM {table}"
        with self._session() as session:
            wanted = [int(value) for value in session.rows(query.replace("FROM ", "FROM shop."))[0]]

        def is_equal() -> bool:
            found = pa.table(QueryBuilder().register(table, DeltaTable(self.target(table))).execute(query))
            return [int(column[0].as_py()) for column in found.columns] == wanted

        with self._arrived:
            assert self._arrived.wait_for(is_equal, PATIENCE_S), f"{table} is not what the server has"

    def _is_complete(self, table: str) -> bool:
        target = self.target(table)
        if not DeltaTable.is_deltatable(target):
            return False
        return DeltaTable(target).metadata().configuration.get("binlog-stream.complete") == "true"

    def _session(self) -> ServerSession:
        address = ServerAddress.parse(f"mysql://root@127.0.0.1:{self._server.port}/")
        return connect(address, Credentials("root", self._server.password))


@contextmanager
def _running_job(work: Path, server: MariaDbServer) -> Iterator[_RunningJob]:
    running = _RunningJob(work, server)
    job = TablesJob(running.job, session=spark_session(), listener=running.arrived)
    job.start()
    try:
        yield running
    finally:
        job.stop()
        job.wait()


class _Application:
    # A process of its own: what others do in this one must not hold it up.
    def __init__(self, server: MariaDbServer, rows: int) -> None:
        self._ours, theirs = multiprocessing.Pipe()
        arguments = (theirs, server.port, server.password, rows)
        self._process = multiprocessing.get_context("spawn").Process(target=_update, args=arguments)

    def __enter__(self) -> _Application:
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ours.send("end")
        self._process.join()

    def begin(self) -> None:
        self._ours.send("begin")

    def taken(self) -> list[float]:
        # Seconds of each UPDATE since the last time.
        self._ours.send("taken")
        taken: list[float] = self._ours.recv()
        assert taken
        return taken


def _update(asked: Connection, port: int, password: str, rows: int) -> None:
    chance = random.Random(rows)
    taken: list[float] = []
    asked.recv()
    with connect(ServerAddress.parse(f"mysql://root@127.0.0.1:{port}/"), Credentials("root", password)) as session:
        due = time.monotonic()
        while True:
            if asked.poll(max(0.0, due - time.monotonic())):
                if asked.recv() == "end":
                    return
                asked.send(taken)
                taken = []
                continue
            # Counted from when it was due: an application that waits is not asked less often.
            session.execute(f"UPDATE shop.sbtest SET k = k + 1 WHERE id = {chance.randint(1, rows)}")
            taken.append(time.monotonic() - due)
            due += 1 / UPDATES_PER_S
