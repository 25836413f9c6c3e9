"""Row images as JSON texts: `image_rows` of one table, `merged_texts` of several tables in one order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_format.events.table_map_layout import ColumnType
from binlog_format.kernels import empty_bytes
from binlog_format.rows.arrow_arrays import mask_array
from binlog_format.rows.arrow_schema import arrow_schema
from binlog_format.rows.decoding import DEFAULT_DECODING, Decoding
from binlog_format.rows.json.json_rows import JsonRows, JsonStyle, json_column
from binlog_format.rows.values.temporal import fraction_digits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_format.events.table_map import Column, TableLayout
    from binlog_format.rows.images import Images
    from binlog_format.views.columns import Pairs

    Int64s = NDArray[np.int64]

_FRACTION_TYPES = frozenset({ColumnType.TIMESTAMP2, ColumnType.DATETIME2, ColumnType.TIMESTAMP, ColumnType.DATETIME})


def column_style(column: Column) -> JsonStyle:
    """JSON style of the values of *column*."""
    digits = fraction_digits(column) if column.type in _FRACTION_TYPES else 0
    return JsonStyle(digits=digits, whole=column.type != ColumnType.NEWDECIMAL)


def column_styles(layout: TableLayout, decoding: Decoding = DEFAULT_DECODING) -> dict[str, JsonStyle]:
    """JSON styles of the table's columns, by name."""
    names = column_names(layout, decoding)
    return {name: column_style(column) for name, column in zip(names, layout.columns, strict=True)}


def image_rows(images: Images) -> JsonRows:
    """The images as JSON objects by column name, ready to be written.

    Raises:
        SchemaError: `NO_COLUMN_METADATA`: the log does not name the columns.
        UnsupportedError: `COLUMN_TYPE`.
    """
    names = column_names(images.layout, images.decoding)
    has_absent = images.has_absent()
    columns = [
        json_column(
            name,
            images.column(index),
            style=column_style(column),
            absent=images.absent_mask(index) if has_absent else None,
        )
        for index, (name, column) in enumerate(zip(names, images.layout.columns, strict=True))
    ]
    return JsonRows(columns, len(images.table))


def column_names(layout: TableLayout, decoding: Decoding = DEFAULT_DECODING) -> list[str]:
    """Names of the table's columns, after a look whether all its types can be read."""
    return list(arrow_schema(layout, decoding).names)


@dataclass(frozen=True, slots=True)
class TableTexts:
    """Contribution of one table to a merge.

    Attributes:
        rows: Its images.
        pairs: Its changes.
        ranks: Where each change is in the merged order.
    """

    rows: JsonRows
    pairs: Pairs
    ranks: Int64s

    def place(self, of_change: Int64s, sizes: Int64s) -> None:
        """Enter the sizes of the images *of_change* (`pairs.before` or `pairs.after`) at the ranks of the changes."""
        there = of_change >= 0
        sizes[self.ranks[there]] = self.rows.sizes[of_change[there]]


def text_sizes(tables: list[TableTexts], change_count: int) -> tuple[Int64s, Int64s]:
    """Bytes of the images before and after each change in the merged order; 0 where there is none."""
    before = np.zeros(change_count, dtype=np.int64)
    after = np.zeros(change_count, dtype=np.int64)
    for table in tables:
        table.place(table.pairs.before, before)
        table.place(table.pairs.after, after)
    return before, after


def merged_texts(tables: list[TableTexts], before_sizes: Int64s, after_sizes: Int64s) -> tuple[pa.Array, pa.Array]:
    """The images before and after each change as JSON texts, null where there is none; written in place, once.

    Args:
        tables: All tables of the merge.
        before_sizes: From `text_sizes`.
        after_sizes: From `text_sizes`.
    """
    before_ends, after_ends = np.cumsum(before_sizes), np.cumsum(after_sizes)
    before_size, after_size = int(before_ends[-1]), int(after_ends[-1])
    out = empty_bytes(before_size + after_size)
    for table in tables:
        starts = np.empty(len(table.rows.sizes), dtype=np.int64)
        for of_change, ends, sizes, base in (
            (table.pairs.before, before_ends, before_sizes, 0),
            (table.pairs.after, after_ends, after_sizes, before_size),
        ):
            there = of_change >= 0
            ranks = table.ranks[there]
            starts[of_change[there]] = base + ends[ranks] - sizes[ranks]
        table.rows.write(out, starts)
    data = pa.py_buffer(out)
    return (
        _text_array(before_sizes, before_ends, data.slice(0, before_size)),
        _text_array(after_sizes, after_ends, data.slice(before_size, after_size)),
    )


def _text_array(sizes: Int64s, ends: Int64s, data: pa.Buffer) -> pa.Array:
    offsets = np.zeros(len(sizes) + 1, dtype=np.int32)
    offsets[1:] = ends
    there = sizes > 0  # an object takes at least two bytes
    validity = None if there.all() else mask_array(there).buffers()[1]
    return pa.StringArray.from_buffers(len(sizes), pa.py_buffer(offsets), data, validity)
