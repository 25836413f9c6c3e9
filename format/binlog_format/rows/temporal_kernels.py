"""The loops behind `temporal`: dates and times to days and microseconds since 1970, or to text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.kernels import kernel
from binlog_format.memory_kernels import load_u8, load_u16

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from binlog_format.kernels import Bytes

    Int32s = NDArray[np.int32]
    Int64s = NDArray[np.int64]
    Mask = NDArray[np.bool_]

_SECOND = 1_000_000
_DAY = 86_400 * _SECOND
# MariaDB sql/compat56.cc: added to the packed values so that they are not negative.
_DATETIME_BIAS = 1 << 39
_TIME_BIAS = 1 << 23


@kernel
def _big_endian(data: Bytes, place: int, size: int) -> int:
    number = 0
    for k in range(size):
        number = number << 8 | load_u8(data, place + k)
    return number


@kernel
def _micros(data: Bytes, place: int, size: int) -> int:
    # A fraction of a second of 0 to 3 bytes; each byte has two digits.
    fraction = _big_endian(data, place, size)
    if size == 1:
        return fraction * 10_000
    if size == 2:
        return fraction * 100
    return fraction


@kernel
def _is_date(year: int, month: int, day: int) -> bool:
    # False for zero and partial dates, and for days that are not in the calendar (sql_mode=ALLOW_INVALID_DATES).
    if year == 0 or month == 0 or day == 0:
        return False
    if day <= 28:
        return True
    if month == 2:
        return day == 29 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if month == 4 or month == 6 or month == 9 or month == 11:
        return day <= 30
    return day <= 31


@kernel
def _days(year: int, month: int, day: int) -> int:
    # Days since 1970-01-01. Years are counted from March, so that the leap day is the last one.
    if month <= 2:
        year -= 1
        month += 12
    day_of_year = (153 * (month - 3) + 2) // 5 + day - 1
    return 365 * year + year // 4 - year // 100 + year // 400 + day_of_year - 719_468


@kernel
def gather_dates(data: Bytes, offsets: Int32s, out: Int32s, valid: Mask) -> int:
    """DATE: 5 bits day, 4 bits month, 15 bits year, little-endian; days since 1970.

    Args:
        data: What the offsets point into.
        offsets: Below 0 for no value.
        out: Gets the days.
        valid: Which values are there; cleared where there is no such day.

    Returns:
        Index of the first value that is none, or -1.
    """
    last = data.size - 3
    for i in range(offsets.size):
        place = int(offsets[i])
        out[i] = 0
        if place < 0:
            continue
        if place > last:
            return i
        packed = load_u16(data, place) | load_u8(data, place + 2) << 16
        day, month, year = packed & 31, packed >> 5 & 15, packed >> 9
        if month > 12 or year > 9999:
            return i
        if _is_date(year, month, day):
            out[i] = _days(year, month, day)
        else:
            valid[i] = False
    return -1


@kernel
def gather_datetimes(data: Bytes, offsets: Int32s, fraction_size: int, out: Int64s, valid: Mask) -> int:
    """DATETIME: 17 bits year * 13 + month, 5 day, 5 hour, 6 minute, 6 second, big-endian, then the fraction.

    Args:
        data: What the offsets point into.
        offsets: Below 0 for no value.
        fraction_size: Bytes of the fraction.
        out: Gets microseconds since 1970.
        valid: Which values are there; cleared where there is no such day.

    Returns:
        Index of the first value that is none, or -1.
    """
    last = data.size - 5 - fraction_size
    for i in range(offsets.size):
        place = int(offsets[i])
        out[i] = 0
        if place < 0:
            continue
        if place > last:
            return i
        packed = _big_endian(data, place, 5) - _DATETIME_BIAS
        micros = _micros(data, place + 5, fraction_size)
        second, minute, hour = packed & 63, packed >> 6 & 63, packed >> 12 & 31
        day, months = packed >> 17 & 31, packed >> 22
        year, month = months // 13, months % 13
        if packed < 0 or year > 9999 or hour > 23 or minute > 59 or second > 59 or micros >= _SECOND:
            return i
        if _is_date(year, month, day):
            out[i] = _days(year, month, day) * _DAY + (hour * 3600 + minute * 60 + second) * _SECOND + micros
        else:
            valid[i] = False
    return -1


@kernel
def gather_timestamps(data: Bytes, offsets: Int32s, fraction_size: int, out: Int64s, valid: Mask) -> int:
    """TIMESTAMP: 4 bytes seconds since 1970 UTC, big-endian, then the fraction; as `gather_datetimes`.

    The zero timestamp is the server's zero date.
    """
    last = data.size - 4 - fraction_size
    for i in range(offsets.size):
        place = int(offsets[i])
        out[i] = 0
        if place < 0:
            continue
        if place > last:
            return i
        micros = _micros(data, place + 4, fraction_size)
        if micros >= _SECOND:
            return i
        out[i] = _big_endian(data, place, 4) * _SECOND + micros
        if out[i] == 0:
            valid[i] = False
    return -1


@kernel
def _write_number(out: Bytes, end: int, number: int, digits: int) -> int:
    for k in range(digits):
        out[end + digits - 1 - k] = 48 + number % 10
        number //= 10
    return end + digits


@kernel
def write_times(data: Bytes, offsets: Int32s, digits: int, out_offsets: Int32s, out: Bytes) -> int:
    """TIME: 1 bit sign, 1 unused, 10 hour, 6 minute, 6 second, then the fraction, as one big-endian number.

    Args:
        data: What the offsets point into.
        offsets: Below 0 for no value.
        digits: Of the fraction.
        out_offsets: Where each text starts, and the end of the last.
        out: Room for the longest text, `TIME_TEXT_MAX`, of each value.

    Returns:
        Index of the first value that is none, or -1.
    """
    fraction_size = (digits + 1) // 2
    fraction_bits = 8 * fraction_size
    last = data.size - 3 - fraction_size
    end = 0
    out_offsets[0] = 0
    for i in range(offsets.size):
        place = int(offsets[i])
        if place < 0:
            out_offsets[i + 1] = end
            continue
        if place > last:
            return i
        packed = _big_endian(data, place, 3 + fraction_size) - (_TIME_BIAS << fraction_bits)
        if packed < 0:
            packed = -packed
            out[end] = 45  # "-"
            end += 1
        micros = packed & ((1 << fraction_bits) - 1)
        if fraction_size == 1:
            micros *= 10_000
        elif fraction_size == 2:
            micros *= 100
        packed >>= fraction_bits
        second, minute, hour = packed & 63, packed >> 6 & 63, packed >> 12
        if hour > 838 or minute > 59 or second > 59 or micros >= _SECOND:
            return i
        end = _write_number(out, end, hour, 3 if hour > 99 else 2)
        out[end] = 58  # ":"
        end = _write_number(out, end + 1, minute, 2)
        out[end] = 58
        end = _write_number(out, end + 1, second, 2)
        if digits:
            for _ in range(6 - digits):
                micros //= 10
            out[end] = 46  # "."
            end = _write_number(out, end + 1, micros, digits)
        out_offsets[i + 1] = end
    return -1


TIME_TEXT_MAX = len("-838:59:59.999999")
