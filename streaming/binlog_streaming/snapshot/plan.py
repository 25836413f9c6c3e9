"""Plan of a snapshot, made before it starts: `make_plan(session, job)` -> `SnapshotPlan`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_connector.rules.predicate_parser import column_names, parse_predicate
from binlog_format.names import folded_name, folded_names
from binlog_format.vendor import REPLICA_WORDS_SINCE
from binlog_format.views.filters import SNAPSHOT_DATABASE, TableFilter
from binlog_streaming.settings.publish_model import PublishJob
from binlog_streaming.snapshot.definitions import parents_first
from binlog_streaming.snapshot.log_identity import check_is_writer
from binlog_streaming.snapshot.marks import EarlierRuns
from binlog_streaming.snapshot.server_checks import (
    check_databases,
    check_mark_rights,
    check_server,
    find_engine,
    rights_refusal,
    unlogged_databases,
)
from binlog_streaming.snapshot.server_tables import (
    JobTables,
    LeftOut,
    TopicsTables,
    find_others,
    find_server_tables,
    no_table_found,
)
from binlog_streaming.snapshot.source_table import TableLock

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from binlog_connector.schema.snapshot_marks import Purpose
    from binlog_streaming.server.session import ServerSession
    from binlog_streaming.settings.model import Job, JobLogSource
    from binlog_streaming.snapshot.server_checks import EngineChoice
    from binlog_streaming.snapshot.server_tables import ServerTable


@dataclass(frozen=True, slots=True)
class PlannedTable:
    """A table that is to be taken. *is_resumed*: a snapshot of it was cut off, and goes on."""

    table: ServerTable
    purpose: Purpose
    is_resumed: bool


@dataclass(frozen=True, slots=True)
class SnapshotPlan:
    """Plan of a snapshot.

    Attributes:
        source: The log that must be its own.
        tables: What would be taken, in order: parents, by foreign keys, before their children.
        taken: Names of tables that a run took before it was cut off, which goes on now.
        complete: Names of tables that are complete already.
        unseen: Names of tables that the job has written, and that the server does not show: they were dropped, or the
            account has no right on them.
        left_out: What else the rules select, and why it is not taken.
        run: UUID of the run that goes on; None: a new one.
        replicas: Those that are connected; None: the account may not see them.
        topics: The publisher whose topics get the rows; None: they are for tables.
        row_filter: Condition for the rows that are taken; None: all.
    """

    server: str
    source: JobLogSource
    tables: tuple[PlannedTable, ...]
    taken: tuple[str, ...]
    complete: tuple[str, ...]
    unseen: tuple[str, ...]
    left_out: tuple[LeftOut, ...]
    run: str | None
    engine: EngineChoice
    replicas: tuple[Replica, ...] | None
    topics: str | None = None
    row_filter: str | None = None

    @property
    def size_estimate(self) -> int:
        """Bytes that the log grows by, about."""
        return sum(planned.table.size_estimate for planned in self.tables)

    @property
    def locked(self) -> tuple[str, ...]:
        """Names of tables that are locked as a whole while a chunk is read: their engines lock no rows."""
        tables = (planned.table.source for planned in self.tables)
        return tuple(table.full_name for table in tables if table.lock is TableLock.TABLE)

    @property
    def keyless(self) -> tuple[str, ...]:
        """Names of tables that are one chunk: all their rows are locked at once."""
        return tuple(planned.table.source.full_name for planned in self.tables if planned.table.source.key is None)


def make_plan(
    session: ServerSession,
    job: Job | PublishJob,
    *,
    tables: str | None = None,
    restart: bool = False,
    row_filter: str | None = None,
) -> SnapshotPlan:
    """See what a snapshot of the tables of *job* would do; nothing is changed.

    Args:
        job: Which tables; its log has to be that of the server.
        tables: Only these of them: regular expressions on `database.table`; then also those that are complete already.
        restart: Begin every table anew, also where a run was cut off.
        row_filter: Condition for the rows that are taken, which can be parsed; None: all.
    """
    check_server(session)
    check_is_writer(session, job.source.path, job.source.format)
    topics = job.sink.topic_prefix if isinstance(job, PublishJob) else None
    of_job = TopicsTables() if isinstance(job, PublishJob) else JobTables(job)
    found = find_server_tables(session, job, tables)
    unseen = of_job.unseen([table.name for table in found], tables)
    if not found:
        raise no_table_found(session, job, tables, unseen)
    is_all = tables is not None or restart
    wanted = [table for table in found if is_all or not of_job.is_complete(table.name)]
    check_mark_rights(session)
    check_databases(session, {SNAPSHOT_DATABASE})
    left_out = tuple(_left_out(session, wanted, job, row_filter))
    refused = {left.name for left in left_out}
    earlier = EarlierRuns(session, topics, row_filter)
    order = {name: number for number, name in enumerate(parents_first(session, [table.name for table in wanted]))}
    cut = {} if restart else {table.name: earlier.cut_run_that_took(table.name) for table in wanted}
    planned = tuple(
        PlannedTable(
            table,
            of_job.purpose(table.name),
            is_resumed=not restart and earlier.is_open(table.name) and not of_job.is_set_aside(table.name),
        )
        for table in sorted(wanted, key=lambda table: order[table.name])
        if cut.get(table.name) is None and table.source.full_name not in refused
    )
    runs = [*cut.values(), *(earlier.run_of(table.table.name) for table in planned if table.is_resumed)]
    return SnapshotPlan(
        server=str(session.version),
        source=job.source,
        tables=planned,
        taken=tuple(str(name) for name, run in cut.items() if run is not None),
        complete=tuple(str(table.name) for table in found if table not in wanted),
        unseen=unseen,
        left_out=(*left_out, *find_others(session, job, tables)),
        run=next(filter(None, runs), None),
        engine=find_engine(session),
        replicas=find_replicas(session),
        topics=topics,
        row_filter=row_filter,
    )


def _left_out(
    session: ServerSession, tables: Sequence[ServerTable], job: Job | PublishJob, row_filter: str | None
) -> Iterator[LeftOut]:
    """The *tables* that cannot be copied, with reasons."""
    row_image = str(session.variable("binlog_row_image"))
    unlogged = unlogged_databases(session, {table.source.schema for table in tables})
    for table in tables:
        refusal = table.refusal(row_image) or unlogged.get(table.source.schema)
        refusal = refusal or (_unpublished(table, job) if isinstance(job, PublishJob) else None)
        refusal = refusal or _lacking_columns(table, row_filter) or rights_refusal(session, table.source)
        if refusal is not None:
            yield LeftOut(table.source.full_name, refusal)


def _unpublished(table: ServerTable, job: PublishJob) -> str | None:
    """Reason why topics cannot have the existing rows of a table; None: they can."""
    if not job.published.accepts_name(*table.name):
        return "it is the outbox: its rows are events, and only new ones are routed"
    keys = next((rule.keys for rule in job.tables if TableFilter(rule.select).accepts_name(*table.name)), ())
    if keys or table.source.logged_key:
        return None
    return (
        "it has no key, so consumers could not tell which of its rows they have already; name columns that tell "
        "rows apart as keys in its [[tables]]"
    )


def _lacking_columns(table: ServerTable, row_filter: str | None) -> str | None:
    """Reason why rows of a table cannot be chosen; None: they can."""
    known = folded_names(table.source.column_names)
    names = [] if row_filter is None else [column.name for column in column_names(parse_predicate(row_filter))]
    lacking = next((name for name in names if folded_name(name) not in known), None)
    return None if lacking is None else f"it has no column {lacking}, which the condition for its rows names"


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
    """Replicas that are connected; None: the account may not see them."""
    version, statement = session.version, "SHOW SLAVE HOSTS"
    if version.number >= REPLICA_WORDS_SINCE[version.vendor]:
        statement = "SHOW REPLICA HOSTS" if version.is_mariadb else "SHOW REPLICAS"
    rows = session.allowed_rows(statement)
    return None if rows is None else tuple(Replica(int(row[0]), str(row[1] or "")) for row in rows)
