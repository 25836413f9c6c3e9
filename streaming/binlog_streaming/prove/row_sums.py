"""Rows as keys and hashes, and their sums by bucket: `Rows`, `Sums`.

A bucket has the rows whose keys have the same CRC-32, modulo their number. Counts and sums do not depend on the order
of rows, and unlike XOR a sum shows two duplicate rows.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from binlog_format.rows.arrow_arrays import mask_array
from binlog_streaming.prove.message_kernels import add_to_buckets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

BUCKETS = 1024
_MODULUS = 1 << 64


def sample_of(percent: int | None) -> tuple[int, ...]:
    """Some buckets by chance, *percent* of all; empty: all."""
    return () if percent is None else tuple(sorted(random.sample(range(BUCKETS), max(1, BUCKETS * percent // 100))))


class Rows(NamedTuple):
    """Rows, in no order.

    Attributes:
        keys: Messages of their keys.
        hashes: Of their own messages.
        signs: 1 where a row counts, -1 where it is taken out.
    """

    keys: pa.Array
    hashes: NDArray[np.uint64]
    signs: NDArray[np.int64]

    def where(self, mask: NDArray[np.bool_]) -> Rows:
        """The rows of *mask*."""
        return Rows(self.keys.filter(mask_array(mask)), self.hashes[mask], self.signs[mask])

    @staticmethod
    def joined(parts: Sequence[Rows]) -> Rows:
        """All rows of *parts*."""
        return Rows(
            pa.concat_arrays([pa.array([], pa.large_binary()), *(part.keys for part in parts)]),
            np.concatenate([np.empty(0, np.uint64), *(part.hashes for part in parts)]),
            np.concatenate([np.empty(0, np.int64), *(part.signs for part in parts)]),
        )


@dataclass(frozen=True, slots=True)
class Sums:
    """Counts of rows and sums of their hashes, modulo 2**64, by bucket."""

    counts: NDArray[np.int64]
    totals: NDArray[np.uint64]

    @staticmethod
    def empty() -> Sums:
        """Sums of no rows."""
        return Sums(np.zeros(BUCKETS, np.int64), np.zeros(BUCKETS, np.uint64))

    @property
    def row_count(self) -> int:
        """Rows in all buckets."""
        return int(self.counts.sum())

    def add(self, bucket: int, count: int, total: int) -> None:
        """Add to a bucket what somebody else has summed."""
        self.counts[bucket] += count
        self.totals[bucket] = np.uint64((int(self.totals[bucket]) + total) % _MODULUS)

    def add_rows(self, rows: Rows, buckets: NDArray[np.int64]) -> None:
        """Add rows, those that are taken out negatively."""
        for sign in (1, -1):
            chosen = rows.signs == sign
            add_to_buckets(buckets[chosen], rows.hashes[chosen], sign, self.counts, self.totals)

    def in_sample(self, sample: Sequence[int]) -> Sums:
        """The same counts, and the sums of some buckets alone; of all, if *sample* is empty."""
        if not sample:
            return self
        totals = np.zeros_like(self.totals)
        totals[list(sample)] = self.totals[list(sample)]
        return Sums(self.counts, totals)

    def differing(self, other: Sums) -> list[int]:
        """Buckets in which two sides are not the same."""
        return np.flatnonzero((self.counts != other.counts) | (self.totals != other.totals)).tolist()
