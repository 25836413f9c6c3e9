"""What a target must hold where changes begin: `Expected`; `contradictions` finds the keys for which it does not.

A row image before a change is a row that the server had, so a complete target holds one for its key; and it holds none
for the key of a row that comes new. The keys of a change are looked up anyway, so this costs a comparison of flags.
What else the image has is compared with the row itself where `RowsBefore` come with the change (`differing`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from binlog_streaming.lake.row_values import comparable_table, equal_rows, one_array

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

    Indices = NDArray[np.int64]
    Flags = NDArray[np.uint8]
    Mask = NDArray[np.bool_]


class Expected(IntEnum):
    """What a target must hold for a key before a change."""

    ANYTHING = 0
    """Nobody knows, or it does not matter."""
    ROW = 1
    """A row; the image of it is not at hand."""
    NO_ROW = 2
    THIS_ROW = 3
    """The row that the first image of the key shows."""


def needs_row(expected: Flags) -> Mask:
    """For which keys a target must hold a row."""
    needed: Mask = np.isin(expected, (Expected.ROW, Expected.THIS_ROW))
    return needed


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
    """

    names: tuple[str, ...]
    chosen: Mask
    shown: Callable[[Indices], ShownRows]


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
class Contradictions:
    """Keys of a change for which a target holds something else than the log.

    Attributes:
        numbers: Of the keys: those of upserts, deletes and patches are counted one after the other. First come those
            with too many rows or too few.
        expected: For each, `Expected`.
        held: For each, how many rows the target has.
        different: How the first one's row differs; None: it has too many rows, or too few.
    """

    numbers: Indices
    expected: Flags
    held: Indices
    different: DifferentRow | None = None

    def __len__(self) -> int:
        return len(self.numbers)


class ContradictedError(Exception):
    """A target does not hold what it must hold before a change; whoever knows the change names table and key.

    Args:
        contradictions: At least one.
    """

    def __init__(self, contradictions: Contradictions) -> None:
        super().__init__(f"{len(contradictions)} keys")
        self.contradictions = contradictions


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


def contradictions(expected: Flags, held: Indices, differing: Differing | None = None) -> Contradictions | None:
    """Where a target does not hold what it must hold; None: nowhere.

    Args:
        expected: `Expected` of each key.
        held: How many rows the target has for each.
        differing: Keys with one row, which is another one than the image shows.
    """
    wrong = np.where(needs_row(expected), held != 1, (expected == Expected.NO_ROW) & (held != 0))
    numbers, different = np.flatnonzero(wrong), None
    if differing is not None:
        different = None if len(numbers) else differing.first
        numbers = np.concatenate([numbers, differing.numbers[~wrong[differing.numbers]]])
    return Contradictions(numbers, expected[numbers], held[numbers], different) if len(numbers) else None


def differing(shown: ShownRows, held: pa.Table, numbers: Indices) -> Differing | None:
    """Which rows of a target are not what images show; None: all are.

    Args:
        shown: The images; the values have the types of *held*.
        held: The rows of the same keys, in the same order, with the same columns.
        numbers: Of their keys.
    """
    wrong: dict[str, Mask] = {}
    for name in shown.values.column_names:
        ours, theirs = one_array(shown.values.column(name)), one_array(held.column(name))
        unequal = ~equal_rows(comparable_table([ours]), comparable_table([theirs]))
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
