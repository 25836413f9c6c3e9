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
