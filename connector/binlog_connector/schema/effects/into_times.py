"""Conversion of texts and numbers to dates and times, as servers do it: `times_of_texts`, `times_of_numbers_in`.

A text that has the form in which servers show dates and times is read by Arrow, any other one by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_connector.schema.effects import number_texts, numbers, times
from binlog_connector.schema.effects.conversion import (
    UNKNOWN,
    Converted,
    Unknown,
    Values,
    by_distinct,
    by_form,
    either,
    int64s,
    where_known,
)
from binlog_connector.schema.effects.number_times import moments_of_numbers, parts_of, times_of_numbers, whole_parts_of
from binlog_connector.schema.effects.time_readings import DAY, MICROS, TimeReading, read_moment, read_time, time_end
from binlog_connector.schema.effects.times import DATE, DATETIME, TIME, TIMESTAMP
from binlog_format.vendor import Vendor

if TYPE_CHECKING:
    from binlog_connector.schema.effects.conversion import Circumstances, ColumnSide, Effect
    from binlog_format.kernels import Int64s, Mask

_FORMS = {
    DATE: r"^\d{4}-\d{2}-\d{2}$",
    DATETIME: r"^\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}(\.\d{1,6})?$",
    TIMESTAMP: r"^\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}(\.\d{1,6})?$",
    TIME: r"^-?\d{2,3}:[0-5]\d:[0-5]\d(\.\d{1,6})?$",
}
_NO_DATE = (
    r"^0000|^\d{4}-(00|1[3-9]|[2-9]\d)|^.{8}(00|3[2-9]|[4-9]\d)|^.{5}((0[469]|11)-31|02-3|02-29)"
    r"| (2[4-9]|[3-9]\d)|:[6-9]"
)
"""Dates that there are not, or that are only in some years: these are read one by one."""


def times_of_texts(new: ColumnSide, how: Circumstances) -> Effect:
    """Texts, or bytes as such, as a column of dates or times takes them."""
    read = by_distinct(lambda text: _reading(str(text), new, how), pa.int64())

    def usual(texts: pa.Array) -> pa.Array:
        if new.type_name == TIME:
            end = time_end(how.vendor)
            micros = np.clip(times.micros_of_times(texts), -end, end)
            return pa.array(micros, mask=texts.is_null().to_numpy(zero_copy_only=False))
        return texts.cast(pa.timestamp("us")).cast(pa.int64())

    micros_of = by_form(_FORMS[new.type_name], None if new.type_name == TIME else _NO_DATE, usual, read)

    def convert(texts: pa.Array) -> Values:
        found = micros_of(texts)
        after = stored(int64s(found.array), found.array.is_null().to_numpy(zero_copy_only=False), new, how)
        return Values(after.array, either(found.unknown, after.unknown))

    shift = times.zone_shift(how) if new.type_name == TIMESTAMP else None
    why = f" ({shift})" if isinstance(shift, str) else ""
    return Converted(convert, f"texts are read as dates and times{why}")


def _reading(text: str, new: ColumnSide, how: Circumstances) -> object:
    found: TimeReading | None
    if new.type_name == TIME:
        found = read_time(text, how)
    else:
        found = read_moment(text, how, with_partial_dates=new.type_name != TIMESTAMP)
    if found is None or (found.misfit and how.strict):
        return UNKNOWN
    return UNKNOWN if found.micros is None and not how.null_may_be_zero_date else found.micros


def times_of_numbers_in(old: ColumnSide, new: ColumnSide, how: Circumstances) -> Effect:
    """Numbers as a column of dates or times takes them."""
    if how.is_old_mariadb:
        return Unknown("MariaDB before 10.2 reads another date in some numbers, or none")
    is_bit = old.type_name == numbers.BIT
    by_text = old.type_name in (numbers.FLOAT, numbers.DOUBLE, numbers.YEAR) or how.vendor is Vendor.MYSQL
    read = times_of_texts(new, how)
    if isinstance(read, Unknown) or (by_text and not is_bit):
        return _by_text(old, read)

    def convert(values: pa.Array) -> Values:
        if old.type_name == numbers.DECIMAL:
            whole, below, unknown = parts_of(numbers.exact(values, numbers.scale_of(old)))
        else:
            whole, below, unknown = whole_parts_of(values)
        missing = values.is_null().to_numpy(zero_copy_only=False)
        if new.type_name == TIME:
            micros, misfit, open_ones = times_of_numbers(whole, below, how)
            zero = np.zeros(len(values), dtype=np.bool_)
        else:
            # A number below zero is no date, whatever it has after the point.
            micros, zero, misfit, open_ones = moments_of_numbers(np.where(below < 0, -1, whole), below, how)
        unknown = unknown | open_ones | (misfit if how.strict else False) | (zero & (not how.null_may_be_zero_date))
        unknown &= ~missing
        after = stored(micros, missing | zero | unknown, new, how)
        return Values(after.array, either(unknown if unknown.any() else None, after.unknown))

    return Converted(convert, "numbers are read as dates and times")


def _by_text(old: ColumnSide, read: Effect) -> Effect:
    write = number_texts.text_of_number(old)
    if not isinstance(read, Converted):
        return read
    if write is None:
        return Unknown(f"how the server writes a {old.type_name.upper()} as text")
    return Converted(lambda values: write(values).then(read.convert), read.what)


def stored(micros: Int64s, missing: Mask, new: ColumnSide, how: Circumstances) -> Values:
    """Microseconds of times, or of moments in the session's time zone, as a column of dates or times holds them."""
    if new.type_name == TIME:
        return _stored_times(micros, missing, new, how)
    local = pa.array(micros, pa.int64(), mask=missing).cast(pa.timestamp("us"))
    if new.type_name == DATE:
        return times.to_dates(local, how)
    moments = times.rounded_moments(local, new.fraction_digits, how)
    if new.type_name == DATETIME:
        return moments
    shift = times.zone_shift(how)
    if isinstance(shift, str):
        # A server that needed the time zone for no value has not written it into the log.
        return where_known(local.cast(new.arrow_type), ~missing)
    return moments.then(lambda values: shift.to_utc(values, how))


def _stored_times(micros: Int64s, missing: Mask, new: ColumnSide, how: Circumstances) -> Values:
    size = times.rounded_times(np.abs(micros), new.fraction_digits, how)
    signed = np.where(micros < 0, -size, size)
    if how.times_are_texts:
        return Values(times.time_texts(signed, ~missing, new.fraction_digits))
    return Values(pa.array(signed, mask=missing))


def moments_of_times(_old: ColumnSide, new: ColumnSide, how: Circumstances) -> Effect:
    """Times as moments of the day of the statement."""
    shift = times.zone_shift(how)
    if isinstance(shift, str):
        return Unknown(shift)
    start = pa.array([how.moment.seconds * MICROS], pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    today = int64s(shift.to_local(start).cast(pa.int64()))[0] // DAY * DAY

    def convert(values: pa.Array) -> Values:
        return stored(times.micros_of_times(values) + today, values.is_null().to_numpy(zero_copy_only=False), new, how)

    return Converted(convert, "times get the date of the statement")


def time_of_moments(old: ColumnSide, new: ColumnSide, how: Circumstances) -> Effect:
    """Dates and moments as times of the day."""
    shift = times.zone_shift(how) if old.type_name == TIMESTAMP else None
    if isinstance(shift, str):
        return Unknown(shift)

    def convert(values: pa.Array) -> Values:
        local = values if shift is None else shift.to_local(values)
        micros = int64s(local.cast(pa.timestamp("us")).cast(pa.int64())) % DAY
        after = stored(micros, values.is_null().to_numpy(zero_copy_only=False), new, how)
        return Values(after.array, times.null_is_open(values, how))

    return Converted(convert, "dates are cut off")
