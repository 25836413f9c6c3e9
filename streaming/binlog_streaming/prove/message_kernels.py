"""Rows as bytes, column by column: `add_sizes`, `put_values`; and what is computed of them: `bucket_of_each`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.events.checksum_kernels import crc32
from binlog_format.kernels import kernel

if TYPE_CHECKING:
    from binlog_format.kernels import Bytes, Int64s, Mask, Uint64s

NULL_MARK = np.uint8(ord("N"))
SIZE_END = np.uint8(ord(":"))
_ZERO = ord("0")


@kernel
def _digit_count(number: int) -> int:
    count = 1
    while number >= 10:
        number //= 10
        count += 1
    return count


@kernel
def add_sizes(valid: Mask, offsets: Int64s, sizes: Int64s) -> None:
    """Add what the values of a column take in the message of each row: `N`, or size, colon and bytes."""
    for row in range(len(valid)):
        if valid[row]:
            size = offsets[row + 1] - offsets[row]
            sizes[row] += _digit_count(size) + 1 + size
        else:
            sizes[row] += 1


@kernel
def put_values(valid: Mask, offsets: Int64s, data: Bytes, places: Int64s, messages: Bytes) -> None:
    """Write the values of a column at *places*, which then are where the next column goes."""
    for row in range(len(valid)):
        at = places[row]
        if not valid[row]:
            messages[at] = NULL_MARK
            places[row] = at + 1
            continue
        size = offsets[row + 1] - offsets[row]
        digits = _digit_count(size)
        left = size
        for place in range(digits):
            messages[at + digits - 1 - place] = np.uint8(_ZERO + left % 10)
            left //= 10
        at += digits
        messages[at] = SIZE_END
        at += 1
        for place in range(size):
            messages[at + place] = data[offsets[row] + place]
        places[row] = at + size


@kernel
def bucket_of_each(messages: Bytes, offsets: Int64s, count: int, buckets: Int64s) -> None:
    """The CRC-32 of each message, modulo *count*."""
    for row in range(len(buckets)):
        checksum = crc32(messages, offsets[row], offsets[row + 1])
        buckets[row] = np.int64(checksum % np.uint64(count))


@kernel
def add_to_buckets(
    buckets: Int64s,
    hashes: Uint64s,
    sign: int,
    counts: Int64s,
    sums: Uint64s,
) -> None:
    """Add rows to the counts and sums of their buckets (*sign* 1), or take them out (-1)."""
    for row in range(len(buckets)):
        bucket = buckets[row]
        counts[bucket] += sign
        if sign > 0:
            sums[bucket] += hashes[row]
        else:
            sums[bucket] -= hashes[row]
