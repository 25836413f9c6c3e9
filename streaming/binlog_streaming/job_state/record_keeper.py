"""Keeps the record of a job in its checkpoint: `RecordKeeper(job)`."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import msgspec

from binlog_connector.following.log_end import start_of_log
from binlog_connector.following.offsets import SourceOffset
from binlog_connector.following.resume import compare, is_same_log
from binlog_connector.following.watched import WatchedLog
from binlog_connector.schema.definitions import TableName
from binlog_connector.schema.statement_scope import StatementScope
from binlog_format import open_log
from binlog_format.errors import OptionError
from binlog_format.events.layout import EventType
from binlog_format.position import Place
from binlog_streaming.job_state.checkpoint import read_checkpoint, read_offset, state_of
from binlog_streaming.job_state.definition_keeper import DefinitionKeeper, keep_batch
from binlog_streaming.job_state.record import (
    RECORD_FILE,
    JobRecord,
    ScopeRecord,
    TableStates,
    Verified,
    changed_log,
    changes_between,
    read_record,
    with_declared_types,
)
from binlog_streaming.plan.job_state import JobState
from binlog_streaming.settings.choices import Mode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from binlog_connector.schema.log_ddl import DdlStatement
    from binlog_format.block import Block
    from binlog_format.errors import DataLossError
    from binlog_streaming.job_state.progress import BatchProgress
    from binlog_streaming.job_state.record import RecordChange
    from binlog_streaming.plan.job_state import SetAside
    from binlog_streaming.settings.model import Job

logger = logging.getLogger(__name__)


class RecordKeeper:
    """Keeps the record of a job in its checkpoint; `begin` when the job starts, `saw_batch` after every batch."""

    def __init__(self, job: Job) -> None:
        self._job = job = with_declared_types(job)
        self._record = JobRecord.of(job)
        self._definitions = DefinitionKeeper(job)
        self._is_new = True
        self._log_start: SourceOffset | None = None  # as the first batch is planned

    def changes(self) -> list[RecordChange]:
        """Settings that differ from the checkpoint's record; nothing while no batch was begun."""
        checkpoint = read_checkpoint(state_of(self._job))
        reached = None if checkpoint is None else checkpoint.pending or checkpoint.offset
        if checkpoint is None or reached is None:
            return []
        # A batch that was not finished may have been refused before anything was known.
        self._is_new = checkpoint.offset is None
        record = self._read()
        if record is None:
            return []  # of a version that kept none
        now = JobRecord.of(self._job)
        changes = changes_between(record, now)
        source = self._job.source
        if record.path != now.path and not is_same_log(source.path, source.format, reached):
            changes.insert(0, changed_log(record, now, reached))
        self._record = now.going_on(record)
        return changes

    @property
    def record(self) -> JobRecord:
        """The record, as far as it was read and noted."""
        return self._record

    def state_before(self, batch_id: int) -> JobState:
        """The job as known before a batch.

        Raises:
            DataLossError: An earlier attempt at the first batch began in a file that is gone, or is another one: its
                targets may have rows of it.
        """
        self._note(msgspec.structs.replace(self._record, from_first=self._from_first(batch_id)))
        if batch_id == 0 and self._job.source.starts_at_the_beginning:
            with WatchedLog(self._job.source.path, self._job.source.format) as watched:
                self._log_start = start_of_log(watched)
        loss = self._loss_before(batch_id)
        if loss is not None:
            if self._job.source.fail_on_data_loss is not False:
                raise loss
            self._note(_lacking(self._record))
            self._definitions.forget()
            logger.warning("data is lost, and failOnDataLoss is false: every table lacks changes from now on: %s", loss)
        return self._state_at(batch_id)

    def peek(self) -> JobState:
        """The job as known if it continued now; nothing is written."""
        batch_id = self._record.scope.batch_id + 1
        return replace(self._state_at(batch_id), from_first=self._from_first(batch_id))

    def _from_first(self, batch_id: int) -> bool | None:
        source, known = self._job.source, self._record.from_first
        # Until a batch is written, the job begins where its log begins now: files may be gone since it was planned.
        begins_anew = batch_id == 0 and known is True and source.starts_at_the_beginning
        if not self._is_new or (known is not None and not begins_anew):
            return known
        return source.starts_at_the_beginning and begins_with_first(source.path, source.format)

    def _loss_before(self, batch_id: int) -> DataLossError | None:
        """Error for log data that is lost since the batch before, or since an earlier attempt at the first one.

        Of later batches Spark's reader raises it, unless the job is to go on.
        """
        source, began = self._job.source, self._record.began
        if batch_id == 0:
            offset = None if began is None else SourceOffset.from_json(began)
        else:
            offset = None if source.fail_on_data_loss is not False else read_offset(state_of(self._job), batch_id - 1)
        if offset is None:
            return None
        with WatchedLog(source.path, source.format) as watched:
            return compare(watched, offset).loss

    def _state_at(self, batch_id: int) -> JobState:
        record, states = self._record, self._record.states(batch_id)
        complete = dict.fromkeys((TableName(*name) for name in states.complete), True)
        complete |= dict.fromkeys((TableName(*name) for name in states.incomplete), False)
        return JobState(
            written=self.written,
            from_first=record.from_first,
            complete=complete,
            set_aside={stopped.name: stopped for stopped in states.set_aside},
            scope=StatementScope.from_json(record.scope.at(batch_id)),
            snapshots={snapshot.name: snapshot for snapshot in states.snapshots},
            earlier=[earlier.filter() for earlier in record.earlier],
        )

    @property
    def written(self) -> dict[TableName, frozenset[Mode]]:
        """Tables that the job has written, and which targets are there since, as far as was read and noted."""
        written = {TableName(*name): frozenset[Mode]() for name in self._record.tables}
        for database, table, mode in self._record.targets:
            written[TableName(database, table)] |= {Mode(mode)}
        return written

    def refused_changes(self) -> Iterator[OptionError]:
        """Compare; the errors about settings that must not differ from those that the checkpoint was created with."""
        for change in self.changes():
            hint = f"{change.hint}. If it is meant so, delete {self.path}: then the job file counts as it is"
            reason = f"{change.setting}: {change.reason}"
            yield OptionError("INVALID_VALUE", reason, at=Place(self._job.checkpoint), hint=hint)

    def begin(self) -> None:
        """Compare, and write down the job's settings from now on."""
        for error in self.refused_changes():
            raise error
        self._write()

    def record_batch(
        self,
        tables: Iterable[tuple[str, str]],
        targets: Iterable[tuple[str, str, Mode]] = (),
        *,
        from_first: bool | None = None,
    ) -> None:
        """Note that tables have been written.

        Args:
            targets: Database, name and mode of those targets of theirs that are there.
            from_first: These, and what the job reads, go back to the server's first transaction; None: only what the
                job reads counts.
        """
        there = ((database, table, str(mode)) for database, table, mode in targets)
        self._note(
            msgspec.structs.replace(
                self._record,
                tables=_sorted(self._record.tables, tables),
                targets=_sorted(self._record.targets, there),
                from_first=self._record.from_first if from_first is None else from_first,
            )
        )

    def inherit(self, record: JobRecord) -> None:
        """Take over the facts in another job's record, not its settings."""
        # Which tables it selected does not count either: those that it left alone have come as far before.
        self._record = msgspec.structs.replace(JobRecord.of(self._job).going_on(record), earlier=())
        self._write()

    def set_aside(self, tables: Iterable[SetAside]) -> None:
        """Set *tables* aside until they are brought back; those that are aside already stay so.

        A job that begins with this begins in the middle of its log.
        """
        record, new = self._record, {table.name: table for table in tables}
        others = tuple(stopped for stopped in record.set_aside if stopped.name not in new)
        from_first = False if self._is_new else record.from_first
        self._note(msgspec.structs.replace(record, set_aside=(*others, *new.values()), from_first=from_first))

    def resume_tables(self, built: JobRecord, targets: Iterable[tuple[str, str, Mode]]) -> None:
        """Go on with all tables that were set aside.

        Args:
            built: The record of what brought them to where this job is.
            targets: Database, name and mode of those targets of theirs that exist now.
        """
        record, names = self._record, {(stopped.database, stopped.table) for stopped in self._record.set_aside}
        others = {target for target in record.targets if target[:2] not in names}
        self._note(
            msgspec.structs.replace(
                record,
                targets=_sorted(others, ((database, table, str(mode)) for database, table, mode in targets)),
                tables=_sorted(record.tables, names),
                complete=_sorted(set(record.complete) - names, names & set(built.complete)),
                incomplete=_sorted(set(record.incomplete) - names, names & set(built.incomplete)),
                set_aside=(),
            )
        )

    def keep_definitions(
        self, batch_id: int, statements: Iterable[DdlStatement], end: SourceOffset | None
    ) -> frozenset[TableName] | None:
        """Keep what defines the job's tables after a batch, and where the first one begins, before it is written.

        Args:
            statements: `StateChange.definitions`.
            end: Where it ends; None: that is not known, and nothing is kept.

        Returns:
            Tables that are defined; None: that is not known.
        """
        if self._log_start is not None and self._record.began is None:
            self._note(msgspec.structs.replace(self._record, began=self._log_start.to_json()))
        if end is not None:
            start = read_offset(state_of(self._job), batch_id - 1)
            keep_batch(self._definitions, self._job, statements, start, end)
        return self._definitions.defined

    def observed_from_start(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """See `DefinitionKeeper.observed_from_start`."""
        return self._definitions.observed_from_start(blocks)

    def keep_definitions_of_server(self, statements: Sequence[DdlStatement]) -> None:
        """Keep definitions that were read from the server: `DefinitionKeeper.take_from_server`."""
        if statements:
            with WatchedLog(self._job.source.path, self._job.source.format) as watched:
                self._definitions.take_from_server(watched, statements)

    def saw_batch(self, batch: BatchProgress) -> None:
        """Note what a batch has written and learned."""
        change, before = batch.state_change, self._record
        targets = set(before.targets)
        for table in batch.tables:
            if table.set_aside is None:
                targets.add((*TableName.parse(table.source_table), table.mode))
        complete = {name for name, is_complete in change.complete.items() if is_complete}
        incomplete = set(change.complete) - complete
        over = {stopped.name for stopped in batch.set_aside} | change.returned
        scope = change.scope.to_json()
        self._note(
            msgspec.structs.replace(
                before,
                tables=_sorted(before.tables, (target[:2] for target in targets)),
                targets=tuple(sorted(target for target in targets if target[:2] not in change.gone)),
                complete=_sorted(complete, set(before.complete) - incomplete),
                incomplete=_sorted(incomplete, set(before.incomplete) - complete),
                set_aside=(*(stopped for stopped in before.set_aside if stopped.name not in over), *batch.set_aside),
                snapshots=tuple(snapshot for _, snapshot in sorted(change.snapshots.items())),
                verified=_verified(before.verified, batch),
                before=_states(before, batch.batch_id),
                scope=ScopeRecord(batch_id=batch.batch_id, before=before.scope.at(batch.batch_id), after=scope),
            )
        )

    def _note(self, record: JobRecord) -> None:
        # What stays the same needs no new file in every batch: before it and after it are one.
        old = self._record
        is_same = msgspec.structs.replace(record, scope=old.scope, before=old.before) == old
        is_same = is_same and _states(record, 0) == msgspec.structs.replace(record.before, batch_id=0)
        if not is_same or record.scope.before != record.scope.after or record.scope.after != self._record.scope.after:
            self._record = record
            self._write()

    @property
    def path(self) -> str:
        """Path of the record."""
        return f"{self._job.checkpoint.rstrip('/')}/{RECORD_FILE}"

    def _read(self) -> JobRecord | None:
        return read_record(state_of(self._job))

    def _write(self) -> None:
        content = msgspec.json.format(msgspec.json.encode(self._record), indent=2)
        state_of(self._job).write(RECORD_FILE, content)


_Name = TypeVar("_Name", bound=tuple[str, ...])


def _verified(before: Iterable[Verified], batch: BatchProgress) -> tuple[Verified, ...]:
    """The newest proofs of targets after a batch."""
    known = {(target.database, target.table, target.mode): target for target in before}
    for proof in filter(None, (table.verified for table in batch.tables)):
        (database, table), mode = proof.name, proof.mode
        known[database, table, mode] = Verified(
            database=database, table=table, mode=mode, gtids=proof.gtids, rows=proof.rows, commit_time=proof.commit_time
        )
    return tuple(target for _, target in sorted(known.items()))


def _states(record: JobRecord, batch_id: int) -> TableStates:
    """Table states of *record* before a batch."""
    states = record.states(batch_id)
    return TableStates(
        batch_id=batch_id,
        complete=states.complete,
        incomplete=states.incomplete,
        set_aside=states.set_aside,
        snapshots=states.snapshots,
    )


def _lacking(record: JobRecord) -> JobRecord:
    """Mark all tables as incomplete after changes were lost, also those that the job meets later."""
    incomplete = _sorted(record.tables, record.complete, record.incomplete)
    snapshots = tuple(
        msgspec.structs.replace(snapshot, problem="changes of the table were lost") if snapshot.is_open else snapshot
        for snapshot in record.snapshots
    )
    before = msgspec.structs.replace(record.before, complete=(), incomplete=incomplete, snapshots=snapshots)
    return msgspec.structs.replace(
        record, from_first=False, complete=(), incomplete=incomplete, snapshots=snapshots, before=before
    )


def begins_with_first(path: str, format_name: str | None = None) -> bool:
    """True if the log at *path* is known to begin with the first transaction that its server ever logged.

    It can where transactions have GTIDs. Without any transaction, or GTID, nothing is known.
    """
    with open_log(path, format_name=format_name) as log:
        start = log.start_position()
        if log.gtid_position_at(start):
            return False
        for block in log.blocks(start):
            # In an `.ibb` log a Format_description event is a group of its own.
            owners = block.events["group"][block.events["type"] != EventType.FORMAT_DESCRIPTION]
            if len(owners):
                return bool(block.groups["has_gtid"][int(owners[0])])
        return False


def _sorted(*names: Iterable[_Name]) -> tuple[_Name, ...]:
    return tuple(sorted({name for some in names for name in some}))
