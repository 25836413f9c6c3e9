"""Row images out of plain Python rows, for what works on images of any origin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_format.rows.images import IMAGE_DTYPE, ImageKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from binlog_format.block import Table

    Row = tuple[object, ...]
    Change = tuple[Row | None, Row | None]
    """Row before and row after: (None, row) is an insert, (row, None) a delete, (row, row) an update."""

ABSENT = object()
"""In place of a value: the image does not have the column."""


@dataclass(frozen=True)
class RowImagesOf:
    """Images of the given kinds; `rows` has a row for each."""

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
        table["row_no"] = [image[0] for image in images]
        table["kind"] = [image[1] for image in images]
        absent = np.array([[value is ABSENT for value in image[2]] for image in images], np.bool_)
        columns = [
            pa.array([None if image[2][index] is ABSENT else image[2][index] for image in images], field.type)
            for index, field in enumerate(schema)
        ]
        return cls(table, pa.Table.from_arrays(columns, schema=schema), absent.reshape(len(images), len(schema)))

    def column(self, index: int, /) -> pa.Array:
        """Values of a column."""
        column = self.rows.column(index).combine_chunks()
        return column.chunk(0) if isinstance(column, pa.ChunkedArray) else column

    def select(self, rows: NDArray[np.int64], /) -> RowImagesOf:
        """Some of the images."""
        return RowImagesOf(self.table[rows], self.rows.take(pa.array(rows)), self.absent[rows])

    def has_absent(self) -> bool:
        """Whether any image lacks any column."""
        return bool(self.absent.any())

    def absent_mask(self, column: int, /) -> NDArray[np.bool_]:
        """Which images lack the column."""
        mask: NDArray[np.bool_] = self.absent[:, column]
        return mask
