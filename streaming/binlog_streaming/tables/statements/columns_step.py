"""The step before rows, where no statement did it: `adopt_keys`, `fit_columns`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from binlog_format.errors import SchemaError
from binlog_streaming.lake.commit_id import DROPPED_COLUMNS_PROPERTY, KEYS_OPEN_PROPERTY, QUERY_PROPERTY, joined_keys
from binlog_streaming.lake.evolution import fitting, reconciled
from binlog_streaming.plan.batch_plan import COLUMNS_STEP, ROWS_STEP
from binlog_streaming.tables.statements.row_retention import has_rows
from binlog_streaming.tables.statements.target_alteration import TargetAlteration
from binlog_streaming.tables.statements.work import dropped_columns

if TYPE_CHECKING:
    from binlog_streaming.lake.commit_id import CommitId
    from binlog_streaming.lake.target import Target
    from binlog_streaming.tables.positions import BatchPositions


def adopt_keys(target: Target, commit_id: CommitId) -> None:
    """Give *target* the key of the rows that come next, after a statement that may have changed it.

    Args:
        target: As it is; another query's stays so.
        commit_id: Of the rows.
    """
    properties = target.properties() or {}
    if properties.get(KEYS_OPEN_PROPERTY) and properties.get(QUERY_PROPERTY) == commit_id.query_id:
        target.set_properties(commit_id, recorded={KEYS_OPEN_PROPERTY: ""})


def fit_columns(target: Target, commit_id: CommitId, schema: pa.Schema, positions: BatchPositions) -> None:
    """Give *target* the columns of the rows that come next; create it if it does not exist.

    Args:
        target: As it is.
        commit_id: Of the rows.
        schema: Their columns.
        positions: The positions that targets record.

    Raises:
        SchemaError: `SCHEMA_CHANGED`: a column became one that does not hold its values, and there are some.
    """
    if target.properties() is None:
        target.create(schema, commit_id)
        return
    commit_id = replace(commit_id, step=commit_id.step - ROWS_STEP + COLUMNS_STEP, gtid_position=None)
    there, wanted = target.schema(), target.stored_schema(schema)
    try:
        asked = TargetAlteration(reconciled(there, wanted, commit_id.source_table))
    except SchemaError:
        if not has_rows(target):
            positions.clear_position(target, commit_id)
            target.replace(pa.RecordBatchReader.from_batches(wanted, []), commit_id)
            return
        held = fitting(there, wanted)
        removed = tuple(name for name in there.names if name not in held.names)
        if not set(removed) <= set(dropped_columns(target)):
            raise
        asked = TargetAlteration(reconciled(held, wanted, commit_id.source_table), removed)
    if asked:
        positions.clear_position(target, commit_id)
        asked.bring_into(target, commit_id)
    # Of a table that was made anew nobody may have known the columns; rows have those that it has.
    dropped, live = dropped_columns(target), {name.casefold() for name in schema.names}
    left = tuple(name for name in dropped if name.casefold() not in live)
    if left != dropped:
        target.set_properties(commit_id, recorded={DROPPED_COLUMNS_PROPERTY: joined_keys(left)})
