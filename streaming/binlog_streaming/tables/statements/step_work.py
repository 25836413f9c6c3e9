"""Effect of a step on one target, whether a statement or a mark of a snapshot: `StepWork(...).work(context, target)`.

A RENAME, and an EXCHANGE PARTITION, are about two targets, one after the other: `StepWork.targets`.

Where a snapshot begins, a target gets the columns that the table has there, as by its CREATE TABLE; one that exists
stays as it is where it only lacks rows from before the log. From its end on the target states that it is complete.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from binlog_connector.schema.snapshot_marks import (
    RepairBegun,
    RepairEnded,
    SnapshotBegun,
    SnapshotChunk,
    SnapshotEnded,
    TableProved,
)
from binlog_connector.schema.table_changes import PartitionExchanged, TableRenamed
from binlog_streaming.lake.commit_id import (
    DROPPED_PROPERTY,
    QUERY_PROPERTY,
    SET_ASIDE_PROPERTY,
    SNAPSHOT_PROPERTY,
    VERIFIED_PROPERTY,
)
from binlog_streaming.settings import Mode
from binlog_streaming.tables.statements.partition_exchange import ExchangeSide, exchange_work
from binlog_streaming.tables.statements.renames import (
    begun_empty,
    origin_of,
    records_before_commit,
    renamed_away,
    replaced_by_rename,
)
from binlog_streaming.tables.statements.work import Work, created_work, held_keys, logged_removal, work_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from binlog_connector.schema.definitions import TableName
    from binlog_streaming.lake.commit_id import CommitId
    from binlog_streaming.lake.target import Target
    from binlog_streaming.modes.row_batches import ChangePlace
    from binlog_streaming.plan.batch_plan import ChangeStep
    from binlog_streaming.plan.job_state import SelectedTable
    from binlog_streaming.tables.statements.work import StatementContext


class CommitIdMaker(Protocol):
    """Maker of the commit ids of a component."""

    def __call__(
        self, table: SelectedTable, mode: Mode, number: int, last: ChangePlace | None, keys: tuple[str, ...] = ()
    ) -> CommitId:
        """The id of a commit to a table's target, in the step of a number."""


@dataclass(frozen=True, slots=True)
class StepWork:
    """Work of the steps of a component.

    Attributes:
        tables: Of the component.
        target_of: Gives the target of a table in a mode, as it is.
        commit_id_of: Of a target in a step.
    """

    tables: Mapping[TableName, SelectedTable]
    target_of: Callable[[SelectedTable, Mode], Target]
    commit_id_of: CommitIdMaker

    def targets(self, step: ChangeStep) -> Iterator[tuple[SelectedTable, Mode]]:
        """The targets that a step is about, in the order in which it is applied to them."""
        names, change = step.tables, step.change
        if isinstance(change, TableRenamed):
            names = tuple(reversed(names))  # the new table first: it gets what the old one holds
        elif isinstance(change, PartitionExchanged):
            names = (change.other, change.table, change.other)  # whoever has no rows gets some first
        for name in names:
            if name in self.tables:  # a statement about several tables is a step of each of their components
                for mode in self.tables[name].rule.modes:
                    yield self.tables[name], mode

    def work(self, context: StatementContext, target: Target) -> Work | None:
        """Work of a step on a target; None: nothing."""
        change = context.step.change
        if isinstance(change, TableRenamed):
            return self._renamed(context, change, target)
        if isinstance(change, PartitionExchanged):
            there = change.table if context.table.name == change.other else change.other
            return exchange_work(change, self._side(context), self._side(replace(context, table=self.tables[there])))
        return _step_work(context, target)

    def has_recorded(self, context: StatementContext, commit_id: CommitId) -> bool:
        """True if after a commit that is there nothing is left to record."""
        change = context.step.change
        if not isinstance(change, TableRenamed) or context.table.name == change.old:
            return isinstance(change, PartitionExchanged)
        origin = origin_of(context, change, self.tables.get(change.old))
        source = None if origin is None else self.target_of(origin.table, origin.mode)
        if source is None or records_before_commit(origin, source):
            return True
        # What becomes of the old name's target comes later, so then it has been recorded.
        return _holds(source, commit_id)

    def _renamed(self, context: StatementContext, change: TableRenamed, target: Target) -> Work | None:
        if context.table.name == change.old:
            return renamed_away(context, target, change)
        origin = origin_of(context, change, self.tables.get(change.old))
        if origin is None:
            return begun_empty(context, target)
        source = self.target_of(origin.table, origin.mode)
        source.check_owner(self._commit_id(origin.table, origin.mode, context.step, source))
        return replaced_by_rename(context, target, source, origin)

    def _side(self, context: StatementContext) -> ExchangeSide:
        target = self.target_of(context.table, context.mode)
        commit_id = self._commit_id(context.table, context.mode, context.step, target)
        target.check_owner(commit_id)
        return ExchangeSide(context, target, _holds(target, commit_id))

    def _commit_id(self, table: SelectedTable, mode: Mode, step: ChangeStep, target: Target) -> CommitId:
        return self.commit_id_of(table, mode, step.number, None, held_keys(target.properties() or {}))


def _holds(target: Target, commit_id: CommitId) -> bool:
    applied = target.applied(commit_id)
    return applied is not None and applied.place >= commit_id.place


def _step_work(context: StatementContext, target: Target) -> Work | None:
    change = context.step.change
    if isinstance(change, SnapshotBegun):
        return _begun(context, target, change)
    if isinstance(change, SnapshotChunk):
        return _removal_of_all(context, target)
    if isinstance(change, SnapshotEnded):
        properties = target.properties()
        recorded = {SNAPSHOT_PROPERTY: f"{change.snapshot}: complete at {_place(context)}"}
        return None if properties is None else Work(None, held_keys(properties), recorded)
    if isinstance(change, RepairBegun | RepairEnded):
        return None  # they mark where its rows are
    if isinstance(change, TableProved):
        properties = target.properties()
        if properties is None or (change.query_id, change.mode) != (properties.get(QUERY_PROPERTY), context.mode):
            return None
        return Work(None, held_keys(properties), {VERIFIED_PROPERTY: f"{change.gtids}, {change.rows} rows"})
    return work_of(context, target)


def _begun(context: StatementContext, target: Target, begun: SnapshotBegun) -> Work | None:
    properties = target.properties()
    work: Work | None
    if properties is not None and begun.empties and context.mode is Mode.CHANGELOG:
        work = Work(logged_removal(context, "truncate"), held_keys(properties))
    elif properties is None or begun.empties or properties.get(DROPPED_PROPERTY):
        work = created_work(context, target, begun.created)
    else:
        work = Work(None, held_keys(properties))
    if work is None:
        return None
    recorded = {SNAPSHOT_PROPERTY: f"{begun.snapshot}: begun at {_place(context)}"}
    if properties is not None and properties.get(SET_ASIDE_PROPERTY):
        recorded[SET_ASIDE_PROPERTY] = ""
    return replace(work, recorded={**work.recorded, **recorded})


def _removal_of_all(context: StatementContext, target: Target) -> Work | None:
    # A chunk of a table without a key has all of its rows.
    properties = target.properties()
    if properties is None:
        return None
    is_changelog = context.mode is Mode.CHANGELOG
    commit = logged_removal(context, "truncate") if is_changelog else context.remove_all_rows
    return Work(commit, held_keys(properties))


def _place(context: StatementContext) -> str:
    statement = context.step.statement
    return statement.gtid or str(statement.position)
