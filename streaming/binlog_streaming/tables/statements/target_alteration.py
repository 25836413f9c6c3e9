"""Effect of an ALTER TABLE on a target's columns: `target_alteration(before, change, ...)`.

Of a statement only a part may be about a target: `possible_change`, `without_generated`. The step before rows, where no
statement did it: `fit_columns`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from binlog_connector.rules.rules_on_tables import BoundRule
from binlog_format.errors import SchemaError
from binlog_format.names import folded_name, folded_names
from binlog_format.rows.json.variants import is_variant
from binlog_streaming.lake.commit_id import (
    DROPPED_COLUMNS_PROPERTY,
    joined_keys,
    split_keys,
)
from binlog_streaming.lake.evolution import (
    SchemaChange,
    changed_rows,
    common_type,
    fitting,
    reconciled,
    schema_changed,
    without_identity,
)
from binlog_streaming.plan.batch_plan import COLUMNS_STEP, ROWS_STEP
from binlog_streaming.settings import Mode
from binlog_streaming.tables.statements.row_retention import has_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence, Set

    from binlog_connector.schema.definitions import ColumnDefinition
    from binlog_connector.schema.effects.column_facts import ColumnFacts
    from binlog_connector.schema.table_changes import TableAltered
    from binlog_streaming.lake.commit_id import CommitId
    from binlog_streaming.lake.target import Target
    from binlog_streaming.tables.batch_run import BatchPositions
    from binlog_streaming.tables.statements.work import StatementContext

_COMPUTED = "it was generated until this statement"


@dataclass(frozen=True, slots=True)
class TargetAlteration:
    """Changes of a target's columns.

    Attributes:
        removed: Columns that go first: of a column that the table had once, whose name another one has now.
        dropped: Columns of the target, after the change, that the table does not have any more.
    """

    change: SchemaChange
    removed: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.change or self.removed)

    def bring_into(self, target: Target, commit_id: CommitId) -> None:
        """Apply it to *target*, in one commit."""
        if not self.removed and not self.change.converted:
            target.evolve(self.change, commit_id)
            return
        there = target.identified_rows()
        left = pa.schema([column for column in there.schema if column.name not in self.removed])
        rows = pa.RecordBatchReader.from_batches(left, (batch.select(left.names) for batch in there))
        wanted = target.stored_schema(self.change.applied_to(without_identity(left)))
        target.replace(changed_rows(rows, self.change, wanted), commit_id)


@dataclass(frozen=True, slots=True)
class ColumnsBefore:
    """A target before a statement.

    Attributes:
        schema: `Target.schema()`.
        dropped: Columns that the table does not have any more.
        has_rows: Whether there are any: without one a column takes any type.
        keeps_rows: Rows that are gone stay, with values from before the statement.
    """

    schema: pa.Schema
    dropped: tuple[str, ...]
    has_rows: Callable[[], bool]
    keeps_rows: bool


@dataclass(slots=True)
class _Columns:
    # On the way from the columns before to those after: `types` has names from after it.
    table: str
    before: ColumnsBefore
    types: dict[str, pa.DataType]
    dropped: set[str]
    converted: Mapping[str, Callable[[pa.RecordBatch], pa.Array]]
    removed: list[str] = field(default_factory=list)
    renamed: dict[str, str] = field(default_factory=dict)
    retyped: dict[str, pa.DataType] = field(default_factory=dict)
    added: list[pa.Field] = field(default_factory=list)
    filled: dict[str, pa.Scalar] = field(default_factory=dict)

    def rename(self, renamed: Mapping[str, str]) -> None:
        olds = {folded_name(name): name for name in self.types}
        # Of a column that the target lacks, or has renamed already, the rows bring what its new name stands for.
        self.dropped -= {new for old, new in renamed.items() if folded_name(old) not in olds}
        pairs = {olds[folded_name(old)]: new for old, new in renamed.items() if folded_name(old) in olds}
        self.renamed = {old: new for old, new in pairs.items() if old != new}
        news = folded_names(self.renamed.values())
        taken = {name for name in self.types if folded_name(name) in news and name not in self.renamed}
        self.removed += [name for name in self.types if name in taken]
        self.types = {self.renamed.get(name, name): kind for name, kind in self.types.items() if name not in taken}
        self.dropped = {self.renamed.get(name, name) for name in self.dropped - taken}

    def add(self, column: pa.Field, existing: pa.Scalar | None, *, if_missing: bool) -> None:
        before = set(self.before.schema.names) - set(self.before.dropped)
        if if_missing and folded_name(column.name) in folded_names(before):
            return  # whatever becomes of it by the same statement
        self._spell(column.name)
        there = self.types.get(column.name)
        if there is not None and column.name not in self.dropped:
            self.modify(column)  # rows had it before the statement
            return
        self.dropped.discard(column.name)
        common = None if there is None else common_type(there, column.type)
        if common is not None:
            self._retype(column.name, common)
            if column.name not in self.converted:
                self.filled[column.name] = pa.scalar(None, common) if existing is None else existing
            return
        if there is not None:
            self._remove(column.name)
        self.added.append(column)
        self.types[column.name] = column.type
        if existing is not None and existing.is_valid:
            self.filled[column.name] = existing

    def modify(self, column: pa.Field) -> None:
        there = self.types.get(column.name)
        if there is None:
            self.types[column.name] = column.type
            self.added.append(column)
            return
        common = common_type(there, column.type)
        stays = self.before.keeps_rows or is_variant(there) or is_variant(column.type)
        if column.name in self.converted and (common is None or not stays):
            common = column.type  # all values are written anew
        if common is None:
            if self.before.has_rows():
                raise schema_changed(self.table, column.name, there, column.type)
            self._remove(column.name)
            self.added.append(column)
            self.types[column.name] = column.type
            return
        self._retype(column.name, common)

    def _spell(self, name: str) -> None:
        # Upper and lower case are the same to a server, and to most readers: what is called alike is the same column.
        old = next((held for held in self.types if folded_name(held) == folded_name(name)), name)
        if name in self.types or old == name:
            return
        self.renamed[self._before(old)] = name
        self.types = {name if held == old else held: kind for held, kind in self.types.items()}
        self.dropped = {name if held == old else held for held in self.dropped}

    def _remove(self, name: str) -> None:
        old = self._before(name)
        self.renamed.pop(old, None)
        self.removed.append(old)

    def _before(self, name: str) -> str:
        # What a column was called before the statement.
        return next((old for old, new in self.renamed.items() if new == name), name)

    def _retype(self, name: str, kind: pa.DataType) -> None:
        if not kind.equals(self.types[name]):
            self.retyped[name] = self.types[name] = kind


def possible_change(change: TableAltered, columns: Set[str]) -> TableAltered:
    """*change* without what it does to columns that a table of *columns* lacks and need not have (IF EXISTS).

    Args:
        columns: Names in small letters.
    """
    missing = change.if_there - columns
    if not missing:
        return change
    gone = missing | {folded_name(new) for old, new in change.renamed.items() if folded_name(old) in missing}
    return replace(
        change,
        renamed={old: new for old, new in change.renamed.items() if folded_name(old) not in missing},
        modified=tuple(fact for fact in change.modified if folded_name(fact.name) not in gone),
    )


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


def target_alteration(
    before: ColumnsBefore,
    change: TableAltered,
    *,
    added: pa.Schema,
    modified: pa.Schema,
    converted: Mapping[str, Callable[[pa.RecordBatch], pa.Array]],
) -> TargetAlteration:
    """Effect of an ALTER TABLE on a target's columns.

    Args:
        added: New columns, in the target's types.
        modified: Columns with another type, in the target's types, under their new names.
        converted: What columns hold after it whose values change, by their new names.
    """
    types = {column.name: column.type for column in before.schema}
    columns = _Columns(str(change.name), before, types, set(before.dropped), converted)
    gone = folded_names(change.dropped)
    columns.dropped |= {name for name in columns.types if folded_name(name) in gone}
    columns.rename({**change.renamed, **_respelled(columns.types, change, modified)})
    for column in modified:
        columns.modify(column)
    for column, facts in zip(added, change.added, strict=True):
        columns.add(column, facts.existing, if_missing=facts.if_missing)
    return TargetAlteration(
        SchemaChange(
            renamed=columns.renamed,
            retyped=columns.retyped,
            added=pa.schema(columns.added),
            filled=columns.filled,
            converted=columns.converted,
        ),
        tuple(columns.removed),
        tuple(name for name in columns.types if name in columns.dropped),
    )


def _respelled(names: Iterable[str], change: TableAltered, modified: pa.Schema) -> dict[str, str]:
    """Columns that MODIFY spells otherwise: upper and lower case are the same to a server, but not to a target."""
    there = {folded_name(name): name for name in names}
    renamed = folded_names(change.renamed.values())
    spelled = {there.get(folded_name(name), name): name for name in modified.names if folded_name(name) not in renamed}
    return {old: new for old, new in spelled.items() if old != new}


def dropped_columns(target: Target) -> tuple[str, ...]:
    """Columns of a target that its source table does not have any more."""
    return split_keys((target.properties() or {}).get(DROPPED_COLUMNS_PROPERTY) or "")


def dropped_before(target: Target, change: TableAltered) -> tuple[str, ...]:
    """Columns of a target that its source table did not have where *change* began, which adds none that is there."""
    new = folded_names(fact.name for fact in change.added if not fact.if_missing)
    new -= folded_names((*change.dropped, *change.renamed))
    dropped = dropped_columns(target)
    return tuple(name for name in target.schema().names if name in dropped or folded_name(name) in new)


def fit_columns(
    target: Target,
    commit_id: CommitId,
    schema: pa.Schema,
    positions: BatchPositions,
    check_added: Callable[[Sequence[str]], None] | None = None,
    lost: Set[str] = frozenset(),
) -> None:
    """Give *target* the columns of the rows that come next; create it if it does not exist.

    Args:
        check_added: Gets the columns that are new for existing rows, which are null in them; None: they may be.
        lost: Names, in small letters, of those that the first of these rows have, and the last have not.

    Raises:
        SchemaError: `SCHEMA_CHANGED`: a column became one that does not hold its values, and there are some.
    """
    is_new = target.properties() is None
    if is_new:
        target.create(schema, commit_id)
    commit_id = replace(commit_id, step=commit_id.step - ROWS_STEP + COLUMNS_STEP, gtid_position=None)
    if not is_new:
        _take_columns(target, commit_id, schema, positions, check_added)
    # Rows have all columns of their table: it may have lost others by a statement that the log lacks, and of a table
    # that was created again nobody may have known the columns. A changelog has columns of its own that few rows need.
    dropped, live = dropped_columns(target), folded_names(schema.names) - lost
    held = dropped if commit_id.mode is Mode.CHANGELOG else target.schema().names
    left = tuple(name for name in held if folded_name(name) not in live)
    if set(left) != set(dropped):
        target.set_properties(commit_id, recorded={DROPPED_COLUMNS_PROPERTY: joined_keys(left)})


def _take_columns(
    target: Target,
    commit_id: CommitId,
    schema: pa.Schema,
    positions: BatchPositions,
    check_added: Callable[[Sequence[str]], None] | None,
) -> None:
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
    if check_added is not None and len(asked.change.added) and has_rows(target):
        check_added(asked.change.added.names)
    if asked:
        positions.clear_position(target, commit_id)
        asked.bring_into(target, commit_id)
