"""Rows that differ, of buckets whose sums do: `find_differences(expected, held)`, then `with_columns`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_streaming.lake.row_values import row_ids

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from binlog_streaming.prove.row_sums import Rows

    ColumnsOf = Callable[[list[bytes]], dict[bytes, tuple[int, ...]]]
    """Gives the hashes of each column of rows, by their keys."""

COLUMNS_MAX = 1_000
"""Largest number of different rows whose differing columns are reported."""
ROWS_MAX = 500_000
"""Rows of differing buckets that are looked at one by one, on either side: about 100 MB."""


class DifferenceKind(StrEnum):
    """Kind of a row's difference."""

    MISSING = "missing"
    """The server has it, the target does not."""
    EXTRA = "extra"
    """The target has it, or has it once more; the server does not."""
    DIFFERENT = "different"
    """Both have it, with other values."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A row that differs.

    Attributes:
        kind: How.
        key: The message of its key.
        columns: Names of the columns that differ, where they were looked at.
    """

    kind: DifferenceKind
    key: bytes
    columns: tuple[str, ...] = ()


def find_differences(expected: Rows, held: Rows) -> list[Difference]:
    """Keys whose rows are not the same on both sides, by their messages.

    Args:
        expected: What the server has.
        held: What the target has.
    """
    keys = pa.concat_arrays([expected.keys, held.keys])
    ids, count = row_ids(pa.table({"key": keys}))
    split = len(expected.keys)
    wanted = _by_key(expected, ids[:split], count)
    found = _by_key(held, ids[split:], count)
    differing = np.flatnonzero((wanted[0] != found[0]) | (wanted[1] != found[1]))
    first = np.full(count, -1, dtype=np.int64)
    first[ids[::-1]] = np.arange(len(ids))[::-1]
    messages = keys.take(pa.array(first[differing])).to_pylist()
    counts = zip(wanted[0][differing].tolist(), found[0][differing].tolist(), strict=True)
    rows = (Difference(_kind(*pair), key) for key, pair in zip(messages, counts, strict=True))
    return sorted(rows, key=lambda one: one.key)


def _by_key(rows: Rows, ids: NDArray[np.int64], count: int) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    counts, totals = np.zeros(count, np.int64), np.zeros(count, np.uint64)
    np.add.at(counts, ids, rows.signs)
    coming = rows.signs > 0
    np.add.at(totals, ids[coming], rows.hashes[coming])
    np.subtract.at(totals, ids[~coming], rows.hashes[~coming])
    return counts, totals


def _kind(expected: int, held: int) -> DifferenceKind:
    if held < expected:
        return DifferenceKind.MISSING
    return DifferenceKind.EXTRA if held > expected else DifferenceKind.DIFFERENT


def first_buckets(buckets: list[int], counts: NDArray[np.int64]) -> list[int]:
    """The first buckets that together have no more rows than `ROWS_MAX`; at least one."""
    totals = np.cumsum(counts[buckets])
    return buckets[: max(1, int(np.searchsorted(totals, ROWS_MAX, side="right")))]


def with_columns(
    differences: list[Difference],
    expected_of: ColumnsOf,
    held_of: ColumnsOf,
    names: Sequence[str],
    touched: set[bytes],
) -> list[Difference]:
    """The same differences, with the columns that differ.

    Args:
        differences: Of rows with keys.
        expected_of: Hashes of the columns of rows, by key, on the one side.
        held_of: The same of the target.
        names: Of these columns.
        touched: Keys that the log changed meanwhile, which are not looked at: one side has other values by now.
    """
    asked = [one.key for one in differences if one.kind is DifferenceKind.DIFFERENT and one.key not in touched][
        :COLUMNS_MAX
    ]
    if not asked:
        return differences
    expected, held = expected_of(asked), held_of(asked)
    told = {
        key: tuple(name for name, one, other in zip(names, expected[key], held[key], strict=True) if one != other)
        for key in asked
        if key in expected and key in held
    }
    return [replace(one, columns=told.get(one.key, ())) for one in differences]
