"""Expected rows of a target where changes begin: `Expected`; `contradictions` finds the keys whose rows differ.

A row image before a change is a row that the server had, so a complete target holds one for its key; and it holds none
for the key of a row that comes new. The keys of a change are looked up anyway, so this costs a comparison of flags.
What else the image has is the business of `rows_before`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_streaming.lake.rows_before import DifferentRow, Differing

    Indices = NDArray[np.int64]
    Flags = NDArray[np.uint8]
    Mask = NDArray[np.bool_]


class Expected(IntEnum):
    """Expected state of a target's row before a change, by key."""

    ANYTHING = 0
    """The expected state is unknown, or does not matter."""
    ROW = 1
    """A row; the image of it is not at hand."""
    NO_ROW = 2
    THIS_ROW = 3
    """The row that the first image of the key shows."""


def needs_row(expected: Flags) -> Mask:
    """Mask of the keys for which a target must have a row."""
    needed: Mask = np.isin(expected, (Expected.ROW, Expected.THIS_ROW))
    return needed


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


def contradictions(expected: Flags, held: Indices, differing: Differing | None = None) -> Contradictions | None:
    """Find differences between a target's rows and the expected ones; None: there are none.

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
