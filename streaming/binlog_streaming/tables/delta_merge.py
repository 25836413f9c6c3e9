"""Mode `mirror` into Delta: `write_mirror` merges what a batch leaves into a `DeltaTarget`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_streaming.tables.key_ranges import key_cover, meeting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_streaming.tables.delta import DeltaTarget
    from binlog_streaming.tables.mirror import Reduced
    from binlog_streaming.tables.target import Ticket

DELETED = "deleted"


def write_mirror(target: DeltaTarget, change: Reduced, keys: Sequence[str], ticket: Ticket) -> int:
    """Bring *change* into the target in one commit, or in none when there is nothing to change.

    Returns:
        Rows and keys brought to the target.
    """
    assert target.table is not None
    condition = merge_condition(target, change, keys)
    if condition is None:
        if change.rows.num_rows:
            target.append(change.rows.to_reader(), ticket)
        return int(change.rows.num_rows)
    rows, names = _merge_source(change)
    target.merge_rows(rows, deleted=DELETED, on=_on(keys, names, condition), names=names, ticket=ticket)
    return int(rows.num_rows)


def merge_condition(target: DeltaTarget, change: Reduced, keys: Sequence[str]) -> str | None:
    """What a merge's condition says beside the equality of keys, so that files without a changed key stay untouched.

    Returns:
        Empty: any file may hold a changed key. None: none does, an append is enough.
    """
    condition = ""
    for key in keys:
        ranges = key_cover(pa.concat_tables([change.rows.select([key]), change.deleted.select([key])]).column(key))
        files = target.key_ranges(key) if ranges is not None else None
        if ranges is None or files is None:
            continue
        meets = meeting(ranges, *(array.cast(pa.int64()).to_numpy(zero_copy_only=False) for array in files))
        if not meets.any():
            return None
        if not meets.all() and not condition:
            column = f"t.{identifier(key)}"
            parts = [f"{column} BETWEEN {low} AND {high}" for low, high in zip(*ranges, strict=True)]
            condition = f" AND ({' OR '.join(parts)})"
    return condition


def identifier(name: str) -> str:
    """A column's name in an expression."""
    return '"' + name.replace('"', '""') + '"'


def _merge_source(change: Reduced) -> tuple[pa.Table, dict[str, str]]:
    # Columns get plain names, so that no name of the user's can collide or needs quoting on this side.
    schema = change.rows.schema
    names = {name: f"c{index}" for index, name in enumerate(schema.names)}
    gone = [
        change.deleted.column(field.name)
        if field.name in change.deleted.column_names
        else pa.nulls(change.deleted.num_rows, field.type)
        for field in schema
    ]
    tables = []
    for arrays, deleted in ((change.rows.columns, False), (gone, True)):
        table = pa.Table.from_arrays(list(arrays), names=list(names.values()))
        tables.append(table.append_column(DELETED, pa.array(np.full(table.num_rows, deleted))))
    return pa.concat_tables(tables), names


def _on(keys: Sequence[str], names: dict[str, str], condition: str) -> str:
    return " AND ".join(f"t.{identifier(key)} = s.{names[key]}" for key in keys) + condition
