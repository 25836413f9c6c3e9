"""Rows of a target, `has_rows`, and what stays of those gone from their source table: `living`, `retained_rows` ..."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from binlog_streaming.lake.evolution import cast_to_schema, fitting, modified, with_identity, with_values
from binlog_streaming.modes.mode_columns import (
    DELETED,
    DELETED_AT,
    IS_CURRENT,
    VALID_FROM,
    VALID_TO,
    VERSION_POSITION,
    mode_schema,
    place_text,
)
from binlog_streaming.settings import Deletes, Mode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from binlog_streaming.lake.target import Target
    from binlog_streaming.plan.batch_plan import LogPlace

_MICROS = 1_000_000


def keeps_rows(mode: Mode, deletes: Deletes) -> bool:
    """True if deleted rows stay in the target in some form."""
    return mode is Mode.SCD2 or (mode is Mode.MIRROR and deletes is Deletes.MARK)


def has_rows(target: Target) -> bool:
    """True if there is any row; it may read the table."""
    return any(batch.num_rows for batch in target.read())


def living(rows: pa.RecordBatch, mode: Mode) -> pa.BooleanArray:
    """Mask of the rows that the source table has, in a target that keeps deleted ones."""
    if mode is Mode.SCD2:
        return pc.fill_null(rows.column(IS_CURRENT), False)
    return pc.invert(pc.fill_null(rows.column(DELETED), False))  # null where they were never deleted


def live_rows(target: Target, mode: Mode, deletes: Deletes) -> pa.RecordBatchReader:
    """The rows that the source table has, in the columns of a plain mirror.

    Args:
        target: As it is; it is there.
        mode: What it holds; no changelog.
    """
    rows = target.read()
    if not keeps_rows(mode, deletes):
        return rows
    own = mode_schema(mode, pa.schema([]), deletes).names
    schema = pa.schema([field for field in rows.schema if field.name not in own])
    batches = (batch.filter(living(batch, mode)).select(schema.names) for batch in rows)
    return pa.RecordBatchReader.from_batches(schema, batches)


def time_scalar(commit_time: int, kind: pa.DataType) -> pa.Scalar:
    """A commit time, seconds since 1970 UTC, as a target has it."""
    return pa.scalar(commit_time * _MICROS, pa.int64()).cast(kind)


def new_row_values(mode: Mode, commit_time: int, place: LogPlace, schema: pa.Schema) -> dict[str, pa.Scalar]:
    """Values of the mode's columns in rows that a statement brings, but for null.

    Args:
        place: Of the statement.
        schema: Of the target.
    """
    if mode is not Mode.SCD2:
        return {DELETED: pa.scalar(False)}
    return {
        VALID_FROM: time_scalar(commit_time, schema.field(VALID_FROM).type),
        IS_CURRENT: pa.scalar(True),
        VERSION_POSITION: pa.scalar(place_text(*place)),
    }


def ended(rows: pa.RecordBatch, mode: Mode, commit_time: int, goes: pa.BooleanArray) -> pa.RecordBatch:
    """*rows* when some of them are not in the source table any more.

    Args:
        rows: Of a target that keeps them.
        commit_time: When they went, seconds since 1970 UTC.
        goes: Which rows went; they were `living`.
    """
    flag, when = (IS_CURRENT, VALID_TO) if mode is Mode.SCD2 else (DELETED, DELETED_AT)
    at = time_scalar(commit_time, rows.schema.field(when).type)
    changed = {
        flag: pc.if_else(goes, mode is not Mode.SCD2, rows.column(flag)),
        when: pc.if_else(goes, at, rows.column(when)),
    }
    return modified(with_values(rows, changed), goes)


def retained_rows(target: Target, mode: Mode, commit_time: int, schema: pa.Schema) -> pa.RecordBatchReader:
    """All rows of *target*, which keeps them, as they are when no row of the source table is there any more.

    Args:
        target: As it is; it is there.
        commit_time: When the rows went, seconds since 1970 UTC.
        schema: Columns that the rows get; null where they have none of that name, or one with values of another kind.
    """
    # Opened here: within the write that takes the rows, a library may not begin to read.
    rows = target.identified_rows()
    schema = with_identity(schema, rows.schema)
    return pa.RecordBatchReader.from_batches(schema, _ended(rows, mode, commit_time, schema))


def left_rows(
    target: Target, mode: Mode, deletes: Deletes, commit_time: int, mask: Callable[[pa.RecordBatch], pa.BooleanArray]
) -> pa.RecordBatchReader | None:
    """All rows of *target* as they are when some are not in the source table any more; None: it has none of those.

    Args:
        target: As it is; it is there.
        mode: What it holds; no changelog.
        commit_time: When they went, seconds since 1970 UTC.
        mask: Which rows go; it is given rows that the source table had.
    """
    keeps = keeps_rows(mode, deletes)

    def goes(batch: pa.RecordBatch) -> pa.BooleanArray:
        if not keeps:
            return mask(batch)
        found = living(batch, mode).to_numpy(zero_copy_only=False).copy()
        found[found] = mask(batch.filter(pa.array(found)))
        return pa.array(found)

    def left(batch: pa.RecordBatch) -> pa.RecordBatch:
        gone = goes(batch)
        return ended(batch, mode, commit_time, gone) if keeps else batch.filter(pc.invert(gone))

    if not sum(goes(batch).true_count for batch in target.read()):
        return None
    rows = target.identified_rows()
    return pa.RecordBatchReader.from_batches(rows.schema, map(left, rows))


def _ended(rows: pa.RecordBatchReader, mode: Mode, commit_time: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    kept = fitting(rows.schema, schema).names
    for batch in rows:
        yield cast_to_schema(ended(batch, mode, commit_time, living(batch, mode)).select(kept), schema)
