"""Tables of a live server, read into targets: `read_tables`, and what the targets have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable

from binlog_streaming.server.address import Credentials, ServerAddress
from binlog_streaming.server.session import ServerSession, connect
from binlog_streaming.settings import Job, Sink, Source, TableRule
from binlog_streaming.snapshot.reading.plan import plan_reading
from binlog_streaming.snapshot.reading.run import run_reading
from tests.streaming.replay_runs import run
from tests.streaming.snapshot.live import url_of

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_format.gtids.gtid_set import GtidPoint
    from binlog_lab.demo.mariadb.server import DatabaseServer
    from binlog_streaming.snapshot.run import SnapshotResult


def job_in(folder: Path, log: Path, *rules: TableRule, sink: Sink | None = None, **source: Any) -> Job:
    """A job about `shop`, with its log at *log*."""
    return Job(
        source=Source(path=str(log), **source),
        sink=sink or Sink(directory=str(folder / "tables")),
        checkpoint=str(folder / "checkpoint"),
        tables=rules or (TableRule(select=r"shop\..*"),),
    )


def session_of(server: DatabaseServer) -> ServerSession:
    """A session as the command opens it."""
    return connect(ServerAddress.parse(url_of(server)), Credentials("root", server.password))


def read_tables(
    server: DatabaseServer, job: Job, tables: str | None = None, *, at: GtidPoint | None = None, sessions: int = 2
) -> SnapshotResult:
    """Read the tables of a job, as the command does."""
    with session_of(server) as session:
        plan = plan_reading(session, job, tables=tables, at=at, sessions=sessions)
    return run_reading(plan, job, lambda: session_of(server), run=run)


def left_out(server: DatabaseServer, job: Job) -> list[str]:
    """What a plan leaves out, and why."""
    with session_of(server) as session:
        return [str(one) for one in plan_reading(session, job).left_out]


def target_rows(job: Job, table: str, mode: str = "") -> list[dict[str, Any]]:
    """Rows of a Delta target; *table* is its folder below that of the sink."""
    found: list[dict[str, Any]] = DeltaTable(f"{job.sink.directory}/{table}{mode}").to_pyarrow_table().to_pylist()
    return found


def server_rows(server: DatabaseServer, table: str) -> list[tuple[Any, ...]]:
    """What SELECT says, sorted."""
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {table}")
        return sorted(cursor.fetchall())
