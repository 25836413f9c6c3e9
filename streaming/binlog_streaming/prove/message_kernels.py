"""Rows as bytes, column by column: `add_sizes`, `put_values`; and what is computed of them: `bucket_of_each`.

SHA-256 of many messages (FIPS 180-4), as SHA2(m, 256) computes it in SQL: `sha256_of_each`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.events.checksum_kernels import crc32
from binlog_format.kernels import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

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


_U = np.uint32
_BLOCK = 64
_SIZE_AT = 56
_ROUNDS = 64
_PRIMES = [number for number in range(2, 312) if all(number % other for other in range(2, math.isqrt(number) + 1))]


def _cube_root_bits(prime: int) -> int:
    # The first 32 bits of the fraction of the cube root, exactly.
    scaled, root = prime << 96, 1 << 35
    while root**3 > scaled:
        root = (2 * root + scaled // root**2) // 3
    return root & 0xFFFFFFFF


_START = np.array([math.isqrt(prime << 64) & 0xFFFFFFFF for prime in _PRIMES[:8]], dtype=np.uint32)
_ADDED = np.array([_cube_root_bits(prime) for prime in _PRIMES], dtype=np.uint32)


@kernel
def _turned(word: np.uint32, count: int) -> np.uint32:
    return (word >> _U(count)) | (word << _U(32 - count))


@kernel
def _take_block(data: Bytes, start: int, state: NDArray[np.uint32], words: NDArray[np.uint32]) -> None:
    for number in range(16):
        at = start + 4 * number
        words[number] = (
            (_U(data[at]) << _U(24)) | (_U(data[at + 1]) << _U(16)) | (_U(data[at + 2]) << _U(8)) | _U(data[at + 3])
        )
    for number in range(16, _ROUNDS):
        early, late = words[number - 15], words[number - 2]
        mixed = _turned(early, 7) ^ _turned(early, 18) ^ (early >> _U(3))
        other = _turned(late, 17) ^ _turned(late, 19) ^ (late >> _U(10))
        words[number] = _U(words[number - 16] + mixed + words[number - 7] + other)
    a, b, c, d, e, f, g, h = state[0], state[1], state[2], state[3], state[4], state[5], state[6], state[7]
    for number in range(_ROUNDS):
        chosen = (e & f) ^ (~e & g)
        most = (a & b) ^ (a & c) ^ (b & c)
        first = _U(h + (_turned(e, 6) ^ _turned(e, 11) ^ _turned(e, 25)) + chosen + _ADDED[number] + words[number])
        second = _U((_turned(a, 2) ^ _turned(a, 13) ^ _turned(a, 22)) + most)
        h, g, f, e, d, c, b, a = g, f, e, _U(d + first), c, b, a, _U(first + second)
    state[0] = _U(state[0] + a)
    state[1] = _U(state[1] + b)
    state[2] = _U(state[2] + c)
    state[3] = _U(state[3] + d)
    state[4] = _U(state[4] + e)
    state[5] = _U(state[5] + f)
    state[6] = _U(state[6] + g)
    state[7] = _U(state[7] + h)


@kernel
def sha256_of_each(
    data: Bytes,
    offsets: Int64s,
    digests: Bytes,
    state: NDArray[np.uint32],
    words: NDArray[np.uint32],
    tail: Bytes,
) -> None:
    """Digest messages that lie one after the other.

    Args:
        offsets: Where each begins, and the last one ends.
        digests: 32 bytes for each.
        state: Scratch space, 8 numbers.
        words: The same, 64 numbers.
        tail: The same, 128 bytes.
    """
    for message in range(len(offsets) - 1):
        start, end = offsets[message], offsets[message + 1]
        for number in range(8):
            state[number] = _START[number]
        at = start
        while at + _BLOCK <= end:
            _take_block(data, at, state, words)
            at += _BLOCK
        size = end - at
        for place in range(2 * _BLOCK):
            tail[place] = 0
        for place in range(size):
            tail[place] = data[at + place]
        tail[size] = 0x80
        blocks = 1 if size < _SIZE_AT else 2
        bits = np.uint64(8) * np.uint64(end - start)
        for place in range(8):
            tail[blocks * _BLOCK - 1 - place] = np.uint8((bits >> np.uint64(8 * place)) & np.uint64(0xFF))
        for block in range(blocks):
            _take_block(tail, block * _BLOCK, state, words)
        for number in range(8):
            for place in range(4):
                digests[32 * message + 4 * number + place] = np.uint8((state[number] >> _U(24 - 8 * place)) & _U(0xFF))
