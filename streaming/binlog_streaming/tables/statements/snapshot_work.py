"""Effect of a step on one target, whether a statement or a mark of a snapshot: `step_work(step, target)`.

Where a snapshot begins, a target gets the columns that the table has there, as by its CREATE TABLE; one that exists
stays as it is where it only lacks rows from before the log. From its end on the target states that it is complete.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from binlog_connector.schema.snapshot_marks import (
    RepairBegun,
    RepairEnded,
    SnapshotBegun,
    SnapshotChunk,
    SnapshotEnded,
    TableProved,
)
from binlog_streaming.lake.commit_id import (
    DROPPED_PROPERTY,
    QUERY_PROPERTY,
    SET_ASIDE_PROPERTY,
    SNAPSHOT_PROPERTY,
    VERIFIED_PROPERTY,
)
from binlog_streaming.settings import Mode
from binlog_streaming.tables.statements.work import Work, created_work, held_keys, logged_removal, work_of

if TYPE_CHECKING:
    from binlog_streaming.lake.target import Target
    from binlog_streaming.tables.statements.work import StatementContext


def step_work(context: StatementContext, target: Target) -> Work | None:
    """Work of a step (no RENAME) on a target; None: nothing."""
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
