"""Columns that a server computes for the rows of a table, in an ALTER TABLE.

Those that it adds, generated ones and those whose default is an expression: `computed_columns`. Generated ones that it
computes again, as their expression changes, or what they are computed of: `recomputed_columns`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_connector.schema.alteration import Defaults, ImpossibleError, altered
from binlog_connector.schema.effects.column_effects import PAD_CHAR
from binlog_connector.schema.effects.conversion import Same, Unknown
from binlog_connector.schema.expressions.generated_values import GeneratedValues
from binlog_connector.schema.expressions.operands import NotComputedError
from binlog_format.errors import SchemaError
from binlog_format.names import folded_name, folded_names
from binlog_format.rows.json.variants import is_variant
from binlog_streaming.lake.evolution import cast_array
from binlog_streaming.tables.statements.row_retention import has_rows, living
from binlog_streaming.tables.statements.target_alteration import dropped_before, dropped_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence, Set

    from binlog_connector.schema.definitions import TableDefinition
    from binlog_connector.schema.effects.column_effects import ColumnChanged
    from binlog_connector.schema.operations import AlterTable
    from binlog_connector.schema.table_changes import TableAltered
    from binlog_format.kernels import Mask
    from binlog_streaming.lake.target import Target
    from binlog_streaming.tables.statements.work import StatementContext

    Reader = Callable[[pa.RecordBatch], pa.Array]
    """Values of a column in rows of a target."""


@dataclass(frozen=True)
class ComputedColumn:
    """A column of a target, computed of others.

    Attributes:
        sources: Values of the columns that it is computed of after the statement, given rows of the target before it.
        before: Name of the column in the target before the statement; None: there was none.
        empty: Those of `sources` that are NULL in all rows; a null of others may stand for another value.
    """

    generated: GeneratedValues
    sources: Mapping[str, Reader]
    context: StatementContext
    before: str | None = None
    empty: frozenset[str] = frozenset()

    def values(self, rows: pa.RecordBatch) -> pa.Array:
        """Its values in *rows* of the target; of a row that is gone, what it held, or null where that is not known."""
        array, _ = self._computed(rows)
        if self.before is None or not self.context.keeps_rows:
            return array
        held = rows.column(self.before)
        gone = pc.invert(living(rows, self.context.mode))
        return pc.if_else(gone, held, array) if held.type.equals(array.type) else array

    def check(self, rows: pa.RecordBatch) -> None:
        """Check that all its values in *rows*, which the table has, are known. Raises `NotComputedError`."""
        _, unknown = self._computed(rows)
        if unknown is not None and self.context.keeps_rows:
            unknown = unknown & living(rows, self.context.mode).to_numpy(zero_copy_only=False)
        if unknown is not None and unknown.any():
            raise NotComputedError("for a value in the table it is not known how")

    def _computed(self, rows: pa.RecordBatch) -> tuple[pa.Array, Mask | None]:
        arrays = {name: read(rows) for name, read in self.sources.items()}
        doubtful = dict.fromkeys(self.empty, np.zeros(rows.num_rows, np.bool_))
        if self.context.table.rule.writes_unknown_as_null:
            doubtful |= dict.fromkeys(arrays.keys() - self.empty, np.ones(rows.num_rows, np.bool_))
        found = self.generated.values(arrays, rows.num_rows, doubtful)
        return found.array, found.unknown


def computed_columns(
    context: StatementContext,
    target: Target,
    change: TableAltered,
    alter: AlterTable | None,
    rewritten: Mapping[str, Reader],
) -> tuple[dict[str, ComputedColumn], dict[str, str]]:
    """Columns that a statement adds and computes, by name, and why others cannot be computed here.

    Args:
        alter: The statement; None: it is not one that names columns.
        rewritten: Columns whose values it changes, by their names after it.
    """
    there = folded_names(target.schema().names) - folded_names((*dropped_before(target, change), *change.dropped))
    if alter is None:
        return {}, {}
    words = {folded_name(added.column.name): added.column.expression for added in alter.changes}
    names = [
        fact.name
        for fact in change.added
        if (fact.generated or (fact.unknown and words.get(folded_name(fact.name))))
        and folded_name(fact.name) not in there
    ]
    if not names or not has_rows(target):
        return {}, {}
    try:
        after, sources = _unchanged_sources(context, target, alter)
    except NotComputedError as error:
        return {}, dict.fromkeys(names, error.reason)
    sources |= {folded_name(name): read for name, read in rewritten.items()}
    sources |= {
        folded_name(fact.name): _constant(fact.existing)
        for fact in context.settled(change.added)
        if fact.existing is not None and fact.unknown is None and not fact.if_missing
    }
    nullable = {fact.name for fact in change.added if fact.column.nullable}
    computation = _Computation(context, target, after, sources, nullable)
    for name in names:
        computation.take(name, words[folded_name(name)])
    return computation.checked()


def recomputed_columns(
    context: StatementContext,
    target: Target,
    alter: AlterTable,
    changes: Sequence[ColumnChanged],
    converted: Mapping[str, Reader],
) -> tuple[dict[str, ComputedColumn], dict[str, str]]:
    """Generated columns that a statement computes again, by their names after it, and why others are not computed here.

    Args:
        changes: Columns that rows have before and after it; each after those that it is generated from.
        converted: Columns among them that are no generated ones, and whose values change, by their names after it.
    """
    wanted = [change for change in changes if change.new.generated is not None and isinstance(change.effect, Unknown)]
    if not wanted:
        return {}, {}
    try:
        _, after = _definitions(context, alter)
    except NotComputedError as error:
        return {}, {change.new.name: error.reason for change in wanted}
    held = _held_columns(target)
    sources: dict[str, Reader | str] = {}
    for change in changes:
        name, old = folded_name(change.new.name), folded_name(change.old.name)
        if old not in held:
            sources[name] = f"the target has no column {change.old.name}"
        elif change.new.name in converted:
            sources[name] = converted[change.new.name]
        elif isinstance(change.effect, Same):
            sources[name] = _reader(held[old])
    computation = _Computation(context, target, after, sources)
    for change in wanted:
        computation.take(change.new.name, change.new.expression, held.get(folded_name(change.old.name)))
    return computation.checked()


@dataclass(frozen=True)
class _Computation:
    """Columns of a table after a statement; computed ones are sources of others.

    Attributes:
        sources: Values that columns have after it, by name in small letters, or why they are not known.
        nullable: Names of columns that it adds, and that may be NULL.
    """

    context: StatementContext
    target: Target
    after: TableDefinition
    sources: dict[str, Reader | str]
    nullable: Set[str] = frozenset()
    found: dict[str, ComputedColumn] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)

    def take(self, name: str, words: tuple[str, ...], before: str | None = None) -> None:
        """Compute a column, if it is known how, after those that it is computed of. *before*: see `ComputedColumn`."""
        try:
            column = self._computed(name, words, before)
        except NotComputedError as error:
            self.reasons[name] = error.reason
        else:
            self.found[name] = column
            self.sources[folded_name(name)] = column.values

    def checked(self) -> tuple[dict[str, ComputedColumn], dict[str, str]]:
        """Columns whose values are known in all rows of the target, and why others are not; it is read once for all."""
        reasons = self.reasons
        for rows in self.target.read() if self.found else ():
            for name in [name for name in self.found if name not in reasons]:
                try:
                    self.found[name].check(rows)
                except NotComputedError as error:
                    reasons[name] = error.reason
        for name, column in self.found.items():
            doubtful = folded_names(reasons).intersection(folded_names(column.generated.sources))
            if doubtful and name not in reasons:
                reasons[name] = f"it is computed of {min(doubtful)}, which is not known"
        return {name: column for name, column in self.found.items() if name not in reasons}, reasons

    def _computed(self, name: str, words: tuple[str, ...], before: str | None) -> ComputedColumn:
        context = self.context
        column = next(column for column in self.after.columns or () if folded_name(column.name) == folded_name(name))
        statement = context.step.statement
        moment = None if column.generated else statement.moment  # what a generated column holds must not depend on it
        pads_char = bool(statement.sql_mode & PAD_CHAR)
        generated = GeneratedValues(
            replace(column, expression=words), self.after, statement.vendor, context.decoding, moment, pads_char
        )
        sources = {}
        for source in generated.sources:
            read = self.sources.get(folded_name(source), f"column {source} changes by the same statement")
            if isinstance(read, str):
                raise NotComputedError(read)
            if _is_masked(context, source):
                raise NotComputedError(f"column {source} is masked")
            sources[source] = read
        if _is_masked(context, name):
            raise NotComputedError("it is masked")
        columns = {name: generated.source(name) for name in sources}
        empty = {name for name, of in columns.items() if of.name in self.nullable and of.default is None}
        return ComputedColumn(generated, sources, context, before, frozenset(empty))


def _unchanged_sources(
    context: StatementContext, target: Target, alter: AlterTable
) -> tuple[TableDefinition, dict[str, Reader | str]]:
    """The table after a statement, and its columns that the statement does not change."""
    before, after = _definitions(context, alter)
    touched = folded_names(
        [
            *(change.column.name for change in alter.changes),
            *(old for change in alter.changes if (old := change.old_name)),
            *(old for old, _ in alter.dropped),
            *(part for pair in alter.column_renames for part in pair),
        ]
    )
    held = _held_columns(target)
    sources: dict[str, Reader | str] = {}
    for column in set(before.columns or ()) & set(after.columns or ()):
        name = folded_name(column.name)
        if name not in touched:
            sources[name] = _reader(held[name]) if name in held else f"the target has no column {column.name}"
    return after, sources


def _held_columns(target: Target) -> dict[str, str]:
    """Columns of a target that the table has, by their names in small letters."""
    gone = dropped_columns(target)
    return {folded_name(name): name for name in target.schema().names if name not in gone}


def _constant(value: pa.Scalar) -> Reader:
    return lambda rows: pa.repeat(value, rows.num_rows)


def _reader(name: str) -> Reader:
    """Values of a column of a target, texts as the log has them."""

    def read(rows: pa.RecordBatch) -> pa.Array:
        array = rows.column(name)
        is_text = is_variant(array.type) or pa.types.is_large_string(array.type) or pa.types.is_string_view(array.type)
        return cast_array(array, pa.field(name, pa.string())) if is_text else array

    return read


def _is_masked(context: StatementContext, name: str) -> bool:
    return context.shown_by is not None and context.shown_by.mask(name) is not None


def definitions_around(context: StatementContext, alter: AlterTable) -> tuple[TableDefinition, TableDefinition] | None:
    """The table before and after the statement; None: its columns are not known.

    Raises:
        SchemaError: A statement before it was not understood.
        ImpossibleError: The definition that is known is not that of the table.
    """
    statement = context.step.statement
    before = context.facts.definition_before(context.table.name, statement, context.rows_layout)
    if before is None or before.columns is None:
        return None
    return before, altered(before, alter, Defaults(statement.vendor, before.charset or statement.server_charset))


def _definitions(context: StatementContext, alter: AlterTable) -> tuple[TableDefinition, TableDefinition]:
    try:
        around = definitions_around(context, alter)
    except SchemaError as error:
        raise NotComputedError(error.reason) from error
    except ImpossibleError as error:
        raise NotComputedError(f"the definition that is known is not that of the table: {error}") from error
    if around is None:
        raise NotComputedError("the definition of the table is not known")
    return around
