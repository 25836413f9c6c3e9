"""Times as the library's reader writes them: `put_time`.

All steps are arithmetic of 64 bits that wraps around, and divisions that cut off toward zero: of times before 1970 the
fraction of a second is negative.

Clock values as wall time: `wall_ns`, `fill_times`. Parts of a nanosecond are dropped, toward the sync. Without the
compiler NumPy warns of what wraps around: whoever calls switches that off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from binlog_format.kernels import kernel
from binlog_format.memory_kernels import copy_bytes
from binlog_format.structured.layout import NS_PER_SECOND
from binlog_format.writing_kernels import (
    MINUS,
    SIGN_BIT,
    U0,
    bits_of,
    calendar_date,
    magnitude,
    put_bytes,
    put_fixed,
    put_signed,
    signed,
)

if TYPE_CHECKING:
    from binlog_format.block import Table
    from binlog_format.kernels import Bytes, Int64s, Mask, Uint64s


# Steps of a date format.
LITERAL = 0
_YEAR = 1
_YEAR_OF_CENTURY = 2
_MONTH = 3
_DAY = 4
_HOUR = 5
_MINUTE = 6
_SECOND = 7
_FRACTION = 8
_ZONE_OFFSET = 9
ZONE_NAME = 10
DATE_LETTERS = {
    ord(letter): step
    for letter, step in (
        ("Y", _YEAR),
        ("y", _YEAR_OF_CENTURY),
        ("m", _MONTH),
        ("d", _DAY),
        ("H", _HOUR),
        ("M", _MINUTE),
        ("S", _SECOND),
        ("N", _FRACTION),
        ("z", _ZONE_OFFSET),
        ("Z", ZONE_NAME),
    )
}
DATE_FIELD_SIZE_MAX = 16
"""Most bytes of a field, except the name of a zone."""

_DAY_SECONDS = 86_400
_HOUR_SECONDS = 3600
_PLUS = 0x2B
_ZERO = 0x30
_UTC = np.frombuffer(b"UTC", dtype=np.uint8).copy()


class Times(NamedTuple):
    """Format of times, and the last times that were written.

    Attributes:
        steps: Of the `DateFormat`.
        literals: Of the `DateFormat`.
        zones: Names of time zones, one after the other.
        zone_bounds: Where they start and end; that of UTC is the first.
        size_max: Most bytes of a time.
        last: `LAST_SHAPE`: the last time in UTC, and in another zone; filled with -1 at first.
        last_text: Their text; twice *size_max* bytes.
    """

    steps: Int64s
    literals: Bytes
    zones: Bytes
    zone_bounds: Int64s
    size_max: int
    last: Int64s
    last_text: Bytes


class Zone(NamedTuple):
    """A time zone: seconds to add to UTC, and its row among the names."""

    offset: int
    row: int


UTC_ZONE = 0
"""Row of UTC."""

_LAST_SECONDS = 0
_LAST_ZONE = 1  # -1: there is none
_LAST_SIZE = 2
_LAST_FRACTION = 3
LAST_SHAPE = (2, 4)


@kernel
def divided(number: int, divisor: int) -> int:
    """Number / divisor, cut off toward zero; *divisor* is positive."""
    quotient = int(np.int64(magnitude(number) // np.uint64(divisor)))
    return -quotient if number < 0 else quotient


@kernel
def _put_two(out: Bytes, at: int, number: int) -> int:
    # A number below 100.
    tens = number // 10
    out[at], out[at + 1] = _ZERO + tens, _ZERO + number - 10 * tens
    return at + 2


@kernel
def _put_year(out: Bytes, at: int, year: int) -> int:
    if year < 1000:
        return put_signed(out, at, year)
    return _put_two(out, _put_two(out, at, year // 100), year % 100)


@kernel
def _put_zone_offset(out: Bytes, at: int, offset: int) -> int:
    out[at] = MINUS if offset < 0 else _PLUS
    size = abs(offset)
    hours = size // _HOUR_SECONDS
    at = _put_two(out, at + 1, hours if hours < 100 else 0)
    return _put_two(out, at, size % _HOUR_SECONDS // 60)


@kernel
def _put_year_of_century(out: Bytes, at: int, year: int) -> int:
    # Before 1900 the "digits" are negative, as the library has them.
    rest = divided(year - 1900, 1) - 100 * divided(year - 1900, 100)
    tens = divided(rest, 10)
    out[at] = _ZERO + tens
    out[at + 1] = _ZERO + rest - 10 * tens
    return at + 2


@kernel
def _put_fraction(out: Bytes, at: int, fraction: int) -> int:
    if fraction >= 0:
        return put_fixed(out, at, fraction, 9)
    put_fixed(out, at + 1, -fraction, 9)
    out[at] = MINUS
    return at + 9


@kernel
def _put_fields(out: Bytes, at: int, times: Times, zone: Zone, seconds: int, fraction: int) -> tuple[int, int]:
    # The place after the text; where the fraction is in it, -1: it is not, or more than once.
    days = seconds // _DAY_SECONDS
    second_of_day = seconds - days * _DAY_SECONDS
    year, month, day = calendar_date(days)
    begin, fraction_place, fractions = at, -1, 0
    for row in range(len(times.steps)):
        step = times.steps[row, 0]
        if step == LITERAL:
            at = put_bytes(out, at, times.literals, times.steps[row, 1], times.steps[row, 2])
        elif step == _YEAR:
            at = _put_year(out, at, year)
        elif step == _YEAR_OF_CENTURY:
            at = _put_year_of_century(out, at, year)
        elif step == _MONTH:
            at = _put_two(out, at, month)
        elif step == _DAY:
            at = _put_two(out, at, day)
        elif step == _HOUR:
            at = _put_two(out, at, second_of_day // _HOUR_SECONDS)
        elif step == _MINUTE:
            at = _put_two(out, at, second_of_day % _HOUR_SECONDS // 60)
        elif step == _SECOND:
            at = _put_two(out, at, second_of_day % 60)
        elif step == _FRACTION:
            fractions += 1
            fraction_place = at - begin
            at = _put_fraction(out, at, fraction)
        elif step == _ZONE_OFFSET:
            at = _put_zone_offset(out, at, zone.offset)
        else:
            at = put_bytes(out, at, times.zones, times.zone_bounds[zone.row], times.zone_bounds[zone.row + 1])
    return at, fraction_place if fractions == 1 else -1


@kernel
def put_time(out: Bytes, at: int, times: Times, zone: Zone, ns: int) -> int:
    """Put a time; the place after it.

    Args:
        out: Room for `size_max` of *times*.
        ns: Nanoseconds since 1970 UTC.
    """
    local = signed(bits_of(ns) + bits_of(zone.offset * NS_PER_SECOND))
    seconds = divided(local, NS_PER_SECOND)
    fraction = local - seconds * NS_PER_SECOND
    # Most events are of the same second as the one before.
    slot = 0 if zone.row == UTC_ZONE else 1
    last, start = times.last, slot * times.size_max
    if seconds == last[slot, _LAST_SECONDS] and zone.row == last[slot, _LAST_ZONE] and fraction >= 0:
        size = int(last[slot, _LAST_SIZE])
        copy_bytes(out, at, times.last_text, start, size)
        put_fixed(out, at + last[slot, _LAST_FRACTION], fraction, 9)
        return at + size
    end, fraction_place = _put_fields(out, at, times, zone, seconds, fraction)
    last[slot, _LAST_ZONE] = -1
    if fraction_place >= 0:
        copy_bytes(times.last_text, start, out, at, end - at)
        last[slot, _LAST_SECONDS], last[slot, _LAST_ZONE] = seconds, zone.row
        last[slot, _LAST_SIZE], last[slot, _LAST_FRACTION] = end - at, fraction_place
    return end


_BILLION = np.uint64(NS_PER_SECOND)


class Clocks(NamedTuple):
    """The clock syncs of a block; see `ClockSync`."""

    clocks: Uint64s
    frequencies: Int64s
    ns: Uint64s
    offsets: Int64s


@kernel
def wall_ns(clock: np.uint64, sync_clock: np.uint64, frequency: int, sync_ns: np.uint64) -> int:
    """Nanoseconds since 1970 UTC at a clock value, by a clock sync with a positive frequency."""
    ticks = clock - sync_clock
    if frequency == NS_PER_SECOND:  # divisions take most of the time
        return signed(sync_ns + ticks)
    is_earlier = (ticks & SIGN_BIT) != U0
    if is_earlier:
        ticks = U0 - ticks
    seconds = ticks // np.uint64(frequency)
    rest = ticks - seconds * np.uint64(frequency)
    billionths = rest * _BILLION
    # What does not fit into 63 bits is a negative number from here on.
    if (billionths & SIGN_BIT) != U0:
        part = U0 - ((U0 - billionths) // np.uint64(frequency))
    else:
        part = billionths // np.uint64(frequency)
    ns = seconds * _BILLION + part
    return signed(sync_ns - ns if is_earlier else sync_ns + ns)


@kernel
def fill_times(events: Table, clocks: Clocks, ns: Int64s, has_time: Mask) -> None:
    """Compute the times of events.

    Args:
        ns: Gets nanoseconds since 1970 UTC; 0 where there is no time.
        has_time: Gets where there is one: not before the first sync, and with none of a frequency that cannot be.
    """
    values, syncs = events["clock"], events["clock_sync"]
    for row in range(len(values)):
        sync = syncs[row]
        frequency = clocks.frequencies[sync]
        has_time[row] = frequency > 0
        ns[row] = wall_ns(values[row], clocks.clocks[sync], frequency, clocks.ns[sync]) if frequency > 0 else 0
