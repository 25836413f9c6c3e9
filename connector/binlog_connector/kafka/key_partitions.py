"""Partition of a key, computed like Java's clients and librdkafka: `key_partitions`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_format.rows.json.json_rows import text_buffers

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Murmur2, 32 bits, with the seed of Kafka's Utils.murmur2.
_SEED = np.uint32(0x9747B28C)
_M = np.uint32(0x5BD1E995)
_R = np.uint32(24)
_WORD = 4


def key_partitions(keys: pa.Array, partition_count: int) -> NDArray[np.int32]:
    """The partition of each key; a null is hashed as no bytes, so that all messages without keys stay in their order.

    Args:
        keys: Binary or large binary.
        partition_count: Of the topic.
    """
    data, offsets = text_buffers(keys, pa.binary())
    places = offsets.astype(np.int64)
    sizes = np.where(keys.is_null().to_numpy(zero_copy_only=False), 0, np.diff(places))
    hashes = _murmur2(places[:-1], sizes, data)
    return ((hashes & np.uint32(0x7FFFFFFF)) % np.uint32(partition_count)).astype(np.int32)


def _murmur2(starts: NDArray[np.int64], sizes: NDArray[np.int64], data: NDArray[np.uint8]) -> NDArray[np.uint32]:
    hashes = _SEED ^ sizes.astype(np.uint32)
    words = sizes // _WORD
    for word in range(int(words.max(initial=0))):
        rows = np.flatnonzero(words > word)
        k = _word(data, starts[rows] + word * _WORD) * _M
        k = (k ^ (k >> _R)) * _M
        hashes[rows] = (hashes[rows] * _M) ^ k
    rest = sizes % _WORD
    ends = starts + words * _WORD
    for place in (2, 1, 0):
        rows = np.flatnonzero(rest > place)
        hashes[rows] ^= data[ends[rows] + place].astype(np.uint32) << np.uint32(8 * place)
    rows = np.flatnonzero(rest)
    hashes[rows] *= _M
    hashes = (hashes ^ (hashes >> np.uint32(13))) * _M
    return hashes ^ (hashes >> np.uint32(15))


def _word(data: NDArray[np.uint8], places: NDArray[np.int64]) -> NDArray[np.uint32]:
    word = data[places].astype(np.uint32)
    for byte in range(1, _WORD):
        word |= data[places + byte].astype(np.uint32) << np.uint32(8 * byte)
    return word
