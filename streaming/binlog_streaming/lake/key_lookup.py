"""Rows found by key: `KeyLookup` has the keys of a batch, and says which of them rows of a file have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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
        self._values = [pc.unique(column) for column in keys.columns]
        self._integers = _Integers(self._values[0]) if pa.types.is_integer(keys.column(0).type) else None
        self._pairs: list[Indices] = []
        numbers = self._numbers(0, keys.column(0))
        for index in range(1, keys.num_columns):
            pairs, inverse = np.unique(self._pair(numbers, index, keys.column(index)), return_inverse=True)
            self._pairs.append(pairs)
            numbers = inverse.astype(np.int64)
        self._keys = np.empty(len(keys), np.int64)
        self._keys[numbers] = np.arange(len(keys))

    def find(self, columns: Sequence[pa.Array]) -> tuple[Indices, Indices]:
        """Which rows have one of the keys.

        Args:
            columns: The key columns of some rows, in the types of the keys.

        Returns:
            Numbers of rows, ascending, and for each the number of its key.
        """
        if self._integers is not None:
            rows, numbers = self._integers.find(columns[0])
        else:
            numbers = self._numbers(0, columns[0])
            rows = np.flatnonzero(numbers >= 0)
            numbers = numbers[rows]
        for index, pairs in enumerate(self._pairs, start=1):
            pair = self._pair(numbers, index, columns[index].take(pa.array(rows)))
            numbers = np.minimum(np.searchsorted(pairs, pair), len(pairs) - 1)
            known = pairs[numbers] == pair
            rows, numbers = rows[known], numbers[known]
        return rows, self._keys[numbers]

    def _numbers(self, index: int, column: pa.Array | pa.ChunkedArray) -> Indices:
        found = pc.fill_null(pc.index_in(column, value_set=self._values[index], skip_nulls=True), -1)
        numbers: Indices = (
            (pa.chunked_array([found]) if isinstance(found, pa.Array) else found).to_numpy().astype(np.int64)
        )
        return numbers

    def _pair(self, numbers: Indices, index: int, column: pa.Array | pa.ChunkedArray) -> Indices:
        other = self._numbers(index, column)
        return np.where(other < 0, -1, numbers * len(self._values[index]) + other)


class _Integers:
    # Of most integers it is said that they are no key in a tenth of the time that a look into a hash table takes: there
    # is a flag for each of more places than there are keys, set where a key falls.

    def __init__(self, keys: pa.Array | pa.ChunkedArray) -> None:
        values = _whole(keys)
        self._order = np.argsort(values)
        self._keys = values[self._order]
        bits = int(np.clip(np.ceil(np.log2(_PLACES * max(len(values), 1))), _BITS_MIN, _BITS_MAX))
        self._shift = np.uint64(64 - bits)
        self._is_taken = np.zeros(1 << bits, np.bool_)
        self._is_taken[self._places(values)] = True

    def find(self, column: pa.Array | pa.ChunkedArray) -> tuple[Indices, Indices]:
        """Rows that hold a key, ascending, and the number of the key."""
        values = _whole(column)
        rows = np.flatnonzero(self._is_taken[self._places(values)])
        wanted = values[rows]
        places = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
        known = self._keys[places] == wanted
        if column.null_count:
            known &= column.is_valid().to_numpy(zero_copy_only=False)[rows]
        return rows[known], self._order[places[known]]

    def _places(self, values: Indices) -> NDArray[np.uint64]:
        # Modulo 2**64, negative ones too; the upper bits of the product depend on all bits of the value.
        places: NDArray[np.uint64] = values.astype(np.uint64) * _SPREAD >> self._shift
        return places


def _whole(column: pa.Array | pa.ChunkedArray) -> Indices:
    # Null is any number.
    values: Indices = pc.fill_null(column, 0).to_numpy().astype(np.int64, copy=False)
    return values


_SPREAD = np.uint64(0x9E3779B97F4A7C15)
"""2**64 by the golden ratio: neighbours fall far from each other."""
_PLACES = 16
"""For each key: one in so many other values is a candidate."""
_BITS_MIN, _BITS_MAX = 10, 26
