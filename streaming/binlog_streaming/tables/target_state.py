"""How far a target is in the log: `read_target_state(target)`; `transfer_target` gives it to another query."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_format.errors import TableError, UnsupportedError
from binlog_format.gtids.gtid_set import parse_gtids
from binlog_streaming.lake.target import (
    BATCH_KEY,
    GTID_POSITION_KEY,
    KEYS_PROPERTY,
    LAST_CHANGE_KEY,
    MODE_PROPERTY,
    QUERY_PROPERTY,
    RULES_PROPERTY,
    SOURCE_PROPERTY,
    STEP_KEY,
    CommitId,
    split_keys,
)
from binlog_streaming.settings.choices import Mode, TableFormat

if TYPE_CHECKING:
    from collections.abc import Mapping

    from binlog_format.gtids.gtid_set import GtidPoint
    from binlog_streaming.lake.target import Target

_COMMITS_MAX = 64
"""Of a Delta table, among which the last step's own is looked for; maintenance makes a few after each."""


@dataclass(frozen=True, slots=True)
class TargetState:
    """Where a target is.

    Attributes:
        owner: Id of the query that owns it.
        gtid: What of the log it holds; None: it does not record it.
        batch_id: The last batch of its query in it; None: none is.
    """

    owner: str
    gtid: GtidPoint | None
    batch_id: int | None


def read_target_state(target: Target, table_format: TableFormat, source_table: str, mode: Mode) -> TargetState | None:
    """Look where *target* is; None while it does not exist.

    Args:
        target: As it was looked at.
        table_format: Of its sink.
        source_table: `database.table` that it is to hold.
        mode: What it is to hold of it.

    Raises:
        TableError: `OTHER_WRITER`, `SAME_TARGET`, `MODE_CHANGED`: it is no target of that table and mode.
    """
    properties = target.properties()
    if properties is None:
        return None
    owner = properties.get(QUERY_PROPERTY)
    if owner is None:
        raise TableError(
            "OTHER_WRITER",
            f"{source_table}: {target.uri} was written by somebody else, not by binlog-stream",
            hint="Name another --target, or remove it",
        )
    commit_id = commit_id_of(properties, owner, source_table, mode)
    target.check_owner(commit_id)
    applied = target.applied(commit_id)
    return TargetState(owner, _gtid_position(target, table_format), None if applied is None else applied.batch_id)


def transfer_target(target: Target, table_format: TableFormat, query_id: str) -> None:
    """Make another query, whose batches are counted from 0, the owner of an existing target.

    Not for plain Parquet files, see `check_ownership_can_transfer`.
    """
    properties = target.properties()
    assert properties is not None
    source_table, mode = properties[SOURCE_PROPERTY], Mode(properties[MODE_PROPERTY])
    if table_format is TableFormat.ICEBERG:
        _transfer_iceberg(target, query_id)
    else:
        target.set_properties(commit_id_of(properties, query_id, source_table, mode))


def check_ownership_can_transfer(state: TargetState, table_format: TableFormat, told: str) -> None:
    """See that another query can become the owner of a target.

    Args:
        state: Where it is.
        table_format: Of its sink.
        told: The table and its place.

    Raises:
        UnsupportedError: `FORMAT`: its files are named by the batches of the one that wrote them.
    """
    if table_format is TableFormat.PARQUET and state.batch_id is not None:
        raise UnsupportedError(
            "FORMAT",
            f"{told}: plain Parquet files are named by the batches of the query that wrote them: another one cannot go "
            "on there",
            hint='Build it anew elsewhere (--target), or use sink.format = "delta" or "iceberg"',
        )


def commit_id_of(properties: Mapping[str, str], query_id: str, source_table: str, mode: Mode) -> CommitId:
    """A commit id for what is no step of a batch; keys are those of the target."""
    return CommitId(
        query_id=query_id,
        batch_id=0,
        step=0,
        source_table=source_table,
        mode=mode,
        keys=split_keys(properties.get(KEYS_PROPERTY, "")),
        position="",
        last_change="",
        gtid=None,
        rules=properties.get(RULES_PROPERTY, ""),
    )


def _transfer_iceberg(target: Target, query_id: str) -> None:
    from binlog_streaming.lake.iceberg.commit import SNAPSHOT_PROPERTY, IcebergCommit
    from binlog_streaming.lake.iceberg.target import IcebergTarget

    assert isinstance(target, IcebergTarget)
    # Properties record the last batch, for the one query that is named there. With a snapshot: catalogs
    # compare these, so what the query before it still has under way is refused.
    counted = (BATCH_KEY, STEP_KEY, LAST_CHANGE_KEY, SNAPSHOT_PROPERTY)
    IcebergCommit(properties={QUERY_PROPERTY: query_id}, cleared=counted, keeps_rows=True).on(target.table)


def _gtid_position(target: Target, table_format: TableFormat) -> GtidPoint | None:
    readers = {
        TableFormat.DELTA: _positions_in_delta,
        TableFormat.ICEBERG: _positions_in_iceberg,
        TableFormat.PARQUET: _positions_in_parquet,
    }
    texts = [text for text in readers[table_format](target) if text]
    if not texts:
        return None
    # Each records what is in it, at different times: by the commit of a step, and by a replay after its last one.
    point = parse_gtids(texts[0])
    for text in texts[1:]:
        later = parse_gtids(text)
        point = point.advanced_by(later.without(point))
    return point


def _positions_in_delta(target: Target) -> list[str | None]:
    from binlog_streaming.lake.delta.log import recent_information
    from binlog_streaming.lake.delta.target import DeltaTarget

    assert isinstance(target, DeltaTarget)
    assert target.log is not None
    recorded = (target.properties() or {}).get(GTID_POSITION_KEY)
    for commit in recent_information(target.store, target.log, _COMMITS_MAX):
        step = _step_of_commit(commit)
        if step is not None:
            return [recorded, step.get(GTID_POSITION_KEY)]
    return [recorded]


def _step_of_commit(commit: Mapping[str, object]) -> Mapping[str, str] | None:
    # None: it is no step. Spark, which wrote tables in former versions, puts the properties of a commit into one text.
    if BATCH_KEY in commit:
        return {name: str(value) for name, value in commit.items()}
    try:
        recorded = json.loads(str(commit.get("userMetadata")))
    except ValueError:
        return None
    return recorded if isinstance(recorded, dict) and BATCH_KEY in recorded else None


def _positions_in_iceberg(target: Target) -> list[str | None]:
    from binlog_streaming.lake.iceberg.target import IcebergTarget

    assert isinstance(target, IcebergTarget)
    return [target.table.properties.get(GTID_POSITION_KEY)]


def _positions_in_parquet(target: Target) -> list[str | None]:
    from binlog_streaming.lake.parquet import ParquetTarget

    assert isinstance(target, ParquetTarget)
    return [(target.properties() or {}).get(GTID_POSITION_KEY), target.gtid_position()]
