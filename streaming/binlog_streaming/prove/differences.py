"""Rows that differ: `find_differences(expected, held)`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_streaming.lake.row_values import row_ids

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_streaming.prove.row_sums import Rows


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
