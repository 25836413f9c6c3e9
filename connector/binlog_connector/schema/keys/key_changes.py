"""What ALTER TABLE does to the key that tells rows apart: `new_primary_key`, `may_change_key`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_connector.schema.definitions import PRIMARY

if TYPE_CHECKING:
    from binlog_connector.schema.operations import AlterTable


def new_primary_key(alter: AlterTable) -> tuple[str, ...] | None:
    """The columns that the statement makes the primary key, empty where it drops that; None: it does neither."""
    for key in alter.new_keys:
        if key.name == PRIMARY:
            return tuple(part.column for part in key.parts)
    return () if any(name.upper() == PRIMARY for name in alter.dropped_keys) else None


def may_change_key(alter: AlterTable) -> bool:
    """Whether another key may tell rows apart after it, whatever becomes of the columns.

    A unique key of columns that are NOT NULL stands for a primary key that a table lacks, and system versioning adds a
    column to each unique key.
    """
    return bool(alter.dropped_keys) or alter.versioning is not None or any(key.unique for key in alter.new_keys)
