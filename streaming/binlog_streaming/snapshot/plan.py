"""Plan of a snapshot, made before it starts: `make_plan(session, job)` -> `SnapshotPlan`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pymysql

from binlog_format.errors import SchemaError, ServerError
from binlog_format.views.table_filter import SNAPSHOT_DATABASE
from binlog_streaming.server.failures import DENIED, number_of
from binlog_streaming.snapshot.job_tables import JobTables
from binlog_streaming.snapshot.log_identity import check_is_writer
from binlog_streaming.snapshot.rights import missing_rights
from binlog_streaming.snapshot.runs import EarlierRuns
from binlog_streaming.snapshot.server_checks import check_databases, check_server, find_engine
from binlog_streaming.snapshot.server_tables import find_server_tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_connector.schema.snapshot_marks import Purpose
    from binlog_streaming.server.session import ServerSession
    from binlog_streaming.settings.model import Job, JobLogSource
    from binlog_streaming.snapshot.server_checks import EngineChoice
    from binlog_streaming.snapshot.server_tables import ServerTable


@dataclass(frozen=True, slots=True)
class PlannedTable:
    """A table that is to be taken.

    Attributes:
        table: The table on the server.
        purpose: What its snapshot is for.
        is_resumed: A snapshot of it was cut off, and goes on.
    """

    table: ServerTable
    purpose: Purpose
    is_resumed: bool


@dataclass(frozen=True, slots=True)
class SnapshotPlan:
    """Plan of a snapshot.

    Attributes:
        server: What the server is.
        source: The log that must be its own.
        tables: What would be taken, in order.
        taken: Names of tables that a run took before it was cut off, which goes on now.
        complete: Names of tables that are complete already.
        unseen: Names of tables that the job has written, and that the server does not show: they were dropped, or the
            account has no right on them.
        run: UUID of the run that goes on; None: a new one.
        engine: What shadow tables are kept in.
        replicas: Those that are connected; None: the account may not see them.
    """

    server: str
    source: JobLogSource
    tables: tuple[PlannedTable, ...]
    taken: tuple[str, ...]
    complete: tuple[str, ...]
    unseen: tuple[str, ...]
    run: str | None
    engine: EngineChoice
    replicas: tuple[Replica, ...] | None

    @property
    def size_estimate(self) -> int:
        """Bytes that the log grows by, about."""
        return sum(planned.table.size_estimate for planned in self.tables)

    @property
    def keyless(self) -> tuple[str, ...]:
        """Names of tables that are one chunk: all their rows are locked at once."""
        return tuple(planned.table.source.full_name for planned in self.tables if planned.table.source.key is None)


def make_plan(session: ServerSession, job: Job, *, tables: str | None = None, restart: bool = False) -> SnapshotPlan:
    """See what a snapshot of the tables of *job* would do; nothing is changed.

    Args:
        session: On the server.
        job: Which tables; its log has to be that of the server.
        tables: Only these of them: regular expressions on `database.table`; then also those that are complete already.
        restart: Begin every table anew, also where a run was cut off.

    Raises:
        ServerError: Why it cannot be: `VERSION`, `SETTINGS`, `OTHER_SERVER`, `DENIED`, `NOT_LOGGED`, `TABLE_REFUSED`.
        SchemaError: `TABLE_NOT_FOUND`: the server shows no table that is asked for.
        BinlogError: The job's log or its record cannot be read.
    """
    check_server(session)
    check_is_writer(session, job.source.path, job.source.format)
    of_job = JobTables(job)
    found = find_server_tables(session, job, tables)
    unseen = of_job.unseen([table.name for table in found], tables)
    if not found:
        hint = f"Of the job's tables it does not show {', '.join(unseen)}" if unseen else "See [[tables]] and --tables"
        raise SchemaError("TABLE_NOT_FOUND", "the server shows no table that is asked for", at=session.place, hint=hint)
    is_all = tables is not None or restart
    wanted = [table for table in found if is_all or not of_job.is_complete(table.name)]
    _check_tables(session, wanted)
    earlier = EarlierRuns(session)
    cut = {} if restart else {table.name: earlier.cut_run_that_took(table.name) for table in wanted}
    planned = tuple(
        PlannedTable(
            table,
            of_job.purpose(table.name),
            is_resumed=not restart and earlier.is_open(table.name) and not of_job.is_set_aside(table.name),
        )
        for table in wanted
        if cut.get(table.name) is None
    )
    runs = [*cut.values(), *(earlier.run_of(one.table.name) for one in planned if one.is_resumed)]
    return SnapshotPlan(
        server=str(session.version),
        source=job.source,
        tables=planned,
        taken=tuple(str(name) for name, run in cut.items() if run is not None),
        complete=tuple(str(table.name) for table in found if table not in wanted),
        unseen=unseen,
        run=next(filter(None, runs), None),
        engine=find_engine(session),
        replicas=find_replicas(session),
    )


def _check_tables(session: ServerSession, tables: Sequence[ServerTable]) -> None:
    missing = missing_rights(session, [table.source for table in tables])
    if missing:
        account = session.value("SELECT CURRENT_USER()")
        grants = "; ".join(f"GRANT {right} TO {account}" for right in missing)
        raise ServerError("DENIED", f"missing rights: {', '.join(missing)}", at=session.place, hint=grants)
    check_databases(session, {SNAPSHOT_DATABASE, *(table.source.schema for table in tables)})
    row_image = str(session.variable("binlog_row_image"))
    refused = [(table.source.full_name, why) for table in tables if (why := table.refusal(row_image)) is not None]
    if refused:
        reason = "; ".join(f"{name}: {why}" for name, why in refused)
        raise ServerError(
            "TABLE_REFUSED", reason, at=session.place, hint="Leave them out with --tables or excludeTables"
        )


_MARIADB_REPLICA_WORDS = (10, 5, 1)
_MYSQL_REPLICA_WORDS = (8, 0, 22)


@dataclass(frozen=True, slots=True)
class Replica:
    """A replica that is connected.

    Attributes:
        server_id: Its `server_id`.
        host: What it reports as its host; empty: nothing.
    """

    server_id: int
    host: str

    def __str__(self) -> str:
        return f"server id {self.server_id}" + (f" ({self.host})" if self.host else "")


def find_replicas(session: ServerSession) -> tuple[Replica, ...] | None:
    """Replicas that are connected; None: the account may not see them.

    Raises:
        ServerError: What the server answered otherwise.
    """
    number = session.version.number
    if session.version.is_mariadb:
        statement = "SHOW REPLICA HOSTS" if number >= _MARIADB_REPLICA_WORDS else "SHOW SLAVE HOSTS"
    else:
        statement = "SHOW REPLICAS" if number >= _MYSQL_REPLICA_WORDS else "SHOW SLAVE HOSTS"
    try:
        rows = session.try_rows(statement)
    except pymysql.MySQLError as error:
        if number_of(error) in DENIED:
            return None
        with session.named_errors():
            raise
    return tuple(Replica(int(row[0]), str(row[1] or "")) for row in rows)
