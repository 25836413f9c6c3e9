"""Effect of a statement on one target: `work_of(step, table, mode, decoding)` gives a `Work`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_connector.schema.partitions.rows import loses_rows, partition_rows
from binlog_connector.schema.table_changes import (
    DatabaseDropped,
    PartitionsDropped,
    TableAltered,
    TableCreated,
    TableDropped,
    TableTruncated,
    UnsupportedChange,
)
from binlog_format.errors import SchemaError, TableError
from binlog_format.events.table_map import TableLayout
from binlog_format.names import folded_name, folded_names
from binlog_format.rows.columns import arrow_schema
from binlog_format.views.changefeed import commit_versions
from binlog_format.views.columns import COMMIT_TIME_TYPE, POSITION_TYPE
from binlog_streaming.lake.commit_id import (
    DROPPED_COLUMNS_PROPERTY,
    DROPPED_PROPERTY,
    KEYS_OPEN_PROPERTY,
    KEYS_PROPERTY,
    joined_keys,
    split_keys,
)
from binlog_streaming.lake.evolution import fitting, reconciled
from binlog_streaming.modes.mode_columns import mode_schema
from binlog_streaming.modes.row_keys import key_columns
from binlog_streaming.settings import Mode, OnPartitionDrop, OnStatement, UnknownValues
from binlog_streaming.tables.statements.computed_columns import computed_columns
from binlog_streaming.tables.statements.existing_values import check_new_columns, check_new_key
from binlog_streaming.tables.statements.log_facts import liked
from binlog_streaming.tables.statements.rewritten_columns import alter_operation, known_values, rewritten_columns
from binlog_streaming.tables.statements.row_retention import has_rows, keeps_rows, left_rows, retained_rows
from binlog_streaming.tables.statements.target_alteration import (
    ColumnsBefore,
    dropped_before,
    possible_change,
    target_alteration,
    without_generated,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from binlog_connector.rules.rules_on_tables import BoundRule
    from binlog_connector.schema.definitions import TableDefinition
    from binlog_connector.schema.effects.column_facts import ColumnFacts
    from binlog_connector.schema.partitions.rows import PartitionRows
    from binlog_format.events.table_map import Column
    from binlog_format.position import Position
    from binlog_format.rows.decoding import Decoding
    from binlog_streaming.lake.commit_id import CommitId
    from binlog_streaming.lake.target import Target
    from binlog_streaming.plan.batch_plan import ChangeStep
    from binlog_streaming.plan.job_state import SelectedTable
    from binlog_streaming.tables.statements.log_facts import LogFacts

    CommitAction = Callable[[Target, CommitId], bool]
    """Function that does the work in one commit; False: there was nothing to commit."""

_MICROS = 1_000_000
_PLACE_DTYPE = np.dtype([("file_no", np.int64), ("page", np.int64), ("chunk", np.int64)])


@dataclass(frozen=True, slots=True)
class Work:
    """Work of a statement on one target.

    Attributes:
        commit: The change of its rows and columns; None: they stay as they are.
        keys: Key columns after it.
        recorded: Properties that the target gets after it.
    """

    commit: CommitAction | None
    keys: tuple[str, ...]
    recorded: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StatementContext:
    """A statement, and a target that it is about.

    Attributes:
        facts: Of statements before it.
        rows_layout: Of the last rows before it in its batch; None: there are none since another statement.
        shown_by: The rule by which the table is shown; None: all of it is.
    """

    step: ChangeStep
    table: SelectedTable
    mode: Mode
    decoding: Decoding
    facts: LogFacts
    rows_layout: TableLayout | None = None
    shown_by: BoundRule | None = None

    def layout(self, columns: Sequence[Column]) -> TableLayout:
        """A table of these columns."""
        return TableLayout(*self.table.name, tuple(columns), (), "", b"", self.step.statement.vendor)

    def schema_of(self, facts: Sequence[ColumnFacts]) -> pa.Schema:
        """Columns as rows have them."""
        return arrow_schema(self.layout([fact.column for fact in facts]), self.decoding)

    def settled(self, facts: Sequence[ColumnFacts]) -> tuple[ColumnFacts, ...]:
        """Columns of which it is known what type rows will have in them.

        Where `declaredTypes` is off, as it was once, a UUID is text if a schema completes its table map, and bytes
        else. Such a column comes with its first rows.
        """
        if self.decoding.declared_types:
            return tuple(facts)
        bare = arrow_schema(self.layout([replace(fact.column, declared=None) for fact in facts]), self.decoding)
        return tuple(
            fact
            for fact, here, there in zip(facts, self.schema_of(facts), bare, strict=True)
            if here.type == there.type
        )

    @property
    def keeps_rows(self) -> bool:
        """True if deleted rows stay in the target; a target that is set aside may become another's, and has none."""
        return keeps_rows(self.mode, self.table.rule.deletes) and not self.table.is_aside

    def remove_all_rows(self, target: Target, commit_id: CommitId, schema: pa.Schema | None = None) -> bool:
        """All rows of the source table go; *schema*: the target's columns after it, where they change."""
        schema = target.schema() if schema is None else schema
        rows = pa.RecordBatchReader.from_batches(schema, [])
        if self.keeps_rows:
            rows = retained_rows(target, self.mode, self.step.statement.commit_time, schema)
        target.replace(rows, commit_id)
        return True

    @property
    def definition(self) -> TableDefinition | None:
        """The definition of the table when the statement begins, see `LogFacts.definition_before`."""
        return self.facts.definition_before(self.table.name, self.step.statement)

    def partition_rows(self, change: PartitionsDropped) -> PartitionRows:
        """The rows of some partitions of the table when the statement begins, see `partition_rows`."""
        return partition_rows(self.definition, change, self.decoding.system_time_zone)

    def removal_of(self, partitions: PartitionRows) -> CommitAction:
        """The rows of some partitions go."""

        def commit(target: Target, commit_id: CommitId) -> bool:
            at = self.step.statement.commit_time
            rows = left_rows(target, self.mode, self.table.rule.deletes, at, partitions.mask)
            if rows is not None:
                target.replace(rows, commit_id)
            return rows is not None

        return commit

    @property
    def place(self) -> str:
        """Place of the statement, as text."""
        position, event_no = self.step.place
        return f"{position}:{event_no}"


def work_of(context: StatementContext, target: Target) -> Work | None:
    """Work of a statement (no RENAME) on a target; None: nothing.

    Raises:
        TableError: `STATEMENT_REFUSED`: the job sets it so.
        SchemaError: `DDL_NOT_PARSED`: it may do anything to the table. `PARTITION_BOUNDS`: nobody can tell which rows
            go with a partition.
    """
    change = context.step.change
    if isinstance(change, TableCreated):
        return created_work(context, target, change)
    properties = target.properties()
    if isinstance(change, TableTruncated):
        return _removal_of_all(context, properties, context.table.rule.on_truncate, "truncate")
    if isinstance(change, TableDropped | DatabaseDropped):
        return _removal_of_all(context, properties, context.table.rule.on_drop, "drop")
    if properties is None or context.mode is Mode.CHANGELOG:
        return None
    if isinstance(change, PartitionsDropped):
        return _removal_of_partitions(context, change, properties)
    if isinstance(change, TableAltered):
        return _altered(context, target, change, properties)
    if isinstance(change, UnsupportedChange):
        if context.table.rule.unknown_values is UnknownValues.FAIL:
            raise SchemaError(
                "DDL_NOT_PARSED",
                f"{context.table.name}: {change.reason}",
                hint='Its effect on existing rows is not known. Set unknown_values = "null" for this table to go '
                "on with what follows in the log, or leave the table out (option source.excludeTables)",
            )
        if properties.get(DROPPED_PROPERTY):  # it may have created the table again
            return Work(None, held_keys(properties), {DROPPED_PROPERTY: ""})
    return None


def held_keys(properties: Mapping[str, str]) -> tuple[str, ...]:
    """The key columns of a target."""
    return split_keys(properties.get(KEYS_PROPERTY) or "")


def _removal_of_all(
    context: StatementContext, properties: Mapping[str, str] | None, wanted: OnStatement, change_type: str
) -> Work | None:
    if properties is None:
        return None
    aside = context.table.is_aside
    if wanted is OnStatement.FAIL and not aside:
        raise TableError(
            "STATEMENT_REFUSED",
            f"{context.table.name}: a {change_type.upper()} is in the log at {context.step.statement.position}, "
            f"and the job sets on_{change_type} = fail",
            hint=f'To go on, set on_{change_type} = "apply" or "ignore" for this table and start the job again',
        )
    keys = held_keys(properties)
    is_drop = change_type == "drop"
    if context.mode is Mode.CHANGELOG:
        return Work(logged_removal(context, change_type), keys) if wanted is OnStatement.APPLY else None
    recorded = {DROPPED_PROPERTY: context.step.statement.gtid or context.place} if is_drop else {}
    applies = wanted is OnStatement.APPLY or (aside and is_drop)
    return Work(context.remove_all_rows if applies else None, keys, recorded) if applies or recorded else None


def _removal_of_partitions(
    context: StatementContext, change: PartitionsDropped, properties: Mapping[str, str]
) -> Work | None:
    wanted = context.table.rule.on_partition_drop
    if wanted is OnPartitionDrop.KEEP or (change.taken_by and not loses_rows(context.definition, change)):
        return None
    if wanted is OnPartitionDrop.FAIL:
        raise TableError(
            "STATEMENT_REFUSED",
            f"{change.name}: at {context.step.statement.position}, {change.reason}, and the job sets "
            "on_partition_drop = fail",
            hint='To go on, set on_partition_drop = "keep" (the rows stay in the target) or "apply" (they go from '
            "there, too) for this table and start the job again",
        )
    return Work(context.removal_of(context.partition_rows(change)), held_keys(properties))


def logged_removal(context: StatementContext, change_type: str) -> CommitAction:
    """A row of a changelog: *change_type* takes all rows of its table."""

    # One row of a changelog, in the columns that `changefeed` has beside the table's own.
    def commit(target: Target, commit_id: CommitId) -> bool:
        statement = context.step.statement
        place = statement.position
        values: dict[str, pa.Array] = {
            "_change_type": pa.array([change_type]),
            "_commit_version": pa.array(commit_versions(np.array([_fields(place)], _PLACE_DTYPE))),
            "_commit_timestamp": pa.array([statement.commit_time * _MICROS], pa.int64()).cast(COMMIT_TIME_TYPE),
            "_position": pa.array([dict(zip(_PLACE_DTYPE.names or (), _fields(place), strict=True))], POSITION_TYPE),
            "_event_no": pa.array([statement.event_no], pa.int32()),
            "_row_no": pa.array([0], pa.int32()),
            "_gtid": pa.array([statement.gtid], pa.string()),
        }
        target.append(pa.table(values).to_reader(), commit_id)
        return True

    return commit


def _fields(position: Position) -> tuple[int, int, int]:
    return position.file_no, position.page, position.chunk


def created_work(context: StatementContext, target: Target, change: TableCreated) -> Work | None:
    """Work of a CREATE TABLE on a target; None: nothing."""
    properties = target.properties()
    change = liked(context, change)
    open_keys = {KEYS_OPEN_PROPERTY: context.place} if change.is_key_open and not context.table.rule.keys else {}
    keys = _created_keys(context, change, properties)
    wanted = None
    if change.columns is not None:
        columns = context.schema_of(context.settled(change.columns))
        wanted = mode_schema(context.mode, columns, context.table.rule.deletes, context.table.rule.foreign_keys)
    if properties is None:
        if wanted is None or not set(keys) <= set(wanted.names) or (context.mode is Mode.SCD2 and not keys):
            return None
        made = wanted

        def make(target: Target, commit_id: CommitId) -> bool:
            target.create(made, commit_id)
            return False

        return Work(make, keys, open_keys)
    was_dropped = bool(properties.get(DROPPED_PROPERTY))
    if context.mode is Mode.CHANGELOG or (change.if_not_exists and not was_dropped):
        return None

    anew = begun_anew(context, target, wanted, keys)
    return replace(anew, recorded={**anew.recorded, **open_keys})


def begun_anew(context: StatementContext, target: Target, wanted: pa.Schema | None, keys: tuple[str, ...]) -> Work:
    """Effect on a target whose name another table has now, which has no rows.

    Args:
        target: As it was; it is there.
        wanted: Columns of the new table, as the mode has them; None: they are not known yet.
        keys: Its key columns; those of *target* if they are not known.
    """
    schema = target.schema()
    # Where the new table is not known, any column may have gone, or be another one of that name.
    dropped = tuple(schema.names)
    if wanted is not None:
        wanted, dropped = target.stored_schema(wanted), ()
        if context.keeps_rows:
            # As by DROP COLUMN and ADD COLUMN: a new column that does not hold the values before takes their place.
            held, live = fitting(schema, wanted), folded_names(wanted.names)
            dropped = tuple(name for name in held.names if folded_name(name) not in live)
            schema = reconciled(held, wanted, str(context.table.name)).applied_to(held)
        else:
            schema = wanted

    def begin_anew(target: Target, commit_id: CommitId) -> bool:
        return context.remove_all_rows(target, commit_id, schema)

    before = target.properties() or {}
    recorded = {DROPPED_PROPERTY: "", DROPPED_COLUMNS_PROPERTY: joined_keys(dropped)}
    recorded[KEYS_OPEN_PROPERTY] = context.place if wanted is None and not context.table.rule.keys else ""
    return Work(begin_anew, keys, {name: text for name, text in recorded.items() if before.get(name, "") != text})


def _created_keys(
    context: StatementContext, change: TableCreated, properties: Mapping[str, str] | None
) -> tuple[str, ...]:
    if context.mode is Mode.CHANGELOG:
        return ()
    rule = context.table.rule
    if change.columns is None:
        return rule.keys if properties is None else held_keys(properties)
    if rule.keys:
        key_columns(context.layout([fact.column for fact in change.columns]), rule.keys)  # refuses what is no column
    return rule.keys or change.primary_key


def _altered(context: StatementContext, target: Target, change: TableAltered, properties: Mapping[str, str]) -> Work:
    rule = context.table.rule
    before = dropped_before(target, change)
    held = held_keys(properties)
    live = frozenset(folded_name(name) for name in target.schema().names if name not in before)
    change = without_generated(context, possible_change(change, live), columns=live, keys=held)
    modified = target.stored_schema(context.schema_of(context.settled(change.modified)))
    alter = alter_operation(context, change)
    rewritten = rewritten_columns(context, target, change, alter, modified=modified, keys=held, dropped=before)
    computed, reasons = computed_columns(context, target, change, alter, known_values(rewritten))
    keys_after = rule.keys or change.primary_key or held
    check_new_columns(context, target, change, keys_after, computed=computed.keys(), reasons=reasons)
    change = replace(change, added=context.settled(change.added), modified=context.settled(change.modified))
    added = target.stored_schema(context.schema_of(change.added))
    asked = target_alteration(
        ColumnsBefore(target.schema(), before, lambda: has_rows(target), context.keeps_rows),
        change,
        added=added,
        modified=modified,
        converted={name: column.values for name, column in (rewritten | computed).items()},
    )
    renamed = {folded_name(old): new for old, new in {**asked.change.renamed, **change.renamed}.items()}
    keys = change.primary_key
    if keys is None:
        keys = tuple(renamed.get(folded_name(key), key) for key in held)
    elif not rule.keys:
        olds = {folded_name(new): old for old, new in renamed.items()}
        check_new_key(context.table, context.mode, target, [olds.get(folded_name(key), key) for key in keys])
    recorded = {DROPPED_COLUMNS_PROPERTY: joined_keys(asked.dropped)} if asked.dropped != before else {}
    if not rule.keys and change.may_change_key(held):
        recorded[KEYS_OPEN_PROPERTY] = context.place

    def commit(target: Target, commit_id: CommitId) -> bool:
        asked.bring_into(target, commit_id)
        return True

    return Work(commit if asked else None, rule.keys or keys, recorded)
