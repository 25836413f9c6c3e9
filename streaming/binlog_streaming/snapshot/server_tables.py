"""The tables of a server that a job has rules for, and which of them a snapshot cannot take: `find_server_tables`.

Facts about a job's tables that a snapshot depends on: `JobTables`, and `TopicsTables` of a job that publishes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_connector.schema.definitions import TableName
from binlog_connector.schema.snapshot_marks import Purpose
from binlog_format.errors import SchemaError
from binlog_format.messages import closest_names
from binlog_format.views.filters import SNAPSHOT_DATABASE, TableFilter, as_folded
from binlog_streaming.job_state.checkpoint import read_checkpoint, state_of
from binlog_streaming.job_state.record_keeper import RecordKeeper
from binlog_streaming.plan.job_state import SelectedTable, TableSelection
from binlog_streaming.settings.choices import Mode
from binlog_streaming.settings.model import TableRule
from binlog_streaming.snapshot.source_table import SourceTable, read_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from binlog_streaming.server.session import ServerSession
    from binlog_streaming.settings.model import Job
    from binlog_streaming.settings.publish_model import PublishJob


_NOT_USERS = frozenset({"mysql", "sys", "performance_schema", "information_schema", SNAPSHOT_DATABASE})
_KINDS = {
    "VIEW": "a view has no rows of its own",
    "SYSTEM VIEW": "a view has no rows of its own",
    "SEQUENCE": "of a sequence no target has the next number",
}


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A table that the rules of a job select, and that a command leaves out.

    Attributes:
        name: `database.table`.
        has_rows: It has rows that the job lacks then.
    """

    name: str
    reason: str
    has_rows: bool = True

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


@dataclass(frozen=True, slots=True)
class ServerTable:
    """A table on the server, with what the server estimates about it.

    Attributes:
        rule: What the job does with it; topics need of a table what a mirror needs.
        row_estimate: How many rows it has, about.
        size_estimate: Bytes of them, about.
    """

    source: SourceTable
    rule: TableRule
    is_versioned: bool
    row_estimate: int
    size_estimate: int

    @property
    def name(self) -> TableName:
        """The name that the job's log has for it."""
        return TableName(self.source.schema, self.source.name)

    @property
    def row_size(self) -> int:
        """Bytes of a row, on average."""
        return self.size_estimate // max(1, self.row_estimate)

    def refusal(self, row_image: str) -> str | None:
        """Reason why it cannot be taken through the log; None: it can.

        Args:
            row_image: `binlog_row_image` of the server.
        """
        if self.is_versioned:
            return "it has system versioning: its log holds row versions, which a snapshot of current rows has not"
        if self.source.columns and self.source.lock is None:
            return f"its engine is {self.source.engine}, whose rows are elsewhere, or cannot be locked as they are read"
        if row_image not in ("FULL", "FULL_NODUP") and set(self.rule.modes) != {Mode.CHANGELOG}:
            return (
                f"binlog_row_image is {row_image}: where the key of a row changes that no chunk has brought yet, "
                "the log lacks its other columns; set it to FULL in all sessions until the rows are copied, or copy "
                "the rows into tables with snapshot --method read"
            )
        return None


def find_server_tables(session: ServerSession, job: Job | PublishJob, tables: str | None) -> tuple[ServerTable, ...]:
    """Tables that the rules of *job* select, by name.

    Args:
        job: Its rules, and `source.excludeTables`.
        tables: Only these of them: regular expressions on `database.table`, separated by commas.
    """
    return tuple(sorted(_selected(session, job, _asked_for(job, tables)), key=lambda table: table.source.full_name))


def _asked_for(job: Job | PublishJob, tables: str | None) -> TableFilter:
    return TableFilter(as_folded(tables, job.source.folds_names))


def no_table_found(
    session: ServerSession, job: Job | PublishJob, tables: str | None, unseen: Sequence[str] = ()
) -> SchemaError:
    """The error for `find_server_tables` without a result. *unseen*: tables of the job that are not shown."""
    rows = session.rows(
        "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES"
        " WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED')"
    )
    shown = [TableName(schema, name) for schema, name in rows if schema not in _NOT_USERS]
    rules = [TableFilter(rule.select, job.source.exclude_tables) for rule in job.tables]
    selected = [name for name in shown if any(rule.accepts_name(*name) for rule in rules)]
    selects = ", ".join(f"'{rule.select}'" for rule in job.tables)
    if unseen:
        hint = f"Of the job's tables it does not show {', '.join(unseen)}"
    elif selected and tables is not None:
        hint = f"Tables that the job selects: {closest_names(tables, map(str, selected))}"
    else:
        hint = f"Tables that it shows to this account: {closest_names(tables or selects, map(str, shown))}"
    asked = f"select = {selects}" if tables is None else f"--tables '{tables}' of those that the job selects"
    reason = f"the server shows no table that is asked for: {asked}"
    return SchemaError("TABLE_NOT_FOUND", reason, at=session.place, hint=hint)


def find_others(session: ServerSession, job: Job | PublishJob, tables: str | None) -> tuple[LeftOut, ...]:
    """Find views and sequences that the rules of *job* select, by name."""
    rules = [TableFilter(rule.select, job.source.exclude_tables) for rule in job.tables]
    wanted = _asked_for(job, tables)
    rows = session.rows(
        "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE FROM information_schema.TABLES"
        " WHERE TABLE_TYPE NOT IN ('BASE TABLE', 'SYSTEM VERSIONED') ORDER BY 1, 2"
    )
    return tuple(
        LeftOut(f"{schema}.{name}", _KINDS.get(kind, f"it is a {kind}, no table"), has_rows=False)
        for schema, name, kind in rows
        if schema not in _NOT_USERS
        and wanted.accepts_name(schema, name)
        and any(rule.accepts_name(schema, name) for rule in rules)
    )


def _selected(session: ServerSession, job: Job | PublishJob, wanted: TableFilter) -> Iterator[ServerTable]:
    rules = [(TableFilter(rule.select, job.source.exclude_tables), rule) for rule in job.tables]
    rows = session.rows(
        "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, TABLE_ROWS, DATA_LENGTH FROM information_schema.TABLES"
        " WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED')"
    )
    for schema, name, kind, row_estimate, size_estimate in rows:
        rule = next((rule for matching, rule in rules if matching.accepts_name(schema, name)), None)
        if schema in _NOT_USERS or rule is None or not wanted.accepts_name(schema, name):
            continue
        yield ServerTable(
            source=read_table(session, schema, name),
            rule=rule if isinstance(rule, TableRule) else TableRule(select=rule.select),
            is_versioned=kind == "SYSTEM VERSIONED",
            row_estimate=int(row_estimate or 0),
            size_estimate=int(size_estimate or 0),
        )


class JobTables:
    """The tables of a job, from its checkpoint; there need not be one yet.

    Attributes:
        has_begun: It has come to the end of a batch.
    """

    def __init__(self, job: Job) -> None:
        checkpoint = read_checkpoint(state_of(job))
        keeper = RecordKeeper(job)
        keeper.changes()
        record = keeper.record
        self.has_begun = checkpoint is not None and checkpoint.batch_id is not None
        self._job, self._selection = job, TableSelection.of(job)
        self._written = {TableName(*name) for name in record.tables}
        self._targets = {(TableName(database, table), mode) for database, table, mode in record.targets}
        self._complete = {TableName(*name) for name in record.complete}
        self._incomplete = {TableName(*name) for name in record.incomplete}
        self._set_aside = {stopped.name for stopped in record.set_aside}
        # The job cannot use their chunks, so they do not complete the table.
        self._set_aside |= {snapshot.name for snapshot in record.snapshots if snapshot.problem is not None}

    def purpose(self, name: TableName) -> Purpose:
        """Purpose of a snapshot of a table.

        The job has every change of the table since it began, so existing rows are all that it lacks; or it has not,
        and its targets begin anew.
        """
        is_whole = name in self._written and name not in self._incomplete and not self.is_set_aside(name)
        return Purpose.COMPLETE if not self.has_begun or (is_whole and name not in self._complete) else Purpose.RESYNC

    def is_complete(self, name: TableName) -> bool:
        """True if the job has all rows of a table."""
        return name in self._complete and name not in self._incomplete and not self.is_set_aside(name)

    def knows(self, name: TableName) -> bool:
        """True if the job has written a table, or knows that it lacks rows of it."""
        return name in self._written or name in self._incomplete

    def has_target(self, name: TableName, mode: Mode) -> bool:
        """True if a target was written, and its table was neither dropped nor renamed since."""
        return (name, str(mode)) in self._targets

    def is_set_aside(self, name: TableName) -> bool:
        """True if the job does not continue with a table, or with the snapshot that it has of it."""
        return name in self._set_aside

    def unseen(self, seen: Sequence[TableName], tables: str | None) -> tuple[str, ...]:
        """Names of tables that the job has written, still selects, and that are not among *seen*.

        Args:
            tables: Expressions of those that are asked for; None: all.
        """
        return tuple(str(table.name) for table in self.unseen_tables(seen, tables))

    def unseen_tables(self, seen: Sequence[TableName], tables: str | None) -> tuple[SelectedTable, ...]:
        """The same tables as `unseen`, with their rules."""
        wanted = _asked_for(self._job, tables)
        names = sorted({name for name in self._written if wanted.accepts_name(*name)}.difference(seen))
        rules = ((name, self._selection.rule(name)) for name in names)
        return tuple(SelectedTable(name, rule) for name, rule in rules if rule is not None)


class TopicsTables:
    """The same of a job that publishes: each run brings all rows of the tables that are asked for."""

    def purpose(self, name: TableName) -> Purpose:
        """Purpose of a snapshot of a table: messages are added to those that a topic has."""
        del name
        return Purpose.COMPLETE

    def is_complete(self, name: TableName) -> bool:
        """False: what consumers have of a topic is not known."""
        del name
        return False

    def is_set_aside(self, name: TableName) -> bool:
        """False: no table of such a job is."""
        del name
        return False

    def unseen(self, seen: Sequence[TableName], tables: str | None) -> tuple[str, ...]:
        """No names: which tables have been published is not known."""
        del seen, tables
        return ()
