"""What a RENAME TABLE does to two targets: `taken_over` by the new name, `renamed_away` from the old one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from binlog_format.errors import SchemaError
from binlog_streaming.settings import Deletes, Mode, OnStatement
from binlog_streaming.tables.conforming import conformed
from binlog_streaming.tables.mode_columns import DELETED, MARK_FIELDS, mode_schema
from binlog_streaming.tables.statements import Work, held_keys
from binlog_streaming.tables.target import DROPPED_COLUMNS_PROPERTY, DROPPED_PROPERTY, joined_keys

if TYPE_CHECKING:
    from binlog_connector.schema.table_changes import TableRenamed
    from binlog_streaming.tables.kept import KeptTable
    from binlog_streaming.tables.statements import Occasion
    from binlog_streaming.tables.target import Target, Ticket


def check_old_is_kept(occasion: Occasion, change: TableRenamed, old: KeptTable | None) -> None:
    """See that the rows which a table gets by its new name are known.

    Raises:
        SchemaError: `TABLE_RENAMED`: they are not.
    """
    if occasion.mode is Mode.CHANGELOG or occasion.table.is_aside:
        return
    if old is None or occasion.mode not in old.rule.modes:
        raise SchemaError(
            "TABLE_RENAMED",
            f"{change.new} was {change.old} before, which the job does not keep with mode {occasion.mode}: its rows "
            "are not known",
            hint=f"Keep {change.old} too ([[tables]], with the same mode) in a job that starts before the RENAME, or "
            f"leave {change.new} out (source.excludeTables)",
        )


def taken_over(occasion: Occasion, source: Target, target: Target, deletes: Deletes) -> Work | None:
    """What makes *target* hold what *source* does.

    Args:
        occasion: The RENAME, and *target*.
        source: Of the old name.
        target: Of the new one.
        deletes: What a deleted row becomes in *source*.
    """
    there, properties = target.properties(), source.properties()
    if properties is None:
        if there is None:
            return None
        # Nothing is known of the new table: any column may have gone, or be another one of that name.
        columns = joined_keys(tuple(target.schema().names)) if occasion.keeps_rows else ""
        said = {DROPPED_PROPERTY: "", DROPPED_COLUMNS_PROPERTY: columns}
        return Work(occasion.emptied, held_keys(there), said)

    said = {DROPPED_PROPERTY: "", DROPPED_COLUMNS_PROPERTY: properties.get(DROPPED_COLUMNS_PROPERTY) or ""}
    new = {name: text for name, text in said.items() if (there or {}).get(name, "") != text}

    def copy(target: Target, ticket: Ticket) -> bool:
        rows = source.read()
        if occasion.mode is Mode.MIRROR and deletes is not occasion.table.rule.deletes:
            rows = _without_marks(rows) if deletes is Deletes.MARK else _with_marks(rows)
        if target.properties() is None:
            target.create(rows.schema, ticket)
        # Before the commit: afterwards *source* may hold another table's rows already.
        target.describe(ticket, said=new)
        target.replace(rows, ticket)
        return True

    return Work(copy, held_keys(properties))


def _with_marks(rows: pa.RecordBatchReader) -> pa.RecordBatchReader:
    schema = mode_schema(Mode.MIRROR, rows.schema, Deletes.MARK)

    def marked(batch: pa.RecordBatch) -> pa.RecordBatch:
        return conformed(batch.append_column(DELETED, pa.repeat(False, batch.num_rows)), schema)

    return pa.RecordBatchReader.from_batches(schema, map(marked, rows))


def _without_marks(rows: pa.RecordBatchReader) -> pa.RecordBatchReader:
    marks = {field.name for field in MARK_FIELDS}
    schema = pa.schema([field for field in rows.schema if field.name not in marks])

    def kept(batch: pa.RecordBatch) -> pa.RecordBatch:
        lives = pc.invert(pc.fill_null(batch.column(DELETED), False))
        return batch.filter(lives).select(schema.names)

    return pa.RecordBatchReader.from_batches(schema, map(kept, rows))


def renamed_away(occasion: Occasion, target: Target) -> Work | None:
    """What becomes of a target whose source table has another name now."""
    properties = target.properties()
    if properties is None or occasion.mode is Mode.CHANGELOG or occasion.table.name in occasion.step.overwritten:
        return None
    applies = occasion.table.is_aside or occasion.table.rule.on_drop is OnStatement.APPLY
    return Work(occasion.emptied if applies else None, held_keys(properties), occasion.dropped)
