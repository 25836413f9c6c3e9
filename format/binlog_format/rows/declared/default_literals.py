"""Values that statements declare as defaults, by kind. Dates and times: `declared_time(column, default, ...)`.

Texts, bytes and labels: `declared_text(column, default)`, `declared_label`, `declared_set`.
"""

from __future__ import annotations

import datetime
import re
from typing import TYPE_CHECKING

from binlog_format.events.charsets import decode_text
from binlog_format.events.table_map_layout import ColumnType
from binlog_format.rows.declared.declared_types import DefaultKind, UnknownValueError, split_declared
from binlog_format.rows.declared.time_zones import known_zone
from binlog_format.rows.decoding import TimeType, ZeroDates
from binlog_format.rows.values.temporal import fraction_digits
from binlog_format.rows.values.text import set_text

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


_EXACT_NUMBER = re.compile(r"(-?)(?=[\d.])(\d*)(\.\d+)?", re.ASCII)


def declared_text(column: Column, default: DeclaredDefault) -> str | bytes:
    """The value of a column of text or bytes. Raises `UnknownValueError`."""
    name, numbers = split_declared(column.declared or "")
    if column.charset == "binary":
        return _binary(name, numbers[0] if numbers else 1, default)
    if default.kind in (DefaultKind.BITS, DefaultKind.BYTES):
        text = _characters(bytes.fromhex(default.text), column.charset or "")
    elif default.kind is DefaultKind.NUMBER:
        text = _digits(default.text)
    else:
        text = default.text
    if numbers and name in ("char", "varchar") and len(text) > numbers[0]:
        raise UnknownValueError("a text that the column does not hold")
    return text.rstrip(" ") if name == "char" else text


def _digits(number: str) -> str:
    """The text of a number: leading zeros are removed, and zeros after its decimal point are kept."""
    match = _EXACT_NUMBER.fullmatch(number)
    if match is None:
        raise UnknownValueError("a number for a text")
    sign, whole, fraction = match.groups(default="")
    text = (whole.lstrip("0") or "0") + fraction
    return sign + text if text.strip("0.") else text


def _characters(content: bytes, charset: str) -> str:
    if not content.isascii():
        raise UnknownValueError("bytes for a text")
    try:
        return decode_text(content, charset)
    except UnicodeDecodeError as error:
        raise UnknownValueError("bytes for a text") from error


def _binary(name: str, size: int, default: DeclaredDefault) -> bytes:
    if default.kind in (DefaultKind.BITS, DefaultKind.BYTES):
        content = bytes.fromhex(default.text)
    elif default.kind is DefaultKind.NUMBER:
        content = _digits(default.text).encode()
    elif not default.text.isascii():
        raise UnknownValueError("a text for bytes")
    else:
        content = default.text.encode()
    if name in ("binary", "varbinary") and len(content) > size:
        raise UnknownValueError("bytes that the column does not hold")
    return content.ljust(size, b"\0") if name == "binary" else content


def _labels(column: Column, default: DeclaredDefault) -> dict[str, str]:
    """The labels of an ENUM or SET, and what they are under when upper and lower case are one."""
    if column.enum_values is None or default.kind is not DefaultKind.TEXT:
        raise UnknownValueError("no label")
    folded: dict[str, str] = {}
    for label in column.enum_values:
        folded.setdefault(label.casefold(), label)
    return folded | {label: label for label in column.enum_values}


def _label(labels: dict[str, str], text: str) -> str:
    wanted = text if text in labels else text.rstrip(" ")
    found = labels.get(wanted) or labels.get(wanted.casefold())
    if found is None and wanted not in labels:
        raise UnknownValueError("no label")
    return found or wanted


def declared_label(column: Column, default: DeclaredDefault) -> str:
    """The value of an ENUM. Raises `UnknownValueError`."""
    return _label(_labels(column, default), default.text)


def declared_set(column: Column, default: DeclaredDefault) -> str:
    """The value of a SET. Raises `UnknownValueError`."""
    labels = _labels(column, default)
    if not default.text:
        return ""
    chosen = {_label(labels, part) for part in default.text.split(",")}
    return set_text(label for label in column.enum_values or () if label in chosen)
