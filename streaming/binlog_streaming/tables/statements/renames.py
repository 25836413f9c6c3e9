"""Effects of a RENAME TABLE on two targets: `replaced_by_rename` by the new name, `renamed_away` from the old one.

A ghost takes the place of a table, in a target that keeps what was: `cut_over`.

What gh-ost and pt-online-schema-change build is the same table with other columns. So a target that keeps versions, or
marked rows, is not replaced by the ghost's rows but compared with them: a row that the ghost has with the same values
stays what it is, and gets the ghost's values in new columns; one with other values is a new version (or, where there
are no versions, gets these values); one that the ghost does not have is gone. What was gone before stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_connector.schema.definitions import ghost_of
from binlog_format.errors import SchemaError
from binlog_format.names import folded_name, folded_names
from binlog_format.rows.arrow_arrays import fixed_array, mask_array, numbers_array
from binlog_streaming.lake.commit_id import (
    DROPPED_COLUMNS_PROPERTY,
    DROPPED_PROPERTY,
    KEYS_OPEN_PROPERTY,
    joined_keys,
)
from binlog_streaming.lake.evolution import (
    IDENTITY,
    cast_to_schema,
    fitting,
    modified,
    reconciled,
    with_identity,
    with_values,
)
from binlog_streaming.lake.key_lookup import KeyLookup
from binlog_streaming.lake.row_values import comparable_table, equal_rows, one_array
from binlog_streaming.modes.mode_columns import DELETED, mode_schema
from binlog_streaming.settings import Begin, Deletes, Mode, OnStatement
from binlog_streaming.tables.statements.row_retention import ended, has_rows, live_rows, living, new_row_values
from binlog_streaming.tables.statements.target_alteration import dropped_columns
from binlog_streaming.tables.statements.work import Work, begun_anew, held_keys

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_connector.schema.table_changes import TableRenamed
    from binlog_format.kernels import Indices, Mask
    from binlog_streaming.lake.commit_id import CommitId
    from binlog_streaming.lake.target import Target
    from binlog_streaming.plan.job_state import SelectedTable
    from binlog_streaming.tables.statements.work import StatementContext


def cut_over(context: StatementContext, target: Target, ghost: Target, mode: Mode, deletes: Deletes) -> Work:
    """Make *target* continue with the rows and columns of *ghost*. All rows of the ghost are in memory.

    Args:
        context: The RENAME, and *target*, which keeps rows that are gone; it need not be there.
        ghost: As it is now; it is there.

    Raises:
        SchemaError: `SCHEMA_CHANGED`: a column became another one that does not hold the values of the one before.
    """
    names = mode_schema(mode, pa.schema([]), deletes).names
    gone = {*dropped_columns(ghost), *names}
    own = pa.schema([field for field in ghost.schema() if field.name not in gone])
    wanted = mode_schema(context.mode, own, context.table.rule.deletes)
    properties = target.properties()
    columns = _columns(context, target, own.names, target.stored_schema(wanted))
    keys = context.table.rule.keys or held_keys(ghost.properties() or {})
    matched_by = columns.matched_by(held_keys(properties or {}), keys)

    def commit(target: Target, commit_id: CommitId) -> bool:
        if target.properties() is None:
            target.create(wanted, commit_id)
        rows = _GhostRows.read(context, live_rows(ghost, mode, deletes), columns, matched_by)
        # Opened here: within the write that takes the rows, a library may not begin to read.
        there = target.identified_rows()
        schema = with_identity(columns.schema, there.schema)
        target.replace(pa.RecordBatchReader.from_batches(schema, rows.brought_into(there, schema)), commit_id)
        return True

    recorded = {DROPPED_PROPERTY: "", DROPPED_COLUMNS_PROPERTY: joined_keys(columns.dropped)}
    if not context.table.rule.keys:
        recorded[KEYS_OPEN_PROPERTY] = (ghost.properties() or {}).get(KEYS_OPEN_PROPERTY) or ""
    before = properties or {}
    return Work(commit, keys, {name: text for name, text in recorded.items() if before.get(name, "") != text})


@dataclass(frozen=True, slots=True)
class _Columns:
    """Columns of the target.

    Attributes:
        held: Those before the cut-over that stay, under their names then.
        schema: After it.
        live: Those of the table itself, after it.
        compared: Those of them that the table had before as well: they tell whether a row is another one now.
        dropped: Those that the table does not have any more.
    """

    held: tuple[str, ...]
    schema: pa.Schema
    live: tuple[str, ...]
    compared: tuple[str, ...]
    dropped: tuple[str, ...]

    def matched_by(self, before: tuple[str, ...], now: tuple[str, ...]) -> tuple[str, ...]:
        """The key by which rows of the table and its ghost are brought together; empty: they have none in common."""
        spelled = {folded_name(name): name for name in self.compared}
        for keys in (before, now):
            if keys and all(folded_name(key) in spelled for key in keys):
                return tuple(spelled[folded_name(key)] for key in keys)
        return ()


def _columns(context: StatementContext, target: Target, own: list[str], wanted: pa.Schema) -> _Columns:
    # *own* are the ghost's columns; *wanted* has them and those of the mode, as the target has types.
    if target.properties() is None:
        return _Columns(tuple(wanted.names), wanted, tuple(own), tuple(own), ())
    there, name = target.schema(), str(context.table.name)
    before = folded_names(dropped_columns(target))
    try:
        reconciled(pa.schema([field for field in there if folded_name(field.name) not in before]), wanted, name)
    except SchemaError:
        if has_rows(target):
            raise
    # As by DROP COLUMN and ADD COLUMN: a new column that does not hold the values before takes their place.
    held = fitting(there, wanted)
    schema = reconciled(held, wanted, name).applied_to(held)
    live, columns = folded_names(own), folded_names(wanted.names)
    return _Columns(
        held=tuple(held.names),
        schema=schema,
        live=tuple(column for column in schema.names if folded_name(column) in live),
        compared=tuple(column for column in schema.names[: len(held)] if folded_name(column) in live - before),
        dropped=tuple(column for column in schema.names if folded_name(column) not in columns),
    )


@dataclass(slots=True)
class _GhostRows:
    """The ghost's rows, as new rows of the target.

    Attributes:
        rows: In the target's columns.
        is_new: Which of them are not in the target yet.
        lookup: Finds those that can be found by key, by the numbers in `numbers`; None: none can.
    """

    rows: pa.Table
    is_new: Mask
    lookup: KeyLookup | None
    numbers: Indices
    key: tuple[str, ...]
    context: StatementContext
    columns: _Columns

    @classmethod
    def read(
        cls, context: StatementContext, ghost: pa.RecordBatchReader, columns: _Columns, key: tuple[str, ...]
    ) -> _GhostRows:
        statement = context.step.statement
        own = new_row_values(context.mode, statement.commit_time, statement.place, columns.schema)
        live = folded_names(columns.live)
        names = [name for name in ghost.schema.names if folded_name(name) in live]
        batches = [with_values(cast_to_schema(batch.select(names), columns.schema), own) for batch in ghost]
        rows = pa.Table.from_batches(batches, columns.schema).combine_chunks()
        numbers = np.arange(len(rows), dtype=np.int64)
        for name in key:
            numbers = numbers[rows.column(name).is_valid().to_numpy()[numbers]]
        lookup = KeyLookup(rows.select(key).take(numbers_array(numbers))) if key and len(numbers) else None
        return cls(rows, np.ones(len(rows), dtype=np.bool_), lookup, numbers, key, context, columns)

    def brought_into(self, target: pa.RecordBatchReader, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """All rows of the target after the cut-over, in *schema*; each counts as modified."""
        kept = [name for name in target.schema.names if name in {*self.columns.held, *IDENTITY.names}]
        for batch in target:
            yield modified(self._settled(cast_to_schema(batch.select(kept), schema)))
        for batch in self.rows.filter(mask_array(self.is_new)).to_batches():
            yield cast_to_schema(batch, schema)

    def _settled(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        mode, statement = self.context.mode, self.context.step.statement
        lives = living(batch, mode)
        # A version that has ended is not the row that the ghost has; a row that is marked is, and is there again.
        wanted = lives if mode is Mode.SCD2 else mask_array(np.ones(batch.num_rows, dtype=np.bool_))
        taken = self._ghosts_of(batch, wanted)
        stays = taken >= 0
        batch = ended(batch, mode, statement.commit_time, pc.and_not(lives, mask_array(stays)))
        if not stays.any():
            return batch
        self.is_new[taken[stays]] = False
        numbers = fixed_array(pa.int64(), taken, stays)
        names = set(self.columns.schema.names) - set(self.columns.dropped)
        if mode is Mode.SCD2:  # what is compared is the same, and the version began when it did
            names = set(self.columns.live) - set(self.columns.compared)
        changed = {
            name: pc.if_else(mask_array(stays), one_array(self.rows.column(name).take(numbers)), batch.column(name))
            for name in names
        }
        return with_values(batch, changed)

    def _ghosts_of(self, batch: pa.RecordBatch, wanted: pa.BooleanArray) -> Indices:
        # For each row of the target the ghost's row that it is; -1: there is none, or it holds other values.
        taken = np.full(batch.num_rows, -1, dtype=np.int64)
        if self.lookup is None:
            return taken
        places = np.flatnonzero(wanted.to_numpy(zero_copy_only=False))
        picked = batch.take(numbers_array(places))
        found, keys = self.lookup.find([picked.column(name) for name in self.key])
        places, ghosts = places[found], self.numbers[keys]
        if self.context.mode is Mode.SCD2:
            compared = [
                comparable_table([rows.column(name).take(numbers_array(chosen)) for name in self.columns.compared])
                for rows, chosen in ((batch, places), (self.rows, ghosts))
            ]
            same = equal_rows(*compared)
            places, ghosts = places[same], ghosts[same]
        taken[places] = ghosts
        return taken


@dataclass(frozen=True, slots=True)
class RenameOrigin:
    """Source of a target's rows in a RENAME.

    Attributes:
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
        old: The table of the old name, if it is kept.

    Returns:
        None: from nowhere, as a changelog; or its rows are not known, and may be missing.
    """
    mode, table = context.mode, context.table
    if mode is Mode.CHANGELOG:
        return None
    if old is not None:
        is_ghost = ghost_of(old.name) == table.name
        modes = [mode]
        if is_ghost or old.is_aside or table.is_aside:
            modes += [Mode.MIRROR, Mode.SCD2]
        held = next((mode_there for mode_there in modes if mode_there in old.rule.modes), None)
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
    """Make *target* equal to *source*. *context*: the RENAME, and *target*."""
    there, properties = target.properties(), source.properties()
    if properties is None:
        return begun_empty(context, target)
    if origin.is_ghost:
        return cut_over(context, target, source, origin.mode, origin.deletes)

    kept = (DROPPED_COLUMNS_PROPERTY, KEYS_OPEN_PROPERTY)
    recorded = {DROPPED_PROPERTY: "", **{name: properties.get(name) or "" for name in kept}}
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
    return begun_anew(context, target, None, held_keys(there))


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


def renamed_away(context: StatementContext, target: Target, change: TableRenamed) -> Work | None:
    """Effect on a target whose source table has another name now."""
    properties = target.properties()
    if properties is None or context.mode is Mode.CHANGELOG or context.table.name in context.step.overwritten:
        return None
    applies = context.table.is_aside or context.table.rule.on_drop is OnStatement.APPLY
    place = context.step.statement.gtid or context.place
    recorded = {DROPPED_PROPERTY: f"{place}, when it was renamed to {change.new}"}
    return Work(context.remove_all_rows if applies else None, held_keys(properties), recorded)
