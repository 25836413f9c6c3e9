"""Rows gone from their source table, in targets that keep them: `living`, `live_rows`, `ended`, `emptied_rows`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from binlog_streaming.settings import Deletes, Mode
from binlog_streaming.tables.conforming import conformed, with_values
from binlog_streaming.tables.evolution import fitting
from binlog_streaming.tables.mode_columns import DELETED, DELETED_AT, IS_CURRENT, VALID_TO, mode_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_streaming.tables.target import Target

_MICROS = 1_000_000


def keeps_rows(mode: Mode, deletes: Deletes) -> bool:
    """Whether rows that are gone stay in the target, in some way."""
    return mode is Mode.SCD2 or (mode is Mode.MIRROR and deletes is Deletes.MARK)


def living(rows: pa.RecordBatch, mode: Mode) -> pa.BooleanArray:
    """Which rows of a target that keeps them are those that the source table has."""
    if mode is Mode.SCD2:
        return pc.fill_null(rows.column(IS_CURRENT), False)
    return pc.invert(pc.fill_null(rows.column(DELETED), False))  # null where they were never deleted


def live_rows(target: Target, mode: Mode, deletes: Deletes) -> pa.RecordBatchReader:
    """The rows that the source table has, in the columns of a plain mirror.

    Args:
        target: As it is; it is there.
        mode: What it holds; no changelog.
        deletes: What a deleted row becomes in it.
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


def ended(rows: pa.RecordBatch, mode: Mode, commit_time: int, goes: pa.BooleanArray) -> pa.RecordBatch:
    """*rows* when some of them are not in the source table any more.

    Args:
        rows: Of a target that keeps them.
        mode: What it holds.
        commit_time: When they went, seconds since 1970 UTC.
        goes: Which rows went; they were `living`.
    """
    flag, when = (IS_CURRENT, VALID_TO) if mode is Mode.SCD2 else (DELETED, DELETED_AT)
    at = time_scalar(commit_time, rows.schema.field(when).type)
    changed = {
        flag: pc.if_else(goes, mode is not Mode.SCD2, rows.column(flag)),
        when: pc.if_else(goes, at, rows.column(when)),
    }
    return with_values(rows, changed)


def emptied_rows(target: Target, mode: Mode, commit_time: int, schema: pa.Schema) -> pa.RecordBatchReader:
    """All rows of *target*, which keeps them, as they are when no row of the source table is there any more.

    Args:
        target: As it is; it is there.
        mode: What it holds.
        commit_time: When the rows went, seconds since 1970 UTC.
        schema: Columns that the rows get; null where they have none of that name, or one with values of another kind.
    """
    # Opened here: within the write that takes the rows, a library may not begin to read.
    return pa.RecordBatchReader.from_batches(schema, _ended(target.read(), mode, commit_time, schema))


def _ended(rows: pa.RecordBatchReader, mode: Mode, commit_time: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    kept = fitting(rows.schema, schema).names
    for batch in rows:
        yield conformed(ended(batch, mode, commit_time, living(batch, mode)).select(kept), schema)
