"""Columns whose values an ALTER TABLE changes without row events: `rewritten_columns(context, target, change, alter)`.

A server converts the values of existing rows when a column gets another definition, and logs the statement alone. What
it does is known for most definitions (`binlog_connector.schema.effects`): then the target's values are converted, too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_connector.rules.row_rule import MaskKind
from binlog_connector.schema.alteration import ImpossibleError
from binlog_connector.schema.definitions import PRIMARY
from binlog_connector.schema.effects.column_effects import alter_effects, circumstances_of, effects_without_definition
from binlog_connector.schema.effects.conversion import SAME, Converted, Same, Unknown, Values, either, true_mask
from binlog_connector.schema.operations import AlterTable
from binlog_connector.schema.parsing.ddl import parse_ddl
from binlog_format.errors import SchemaError, TableError
from binlog_format.names import folded_name, folded_names
from binlog_format.rows.arrow_arrays import mask_array
from binlog_format.rows.json.variants import is_variant
from binlog_streaming.lake.evolution import cast_array, common_type, text_fields
from binlog_streaming.plan.snapshots import past_statement
from binlog_streaming.settings import Rewritten, UnknownValues
from binlog_streaming.tables.statements.computed_columns import ComputedColumn, definitions_around, recomputed_columns
from binlog_streaming.tables.statements.existing_values import check_chosen_rows
from binlog_streaming.tables.statements.row_retention import has_rows, living

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Set

    from binlog_connector.rules.row_rule import Mask
    from binlog_connector.schema.effects.column_effects import ColumnChanged
    from binlog_connector.schema.effects.conversion import Effect
    from binlog_connector.schema.table_changes import TableAltered
    from binlog_format.kernels import Mask as RowMask
    from binlog_streaming.lake.target import Target
    from binlog_streaming.tables.statements.work import StatementContext

UNDEFINED = (
    "it is not known how the column was defined before (binlog-stream snapshot JOB.toml --definitions brings the "
    "definitions of tables that are older than the log)"
)

NULL_IS_OPEN = (
    'a null in the target may be 0000-00-00, which becomes another value than NULL (a job with zeroDates = "error" has '
    "none of these)"
)

_NULL_IS_UNKNOWN = (
    'a null in the target may be a value that the log lacked (unknown_values, rewritten or generated = "null"), which '
    "becomes another one than NULL"
)

_NULL_IS_NOT_SHOWN = "the log does not show what became of NULL"
_OF_NULLS = (NULL_IS_OPEN, _NULL_IS_UNKNOWN, _NULL_IS_NOT_SHOWN)

_WIDER_KINDS = (
    (pa.types.is_decimal, pa.types.is_integer),
    (pa.types.is_floating, pa.types.is_integer),
    (pa.types.is_timestamp, pa.types.is_date),
)
"""Kinds of a target's column, and those of a source's that it holds with texts of their own."""


@dataclass(frozen=True, slots=True)
class RewrittenColumn:
    """A column of a target whose values a statement changes.

    Attributes:
        name: In the target, before the statement.
        effect: What becomes of its values; None: they become null.
        arrow_type: Of the values after the statement.
        old_arrow_type: Of the values before the statement, as the source table had them; None: not known.
    """

    name: str
    effect: Converted | None
    arrow_type: pa.DataType
    context: StatementContext
    old_arrow_type: pa.DataType | None = None

    def values(self, rows: pa.RecordBatch) -> pa.Array:
        """Values of the column after the statement, in *rows* as they were before it."""
        before = self._before(rows)
        after = self._converted(before)
        after = Values(after.array.cast(self.arrow_type), after.unknown)
        if not self.context.keeps_rows:
            return after.array
        # A row that is gone had a value that the server may not have looked at.
        gone = pc.invert(living(rows, self.context.mode))
        lost = gone if self.effect is None else pc.and_(gone, _mask(after, len(rows)))
        kept = before if before.type.equals(self.arrow_type) else pa.nulls(len(before), self.arrow_type)
        return pc.if_else(lost, kept, after.array)

    def unknown_value(self, rows: pa.RecordBatch) -> str | None:
        """A value in *rows*, which the source table has, whose new value is unknown; None: there is none."""
        values = self._before(rows)
        unknown = self._converted(values).unknown
        if unknown is not None and self.context.keeps_rows:
            unknown = unknown & living(rows, self.context.mode).to_numpy(zero_copy_only=False)
        if unknown is None or not unknown.any():
            return None
        known = values.is_valid().to_numpy(zero_copy_only=False)
        if (unknown & known).any():
            return "for a value in the table it is not known how"
        if self.context.table.rule.writes_unknown_as_null:
            return _NULL_IS_UNKNOWN
        return NULL_IS_OPEN if _is_moment(self.old_arrow_type) else _NULL_IS_NOT_SHOWN

    def _before(self, rows: pa.RecordBatch) -> pa.Array:
        values = rows.column(self.name)
        return cast_array(values, pa.field(self.name, pa.string())) if is_variant(values.type) else values

    def _converted(self, before: pa.Array) -> Values:
        if self.effect is None:
            return Values(pa.nulls(len(before), self.arrow_type))
        if pa.types.is_large_string(before.type) or pa.types.is_string_view(before.type):
            before = before.cast(pa.string())
        if pa.types.is_large_binary(before.type) or pa.types.is_binary_view(before.type):
            before = before.cast(pa.binary())
        stored, inexact = _as_the_source(before, self.old_arrow_type)
        values = self.effect.convert(stored)
        unknown = either(values.unknown, inexact)
        if self.context.table.rule.writes_unknown_as_null:
            unknown = either(unknown, true_mask(pc.and_(before.is_null(), values.array.is_valid())))
        return Values(values.array, unknown)


def _as_the_source(stored: pa.Array, kind: pa.DataType | None) -> tuple[pa.Array, RowMask | None]:
    """Values of a target in the type of the source's column, and which of them it cannot hold.

    The target keeps the kind of a column that was dropped and added again, and its values have another text: 5.00.
    """
    if kind is None or not any(is_stored(stored.type) and is_source(kind) for is_stored, is_source in _WIDER_KINDS):
        return stored, None
    narrow = stored.cast(kind, safe=False)
    back = narrow.cast(stored.type, safe=False)
    return narrow, pc.not_equal(back, stored).fill_null(False).to_numpy(zero_copy_only=False)


def _is_moment(kind: pa.DataType | None) -> bool:
    return kind is not None and (pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def _mask(values: Values, count: int) -> pa.BooleanArray:
    return mask_array(np.zeros(count, dtype=np.bool_) if values.unknown is None else values.unknown)


def rewritten_columns(
    context: StatementContext,
    target: Target,
    change: TableAltered,
    alter: AlterTable | None,
    *,
    modified: pa.Schema,
    keys: tuple[str, ...],
    dropped: tuple[str, ...],
) -> dict[str, RewrittenColumn | ComputedColumn]:
    """Columns of a target whose values an ALTER TABLE changes, by their names after it.

    Args:
        alter: The statement; None: it is not one that names columns.
        modified: Columns that the statement defines, in the target's types, under their new names.
        dropped: Columns of the target that the table did not have any more before it.

    Raises:
        TableError: `REWRITTEN_BY_SERVER`: it is not known what values a column gets, or which rows `where` chooses.
        SchemaError: `DDL_NOT_PARSED`: the known definition of the table lacks a column that the statement names.
    """
    if alter is None or not _names_columns(alter) or not has_rows(target):
        return {}
    names = {folded_name(name): name for name in target.schema().names if name not in dropped}
    columns = _changes(context, alter, names.keys()).values()
    check_chosen_rows(context, alter, columns)
    staying = names.keys() - folded_names(change.dropped)
    shown = [replace(column, effect=_effect_in_target(context, column)) for column in columns]
    changes = [
        (names[old], changed)
        for changed in shown
        if (old := folded_name(changed.old.name)) in staying and not isinstance(changed.effect, Same)
    ]
    # Columns that the statement names first: others may change because of them.
    changes.sort(key=lambda change: change[1].old.declared == change[1].new.declared)
    in_key = folded_names(keys)
    converted = {name: column for name, changed in changes if (column := _converted(context, target, name, changed))}
    failing = _failing(target, [column for column in converted.values() if column.effect and column.effect.may_fail])
    known: dict[str, RewrittenColumn | ComputedColumn] = {
        changed.new.name: converted[name] for name, changed in changes if name in converted and name not in failing
    }
    computed, reasons = recomputed_columns(context, target, alter, shown, known_values(known))
    known |= computed
    return {
        changed.new.name: known.get(changed.new.name)
        or _nulled(
            context,
            name,
            changed,
            _type_of_nulls(context, target, name, changed, modified),
            failing=failing.get(name) or reasons.get(changed.new.name, ""),
            in_key=folded_name(name) in in_key,
        )
        for name, changed in changes
    }


def known_values(
    rewritten: Mapping[str, RewrittenColumn | ComputedColumn],
) -> dict[str, Callable[[pa.RecordBatch], pa.Array]]:
    """Values after a statement, given rows before it, of columns that are not null for want of these."""
    return {
        name: column.values
        for name, column in rewritten.items()
        if isinstance(column, ComputedColumn) or column.effect is not None
    }


def alter_operation(context: StatementContext, change: TableAltered) -> AlterTable | None:
    """The ALTER TABLE whose effect *change* is; None: another statement has it."""
    statement = context.step.statement
    operations = parse_ddl(statement.text, statement.session)
    return next(
        (
            operation
            for operation in operations
            if isinstance(operation, AlterTable) and operation.name.lowered == change.name.lowered
        ),
        None,
    )


def _names_columns(alter: AlterTable) -> bool:
    """True if a statement does more than add columns, or indexes that are no primary key."""
    changes = any(change.old_name is not None for change in alter.changes) or alter.converted_to is not None
    named = alter.dropped or alter.column_renames or alter.defaults
    return changes or bool(named) or any(key.name == PRIMARY for key in alter.new_keys)


def _changes(context: StatementContext, alter: AlterTable, known: Set[str]) -> Mapping[str, ColumnChanged]:
    statement, goes_on = context.step.statement, context.table.rule.unknown_values is UnknownValues.NULL
    try:
        around = definitions_around(context, alter)
    except SchemaError:  # a statement before it was not understood
        if not goes_on:
            raise
        around = None
    except ImpossibleError as error:
        reason = f"the definition that is known is not that of the table: {error}"
        # A column that rows brought, without a statement, is in the target. Another one the server had all the same:
        # what is known of the table is wrong, and so may its target be.
        if goes_on or error.columns <= known:
            return effects_without_definition(alter, reason)
        raise SchemaError(
            "DDL_NOT_PARSED",
            f"{context.table.name}: an ALTER TABLE at {statement.position} may do anything to existing rows: {reason}",
            hint=f"{past_statement(context.table.name)}. Or leave the table out (option source.excludeTables), or set "
            'unknown_values = "null" for it to go on with what follows in the log',
        ) from error
    if around is None:
        return effects_without_definition(alter, UNDEFINED)
    how = circumstances_of(statement, context.decoding, ignores=alter.ignores)
    return alter_effects(*around, alter, how, statement.sql_mode)


def _converted(context: StatementContext, target: Target, name: str, change: ColumnChanged) -> RewrittenColumn | None:
    """The column as the server converts it; None: it is not known how."""
    effect = change.effect
    if not isinstance(effect, Converted):
        return None
    assert change.arrow_type is not None
    (stored,) = target.stored_schema(pa.schema([pa.field(change.new.name, change.arrow_type)]))
    return RewrittenColumn(name, effect, stored.type, context, change.old_arrow_type)


def _failing(target: Target, columns: list[RewrittenColumn]) -> dict[str, str]:
    """Columns with a value whose new value is unknown; the target is read once for all."""
    failing: dict[str, str] = {}
    for rows in target.read() if columns else ():
        for column in columns:
            found = column.unknown_value(rows) if failing.get(column.name, NULL_IS_OPEN) in _OF_NULLS else None
            if found is not None:
                failing[column.name] = found
    return failing


def _type_of_nulls(
    context: StatementContext, target: Target, name: str, change: ColumnChanged, modified: pa.Schema
) -> pa.DataType:
    """The type after the statement of a column that is null in it: its own where rows that are gone keep values."""
    there = text_fields(target.schema()).field(name).type
    if change.new.name not in modified.names:
        return there
    wanted = text_fields(modified).field(change.new.name).type
    return there if context.keeps_rows and common_type(there, wanted) is not None else wanted


def _nulled(
    context: StatementContext, name: str, change: ColumnChanged, kind: pa.DataType, *, failing: str, in_key: bool
) -> RewrittenColumn:
    """The column with null in all rows, if the job wants that or shows nothing else in it."""
    effect = change.effect
    if isinstance(effect, Converted):
        effect = Unknown(f"{effect.what}, and {failing}")
    mask = None if context.shown_by is None else context.shown_by.mask(change.old.name)
    shows_null = mask is not None and mask.kind is MaskKind.NULL
    if shows_null or (context.table.rule.rewritten is Rewritten.NULL and not in_key):
        return RewrittenColumn(name, None, kind, context)
    assert isinstance(effect, Unknown)
    reason = effect.reason
    if change.new.generated is not None and failing:
        reason += f", and {failing}"
    raise TableError(
        "REWRITTEN_BY_SERVER",
        f"{context.table.name}: column {change.new.name} {change.in_words} by the statement at "
        f"{context.step.statement.position}; the server changed its values in existing rows, the log lacks these, and "
        f"they cannot be computed: {reason}",
        hint=past_statement(context.table.name)
        + ("" if in_key else '. Or set rewritten = "null" for this table to have null in the column'),
    )


def _effect_in_target(context: StatementContext, change: ColumnChanged) -> Effect:
    """Effect on values as the rules of the job show them."""
    shown, name = context.shown_by, change.old.name
    if shown is None:
        return change.effect
    if (mask := shown.mask(name)) is not None:
        return _effect_under(mask, change)
    return change.effect


def _effect_under(mask: Mask, change: ColumnChanged) -> Effect:
    """Effect on the texts that stand for values."""
    old, new = change.old_arrow_type, change.arrow_type
    if isinstance(change.effect, Same):
        alike = old is None or new is None or mask.shows_alike(old, new)  # not known where the definition is the same
        return change.effect if alike else Unknown("its values are masked, and get another text")
    # NULL stays NULL, and another text of the column stays one.
    if mask.kind is MaskKind.TEXT and change.new.nullable and change.new.knows("nullable"):
        return SAME
    return Unknown("its values are masked")
