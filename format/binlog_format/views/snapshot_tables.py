"""Tables that snapshots make on the server: `is_of_snapshots(database)`, `maps_of_marks(block)`.

A snapshot copies rows of other tables into shadows, with marks beside them. Whatever selects tables leaves them out:
the rules of a table do not apply to its shadows (docs/rules.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.events.layout import EventType
from binlog_format.events.table_map_layout import TABLE_BODY_OFFSET

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_format.block import Block

SNAPSHOT_DATABASE = "binlog_stream"
"""Database of shadows and marks: tables in it are nobody's source."""
MARKS_TABLE = "snapshot_marks"
SHADOW_PREFIX = "s_"


def is_of_snapshots(database: str) -> bool:
    """True if the tables of *database* are shadows and marks of snapshots."""
    return database == SNAPSHOT_DATABASE


_MARKS_NAME = b"".join(bytes([len(name)]) + name.encode() + b"\0" for name in (SNAPSHOT_DATABASE, MARKS_TABLE))
"""The name as the body of a table map begins with it."""


def maps_of_marks(block: Block) -> NDArray[np.int64]:
    """Table maps of the table of marks in a block, as rows of its events."""
    data = block.data
    maps = np.flatnonzero(block.events["type"] == EventType.TABLE_MAP)
    for offset, byte in enumerate(_MARKS_NAME):
        if not len(maps):
            break
        places = block.events["start"][maps] + TABLE_BODY_OFFSET + offset
        maps = maps[data[np.minimum(places, len(data) - 1)] == byte]
    return maps
