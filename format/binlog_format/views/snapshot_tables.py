"""Tables that snapshots make on the server: `is_of_snapshots(database)`.

A snapshot copies rows of other tables into shadows, with marks beside them. Whatever selects tables leaves them out:
the rules of a table do not apply to its shadows (docs/rules.md).
"""

from __future__ import annotations

SNAPSHOT_DATABASE = "binlog_stream"
"""Database of shadows and marks: tables in it are nobody's source."""
MARKS_TABLE = "snapshot_marks"
SHADOW_PREFIX = "s_"


def is_of_snapshots(database: str) -> bool:
    """Whether the tables of *database* are shadows and marks of snapshots."""
    return database == SNAPSHOT_DATABASE
