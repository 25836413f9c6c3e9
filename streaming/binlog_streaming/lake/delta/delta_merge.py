"""A `Change` into Delta: `merge_change` brings it into a `DeltaTarget` in one commit, a MERGE or a plain append."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_streaming.lake.conforming import conformed_table
from binlog_streaming.lake.key_ranges import key_cover, meeting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from deltalake.table import TableMerger

    from binlog_streaming.lake.change import Change
    from binlog_streaming.lake.delta.target import DeltaTarget
    from binlog_streaming.lake.target import Ticket


class Kind(IntEnum):
    """What a row of a merge's source does."""

    UPSERT = 0
    DELETE = 1
    PATCH = 2
    APPEND = 3


@dataclass(frozen=True, slots=True)
class MergeSource:
    """All of a `Change` as one table, so that one MERGE does it.

    Attributes:
        rows: Columns of the target as `c0`, `c1`, ..., so that no name of the user's collides or needs quoting; `kind`;
            and `p0`, ...: whether a patch changes the column of that number.
        names: Columns of the target that are in *rows*, and what they are called there.
        whole: Columns that upserts have.
        patched: Columns that patches change, and the column of *rows* that says which patches do; None: all.
    """

    rows: pa.Table
    names: Mapping[str, str]
    whole: Sequence[str]
    patched: Mapping[str, str | None]

    def clauses(self, merger: TableMerger) -> TableMerger:
        """Tell *merger* what the rows do, by kind."""
        whole = {quoted(name): f"s.{self.names[name]}" for name in self.whole}
        patched = {quoted(name): self._patch(name, flag) for name, flag in self.patched.items()}
        new = {quoted(name): f"s.{source}" for name, source in self.names.items()}
        merger = merger.when_matched_delete(f"s.kind = {Kind.DELETE:d}")
        merger = merger.when_matched_update(whole, f"s.kind = {Kind.UPSERT:d}")
        if patched:
            merger = merger.when_matched_update(patched, f"s.kind = {Kind.PATCH:d}")
        return merger.when_not_matched_insert(new, f"s.kind IN ({Kind.UPSERT:d}, {Kind.APPEND:d})")

    def _patch(self, name: str, flag: str | None) -> str:
        value = f"s.{self.names[name]}"
        return value if flag is None else f"CASE WHEN s.{flag} THEN {value} ELSE t.{quoted(name)} END"


def merge_change(target: DeltaTarget, change: Change, ticket: Ticket) -> int:
    """Bring *change* into the target in one commit, or in none when there is nothing to change.

    Returns:
        Rows and keys brought to the target.
    """
    parts = change_parts(change, target.schema())
    condition = pruning_condition(target, [part for kind, part in parts if kind is not Kind.APPEND], ticket.keys)
    if condition is None:
        new = [conformed_table(part, target.schema()) for kind, part in parts if kind in (Kind.UPSERT, Kind.APPEND)]
        rows = pa.concat_tables(new)
        if rows.num_rows:
            target.append(rows.to_reader(), ticket)
        return int(rows.num_rows)
    is_marked = target.mark_rows(change, ticket)
    if is_marked is not None:
        return change.row_count if is_marked else 0
    source = merge_source(change, parts, target.schema())
    on = [f"t.{quoted(key)} = s.{source.names[key]}" for key in ticket.keys]
    if change.appends is not None:
        on.append(f"s.kind <> {Kind.APPEND:d}")
    if change.current is not None:
        on.append(f"t.{quoted(change.current)}")
    target.merge_rows(source, " AND ".join([*on, *condition]), ticket)
    return change.row_count


def pruning_condition(target: DeltaTarget, keyed: Sequence[pa.Table], keys: Sequence[str]) -> list[str] | None:
    """What a merge's condition says beside the equality of keys, so that files without a changed key stay untouched.

    Args:
        target: What files say about keys.
        keyed: Tables with the changed keys, in the types of the target.
        keys: Names of the key columns.

    Returns:
        Empty: any file may hold a changed key. None: none does, an append is enough.
    """
    changed = pa.concat_tables([table.select(keys) for table in keyed])
    if not changed.num_rows:
        return None
    condition: list[str] = []
    for key in keys:
        ranges = key_cover(changed.column(key))
        files = target.key_ranges(key) if ranges is not None else None
        if ranges is None or files is None:
            continue
        meets = meeting(ranges, *(array.cast(pa.int64()).to_numpy(zero_copy_only=False) for array in files))
        if not meets.any():
            return None
        if not meets.all() and not condition:
            column = f"t.{quoted(key)}"
            parts = [f"{column} BETWEEN {low} AND {high}" for low, high in zip(*ranges, strict=True)]
            condition = [f"({' OR '.join(parts)})"]
    return condition


def merge_source(change: Change, parts: Sequence[tuple[Kind, pa.Table]], schema: pa.Schema) -> MergeSource:
    """One table of *parts*, those of *change* in the types of *schema*."""
    there = {name for _, part in parts for name in part.column_names}
    names = {name: f"c{index}" for index, name in enumerate(schema.names) if name in there}
    columns = pa.schema([schema.field(name) for name in names])
    present = pa.table({}) if change.patches is None else change.patches.present
    flags = {name: f"p{names[name].removeprefix('c')}" for name in present.column_names}
    tables = []
    for kind, part in parts:
        table = conformed_table(part, columns).rename_columns(list(names.values()))
        table = table.append_column("kind", pa.array(np.full(part.num_rows, kind, np.int8)))
        for name, flag in flags.items():
            values = present.column(name) if kind is Kind.PATCH else pa.nulls(part.num_rows, pa.bool_())
            table = table.append_column(flag, values)
        tables.append(table)
    keys = change.deletes.column_names
    patched = [] if change.patches is None else change.patches.rows.column_names
    return MergeSource(
        rows=pa.concat_tables(tables),
        names=names,
        whole=change.upserts.column_names,
        patched={name: flags.get(name) for name in patched if name not in keys},
    )


def quoted(name: str) -> str:
    """A column's name in an expression."""
    return '"' + name.replace('"', '""') + '"'


def change_parts(change: Change, schema: pa.Schema) -> list[tuple[Kind, pa.Table]]:
    """The parts of *change*, in the types of *schema*; each has the columns that it comes with."""
    parts = {
        Kind.UPSERT: change.upserts,
        Kind.DELETE: change.deletes,
        Kind.PATCH: None if change.patches is None else change.patches.rows,
        Kind.APPEND: change.appends,
    }
    return [
        (kind, conformed_table(table, pa.schema([schema.field(name) for name in table.column_names])))
        for kind, table in parts.items()
        if table is not None
    ]
