"""Row images out of plain Python rows, for what works on images of any origin: `step_of`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa

from binlog_format.block import EVENT_DTYPE, GROUP_DTYPE
from binlog_format.events.table_map import TableLayout
from binlog_format.rows.images import IMAGE_DTYPE, ImageKind
from binlog_streaming.modes.absent_columns import AbsentFacts
from binlog_streaming.modes.row_batches import RowBatch, StepImages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from binlog_format.block import Table
    from binlog_format.rows.images import Images

    Row = tuple[object, ...]
    Change = tuple[Row | None, Row | None]
    """Row before and row after: (None, row) is an insert, (row, None) a delete, (row, row) an update."""

ABSENT = object()
"""In place of a value: the image does not have the column."""

LAYOUT = TableLayout("shop", "orders", (), (), "", b"")


@dataclass(frozen=True)
class RowImagesOf:
    """Images of the given kinds; `rows` has a row for each. Every change is an event of its own."""

    table: Table
    rows: pa.Table
    absent: NDArray[np.bool_]

    @classmethod
    def changes(cls, changes: Sequence[Change], schema: pa.Schema) -> RowImagesOf:
        """The images that a server writes for *changes*."""
        images: list[tuple[int, ImageKind, Row]] = []
        for number, (before, after) in enumerate(changes):
            if before is not None and after is not None:
                images += [(number, ImageKind.UPDATE_BEFORE, before), (number, ImageKind.UPDATE_AFTER, after)]
            elif after is not None:
                images.append((number, ImageKind.INSERT, after))
            else:
                assert before is not None
                images.append((number, ImageKind.DELETE, before))
        table = np.zeros(len(images), IMAGE_DTYPE)
        table["event"] = [image[0] for image in images]
        table["kind"] = [image[1] for image in images]
        absent = np.array([[value is ABSENT for value in image[2]] for image in images], np.bool_)
        columns = [
            pa.array([None if image[2][index] is ABSENT else image[2][index] for image in images], field.type)
            for index, field in enumerate(schema)
        ]
        return cls(table, pa.Table.from_arrays(columns, schema=schema), absent.reshape(len(images), len(schema)))

    def column_of(self, column: int, rows: NDArray[np.int64], missing: NDArray[np.bool_]) -> pa.Array:
        """Values of a column in some images."""
        taken = self.rows.column(column).take(pa.array(rows, pa.int64(), mask=missing))
        return pa.concat_arrays(taken.chunks or [pa.array([], taken.type)])

    def select(self, rows: NDArray[np.int64], /) -> RowImagesOf:
        """Some of the images."""
        return RowImagesOf(self.table[rows], self.rows.take(pa.array(rows)), self.absent[rows])

    def has_absent(self) -> bool:
        """Whether any image lacks any column."""
        return bool(self.absent.any())

    def has_changes(self) -> bool:
        """Whether any image has changes to a JSON value alone."""
        return False

    def absent_mask(self, column: int, /) -> NDArray[np.bool_]:
        """Which images lack the column."""
        mask: NDArray[np.bool_] = self.absent[:, column]
        return mask


def row_batch_of(
    changes: Sequence[Change], schema: pa.Schema, pages: Sequence[int] | None = None, layout: TableLayout = LAYOUT
) -> RowBatch:
    """*changes*, each in a group of its own.

    Args:
        pages: Where each group lies; its commit time is as many seconds. Default: 0, 1, 2 ...
        layout: What is said about the table.
    """
    images = RowImagesOf.changes(changes, schema)
    events, groups = np.zeros(len(changes), EVENT_DTYPE), np.zeros(len(changes), GROUP_DTYPE)
    events["group"] = np.arange(len(changes))
    events["event_no"] = 2
    groups["page"] = groups["timestamp"] = np.arange(len(changes)) if pages is None else pages
    return RowBatch(cast("Images", images), events, groups, layout)


def step_of(
    changes: Sequence[Change],
    schema: pa.Schema,
    *,
    row_batches: int = 1,
    interleaved: bool = False,
    start: int = 0,
    known: AbsentFacts | None = None,
) -> StepImages:
    """*changes* in log order.

    Args:
        row_batches: In how many row batches they come.
        interleaved: Row batches are such as two sessions make that write by turns; else they follow each other.
        start: Where in the log the first change lies, and its commit time in seconds.
        known: What is known of columns that are left out; default: that none is generated.
    """
    facts = AbsentFacts(unchanged=frozenset(schema.names)) if known is None else known
    numbers = np.arange(len(changes))
    parts = (
        [numbers[part::row_batches] for part in range(row_batches)]
        if interleaved
        else np.array_split(numbers, row_batches)
    )
    return StepImages(
        "shop.orders",
        tuple(
            replace(row_batch_of([changes[number] for number in part], schema, (part + start).tolist()), facts=facts)
            for part in parts
            if len(part)
        ),
    )
