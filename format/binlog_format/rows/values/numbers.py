"""TINYINT to BIGINT, YEAR, BIT, FLOAT and DOUBLE to Arrow: `INTEGERS`, `BITS`, `FLOATS`.

DECIMAL to Arrow: `DECIMALS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from binlog_format.events.table_map_layout import ColumnType
from binlog_format.kernels import empty_bytes
from binlog_format.messages import row_value
from binlog_format.rows.arrow_arrays import boolean_array, fixed_array, text_array, unsigned_64_array, validity
from binlog_format.rows.column_types import (
    DECIMAL_GROUP_DIGITS,
    BadValueError,
    Family,
    check_gathered,
    check_text_size,
    decimal_size,
    gathered,
    no_metadata,
)
from binlog_format.rows.values.decimal_kernels import gather_decimals, gather_small_decimals, write_decimals
from binlog_format.rows.values.value_kernels import gather_3, gather_bits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_format.events.table_map import Column, TableLayout
    from binlog_format.kernels import Bytes, Int32s, Int64s
    from binlog_format.rows.decoding import Decoding

_SIGNED = {
    ColumnType.TINY: pa.int8(),
    ColumnType.SHORT: pa.int16(),
    ColumnType.INT24: pa.int32(),
    ColumnType.LONG: pa.int32(),
    ColumnType.LONGLONG: pa.int64(),
}
_UNSIGNED = {
    ColumnType.TINY: pa.int16(),
    ColumnType.SHORT: pa.int32(),
    ColumnType.INT24: pa.int32(),
    ColumnType.LONG: pa.int64(),
    ColumnType.LONGLONG: pa.decimal128(20, 0),
}
_SIZES = {ColumnType.TINY: 1, ColumnType.SHORT: 2, ColumnType.LONG: 4, ColumnType.LONGLONG: 8}
_INT24_SIGN = 0x800000
# A byte holds the years 1901 to 2155; 0 is the year 0000.
_YEAR_BASE = 1900


def _integer_type(layout: TableLayout, index: int, _decoding: Decoding) -> pa.DataType:
    column = layout.columns[index]
    if column.unsigned is None:
        raise no_metadata(layout, index, "whether it is UNSIGNED")
    return (_UNSIGNED if column.unsigned else _SIGNED)[column.type]


def _integers(column: Column, data: Bytes, offsets: Int32s, _decoding: Decoding) -> pa.Array:
    if column.type is ColumnType.INT24:
        values: NDArray[Any] = np.empty(len(offsets), dtype=np.uint32)
        check_gathered(gather_3(data, offsets, values))
    else:
        values = gathered(data, offsets, f"u{_SIZES[column.type]}")
    valid = validity(offsets)
    if column.unsigned:
        if column.type is ColumnType.LONGLONG:
            return unsigned_64_array(values, valid)
        kind = _UNSIGNED[column.type]
        return fixed_array(kind, values.astype(kind.to_pandas_dtype()), valid)
    signed = values.view(np.dtype(f"i{values.itemsize}"))
    if column.type is ColumnType.INT24:
        signed ^= _INT24_SIGN
        signed -= _INT24_SIGN
    return fixed_array(_SIGNED[column.type], signed, valid)


def _years(_column: Column, data: Bytes, offsets: Int32s, _decoding: Decoding) -> pa.Array:
    values = gathered(data, offsets, np.uint8)
    years = values.astype(np.int32)
    years[values != 0] += _YEAR_BASE
    return fixed_array(pa.int32(), years, validity(offsets))


INTEGERS = Family(_integer_type, _integers)
YEARS = Family(lambda _layout, _index, _decoding: pa.int32(), _years)


def _bit_count(column: Column) -> int:
    return (column.metadata & 0xFF) + 8 * (column.metadata >> 8)


def _bit_type(layout: TableLayout, index: int, _decoding: Decoding) -> pa.DataType:
    count = _bit_count(layout.columns[index])
    if count == 64:
        return pa.decimal128(20, 0)
    return pa.bool_() if count == 1 else pa.int64()


def _bits(column: Column, data: Bytes, offsets: Int32s, _decoding: Decoding) -> pa.Array:
    count = _bit_count(column)
    values = np.empty(len(offsets), dtype=np.uint64)
    check_gathered(gather_bits(data, offsets, (count + 7) // 8, values))
    valid = validity(offsets)
    if count == 64:
        return unsigned_64_array(values, valid)
    too_large = np.flatnonzero(values >> np.uint64(count))
    if len(too_large):
        raise BadValueError(
            int(too_large[0]), f"{row_value(hex(int(values[too_large[0]])))} has more than {count} bits"
        )
    if count == 1:
        return boolean_array(values.astype(np.bool_), valid)
    return fixed_array(pa.int64(), values, valid)


BITS = Family(_bit_type, _bits)


def _float_type(layout: TableLayout, index: int, _decoding: Decoding) -> pa.DataType:
    return pa.float32() if layout.columns[index].type is ColumnType.FLOAT else pa.float64()


def _floats(column: Column, data: Bytes, offsets: Int32s, _decoding: Decoding) -> pa.Array:
    kind = pa.float32() if column.type is ColumnType.FLOAT else pa.float64()
    return fixed_array(kind, gathered(data, offsets, kind.to_pandas_dtype()), validity(offsets))


FLOATS = Family(_float_type, _floats)


_DECIMAL128_DIGITS = 38
_INT64_DIGITS = 18


def _decimal_type(layout: TableLayout, index: int, _decoding: Decoding) -> pa.DataType:
    metadata = layout.columns[index].metadata
    precision, scale = metadata & 0xFF, metadata >> 8
    return pa.decimal128(precision, scale) if precision <= _DECIMAL128_DIGITS else pa.string()


def _groups(whole: int, fraction: int) -> Int64s:
    """Size in bytes and ten to the number of digits of each group, in the order in which they are stored."""
    whole_groups, whole_rest = divmod(whole, DECIMAL_GROUP_DIGITS)
    fraction_groups, fraction_rest = divmod(fraction, DECIMAL_GROUP_DIGITS)
    digits = [whole_rest] + [DECIMAL_GROUP_DIGITS] * (whole_groups + fraction_groups) + [fraction_rest]
    return np.array([(decimal_size(count), 10**count) for count in digits if count], dtype=np.int64)


def _decimals(column: Column, data: Bytes, offsets: Int32s, _decoding: Decoding) -> pa.Array:
    precision, scale = column.metadata & 0xFF, column.metadata >> 8
    groups = _groups(precision - scale, scale)
    width = int(groups[:, 0].sum())
    if precision > _DECIMAL128_DIGITS:
        return _texts(data, offsets, precision, precision - scale, groups)
    words = np.empty((len(offsets), 2), dtype=np.int64)
    if precision <= _INT64_DIGITS:
        bad_index = gather_small_decimals(data, offsets, width, groups, words)
    else:
        bad_index = gather_decimals(data, offsets, width, groups, words.view(np.uint64))
    if bad_index >= 0:
        raise _no_digits(bad_index)
    return fixed_array(pa.decimal128(precision, scale), words, validity(offsets))


def _texts(data: Bytes, offsets: Int32s, precision: int, whole: int, groups: Int64s) -> pa.Array:
    size_max = len(offsets) * (precision + 3)  # sign, point, a zero before the point
    check_text_size(size_max)
    out = empty_bytes(size_max)
    out_offsets = np.empty(len(offsets) + 1, dtype=np.int32)
    width = int(groups[:, 0].sum())
    bad_index = write_decimals(data, offsets, width, groups, whole, empty_bytes(precision), out_offsets, out)
    if bad_index >= 0:
        raise _no_digits(bad_index)
    return text_array(pa.string(), out_offsets, out[: out_offsets[-1]], validity(offsets))


def _no_digits(index: int) -> BadValueError:
    return BadValueError(index, "it has groups of digits that are no digits")


DECIMALS = Family(_decimal_type, _decimals)
