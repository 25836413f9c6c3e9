"""The loops of `record_batches`: where a batch ends, and its records, field by field.

A record (https://kafka.apache.org/documentation/#record) has its size, attributes, time and number, each counted from
those of its batch, then key, value and headers. Whole numbers are zigzag varints; a null has the size -1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.kernels import kernel
from binlog_format.memory_kernels import copy_bytes

if TYPE_CHECKING:
    from binlog_format.kernels import Bytes, Int32s, Int64s, Mask

_HIGH_BIT = 0x80
_LOW_BITS = 0x7F
_NULL_SIZE = 1
"""Bytes of the size of a null."""

_ATTRIBUTES_AND_TIME = 2


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
def _field_size(size: int, is_null: bool) -> int:
    return _NULL_SIZE if is_null else _varint_size(size) + size


@kernel
def _put_field(out: Bytes, at: int, data: Bytes, start: int, size: int, is_null: bool) -> int:
    if is_null:
        out[at] = 1  # -1
        return at + 1
    at = _put_varint(out, at, size)
    copy_bytes(out, at, data, start, size)
    return at + size


@kernel
def cut_batch(
    rows: Int64s,
    first: int,
    size_max: int,
    keys: Int32s,
    null_keys: Mask,
    values: Int32s,
    null_values: Mask,
    headers: Int32s,
    bodies: Int64s,
) -> int:
    """Find the end of a batch.

    Args:
        rows: The messages of one partition.
        first: The first one of the batch, as an index in *rows*.
        size_max: Bytes of its records; one record may take more.
        keys: Offsets of keys.
        null_keys: Which keys are none.
        values: Offsets of values.
        null_values: Which values are none.
        headers: Offsets of headers, as they are written.
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
            + _field_size(keys[row + 1] - keys[row], null_keys[row])
            + _field_size(values[row + 1] - values[row], null_values[row])
            + (headers[row + 1] - headers[row])
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
    rows: Int64s,
    bodies: Int64s,
    keys: Int32s,
    null_keys: Mask,
    key_data: Bytes,
    values: Int32s,
    null_values: Mask,
    value_data: Bytes,
    headers: Int32s,
    header_data: Bytes,
    out: Bytes,
) -> None:
    """Write the records of a batch; all of them have its time.

    Args:
        rows: Its messages.
        bodies: See `cut_batch`, of these messages.
        keys: Offsets in *key_data*.
        null_keys: Which keys are none.
        key_data: Bytes of keys.
        values: Offsets in *value_data*.
        null_values: Which values are none.
        value_data: Bytes of values.
        headers: Offsets in *header_data*.
        header_data: Headers as they are written.
        out: Gets `records_size` bytes.
    """
    at = 0
    for number in range(len(rows)):
        row = rows[number]
        at = _put_varint(out, at, bodies[number])
        out[at] = 0
        out[at + 1] = 0
        at = _put_varint(out, at + _ATTRIBUTES_AND_TIME, number)
        at = _put_field(out, at, key_data, keys[row], keys[row + 1] - keys[row], null_keys[row])
        at = _put_field(out, at, value_data, values[row], values[row + 1] - values[row], null_values[row])
        size = headers[row + 1] - headers[row]
        copy_bytes(out, at, header_data, headers[row], size)
        at += size
