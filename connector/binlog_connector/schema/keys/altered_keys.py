"""Keys of a table after a statement: `named_keys`, `server_order`, `without_nulls`, `new_primary_key`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from binlog_connector.schema.definitions import PRIMARY, KeyDefinition, KeyPart, TableDefinition
from binlog_format.vendor import Vendor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from binlog_connector.schema.definitions import Period
    from binlog_connector.schema.operations import AlterTable, KeySpec


def altered_keys(keys: Iterable[KeyDefinition], alter: AlterTable, names: dict[str, str]) -> Iterator[KeyDefinition]:
    """The keys that ALTER TABLE leaves of *keys*, under the new *names* of their columns; new keys are not included."""
    dropped = {name.casefold() for name in alter.dropped_keys}
    key_names = {old.casefold(): new for old, new in alter.key_renames}
    without = {name.casefold() for name, _ in alter.dropped}
    for key in without_columns(keys, without):
        if key.name.casefold() not in dropped:
            parts = tuple(part._replace(column=names.get(part.column.casefold(), part.column)) for part in key.parts)
            yield replace(key, name=key_names.get(key.name.casefold(), key.name), parts=parts)


def without_columns(keys: Iterable[KeyDefinition], names: set[str]) -> Iterator[KeyDefinition]:
    """*keys* without the columns *names*; a key of which nothing is left is gone."""
    for key in keys:
        parts = tuple(part for part in key.parts if part.column.casefold() not in names)
        if parts or not key.parts:
            yield replace(key, parts=parts)


def named_keys(
    keys: Iterable[KeyDefinition], new: Iterable[KeySpec], period: Period | None, vendor: Vendor | None
) -> tuple[KeyDefinition, ...]:
    """*keys* and *new* ones; one without a name gets that of its first column, with `_2` and so on after it.

    Args:
        keys: Of the table.
        new: Of a statement.
        period: Of the table; a part WITHOUT OVERLAPS stands for its two columns, the end first.
        vendor: Whose server; None: either. MySQL takes USING HASH for a B-tree.
    """
    result = list(keys)
    for spec in new:
        name, taken = spec.name, {key.name.casefold() for key in result}
        if not name:
            first = spec.parts[0].column if spec.parts else "functional_index"
            name, number = first, 2
            while name.casefold() in taken:
                name, number = f"{first}_{number}", number + 1
        elif name.casefold() in taken:  # IF NOT EXISTS
            continue
        parts = tuple(column for part in spec.parts for column in _columns_of(part, period))
        result.append(KeyDefinition(name, spec.unique, parts, spec.hashed and vendor is not Vendor.MYSQL))
    return tuple(result)


def _columns_of(part: KeyPart, period: Period | None) -> Iterator[KeyPart]:
    if part.without_overlaps and period is not None and period.name.casefold() == part.column.casefold():
        yield from (KeyPart(period.end), KeyPart(period.start))
    else:
        yield part


def without_nulls(table: TableDefinition) -> TableDefinition:
    """*table* with the columns of its primary key and of its period as NOT NULL, which they stay without these."""
    names = {name.casefold() for name in table.primary_key}
    if table.period is not None:
        names |= {table.period.start.casefold(), table.period.end.casefold()}
    columns = tuple(
        replace(column, nullable=False) if column.nullable and column.name.casefold() in names else column
        for column in table.columns or ()
    )
    return replace(table, columns=columns)


def server_order(table: TableDefinition) -> TableDefinition:
    """*table* with its keys as both servers sort them (sql/sql_table.cc: sort_keys): the first one that can is the key.

    ALTER TABLE sorts what the statement before it left, so the order has a history.
    """

    def rank(key: KeyDefinition) -> tuple[bool, ...]:
        if not key.unique:
            return (True,)
        indices = [table.column_index(part.column) for part in key.parts]
        nulls = any(index is None or (table.columns or ())[index].nullable for index in indices)
        return False, nulls or not key.parts, not key.primary, any(map(table.is_cut, key.parts))

    return replace(table, keys=tuple(sorted(table.keys, key=rank)))


def new_primary_key(alter: AlterTable) -> tuple[str, ...] | None:
    """The columns that the statement makes the primary key, empty where it drops that; None: it does neither."""
    for key in alter.new_keys:
        if key.name == PRIMARY:
            return tuple(part.column for part in key.parts)
    return () if any(name.upper() == PRIMARY for name in alter.dropped_keys) else None


def may_change_key(alter: AlterTable) -> bool:
    """True if another key may identify rows after it, even if no column changes.

    A unique key of columns that are NOT NULL stands for a primary key that a table lacks, and system versioning adds a
    column to each unique key.
    """
    return bool(alter.dropped_keys) or alter.versioning is not None or any(key.unique for key in alter.new_keys)
