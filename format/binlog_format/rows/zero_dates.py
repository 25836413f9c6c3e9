"""Dates as the server writes them, those too that no calendar has: `logged_date`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.events.table_map_layout import ColumnType
from binlog_format.rows.column_types import old_width

if TYPE_CHECKING:
    from binlog_format.events.table_map import Column
    from binlog_format.kernels import Bytes

_DATETIME_BIAS = 1 << 39
_TIME_BITS = 17
_MONTHS = 13  # a month of 0 counts
_FRACTION_DIGITS = 6


def logged_date(column: Column, data: Bytes, place: int, digits: int = 0) -> str | None:
    """A value of a DATE, DATETIME or TIMESTAMP column as text, also where it is no moment.

    Args:
        column: Of the value.
        data: The bytes that the value is in.
        place: Where it starts there.
        digits: Of a fraction of a second that the column has.

    Returns:
        None: a column of another type, or a TIMESTAMP that is a moment.
    """
    if column.type is ColumnType.DATE or column.type is ColumnType.NEWDATE:
        packed = int.from_bytes(bytes(data[place : place + 3]), "little")
        return _date_text(packed >> 9, packed >> 5 & 15, packed & 31)
    if column.type is ColumnType.DATETIME2:
        packed = int.from_bytes(bytes(data[place : place + 5]), "big") - _DATETIME_BIAS
        date, time = packed >> _TIME_BITS, packed & ((1 << _TIME_BITS) - 1)
        months, day = date >> 5, date & 31
        size = (digits + 1) // 2
        fraction = int.from_bytes(bytes(data[place + 5 : place + 5 + size]), "big") * 10 ** (
            _FRACTION_DIGITS - 2 * size
        )
        clock = _time_text(time >> 12, time >> 6 & 63, time & 63)
        return _date_text(months // _MONTHS, months % _MONTHS, day) + clock + _fraction_text(fraction, digits)
    if column.type is ColumnType.DATETIME:
        return _old_datetime(data, place, digits)
    if column.type in (ColumnType.TIMESTAMP, ColumnType.TIMESTAMP2) and not any(bytes(data[place : place + 4])):
        return _date_text(0, 0, 0) + _time_text(0, 0, 0) + _fraction_text(0, digits)
    return None


def _old_datetime(data: Bytes, place: int, digits: int) -> str:
    # See `values.old_temporal_kernels`.
    if not digits:
        packed = int.from_bytes(bytes(data[place : place + 8]), "little")
        date, time = divmod(packed, 1_000_000)
        clock = _time_text(time // 10_000, time // 100 % 100, time % 100)
        return _date_text(date // 10_000, date // 100 % 100, date % 100) + clock
    per_second = 10**digits
    stored = bytes(data[place : place + old_width(ColumnType.DATETIME, digits)])
    seconds, fraction = divmod(int.from_bytes(stored, "big"), per_second)
    days, time = divmod(seconds, 86_400)
    clock = _time_text(time // 3600, time // 60 % 60, time % 60)
    date_text = _date_text(days // (32 * _MONTHS), days // 32 % _MONTHS, days % 32)
    return date_text + clock + _fraction_text(fraction * 10 ** (_FRACTION_DIGITS - digits), digits)


def _date_text(year: int, month: int, day: int) -> str:
    return f"{year:04}-{month:02}-{day:02}"


def _time_text(hour: int, minute: int, second: int) -> str:
    return f" {hour:02}:{minute:02}:{second:02}"


def _fraction_text(micros: int, digits: int) -> str:
    return f".{micros:0{_FRACTION_DIGITS}}"[: 1 + digits] if digits else ""
