"""Rows that a source table has, found in a target by any of their columns: `HeldRows`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_format.rows.arrow_arrays import numbers_array
from binlog_streaming.lake.find import Search
from binlog_streaming.lake.row_values import comparable_table, row_ids
from binlog_streaming.lake.schema_cast import cast_table
from binlog_streaming.modes.mode_columns import DELETED, IS_CURRENT, mode_schema
from binlog_streaming.modes.reference_values import rows_matching
from binlog_streaming.settings import Mode, OnCascade
from binlog_streaming.tables.statements.row_retention import keeps_rows, living
from binlog_streaming.tables.statements.work import dropped_columns, held_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from binlog_streaming.lake.target import Target
    from binlog_streaming.settings import TableRule

    Mask = NDArray[np.bool_]

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
        mode: What it holds.
        rule: Of its table.
    """

    target: Target | None
    mode: Mode
    rule: TableRule

    @property
    def keys(self) -> tuple[str, ...]:
        """Names of the key columns; empty for a changelog, which does not know them."""
        return () if self.target is None else held_keys(self.target.properties() or {})

    def schema(self) -> pa.Schema | None:
        """Columns that the source table has, in the types of the target."""
        if self.target is None:
            return None
        own = mode_schema(self.mode, pa.schema([]), self.rule.deletes, OnCascade.APPLY).names
        gone = {*own} | {name.casefold() for name in dropped_columns(self.target)}
        return pa.schema([field for field in self.target.schema() if field.name.casefold() not in gone])

    def matching(self, wanted: Sequence[pa.Table], keys: Sequence[str], schema: pa.Schema) -> pa.Table:
        """Rows that may have the values of a row of one of *wanted*; others may be among them.

        Args:
            wanted: Some columns of the rows.
            keys: Names of the key columns.
            schema: Columns of the result.
        """
        if self.target is None or not any(len(one) for one in wanted):
            return schema.empty_table()
        held = self.target.schema()
        spelled = [one.rename_columns(_spelled(held, one.column_names)) for one in wanted]
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
    names = dict.fromkeys([*(name for one in wanted for name in one.column_names), *others])
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
    for one in wanted:
        if len(one):
            mask |= rows_matching(rows, one)
    return mask


def _spelled(schema: pa.Schema, names: Sequence[str]) -> list[str]:
    known = {name.casefold(): name for name in schema.names}
    return [known.get(name.casefold(), name) for name in names]
