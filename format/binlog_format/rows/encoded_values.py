"""Values as row images have them, of the types that generated columns are computed in: `encoded(column, values)`.

The ways back are in `rows/values`; `docs/formats/` has the layouts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_format.events.table_map_layout import ColumnType
from binlog_format.kernels import as_bytes
from binlog_format.rows.arrow_arrays import text_array
from binlog_format.rows.column_types import INTEGER_WIDTHS, size_prefix
from binlog_format.rows.row_event_kernels import NULL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_format.events.table_map import Column
    from binlog_format.kernels import Bytes, Int32s, Int64s

_FLOATS = {ColumnType.FLOAT: "<f4", ColumnType.DOUBLE: "<f8"}
_TEXTS = frozenset({ColumnType.STRING, ColumnType.VARCHAR, ColumnType.BLOB})
_INT64_DIGITS = 18
_GROUP = 9  # digits of a DECIMAL in four bytes
_GROUP_WIDTHS = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
_DATETIME_SIGN = 1 << 39
_MICROS = 1_000_000


def encoded(column: Column, values: pa.Array) -> tuple[Int32s, Bytes] | None:
    """Encode the values of a column.

    Args:
        values: In the Arrow type of the column; texts are in UTF-8, and ASCII where its character set is another one.

    Returns:
        The place of each value in the bytes, `NULL` where it is null, and these bytes; None: the type is none of those
        that are written.
    """
    missing = values.is_null().to_numpy(zero_copy_only=False)
    if column.type in _TEXTS:
        return _sized(size_prefix(column), values.cast(pa.binary()), missing)
    rows = _rows(column, values)
    if rows is None:
        return None
    starts = np.arange(len(rows), dtype=np.int32) * np.int32(rows.shape[1])
    return np.where(missing, np.int32(NULL), starts), as_bytes(rows.tobytes())


def _rows(column: Column, values: pa.Array) -> Bytes | None:
    """Values of one width, a row each."""
    if column.type in INTEGER_WIDTHS:
        numbers = values.cast(pa.uint64() if column.unsigned else pa.int64()).fill_null(0).to_numpy()
        return _little(numbers, INTEGER_WIDTHS[column.type])
    if column.type in _FLOATS:
        floats = values.fill_null(0).to_numpy(zero_copy_only=False).astype(_FLOATS[column.type])
        rows: Bytes = floats.view(np.uint8).reshape(len(floats), floats.itemsize)
        return rows
    if column.type is ColumnType.NEWDECIMAL and pa.types.is_decimal(values.type):
        return _decimals(values, column.metadata & 0xFF, column.metadata >> 8)
    if column.type is ColumnType.DATE and pa.types.is_date(values.type):
        year, month, day = _calendar(values)
        return _little(day | month << 5 | year << 9, 3)
    if column.type is ColumnType.DATETIME2 and pa.types.is_timestamp(values.type):
        return _datetimes(values, column.metadata)
    return None


def _little(numbers: NDArray[np.int64] | NDArray[np.uint64], width: int) -> Bytes:
    return numbers.astype(f"<{numbers.dtype.kind}8").view(np.uint8).reshape(-1, 8)[:, :width]


def _big(numbers: Int64s, width: int) -> Bytes:
    return numbers.astype(">i8").view(np.uint8).reshape(-1, 8)[:, 8 - width :]


def _decimals(values: pa.Array, precision: int, scale: int) -> Bytes:
    """Groups of digits, most significant first; below zero all bits are turned, and the first bit always is."""
    numbers = _unscaled(values, precision)
    before, after = abs(numbers) // 10**scale, abs(numbers) % 10**scale
    whole, groups = precision - scale, []
    for exponent in range(-(-whole // _GROUP) * _GROUP - _GROUP, -1, -_GROUP):
        groups.append((before // 10**exponent % 10**_GROUP, min(_GROUP, whole - exponent)))
    for first in range(0, scale, _GROUP):
        digits = min(_GROUP, scale - first)
        groups.append((after // 10 ** (scale - first - digits) % 10**digits, digits))
    rows = np.hstack([_big(group.astype(np.int64), _GROUP_WIDTHS[digits]) for group, digits in groups])
    rows[numbers < 0] ^= 0xFF
    rows[:, 0] ^= 0x80
    return rows


def _unscaled(values: pa.Array, precision: int) -> NDArray[Any]:
    """Decimals without their points: `int64`, or Python's numbers where there are more digits."""
    whole = values.cast(pa.decimal128(38, values.type.scale))
    whole = pa.Array.from_buffers(pa.decimal128(38, 0), len(whole), whole.buffers(), offset=whole.offset).fill_null(0)
    if precision > _INT64_DIGITS:
        return np.array([int(number) for number in whole.to_pylist()], dtype=np.object_)
    numbers: NDArray[Any] = whole.cast(pa.int64()).to_numpy()
    return numbers


def _calendar(values: pa.Array) -> tuple[Int64s, Int64s, Int64s]:
    days = values.fill_null(0)
    year, month, day = (part(days).cast(pa.int64()).to_numpy() for part in (pc.year, pc.month, pc.day))
    return year, month, day


def _datetimes(values: pa.Array, digits: int) -> Bytes:
    year, month, day = _calendar(values)
    micros = values.cast(pa.timestamp("us")).cast(pa.int64()).fill_null(0).to_numpy()
    seconds = micros // _MICROS % 86_400
    hour, minute, second = seconds // 3600, seconds // 60 % 60, seconds % 60
    packed = (year * 13 + month) << 22 | day << 17 | hour << 12 | minute << 6 | second
    width = (digits + 1) // 2
    fraction = micros % _MICROS // 10 ** (6 - 2 * width)
    return np.hstack([_big(packed + _DATETIME_SIGN, 5), _big(fraction, width)])


def _sized(width: int, values: pa.Array, missing: NDArray[np.bool_]) -> tuple[Int32s, Bytes]:
    """Values of many sizes, each after its size."""
    sizes = pc.binary_length(values).cast(pa.int64()).fill_null(0).to_numpy()
    prefixes = text_array(
        pa.binary(), np.arange(len(sizes) + 1, dtype=np.int32) * width, _little(sizes, width).ravel(), None
    )
    joined = pc.binary_join_element_wise(prefixes, values.fill_null(b""), b"")
    if not len(joined):
        return np.empty(0, dtype=np.int32), as_bytes(b"")
    starts = np.frombuffer(joined.buffers()[1], dtype=np.int32, count=len(joined) + 1)
    data = np.frombuffer(joined.buffers()[2], dtype=np.uint8, count=int(starts[-1]))
    return np.where(missing, np.int32(NULL), starts[:-1]), data
