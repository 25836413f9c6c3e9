"""The loops of `temporal`: dates and times to days and microseconds since 1970, or to text.

Each loop `gather_...` reads the values at *offsets* in *data*, below 0 for no value, into *out*: days or microseconds
since 1970, or microseconds of a TIME. *valid*, which values are there, is cleared where there is no such day. It
returns the index of the first value that is none, or -1.

Loops `gather_old_...` are for columns made with `mysql56_temporal_format=OFF` (MariaDB `sql/field.cc`), of values of
*width* bytes with *digits* of a fraction. Without one, they are decimal digits or seconds, little-endian. With one,
they are a big-endian number of the last digit's units: of the time with a bias, or of a date and time with mixed bases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.kernels import kernel
from binlog_format.memory_kernels import load_u8, load_u16, load_u32

if TYPE_CHECKING:
    from binlog_format.kernels import Bytes, Int32s, Int64s, Mask

SECOND = 1_000_000
DAY = 86_400 * SECOND
HOUR_MAX = 838
# MariaDB sql/compat56.cc: added to the packed values so that they are not negative.
_DATETIME_BIAS = 1 << 39
_TIME_BIAS = 1 << 23
# Added to times with a fraction so that they are not negative: a second more than the longest time.
_OLD_TIME_BIAS = (HOUR_MAX * 3600 + 59 * 60 + 59 + 1) * SECOND


@kernel
def big_endian(data: Bytes, place: int, size: int) -> int:
    """The number in the *size* bytes at *place*."""
    number = 0
    for k in range(size):
        number = number << 8 | load_u8(data, place + k)
    return number


@kernel
def _micros(data: Bytes, place: int, size: int) -> int:
    # A fraction of a second of 0 to 3 bytes; each byte has two digits.
    fraction = big_endian(data, place, size)
    if size == 1:
        return fraction * 10_000
    if size == 2:
        return fraction * 100
    return fraction


@kernel
def is_date(year: int, month: int, day: int) -> bool:
    """False for zero and partial dates, and for days that are not in the calendar (sql_mode=ALLOW_INVALID_DATES)."""
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
def days_since_1970(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 of a day of the calendar."""
    # Years are counted from March, so that the leap day is the last one.
    if month <= 2:
        year -= 1
        month += 12
    day_of_year = (153 * (month - 3) + 2) // 5 + day - 1
    return 365 * year + year // 4 - year // 100 + year // 400 + day_of_year - 719_468


@kernel
def gather_dates(data: Bytes, offsets: Int32s, out: Int32s, valid: Mask) -> int:
    """DATE: 5 bits day, 4 bits month, 15 bits year, little-endian."""
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
        if is_date(year, month, day):
            out[i] = days_since_1970(year, month, day)
        else:
            valid[i] = False
    return -1


@kernel
def gather_datetimes(data: Bytes, offsets: Int32s, fraction_size: int, out: Int64s, valid: Mask) -> int:
    """DATETIME: 17 bits year * 13 + month, 5 day, 5 hour, 6 minute, 6 second, big-endian, then the fraction's bytes."""
    last = data.size - 5 - fraction_size
    for i in range(offsets.size):
        place = int(offsets[i])
        out[i] = 0
        if place < 0:
            continue
        if place > last:
            return i
        packed = big_endian(data, place, 5) - _DATETIME_BIAS
        micros = _micros(data, place + 5, fraction_size)
        second, minute, hour = packed & 63, packed >> 6 & 63, packed >> 12 & 31
        day, months = packed >> 17 & 31, packed >> 22
        year, month = months // 13, months % 13
        if packed < 0 or year > 9999 or hour > 23 or minute > 59 or second > 59 or micros >= SECOND:
            return i
        if is_date(year, month, day):
            out[i] = days_since_1970(year, month, day) * DAY + (hour * 3600 + minute * 60 + second) * SECOND + micros
        else:
            valid[i] = False
    return -1


@kernel
def gather_timestamps(data: Bytes, offsets: Int32s, fraction_size: int, out: Int64s, valid: Mask) -> int:
    """TIMESTAMP: 4 bytes seconds since 1970 UTC, big-endian, then the fraction's; zero is the server's zero date."""
    last = data.size - 4 - fraction_size
    for i in range(offsets.size):
        place = int(offsets[i])
        out[i] = 0
        if place < 0:
            continue
        if place > last:
            return i
        micros = _micros(data, place + 4, fraction_size)
        if micros >= SECOND:
            return i
        out[i] = big_endian(data, place, 4) * SECOND + micros
        if out[i] == 0:
            valid[i] = False
    return -1


@kernel
def gather_times(data: Bytes, offsets: Int32s, fraction_size: int, out: Int64s) -> int:
    """TIME: 1 bit sign, 1 unused, 10 hour, 6 minute, 6 second, then the fraction, as one big-endian number."""
    fraction_bits = 8 * fraction_size
    last = data.size - 3 - fraction_size
    for i in range(offsets.size):
        place = int(offsets[i])
        out[i] = 0
        if place < 0:
            continue
        if place > last:
            return i
        packed = big_endian(data, place, 3 + fraction_size) - (_TIME_BIAS << fraction_bits)
        sign = 1
        if packed < 0:
            packed = -packed
            sign = -1
        micros = packed & ((1 << fraction_bits) - 1)
        if fraction_size == 1:
            micros *= 10_000
        elif fraction_size == 2:
            micros *= 100
        packed >>= fraction_bits
        second, minute, hour = packed & 63, packed >> 6 & 63, packed >> 12
        if hour > HOUR_MAX or minute > 59 or second > 59 or micros >= SECOND:
            return i
        out[i] = sign * ((hour * 3600 + minute * 60 + second) * SECOND + micros)
    return -1


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
    bias = _OLD_TIME_BIAS // unit
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
            if micros >= _OLD_TIME_BIAS or micros <= -_OLD_TIME_BIAS:
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


@kernel
def _put_two(out: Bytes, at: int, number: int) -> int:
    tens = number // 10
    out[at] = 48 + tens
    out[at + 1] = 48 + number - 10 * tens
    return at + 2


@kernel
def write_times(micros: Int64s, valid: Mask, digits: int, out_offsets: Int32s, out: Bytes) -> None:
    """Times of up to 838:59:59.999999 as text.

    Args:
        micros: Microseconds.
        digits: Of the fraction.
        out_offsets: Where each text starts, and the end of the last.
        out: Room for the longest text, `TIME_TEXT_MAX`, of each value.
    """
    end = 0
    out_offsets[0] = 0
    for i in range(micros.size):
        if valid[i]:
            left = int(micros[i])
            if left < 0:
                left = -left
                out[end] = 45  # "-"
                end += 1
            seconds = left // SECOND
            fraction = left - seconds * SECOND
            minutes = seconds // 60
            hours = minutes // 60
            hundreds = hours // 100
            if hundreds:
                out[end] = 48 + hundreds
                end += 1
            end = _put_two(out, end, hours - 100 * hundreds)
            out[end] = 58  # ":"
            end = _put_two(out, end + 1, minutes - 60 * hours)
            out[end] = 58
            end = _put_two(out, end + 1, seconds - 60 * minutes)
            if digits:
                out[end] = 46  # "."
                unit = SECOND
                for k in range(digits):
                    unit //= 10
                    out[end + 1 + k] = 48 + fraction // unit % 10
                end += 1 + digits
        out_offsets[i + 1] = end


TIME_TEXT_MAX = len("-838:59:59.999999")
