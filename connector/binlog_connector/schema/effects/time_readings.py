"""Dates and times that servers read in texts: `read_moment(text, ...)`, `read_time(text, ...)`.

Sources: sql-common/my_time.c of MariaDB and MySQL (`str_to_datetime`, `str_to_time`). Both read any text from its
beginning until it makes no sense any more. What they do not agree on, or what versions differ in, is not known here.
"""

from __future__ import annotations

import re
from datetime import date
from typing import TYPE_CHECKING, Final, NamedTuple

from binlog_format.vendor import Vendor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_connector.schema.effects.conversion import Circumstances

MICROS: Final = 1_000_000
DAY: Final = 86_400 * MICROS
_TIME_MAX: Final = (838 * 3600 + 59 * 60 + 59) * MICROS
_EPOCH = date(1970, 1, 1).toordinal()
_SPACES = " \t\n\v\f\r"
_LIMITS = (9999, 12, 31, 23, 59, 59)
_WHOLE_DIGITS = re.compile(r"\d+", re.ASCII)
_DELIMITERS = re.compile(r"[!-/:-@\[-`{-~]*")
_DELIMITERS_OR_SPACES = re.compile(r"[!-/:-@\[-`{-~ \t\n\v\f\r]*")
_DOUBLE_DELIMITER = re.compile(r"[!-/:-@\[-`{-~](\s|[!-/:-@\[-`{-~])|\s[!-/:-@\[-`{-~]")
_USUAL_TIME = re.compile(r"\d+:\d\d(:\d\d)?(\.\d*)?\s*", re.ASCII)
_ODD_DATE = re.compile(r"\+\d|\d{5,}[^.\d]", re.ASCII)
_PARTED = re.compile(r"\S\s+\S")
_PADDED_NUMBER = re.compile(r"\d+\s", re.ASCII)
_EXPONENT = re.compile(r"[eE][+-]?\d", re.ASCII)
_FRACTION = re.compile(r"\.(\d+)|\.$", re.ASCII)
_CLOCK = re.compile(r"(\d+):(\d+)(?::(\d+))?", re.ASCII)
_ODD_TIME = re.compile(r"\d*[ \t\n\v\f\r]+(\d.|:\d)|\+|:\d|\s|.*\d[Tt]|\d+\.[eE]", re.ASCII | re.DOTALL)
"""Days before the time, and what else versions read in different ways."""
_ODD_YEAR_DIGITS = 3
_YEARS, _DAYS_FIELD, _SECONDS, _FRACTIONS = 0, 2, 5, 6
_PART_MAX = 999_999
_NUMBER_MAX = 0xFFFFFFFF
_MOMENT_DIGITS = 14
_FULL_TEXT = 12  # bytes; a text that is as long may be a date with a time


class TimeReading(NamedTuple):
    """Time that a server reads from a value.

    Attributes:
        micros: Microseconds of a time, or since 1970-01-01 00:00:00 in the same time zone; None: 0000-00-00, or another
            date with a zero in it.
        misfit: A strict session refuses the value.
    """

    micros: int | None
    misfit: bool = False


ZERO_DATE: Final = TimeReading(None, misfit=True)
NO_TIME: Final = TimeReading(0, misfit=True)


class _Fields(NamedTuple):
    values: tuple[int, ...]
    found: int
    year_digits: int
    rest: str
    is_delimited: bool
    has_space: bool


def time_end(vendor: Vendor) -> int:
    """Microseconds of the largest TIME."""
    return _TIME_MAX if vendor is Vendor.MYSQL else _TIME_MAX + MICROS - 1


def read_moment(text: str, how: Circumstances, *, with_partial_dates: bool) -> TimeReading | None:
    """A date, perhaps with a time; None: it is not known what the server makes of it.

    Args:
        with_partial_dates: The column takes dates with a month or day of zero; TIMESTAMP does not.
    """
    text = text.lstrip(_SPACES)
    if _ODD_DATE.match(text) and how.vendor is not Vendor.MYSQL:
        return None  # MariaDB reads the number at the beginning
    if not text or text[0] not in "0123456789":
        return ZERO_DATE
    if not text.isascii() or _PADDED_NUMBER.match(text):
        return None  # some of the bytes may count as delimiters; spaces may be cut off first
    fields = _fields(text)
    if fields is None:
        return None
    if fields.found == 0:
        return ZERO_DATE
    moment = _moment(fields, how, with_partial_dates=with_partial_dates)
    return None if _is_odd(text, fields, moment, how) else moment


def _is_odd(text: str, fields: _Fields, moment: TimeReading | None, how: Circumstances) -> bool:
    """True if MariaDB reads another date, or none: it takes one delimiter at a time, a point for that of a fraction."""
    if how.vendor is Vendor.MYSQL or moment is None:
        return False
    consumed = text[: len(text) - len(fields.rest)]
    if _DOUBLE_DELIMITER.search(consumed) is not None:
        return True
    digits = len(_leading_digits(consumed))
    if consumed[digits : digits + 1] != ".":
        return False
    if digits == _ODD_YEAR_DIGITS:
        return True  # 123.01.24 is of the year 123
    # 1.1.24 is of the year 1, and in 2001.01.24 102030.5 there is no time.
    return moment.micros is not None and (digits == 1 or fields.found <= _FRACTIONS or ":" not in consumed)


def _fields(text: str) -> _Fields | None:
    """Fields of a date and time; of none of them where there is no date in the text; None: not known."""
    digits = _leading_digits(text)
    follows = text[len(digits) : len(digits) + 1]
    if follows in ("T", "t"):
        return None
    if not follows or follows == ".":
        year_digits = 4 if len(digits) in (4, 8) or len(digits) >= _MOMENT_DIGITS else 2
        return _scanned(text, [year_digits, 2, 2, 2, 2, 2, 6], year_digits)
    return _scanned(text, None, len(digits))


def _scanned(text: str, widths: list[int] | None, year_digits: int) -> _Fields | None:
    values: list[int] = []
    is_delimited = has_space = False
    while len(values) <= _FRACTIONS and text[:1].isdigit():
        at = len(values)
        found = _leading_digits(text)
        if widths is not None:
            found = found[: widths[at]]
        elif at == _FRACTIONS:
            found = found[:6]
        text = text[len(found) :]
        if int(found) > _PART_MAX:
            return _Fields((), 0, 0, text, is_delimited, has_space)
        values.append(int(found) * 10 ** (6 - len(found)) if at == _FRACTIONS else int(found))
        if not text:
            break
        if at == _FRACTIONS:
            return None if text.strip(_SPACES) else _whole(values, year_digits, text, is_delimited, has_space)
        if at == _SECONDS:
            if text[0] != ".":
                # What follows is of no use, but for a time zone, which newer versions read, and for more digits.
                is_open = text[0] in "+-0123456789" and not _is_beyond(values)
                return None if is_open else _whole(values, year_digits, text, is_delimited, has_space)
            text = text[1:]
        elif at == _DAYS_FIELD and text[0] == "T":
            text = text[1:]
        else:
            between = (_DELIMITERS_OR_SPACES if at == _DAYS_FIELD else _DELIMITERS).match(text)
            assert between is not None
            is_delimited |= bool(between[0])
            has_space |= any(space in between[0] for space in _SPACES)
            text = text[between.end() :]
            if at != _DAYS_FIELD and text[:1] and text[0] in _SPACES:
                # MariaDB stops reading there; with less than three fields that is no date either.
                return None if at > _DAYS_FIELD else _Fields((), 0, 0, text, is_delimited, has_space)
    return _whole(values, year_digits, text, is_delimited, has_space)


def _is_beyond(values: Sequence[int]) -> bool:
    return any(value > limit for value, limit in zip(values, _LIMITS, strict=False))


def _leading_digits(text: str) -> str:
    match = _WHOLE_DIGITS.match(text)
    return "" if match is None else match[0]


def _whole(values: list[int], year_digits: int, rest: str, is_delimited: bool, has_space: bool) -> _Fields:
    count = len(values)
    return _Fields((*values, *[0] * (7 - count)), count, year_digits, rest, is_delimited, has_space)


def _moment(fields: _Fields, how: Circumstances, *, with_partial_dates: bool) -> TimeReading | None:
    year, month, day, hour, minute, second, fraction = fields.values
    is_zero = not any(fields.values)
    if fields.year_digits == 2 and not is_zero:
        year += 2000 if year < 70 else 1900
    has_garbage = bool(fields.rest.strip(_SPACES))
    if fields.found < 3 or _is_beyond((year, month, day, hour, minute, second)):
        return TimeReading(None, not is_zero or has_garbage)
    if is_zero:
        return TimeReading(None, has_garbage)
    if month == 0 or day == 0:
        return TimeReading(None, has_garbage or not with_partial_dates)
    if year == 0:
        return None  # the calendar of targets begins with year 1
    try:
        days = date(year, month, day).toordinal() - _EPOCH
    except ValueError:
        return None if how.allows_invalid_dates else ZERO_DATE
    return TimeReading(days * DAY + ((hour * 60 + minute) * 60 + second) * MICROS + fraction, has_garbage)


def read_time(text: str, how: Circumstances) -> TimeReading | None:
    """A time, perhaps after a date; None: it is not known what the server makes of it."""
    is_mysql = how.vendor is Vendor.MYSQL
    text = text.lstrip(_SPACES)
    is_negative = text.startswith("-")
    text = text.removeprefix("-")
    if _ODD_TIME.match(text):
        return None
    if not text:
        return TimeReading(0, misfit=not is_mysql or is_negative)
    if len(text.encode()) >= _FULL_TEXT and text[0] in "0123456789":
        found = _time_of_moment(text, how)
        if found is NO_TIME and not is_mysql:
            # MariaDB looks for a time then.
            again = _bare_time(text, how, is_negative=is_negative)
            return again if again is not None and again.micros == 0 else None
        if found is not _NO_MOMENT:
            return None if is_negative else found
        if not is_mysql and not _USUAL_TIME.fullmatch(text):
            return None
    if not is_mysql and text[0] in "0123456789" and _PARTED.search(text):
        return None  # MariaDB looks for a date first
    return _bare_time(text, how, is_negative=is_negative)


def _bare_time(text: str, how: Circumstances, *, is_negative: bool) -> TimeReading | None:
    is_mysql = how.vendor is Vendor.MYSQL
    digits = _leading_digits(text)
    if int(digits or 0) >= _NUMBER_MAX and is_mysql:
        return NO_TIME
    clock = _CLOCK.match(text)
    if clock is not None:
        parts = tuple(int(part or 0) for part in clock.groups())
        rest = text[clock.end() :]
        if not (is_mysql or how.strict or how.is_compared) and clock[3] is None and rest.startswith("."):
            return None  # 12:29.5 is 00:00:00 in MariaDB 10.2.11, and 12:29:00.5 in 10.11.5
    else:
        number = int(digits or 0)
        parts, rest = (number // 10_000, number // 100 % 100, number % 100), text[len(digits) :]
        rest = rest.lstrip(_SPACES)
    return _time(parts, rest, how.vendor, is_negative=is_negative)


_NO_MOMENT: Final = TimeReading(-1)


def _time_of_moment(text: str, how: Circumstances) -> TimeReading | None:
    if not text.isascii():
        return None
    fields = _fields(text)
    if fields is None:
        return None
    if fields.found == 0 or (fields.is_delimited and not fields.has_space):
        return _NO_MOMENT
    moment = _moment(fields, how, with_partial_dates=True)
    if fields.found == _DAYS_FIELD + 1 and how.vendor is not Vendor.MYSQL:
        return None  # a date without a time is none for MariaDB
    is_partial = fields.found > _DAYS_FIELD and 0 in fields.values[1:3] and not _is_beyond(fields.values[:6])
    if moment is None or is_partial or _is_odd(text, fields, moment, how):
        return None
    if moment is ZERO_DATE:
        return None  # of February 30th newer versions take the time
    return NO_TIME if moment.micros is None else TimeReading(moment.micros % DAY, moment.misfit)


def _time(parts: tuple[int, ...], rest: str, vendor: Vendor, *, is_negative: bool) -> TimeReading | None:
    hours, minutes, seconds = parts
    fraction = 0
    point = _FRACTION.match(rest)
    if point is not None:
        digits = point[1] or ""
        if digits[6:].strip("0"):
            return None  # it is rounded, or is not
        fraction, rest = int(digits[:6].ljust(6, "0")), rest[point.end() :]
    if _EXPONENT.match(rest):
        return TimeReading(0, misfit=vendor is not Vendor.MYSQL)
    if minutes > 59 or seconds > 59:
        return NO_TIME
    micros = ((hours * 60 + minutes) * 60 + seconds) * MICROS + fraction
    misfit = bool(rest.strip(_SPACES))
    end = time_end(vendor)
    if micros > end:
        micros, misfit = end, True
    return TimeReading(-micros if is_negative else micros, misfit)
