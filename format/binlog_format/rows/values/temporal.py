"""DATE, DATETIME, TIMESTAMP and TIME to Arrow: `DATES`, `DATETIMES`, `TIMESTAMPS`, `TIMES`, in both formats."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_format.events.table_map_layout import OLD_TEMPORAL_TYPES, ColumnType
from binlog_format.kernels import empty_bytes
from binlog_format.rows.arrow_arrays import fixed_array, text_array, validity
from binlog_format.rows.column_types import (
    BadValueError,
    Family,
    ZeroDateError,
    check_text_size,
    old_digits,
    old_width,
)
from binlog_format.rows.declared.declared_types import split_declared
from binlog_format.rows.decoding import TimeType, ZeroDates
from binlog_format.rows.values import old_temporal_kernels as old_kernels
from binlog_format.rows.values import temporal_kernels as kernels

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_format.events.table_map import Column, TableLayout
    from binlog_format.kernels import Bytes
    from binlog_format.rows.decoding import Decoding

    Int32s = NDArray[np.int32]
    Int64s = NDArray[np.int64]
    Mask = NDArray[np.bool_]

_DATETIME = pa.timestamp("us")
_TIMESTAMP = pa.timestamp("us", tz="UTC")


def fraction_digits(column: Column) -> int:
    """Digits of the fraction of a second of a TIME, DATETIME or TIMESTAMP column, 0 to 6."""
    if column.type in OLD_TEMPORAL_TYPES:
        numbers = split_declared(column.declared or "")[1]
        return numbers[0] if numbers else 0
    return column.metadata & 0xFF


def _fraction_size(column: Column) -> int:
    return (fraction_digits(column) + 1) // 2


def _datetime_type(layout: TableLayout, index: int, decoding: Decoding) -> pa.DataType:
    _check_digits(layout, index)
    return _DATETIME


def _timestamp_type(layout: TableLayout, index: int, decoding: Decoding) -> pa.DataType:
    _check_digits(layout, index)
    return _TIMESTAMP


def _time_type(layout: TableLayout, index: int, decoding: Decoding) -> pa.DataType:
    _check_digits(layout, index)
    return pa.int64() if decoding.time_type is TimeType.MICROS else pa.string()


def _check_digits(layout: TableLayout, index: int) -> None:
    if layout.columns[index].type in OLD_TEMPORAL_TYPES:
        old_digits(layout, index)


def _dates(column: Column, data: Bytes, offsets: Int32s, decoding: Decoding) -> pa.Array:
    days, valid = np.empty(len(offsets), dtype=np.int32), validity(offsets)
    _check(kernels.gather_dates(data, offsets, days, valid))
    _check_zero_dates(offsets, valid, decoding)
    return fixed_array(pa.date32(), days, valid)


def _datetimes(column: Column, data: Bytes, offsets: Int32s, decoding: Decoding) -> pa.Array:
    micros, valid = np.empty(len(offsets), dtype=np.int64), validity(offsets)
    if column.type is ColumnType.DATETIME:
        digits = fraction_digits(column)
        width = old_width(column.type, digits)
        _check(old_kernels.gather_old_datetimes(data, offsets, digits, width, micros, valid))
    else:
        _check(kernels.gather_datetimes(data, offsets, _fraction_size(column), micros, valid))
    _check_zero_dates(offsets, valid, decoding)
    return fixed_array(_DATETIME, micros, valid)


def _timestamps(column: Column, data: Bytes, offsets: Int32s, decoding: Decoding) -> pa.Array:
    micros, valid = np.empty(len(offsets), dtype=np.int64), validity(offsets)
    if column.type is ColumnType.TIMESTAMP:
        digits = fraction_digits(column)
        width = old_width(column.type, digits)
        _check(old_kernels.gather_old_timestamps(data, offsets, digits, width, micros, valid))
    else:
        _check(kernels.gather_timestamps(data, offsets, _fraction_size(column), micros, valid))
    _check_zero_dates(offsets, valid, decoding)
    return fixed_array(_TIMESTAMP, micros, valid)


def _times(column: Column, data: Bytes, offsets: Int32s, decoding: Decoding) -> pa.Array:
    micros, valid = np.empty(len(offsets), dtype=np.int64), validity(offsets)
    digits = fraction_digits(column)
    if column.type is ColumnType.TIME:
        width = old_width(column.type, digits)
        _check(old_kernels.gather_old_times(data, offsets, digits, width, micros))
    else:
        _check(kernels.gather_times(data, offsets, _fraction_size(column), micros))
    if decoding.time_type is TimeType.MICROS:
        return fixed_array(pa.int64(), micros, valid)
    size_max = len(offsets) * kernels.TIME_TEXT_MAX
    check_text_size(size_max)
    out = empty_bytes(size_max)
    out_offsets = np.empty(len(offsets) + 1, dtype=np.int32)
    kernels.write_times(micros, valid, digits, out_offsets, out)
    return text_array(pa.string(), out_offsets, out[: out_offsets[-1]], valid)


def _check(bad_index: int) -> None:
    if bad_index >= 0:
        raise BadValueError(bad_index, "it is no date or time")


def _check_zero_dates(offsets: Int32s, valid: Mask, decoding: Decoding) -> None:
    if decoding.zero_dates is not ZeroDates.ERROR:
        return
    zero = np.flatnonzero(validity(offsets) & ~valid)
    if len(zero):
        raise ZeroDateError(
            int(zero[0]),
            "a zero or partial date, or a day that is in no calendar",
            hint="Without option zeroDates=error such dates are null",
        )


DATES = Family(lambda layout, index, decoding: pa.date32(), _dates)
DATETIMES = Family(_datetime_type, _datetimes)
TIMESTAMPS = Family(_timestamp_type, _timestamps)
TIMES = Family(_time_type, _times)
