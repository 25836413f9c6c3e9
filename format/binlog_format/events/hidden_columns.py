"""Columns that MariaDB adds behind those of a table: hashes of unique keys that are too long for an index.

`UNIQUE` over a TEXT, over a long VARCHAR, or with `USING HASH` gets a column `DB_ROW_HASH_<n>`, a BIGINT UNSIGNED that
no statement can name (MariaDB sql/sql_table.cc: add_hash_field). Row events and table maps have it, after all others.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from binlog_format.events.table_map_layout import ColumnType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_format.events.table_map import Column

_HASH_NAME = re.compile(r"DB_ROW_HASH_\d+")


def declared_count(columns: Sequence[Column]) -> int:
    """Number of *columns* before those that have the name and the type of a hash."""
    count = len(columns)
    while count and can_be_hash(columns[count - 1]) and _HASH_NAME.fullmatch(columns[count - 1].name or ""):
        count -= 1
    return count


def can_be_hash(column: Column) -> bool:
    """True if a column has the type of a hash."""
    return column.type is ColumnType.LONGLONG and column.unsigned is not False
