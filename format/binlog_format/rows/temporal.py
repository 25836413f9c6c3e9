"""DATE, DATETIME, TIMESTAMP and TIME to Arrow: `DATES`, `DATETIMES`, `TIMESTAMPS`, `TIMES`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_format.kernels import empty_bytes
from binlog_format.rows import temporal_kernels as kernels
from binlog_format.rows.arrow_arrays import fixed_array, text_array, validity
from binlog_format.rows.column_types import BadValueError, Family, check_text_size

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_format.events.table_map import Column
    from binlog_format.kernels import Bytes

    Int32s = NDArray[np.int32]

_DATETIME = pa.timestamp("us")
_TIMESTAMP = pa.timestamp("us", tz="UTC")


def fraction_digits(column: Column) -> int:
    """Digits of the fraction of a second of a TIME, DATETIME or TIMESTAMP column, 0 to 6."""
    return column.metadata & 0xFF


def _fraction_size(column: Column) -> int:
    return (fraction_digits(column) + 1) // 2


def _dates(column: Column, data: Bytes, offsets: Int32s) -> pa.Array:
    days, valid = np.empty(len(offsets), dtype=np.int32), validity(offsets)
    _check(kernels.gather_dates(data, offsets, days, valid))
    return fixed_array(pa.date32(), days, valid)


def _datetimes(column: Column, data: Bytes, offsets: Int32s) -> pa.Array:
    micros, valid = np.empty(len(offsets), dtype=np.int64), validity(offsets)
    _check(kernels.gather_datetimes(data, offsets, _fraction_size(column), micros, valid))
    return fixed_array(_DATETIME, micros, valid)


def _timestamps(column: Column, data: Bytes, offsets: Int32s) -> pa.Array:
    micros, valid = np.empty(len(offsets), dtype=np.int64), validity(offsets)
    _check(kernels.gather_timestamps(data, offsets, _fraction_size(column), micros, valid))
    return fixed_array(_TIMESTAMP, micros, valid)


def _times(column: Column, data: Bytes, offsets: Int32s) -> pa.Array:
    size_max = len(offsets) * kernels.TIME_TEXT_MAX
    check_text_size(size_max)
    out = empty_bytes(size_max)
    out_offsets = np.empty(len(offsets) + 1, dtype=np.int32)
    _check(kernels.write_times(data, offsets, fraction_digits(column), out_offsets, out))
    return text_array(pa.string(), out_offsets, out[: out_offsets[-1]], validity(offsets))


def _check(bad_index: int) -> None:
    if bad_index >= 0:
        raise BadValueError(bad_index, "it is no date or time")


DATES = Family(lambda layout, index: pa.date32(), _dates)
DATETIMES = Family(lambda layout, index: _DATETIME, _datetimes)
TIMESTAMPS = Family(lambda layout, index: _TIMESTAMP, _timestamps)
TIMES = Family(lambda layout, index: pa.string(), _times)
