"""What a target must hold where changes begin: `Expected`; `contradictions` finds the keys for which it does not.

A row image before a change is a row that the server had, so a complete target holds one for its key; and it holds none
for the key of a row that comes new. The keys of a change are looked up anyway, so this costs a comparison of flags.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Indices = NDArray[np.int64]
    Flags = NDArray[np.uint8]


class Expected(IntEnum):
    """What a target must hold for a key before a change."""

    ANYTHING = 0
    """Nobody knows, or it does not matter."""
    ROW = 1
    NO_ROW = 2


@dataclass(frozen=True, slots=True)
class Contradictions:
    """Keys of a change for which a target holds something else than the log.

    Attributes:
        numbers: Of the keys, ascending: those of upserts, deletes and patches are counted one after the other.
        expected: For each, `Expected`.
        held: For each, how many rows the target has.
    """

    numbers: Indices
    expected: Flags
    held: Indices

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


def contradictions(expected: Flags, held: Indices) -> Contradictions | None:
    """Where a target does not hold what it must hold; None: nowhere.

    Args:
        expected: `Expected` of each key.
        held: How many rows the target has for each.
    """
    wrong = np.where(expected == Expected.ROW, held != 1, (expected == Expected.NO_ROW) & (held != 0))
    numbers = np.flatnonzero(wrong)
    return Contradictions(numbers, expected[numbers], held[numbers]) if len(numbers) else None
