"""Rows that a source table has, found in a target by any of their columns: `HeldRows`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_format.rows.arrow_arrays import mask_array, numbers_array
from binlog_format.views.changefeed import CHANGE_FIELDS
from binlog_streaming.lake.conforming import conformed_table
from binlog_streaming.lake.row_values import comparable_table, row_ids
from binlog_streaming.modes.mode_columns import CASCADED_FROM
from binlog_streaming.modes.reference_values import rows_matching
from binlog_streaming.settings import Mode
from binlog_streaming.tables.statements.emptied import live_rows
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
    """In which target of a table its rows are looked for: where they are found most easily."""
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
        gone = {name.casefold() for name in dropped_columns(self.target)}
        if self.mode is Mode.CHANGELOG:
            gone |= {field.name for field in (*CHANGE_FIELDS, CASCADED_FROM)}
            return pa.schema([field for field in self.target.schema() if field.name.casefold() not in gone])
        rows = live_rows(self.target, self.mode, self.rule.deletes)
        return pa.schema([field for field in rows.schema if field.name.casefold() not in gone])

    def matching(self, wanted: Sequence[pa.Table], keys: Sequence[str], schema: pa.Schema) -> pa.Table:
        """Rows that may have the values of a row of one of *wanted*; others may be among them.

        Args:
            wanted: Some columns of the rows.
            keys: Names of the key columns.
            schema: Columns of the result.
        """
        if self.target is None or not any(len(one) for one in wanted):
            return schema.empty_table()
        if self.mode is Mode.CHANGELOG:
            return conformed_table(self._out_of_changes(wanted, keys), schema)
        found = live_rows(self.target, self.mode, self.rule.deletes)
        batches = [batch.filter(mask_array(_matching(batch, wanted))) for batch in found]
        return conformed_table(pa.Table.from_batches(batches, found.schema), schema)

    def _out_of_changes(self, wanted: Sequence[pa.Table], keys: Sequence[str]) -> pa.Table:
        # First the keys that ever had the values, then all changes of these: the last one says what the row is.
        assert self.target is not None
        reader = self.target.read()
        names = [_spelled(reader.schema, key) for key in keys]
        batches = [_key_rows(batch, names, _matching(batch, wanted)) for batch in reader]
        candidates = pa.Table.from_batches(batches, pa.schema([reader.schema.field(name) for name in names]))
        found, emptied = [], -1
        for batch in self.target.read():
            kinds = batch.column("_change_type")
            emptying = batch.filter(pc.is_in(kinds, value_set=pa.array(_EMPTYING)))
            emptied = max(emptied, pc.max(emptying.column("_commit_version")).as_py() or -1)
            found.append(batch.filter(mask_array(_matching(batch, [candidates]))))
        changes = pa.Table.from_batches(found, reader.schema)
        return _last_states(changes, names).filter(pc.field("_commit_version") > emptied)


def _last_states(changes: pa.Table, keys: Sequence[str]) -> pa.Table:
    ids, count = row_ids(comparable_table([changes.column(key) for key in keys]))
    stays = pc.is_in(changes.column("_change_type"), value_set=pa.array(_IN_TABLE)).to_numpy()
    place = [changes.column(name).to_numpy() for name in _PLACE]
    order = np.lexsort((stays, *reversed(place), ids))  # of an update the row after comes last
    last = np.flatnonzero(np.append(ids[order][1:] != ids[order][:-1], count > 0)) if count else order
    numbers = order[last]
    return changes.take(numbers_array(numbers[stays[numbers]]))


def _matching(batch: pa.RecordBatch, wanted: Sequence[pa.Table]) -> Mask:
    mask = np.zeros(batch.num_rows, dtype=np.bool_)
    for one in wanted:
        if len(one):
            mask |= rows_matching(
                batch, one.rename_columns([_spelled(batch.schema, name) for name in one.column_names])
            )
    return mask


def _key_rows(batch: pa.RecordBatch, names: Sequence[str], mask: Mask) -> pa.RecordBatch:
    return batch.select(list(names)).filter(mask_array(mask))


def _spelled(schema: pa.Schema, name: str) -> str:
    return next((known for known in schema.names if known.casefold() == name.casefold()), name)
