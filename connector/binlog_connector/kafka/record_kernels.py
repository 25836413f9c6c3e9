"""The loops of `record_batches`: where a batch ends, and its records, field by field.

A record (https://kafka.apache.org/documentation/#record) has its size, attributes, time and number, each counted from
those of its batch, then key, value and headers. Whole numbers are zigzag varints; a null has the size -1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from binlog_format.kernels import kernel
from binlog_format.memory_kernels import copy_bytes

if TYPE_CHECKING:
    from binlog_format.kernels import Bytes, Int32s, Int64s, Mask

_HIGH_BIT = 0x80
_LOW_BITS = 0x7F
_NULL_SIZE = 1
"""Bytes of the size of a null."""

_ATTRIBUTES_AND_TIME = 2


class RecordParts(NamedTuple):
    """Keys, values or headers of messages: bytes one after the other, with the start and end of each.

    Attributes:
        nulls: Which are none; of headers none is.
    """

    data: Bytes
    offsets: Int32s
    nulls: Mask


@kernel
def _varint_size(number: int) -> int:
    # Of one that is not negative.
    doubled, size = number << 1, 1
    while doubled > _LOW_BITS:
        doubled >>= 7
        size += 1
    return size


@kernel
def _put_varint(out: Bytes, at: int, number: int) -> int:
    doubled = number << 1
    while doubled > _LOW_BITS:
        out[at] = _HIGH_BIT | (doubled & _LOW_BITS)
        doubled >>= 7
        at += 1
    out[at] = doubled
    return at + 1


@kernel
def _field_size(parts: RecordParts, row: int) -> int:
    size = int(parts.offsets[row + 1] - parts.offsets[row])
    return _NULL_SIZE if parts.nulls[row] else _varint_size(size) + size


@kernel
def _put_field(out: Bytes, at: int, parts: RecordParts, row: int) -> int:
    if parts.nulls[row]:
        out[at] = 1  # -1
        return at + 1
    return _put_part(out, _put_varint(out, at, parts.offsets[row + 1] - parts.offsets[row]), parts, row)


@kernel
def _put_part(out: Bytes, at: int, parts: RecordParts, row: int) -> int:
    size = int(parts.offsets[row + 1] - parts.offsets[row])
    copy_bytes(out, at, parts.data, parts.offsets[row], size)
    return at + size


@kernel
def cut_batch(
    rows: Int64s,
    first: int,
    size_max: int,
    keys: RecordParts,
    values: RecordParts,
    headers: RecordParts,
    bodies: Int64s,
) -> int:
    """Find the end of a batch.

    Args:
        rows: The messages of one partition.
        first: The first one of the batch, as an index in *rows*.
        size_max: Bytes of its records; one record may take more.
        headers: As they are written.
        bodies: Gets the sizes of the records, without their sizes, at the places of *rows*.

    Returns:
        After the last one of the batch, as an index in *rows*.
    """
    size = 0
    for place in range(first, len(rows)):
        row = rows[place]
        body = (
            _ATTRIBUTES_AND_TIME
            + _varint_size(place - first)
            + _field_size(keys, row)
            + _field_size(values, row)
            + (headers.offsets[row + 1] - headers.offsets[row])
        )
        size += _varint_size(body) + body
        if size > size_max and place > first:
            return place
        bodies[place] = body
    return len(rows)


@kernel
def records_size(bodies: Int64s) -> int:
    """Bytes of records, of which *bodies* are the sizes without their sizes."""
    size = 0
    for body in bodies:
        size += _varint_size(body) + body
    return size


@kernel
def write_records(
    rows: Int64s, bodies: Int64s, keys: RecordParts, values: RecordParts, headers: RecordParts, out: Bytes
) -> None:
    """Write the records of a batch; all of them have its time.

    Args:
        rows: Its messages.
        bodies: See `cut_batch`, of these messages.
        headers: As they are written.
        out: Gets `records_size` bytes.
    """
    at = 0
    for number in range(len(rows)):
        row = rows[number]
        at = _put_varint(out, at, bodies[number])
        out[at] = 0
        out[at + 1] = 0
        at = _put_varint(out, at + _ATTRIBUTES_AND_TIME, number)
        at = _put_field(out, at, keys, row)
        at = _put_field(out, at, values, row)
        at = _put_part(out, at, headers, row)
