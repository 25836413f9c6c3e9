"""The loops of `temporal` for columns made with `mysql56_temporal_format=OFF` (MariaDB `sql/field.cc`).

Without a fraction of a second values are decimal digits or seconds, little-endian. With one, they are a big-endian
number of the last digit's units: of the time with a bias, or of a date and time with mixed bases.

Arguments and results are those of `temporal_kernels`; a value has *width* bytes, and *digits* of a fraction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.kernels import kernel
from binlog_format.memory_kernels import load_u8, load_u16, load_u32
from binlog_format.rows.values.temporal_kernels import DAY, HOUR_MAX, SECOND, big_endian, days_since_1970, is_date

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from binlog_format.kernels import Bytes

    Int32s = NDArray[np.int32]
    Int64s = NDArray[np.int64]
    Mask = NDArray[np.bool_]

# Added to times with a fraction so that they are not negative: a second more than the longest time.
_TIME_BIAS = (HOUR_MAX * 3600 + 59 * 60 + 59 + 1) * SECOND


@kernel
def _unit(digits: int) -> int:
    unit = 1
    for _ in range(6 - digits):
        unit *= 10
    return unit


@kernel
def gather_old_times(data: Bytes, offsets: Int32s, digits: int, width: int, out: Int64s) -> int:
    """TIME: HHMMSS with sign in 3 bytes; or units of the last digit."""
    last = data.size - width
    unit = _unit(digits)
    bias = _TIME_BIAS // unit
    for i in range(offsets.size):
        place = int(offsets[i])
        out[i] = 0
        if place < 0:
            continue
        if place > last:
            return i
        if digits:
            # Six bytes at most: the product stays far below 64 bits.
            micros = (big_endian(data, place, width) - bias) * unit
            if micros >= _TIME_BIAS or micros <= -_TIME_BIAS:
                return i
            out[i] = micros
            continue
        packed = load_u16(data, place) | load_u8(data, place + 2) << 16
        sign = 1
        if packed & 0x800000:
            packed = (1 << 24) - packed
            sign = -1
        second, minute, hour = packed % 100, packed // 100 % 100, packed // 10_000
        if hour > HOUR_MAX or minute > 59 or second > 59:
            return i
        out[i] = sign * (hour * 3600 + minute * 60 + second) * SECOND
    return -1


@kernel
def gather_old_datetimes(data: Bytes, offsets: Int32s, digits: int, width: int, out: Int64s, valid: Mask) -> int:
    """DATETIME: YYYYMMDDHHMMSS in 8 bytes; or mixed bases (13 months, 32 days, 24, 60, 60) in last digit's units."""
    last = data.size - width
    unit = _unit(digits)
    for i in range(offsets.size):
        place = int(offsets[i])
        out[i] = 0
        if place < 0:
            continue
        if place > last:
            return i
        micros = 0
        if digits:
            if width == 8 and load_u8(data, place) & 0x80:
                return i
            packed = big_endian(data, place, width)
            per_second = SECOND // unit
            micros = packed % per_second * unit
            packed //= per_second
            second, minute, hour = packed % 60, packed // 60 % 60, packed // 3600 % 24
            packed //= 86_400
            day, month, year = packed % 32, packed // 32 % 13, packed // (32 * 13)
        else:
            if load_u32(data, place + 4) >= 1 << 30:
                return i
            packed = load_u32(data, place) | load_u32(data, place + 4) << 32
            second, minute, hour = packed % 100, packed // 100 % 100, packed // 10_000 % 100
            packed //= 1_000_000
            day, month, year = packed % 100, packed // 100 % 100, packed // 10_000
        if year > 9999 or month > 12 or day > 31 or hour > 23 or minute > 59 or second > 59:
            return i
        if is_date(year, month, day):
            seconds = hour * 3600 + minute * 60 + second
            out[i] = days_since_1970(year, month, day) * DAY + seconds * SECOND + micros
        else:
            valid[i] = False
    return -1


@kernel
def gather_old_timestamps(data: Bytes, offsets: Int32s, digits: int, width: int, out: Int64s, valid: Mask) -> int:
    """TIMESTAMP: seconds since 1970 UTC in 4 bytes; with a fraction big-endian, then its digits; zero: no date."""
    last = data.size - width
    unit = _unit(digits)
    for i in range(offsets.size):
        place = int(offsets[i])
        out[i] = 0
        if place < 0:
            continue
        if place > last:
            return i
        if digits:
            micros = big_endian(data, place + 4, width - 4) * unit
            if micros >= SECOND:
                return i
            out[i] = big_endian(data, place, 4) * SECOND + micros
        else:
            out[i] = load_u32(data, place) * SECOND
        if out[i] == 0:
            valid[i] = False
    return -1
