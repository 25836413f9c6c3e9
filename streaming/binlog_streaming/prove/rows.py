"""Rows as keys and hashes, and their sums by bucket: `Rows`, `Sums`.

A bucket has the rows whose keys have the same CRC-32, modulo their number. Counts and sums do not depend on the order
of rows, and unlike XOR a sum shows two duplicate rows.

Rows as the bytes that the server makes of them in SQL, and their hashes: `messages_of`, `hashes_of`, `digests_of`.

A message has the values of a row in the order of the columns: `N` for NULL, else the size in bytes, a colon, and the
bytes that the column's form gives (`column_forms`). So two rows have the same message only if all values are the same.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from binlog_format.kernels import as_bytes, empty_bytes, offsets_of
from binlog_format.rows.arrow_arrays import mask_array, text_array
from binlog_streaming.prove.message_kernels import (
    add_sizes,
    add_to_buckets,
    bucket_of_each,
    put_values,
    sha256_of_each,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_format.kernels import Bytes, Int64s, Mask, Uint64s

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
    hashes: Uint64s
    signs: Int64s

    def where(self, mask: Mask) -> Rows:
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

    counts: Int64s
    totals: Uint64s

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

    def add_rows(self, rows: Rows, buckets: Int64s) -> None:
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


DIGEST_SIZE = 32


class RowMessages(NamedTuple):
    """RowMessages, one after the other. *offsets*: where each begins, and the last one ends."""

    data: Bytes
    offsets: Int64s

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def texts(self) -> pa.Array:
        """The same as an array of bytes."""
        buffers = [None, pa.py_buffer(self.offsets), pa.py_buffer(self.data)]
        return pa.Array.from_buffers(pa.large_binary(), len(self), buffers, 0)


def messages_of(columns: Sequence[pa.Array], row_count: int) -> RowMessages:
    """The message of each row. *columns*: text or bytes, as `ColumnForm.values` gives them."""
    parts = [_parts(column) for column in columns]
    sizes = np.zeros(row_count, dtype=np.int64)
    for valid, offsets, _ in parts:
        add_sizes(valid, offsets, sizes)
    ends = offsets_of(sizes)
    places, data = ends[:-1].copy(), empty_bytes(int(ends[-1]))
    for valid, offsets, values in parts:
        put_values(valid, offsets, values, places, data)
    return RowMessages(data, ends)


def hashes_of(messages: RowMessages) -> Uint64s:
    """The first eight bytes of each message's SHA-256 as a number: in SQL `CONV(LEFT(SHA2(m, 256), 16), 16, 10)`."""
    halves = _digests(messages).reshape(-1, DIGEST_SIZE)[:, :8]
    return np.ascontiguousarray(halves).view(">u8").reshape(-1).astype(np.uint64)


def buckets_of(messages: RowMessages, count: int) -> Int64s:
    """A number below *count* for each message: in SQL `CRC32(m) % count`."""
    buckets = np.empty(len(messages), dtype=np.int64)
    bucket_of_each(messages.data, messages.offsets, count, buckets)
    return buckets


def digests_of(array: pa.Array) -> pa.Array:
    """The SHA-256 of each value of text or bytes, as bytes: in SQL `UNHEX(SHA2(value, 256))`; null stays null."""
    valid, offsets, data = _parts(array)
    digests = _digests(RowMessages(data, offsets))
    places = np.arange(len(array) + 1, dtype=np.int32) * DIGEST_SIZE
    return text_array(pa.binary(), places, digests, valid)


def _digests(messages: RowMessages) -> Bytes:
    digests = empty_bytes(DIGEST_SIZE * len(messages))
    state, words, tail = np.zeros(8, np.uint32), np.zeros(64, np.uint32), empty_bytes(128)
    sha256_of_each(messages.data, messages.offsets, digests, state, words, tail)
    return digests


def _parts(array: pa.Array) -> tuple[Mask, Int64s, Bytes]:
    # Which values are there; where each begins, and the last one ends; and the bytes.
    large = array.cast(pa.large_binary())
    _, offsets_buffer, data_buffer = large.buffers()
    valid = large.is_valid().to_numpy(zero_copy_only=False)
    if not len(large):
        return valid, np.zeros(1, np.int64), empty_bytes(0)
    offsets = np.frombuffer(offsets_buffer, np.int64)[large.offset : large.offset + len(large) + 1]
    data = as_bytes(memoryview(data_buffer or b"")[int(offsets[0]) : int(offsets[-1])])  # kernels want to own it
    return valid, offsets - offsets[0], data
