"""Dates and times that statements declare as defaults: `declared_time(column, default, ...)`."""

from __future__ import annotations

import datetime
import re
from typing import TYPE_CHECKING

from binlog_format.events.table_map_layout import ColumnType
from binlog_format.rows.declared.declared_types import DefaultKind, UnknownValueError
from binlog_format.rows.declared.time_zones import known_zone
from binlog_format.rows.decoding import TimeType, ZeroDates
from binlog_format.rows.values.temporal import fraction_digits

if TYPE_CHECKING:
    from binlog_format.events.table_map import Column
    from binlog_format.rows.declared.declared_types import DeclaredDefault, Moment
    from binlog_format.rows.decoding import Decoding

DATE_TYPES = frozenset({ColumnType.DATE, ColumnType.NEWDATE})
DATETIME_TYPES = frozenset({ColumnType.DATETIME, ColumnType.DATETIME2})
TIMESTAMP_TYPES = frozenset({ColumnType.TIMESTAMP, ColumnType.TIMESTAMP2})
TIME_TYPES = frozenset({ColumnType.TIME, ColumnType.TIME2})

_MICROS = 1_000_000
_DIGITS_MAX = 6
_HOURS_MAX = 838
_DATE = re.compile(
    r"(?P<year>\d{4})-(?P<month>\d{1,2})-(?P<day>\d{1,2})"
    r"(?:[ T](?P<hour>\d{1,2}):(?P<minute>\d{1,2})(?::(?P<second>\d{1,2})(?:\.(?P<fraction>\d{1,6}))?)?)?",
    re.ASCII,
)
_NUMBER_DATE = re.compile(
    r"(?P<year>\d{4})(?P<month>\d\d)(?P<day>\d\d)(?:(?P<hour>\d\d)(?P<minute>\d\d)(?P<second>\d\d))?"
    r"(?P<fraction>(?!))?",
    re.ASCII,
)
_TIME = re.compile(r"(-?)(\d{1,3}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,6}))?)?", re.ASCII)
_NUMBER_TIME = re.compile(
    r"(-?)(?:(?:(\d{1,3})(?=\d{4}))?(\d{1,2})(?=\d\d))?(\d{1,2})(?:\.(\d{1,6}))?", re.ASCII
)  # 80000 is eight o'clock, 59 a minute to come
_EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - a DATETIME has no time zone either


def declared_time(
    column: Column, default: DeclaredDefault, decoding: Decoding, moment: Moment | None
) -> datetime.date | int | str | None:
    """The value of a date or time column, as `_declared_time`; where dates are texts, as such."""
    value = _declared_time(column, default, decoding, moment)
    if decoding.zero_dates is not ZeroDates.TEXT or column.type in TIME_TYPES or isinstance(value, str):
        return value
    if isinstance(value, int):
        digits = fraction_digits(column)
        text = (_EPOCH + datetime.timedelta(microseconds=value)).isoformat(" ", "microseconds")
        return text[: -_DIGITS_MAX + digits] if digits else text[: -_DIGITS_MAX - 1]
    return None if value is None else value.isoformat()


def _declared_time(
    column: Column, default: DeclaredDefault, decoding: Decoding, moment: Moment | None
) -> datetime.date | int | str | None:
    """The value of a date or time column.

    Args:
        default: Neither NULL nor UNKNOWN.
        decoding: What becomes of zero dates and of times.
        moment: When the statement ran that puts the default into rows; None: that is not known.

    Returns:
        A date; of DATETIME and TIMESTAMP microseconds since 1970, in UTC for the latter; of TIME text or microseconds.
        For a zero or partial date None, or its text where dates are texts.
    """
    if column.type in TIME_TYPES:
        return _time(default, fraction_digits(column), decoding.time_type)
    if default.kind is DefaultKind.NOW:
        now = _now(column, default, decoding, moment)
        return (_EPOCH + datetime.timedelta(microseconds=now)).date() if column.type in DATE_TYPES else now
    if default.kind not in (DefaultKind.TEXT, DefaultKind.NUMBER):
        raise UnknownValueError("bytes for a date")
    pattern = _DATE if default.kind is DefaultKind.TEXT and "-" in default.text else _NUMBER_DATE
    match = pattern.fullmatch(default.text.strip())
    is_text = decoding.zero_dates is ZeroDates.TEXT
    if match is None and default.text.strip("0:- .") == "" and "0" in default.text:
        _check_zero(decoding)
        return _zero_text(column, None) if is_text else None
    if match is None:
        raise UnknownValueError("a date in an unusual spelling")
    micros = _micros(match)
    if micros is None:
        _check_zero(decoding)
        return _zero_text(column, match) if is_text else None
    if column.type in DATE_TYPES:
        day = datetime.timedelta(days=1)
        days, rest = divmod(datetime.timedelta(microseconds=micros), day)
        if rest:
            raise UnknownValueError("a time of day for a DATE")
        return (_EPOCH + days * day).date()
    micros = _held(micros, fraction_digits(column))
    if column.type in TIMESTAMP_TYPES:
        return known_zone(default.time_zone, decoding.system_time_zone).utc(micros)
    return micros


def _zero_text(column: Column, match: re.Match[str] | None) -> str:
    # A date that no calendar has; None: the zero date.
    parts = {} if match is None else match.groupdict()
    year, month, day, hour, minute, second = (
        int(parts.get(name) or 0) for name in ("year", "month", "day", "hour", "minute", "second")
    )
    date = f"{year:04}-{month:02}-{day:02}"
    if column.type in DATE_TYPES:
        return date
    digits = fraction_digits(column)
    fraction = (parts.get("fraction") or "").ljust(_DIGITS_MAX, "0")
    if fraction[digits:].strip("0"):
        raise UnknownValueError("more digits of a second than the column has")
    return f"{date} {hour:02}:{minute:02}:{second:02}" + (f".{fraction[:digits]}" if digits else "")


def _check_zero(decoding: Decoding) -> None:
    if decoding.zero_dates is ZeroDates.ERROR:
        raise UnknownValueError("a zero date, which option zeroDates=error refuses")


def _micros(match: re.Match[str]) -> int | None:
    year, month, day = (int(match[name]) for name in ("year", "month", "day"))
    if year == 0 or month == 0 or day == 0:
        return None
    hour, minute, second = (int(match[name] or 0) for name in ("hour", "minute", "second"))
    try:
        moment = datetime.datetime(year, month, day, hour, minute, second)  # noqa: DTZ001
    except ValueError as error:
        raise UnknownValueError("no date of the calendar") from error
    fraction = int((match["fraction"] or "").ljust(_DIGITS_MAX, "0"))
    return (moment - _EPOCH) // datetime.timedelta(microseconds=1) + fraction


def _now(column: Column, default: DeclaredDefault, decoding: Decoding, moment: Moment | None) -> int:
    if moment is None:
        raise UnknownValueError("CURRENT_TIMESTAMP")
    held = fraction_digits(column)
    digits = min(int(default.text or 0), held) or held  # NOW() has as many as the column
    if digits and moment.microseconds is None:
        raise UnknownValueError("CURRENT_TIMESTAMP, of which the log has no microseconds")
    unit = int(10 ** (_DIGITS_MAX - digits))
    micros = moment.seconds * _MICROS + (moment.microseconds or 0) // unit * unit
    if column.type in TIMESTAMP_TYPES:
        return micros
    return known_zone(moment.time_zone, decoding.system_time_zone).local(micros)


def _held(micros: int, digits: int) -> int:
    """The value that a column with so many fractional digits stores, whether its server rounds or truncates."""
    unit: int = 10 ** (_DIGITS_MAX - digits)
    if micros % unit * 2 >= unit > 1:
        raise UnknownValueError("more digits of a second than the column has")
    return micros // unit * unit


def _time(default: DeclaredDefault, digits: int, time_type: TimeType) -> int | str:
    if default.kind is DefaultKind.NOW:
        raise UnknownValueError("CURRENT_TIMESTAMP for a TIME")
    text = default.text.strip()
    match = _TIME.fullmatch(text) or _NUMBER_TIME.fullmatch(text)
    if default.kind not in (DefaultKind.TEXT, DefaultKind.NUMBER) or match is None:
        raise UnknownValueError("a time in an unusual spelling")
    hours, minutes, seconds = (int(match[number] or 0) for number in (2, 3, 4))
    fraction = (match[5] or "").ljust(_DIGITS_MAX, "0")
    if hours > _HOURS_MAX or minutes > 59 or seconds > 59:
        raise UnknownValueError("no time of day")
    micros = _held(((hours * 60 + minutes) * 60 + seconds) * _MICROS + int(fraction), digits)
    sign = match[1] if micros else ""
    if time_type is TimeType.MICROS:
        return -micros if sign else micros
    return f"{sign}{hours:02}:{minutes:02}:{seconds:02}" + (f".{fraction[:digits]}" if digits else "")
