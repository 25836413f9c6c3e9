"""Facts about a job's tables that a snapshot depends on: `JobTables`, and `TopicsTables` of a job that publishes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_connector.schema.definitions import TableName
from binlog_connector.schema.snapshot_marks import Purpose
from binlog_format.views.filters import TableFilter
from binlog_streaming.job_state.checkpoint import read_checkpoint
from binlog_streaming.job_state.record_keeper import RecordKeeper
from binlog_streaming.job_state.state_files import state_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_streaming.settings.model import Job


class JobTables:
    """The tables of a job, from its checkpoint; there need not be one yet."""

    def __init__(self, job: Job) -> None:
        checkpoint = read_checkpoint(state_of(job))
        keeper = RecordKeeper(job)
        keeper.changes()
        record = keeper.record
        self._has_begun = checkpoint is not None and checkpoint.batch_id is not None
        self._exclude = job.source.exclude_tables
        self._written = {TableName(*name) for name in record.tables}
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
        return Purpose.COMPLETE if not self._has_begun or (is_whole and name not in self._complete) else Purpose.RESYNC

    def is_complete(self, name: TableName) -> bool:
        """True if the job has all rows of a table."""
        return name in self._complete and name not in self._incomplete and not self.is_set_aside(name)

    def is_set_aside(self, name: TableName) -> bool:
        """True if the job does not continue with a table, or with the snapshot that it has of it."""
        return name in self._set_aside

    def unseen(self, seen: Sequence[TableName], tables: str | None) -> tuple[str, ...]:
        """Names of tables that the job has written, and that are not among *seen*.

        Args:
            tables: Expressions of those that are asked for; None: all.
        """
        wanted = TableFilter(tables, self._exclude)
        unseen = {name for name in self._written if wanted.accepts_name(*name)}.difference(seen)
        return tuple(sorted(map(str, unseen)))


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
