"""Rows found by key: `KeyLookup` has the keys of a batch, and tells which of them rows of a file have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_streaming.lake.keys.key_kernels import SPREAD, find_candidates
from binlog_streaming.lake.keys.sorting import distinct, whole_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Indices = NDArray[np.int64]


class KeyLookup:
    """Keys of one column or several, of any type whose values Arrow can tell apart.

    A column's values become numbers, and those of several columns one number, column by column; so each column is
    looked up only for the rows that have all values before it.

    Args:
        keys: One row for a key.
    """

    def __init__(self, keys: pa.Table) -> None:
        first, *others = keys.columns
        self._first = _Integers(first) if pa.types.is_integer(first.type) else _Values(first)
        self._others = [_Values(column) for column in others]
        self._pairs: list[Indices] = []
        numbers = self._first.of_keys
        for values in self._others:
            pairs, inverse = np.unique(values.pair(numbers, values.of_keys), return_inverse=True)
            self._pairs.append(pairs)
            numbers = inverse.astype(np.int64)
        self._keys = np.empty(len(keys), np.int64)
        self._keys[numbers] = np.arange(len(keys))

    def find(self, columns: Sequence[pa.Array]) -> tuple[Indices, Indices]:
        """Find the rows that have one of the keys.

        Args:
            columns: The key columns of some rows, in the types of the keys.

        Returns:
            Numbers of rows, ascending, and for each the number of its key.
        """
        rows, numbers = self._first.find(columns[0])
        for pairs, values, column in zip(self._pairs, self._others, columns[1:], strict=True):
            pair = values.pair(numbers, values.numbers(column.take(pa.array(rows))))
            numbers = np.minimum(np.searchsorted(pairs, pair), len(pairs) - 1)
            known = pairs[numbers] == pair
            rows, numbers = rows[known], numbers[known]
        return rows, self._keys[numbers]


class _Values:
    # Distinct values of a key column, numbered. Attributes: *of_keys*: for each key the number of its value.

    def __init__(self, keys: pa.Array | pa.ChunkedArray) -> None:
        self._values = pc.unique(keys)
        self.of_keys = self.numbers(keys)

    def find(self, column: pa.Array) -> tuple[Indices, Indices]:
        """Rows that hold one of the values, ascending, and the number of the value."""
        numbers = self.numbers(column)
        rows = np.flatnonzero(numbers >= 0)
        return rows, numbers[rows]

    def numbers(self, column: pa.Array | pa.ChunkedArray) -> Indices:
        """Number of each row's value; -1: it is none of them."""
        found = pc.fill_null(pc.index_in(column, value_set=self._values, skip_nulls=True), -1)
        numbers: Indices = (
            (pa.chunked_array([found]) if isinstance(found, pa.Array) else found).to_numpy().astype(np.int64)
        )
        return numbers

    def pair(self, numbers: Indices, own: Indices) -> Indices:
        """One number for *numbers* of columns before and *own*; -1: there is none."""
        return np.where(own < 0, -1, numbers * len(self._values) + own)


class _Integers:
    # The same of integers. That most of them are no key is known in a twentieth of the time that a look into a hash
    # table takes: there is a flag for each of more places than there are keys, set where a key falls.

    def __init__(self, keys: pa.Array | pa.ChunkedArray) -> None:
        self._values, self.of_keys = distinct(whole_numbers(keys))
        bits = int(np.clip(np.ceil(np.log2(_PLACES * max(len(self._values), 1))), _BITS_MIN, _BITS_MAX))
        self._shift = np.uint64(64 - bits)
        is_taken = np.zeros(1 << bits, np.bool_)
        is_taken[self._values.view(np.uint64) * SPREAD >> self._shift] = True
        self._flags = np.packbits(is_taken, bitorder="little")

    def find(self, column: pa.Array) -> tuple[Indices, Indices]:
        """See `_Values`."""
        values = whole_numbers(column)
        rows = np.empty(len(values), np.int64)
        count = find_candidates(values.view(np.uint64), self._flags, self._shift, rows)
        assert count >= 0, "there is a flag for each place"
        rows = rows[:count]
        wanted = values[rows]
        numbers = np.minimum(np.searchsorted(self._values, wanted), len(self._values) - 1)
        known = self._values[numbers] == wanted
        if column.null_count:
            known &= column.is_valid().to_numpy(zero_copy_only=False)[rows]
        return rows[known], numbers[known]


_PLACES = 16
"""Size of the filter per key: one in this many other values is a candidate."""
_BITS_MIN, _BITS_MAX = 10, 26
