"""What is left of a target's rows when all rows of its source table are gone: `emptied_rows`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from binlog_streaming.settings import Deletes, Mode
from binlog_streaming.tables.conforming import conformed
from binlog_streaming.tables.evolution import fitting
from binlog_streaming.tables.mode_columns import DELETED, DELETED_AT, IS_CURRENT, VALID_TO

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_streaming.tables.target import Target

_MICROS = 1_000_000


def keeps_rows(mode: Mode, deletes: Deletes) -> bool:
    """Whether rows that are gone stay in the target, in some way."""
    return mode is Mode.SCD2 or (mode is Mode.MIRROR and deletes is Deletes.MARK)


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
    flag, when = (IS_CURRENT, VALID_TO) if mode is Mode.SCD2 else (DELETED, DELETED_AT)
    for batch in rows:
        flags = batch.column(flag)
        # A row ended before keeps its time; a mirror's rows have null where they were never deleted.
        lives = pc.fill_null(flags, False) if mode is Mode.SCD2 else pc.invert(pc.fill_null(flags, False))
        at = pa.scalar(commit_time * _MICROS, pa.int64()).cast(batch.schema.field(when).type)
        ended = {flag: pa.repeat(pa.scalar(mode is not Mode.SCD2), batch.num_rows)}
        ended[when] = pc.if_else(lives, at, batch.column(when))
        arrays = [ended.get(name, column) for name, column in zip(batch.schema.names, batch.columns, strict=True)]
        kept = fitting(batch.schema, schema).names
        yield conformed(pa.RecordBatch.from_arrays(arrays, schema=batch.schema).select(kept), schema)
