"""Rows found by key: `KeyLookup` has the keys of a batch, and tells which of them rows of a file have.

Integers in order, several times as fast as NumPy's own functions: `ascending`, `distinct`, `union`, `complement`.

Rows with equal keys, put together: `KeyRuns`.

Ranges that hold the keys of a batch, to leave files alone that hold none of them: `files_that_may_hold`.

Rows found by values of any of their columns: `Search` tells which ones, `found_rows` reads them of a table's files.

Of files that may hold such rows the columns that tell are read; of those that do hold some, what is wanted of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_format.rows.arrow_arrays import mask_array
from binlog_streaming.lake.key_kernels import SPREAD, find_candidates

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from binlog_format.kernels import Indices, Mask
    from binlog_streaming.lake.change import TableFiles

File = TypeVar("File")

RANGES_MAX = 16
"""Largest number of ranges: enough to separate hot rows from cold ones, few enough to cost nothing."""


def files_that_may_hold(
    files: Sequence[File], bounds_of: Callable[[File, Sequence[str]], Mapping[str, tuple[int, int]]], keys: pa.Table
) -> list[File]:
    """Files that, by their statistics, may hold one of *keys*, by their least first key where that is known.

    Args:
        bounds_of: Least and greatest value in a file of those of some columns that are integers, as far as it is known.
        keys: Rows of the key columns.
    """
    if not files:
        return []
    names = keys.column_names
    covers = {name: cover for name in names if (cover := key_cover(keys.column(name))) is not None}
    bounds = [bounds_of(file, names) for file in files]
    admits = np.ones(len(files), np.bool_)
    for name, ranges in covers.items():
        known = np.array([number for number, known_bounds in enumerate(bounds) if name in known_bounds], np.int64)
        low, high = (np.array([bounds[number][name][side] for number in known], np.int64) for side in (0, 1))
        admits[known] &= meeting(ranges, low, high)
    admitted = np.flatnonzero(admits).tolist()
    admitted.sort(key=lambda number: bounds[number].get(names[0], (0, 0))[0])
    return [files[number] for number in admitted]


def key_cover(column: pa.ChunkedArray) -> tuple[Indices, Indices] | None:
    """Ranges that hold the values of a key column; None for types other than integers, and for no values at all."""
    if not pa.types.is_integer(column.type) or len(column) == 0:
        return None
    return cover(np.sort(column.cast(pa.int64()).to_numpy()), RANGES_MAX)


def cover(values: Indices, count_max: int) -> tuple[Indices, Indices]:
    """Make up to *count_max* ranges that contain all *values* (ascending, not empty), cut at the widest gaps.

    Returns:
        First and last value of each range, both inclusive, ascending.
    """
    # Unsigned, because a gap between two 64-bit integers does not fit into one.
    gaps = values[1:].view(np.uint64) - values[:-1].view(np.uint64)
    widest = np.sort(np.argsort(gaps, kind="stable")[::-1][: count_max - 1])
    widest = widest[gaps[widest] > 1]
    return values[np.concatenate([[0], widest + 1])], values[np.concatenate([widest, [len(values) - 1]])]


def meeting(ranges: tuple[Indices, Indices], least: Indices, greatest: Indices) -> Mask:
    """Mask of the files that overlap one of *ranges* (of `cover`), by the least and greatest value of each."""
    starts, ends = ranges
    # A range meets a file when the first range that ends at or after the file's least value starts within it.
    first = np.searchsorted(ends, least)
    meets: Mask = (first < len(starts)) & (starts[np.minimum(first, len(starts) - 1)] <= greatest)
    return meets


def integers(column: pa.Array | pa.ChunkedArray) -> Indices | None:
    """A column's values as 64 bits each, a copy; None: they are no integers, or some are null."""
    if not pa.types.is_integer(column.type) or column.null_count:
        return None
    return whole_numbers(column)


def whole_numbers(column: pa.Array | pa.ChunkedArray) -> Indices:
    """A column of integers as 64 bits each, a copy; null is any number."""
    values: Indices = pc.fill_null(column, 0).to_numpy().astype(np.int64)
    return values


def ascending(values: Indices) -> tuple[Indices, Mask]:
    """Places of *values* from the least one on, equal ones as they come; and which of them begin with another value."""
    count = len(values)
    if (values[1:] > values[:-1]).all():  # as keys of new rows mostly are
        return np.arange(count), np.ones(count, np.bool_)
    bits = np.uint64((count - 1).bit_length())
    least = values.min()
    if (int(values.max()) - int(least)).bit_length() + int(bits) <= 64:
        # A value and its place fit into one number, and numbers alone are sorted by wide instructions.
        packed = (values.view(np.uint64) - np.uint64(int(least) & _ALL)) << bits
        packed |= np.arange(count, dtype=np.uint64)
        packed.sort()
        begins = _begins(packed >> bits)
        packed &= (np.uint64(1) << bits) - np.uint64(1)
        return packed.view(np.int64), begins
    order = np.argsort(values, kind="stable")
    return order, _begins(values[order])


def distinct(values: Indices) -> tuple[Indices, Indices]:
    """The values that there are, ascending, and for each of *values* its number among them."""
    order, begins = ascending(values)
    numbers = np.empty(len(values), np.int64)
    numbers[order] = np.cumsum(begins) - 1
    return values[order[begins]], numbers


def union(runs: Sequence[Indices]) -> Indices:
    """All values of some arrays, at least one array, ascending and each value once."""
    values = np.concatenate(runs)
    values.sort(kind="stable")  # this sort merges what is in order already; `np.unique` takes 25 times as long
    return values[_begins(values)]


def complement(count: int, numbers: Indices) -> Indices:
    """The numbers from 0 to *count* - 1 but *numbers*, of which some may be larger; ascending."""
    left = np.ones(count, np.bool_)
    left[numbers[numbers < count]] = False
    return np.flatnonzero(left)


@dataclass(frozen=True, slots=True)
class KeyRuns:
    """Rows key by key, those of one key in an order of their own.

    Attributes:
        order: Numbers of the rows.
        begins: Which places of *order* begin another key.
    """

    order: Indices
    begins: Mask

    @classmethod
    def of(cls, numbers: Indices, in_order: Indices | None = None) -> KeyRuns:
        """Put rows together; keys ascend.

        Args:
            numbers: Of the key of each row.
            in_order: The rows in their order; None: they are.
        """
        if in_order is None:
            return cls(*ascending(numbers))
        places, begins = ascending(numbers[in_order])
        return cls(in_order[places], begins)

    @property
    def first(self) -> Indices:
        """The first row of each key."""
        return self.order[self.begins]

    @property
    def last(self) -> Indices:
        """The last row of each key."""
        last: Indices = self.order[np.append(self.begins[1:], True)[: len(self.order)]]
        return last

    def ends(self) -> tuple[Indices, Indices]:
        """First and last row of each key; the last ones ascend."""
        first_of, last = np.empty(len(self.order), np.int64), self.last
        first_of[last] = self.first
        last = np.sort(last)
        return first_of[last], last

    def pairs(self) -> tuple[Indices, Indices]:
        """Rows that come after another one of their key: the ones before them, and these."""
        again = np.flatnonzero(~self.begins)
        return self.order[again - 1], self.order[again]


def _begins(ordered: NDArray[np.generic]) -> Mask:
    begins = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=begins[1:])
    return begins


_ALL = (1 << 64) - 1


class KeyLookup:
    """Keys of one column or several, of any type whose values Arrow can tell apart.

    A column's values become numbers, and those of several columns one number, column by column; so each column is
    looked up only for the rows that have all values before it.

    Args:
        keys: One row for a key; of several the last one counts.
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


@dataclass(frozen=True, slots=True)
class Search:
    """Search for rows of a table.

    Attributes:
        columns: Names of the columns that tell, as the table has them; at least one.
        matches: Which of some rows are wanted, given these columns of them.
        values: A wanted row has in each column of one of these tables a value that is there; numbers alone need be as
            they are in the table. None: any values.
        current: A column that is true in each wanted row; None: there is none.
    """

    columns: tuple[str, ...]
    matches: Callable[[pa.RecordBatch], Mask]
    values: tuple[pa.Table, ...] | None = None
    current: str | None = None


def filtered(rows: pa.RecordBatchReader, search: Search, names: Sequence[str]) -> pa.Table:
    """The columns *names* of the rows among *rows* that are wanted."""
    found = [batch.filter(mask_array(search.matches(batch))).select(list(names)) for batch in rows]
    return pa.Table.from_batches(found, pa.schema([rows.schema.field(name) for name in names]))


def found_rows(files: TableFiles[File], search: Search, names: Sequence[str]) -> pa.Table:
    """The columns *names* of the rows of a table that are wanted, in no order."""
    schema = pa.schema([files.schema.field(name) for name in names])
    return pa.Table.from_batches(
        [batch for file in _files_with(files, search) for batch in _found_in(files, file, search, schema)], schema
    )


def _files_with(files: TableFiles[File], search: Search) -> list[File]:
    found: dict[str, File] = {}
    for values in _parts(files, search):
        found |= {files.name_of(file): file for file in files.files_with(values, search.current)}
    return list(found.values())


def _parts(files: TableFiles[File], search: Search) -> Iterator[pa.Table]:
    if search.values is None:
        yield pa.schema([files.schema.field(search.columns[0])]).empty_table()
        return
    for values in search.values:
        schema = pa.schema([files.schema.field(name) for name in values.column_names])
        whole = values.drop_null().cast(schema)  # null is equal to nothing
        if len(whole):
            yield whole


def _found_in(files: TableFiles[File], file: File, search: Search, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    telling = pa.schema([files.schema.field(name) for name in search.columns])
    found = [first + np.flatnonzero(search.matches(batch)) for first, batch in files.reader.key_batches(file, telling)]
    rows = np.setdiff1d(np.concatenate([np.empty(0, np.int64), *found]), files.reader.marked(file), assume_unique=True)
    for _, batch in files.reader.rows_at(file, rows, schema) if len(rows) else ():
        yield batch
