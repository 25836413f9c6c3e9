"""Common parts of the typed views: `TypedTable` checks that a table keeps its columns; `in_order` merges.

Names of the columns that row images lack: `absent_names`.

JSON objects as texts of their own, one after the other: `JsonTexts`.

Row images as JSON texts: `image_rows` of one table, `merged_texts` of several tables in one order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_format.errors import SchemaError
from binlog_format.events.table_map_layout import ColumnType
from binlog_format.kernels import as_bytes, empty_bytes, offsets_of
from binlog_format.rows.arrow_arrays import mask_array, numbers_array, strings_array
from binlog_format.rows.columns import arrow_schema
from binlog_format.rows.decoding import DEFAULT_DECODING, Decoding
from binlog_format.rows.json import json_kernels as write
from binlog_format.rows.json.json_rows import JsonRows, JsonStyle, json_column
from binlog_format.rows.values.temporal import fraction_digits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_format.events.table_map import Column, TableLayout
    from binlog_format.kernels import Bytes, Int64s
    from binlog_format.position import Position
    from binlog_format.rows.images import Images
    from binlog_format.views.columns import Pairs

_FRACTION_TYPES = frozenset({ColumnType.TIMESTAMP2, ColumnType.DATETIME2, ColumnType.TIMESTAMP, ColumnType.DATETIME})


def column_style(column: Column) -> JsonStyle:
    """JSON style of the values of *column*."""
    digits = fraction_digits(column) if column.type in _FRACTION_TYPES else 0
    return JsonStyle(digits=digits, whole=column.type != ColumnType.NEWDECIMAL)


def column_styles(layout: TableLayout, decoding: Decoding) -> dict[str, JsonStyle]:
    """JSON styles of the table's columns, by name."""
    names = column_names(layout, decoding)
    return {name: column_style(column) for name, column in zip(names, layout.columns, strict=True)}


def image_rows(images: Images) -> JsonRows:
    """The images as JSON objects by column name, ready to be written."""
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
    """Contribution of one table to a merge. *pairs*: its changes. *ranks*: where each change is in the merged order."""

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


ABSENT_TYPE = pa.list_(pa.string())


def absent_names(images: Images, rows: Int64s) -> pa.Array:
    """Names of the columns that some images lack, and that a consumer must leave unchanged instead of setting to null.

    Args:
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
    """The one table of a typed view. *layout*: what it is expected to look like; None: as it is first met."""

    def __init__(self, layout: TableLayout | None = None, decoding: Decoding = DEFAULT_DECODING) -> None:
        self.layout = layout
        self._decoding = decoding
        self._columns = None if layout is None else arrow_schema(layout, decoding)
        self._checked: set[str] = set()

    def check(self, layout: TableLayout, position: Position) -> None:
        """See that *layout*, which rows have from *position* on, has the expected columns."""
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


def in_order(parts: list[pa.RecordBatch], keys: list[Int64s]) -> pa.RecordBatch:
    """One batch of the rows of all *parts*, by ascending key; rows of equal keys, which are of one part, keep order."""
    if len(parts) == 1:
        return parts[0]
    order = np.argsort(np.concatenate(keys), kind="stable")
    return pa.Table.from_batches(parts).combine_chunks().to_batches()[0].take(numbers_array(order))


@dataclass(frozen=True, slots=True)
class JsonTexts:
    """Texts one after the other. *offsets*: where each begins, and the last one ends."""

    data: Bytes
    offsets: Int64s

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def sizes(self) -> Int64s:
        """Bytes of each."""
        sizes: Int64s = np.diff(self.offsets)
        return sizes

    @classmethod
    def of(cls, texts: Sequence[str]) -> JsonTexts:
        """A few texts."""
        encoded = [text.encode() for text in texts]
        return cls(as_bytes(b"".join(encoded)), np.cumsum([0, *map(len, encoded)], dtype=np.int64))

    @classmethod
    def of_rows(cls, rows: JsonRows, head: Bytes, tail: Bytes) -> JsonTexts:
        """Each row as an object between *head* and *tail*."""
        sizes = rows.sizes + (head.size + tail.size)
        offsets = offsets_of(sizes)
        out = empty_bytes(int(offsets[-1]))
        cursors = offsets[:-1].copy()
        write.write_same(out, cursors, head)
        rows.write(out, cursors)
        cursors += rows.sizes
        write.write_same(out, cursors, tail)
        return cls(out, offsets)
