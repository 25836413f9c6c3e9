"""Whole rows of a target, compared with the images before changes: `RowsBefore`, `differing_rows`.

Rows that a change takes the place of are known by file and number; of their files the columns are read that images
have. A sample is taken where reading costs next to nothing: at the beginning of one small file, another one each time.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from binlog_streaming.lake.row_values import comparable_table, equal_rows, one_array
from binlog_streaming.lake.schema_cast import cast_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    Indices = NDArray[np.int64]
    Mask = NDArray[np.bool_]

THREADS = 2
"""Files whose rows are compared at a time."""

SAMPLED_BYTES = 1 << 20
"""A file from which a sample is taken is no larger."""

File = TypeVar("File")
ReadFile = TypeVar("ReadFile", contravariant=True)


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
        chosen: Which keys' rows are compared, of those that expect `Expected.THIS_ROW`.
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


class FileRows(Protocol[ReadFile]):
    """Reader of rows in files; see `TableFiles`."""

    @property
    def schema(self) -> pa.Schema:
        """Columns of the table."""

    def size_of(self, file: ReadFile) -> int:
        """Size in bytes."""

    def rows_at(self, file: ReadFile, rows: Indices, schema: pa.Schema) -> Iterator[tuple[Indices, pa.RecordBatch]]:
        """Read some rows of a file."""


@dataclass(frozen=True, slots=True)
class KeyRows(Generic[File]):
    """Rows of a file that have changed keys.

    Attributes:
        file: The file.
        rows: Their numbers in it, ascending.
        numbers: Those of their keys.
    """

    file: File
    rows: Indices
    numbers: Indices

    def only(self, mask: Mask) -> KeyRows[File]:
        """The rows of *mask*."""
        return KeyRows(self.file, self.rows[mask], self.numbers[mask])


def differing_rows(files: FileRows[File], before: RowsBefore, found: Sequence[KeyRows[File]]) -> Differing | None:
    """Find rows of a target that differ from the images before their changes; None: no compared row does.

    Args:
        files: Reads them.
        before: The images.
        found: Rows that count as being there, one for a key at most.
    """
    spelled = {field.name.casefold(): field for field in files.schema}
    columns = pa.schema([spelled[name.casefold()] for name in before.names if name.casefold() in spelled])
    chosen = [rows.only(before.chosen[rows.numbers]) for rows in found]
    chosen = [rows for rows in chosen if len(rows.rows)]
    if before.sample is not None:
        chosen = _sampled(files, chosen, before.sample)
    if not chosen or not len(columns):
        return None

    def in_file(changed: KeyRows[File]) -> Differing | None:
        return Differing.joined(
            _compared(before, pa.Table.from_batches([held]), changed.numbers[places])
            for places, held in files.rows_at(changed.file, changed.rows, columns)
        )

    if len(chosen) == 1:
        return in_file(chosen[0])
    with ThreadPoolExecutor(THREADS) as pool:
        return Differing.joined(pool.map(in_file, chosen))


def _sampled(files: FileRows[File], found: Sequence[KeyRows[File]], count: int) -> list[KeyRows[File]]:
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
        numbers: Of their keys.
    """
    wrong: dict[str, Mask] = {}
    for name in shown.values.column_names:
        ours, theirs = one_array(shown.values.column(name)), one_array(held.column(name))
        parts = comparable_table([ours]), comparable_table([theirs])
        if parts[0].equals(parts[1]):
            continue  # nearly always, and several times as fast as row by row
        unequal = ~equal_rows(*parts)
        if (lacking := shown.lacking.get(name.casefold())) is not None:
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
    ours, theirs = ({name: rows.column(name)[first].as_py() for name in names} for rows in (shown.values, held))
    return Differing(numbers[rows], DifferentRow(ours, theirs))
