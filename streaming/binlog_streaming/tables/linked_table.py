"""One of the tables that foreign keys link: `LinkedTable`.

Rows that a source table has, found in a target by any of their columns: `HeldRows`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_connector.schema.foreign_keys import CASCADE
from binlog_format.errors import UnsupportedError
from binlog_format.names import folded_name, folded_names
from binlog_format.rows.arrow_arrays import numbers_array
from binlog_format.vendor import Vendor
from binlog_streaming.lake.commit_id import KEYS_OPEN_PROPERTY
from binlog_streaming.lake.evolution import cast_table, text_fields
from binlog_streaming.lake.key_lookup import Search
from binlog_streaming.lake.row_values import comparable_table, row_ids
from binlog_streaming.modes.cascades import Reference, RowChanges, derived_changes
from binlog_streaming.modes.layout_cast import cast_layouts
from binlog_streaming.modes.mode_columns import DELETED, IS_CURRENT, mode_schema
from binlog_streaming.modes.reference_values import rows_matching
from binlog_streaming.modes.row_batches import StepImages
from binlog_streaming.modes.row_keys import key_columns
from binlog_streaming.modes.table_history import TableHistory
from binlog_streaming.settings import Deletes, Mode, OnCascade
from binlog_streaming.tables.statements.row_retention import keeps_rows, living
from binlog_streaming.tables.statements.target_alteration import dropped_columns
from binlog_streaming.tables.statements.work import held_keys

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from binlog_connector.schema.definitions import TableName
    from binlog_connector.schema.foreign_keys import ForeignKey
    from binlog_format.kernels import Mask
    from binlog_format.rows.decoding import Decoding
    from binlog_streaming.lake.target import Target
    from binlog_streaming.settings import TableRule
    from binlog_streaming.tables.cascade_images import CascadeImages
    from binlog_streaming.tables.statements.log_facts import LogFacts


@dataclass(frozen=True)
class LinkedTable:
    """A table's facts when a step begins.

    Attributes:
        name: In the log.
        held: The rows before; None: the table has no target.
    """

    name: TableName
    logged: CascadeImages
    held: HeldRows | None
    decoding: Decoding
    facts: LogFacts

    @cached_property
    def schema(self) -> pa.Schema | None:
        """Columns of the rows; None: there are no rows, neither in the log nor before."""
        if self.logged.row_batches[self.name]:
            return self._cast_layout[0]
        return None if self.held is None else self.held.schema()

    @property
    def known_schema(self) -> pa.Schema:
        """The same where there are rows."""
        assert self.schema is not None
        return self.schema

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """Names of its key columns; empty: none are known."""
        rule = None if self.held is None else self.held.rule
        row_batches = self.logged.row_batches[self.name]
        if rule is not None and rule.keys:
            return rule.keys
        if row_batches and row_batches[-1].layout.primary_key:
            layout = row_batches[-1].layout
            return tuple(str(layout.columns[key].name) for key in key_columns(layout, ()))
        if self.held is not None and self.held.keys:
            return self.held.keys
        definition = self.facts.definition_at(
            self.name, max(row_batch.end() for row_batch in self.logged.flat).position
        )
        return () if definition is None else definition.primary_key

    @property
    def has_absent(self) -> bool:
        """True if images leave columns out, whose values are to be found in the rows before."""
        return self._images.has_absent

    @cached_property
    def own_history(self) -> TableHistory:
        """The images, and the rows before them that they leave columns of out."""
        return self._history(())

    def derived(
        self, changes: Sequence[tuple[ForeignKey, RowChanges]], referenced: Collection[str], *, checks_order: bool
    ) -> RowChanges | None:
        """Cascades to its rows, from changes of the rows that they refer to; None: it has no rows.

        Args:
            changes: By foreign key.
            referenced: Columns of it to which foreign keys refer.
            checks_order: Refuse what depends on the order in which the server takes foreign keys.
        """
        if self.schema is None:
            return None
        references = []
        for key, some in changes:
            columns = tuple(self.own_history.column(name) for name in key.columns)
            reference = Reference.of(key, columns, some)
            if len(reference.changes):
                references.append(reference)
        if not references:
            return None
        if not self.keys and not self._can_delete_copies(references):
            raise self._no_key(references[0].key)
        self._check_no_nulls(self._read(references, referenced))
        wanted = [
            reference.changes.before.rename_columns([self.schema.names[column] for column in reference.columns])
            for reference in references
        ]
        history = self._history(wanted, self._needed(references, referenced))
        history = replace(history, nullable=self._nullable(references, referenced))
        return derived_changes(history, references, checks_order=checks_order)

    def _nullable(self, references: Sequence[Reference], referenced: Collection[str]) -> frozenset[int]:
        """Columns that `generated = "null"` lets be null: none that a key needs, and none of a changelog's.

        A changelog names the columns that images lack, and these rows are in no image.
        """
        if self.held is None or not self.held.rule.computed_is_null or Mode.CHANGELOG in self.held.rule.modes:
            return frozenset()
        return frozenset(range(len(self.known_schema))) - self._read(references, referenced)

    def _read(self, references: Sequence[Reference], referenced: Collection[str]) -> set[int | None]:
        """The columns of its own key, of *references*, and of foreign keys that refer to it."""
        columns = {self._index(name) for name in (*self.keys, *referenced)}
        return columns.union(*(reference.columns for reference in references))

    def _check_no_nulls(self, columns: set[int | None]) -> None:
        """Check that *columns* are none that `generated = "null"` may have made null in the target.

        MySQL logs generated columns whenever they change.
        """
        rows = self.logged.flat
        if self.held is None or not self.held.rule.computed_is_null or rows[0].layout.vendor is Vendor.MYSQL:
            return
        definition = self.facts.definition_at(self.name, max(row_batch.end() for row_batch in rows).position)
        known = () if definition is None or definition.columns is None else definition.columns
        computed = [column.name for column in known if column.generated and self._index(column.name) in columns]
        if computed:
            raise UnsupportedError(
                "FOREIGN_KEY_CASCADE",
                f"{self.name}: {', '.join(computed)}: a foreign key needs this generated column, and where the log "
                'lacks its value it is null in the target, by generated = "null" or unknown_values = "null"',
                hint='Set both to "fail" and take the table anew, or set foreign_keys = "ignore" for it',
            )

    def _needed(self, references: Sequence[Reference], referenced: Collection[str]) -> pa.Schema:
        """The columns in which rows before the step are read: where all are deleted, by key, few are enough."""
        schema, rule = self.known_schema, None if self.held is None else self.held.rule
        goes_by_key = bool(self.keys) and rule is not None and {*rule.modes} <= {Mode.MIRROR, Mode.SCD2}
        if not goes_by_key or not self._are_removed(references):
            return schema
        known = self._read(references, referenced)
        return pa.schema([field for number, field in enumerate(schema) if number in known])

    def _can_delete_copies(self, references: Sequence[Reference]) -> bool:
        # Rows that become others would have to be told from equal ones that did not.
        return self.held is not None and self.held.mode is Mode.MIRROR and self._are_removed(references)

    def _are_removed(self, references: Sequence[Reference]) -> bool:
        deleting = all(
            reference.key.on_delete == CASCADE and reference.changes.deletes.all() for reference in references
        )
        is_marked = self.held is not None and self.held.rule.deletes is Deletes.MARK
        return deleting and not is_marked and not self.has_absent

    def _history(self, wanted: Sequence[pa.Table], needed: pa.Schema | None = None) -> TableHistory:
        schema = self.known_schema
        keys = tuple(key for key in map(self._index, self.keys) if key is not None) if self.held is not None else ()
        history = TableHistory(self._images, schema, keys, self.logged.times_of(self.name), schema.empty_table())
        if self.held is None:
            return history
        if self._images.has_absent:
            wanted = [*wanted, history.keys_of_images()]
        before = self.held.matching(wanted, self.keys, schema if needed is None else needed)
        return TableHistory(self._images, schema, keys, history.times, cast_table(before, schema))

    def _index(self, name: str) -> int | None:
        names = [folded_name(known) for known in self.known_schema.names]
        return names.index(folded_name(name)) if folded_name(name) in names else None

    @cached_property
    def _cast_layout(self) -> tuple[pa.Schema, StepImages]:
        row_batches = self.facts.stated(self.logged.row_batches[self.name])
        schema, same = cast_layouts(str(self.name), row_batches, self.decoding)
        return schema, StepImages(str(self.name), tuple(same))

    @property
    def _images(self) -> StepImages:
        return self._cast_layout[1] if self.logged.row_batches[self.name] else StepImages(str(self.name), ())

    def _no_key(self, key: ForeignKey) -> UnsupportedError:
        return UnsupportedError(
            "FOREIGN_KEY_CASCADE",
            f"{self.name}: rows of {key.parent} changed that its foreign key {key.name} refers to, and the log names "
            "no primary key for it: ON DELETE CASCADE alone can be followed then, in a mirror that removes deleted "
            "rows, and with whole row images",
            hint='Name columns that tell its rows apart (keys in [[tables]]), or set foreign_keys = "ignore" for it',
        )


_IN_TABLE = ("insert", "update_postimage")
_EMPTYING = ("truncate", "drop")
_PLACE = ("_commit_version", "_event_no", "_row_no")


def holding_mode(rule: TableRule) -> Mode:
    """Mode of the target in which rows of a table are looked for: the one in which they are found most easily."""
    return next(mode for mode in (Mode.MIRROR, Mode.SCD2, Mode.CHANGELOG) if mode in rule.modes)


def modes_in_order(rule: TableRule) -> list[Mode]:
    """The modes of a table, last the one in whose target its rows are looked for: once it has a step, all have it."""
    return sorted(rule.modes, key=lambda mode: mode is holding_mode(rule))


@dataclass(frozen=True, slots=True)
class HeldRows:
    """The rows that a target knows the source table to have.

    Attributes:
        target: As it is; None: it is not there, and knows none.
    """

    target: Target | None
    mode: Mode
    rule: TableRule

    @property
    def keys(self) -> tuple[str, ...]:
        """Names of the key columns; empty: a changelog does not know them, or a statement may have changed them."""
        properties = {} if self.target is None else self.target.properties() or {}
        return () if properties.get(KEYS_OPEN_PROPERTY) else held_keys(properties)

    def schema(self) -> pa.Schema | None:
        """Columns that the source table has, in the types of the target; JSON is text."""
        if self.target is None:
            return None
        own = mode_schema(self.mode, pa.schema([]), self.rule.deletes, OnCascade.APPLY).names
        gone = {*own} | folded_names(dropped_columns(self.target))
        return text_fields(pa.schema([field for field in self.target.schema() if folded_name(field.name) not in gone]))

    def matching(self, wanted: Sequence[pa.Table], keys: Sequence[str], schema: pa.Schema) -> pa.Table:
        """Rows that may have the values of a row of one of *wanted*; others may be among them.

        Args:
            keys: Names of the key columns.
        """
        if self.target is None or not any(len(values) for values in wanted):
            return schema.empty_table()
        held = self.target.schema()
        spelled = [values.rename_columns(_spelled(held, values.column_names)) for values in wanted]
        names = [name for name in _spelled(held, schema.names) if name in held.names]
        if self.mode is Mode.CHANGELOG:
            rows = self._out_of_changes(self.target, spelled, _spelled(held, keys), names)
        else:
            rows = self.target.select(self._search(spelled), names)
        return cast_table(rows, schema)

    def _search(self, wanted: Sequence[pa.Table]) -> Search:
        flags = {Mode.SCD2: IS_CURRENT, Mode.MIRROR: DELETED}
        keeps = keeps_rows(self.mode, self.rule.deletes)

        def matches(rows: pa.RecordBatch) -> Mask:
            mask = _matching(rows, wanted)
            return mask & living(rows, self.mode).to_numpy(zero_copy_only=False) if keeps else mask

        return replace(
            _search(wanted, [flags[self.mode]] if keeps else []),
            matches=matches,
            current=IS_CURRENT if self.mode is Mode.SCD2 else None,
        )

    @staticmethod
    def _out_of_changes(
        target: Target, wanted: Sequence[pa.Table], keys: Sequence[str], names: Sequence[str]
    ) -> pa.Table:
        # First the keys that ever had the values, then all changes of these: the last one is the row.
        candidates = target.select(_search(wanted), keys)
        changes = target.select(_search([candidates]), ["_change_type", *_PLACE, *names])
        emptying = target.select(Search(("_change_type",), _is_emptying), ["_commit_version"])
        emptied = pc.max(emptying.column("_commit_version")).as_py() or -1
        return _last_states(changes, keys).filter(pc.field("_commit_version") > emptied)


def _search(wanted: Sequence[pa.Table], others: Sequence[str] = ()) -> Search:
    names = dict.fromkeys([*(name for values in wanted for name in values.column_names), *others])
    return Search(tuple(names), lambda rows: _matching(rows, wanted), tuple(wanted))


def _is_emptying(rows: pa.RecordBatch) -> Mask:
    mask: Mask = pc.is_in(rows.column("_change_type"), value_set=pa.array(_EMPTYING)).to_numpy(zero_copy_only=False)
    return mask


def _last_states(changes: pa.Table, keys: Sequence[str]) -> pa.Table:
    ids, count = row_ids(comparable_table([changes.column(key) for key in keys]))
    stays = pc.is_in(changes.column("_change_type"), value_set=pa.array(_IN_TABLE)).to_numpy()
    place = [changes.column(name).to_numpy() for name in _PLACE]
    order = np.lexsort((stays, *reversed(place), ids))  # of an update the row after comes last
    last = np.flatnonzero(np.append(ids[order][1:] != ids[order][:-1], count > 0)) if count else order
    numbers = order[last]
    return changes.take(numbers_array(numbers[stays[numbers]]))


def _matching(rows: pa.RecordBatch, wanted: Sequence[pa.Table]) -> Mask:
    mask = np.zeros(rows.num_rows, dtype=np.bool_)
    for values in wanted:
        if len(values):
            mask |= rows_matching(rows, values)
    return mask


def _spelled(schema: pa.Schema, names: Sequence[str]) -> list[str]:
    known = {folded_name(name): name for name in schema.names}
    return [known.get(folded_name(name), name) for name in names]
