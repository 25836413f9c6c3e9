"""Rows that are the same: `row_ids`, `matching_rows`, `equal_rows`, `rows_with`; `comparable` for what Arrow groups by.

Two rows are the same when all bits of them are: text is compared as it is, not by a collation, and -0.0 is not 0.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_format.rows.arrow_arrays import fixed_array, mask_array
from binlog_streaming.lake.keys.key_lookup import distinct, integers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    Indices = NDArray[np.int64]
    Mask = NDArray[np.bool_]

_BITS = {pa.float16(): pa.int16(), pa.float32(): pa.int32(), pa.float64(): pa.int64()}


def comparable(array: pa.Array) -> list[pa.Array]:
    """Columns that are equal where *array* is: itself, or what it is made of."""
    if array.type in _BITS:
        return [array.view(_BITS[array.type])]
    if pa.types.is_struct(array.type):
        return [array.is_valid(), *(part for child in array.flatten() for part in comparable(child))]
    if pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        return [_list_bytes(array)]
    return [array]


def comparable_table(arrays: Iterable[pa.Array | pa.ChunkedArray]) -> pa.Table:
    """The same for the columns of a table; they are called c0, c1 and so on."""
    parts = [part for array in arrays for part in comparable(one_array(array))]
    return pa.Table.from_arrays(parts, names=[f"c{number}" for number in range(len(parts))])


def one_array(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """All chunks as one array."""
    if not isinstance(array, pa.ChunkedArray):
        return array
    return array.chunk(0) if array.num_chunks == 1 else pa.concat_arrays(array.chunks or [pa.array([], array.type)])


def row_ids(rows: pa.Table) -> tuple[Indices, int]:
    """A number for each row, from 0 on, the same for the same row; and how many there are.

    Args:
        rows: Columns of types that Arrow groups.
    """
    if rows.num_columns == 1 and (values := integers(rows.column(0))) is not None:
        known, numbers = distinct(values)
        return numbers, len(known)
    names = [f"c{number}" for number in range(rows.num_columns)]
    numbered = pa.Table.from_arrays([*rows.columns, pa.array(np.arange(rows.num_rows))], names=[*names, "row"])
    lists = one_array(numbered.group_by(names, use_threads=False).aggregate([("row", "list")]).column("row_list"))
    counts = np.diff(lists.offsets.to_numpy())
    ids = np.empty(rows.num_rows, dtype=np.int64)
    ids[lists.flatten().to_numpy()] = np.repeat(np.arange(len(counts)), counts)
    return ids, len(counts)


def matching_rows(rows: pa.Table, wanted: pa.Table) -> Indices:
    """Find the row of *rows* that equals each row of *wanted*; -1: there is none.

    Args:
        rows: Columns that *wanted* has, in any types that can be cast to those; no row comes twice.
        wanted: Rows of types that Arrow groups.
    """
    ids, count = row_ids(pa.concat_tables([wanted, rows.cast(wanted.schema)]))
    places = np.full(count, -1, dtype=np.int64)
    places[ids[wanted.num_rows :]] = np.arange(rows.num_rows)
    return places[ids[: wanted.num_rows]]


def equal_rows(left: pa.Table, right: pa.Table) -> Mask:
    """Mask of the equal rows of two tables, row by row; their columns are `comparable`, and as many."""
    equal = np.ones(left.num_rows, dtype=np.bool_)
    for ours, theirs in zip(left.columns, right.columns, strict=True):
        same = pc.equal(ours, theirs).fill_null(False).to_numpy()
        nulls = [column.is_null().to_numpy() for column in (ours, theirs)]
        equal &= same | (nulls[0] & nulls[1])
    return equal


def rows_with(reader: pa.RecordBatchReader, keys: pa.Table) -> pa.Table:
    """Rows that may have one of *keys*: those whose every key column has a value that is in that column of *keys*.

    Args:
        reader: Rows; read to the end, a batch at a time.
        keys: Some columns of the rows.
    """
    found = []
    for batch in reader:
        mask = np.ones(batch.num_rows, dtype=np.bool_)
        for name in keys.column_names:
            values = one_array(keys.column(name)).cast(batch.schema.field(name).type)
            mask &= pc.is_in(batch.column(name), value_set=values).to_numpy(zero_copy_only=False)
        found.append(batch.filter(mask_array(mask)))
    return pa.Table.from_batches(found, reader.schema)


def _list_bytes(array: pa.Array) -> pa.Array:
    # A list of numbers as the bytes of them.
    kind = array.type.value_type
    assert kind in _BITS or pa.types.is_integer(kind), f"no list of {kind} is made of a row"
    width = kind.bit_width // 8
    offsets = array.offsets.to_numpy().astype(np.int64)
    values = array.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    held = pa.py_buffer(np.ascontiguousarray(values.to_numpy(zero_copy_only=False)))
    byte_offsets = ((offsets - offsets[0]) * width).astype(np.int64)
    whole = pa.Array.from_buffers(pa.large_binary(), len(array), [None, pa.py_buffer(byte_offsets), held])
    validity = fixed_array(pa.int8(), np.zeros(len(array), np.int8), valid).buffers()[0]
    return pa.Array.from_buffers(pa.large_binary(), len(array), [validity, *whole.buffers()[1:]])
