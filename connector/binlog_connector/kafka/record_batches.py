"""Messages as record batches, the form in which they go to a broker and lie in its log: `record_batches`.

Partition of a key, computed like Java's clients and librdkafka: `key_partitions`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from kafka.record.util import encode_varint

from binlog_connector.kafka.record_kernels import RecordParts, cut_batch, records_size, write_records
from binlog_format.kernels import as_bytes
from binlog_format.rows.json.json_rows import text_buffers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from binlog_connector.kafka.producer import Headers, Messages
    from binlog_format.kernels import Bytes, Int32s, Int64s


# Murmur2, 32 bits, with the seed of Kafka's Utils.murmur2.
_SEED = np.uint32(0x9747B28C)
_M = np.uint32(0x5BD1E995)
_R = np.uint32(24)
_WORD = 4


def key_partitions(keys: pa.Array, partition_count: int) -> Int32s:
    """The partition of each key; a null is hashed as no bytes, so that all messages without keys stay in their order.

    Args:
        keys: Binary or large binary.
    """
    data, offsets = text_buffers(keys, pa.binary())
    places = offsets.astype(np.int64)
    sizes = np.where(keys.is_null().to_numpy(zero_copy_only=False), 0, np.diff(places))
    hashes = _murmur2(places[:-1], sizes, data)
    return ((hashes & np.uint32(0x7FFFFFFF)) % np.uint32(partition_count)).astype(np.int32)


def _murmur2(starts: Int64s, sizes: Int64s, data: Bytes) -> NDArray[np.uint32]:
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


def _word(data: Bytes, places: Int64s) -> NDArray[np.uint32]:
    word = data[places].astype(np.uint32)
    for byte in range(1, _WORD):
        word |= data[places + byte].astype(np.uint32) << np.uint32(8 * byte)
    return word


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """Records for one partition, without the header that the producer writes before them.

    Attributes:
        records: Bytes of the records, after *before* bytes that are free.
    """

    partition: int
    count: int
    records: bytearray


def record_batches(messages: Messages, partition_count: int, size_max: int, before: int) -> Iterator[RecordBatch]:
    """The batches of *messages*, those for one partition in their order.

    Args:
        size_max: Bytes of a batch's records; one record may take more.
        before: Bytes left free before them.
    """
    if not len(messages):
        return
    keys, values = _parts(messages.keys), _parts(messages.values)
    headers = _headers(messages.headers, len(messages))
    for partition, rows in _by_partition(messages, partition_count):
        bodies, first = np.empty(len(rows), dtype=np.int64), 0
        while first < len(rows):
            end = cut_batch(rows, first, size_max, keys, values, headers, bodies)
            records = bytearray(before + records_size(bodies[first:end]))
            # The view of the bytes gets no name: whoever takes them may make more of them.
            write_records(
                rows[first:end],
                bodies[first:end],
                keys,
                values,
                headers,
                np.frombuffer(records, dtype=np.uint8)[before:],
            )
            yield RecordBatch(partition, end - first, records)
            first = end


def _parts(array: pa.Array) -> RecordParts:
    data, offsets = text_buffers(array, pa.binary())
    return RecordParts(data, offsets, array.is_null().to_numpy(zero_copy_only=False))


def _by_partition(messages: Messages, count: int) -> Iterator[tuple[int, Int64s]]:
    if messages.partition is not None or count == 1:
        yield messages.partition or 0, np.arange(len(messages))
        return
    partitions = key_partitions(messages.keys, count)
    order = np.argsort(partitions, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(partitions[order])) + 1):
        yield int(partitions[rows[0]]), rows


def _headers(headers: Sequence[Headers] | None, count: int) -> RecordParts:
    nulls = np.zeros(count, dtype=np.bool_)
    if headers is None:
        return RecordParts(np.zeros(count, dtype=np.uint8), np.arange(count + 1, dtype=np.int32), nulls)
    written = [_header_bytes(header) for header in headers]
    offsets = np.zeros(count + 1, dtype=np.int32)
    np.cumsum([len(record) for record in written], out=offsets[1:])
    return RecordParts(as_bytes(b"".join(written)), offsets, nulls)


def _header_bytes(headers: Headers) -> bytes:
    out = bytearray()
    encode_varint(len(headers), out.append)
    for name, value in headers:
        for part in (name.encode(), value):
            encode_varint(len(part), out.append)
            out += part
    return bytes(out)
