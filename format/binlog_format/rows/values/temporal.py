"""DATE, DATETIME, TIMESTAMP and TIME to Arrow: `DATES`, `DATETIMES`, `TIMESTAMPS`, `TIMES`, in both formats.

With `ZeroDates.TEXT` all but TIME are texts. Those of days of the calendar are made of numbers, all at once; of the
others each different one is written once.

Dates as the server writes them, those too that no calendar has: `logged_date`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_format.events.table_map_layout import OLD_TEMPORAL_TYPES, ColumnType
from binlog_format.kernels import empty_bytes
from binlog_format.rows.arrow_arrays import array_mask, fixed_array, numbers_array, text_array, validity
from binlog_format.rows.column_types import (
    BadValueError,
    Family,
    UnsupportedValueError,
    check_text_size,
    old_digits,
    old_width,
)
from binlog_format.rows.declared.declared_types import split_declared
from binlog_format.rows.decoding import TimeType, ZeroDates
from binlog_format.rows.values import temporal_kernels as kernels

if TYPE_CHECKING:
    from collections.abc import Mapping

    from binlog_format.events.table_map import Column, TableLayout
    from binlog_format.kernels import Bytes, Int32s, Int64s, Mask
    from binlog_format.rows.decoding import Decoding
    from binlog_format.rows.images import Images

_DATETIME_BIAS = 1 << 39
_TIME_BITS = 17
_MONTHS = 13  # a month of 0 counts
_FRACTION_DIGITS = 6


def logged_date(column: Column, data: Bytes, place: int, digits: int = 0) -> str | None:
    """A value of a DATE, DATETIME or TIMESTAMP column as text, also where it is no moment.

    Args:
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
    # See `temporal_kernels`.
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


_DATETIME = pa.timestamp("us")
_TIMESTAMP = pa.timestamp("us", tz="UTC")
ZERO_DATE_TYPES = frozenset(
    {
        ColumnType.DATE,
        ColumnType.NEWDATE,
        ColumnType.DATETIME,
        ColumnType.DATETIME2,
        ColumnType.TIMESTAMP,
        ColumnType.TIMESTAMP2,
    }
)
"""Types of columns that may contain dates outside of the calendar."""
_SECONDS_SIZE = len("2026-01-31 12:00:00")


def fraction_digits(column: Column) -> int:
    """Digits of the fraction of a second of a TIME, DATETIME or TIMESTAMP column, 0 to 6."""
    if column.type in OLD_TEMPORAL_TYPES:
        numbers = split_declared(column.declared or "")[1]
        return numbers[0] if numbers else 0
    return column.metadata & 0xFF


def first_zero_date(images: Images, index: int) -> str | None:
    """The first value of a column that is a zero or partial date, or a day of no calendar, as the server prints it.

    Args:
        images: Of a table whose columns are understood, with `ZeroDates.NULL`.
    """
    column = images.layout.columns[index]
    if column.type not in ZERO_DATE_TYPES:
        return None
    offsets = images.column_offsets(index)
    lost = np.flatnonzero(array_mask(images.column(index).is_null()) & (offsets >= 0))
    if not len(lost):
        return None
    return logged_date(column, images.data, int(offsets[lost[0]]), fraction_digits(column))


def first_zero_dates(images: Images, known: Mapping[str, str]) -> Mapping[str, str]:
    """*known*, and of each other named column the first date that no calendar has; see `first_zero_date`."""
    found = dict(known)
    for index, column in enumerate(images.layout.columns):
        if column.name is not None and column.name not in found:
            date = first_zero_date(images, index)
            found.update({} if date is None else {column.name: date})
    return found


def _fraction_size(column: Column) -> int:
    return (fraction_digits(column) + 1) // 2


def _date_type(_layout: TableLayout, _index: int, decoding: Decoding) -> pa.DataType:
    return _or_text(pa.date32(), decoding)


def _datetime_type(layout: TableLayout, index: int, decoding: Decoding) -> pa.DataType:
    _check_digits(layout, index)
    return _or_text(_DATETIME, decoding)


def _timestamp_type(layout: TableLayout, index: int, decoding: Decoding) -> pa.DataType:
    _check_digits(layout, index)
    return _or_text(_TIMESTAMP, decoding)


def _or_text(kind: pa.DataType, decoding: Decoding) -> pa.DataType:
    return pa.string() if decoding.zero_dates is ZeroDates.TEXT else kind


def _time_type(layout: TableLayout, index: int, decoding: Decoding) -> pa.DataType:
    _check_digits(layout, index)
    return pa.int64() if decoding.time_type is TimeType.MICROS else pa.string()


def _check_digits(layout: TableLayout, index: int) -> None:
    if layout.columns[index].type in OLD_TEMPORAL_TYPES:
        old_digits(layout, index)


def _dates(column: Column, data: Bytes, offsets: Int32s, decoding: Decoding) -> pa.Array:
    days, valid = np.empty(len(offsets), dtype=np.int32), validity(offsets)
    _check(kernels.gather_dates(data, offsets, days, valid))
    return _shown(column, data, offsets, valid, fixed_array(pa.date32(), days, valid), decoding)


def _moments(column: Column, data: Bytes, offsets: Int32s, decoding: Decoding) -> pa.Array:
    micros, valid = np.empty(len(offsets), dtype=np.int64), validity(offsets)
    is_local = column.type in (ColumnType.DATETIME, ColumnType.DATETIME2)
    if column.type in OLD_TEMPORAL_TYPES:
        digits = fraction_digits(column)
        gather_old = kernels.gather_old_datetimes if is_local else kernels.gather_old_timestamps
        _check(gather_old(data, offsets, digits, old_width(column.type, digits), micros, valid))
    else:
        gather = kernels.gather_datetimes if is_local else kernels.gather_timestamps
        _check(gather(data, offsets, _fraction_size(column), micros, valid))
    values = fixed_array(_DATETIME if is_local else _TIMESTAMP, micros, valid)
    return _shown(column, data, offsets, valid, values, decoding)


def _times(column: Column, data: Bytes, offsets: Int32s, decoding: Decoding) -> pa.Array:
    micros, valid = np.empty(len(offsets), dtype=np.int64), validity(offsets)
    digits = fraction_digits(column)
    if column.type is ColumnType.TIME:
        width = old_width(column.type, digits)
        _check(kernels.gather_old_times(data, offsets, digits, width, micros))
    else:
        _check(kernels.gather_times(data, offsets, _fraction_size(column), micros))
    if decoding.time_type is TimeType.MICROS:
        return fixed_array(pa.int64(), micros, valid)
    size_max = len(offsets) * kernels.TIME_TEXT_MAX
    check_text_size(size_max)
    out = empty_bytes(size_max)
    out_offsets = np.empty(len(offsets) + 1, dtype=np.int32)
    kernels.write_times(micros, valid, digits, out_offsets, out)
    return text_array(pa.string(), out_offsets, out[: out_offsets[-1]], valid)


def _check(bad_index: int) -> None:
    if bad_index >= 0:
        raise BadValueError(bad_index, "it is no date or time")


def _shown(column: Column, data: Bytes, offsets: Int32s, valid: Mask, values: pa.Array, decoding: Decoding) -> pa.Array:
    """*values*, null where a date is none, as the decoding wants such dates."""
    if decoding.zero_dates is ZeroDates.NULL:
        return values
    zero = np.flatnonzero(validity(offsets) & ~valid)
    if decoding.zero_dates is ZeroDates.TEXT:
        return _texts(column, data, offsets, values, zero)
    if len(zero):
        raise UnsupportedValueError(
            "ZERO_DATE",
            int(zero[0]),
            "a zero or partial date, or a day that is in no calendar",
            hint="Without option zeroDates=error such dates are null",
        )
    return values


def _texts(column: Column, data: Bytes, offsets: Int32s, values: pa.Array, zero: Int64s) -> pa.Array:
    # As the server prints them; *zero*: which values are dates that no calendar has.
    digits, width = 0, 3
    if pa.types.is_timestamp(values.type):
        digits = fraction_digits(column)
        size = 4 if column.type is ColumnType.TIMESTAMP2 else 5
        old = column.type in OLD_TEMPORAL_TYPES
        width = old_width(column.type, digits) if old else size + _fraction_size(column)
        values = values.view(pa.int64()).view(_DATETIME)
    texts = values.cast(pa.string())
    if pa.types.is_timestamp(values.type):
        texts = pc.utf8_slice_codeunits(texts, 0, _SECONDS_SIZE + (digits + 1 if digits else 0))
    if not len(zero):
        return texts
    stored = data[offsets[zero].astype(np.int64)[:, None] + np.arange(width)]
    distinct, numbers = np.unique(stored, axis=0, return_inverse=True)
    made = pa.array([logged_date(column, place, 0, digits) for place in distinct], pa.string())
    places = np.arange(len(texts), dtype=np.int64)
    places[zero] = len(texts) + numbers.reshape(-1)
    return pa.concat_arrays([texts, made]).take(numbers_array(places))


DATES = Family(_date_type, _dates)
DATETIMES = Family(_datetime_type, _moments)
TIMESTAMPS = Family(_timestamp_type, _moments)
TIMES = Family(_time_type, _times)
