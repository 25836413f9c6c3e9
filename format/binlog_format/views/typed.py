"""Common parts of the typed views: `TypedTable` checks that a table keeps its columns; `in_order` merges.

Names of the columns that row images lack: `absent_names`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_format.errors import SchemaError
from binlog_format.rows.arrow_arrays import mask_array, numbers_array, strings_array
from binlog_format.rows.arrow_schema import arrow_schema
from binlog_format.rows.decoding import DEFAULT_DECODING, Decoding
from binlog_format.views.json.image_json import column_names

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_format.events.table_map import TableLayout
    from binlog_format.position import Position
    from binlog_format.rows.images import Images


ABSENT_TYPE = pa.list_(pa.string())


def absent_names(images: Images, rows: NDArray[np.int64]) -> pa.Array:
    """Names of the columns that some images lack, and that a consumer must leave unchanged instead of setting to null.

    Args:
        images: Any.
        rows: Numbers of images.

    Returns:
        Lists of names, null where an image has all columns.
    """
    if not images.has_absent():
        return pa.nulls(len(rows), ABSENT_TYPE)
    masks = [images.absent_mask(index)[rows] for index in range(len(images.layout.columns))]
    lacking, columns = np.nonzero(np.stack(masks, axis=1))
    offsets = np.searchsorted(lacking, np.arange(len(rows) + 1)).astype(np.int32)
    names = strings_array(column_names(images.layout, images.decoding)).take(numbers_array(columns))
    none = mask_array(offsets[1:] == offsets[:-1])
    return pa.ListArray.from_arrays(numbers_array(offsets), names, mask=none)


class TypedTable:
    """The one table of a typed view.

    Args:
        layout: What it is expected to look like; None: as it is first met.
        decoding: What its values become.
    """

    def __init__(self, layout: TableLayout | None = None, decoding: Decoding = DEFAULT_DECODING) -> None:
        self.layout = layout
        self._decoding = decoding
        self._columns = None if layout is None else arrow_schema(layout, decoding)
        self._checked: set[str] = set()

    def check(self, layout: TableLayout, position: Position) -> None:
        """See that *layout*, which rows have from *position* on, has the expected columns.

        Raises:
            SchemaError: `SCHEMA_CHANGED`; `NO_COLUMN_METADATA`.
            UnsupportedError: `COLUMN_TYPE`.
        """
        if layout.digest in self._checked:
            return
        columns = arrow_schema(layout, self._decoding)
        if self._columns is None:
            self.layout, self._columns = layout, columns
        elif not columns.equals(self._columns):
            raise SchemaError(
                "SCHEMA_CHANGED",
                f"table {layout.database}.{layout.table}: expected columns ({_text(self._columns)}), "
                f"got ({_text(columns)})",
                hint=f"From {position} on it has the new ones: read up to there (option endingOffsets), and "
                "what follows (option startingOffsets) by itself; the view changes takes both, without option table",
            )
        self._checked.add(layout.digest)


def _text(columns: pa.Schema) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in columns)


def in_order(parts: list[pa.RecordBatch], keys: list[NDArray[np.int64]]) -> pa.RecordBatch:
    """One batch of the rows of all *parts*, by ascending key; rows of equal keys, which are of one part, keep order."""
    if len(parts) == 1:
        return parts[0]
    order = np.argsort(np.concatenate(keys), kind="stable")
    return pa.Table.from_batches(parts).combine_chunks().to_batches()[0].take(numbers_array(order))
