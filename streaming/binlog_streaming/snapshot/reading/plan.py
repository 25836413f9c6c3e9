"""Plan for reading tables of a server, made before it starts: `plan_reading(session, job)` -> `ReadingPlan`."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_connector.following.watched import WatchedLog
from binlog_connector.log_definitions import RangeSchemas, SchemaFile
from binlog_connector.schema.snapshot_marks import created_table
from binlog_format.errors import ServerError
from binlog_format.events.table_map import TableLayout
from binlog_format.gtids.gtid import Gtid, GtidPosition
from binlog_format.rows.column_types import NO_METADATA_HINT
from binlog_format.vendor import Vendor
from binlog_streaming.settings import Deletes, Mode
from binlog_streaming.snapshot.log_identity import check_is_writer
from binlog_streaming.snapshot.server_checks import lock_refusal, rights_refusal
from binlog_streaming.snapshot.server_tables import JobTables, LeftOut, find_others, find_server_tables, no_table_found

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from binlog_connector.following.log_end import SeenEnd
    from binlog_connector.schema.table_changes import TableCreated
    from binlog_format.gtids.gtid_set import GtidPoint
    from binlog_streaming.server.session import ServerSession
    from binlog_streaming.settings.model import Job, TableRule
    from binlog_streaming.snapshot.locked_point import LogPoint
    from binlog_streaming.snapshot.server_tables import ServerTable
    from binlog_streaming.snapshot.source_table import SourceColumn, SourceTable


_WITH_SNAPSHOTS = frozenset({"INNODB", "ROCKSDB", "TOKUDB"})
_ONLY_DECLARED = ("uuid", "inet4", "inet6", "vector")
"""Types of MariaDB that no table map tells; MySQL has one of them, and tells it."""


@dataclass(frozen=True, slots=True)
class ReadTable:
    """A table that is to be read.

    Attributes:
        created: The same, as a CREATE TABLE makes it.
        logged: The same, as the log has it.
    """

    table: ServerTable
    created: TableCreated
    logged: TableLayout

    @property
    def source(self) -> SourceTable:
        """Description of the table on the server."""
        return self.table.source


@dataclass(frozen=True, slots=True)
class ReadingPlan:
    """Plan for reading.

    Attributes:
        tables: What would be read, in order.
        complete: Names of tables that are complete already.
        unseen: Names of tables that the job has written, and that the server does not show.
        left_out: What else the rules select, and why it is not read.
        sessions: How many read at the same time.
        at: Where in the job's log the server is, as it was given; None: the server reports it.
        seen: Where the log of the server ended when the plan was made; None: the server need not write one.
        is_known: The server itself confirms *at*, or reports it.
        locks_tables: The server does not report a place for its snapshots, so the tables are locked for a moment.
    """

    server: str
    tables: tuple[ReadTable, ...]
    complete: tuple[str, ...]
    unseen: tuple[str, ...]
    left_out: tuple[LeftOut, ...]
    sessions: int
    at: LogPoint | GtidPoint | None = None
    seen: SeenEnd | None = None
    is_known: bool = True
    locks_tables: bool = False

    @property
    def connections(self) -> int:
        """Sessions that are open at the same time: one finds ranges, the others read them."""
        return 1 if self.at is not None and self.sessions == 1 else self.sessions + 1

    @property
    def size_estimate(self) -> int:
        """Bytes that are read, about."""
        return sum(table.table.size_estimate for table in self.tables)


def plan_reading(
    session: ServerSession,
    job: Job,
    *,
    tables: str | None = None,
    at: LogPoint | GtidPoint | None = None,
    sessions: int = 2,
) -> ReadingPlan:
    """See what reading the tables of *job* would do; nothing is changed.

    Args:
        tables: Only these of them: regular expressions on `database.table`; then also those that are complete already.
        at: All that the server has of the job's log, where it is a restored backup; None: the server writes the log.
        sessions: How many may read at the same time.
    """
    has_binlog = session.variable("log_bin") == "ON"
    seen, is_known = None, True
    if at is None:
        seen = check_is_writer(session, job.source.path, job.source.format)
    else:
        is_known = check_restored(session, at)
    of_job = JobTables(job)
    found = find_server_tables(session, job, tables)
    unseen = of_job.unseen([table.name for table in found], tables)
    if not found:
        raise no_table_found(session, job, tables, unseen)
    wanted = [table for table in found if tables is not None or not of_job.is_complete(table.name)]
    left_out = tuple(_left_out(session, wanted, is_live=at is None))
    refused = {left.name for left in left_out}
    vendor = session.version.vendor
    read = [_read_table(table, vendor, job) for table in wanted if table.source.full_name not in refused]
    known = [table for table in read if isinstance(table, ReadTable)]
    metadata = session.variable("binlog_row_metadata") if at is None else None
    typed = list(_typed(job, known, metadata))
    refusals = [table for table in (*read, *typed) if isinstance(table, LeftOut)]
    return ReadingPlan(
        server=str(session.version),
        tables=tuple(table for table in typed if isinstance(table, ReadTable)),
        complete=tuple(str(table.name) for table in found if table not in wanted),
        unseen=unseen,
        left_out=(*left_out, *refusals, *find_others(session, job, tables)),
        # Without a binlog nothing tells whether several sessions see the same rows.
        sessions=sessions if has_binlog else 1,
        at=at,
        seen=seen,
        is_known=is_known,
        locks_tables=not session.version.is_mariadb and (at is None or (has_binlog and sessions > 1)),
    )


def _read_table(table: ServerTable, vendor: Vendor, job: Job) -> ReadTable | LeftOut:
    source = table.source
    columns = [column.to_json() for column in source.columns]
    created = created_table(table.name, columns, source.row_key, vendor, job.decoding())
    if created.columns is None:
        return LeftOut(source.full_name, "a column has a type that is not known here")
    logged = tuple(fact.column for fact in created.columns)
    names = [column.name for column in logged]
    key = tuple(names.index(name) for name in created.primary_key)
    return ReadTable(table, created, TableLayout(source.schema, source.name, logged, key, "", b"", vendor))


def _left_out(session: ServerSession, tables: Sequence[ServerTable], *, is_live: bool) -> Iterator[LeftOut]:
    """The *tables* that cannot be read, with reasons."""
    for table in tables:
        refusal = _refusal(table, is_live=is_live) or rights_refusal(session, table.source, locks_rows=False)
        refusal = refusal or (lock_refusal(session, table.source) if is_live else None)
        if refusal is not None:
            yield LeftOut(table.source.full_name, refusal)


def _refusal(table: ServerTable, *, is_live: bool) -> str | None:
    if table.is_versioned:
        return "it has system versioning: its log holds row versions, which current rows have not"
    if is_live and table.source.columns and table.source.engine.upper() not in _WITH_SNAPSHOTS:
        return (
            f"its engine {table.source.engine} has no snapshots of rows (--method log locks the table for a moment; "
            "a restored backup can be read: --at GTID)"
        )
    if table.rule.drops_generated:
        return 'generated = "drop" is set for it, and what is read does not tell which columns are (use --method log)'
    return _key_refusal(table.source, table.rule)


def _key_refusal(source: SourceTable, rule: TableRule) -> str | None:
    if set(rule.modes) == {Mode.CHANGELOG}:
        return None
    unique = [set(key) for key in (source.primary_key, source.key.names if source.key else ()) if key]
    if rule.keys and not any(key <= set(rule.keys) for key in unique):
        return f"its keys in the job ({', '.join(rule.keys)}) are no unique key of the server: two rows could have one"
    if not source.row_key and (Mode.SCD2 in rule.modes or rule.deletes is Deletes.MARK):
        return "it has no unique key, which its mode needs"
    return None


def _typed(job: Job, tables: Sequence[ReadTable], metadata: str | None) -> Iterator[ReadTable | LeftOut]:
    """Those of *tables* whose types the log has as they are read here; of the others why it has not.

    Args:
        metadata: `binlog_row_metadata` of the server that writes the log; None: not known.
    """
    schema_file = SchemaFile.read(job.source.schema_file) if job.source.schema_file else None
    keeps_definitions = job.kept_definitions is not None
    with WatchedLog(job.source.path, job.source.format) as watched:

        @functools.cache
        def schemas() -> RangeSchemas:
            return RangeSchemas(watched, watched.log.end_position(), job.given_definitions(schema_file))

        for table in tables:
            name, is_described = table.table.name, metadata in (None, "FULL")
            is_mariadb = table.logged.vendor is Vendor.MARIADB
            unknown = next(filter(_is_only_declared, table.source.columns), None) if is_mariadb else None
            is_declared = schema_file is not None and schema_file.definition(*name) is not None
            if unknown is None or job.source.declared_types:
                # What is read here is kept with the job, as a statement of the log would be.
                is_declared = is_declared or keeps_definitions or schemas().definition(name) is not None
            if is_declared or (is_described and unknown is None):
                yield table
            elif not is_described:
                reason = f"the log does not describe its columns (binlog_row_metadata). {NO_METADATA_HINT}"
                yield LeftOut(table.source.full_name, reason)
            else:
                assert unknown is not None, "else the table is read"
                reason = (
                    f"the log does not record that {unknown.name} is {unknown.column_type}. Use --method log, or give"
                )
                yield LeftOut(table.source.full_name, f"{reason} its CREATE TABLE in a schema file (source.schemaFile)")


def _is_only_declared(column: SourceColumn) -> bool:
    return column.column_type.lower().startswith(_ONLY_DECLARED)


def check_restored(session: ServerSession, at: LogPoint | GtidPoint) -> bool:
    """See that nothing on the server contradicts *at*.

    A backup of a replica has its `gtid_slave_pos`, and after a restore it can be set. What the server has logged itself
    contradicts *at* where it is later, by the same domain and server.

    Returns:
        Whether the server confirms it; else it knows nothing of it.
    """
    if not session.version.is_mariadb or not isinstance(at, GtidPosition):
        return False
    replicated = GtidPosition.parse(str(session.value("SELECT @@GLOBAL.gtid_slave_pos")))
    if replicated and replicated != at:
        raise _other(session, at, f"its gtid_slave_pos is {replicated}")
    logged = GtidPosition.parse(str(session.value("SELECT @@GLOBAL.gtid_binlog_pos")))
    states = str(session.value("SELECT @@GLOBAL.gtid_binlog_state"))
    for gtid in map(Gtid.parse, filter(None, states.split(","))):
        known = at.last.get(gtid.domain)
        if known is not None and known.server == gtid.server and gtid.seqno > known.seqno:
            raise _other(session, at, f"it has logged {gtid}")
    return at in (replicated, logged)


def _other(session: ServerSession, at: GtidPoint, why: str) -> ServerError:
    hint = "Give the GTID that was noted with the backup, and let nobody write on the restored server"
    return ServerError("OTHER_SERVER", f"--at {at}: the server is elsewhere: {why}", at=session.place, hint=hint)
