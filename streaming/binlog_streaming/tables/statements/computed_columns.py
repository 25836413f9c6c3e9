"""Columns that an ALTER TABLE adds to a table with rows, and computes: `computed_columns(context, target, change)`.

Generated columns, and those whose default is an expression.

Generated columns that targets leave out, and what is left of an ALTER TABLE without them: `without_generated`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_connector.rules.rules_on_tables import BoundRule
from binlog_connector.schema.alteration import Defaults, ImpossibleError, altered
from binlog_connector.schema.expressions.generated_values import GeneratedValues
from binlog_connector.schema.expressions.operands import NotComputedError
from binlog_format.errors import SchemaError
from binlog_format.names import folded_name, folded_names
from binlog_format.rows.json.variants import is_variant
from binlog_streaming.lake.evolution import cast_array
from binlog_streaming.tables.statements.row_retention import has_rows, living
from binlog_streaming.tables.statements.target_alteration import dropped_before, dropped_columns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from binlog_connector.schema.definitions import ColumnDefinition, TableDefinition
    from binlog_connector.schema.operations import AlterTable
    from binlog_connector.schema.table_changes import ColumnFacts, TableAltered
    from binlog_format.kernels import Mask
    from binlog_streaming.lake.target import Target
    from binlog_streaming.tables.statements.work import StatementContext


_COMPUTED = "it was generated until this statement"


def without_generated(
    context: StatementContext, change: TableAltered, *, columns: frozenset[str], keys: tuple[str, ...]
) -> TableAltered:
    """The part of *change* about columns that are not generated; all of it unless the table's rule hides these.

    Args:
        columns: The columns of the target that the table has before the statement, in small letters.
    """
    rule = context.table.rule
    if not rule.drops_generated:
        return change
    before = _Before(context, columns)
    olds = {folded_name(new): old for old, new in change.renamed.items()}
    added = [fact for fact in change.added if not fact.generated]
    modified: list[ColumnFacts] = []
    dropped: list[str] = []
    for fact in change.modified:
        old = olds.get(folded_name(fact.name), fact.name)
        if fact.generated:
            dropped += [old] if before.is_plain(old) else []
        elif before.is_plain(old):
            modified.append(fact)
        else:
            added.append(replace(fact, existing=None, unknown=_COMPUTED))
    became = {folded_name(olds.get(folded_name(fact.name), fact.name)) for fact in change.modified if fact.generated}
    renamed = {
        old: new for old, new in change.renamed.items() if folded_name(old) not in became and before.is_plain(old)
    }
    becomes_generated = {folded_name(fact.name): bool(fact.generated) for fact in (*change.added, *change.modified)}
    after = change.primary_key or tuple(_renamed(key, change.renamed) for key in keys)
    generated = [
        key
        for key in rule.keys or after
        if becomes_generated.get(folded_name(key), before.is_generated(olds.get(folded_name(key), key)))
    ]
    BoundRule(rule, needs_key=True).check_keys(str(change.name), generated, folded_names(generated))
    return replace(
        change, renamed=renamed, added=tuple(added), modified=tuple(modified), dropped=(*change.dropped, *dropped)
    )


@dataclass(frozen=True)
class _Before:
    # The table before a statement; its definition is looked for where the first column is asked about.
    context: StatementContext
    columns: frozenset[str]

    def is_plain(self, name: str) -> bool:
        column = self._defined.get(folded_name(name))
        # A target has no generated columns: what it has was none.
        return folded_name(name) in self.columns if column is None else column.generated is None

    def is_generated(self, name: str) -> bool:
        column = self._defined.get(folded_name(name))
        return column is not None and column.generated is not None

    @cached_property
    def _defined(self) -> Mapping[str, ColumnDefinition]:
        context = self.context
        table = context.facts.definition_before(context.table.name, context.step.statement, context.rows_layout)
        columns = () if table is None else table.columns or ()
        return {folded_name(column.name): column for column in columns if column.knows("generated")}


def _renamed(name: str, renamed: Mapping[str, str]) -> str:
    return next((new for old, new in renamed.items() if folded_name(old) == folded_name(name)), name)


@dataclass(frozen=True)
class ComputedColumn:
    """A new column of a target, computed of others.

    Attributes:
        sources: Columns of the target that it is computed of, by the names that the table has.
    """

    generated: GeneratedValues
    sources: Mapping[str, str]
    context: StatementContext

    def values(self, rows: pa.RecordBatch) -> pa.Array:
        """Its values in *rows* of the target; of a row that is gone, null where they are not known."""
        return self._computed(rows)[0]

    def check(self, rows: pa.RecordBatch) -> None:
        """Check that all values in *rows*, which the table has, are known. Raises `NotComputedError`."""
        _, unknown = self._computed(rows)
        if unknown is not None and self.context.keeps_rows:
            unknown = unknown & living(rows, self.context.mode).to_numpy(zero_copy_only=False)
        if unknown is not None and unknown.any():
            raise NotComputedError("for a value in the table it is not known how")

    def _computed(self, rows: pa.RecordBatch) -> tuple[pa.Array, Mask | None]:
        arrays = {}
        for name, held in self.sources.items():
            array = rows.column(held)
            is_text = (
                is_variant(array.type) or pa.types.is_large_string(array.type) or pa.types.is_string_view(array.type)
            )
            arrays[name] = cast_array(array, pa.field(held, pa.string())) if is_text else array
        doubtful = None
        if self.context.table.rule.writes_unknown_as_null:
            doubtful = dict.fromkeys(arrays, np.ones(rows.num_rows, np.bool_))
        found = self.generated.values(arrays, rows.num_rows, doubtful)
        return found.array, found.unknown


def computed_columns(
    context: StatementContext, target: Target, change: TableAltered, alter: AlterTable | None
) -> tuple[dict[str, ComputedColumn], dict[str, str]]:
    """Columns that a statement adds and computes, by name, and why others cannot be computed here.

    Args:
        alter: The statement; None: it is not one that names columns.
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
    found: dict[str, ComputedColumn] = {}
    reasons: dict[str, str] = {}
    for name in names:
        try:
            found[name] = _computed(context, target, alter, name, words[folded_name(name)])
        except NotComputedError as error:
            reasons[name] = error.reason
    for rows in target.read() if found else ():
        for name in [name for name in found if name not in reasons]:
            try:
                found[name].check(rows)
            except NotComputedError as error:
                reasons[name] = error.reason
    return {name: column for name, column in found.items() if name not in reasons}, reasons


def _computed(
    context: StatementContext, target: Target, alter: AlterTable, name: str, words: tuple[str, ...]
) -> ComputedColumn:
    before, after = _definitions(context, alter)
    column = next(column for column in after.columns or () if folded_name(column.name) == folded_name(name))
    statement = context.step.statement
    moment = None if column.generated else statement.moment  # what a generated column holds must not depend on it
    generated = GeneratedValues(replace(column, expression=words), after, statement.vendor, context.decoding, moment)
    touched = folded_names(
        [
            *(change.column.name for change in alter.changes),
            *(old for change in alter.changes if (old := change.old_name)),
            *(old for old, _ in alter.dropped),
            *(part for pair in alter.column_renames for part in pair),
        ]
    )
    same = set(before.columns or ()) & set(after.columns or ())
    gone = dropped_columns(target)
    held = {folded_name(name): name for name in target.schema().names if name not in gone}
    for source in generated.sources:
        folded = folded_name(source)
        if folded in touched or folded not in {folded_name(column.name) for column in same}:
            raise NotComputedError(f"column {source} changes by the same statement")
        if folded not in held:
            raise NotComputedError(f"the target has no column {source}")
        if _is_masked(context, source):
            raise NotComputedError(f"column {source} is masked")
    if _is_masked(context, name):
        raise NotComputedError("it is masked")
    return ComputedColumn(generated, {source: held[folded_name(source)] for source in generated.sources}, context)


def _is_masked(context: StatementContext, name: str) -> bool:
    return context.shown_by is not None and context.shown_by.mask(name) is not None


def _definitions(context: StatementContext, alter: AlterTable) -> tuple[TableDefinition, TableDefinition]:
    """The table before and after the statement."""
    statement = context.step.statement
    try:
        before = context.facts.definition_before(context.table.name, statement, context.rows_layout)
        if before is None or before.columns is None:
            raise NotComputedError("the definition of the table is not known")
        return before, altered(before, alter, Defaults(statement.vendor, before.charset or statement.server_charset))
    except SchemaError as error:
        raise NotComputedError(error.reason) from error
    except ImpossibleError as error:
        raise NotComputedError(f"the definition that is known is not that of the table: {error}") from error
