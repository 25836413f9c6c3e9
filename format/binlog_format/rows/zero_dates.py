"""Dates that no calendar has, as the server writes them: `logged_date`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.events.table_map_layout import ColumnType

if TYPE_CHECKING:
    from binlog_format.events.table_map import Column
    from binlog_format.kernels import Bytes

_DATETIME_BIAS = 1 << 39
_TIME_BITS = 17
_MONTHS = 13  # a month of 0 counts


def logged_date(column: Column, data: Bytes, place: int) -> str | None:
    """A value of a DATE, DATETIME or TIMESTAMP column as text, also where it is no moment; fractions are left out.

    Args:
        column: Of the value.
        data: The bytes that the value is in.
        place: Where it starts there.

    Returns:
        None: a column of another type, or of `mysql56_temporal_format=OFF`.
    """
    if column.type is ColumnType.DATE or column.type is ColumnType.NEWDATE:
        packed = int.from_bytes(bytes(data[place : place + 3]), "little")
        return _date_text(packed >> 9, packed >> 5 & 15, packed & 31)
    if column.type is ColumnType.DATETIME2:
        packed = int.from_bytes(bytes(data[place : place + 5]), "big") - _DATETIME_BIAS
        date, time = packed >> _TIME_BITS, packed & ((1 << _TIME_BITS) - 1)
        months, day = date >> 5, date & 31
        return _date_text(months // _MONTHS, months % _MONTHS, day) + _time_text(time >> 12, time >> 6 & 63, time & 63)
    if column.type is ColumnType.TIMESTAMP2 and not any(bytes(data[place : place + 4])):
        return _date_text(0, 0, 0) + _time_text(0, 0, 0)
    return None


def _date_text(year: int, month: int, day: int) -> str:
    return f"{year:04}-{month:02}-{day:02}"


def _time_text(hour: int, minute: int, second: int) -> str:
    return f" {hour:02}:{minute:02}:{second:02}"
