"""Conversion of texts and numbers to dates and times, as servers do it: `times_of_texts`, `times_of_numbers_in`.

A text that has the form in which servers show dates and times is read by Arrow, any other one by itself.

Numbers that dates and times become, and what numbers are as such: `numbers_of_times`, `moments_of_numbers`, ...

Sources: sql-common/my_time.c of MariaDB and MySQL (`number_to_datetime`, `number_to_time`,
`TIME_to_ulonglong_datetime`): 20240102030405 is 2024-01-02 03:04:05, 30405 is 03:04:05. MariaDB takes whole numbers and
decimals for such ones; MySQL takes the texts of all numbers but BIT.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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
    true_mask,
    where_known,
    where_unknown_too,
)
from binlog_connector.schema.effects.time_readings import DAY, MICROS, TimeReading, read_moment, read_time, time_end
from binlog_connector.schema.effects.times import DATE, DATETIME, TIME, TIMESTAMP
from binlog_format.vendor import Vendor

if TYPE_CHECKING:
    from binlog_connector.schema.effects.conversion import Circumstances, ColumnSide, Effect
    from binlog_format.kernels import Int64s, Mask


_MONTH_DAYS: Final = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
_TIME_NUMBER_MAX = 8_385_959
_MOMENT_MIN = 101_000_000
_LARGE_TIME = 9_999_999
_SHORT_MAX, _LONG_MIN = 991_231, 10_000_101  # MariaDB takes no year below 1000 from a number
_MOMENT_MAX = 99_991_231_235_959
_DIGITS = 36
_WHOLE_MAX = 10**17


def numbers_of_times(old: ColumnSide, new: ColumnSide, how: Circumstances) -> Effect:
    """Effect on dates and times whose column becomes a number."""
    shift = times.zone_shift(how) if old.type_name == times.TIMESTAMP else None
    if isinstance(shift, str):
        return Unknown(shift)
    by_years = new.type_name == numbers.YEAR and how.vendor is not Vendor.MYSQL
    is_whole = new.type_name not in (numbers.DECIMAL, numbers.FLOAT, numbers.DOUBLE)
    fit = numbers.from_exact(new, how)
    may_be_zero = old.type_name == times.TIME and new.type_name == numbers.DECIMAL and how.may_lose_small_times

    def convert(values: pa.Array) -> Values:
        valid = values.is_valid().to_numpy(zero_copy_only=False)
        if old.type_name == times.TIME:
            micros = times.micros_of_times(values)
        else:
            local = values if shift is None else shift.to_local(values)
            micros = int64s(local.cast(pa.timestamp("us")).cast(pa.int64()))
        unknown = None if old.type_name == times.TIME else times.null_is_open(values, how)
        if may_be_zero:
            unknown = valid & (micros != 0) & (np.abs(micros) < MICROS)
        if by_years:
            years = np.zeros_like(micros) if old.type_name == times.TIME else years_of(micros)
            found = fit(numbers.exact(pa.array(years, mask=~valid), 0))
            # Each value is refused by a strict session.
            return where_unknown_too(Values(found.array, either(found.unknown, unknown)), valid & how.strict)
        if is_whole:
            # Each server has its own way, whatever sql_mode says about fractions in columns of times.
            rounds = how.vendor is Vendor.MYSQL
            if rounds == how.cuts_fractions:
                unknown = either(unknown, valid & (micros % MICROS != 0))
            size = np.abs(micros) if old.type_name == times.TIME else micros
            size = (size + MICROS // 2 if rounds else size) // MICROS * MICROS
            unknown = either(unknown, valid & (size >= times.YEAR_10000))
            micros = np.where(micros < 0, -size, size) if old.type_name == times.TIME else size
        if old.type_name == times.TIME:
            whole = clock_numbers(micros)
        else:
            whole = calendar_numbers(micros, with_time=old.type_name != times.DATE)
        wide = numbers.exact(pa.array(whole, mask=~valid), 0) if is_whole else with_fractions(whole, micros, valid)
        found = fit(wide)
        return Values(found.array, either(found.unknown, unknown))

    return Converted(convert, "dates and times become the numbers that their digits make")


def clock_numbers(micros: Int64s) -> Int64s:
    """Numbers HHMMSS that the digits of times make; what they have below a second is cut off."""
    seconds = np.abs(micros) // MICROS
    numbers = seconds // 3600 * 10_000 + seconds // 60 % 60 * 100 + seconds % 60
    signed: Int64s = np.where(micros < 0, -numbers, numbers)
    return signed


def calendar_numbers(micros: Int64s, *, with_time: bool) -> Int64s:
    """Numbers YYYYMMDD, or YYYYMMDDHHMMSS, that the digits of dates make."""
    days = (micros // DAY).astype("datetime64[D]")
    years, months = days.astype("datetime64[Y]"), days.astype("datetime64[M]")
    numbers: Int64s = (
        (years.astype(np.int64) + 1970) * 10_000
        + (months.astype(np.int64) % 12 + 1) * 100
        + (days - months).astype(np.int64)
        + 1
    )
    return numbers * 1_000_000 + clock_numbers(micros % DAY) if with_time else numbers


def years_of(micros: Int64s) -> Int64s:
    """Years of moments."""
    years: Int64s = (micros // DAY).astype("datetime64[D]").astype("datetime64[Y]").astype(np.int64) + 1970
    return years


def with_fractions(numbers: Int64s, micros: Int64s, valid: Mask) -> pa.Array:
    """Numbers of moments or times with what these have below a second, as decimals with six digits for that."""
    # Moments before 1970 are below zero, and count up all the same.
    below = np.where((micros < 0) & (numbers > 0), micros % MICROS, np.sign(micros) * (np.abs(micros) % MICROS))
    wide = pa.decimal128(_DIGITS, 6)
    parts = pa.array(below, mask=~valid).cast(pa.decimal128(_DIGITS, 0))
    millionths = pa.Array.from_buffers(wide, len(parts), parts.buffers(), offset=parts.offset)
    return pc.add(pa.array(numbers, mask=~valid).cast(wide), millionths)


def moments_of_numbers(numbers: Int64s, fractions: Int64s, how: Circumstances) -> tuple[Int64s, Mask, Mask, Mask]:
    """Numbers and their millionths as moments.

    Returns:
        Microseconds since 1970; where the result is 0000-00-00, or has a month or day of zero; where a strict session
        refuses the number; and where the result is not known.
    """
    full = _with_century(numbers)
    if how.vendor is not Vendor.MYSQL:
        full = np.where((numbers > _SHORT_MAX) & (numbers < _LONG_MIN), -1, full)
    days_part, clock = full // 1_000_000, full % 1_000_000
    years, months, days = days_part // 10_000, days_part // 100 % 100, days_part % 100
    hours, minutes, seconds = clock // 10_000, clock // 100 % 100, clock % 100
    bad = (full < 0) | (years > 9999) | (months > 12) | (days > 31) | (hours > 23) | (minutes > 59) | (seconds > 59)
    is_zero = (full == 0) & (fractions == 0)
    partial = ~bad & ~is_zero & ((months == 0) | (days == 0))
    leap = (years % 4 == 0) & ((years % 100 != 0) | (years % 400 == 0))
    last = _MONTH_DAYS[np.where(bad, 0, months)] + (leap & (months == 2))
    invalid = ~bad & ~partial & ~is_zero & (days > last)
    # What a date without a time has after the point is kept, or is not.
    is_open = ~bad & ~partial & (fractions != 0) & (numbers < _MOMENT_MIN)
    unknown = is_open | (invalid & how.allows_invalid_dates) | (~bad & ~partial & ~is_zero & (years == 0))
    zero = bad | is_zero | invalid | partial
    safe = np.where(zero | unknown, 1, 0)
    first = (np.where(safe, 1970, years) - 1970).astype("datetime64[Y]").astype("datetime64[M]")
    firsts = (first + np.where(safe, 1, months) - 1).astype("datetime64[D]").astype(np.int64)
    micros = (firsts + np.where(safe, 1, days) - 1) * DAY + ((hours * 60 + minutes) * 60 + seconds) * MICROS + fractions
    return np.where(safe, 0, micros), zero & ~unknown, bad | (invalid & ~unknown), unknown


def _with_century(numbers: Int64s) -> Int64s:
    """YYYYMMDDHHMMSS of numbers that lack a century or a time; -1: a number that is no date."""
    choices = [
        (numbers == 0) | (numbers >= 10_000_101_000_000),
        numbers < 101,
        numbers <= 691_231,
        numbers < 700_101,
        numbers <= 991_231,
        numbers < 10_000_101,
        numbers <= 99_991_231,
        numbers < 101_000_000,
        numbers <= 691_231_235_959,
        numbers < 700_101_000_000,
        numbers <= 991_231_235_959,
    ]
    no_date = np.full_like(numbers, -1)
    results = [
        np.where(numbers <= 99_999_999_999_999, numbers, -1),
        no_date,
        (numbers + 20_000_000) * 1_000_000,
        no_date,
        (numbers + 19_000_000) * 1_000_000,
        # A year below 1000 is one all the same in a column that takes dates with zeros.
        numbers * 1_000_000,
        numbers * 1_000_000,
        no_date,
        numbers + 20_000_000_000_000,
        no_date,
        numbers + 19_000_000_000_000,
    ]
    found: Int64s = np.select(choices, results, default=numbers)
    return np.where(numbers < 0, -1, found)


def times_of_numbers(numbers: Int64s, fractions: Int64s, how: Circumstances) -> tuple[Int64s, Mask, Mask]:
    """Numbers and their millionths as times.

    Returns:
        Microseconds; where a strict session refuses the number; where the result is not known.
    """
    as_mysql = how.vendor is Vendor.MYSQL
    size = np.abs(numbers)
    is_negative = (numbers < 0) | ((numbers == 0) & (fractions < 0))
    below = np.abs(fractions)
    least = 10_000_000_000 if as_mysql else _LARGE_TIME + 1
    is_moment = ~is_negative & (numbers >= least) & (as_mysql | (numbers < _MOMENT_MAX))
    moments, zero, bad, unknown = moments_of_numbers(np.where(is_moment, numbers, 0), below, how)
    too_large = size > _TIME_NUMBER_MAX
    wrong = (size // 100 % 100 > 59) | (size % 100 > 59)
    # MySQL looks at minutes and seconds of numbers alone that are not too large, MariaDB at these first.
    wrong &= ~too_large if as_mysql else True
    micros = ((size // 10_000 * 60 + size // 100 % 100) * 60 + size % 100) * MICROS + below
    end = time_end(how.vendor)
    micros = np.where(wrong, 0, np.where(too_large | (micros > end), end, micros))
    micros = np.where(is_negative, -micros, micros)
    misfit = wrong | too_large
    of_moment = is_moment & ~(bad & as_mysql)
    micros = np.where(of_moment, np.where(zero, 0, moments % DAY), micros)
    return micros, np.where(of_moment, zero, misfit), of_moment & (unknown | (zero & ~bad))


def parts_of(values: pa.Array) -> tuple[Int64s, Int64s, Mask]:
    """Wide decimals as whole numbers and millionths, both of the number's sign; where these have no room for them."""
    kind = pa.decimal256(60, max(values.type.scale, 6))
    large = true_mask(pc.greater(pc.abs(values), pa.scalar(_WHOLE_MAX, pa.decimal256(20, 0))))
    values = where_known(values, large).array.cast(kind)
    whole = pc.round(values, ndigits=0, round_mode="towards_zero")
    below = pc.subtract(values, whole)
    millionths = pc.round(below, ndigits=6, round_mode="towards_zero")
    lost = true_mask(pc.not_equal(millionths, below))
    kept = millionths.cast(pa.decimal256(60, 6))
    parts = pa.Array.from_buffers(pa.decimal256(60, 0), len(kept), kept.buffers(), offset=kept.offset)
    return int64s(whole), int64s(parts), large | lost


def whole_parts_of(values: pa.Array) -> tuple[Int64s, Int64s, Mask]:
    """The same of whole numbers; too large ones are others that are too large, with the same last digits."""
    whole = values.cast(pa.int8()) if pa.types.is_boolean(values.type) else values
    nothing = np.zeros(len(values), dtype=np.int64)
    if pa.types.is_decimal(whole.type):
        whole = whole.cast(pa.uint64())  # BIGINT UNSIGNED
    if not pa.types.is_uint64(whole.type):
        found = int64s(whole)
        # The least number of all has no absolute value.
        size = np.abs(np.maximum(found, -np.iinfo(np.int64).max))
        return np.where(size > _WHOLE_MAX, np.sign(found) * (_WHOLE_MAX + size % 10_000), found), nothing, nothing > 0
    numbers = whole.fill_null(0).to_numpy(zero_copy_only=False)
    ends = np.uint64(_WHOLE_MAX) + numbers % np.uint64(10_000)
    return np.where(numbers > _WHOLE_MAX, ends, numbers).astype(np.int64), nothing, nothing > 0


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
