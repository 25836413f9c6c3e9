"""What a step asks of one target, be it a statement or a mark of a snapshot: `step_work(step, target)`.

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
from binlog_streaming.lake.target import QUERY_PROPERTY, SET_ASIDE_PROPERTY, SNAPSHOT_PROPERTY, VERIFIED_PROPERTY
from binlog_streaming.settings import Mode
from binlog_streaming.tables.statements.work import Work, created_work, held_keys, logged_emptying, work_of

if TYPE_CHECKING:
    from binlog_streaming.lake.target import Target
    from binlog_streaming.tables.statements.work import Occasion


def step_work(occasion: Occasion, target: Target) -> Work | None:
    """What a step (no RENAME) asks of a target; None: nothing.

    Args:
        occasion: The step and the target.
        target: As it is now.

    Raises:
        BinlogError: As `work_of`.
    """
    change = occasion.step.change
    if isinstance(change, SnapshotBegun):
        return _begun(occasion, target, change)
    if isinstance(change, SnapshotChunk):
        return _emptied(occasion, target)
    if isinstance(change, SnapshotEnded):
        properties = target.properties()
        said = {SNAPSHOT_PROPERTY: f"{change.snapshot}: complete at {_place(occasion)}"}
        return None if properties is None else Work(None, held_keys(properties), said)
    if isinstance(change, RepairBegun | RepairEnded):
        return None  # they mark where its rows are
    if isinstance(change, TableProved):
        properties = target.properties()
        if properties is None or (change.query_id, change.mode) != (properties.get(QUERY_PROPERTY), occasion.mode):
            return None
        return Work(None, held_keys(properties), {VERIFIED_PROPERTY: f"{change.gtids}, {change.rows} rows"})
    return work_of(occasion, target)


def _begun(occasion: Occasion, target: Target, begun: SnapshotBegun) -> Work | None:
    properties = target.properties()
    if properties is None:
        work = created_work(occasion, target, begun.created)
    elif begun.empties and occasion.mode is Mode.CHANGELOG:
        work = Work(logged_emptying(occasion, "truncate"), held_keys(properties))
    elif begun.empties:
        work = created_work(occasion, target, begun.created)
    else:
        work = Work(None, held_keys(properties))
    if work is None:
        return None
    said = {SNAPSHOT_PROPERTY: f"{begun.snapshot}: begun at {_place(occasion)}"}
    if properties is not None and properties.get(SET_ASIDE_PROPERTY):
        said[SET_ASIDE_PROPERTY] = ""
    return replace(work, said={**work.said, **said})


def _emptied(occasion: Occasion, target: Target) -> Work | None:
    # A chunk of a table without a key has all of its rows.
    properties = target.properties()
    if properties is None:
        return None
    is_changelog = occasion.mode is Mode.CHANGELOG
    commit = logged_emptying(occasion, "truncate") if is_changelog else occasion.emptied
    return Work(commit, held_keys(properties))


def _place(occasion: Occasion) -> str:
    statement = occasion.step.statement
    return statement.gtid or str(statement.position)
