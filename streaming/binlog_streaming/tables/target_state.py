"""Position of a target in the log: `read_target_state(target)`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_format.errors import TableError, UnsupportedError
from binlog_format.gtids.gtid_set import parse_gtids
from binlog_streaming.lake.commit_id import (
    QUERY_PROPERTY,
    commit_id_of,
)

if TYPE_CHECKING:
    from binlog_format.gtids.gtid_set import GtidPoint
    from binlog_streaming.lake.target import Target
    from binlog_streaming.settings.choices import Mode


@dataclass(frozen=True, slots=True)
class TargetState:
    """State of a target.

    Attributes:
        owner: Id of the query that owns it.
        gtid: What of the log it holds; None: it does not record it.
        batch_id: The last batch of its query in it; None: none is.
    """

    owner: str
    gtid: GtidPoint | None
    batch_id: int | None


def read_target_state(target: Target, source_table: str, mode: Mode) -> TargetState | None:
    """Read the state of *target*; None while it does not exist.

    Args:
        target: As it was looked at.
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
    return TargetState(owner, _gtid_position(target), None if applied is None else applied.batch_id)


def check_ownership_can_transfer(target: Target, state: TargetState, told: str) -> None:
    """See that another query can become the owner of a target.

    Args:
        target: As it was looked at.
        state: Where it is.
        told: The table and its place.

    Raises:
        UnsupportedError: `FORMAT`: its files are named by the batches of the one that wrote them.
    """
    if not target.supports_other_owner and state.batch_id is not None:
        raise UnsupportedError(
            "FORMAT",
            f"{told}: plain Parquet files are named by the batches of the query that wrote them: another one cannot go "
            "on there",
            hint='Build it anew elsewhere (--target), or use sink.format = "delta" or "iceberg"',
        )


def _gtid_position(target: Target) -> GtidPoint | None:
    texts = [text for text in target.gtid_positions() if text]
    if not texts:
        return None
    # Each records what is in it, at different times: by the commit of a step, and by a replay after its last one.
    point = parse_gtids(texts[0])
    for text in texts[1:]:
        later = parse_gtids(text)
        point = point.advanced_by(later.without(point))
    return point
