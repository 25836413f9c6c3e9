"""Conversions of dates and times, and between these and text: `time_effect(old, new, circumstances)`.

Sources: the servers' manuals, "Fractional Seconds in Time Values" (MySQL rounds, MariaDB cuts off; `sql_mode` changes
both) and "Conversion Between Date and Time Types".
"""

from __future__ import annotations

import re
import zoneinfo
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_connector.schema.effects.conversion import (
    SAME,
    Converted,
    Unknown,
    Values,
    either,
    plain,
    true_mask,
    where_known,
)
from binlog_format.rows.arrow_arrays import mask_array
from binlog_format.vendor import Vendor

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from binlog_connector.schema.effects.conversion import Circumstances, ColumnSide, Conversion, Effect

    Int64s = NDArray[np.int64]

DATE, DATETIME, TIMESTAMP, TIME = "date", "datetime", "timestamp", "time"
TIMES: Final = frozenset({DATE, DATETIME, TIMESTAMP, TIME})
_MICROS = 1_000_000
_DAY = 86_400 * _MICROS
_UTC, _LOCAL = pa.timestamp("us", tz="UTC"), pa.timestamp("us")
_OFFSET = re.compile(r"([+-])(\d{1,2}):(\d{2})", re.ASCII)
_TIMESTAMP_MAX = (1 << 31) * _MICROS
_TEXT_FORMS: Final = {
    DATE: r"^\d{4}-\d{2}-\d{2}$",
    DATETIME: r"^\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}$",
    TIME: r"^\d{2}:\d{2}:\d{2}$",
}


def time_effect(old: ColumnSide, new: ColumnSide, how: Circumstances) -> Effect:
    """What becomes of dates and times when their column has another type, or other digits of a second."""
    before, after = old.type_name, new.type_name
    if before == after:
        if before == TIME:
            return _time_digits(old, new, how)
        if before == DATE or new.fraction_digits >= old.fraction_digits:
            return SAME
        return Converted(_fraction(new.fraction_digits, how), "fractions of seconds lose digits")
    if TIME in (before, after):
        return _time_of(old, new, how) if after == TIME else Unknown("a TIME gets the date of the statement")
    if after == DATE:
        return _to_date(old, how)
    if before == DATE and after == DATETIME:
        return Converted(plain(lambda values: values.cast(_LOCAL)), "dates get the time 00:00:00", may_fail=False)
    return _across_zones(old, new, how)


def _fraction(digits: int, how: Circumstances) -> Conversion:
    """Moments with fewer digits of the fraction of a second."""
    unit = 10 ** (6 - digits)

    def convert(values: pa.Array) -> pa.Array:
        micros = _micros(values)
        micros = (micros if how.cuts_fractions else micros + unit // 2) // unit * unit
        return _moments(micros, values)

    return plain(convert)


def _micros(values: pa.Array) -> Int64s:
    numbers: Int64s = values.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return numbers


def _moments(micros: Int64s, like: pa.Array, kind: pa.DataType | None = None) -> pa.Array:
    missing = like.is_null().to_numpy(zero_copy_only=False)
    return pa.array(micros, pa.int64(), mask=missing).cast(like.type if kind is None else kind)


def _to_date(old: ColumnSide, how: Circumstances) -> Effect:
    if old.type_name == TIMESTAMP:
        shift = _zone_shift(how)
        if isinstance(shift, str):
            return Unknown(shift)
    else:
        shift = None

    def convert(values: pa.Array) -> pa.Array:
        local = values if shift is None else shift.to_local(values)
        micros = _micros(local)
        # MySQL rounds the time away first; a DATE has no time, so that only matters just before midnight.
        if how.vendor is Vendor.MYSQL and not how.cuts_fractions:
            micros = (micros + _MICROS // 2) // _MICROS * _MICROS
        days = micros // _DAY
        return _moments(days.astype(np.int64), local, pa.int32()).cast(pa.date32())

    return Converted(plain(convert), "times of day are cut off", may_fail=False)


def _across_zones(old: ColumnSide, new: ColumnSide, how: Circumstances) -> Effect:
    if {old.type_name, new.type_name} == {DATETIME, TIMESTAMP} or (old.type_name, new.type_name) == (DATE, TIMESTAMP):
        shift = _zone_shift(how)
        if isinstance(shift, str):
            return Unknown(shift)
        digits = new.fraction_digits if new.fraction_digits < old.fraction_digits else 6
        cut = _fraction(digits, how)
        convert = shift.to_utc if new.type_name == TIMESTAMP else lambda values: Values(shift.to_local(values))
        return Converted(lambda values: Values(values).then(convert).then(cut), "times change their time zone")
    return Unknown(f"{old.type_name.upper()} to {new.type_name.upper()}")


class _Shift:
    """Between UTC and the time zone of a session.

    Args:
        offset: Of the zone, where it is always the same; None: *name* is one of the time zone database.
        name: Of the zone.
    """

    def __init__(self, offset: timedelta | None, name: str) -> None:
        self._offset = None if offset is None else int(offset.total_seconds()) * _MICROS
        self._name = name

    def to_local(self, values: pa.Array) -> pa.Array:
        if self._offset is not None:
            return _moments(_micros(values) + self._offset, values, _LOCAL)
        return pc.local_timestamp(values.cast(pa.timestamp("us", tz=self._name)))

    def to_utc(self, values: pa.Array) -> Values:
        values = values.cast(_LOCAL)
        if self._offset is not None:
            moments, unknown = _moments(_micros(values) - self._offset, values, _UTC), None
        else:
            bounds = [
                pc.assume_timezone(values, self._name, ambiguous=end, nonexistent=end).cast(_UTC)
                for end in ("earliest", "latest")
            ]
            moments, unknown = bounds[0], true_mask(pc.not_equal(*bounds))
        micros = _micros(moments)
        outside = values.is_valid().to_numpy(zero_copy_only=False) & ((micros <= 0) | (micros >= _TIMESTAMP_MAX))
        bad = either(unknown, outside)
        return Values(moments) if bad is None else where_known(moments, bad)


def _zone_shift(how: Circumstances) -> _Shift | str:
    """Why it is not known, in a few words, else the shift."""
    name = how.moment.time_zone
    if name is None or name.upper() == "SYSTEM":
        return "the log does not record the time zone of the session in which values were converted"
    offset = _OFFSET.fullmatch(name)
    if offset is not None:
        size = timedelta(hours=int(offset.group(2)), minutes=int(offset.group(3)))
        return _Shift(-size if offset.group(1) == "-" else size, name)
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        return f"the time zone {name} is not known here"
    return _Shift(None, name)


def _time_digits(old: ColumnSide, new: ColumnSide, how: Circumstances) -> Effect:
    before, after = old.fraction_digits, new.fraction_digits
    if before == after or (after > before and not how.times_are_texts):
        return SAME
    return Converted(_through_micros(after, how, rounds=after < before), "times get other digits of a second")


def _through_micros(digits: int, how: Circumstances, *, rounds: bool) -> Conversion:
    unit = 10 ** (6 - digits)

    def convert(values: pa.Array) -> pa.Array:
        micros = micros_of_times(values)
        if rounds:
            size = np.abs(micros)
            size = (size if how.cuts_fractions else size + unit // 2) // unit * unit
            micros = np.where(micros < 0, -size, size)
        valid = values.is_valid().to_numpy(zero_copy_only=False)
        return time_texts(micros, valid, digits) if how.times_are_texts else pa.array(micros, mask=~valid)

    return plain(convert)


def micros_of_times(values: pa.Array) -> Int64s:
    """TIMEs as numbers of microseconds, from such numbers or from texts `[-]HHH:MM:SS[.ffffff]`; 0 for null."""
    if not pa.types.is_string(values.type):
        return _micros(values)
    parts = pc.extract_regex(values, r"^(?P<sign>-?)(?P<h>\d+):(?P<m>\d\d):(?P<s>\d\d)(?:\.(?P<f>\d{1,6}))?$")
    numbers = [pc.struct_field(parts, name) for name in ("h", "m", "s")]
    hours, minutes, seconds = (
        pc.fill_null(part, "0").cast(pa.int64()).to_numpy(zero_copy_only=False) for part in numbers
    )
    digits = pc.utf8_rpad(pc.fill_null(pc.struct_field(parts, "f"), ""), 6, "0")
    fraction = digits.cast(pa.int64()).to_numpy(zero_copy_only=False)
    micros = ((hours * 60 + minutes) * 60 + seconds) * _MICROS + fraction
    negative = true_mask(pc.equal(pc.struct_field(parts, "sign"), "-"))
    result: Int64s = np.where(negative, -micros, micros)
    return result


def time_texts(micros: Int64s, valid: NDArray[np.bool_], digits: int) -> pa.Array:
    """Microseconds as a TIME with so many digits of a second is shown."""
    size = np.abs(micros)
    seconds = size // _MICROS
    parts = [seconds // 3600, seconds // 60 % 60, seconds % 60]
    texts = [pc.utf8_lpad(pa.array(part).cast(pa.string()), 2, "0") for part in parts]
    text = pc.binary_join_element_wise(*texts, ":")
    if digits:
        fraction = pc.utf8_lpad(pa.array(size % _MICROS // 10 ** (6 - digits)).cast(pa.string()), digits, "0")
        text = pc.binary_join_element_wise(text, fraction, ".")
    sign = pc.if_else(mask_array(micros < 0), "-", "")
    return pc.if_else(mask_array(valid), pc.binary_join_element_wise(sign, text, ""), pa.scalar(None, pa.string()))


def _time_of(old: ColumnSide, new: ColumnSide, how: Circumstances) -> Effect:
    if old.type_name != DATETIME:
        return Unknown(f"{old.type_name.upper()} to TIME")
    unit = 10 ** (6 - new.fraction_digits)

    def convert(values: pa.Array) -> Values:
        micros = _micros(values) % _DAY
        micros = (micros if how.cuts_fractions else micros + unit // 2) // unit * unit
        valid = values.is_valid().to_numpy(zero_copy_only=False)
        found = time_texts(micros, valid, new.fraction_digits) if how.times_are_texts else pa.array(micros, mask=~valid)
        # What is rounded up to midnight, or was no date at all.
        return where_known(found, valid & (micros >= _DAY))

    return Converted(convert, "dates are cut off")


def text_of_time(old: ColumnSide, how: Circumstances) -> Conversion | str:
    """Dates and times as a server writes them into a text; else why it is not known, in a few words."""
    if old.type_name == TIME:

        def show(values: pa.Array) -> pa.Array:
            valid = values.is_valid().to_numpy(zero_copy_only=False)
            return time_texts(micros_of_times(values), valid, old.fraction_digits)

        return plain(show)
    shift = _zone_shift(how) if old.type_name == TIMESTAMP else None
    if isinstance(shift, str):
        return shift

    def text(values: pa.Array) -> Values:
        local = values if shift is None else shift.to_local(values)
        texts = local.cast(pa.string())
        if old.type_name != DATE:
            texts = pc.utf8_slice_codeunits(texts, 0, 20 + old.fraction_digits if old.fraction_digits else 19)
        zero = values.is_null().to_numpy(zero_copy_only=False) if how.null_may_be_zero_date else None
        return Values(texts) if zero is None else where_known(texts, zero)

    return text


def time_of_text(new: ColumnSide, how: Circumstances) -> Conversion | None:
    """Texts as a column of dates or times takes them, as a server shows these; None: it is not known how."""
    form = _TEXT_FORMS.get(new.type_name)
    if form is None:
        return None
    parse: Callable[[pa.Array], pa.Array]
    if new.type_name == TIME:

        def parse(texts: pa.Array) -> pa.Array:
            valid = texts.is_valid().to_numpy(zero_copy_only=False)
            micros = micros_of_times(texts)
            return (
                time_texts(micros, valid, new.fraction_digits) if how.times_are_texts else pa.array(micros, mask=~valid)
            )

    else:

        def parse(texts: pa.Array) -> pa.Array:
            return texts.cast(new.arrow_type)

    def convert(texts: pa.Array) -> Values:
        odd = true_mask(pc.invert(pc.match_substring_regex(texts, form)))
        if new.type_name != TIME:
            odd |= true_mask(pc.match_substring_regex(texts, "^0000|-00")) | _impossible(texts, odd, new.arrow_type)
        else:
            odd |= true_mask(pc.match_substring_regex(texts, ":[6-9]"))
        known = where_known(texts, odd)
        return Values(parse(known.array), known.unknown)

    return convert


def timestamp_of_text(how: Circumstances) -> Conversion | None:
    """Texts as a TIMESTAMP takes them, in the session's time zone; None: it is not known how."""
    shift = _zone_shift(how)
    if isinstance(shift, str):
        return None

    def convert(texts: pa.Array) -> Values:
        is_date = pc.match_substring_regex(texts, _TEXT_FORMS[DATE])
        whole = pc.if_else(is_date, pc.binary_join_element_wise(texts, "00:00:00", " "), texts)
        odd = true_mask(pc.invert(pc.match_substring_regex(whole, _TEXT_FORMS[DATETIME])))
        odd |= true_mask(pc.match_substring_regex(whole, "^0000|-00")) | _impossible(whole, odd, _LOCAL)
        known = where_known(whole, odd)
        return Values(known.array.cast(_LOCAL), known.unknown).then(shift.to_utc)

    return convert


def number_of_time(old: ColumnSide, how: Circumstances) -> Conversion | None:
    """Dates and times without fractions as the numbers that their digits make; None: it is not known how."""
    if old.type_name not in (DATE, DATETIME) or old.fraction_digits:
        return None
    form = "%Y%m%d" if old.type_name == DATE else "%Y%m%d%H%M%S"

    def convert(values: pa.Array) -> Values:
        numbers = pc.strftime(values.cast(pa.timestamp("s")), form).cast(pa.int64())
        if not how.null_may_be_zero_date:
            return Values(numbers)
        return where_known(numbers, values.is_null().to_numpy(zero_copy_only=False))

    return convert


def _impossible(texts: pa.Array, odd: NDArray[np.bool_], kind: pa.DataType) -> NDArray[np.bool_]:
    """Which texts of the right form are no dates: one is looked for only if there is any."""
    found = where_known(texts, odd).array
    try:
        found.cast(kind)
    except pa.ArrowInvalid:
        return np.array([not _is_date(text, kind) for text in texts.to_pylist()], dtype=np.bool_)
    return np.zeros(len(texts), dtype=np.bool_)


def _is_date(text: str | None, kind: pa.DataType) -> bool:
    try:
        pa.array([text]).cast(kind)
    except pa.ArrowInvalid:
        return False
    return True
