"""Effects of a RENAME TABLE on two targets: `replaced_by_rename` by the new name, `renamed_away` from the old one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_connector.schema.online_schema_change import ghost_of
from binlog_format.errors import SchemaError
from binlog_format.rows.arrow_arrays import mask_array
from binlog_streaming.lake.commit_id import DROPPED_COLUMNS_PROPERTY, DROPPED_PROPERTY, joined_keys
from binlog_streaming.lake.schema_cast import cast_to_schema
from binlog_streaming.modes.mode_columns import DELETED, mode_schema
from binlog_streaming.settings import Begin, Deletes, Mode, OnStatement
from binlog_streaming.tables.statements.cut_over import cut_over
from binlog_streaming.tables.statements.row_retention import live_rows
from binlog_streaming.tables.statements.work import Work, held_keys

if TYPE_CHECKING:
    from binlog_connector.schema.table_changes import TableRenamed
    from binlog_streaming.lake.commit_id import CommitId
    from binlog_streaming.lake.target import Target
    from binlog_streaming.plan.table_selection import SelectedTable
    from binlog_streaming.tables.statements.work import StatementContext


@dataclass(frozen=True, slots=True)
class RenameOrigin:
    """Source of a target's rows in a RENAME.

    Attributes:
        table: The old name.
        mode: Which target of it; never a changelog.
        is_ghost: Its rows are those of the same table, in other columns: the target keeps what was before.
    """

    table: SelectedTable
    mode: Mode
    is_ghost: bool

    @property
    def deletes(self) -> Deletes:
        """Handling of deleted rows there."""
        return self.table.rule.deletes


def origin_of(context: StatementContext, change: TableRenamed, old: SelectedTable | None) -> RenameOrigin | None:
    """Find the source of a target's rows.

    Args:
        context: The RENAME, and the target of the new name.
        change: The RENAME.
        old: The table of the old name, if it is kept.

    Returns:
        None: from nowhere, as a changelog; or its rows are not known, and may be missing.

    Raises:
        SchemaError: `TABLE_RENAMED`: its rows are not known.
    """
    mode, table = context.mode, context.table
    if mode is Mode.CHANGELOG:
        return None
    if old is not None:
        is_ghost = ghost_of(old.name) == table.name
        modes = [mode]
        if is_ghost or old.is_aside or table.is_aside:
            modes += [Mode.MIRROR, Mode.SCD2]
        held = next((one for one in modes if one in old.rule.modes), None)
        if held is not None:
            # Of rows of another kind nobody knows what was before them, so the target's own past is all there is.
            return RenameOrigin(old, held, context.keeps_rows and (is_ghost or held is not mode))
    if table.is_aside or table.rule.begin is Begin.EMPTY:
        return None
    raise SchemaError(
        "TABLE_RENAMED",
        f"{change.new} was {change.old} before, which the job does not keep with mode {mode}: its rows are not known",
        hint=f"Keep {change.old} too ([[tables]], with the same mode) in a job that starts before the RENAME, or "
        f'leave {change.new} out (option source.excludeTables); or set begin = "empty" for it to go on without them',
    )


def records_before_commit(origin: RenameOrigin | None, source: Target | None) -> bool:
    """True if `replaced_by_rename` records properties before its commit; else after it."""
    return origin is None or (not origin.is_ghost and source is not None and source.properties() is not None)


def replaced_by_rename(context: StatementContext, target: Target, source: Target, origin: RenameOrigin) -> Work | None:
    """Make *target* equal to *source*.

    Args:
        context: The RENAME, and *target*.
        target: Of the new name.
        source: Of the old one.
        origin: What *source* is.

    Raises:
        SchemaError: What `cut_over` raises.
    """
    there, properties = target.properties(), source.properties()
    if properties is None:
        return begun_empty(context, target)
    if origin.is_ghost:
        return cut_over(context, target, source, origin.mode, origin.deletes)

    recorded = {DROPPED_PROPERTY: "", DROPPED_COLUMNS_PROPERTY: properties.get(DROPPED_COLUMNS_PROPERTY) or ""}
    new = {name: text for name, text in recorded.items() if (there or {}).get(name, "") != text}

    def copy(target: Target, commit_id: CommitId) -> bool:
        rows = _rows_for(context, source, origin)
        if target.properties() is None:
            target.create(rows.schema, commit_id)
        # Before the commit: afterwards *source* may hold another table's rows already.
        target.set_properties(commit_id, recorded=new)
        target.replace(rows, commit_id)
        return True

    return Work(copy, held_keys(properties))


def begun_empty(context: StatementContext, target: Target) -> Work | None:
    """Effect of a RENAME on the target of the new name, if the rows of the old one are not known."""
    there = target.properties()
    if there is None or context.mode is Mode.CHANGELOG or context.table.is_aside:
        return None
    # Any column may have gone, or be another one of that name.
    columns = joined_keys(tuple(target.schema().names)) if context.keeps_rows else ""
    return Work(context.remove_all_rows, held_keys(there), {DROPPED_PROPERTY: "", DROPPED_COLUMNS_PROPERTY: columns})


def _rows_for(context: StatementContext, source: Target, origin: RenameOrigin) -> pa.RecordBatchReader:
    deletes = context.table.rule.deletes
    if origin.mode is context.mode and (origin.mode is Mode.SCD2 or origin.deletes is deletes):
        return source.read()
    rows = live_rows(source, origin.mode, origin.deletes)
    return _with_marks(rows) if deletes is Deletes.MARK else rows


def _with_marks(rows: pa.RecordBatchReader) -> pa.RecordBatchReader:
    schema = mode_schema(Mode.MIRROR, rows.schema, Deletes.MARK)

    def marked(batch: pa.RecordBatch) -> pa.RecordBatch:
        unmarked = mask_array(np.zeros(batch.num_rows, dtype=np.bool_))
        return cast_to_schema(batch.append_column(DELETED, unmarked), schema)

    return pa.RecordBatchReader.from_batches(schema, map(marked, rows))


def renamed_away(context: StatementContext, target: Target) -> Work | None:
    """Effect on a target whose source table has another name now."""
    properties = target.properties()
    if properties is None or context.mode is Mode.CHANGELOG or context.table.name in context.step.overwritten:
        return None
    applies = context.table.is_aside or context.table.rule.on_drop is OnStatement.APPLY
    return Work(context.remove_all_rows if applies else None, held_keys(properties), context.dropped)
