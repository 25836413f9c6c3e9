"""Existing rows that a snapshot has put into the log, and marks that tell whose they are: `SnapshotEvents`, `marks_in`.

A snapshot copies the rows of a table, a chunk at a time, into a *shadow*: a table of the database `binlog_stream` with
the same columns. A chunk is one event group: row events of the shadow, then a row of `binlog_stream.snapshot_marks`
that names the source table. A shadow belongs to one snapshot of one table (docs/decisions/0023).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from binlog_format.errors import SchemaError
from binlog_format.events.layout import EventType
from binlog_format.events.table_map import parse_table_map
from binlog_format.events.table_map_edits import keyed_table_map, renamed_table_map
from binlog_format.gtids.gtid_history import gtid_text
from binlog_format.position import Position
from binlog_format.rows.images import ImageKind, read_images
from binlog_format.rows.table_events import TableEvents, table_maps_of
from binlog_format.views.columns import POSITION_TYPE
from binlog_format.views.filters import MARKS_TABLE, SHADOW_PREFIX, SNAPSHOT_DATABASE, maps_of_marks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from binlog_format.block import Block
    from binlog_format.events.table_map import TableLayout

_INSERTS = (
    EventType.WRITE_ROWS_V0,
    EventType.WRITE_ROWS_V1,
    EventType.WRITE_ROWS_V2,
    EventType.WRITE_ROWS_COMPRESSED_V1,
    EventType.WRITE_ROWS_COMPRESSED,
)

# Columns of the marks and their character sets, which a log without metadata does not contain.
_MARK_COLUMNS = (
    ("id", None),
    ("snapshot", "ascii"),
    ("kind", "ascii"),
    ("source_schema", "utf8mb4"),
    ("source_table", "utf8mb4"),
    ("shadow", "ascii"),
    ("chunk", None),
    ("row_count", None),
    ("detail", "utf8mb4"),
)

MARK_TYPE = pa.struct(
    [
        ("position", POSITION_TYPE),  # of the mark's event group
        ("event_no", pa.int32()),
        ("gtid", pa.string()),
        ("commit_time", pa.int64()),  # seconds since 1970 UTC
        ("server_id", pa.int64()),
        ("vendor", pa.string()),
        ("snapshot", pa.string()),
        ("kind", pa.string()),
        ("database", pa.string()),  # of the source table
        ("table", pa.string()),
        ("shadow", pa.string()),
        ("chunk", pa.int64()),
        ("row_count", pa.int64()),
        ("detail", pa.string()),  # JSON
    ]
)
"""A row of `binlog_stream.snapshot_marks`."""


class Shadow(NamedTuple):
    """Source table of a shadow table."""

    snapshot: str
    database: str
    table: str


@dataclass(slots=True)
class SnapshotEvents:
    """Takes the events of shadows and marks out of those of other tables; one object reads one range of a log.

    Attributes:
        marks: Those of the range, in log order, as values of `MARK_TYPE`.
    """

    marks: list[dict[str, object]] = field(default_factory=list)

    def take(self, block: Block, resolved: Sequence[TableEvents]) -> tuple[list[TableEvents], list[TableEvents]]:
        """The events of shadows, and those of tables outside of the snapshots' database; marks are noted."""
        shadows, others = [], []
        for touched in resolved:
            if touched.layout.database != SNAPSHOT_DATABASE:
                others.append(touched)
            elif touched.layout.table == MARKS_TABLE:
                self.marks += _marks_in(block, touched)
            elif touched.layout.table.startswith(SHADOW_PREFIX):
                shadows.append(touched)
        return shadows, others

    def shadows(self) -> dict[str, Shadow]:
        """Source tables of the shadows that the marks of the range name, by the shadows' names."""
        return {
            str(mark["shadow"]): Shadow(str(mark["snapshot"]), str(mark["database"]), str(mark["table"]))
            for mark in self.marks
        }


def marks_in(block: Block) -> Iterator[dict[str, object]]:
    """Marks in a block, in order, as values of `MARK_TYPE`; it costs a look at its table maps where there are none.

    Args:
        block: Of plain events; marks whose table map is in another block are left out, as only chunks have such.
    """
    events, data = block.events, block.data
    numbers = maps_of_marks(block).tolist()
    if not numbers:
        return
    inserts = np.flatnonzero(np.isin(events["type"], _INSERTS))
    maps = table_maps_of(block, inserts)
    for number in numbers:
        start, size = int(events["start"][number]), int(events["size"][number])
        layout = parse_table_map(data[start : start + size].tobytes(), block.vendor, block.server_version)
        rows = inserts[maps == number]
        # A table of that name with other columns is not that of the marks; who needs its rows names it.
        if len(rows) and len(layout.columns) == len(_MARK_COLUMNS):
            yield from _marks_in(block, TableEvents(layout, rows))


def source_layout(layout: TableLayout, shadow: Shadow, key: Sequence[str] = ()) -> TableLayout:
    """The layout of a shadow under the name of its source table.

    Args:
        key: Names of the columns that tell rows of the source apart: shadows have no keys.
    """
    if layout.problem is not None:
        raise layout.problem
    table_map = renamed_table_map(layout.table_map, shadow.database, shadow.table)
    names = [column.name for column in layout.columns]
    if key and not layout.primary_key and set(key) <= set(names):
        table_map = keyed_table_map(table_map, [names.index(name) for name in key])
    return parse_table_map(table_map, layout.vendor)


def _marks_in(block: Block, touched: TableEvents) -> Iterator[dict[str, object]]:
    images = read_images(block.data, block.events, touched.events, _readable(touched.layout), place=block.place)
    images = images.select(images.table["kind"] == ImageKind.INSERT)  # whoever removes old marks takes nothing back
    columns = [images.column(number).to_pylist() for number in range(len(_MARK_COLUMNS))]
    names = [name for name, _ in _MARK_COLUMNS]
    for event, *values in zip(images.table["event"].tolist(), *columns, strict=True):
        yield _mark(block, event, dict(zip(names, values, strict=True)))


def _mark(block: Block, event: int, values: Mapping[str, object]) -> dict[str, object]:
    group = int(block.events["group"][event])
    position, gtid = Position.of(block.groups[group]), gtid_text(block.groups[group], block.gtid_sources)
    return {
        "position": position.to_json(),
        "event_no": int(block.events["event_no"][event]),
        "gtid": gtid,
        "commit_time": int(block.groups["timestamp"][group]),
        "server_id": int(block.events["server_id"][event]),
        "vendor": block.vendor.value,
        "snapshot": values["snapshot"],
        "kind": values["kind"],
        "database": values["source_schema"],
        "table": values["source_table"],
        "shadow": values["shadow"],
        "chunk": values["chunk"],
        "row_count": values["row_count"],
        "detail": values["detail"],
    }


def _readable(layout: TableLayout) -> TableLayout:
    if len(layout.columns) != len(_MARK_COLUMNS):
        raise SchemaError(
            "COLUMN_COUNT_MISMATCH",
            f"{layout.full_name}: {len(layout.columns)} columns, expected {len(_MARK_COLUMNS)}: it is not the table "
            "that binlog-stream makes for the marks of its snapshots",
            hint="Drop or rename it, and let binlog-stream snapshot make its own",
        )
    columns = tuple(
        replace(column, name=name, charset=charset, unsigned=name == "id" if charset is None else None)
        for column, (name, charset) in zip(layout.columns, _MARK_COLUMNS, strict=True)
    )
    return replace(layout, columns=columns)
