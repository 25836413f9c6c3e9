"""Functions of dates and times: `DATE_FUNCTIONS`, `moved_by` an interval, and the `time_of` a statement."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_connector.schema.effects.conversion import either, true_mask
from binlog_connector.schema.expressions.operands import Kind, NotComputedError, Operand, number, unless_empty
from binlog_format.rows.declared.declared_types import UnknownValueError
from binlog_format.rows.declared.time_zones import known_zone

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_connector.schema.effects.conversion import Circumstances
    from binlog_format.kernels import Int64s

_DATES = (Kind.DATE, Kind.DATETIME)
_FORMAT = re.compile(r"(?:%[YmdHis]|[-/.: TZ])*", re.ASCII)
_DIRECTIVES = {"%i": "%M", "%s": "%S"}
_SECOND = 1_000_000
_DAYS = {"DAY": 86_400, "WEEK": 7 * 86_400}
_TIMES = {"HOUR": 3600, "MINUTE": 60, "SECOND": 1}
_SECONDS = {**_DAYS, **_TIMES}
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_MONTHS_MAX, _SECONDS_MAX = 12 * 10_000, 10_000 * 366 * 86_400
"""The longest interval: more moves any time out of the calendar."""
_FIRST, _LAST = (np.datetime64(text, "us").astype(np.int64) for text in ("0001-01-01", "9999-12-31T23:59:59.999999"))
_DIGITS_MAX = 6
DAYS_TO_1970 = 719_528
"""From the first day of the year 0: TO_DAYS('1970-01-01')."""


def _date(one: Operand) -> Operand:
    operand = one.of_kind(*_DATES)
    micros = operand.array.cast(pa.timestamp("us"))
    return Operand(Kind.DATE, pc.floor_temporal(micros, unit="day").cast(pa.date32()), operand.unknown)


def _day_numbers(one: Operand) -> pa.Array:
    """Days since 1970."""
    return _date(one).array.cast(pa.int32()).cast(pa.int64())


def _days_between(one: Operand, other: Operand) -> Operand:
    days = pc.subtract(_day_numbers(one), _day_numbers(other))
    return number(days, 7, unknown=either(one.unknown, other.unknown))


def _days_since_year_0(one: Operand) -> Operand:
    return number(pc.add(_day_numbers(one), DAYS_TO_1970), 7, unknown=one.unknown)


def _last_day(one: Operand) -> Operand:
    next_month = pc.ceil_temporal(_date(one).array, unit="month", ceil_is_strictly_greater=True)
    days = pc.subtract(next_month.cast(pa.date32()).cast(pa.int32()), pa.scalar(1, pa.int32()))
    return Operand(Kind.DATE, days.cast(pa.date32()), one.unknown)


def _unix_seconds(one: Operand) -> Operand:
    operand = one.of_kind(Kind.MOMENT)
    if operand.digits:
        raise NotComputedError("UNIX_TIMESTAMP of a time with fractions of a second")
    return number(pc.divide(operand.array.cast(pa.int64()), _SECOND), 10, unknown=operand.unknown)


def _of_dates(function: Callable[[pa.Array], pa.Array]) -> Callable[[Operand], Operand]:
    def call(one: Operand) -> Operand:
        operand = one.of_kind(*_DATES)
        return number(function(operand.array.cast(pa.timestamp("us"))), 10, unknown=operand.unknown)

    return call


PARTS_OF_TIMES: dict[str, Callable[[pa.Array], pa.Array]] = {
    "YEAR": pc.year,
    "QUARTER": pc.quarter,
    "MONTH": pc.month,
    **dict.fromkeys(["DAY", "DAYOFMONTH"], pc.day),
    "DAYOFYEAR": pc.day_of_year,
    "DAYOFWEEK": lambda times: pc.day_of_week(times, count_from_zero=False, week_start=7),  # 1: Sunday
    "WEEKDAY": pc.day_of_week,  # 0: Monday
    "HOUR": pc.hour,
    "MINUTE": pc.minute,
    "SECOND": pc.second,
}
"""Functions of dates, as of the times at which they begin, by name, in upper case."""

DATE_FUNCTIONS: dict[str, Callable[..., Operand]] = {
    "DATE": _date,
    "DATEDIFF": _days_between,
    "TO_DAYS": _days_since_year_0,
    "LAST_DAY": _last_day,
    "UNIX_TIMESTAMP": _unix_seconds,
    **{name: _of_dates(function) for name, function in PARTS_OF_TIMES.items()},
}
"""By name, in upper case; each takes the operands of its expression."""


def formatted(one: Operand, form: str) -> Operand:
    """DATE_FORMAT. Raises `NotComputedError`: *form* has a directive that is not known here."""
    operand = one.of_kind(*_DATES)
    if _FORMAT.fullmatch(form) is None:
        raise NotComputedError(f"DATE_FORMAT with {form!r}")
    directives = re.sub("%[is]", lambda match: _DIRECTIVES[match[0]], form)
    seconds = pc.floor_temporal(operand.array.cast(pa.timestamp("us")), unit="second").cast(pa.timestamp("s"))
    array = pc.strftime(seconds, format=directives, locale="C").cast(pa.string())
    return Operand(Kind.TEXT, array, operand.unknown, charset="ascii")


def moved_by(times: Operand, amount: Operand, unit: str, *, back: bool) -> Operand:
    """Dates or times, and an interval later.

    Args:
        amount: Whole numbers of the unit.
        unit: A keyword.
        back: The interval earlier.

    Raises:
        NotComputedError: Operands of other kinds, or an unusual unit.
    """
    times, amount = times.of_kind(*_DATES), amount.of_kind(Kind.NUMBER)
    if amount.scale:
        raise NotComputedError("an INTERVAL of a number with a fraction")
    if unit not in {*_SECONDS, *_MONTHS}:
        raise NotComputedError(f"an INTERVAL in {unit}")
    there = true_mask(pc.and_(times.array.is_valid(), amount.array.is_valid()))
    amounts = amount.array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    limit = _MONTHS_MAX // _MONTHS[unit] if unit in _MONTHS else _SECONDS_MAX // _SECONDS[unit]
    beyond = there & (np.abs(amounts) > limit)
    amounts = np.where(beyond, 0, -amounts if back else amounts)
    before = times.array.cast(pa.timestamp("us")).cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    if unit in _MONTHS:
        after = _months_later(before, amounts * _MONTHS[unit])
    else:
        after = before + amounts * _SECONDS[unit] * _SECOND
    beyond |= there & ((after < _FIRST) | (after > _LAST))
    array = pa.array(np.where(beyond, 0, after), pa.int64(), mask=~there).cast(pa.timestamp("us"))
    unknown = either(either(times.unknown, amount.unknown), unless_empty(beyond))
    if times.kind is Kind.DATE and unit not in _TIMES:
        return Operand(Kind.DATE, array.cast(pa.date32()), unknown)
    return Operand(Kind.DATETIME, array, unknown, digits=times.digits)


def _months_later(micros: Int64s, months: Int64s) -> Int64s:
    """Times some months later, at the last day of a month that is too short."""
    times = micros.astype("datetime64[us]")
    days, first = times.astype("datetime64[D]"), times.astype("datetime64[M]")
    target = first + months
    length = (target + 1).astype("datetime64[D]") - target.astype("datetime64[D]")
    day = np.minimum(days - first.astype("datetime64[D]"), length - 1)
    found: Int64s = (target.astype("datetime64[D]") + day + (times - days)).astype(np.int64)
    return found


def time_of(clock: str, digits: int, how: Circumstances, count: int) -> Operand:
    """The time of a statement.

    Args:
        clock: One of `CLOCKS`.
        digits: Of the fraction of a second.

    Raises:
        NotComputedError: The log does not record it, or the time zone.
    """
    moment = how.moment
    if digits and moment.microseconds is None:
        raise NotComputedError("the time, of which the log has no microseconds")
    if clock == "UNIX_TIMESTAMP":
        return number(pa.repeat(pa.scalar(moment.seconds), count), 10)
    unit = int(10 ** (_DIGITS_MAX - digits))
    micros = moment.seconds * _SECOND + (moment.microseconds or 0) // unit * unit
    if not clock.startswith("UTC"):
        try:
            micros = known_zone(moment.time_zone, how.decoding.system_time_zone).local(micros)
        except UnknownValueError as error:
            raise NotComputedError(error.reason) from error
    now = Operand(Kind.DATETIME, pa.repeat(pa.scalar(micros, pa.timestamp("us")), count), digits=digits)
    return now if clock.endswith("TIMESTAMP") or clock == "NOW" else _date(now)
