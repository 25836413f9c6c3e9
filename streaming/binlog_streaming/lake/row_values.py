"""Rows that are the same: `row_ids`, `matching_rows`, `equal_rows`, `rows_with`; `comparable` for what Arrow groups by.

Two rows are the same when all bits of them are: text is compared as it is, not by a collation, and -0.0 is not 0.0.

Whole rows of a target, compared with the images before changes: `RowsBefore`, `differing_rows`.

Rows that a change takes the place of are known by file and number; of their files the columns are read that images
have. A sample is taken where reading costs next to nothing: at the beginning of one small file, another one each time.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_format.names import folded_name
from binlog_format.rows.arrow_arrays import fixed_array, mask_array
from binlog_format.rows.json.variants import is_variant
from binlog_streaming.lake.evolution import cast_array, cast_table, with_texts
from binlog_streaming.lake.key_lookup import distinct, integers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from binlog_format.kernels import Indices, Mask
    from binlog_streaming.lake.change import TableFiles

_BITS = {pa.float16(): pa.int16(), pa.float32(): pa.int32(), pa.float64(): pa.int64()}


def comparable(array: pa.Array) -> list[pa.Array]:
    """Columns that are equal where *array* is: itself, or what it is made of."""
    if array.type in _BITS:
        return [array.view(_BITS[array.type])]
    if is_variant(array.type):
        return [cast_array(array, pa.field("of JSON", pa.string()))]
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


THREADS = 2
"""Files whose rows are compared at a time."""

SAMPLED_BYTES = 1 << 20
"""A file from which a sample is taken is no larger."""

File = TypeVar("File")


@dataclass(frozen=True, slots=True)
class ShownRows:
    """Rows as images show them.

    Attributes:
        values: Columns of the table, keys left out.
        lacking: Of columns that some images lack, by name in lower case, which of the rows do.
        nulls_prove_nothing: A target may hold null in the place of a value.
    """

    values: pa.Table
    lacking: Mapping[str, Mask]
    nulls_prove_nothing: bool = False


@dataclass(frozen=True, slots=True)
class RowsBefore:
    """Images before changes, that are compared with the rows of a target.

    Attributes:
        names: Columns that are compared; none of the key is among them.
        chosen: Which keys' rows are compared, of those that expect the row which an image shows.
        shown: Decodes the rows of some keys, by their numbers.
        sample: Only so many of them are compared, that cost little to read; None: all.
    """

    names: tuple[str, ...]
    chosen: Mask
    shown: Callable[[Indices], ShownRows]
    sample: int | None = None


@dataclass(frozen=True, slots=True)
class DifferentRow:
    """A row that is not what an image shows.

    Attributes:
        shown: Its values in the log, in columns that differ alone.
        held: The same in the target.
    """

    shown: Mapping[str, object]
    held: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Differing:
    """Rows of a target that are not what images show.

    Attributes:
        numbers: Of their keys, at least one.
        first: How the row of the first one differs.
    """

    numbers: Indices
    first: DifferentRow

    @classmethod
    def joined(cls, parts: Iterable[Differing | None]) -> Differing | None:
        """All of them; None: there are none."""
        found = [part for part in parts if part is not None]
        return cls(np.concatenate([part.numbers for part in found]), found[0].first) if found else None


@dataclass(frozen=True, slots=True)
class KeyRows(Generic[File]):
    """Rows of a file that have changed keys.

    Attributes:
        rows: Numbers of the rows in the file, ascending.
        numbers: Those of their keys.
    """

    file: File
    rows: Indices
    numbers: Indices

    def only(self, mask: Mask) -> KeyRows[File]:
        """The rows of *mask*."""
        return KeyRows(self.file, self.rows[mask], self.numbers[mask])


def differing_rows(files: TableFiles[File], before: RowsBefore, found: Sequence[KeyRows[File]]) -> Differing | None:
    """Find rows of a target that differ from the images before their changes; None: no compared row does.

    Args:
        found: Rows that count as being there, one for a key at most.
    """
    spelled = {folded_name(field.name): field for field in files.schema}
    columns = pa.schema([spelled[folded_name(name)] for name in before.names if folded_name(name) in spelled])
    chosen = [rows.only(before.chosen[rows.numbers]) for rows in found]
    chosen = [rows for rows in chosen if len(rows.rows)]
    if before.sample is not None:
        chosen = _sampled(files, chosen, before.sample)
    if not chosen or not len(columns):
        return None

    def in_file(changed: KeyRows[File]) -> Differing | None:
        return Differing.joined(
            _compared(before, pa.Table.from_batches([held]), changed.numbers[places])
            for places, held in files.reader.rows_at(changed.file, changed.rows, columns)
        )

    if len(chosen) == 1:
        return in_file(chosen[0])
    with ThreadPoolExecutor(THREADS) as pool:
        return Differing.joined(pool.map(in_file, chosen))


def _sampled(files: TableFiles[File], found: Sequence[KeyRows[File]], count: int) -> list[KeyRows[File]]:
    small = [rows for rows in found if files.size_of(rows.file) <= SAMPLED_BYTES]
    if not small or not count:
        return []
    # What changes differs from batch to batch, so it is another file, and others of its rows.
    sampled = small[sum(len(rows.rows) for rows in found) % len(small)]
    return [KeyRows(sampled.file, sampled.rows[:count], sampled.numbers[:count])]


def _compared(before: RowsBefore, held: pa.Table, numbers: Indices) -> Differing | None:
    shown = before.shown(numbers)
    return differing(replace(shown, values=cast_table(shown.values, held.schema)), held, numbers)


def differing(shown: ShownRows, held: pa.Table, numbers: Indices) -> Differing | None:
    """Find rows of a target that differ from images; None: no row does.

    Args:
        shown: The images; the values have the types of *held*.
        held: The rows of the same keys, in the same order, with the same columns.
    """
    wrong: dict[str, Mask] = {}
    for name in shown.values.column_names:
        ours, theirs = one_array(shown.values.column(name)), one_array(held.column(name))
        parts = comparable_table([ours]), comparable_table([theirs])
        if parts[0].equals(parts[1]):
            continue  # nearly always, and several times as fast as row by row
        unequal = ~equal_rows(*parts)
        if (lacking := shown.lacking.get(folded_name(name))) is not None:
            unequal &= ~lacking
        if shown.nulls_prove_nothing:
            unequal &= theirs.is_valid().to_numpy(zero_copy_only=False)
        if unequal.any():
            wrong[name] = unequal
    if not wrong:
        return None
    rows = np.flatnonzero(np.logical_or.reduce(list(wrong.values())))
    first = int(rows[0])
    names = [name for name, unequal in wrong.items() if unequal[first]]
    told = (with_texts(rows.select(names).slice(first, 1)) for rows in (shown.values, held))
    ours, theirs = (rows.to_pylist()[0] for rows in told)
    return Differing(numbers[rows], DifferentRow(ours, theirs))
