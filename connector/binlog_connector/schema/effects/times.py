"""Conversions of dates and times, and between these and text: `time_effect(old, new, circumstances)`.

Sources: the servers' manuals, "Fractional Seconds in Time Values" (MySQL rounds, MariaDB cuts off; `sql_mode` changes
both) and "Conversion Between Date and Time Types".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_connector.schema.effects.conversion import (
    SAME,
    Converted,
    Unknown,
    Values,
    int64s,
    plain,
    true_mask,
    where_known,
)
from binlog_connector.schema.effects.time_readings import DAY, MICROS, time_end
from binlog_format.rows.arrow_arrays import mask_array
from binlog_format.rows.declared.declared_types import UnknownValueError
from binlog_format.rows.declared.time_zones import known_zone
from binlog_format.vendor import Vendor

if TYPE_CHECKING:
    from binlog_connector.schema.effects.conversion import Circumstances, ColumnSide, Conversion, Effect
    from binlog_format.kernels import Int64s, Mask
    from binlog_format.rows.declared.time_zones import KnownZone

DATE, DATETIME, TIMESTAMP, TIME = "date", "datetime", "timestamp", "time"
MOMENTS: Final = frozenset({DATE, DATETIME, TIMESTAMP})
TIMES: Final = MOMENTS | {TIME}
_UTC, _LOCAL = pa.timestamp("us", tz="UTC"), pa.timestamp("us")
_TIMESTAMP_MAX, _TIMESTAMP_MAX_SINCE_11_5 = (1 << 31) * MICROS, (1 << 32) * MICROS
YEAR_10000 = int(np.datetime64("10000-01-01T00:00", "us").astype(np.int64))


def time_effect(old: ColumnSide, new: ColumnSide, how: Circumstances) -> Effect:
    """Effect on dates and times whose column gets another type, or other fractional digits."""
    before, after = old.type_name, new.type_name
    if before == after:
        if before == TIME:
            return _time_digits(old, new, how)
        if before == DATE or new.fraction_digits >= old.fraction_digits:
            return SAME
        return Converted(_fraction(new, how), "fractions of seconds lose digits")
    if after == DATE:
        return _to_date(old, how)
    if before == DATE and after == DATETIME:
        return Converted(plain(lambda values: values.cast(_LOCAL)), "dates get the time 00:00:00", may_fail=False)
    return _across_zones(old, new, how)


def _fraction(new: ColumnSide, how: Circumstances) -> Conversion:
    """Moments with fewer digits of the fraction of a second."""
    round_moments = rounded_timestamps if new.type_name == TIMESTAMP else rounded_moments
    return lambda values: round_moments(values, new.fraction_digits, how)


def _to_digits(micros: Int64s, digits: int, how: Circumstances) -> Int64s:
    """Microseconds with so many digits of a second."""
    unit = 10 ** (6 - digits)
    found: Int64s = (micros if how.cuts_fractions else micros + unit // 2) // unit * unit
    return found


def rounded_moments(values: pa.Array, digits: int, how: Circumstances) -> Values:
    """Moments of a DATETIME with so many digits of a second.

    Where these would be in the year 10000, MySQL makes 0000-00-00, and MariaDB cuts digits off that it else rounds.
    """
    micros = int64s(values)
    found = _to_digits(micros, digits, how)
    beyond = found >= YEAR_10000
    if how.vendor is Vendor.MYSQL:
        return _zeroed(_moments(found, values), beyond, how)
    unit = 10 ** (6 - digits)
    return Values(_moments(np.where(beyond, micros // unit * unit, found), values))


def rounded_timestamps(values: pa.Array, digits: int, how: Circumstances) -> Values:
    """The same of a TIMESTAMP. MariaDB's last moment depends on its version and its processor."""
    micros = int64s(values)
    found = _to_digits(micros, digits, how)
    beyond = [(micros < end) & (found >= end) for end in (_TIMESTAMP_MAX, _TIMESTAMP_MAX_SINCE_11_5)]
    if how.vendor is Vendor.MYSQL:
        return _zeroed(_moments(found, values), beyond[0], how)
    return where_known(_moments(found, values), beyond[0] | beyond[1])


def _zeroed(moments: pa.Array, misfits: Mask, how: Circumstances) -> Values:
    """*moments*, of which *misfits* become 0000-00-00; a strict session refuses them."""
    found = where_known(moments, misfits)
    return Values(found.array) if _zero_date_is_null(how) else found


def _zero_date_is_null(how: Circumstances) -> bool:
    return not how.strict and how.null_may_be_zero_date


def _moments(micros: Int64s, like: pa.Array, kind: pa.DataType | None = None) -> pa.Array:
    missing = like.is_null().to_numpy(zero_copy_only=False)
    return pa.array(micros, pa.int64(), mask=missing).cast(like.type if kind is None else kind)


def _to_date(old: ColumnSide, how: Circumstances) -> Effect:
    if old.type_name == TIMESTAMP:
        shift = zone_shift(how)
        if isinstance(shift, str):
            return Unknown(shift)
    else:
        shift = None

    def convert(values: pa.Array) -> Values:
        return to_dates(values if shift is None else shift.to_local(values), how)

    return Converted(convert, "times of day are cut off", may_fail=how.vendor is Vendor.MYSQL)


def to_dates(moments: pa.Array, how: Circumstances) -> Values:
    """Moments without their times of day."""
    # Rounding matters just before midnight.
    rounded = rounded_moments(moments, 0, how) if how.vendor is Vendor.MYSQL else Values(moments)
    return rounded.then(plain(_dates_of))


def _dates_of(moments: pa.Array) -> pa.Array:
    return _moments(int64s(moments) // DAY, moments, pa.int32()).cast(pa.date32())


def _across_zones(old: ColumnSide, new: ColumnSide, how: Circumstances) -> Effect:
    shift = zone_shift(how)
    if isinstance(shift, str):
        return Unknown(shift)
    digits = min(new.fraction_digits, old.fraction_digits)

    def cut(values: pa.Array) -> Values:
        return rounded_moments(values, digits, how)

    if new.type_name == TIMESTAMP:

        def convert(values: pa.Array) -> Values:
            return cut(values.cast(_LOCAL)).then(lambda moments: shift.to_utc(moments, how))

    else:

        def convert(values: pa.Array) -> Values:
            return cut(shift.to_local(values))

    return Converted(convert, "times change their time zone")


class Shift:
    """Difference between UTC and the time zone of a session. *zone*: of the session."""

    def __init__(self, zone: KnownZone) -> None:
        self._offset = zone.offset
        self._name = zone.name

    def to_local(self, values: pa.Array) -> pa.Array:
        """Moments of UTC in the zone."""
        if self._offset is not None:
            return _moments(int64s(values) + self._offset, values, _LOCAL)
        return pc.local_timestamp(values.cast(pa.timestamp("us", tz=self._name)))

    def to_utc(self, values: pa.Array, how: Circumstances) -> Values:
        """Moments of the zone in UTC; a session that is not strict makes 0000-00-00 of those that TIMESTAMP lacks."""
        values = values.cast(_LOCAL)
        if self._offset is not None:
            moments, unknown = _moments(int64s(values) - self._offset, values, _UTC), None
        else:
            bounds = [
                pc.assume_timezone(values, self._name, ambiguous=end, nonexistent=end).cast(_UTC)
                for end in ("earliest", "latest")
            ]
            moments, unknown = bounds[0], true_mask(pc.not_equal(*bounds))
        micros, valid = int64s(moments), moments.is_valid().to_numpy(zero_copy_only=False)
        outside = valid & ((micros < MICROS) | (micros >= _TIMESTAMP_MAX))
        if not outside.any():
            return Values(moments) if unknown is None else where_known(moments, unknown)
        # MariaDB 11.5 has more years.
        last = _TIMESTAMP_MAX if how.vendor is Vendor.MYSQL else _TIMESTAMP_MAX_SINCE_11_5
        surely = outside & ((micros <= 0) | (micros >= last)) & _zero_date_is_null(how)
        # MariaDB keeps what such a moment has below a second, which makes a moment of 1970 of it.
        surely &= (micros % MICROS == 0) | (how.vendor is Vendor.MYSQL)
        zeroed = pc.if_else(mask_array(surely), pa.scalar(None, _UTC), moments)
        bad = (outside if unknown is None else unknown | outside) & ~surely
        return where_known(zeroed, bad)


def zone_shift(how: Circumstances) -> Shift | str:
    """Shift of time zones, or the reason why it is not known, in a few words."""
    try:
        return Shift(known_zone(how.moment.time_zone, how.decoding.system_time_zone))
    except UnknownValueError as error:
        return error.reason


def _time_digits(old: ColumnSide, new: ColumnSide, how: Circumstances) -> Effect:
    before, after = old.fraction_digits, new.fraction_digits
    if before == after or (after > before and not how.times_are_texts):
        return SAME
    return Converted(_through_micros(after, how, rounds=after < before), "times get other digits of a second")


def _through_micros(digits: int, how: Circumstances, *, rounds: bool) -> Conversion:
    def convert(values: pa.Array) -> pa.Array:
        micros = micros_of_times(values)
        if rounds:
            size = rounded_times(np.abs(micros), digits, how)
            micros = np.where(micros < 0, -size, size)
        valid = values.is_valid().to_numpy(zero_copy_only=False)
        return time_texts(micros, valid, digits) if how.times_are_texts else pa.array(micros, mask=~valid)

    return plain(convert)


def rounded_times(size: Int64s, digits: int, how: Circumstances) -> Int64s:
    """Microseconds of times, without their sign, with so many digits of a second; at most those of the largest TIME."""
    unit = 10 ** (6 - digits)
    found: Int64s = np.minimum(_to_digits(size, digits, how), time_end(how.vendor)) // unit * unit
    return found


def micros_of_times(values: pa.Array) -> Int64s:
    """TIMEs as numbers of microseconds, from such numbers or from texts `[-]HHH:MM:SS[.ffffff]`; 0 for null."""
    if not pa.types.is_string(values.type):
        return int64s(values)
    parts = pc.extract_regex(values, r"^(?P<sign>-?)(?P<h>\d+):(?P<m>\d\d):(?P<s>\d\d)(?:\.(?P<f>\d{1,6}))?$")
    numbers = [pc.struct_field(parts, name) for name in ("h", "m", "s")]
    hours, minutes, seconds = (
        pc.fill_null(part, "0").cast(pa.int64()).to_numpy(zero_copy_only=False) for part in numbers
    )
    digits = pc.utf8_rpad(pc.fill_null(pc.struct_field(parts, "f"), ""), 6, "0")
    fraction = digits.cast(pa.int64()).to_numpy(zero_copy_only=False)
    micros = ((hours * 60 + minutes) * 60 + seconds) * MICROS + fraction
    negative = true_mask(pc.equal(pc.struct_field(parts, "sign"), "-"))
    result: Int64s = np.where(negative, -micros, micros)
    return result


def time_texts(micros: Int64s, valid: Mask, digits: int) -> pa.Array:
    """Microseconds as a TIME with so many digits of a second is shown."""
    size = np.abs(micros)
    seconds = size // MICROS
    parts = [seconds // 3600, seconds // 60 % 60, seconds % 60]
    texts = [pc.utf8_lpad(pa.array(part).cast(pa.string()), 2, "0") for part in parts]
    text = pc.binary_join_element_wise(*texts, ":")
    if digits:
        fraction = pc.utf8_lpad(pa.array(size % MICROS // 10 ** (6 - digits)).cast(pa.string()), digits, "0")
        text = pc.binary_join_element_wise(text, fraction, ".")
    sign = pc.if_else(mask_array(micros < 0), "-", "")
    return pc.if_else(mask_array(valid), pc.binary_join_element_wise(sign, text, ""), pa.scalar(None, pa.string()))


def null_is_open(values: pa.Array, how: Circumstances) -> Mask | None:
    """Mask of the null moments that may be 0000-00-00: they do not change like NULL."""
    if not how.null_may_be_zero_date or values.null_count == 0:
        return None
    missing: Mask = values.is_null().to_numpy(zero_copy_only=False)
    return missing


def text_of_time(old: ColumnSide, how: Circumstances) -> Conversion | str:
    """Dates and times as a server writes them into a text; else why it is not known, in a few words."""
    if old.type_name == TIME:

        def show(values: pa.Array) -> pa.Array:
            valid = values.is_valid().to_numpy(zero_copy_only=False)
            return time_texts(micros_of_times(values), valid, old.fraction_digits)

        return plain(show)
    shift = zone_shift(how) if old.type_name == TIMESTAMP else None
    if isinstance(shift, str):
        return shift

    def text(values: pa.Array) -> Values:
        local = values if shift is None else shift.to_local(values)
        texts = local.cast(pa.string())
        if old.type_name != DATE:
            texts = pc.utf8_slice_codeunits(texts, 0, 20 + old.fraction_digits if old.fraction_digits else 19)
        return Values(texts, null_is_open(values, how))

    return text
