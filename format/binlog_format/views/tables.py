"""View `tables`: one row for each table that a range of the log touches, with an index of its events: `TablesView`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_format.events.layout import GTID_FLAG_DDL
from binlog_format.position import Position
from binlog_format.rows.decoding import DEFAULT_DECODING, Decoding
from binlog_format.rows.images import ImageKind, read_images
from binlog_format.views.columns import POSITION_TYPE
from binlog_format.views.group_filter import ALL_GROUPS, GroupFilter
from binlog_format.views.selection import Selection
from binlog_format.views.table_filter import TableFilter
from binlog_format.views.table_index import TableIndexBuilder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from binlog_format.block import Block
    from binlog_format.events.table_map import TableLayout
    from binlog_format.rows.table_events import TableEvents

TABLES_SCHEMA = pa.schema(
    [
        ("start", POSITION_TYPE),  # of the first group in the range
        ("end", POSITION_TYPE),  # where reading goes on behind the range
        ("database", pa.string()),
        ("table", pa.string()),
        ("layout", pa.string()),  # digest of the table's layout
        ("inserts", pa.int64()),
        ("updates", pa.int64()),
        ("deletes", pa.int64()),
        ("ddl", pa.bool_()),  # a DDL statement stands in the range; of which table is not looked at
        ("index", pa.binary()),  # `TableIndex.to_bytes()`
    ]
)


@dataclass(slots=True)
class _Touched:
    layout: TableLayout
    builder: TableIndexBuilder
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(len(ImageKind), dtype=np.int64))

    def add(self, block: Block, touched: TableEvents, decoding: Decoding) -> None:
        images = read_images(
            block.data, block.events, touched.events, touched.layout, extents=block.extents, decoding=decoding
        )
        self.counts += np.bincount(images.table["kind"], minlength=len(ImageKind))
        self.builder.add(block, touched.events)


class TablesView:
    """The tables touched in a range; a table whose layout changes has a row for each layout.

    Args:
        tables: Which tables are wanted; default: all.
        decoding: Its schemas complete the layouts.
        groups: Which event groups are wanted; default: all.
    """

    def __init__(
        self,
        *,
        tables: TableFilter | None = None,
        decoding: Decoding = DEFAULT_DECODING,
        groups: GroupFilter = ALL_GROUPS,
    ) -> None:
        self._decoding = decoding
        self._tables = tables or TableFilter()
        self._groups = groups

    def schema(self, layout: TableLayout | None = None) -> pa.Schema:
        """Schema of the batches; it is the same for every table."""
        del layout
        return TABLES_SCHEMA

    def batches(self, blocks: Iterable[Block]) -> Iterator[pa.RecordBatch]:
        """One batch for all of *blocks*, by first touch; none when no table is touched.

        Raises:
            SchemaError: `COLUMN_COUNT_MISMATCH`, `COLUMN_MISMATCH`: a schema is not that of a table touched.
        """
        selection = Selection(self._tables, self._groups, decoding=self._decoding)
        found: dict[tuple[str, str, str, str], _Touched] = {}
        start: Position | None = None
        end: Position | None = None
        ddl = False
        for block in blocks:
            if start is None and len(block.groups):
                start = Position(*(int(block.groups[name][0]) for name in ("file_no", "page", "chunk")))
            end = block.next_position
            ddl = ddl or bool((block.groups["gtid_flags"] & GTID_FLAG_DDL).any())
            for touched in selection.of(block):
                layout = touched.layout
                key = (layout.database, layout.table, layout.digest, layout.completion)
                if key not in found:
                    found[key] = _Touched(layout, TableIndexBuilder(layout))
                found[key].add(block, touched, self._decoding)
        if found and start is not None and end is not None:
            yield _batch(start, end, list(found.values()), ddl=ddl)


def _batch(start: Position, end: Position, found: list[_Touched], *, ddl: bool) -> pa.RecordBatch:
    rows = [
        {
            "start": _struct(start),
            "end": _struct(end),
            "database": touched.layout.database,
            "table": touched.layout.table,
            "layout": touched.layout.digest,
            "inserts": int(touched.counts[ImageKind.INSERT]),
            "updates": int(touched.counts[ImageKind.UPDATE_BEFORE]),
            "deletes": int(touched.counts[ImageKind.DELETE]),
            "ddl": ddl,
            "index": touched.builder.build().to_bytes(),
        }
        for touched in found
    ]
    return pa.RecordBatch.from_pylist(rows, schema=TABLES_SCHEMA)


def _struct(position: Position) -> dict[str, int]:
    return {"file_no": position.file_no, "page": position.page, "chunk": position.chunk}
