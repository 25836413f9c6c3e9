"""The row events of one table layout in a range, for a row of the view `tables`: `TouchedTable`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.rows.images import ImageKind, read_images
from binlog_format.views.cascading import checked_counts
from binlog_format.views.index.table_index import TableIndex, TableIndexBuilder

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_format.block import Block
    from binlog_format.events.table_map import TableLayout
    from binlog_format.rows.decoding import Decoding
    from binlog_format.rows.table_events import TableEvents

INDEX_EVENTS = 1 << 18
"""Row events of an index, before another one is begun: 50 MB while it is built, whatever a transaction weighs."""


class TouchedTable:
    """Collects the events; `rows` gives them, without the bounds of the range.

    Args:
        layout: Of all events.
    """

    def __init__(self, layout: TableLayout) -> None:
        self.layout = layout
        self._rows: list[dict[str, object]] = []
        self._begin()

    def _begin(self) -> None:
        self._builder = TableIndexBuilder(self.layout)
        self._counts = np.zeros(len(ImageKind), dtype=np.int64)
        self._checked = np.zeros(2, dtype=np.int64)
        self._events = 0

    def add(self, block: Block, touched: TableEvents, decoding: Decoding) -> None:
        """Take the events of the next block.

        Raises:
            BinlogError: They cannot be understood.
        """
        images = read_images(
            block.data, block.events, touched.events, touched.layout, place=block.place, decoding=decoding
        )
        self._counts += np.bincount(images.table["kind"], minlength=len(ImageKind))
        self._checked += checked_counts(block, touched.events)
        self._builder.add(block, touched.events)
        self._events += len(touched.events)
        if self._events >= INDEX_EVENTS:
            self._end()

    def rows(self) -> list[dict[str, object]]:
        """One row for each index, in log order."""
        if self._events:
            self._end()
        return self._rows

    def _end(self) -> None:
        index = self._builder.build()
        self._rows.append(
            {
                "database": self.layout.database,
                "table": self.layout.table,
                "layout": self.layout.digest,
                "inserts": int(self._counts[ImageKind.INSERT]),
                "updates": int(self._counts[ImageKind.UPDATE_BEFORE]),
                "deletes": int(self._counts[ImageKind.DELETE]),
                "bytes": index.size,
                **checked_columns(self._checked),
                "index": index.to_bytes(),
            }
        )
        self._begin()


def rows_of_source(shadow: TouchedTable, layout: TableLayout, snapshot: str) -> list[dict[str, object]]:
    """The rows of a shadow as rows of its source table.

    Args:
        shadow: What was collected under its own layout.
        layout: The same as one of the source table.
        snapshot: Which run the events are chunks of.
    """
    rows = []
    for row in shadow.rows():
        content = row["index"]
        assert isinstance(content, bytes)
        index = replace(TableIndex.from_bytes(content), layout=layout, snapshot=snapshot)
        named = {"database": layout.database, "table": layout.table, "layout": layout.digest, "snapshot": snapshot}
        rows.append({**row, **named, "index": index.to_bytes()})
    return rows


def checked_columns(counts: NDArray[np.int64]) -> dict[str, int]:
    """Values of `checked_counts`, by the names of the view's columns."""
    updates, deletes = counts.tolist()
    return {"checked_updates": updates, "checked_deletes": deletes}
