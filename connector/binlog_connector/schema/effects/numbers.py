"""Conversions of numbers, and between numbers and text: `number_effect(old, new, circumstances)`.

Sources: MariaDB sql/field.cc and MySQL sql/field.cc (`Field_*::store`), strings/decimal.c; the manuals' chapters on
"Out-of-Range and Overflow Handling" and "Rounding Behavior". Exact numbers are rounded half away from zero,
approximate ones to the next even number where they become integers.
"""

from __future__ import annotations

import decimal
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_connector.schema.effects.conversion import (
    SAME,
    UNKNOWN,
    Converted,
    Unknown,
    Values,
    by_distinct,
    plain,
    true_mask,
    where_known,
    where_unknown_too,
)
from binlog_format.vendor import Vendor

if TYPE_CHECKING:
    from binlog_connector.schema.effects.conversion import Circumstances, ColumnSide, Conversion, Effect

INTEGER_BITS: Final = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
YEAR, BIT, DECIMAL, FLOAT, DOUBLE = "year", "bit", "decimal", "float", "double"
_WIDE = 76  # digits of Arrow's widest decimal
_BIGINT, _BIGINT_BEYOND = (-(1 << 63), (1 << 63) - 1), 2.0**63
_DIGITS = decimal.Context(prec=200, rounding=decimal.ROUND_HALF_UP)
EXACT_DOUBLE = 1 << 53
_FLOAT_MAX = float(np.finfo(np.float32).max)


def number_effect(old: ColumnSide, new: ColumnSide, how: Circumstances) -> Effect:
    """Effect on the values of a number that becomes another kind of number."""
    if new.type_name in (FLOAT, DOUBLE):
        return _to_float(old, new, how)
    if old.type_name in (FLOAT, DOUBLE):
        return Converted(_from_float(old, new, how), "numbers are rounded")
    if new.type_name == YEAR and old.type_name != YEAR:
        return Converted(_rounded_to(old, _to_year(how)), "numbers below 100 become years of a century")
    if new.type_name == BIT and old.type_name != BIT:
        return Converted(
            _rounded_to(old, _to_bits(old, new, how)), "numbers become bits, all of them if it is too large"
        )
    if _holds_all(old, new):
        return SAME if _are_alike(old, new) else Converted(_to_exact_number(old, new, how), "digits are added")
    if how.strict and _are_alike(old, new) and DECIMAL not in (old.type_name, new.type_name):
        return SAME  # the statement would have failed at a value that does not fit
    what = "numbers beyond the range become its nearest end"
    if DECIMAL in (old.type_name, new.type_name):
        what = "numbers are rounded to the digits that are left"
    return Converted(_to_exact_number(old, new, how), what)


def _are_alike(old: ColumnSide, new: ColumnSide) -> bool:
    # A DECIMAL of more digits than Arrow has is a text with all its digits, a BIT(1) is a boolean.
    if pa.types.is_boolean(old.arrow_type) != pa.types.is_boolean(new.arrow_type):
        return False
    texts = [pa.types.is_string(side.arrow_type) for side in (old, new)]
    return not any(texts) or (all(texts) and scale_of(old) == scale_of(new))


def _range(side: ColumnSide) -> tuple[int, int]:
    """The least and the greatest whole number that a column of integers holds."""
    if side.type_name == YEAR:
        return 0, 2155
    if side.type_name == BIT:
        return 0, (1 << (side.numbers[0] if side.numbers else 1)) - 1
    bits = INTEGER_BITS[side.type_name]
    return (0, (1 << bits) - 1) if side.definition.unsigned else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def scale_of(side: ColumnSide) -> int:
    """Digits after the point."""
    return side.numbers[1] if side.type_name == DECIMAL and len(side.numbers) > 1 else 0


def is_text(side: ColumnSide) -> bool:
    """True for a DECIMAL of more digits than Arrow's type has: its values are texts with all their digits."""
    return side.type_name == DECIMAL and pa.types.is_string(side.arrow_type)


def _bounds(side: ColumnSide) -> tuple[decimal.Decimal, decimal.Decimal]:
    if side.type_name != DECIMAL:
        least, greatest = _range(side)
        return decimal.Decimal(least), decimal.Decimal(greatest)
    precision, scale = side.numbers[0], scale_of(side)
    greatest_decimal = decimal.Decimal(10**precision - 1).scaleb(-scale, _DIGITS)
    return (decimal.Decimal(0) if side.definition.unsigned else greatest_decimal.copy_negate()), greatest_decimal


def _holds_all(old: ColumnSide, new: ColumnSide) -> bool:
    (least, greatest), (new_least, new_greatest) = _bounds(old), _bounds(new)
    return scale_of(new) >= scale_of(old) and new_least <= least and greatest <= new_greatest


def exact(values: pa.Array, scale: int) -> pa.Array:
    """Whole numbers, decimals and their texts as the widest decimal with *scale* digits after the point."""
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    return values.cast(pa.decimal256(_WIDE, scale))


def _to_exact_number(old: ColumnSide, new: ColumnSide, how: Circumstances) -> Conversion:
    # MySQL reads a DECIMAL as a BIGINT of its own sign, also for an unsigned column (`Field_new_decimal::val_int`).
    has_sign = how.vendor is Vendor.MYSQL and old.type_name == DECIMAL and not old.definition.unsigned
    end = _BIGINT[1] if has_sign and new.type_name in INTEGER_BITS else None
    scale, round_to = scale_of(old), _rounded_to_digits(new, how, end)
    return lambda values: round_to(exact(values, max(scale, _decimal_scale(values.type))))


def _rounded_to_digits(new: ColumnSide, how: Circumstances, end: int | None = None) -> Conversion:
    """Wide decimals as a column of exact numbers holds them, none beyond *end*."""
    least, greatest = _bounds(new)
    greatest = greatest if end is None else min(greatest, decimal.Decimal(end))
    scale = scale_of(new)

    def convert(numbers: pa.Array) -> Values:
        if scale < numbers.type.scale:
            numbers = pc.round(numbers, ndigits=scale, round_mode="half_towards_infinity")
        return fitted(numbers.cast(pa.decimal256(_WIDE, scale)), least, greatest, new, how)

    return convert


def _decimal_scale(kind: pa.DataType) -> int:
    return kind.scale if pa.types.is_decimal(kind) else 0


def fitted(
    numbers: pa.Array, least: decimal.Decimal, greatest: decimal.Decimal, new: ColumnSide, how: Circumstances
) -> Values:
    """Wide decimals with the digits of *new*, as its values: those beyond its ends become these in a lax session."""
    low, high = (pa.scalar(bound, numbers.type) for bound in (least, greatest))
    if not how.strict:
        within = pc.max_element_wise(pc.min_element_wise(numbers, high, skip_nulls=False), low, skip_nulls=False)
        return Values(_stored(within, new))
    beyond = true_mask(pc.or_(pc.less(numbers, low), pc.greater(numbers, high)))
    known = where_known(numbers, beyond)
    return Values(_stored(known.array, new), known.unknown)


def _stored(numbers: pa.Array, new: ColumnSide) -> pa.Array:
    kind = new.arrow_type
    return decimal_text(numbers) if pa.types.is_string(kind) else _cast_down(numbers, kind)


def _cast_down(numbers: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_boolean(kind):
        return numbers.cast(pa.int8()).cast(kind)
    return numbers.cast(kind)


def decimal_text(numbers: pa.Array) -> pa.Array:
    """Decimals as a server shows them, with all digits of their scale; Arrow writes small ones with an exponent."""
    kind, count = numbers.type, len(numbers)
    whole_type = pa.decimal256(_WIDE, 0) if pa.types.is_decimal256(kind) else pa.decimal128(38, 0)
    whole = pa.Array.from_buffers(whole_type, count, numbers.buffers(), offset=numbers.offset)
    if kind.scale == 0:
        return whole.cast(pa.string())
    digits = pc.utf8_lpad(pc.abs(whole).cast(pa.string()), kind.scale + 1, "0")
    sign = pc.if_else(pc.less(whole, pa.scalar(0, whole.type)), "-", "")
    before, after = pc.utf8_slice_codeunits(digits, 0, -kind.scale), pc.utf8_slice_codeunits(digits, -kind.scale)
    return pc.binary_join_element_wise(pc.binary_join_element_wise(sign, before, ""), after, ".")


def _to_float(old: ColumnSide, new: ColumnSide, how: Circumstances) -> Effect:
    if new.definition.unsigned and not old.definition.unsigned and not how.strict:
        return Unknown("negative numbers become 0")
    if len(new.numbers) == 2:
        if old.definition.declared == new.definition.declared:
            return SAME
        if old.type_name == new.type_name and not how.copies_table:
            # Servers change the definition alone, but for statements that copy the table all the same.
            return Converted(_unless_rounded(new, how), "numbers of other digits are rounded, or are not")
        return Converted(_rounded_floats(new, how), "numbers are rounded to the digits that are left")
    if old.type_name == new.type_name or (old.type_name == FLOAT and new.type_name == DOUBLE):
        return SAME
    return Converted(lambda values: _floats(values, new, how), "numbers become the nearest ones")


def _floats(values: pa.Array, new: ColumnSide, how: Circumstances) -> Values:
    # Through double, as the server does it.
    doubles = _doubles(values)
    if new.type_name == DOUBLE:
        return Values(doubles)
    beyond = true_mask(pc.greater(pc.abs(doubles), _FLOAT_MAX))
    if not how.strict:
        doubles = pc.max_element_wise(
            pc.min_element_wise(doubles, _FLOAT_MAX, skip_nulls=False), -_FLOAT_MAX, skip_nulls=False
        )
        return Values(doubles.cast(new.arrow_type, safe=False))
    return where_known(doubles.cast(new.arrow_type, safe=False), beyond)


def _unless_rounded(new: ColumnSide, how: Circumstances) -> Conversion:
    rounded = _rounded_floats(new, how)

    def convert(values: pa.Array) -> Values:
        after = rounded(values)
        pair = [
            array.fill_null(0).to_numpy(zero_copy_only=False) for array in (after.array, values.cast(new.arrow_type))
        ]
        other = np.not_equal(*pair) | (np.signbit(pair[0]) != np.signbit(pair[1]))
        return where_unknown_too(after, other)

    return convert


def _doubles(values: pa.Array) -> pa.Array:
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    if pa.types.is_decimal(values.type):
        values = decimal_text(values)  # Arrow's way from decimals to floats is not exact
    return values.cast(pa.float64(), safe=False)


def _rounded_floats(new: ColumnSide, how: Circumstances) -> Conversion:
    """MariaDB sql/field.cc: truncate_double, MySQL Field_real::truncate: for FLOAT(M,D) and DOUBLE(M,D)."""
    digits, scale = new.numbers
    unit = 10.0**scale
    greatest = 10.0 ** (digits - scale) - 1 / unit

    def convert(values: pa.Array) -> Values:
        doubles = _doubles(values)
        numbers = doubles.to_numpy(zero_copy_only=False)
        valid = doubles.is_valid().to_numpy(zero_copy_only=False)
        whole = np.floor(numbers)
        rounded = whole + np.rint((numbers - whole) * unit) / unit
        beyond = valid & (np.abs(rounded) > greatest)
        if not how.strict:
            rounded = np.clip(rounded, -greatest, greatest)
        array = pa.array(rounded, mask=~valid).cast(new.arrow_type, safe=False)
        return where_known(array, beyond) if how.strict else Values(array)

    return convert


def _from_float(old: ColumnSide, new: ColumnSide, how: Circumstances) -> Conversion:
    if new.type_name == DECIMAL:
        return _from_float_to_decimal(new, how)
    # MariaDB cuts off what a year has after the point, since 10.2.
    is_cut = new.type_name == YEAR and how.vendor is not Vendor.MYSQL and not how.is_old_mariadb
    fit = from_exact(new, how)

    whole_of = whole_numbers(old, how, is_cut=is_cut)

    def convert(values: pa.Array) -> Values:
        found = whole_of(values).then(fit)
        if new.type_name not in (BIT, YEAR):
            return found
        return where_unknown_too(found, true_mask(pc.less(values, pa.scalar(0, values.type))))

    return convert


def _from_float_to_decimal(new: ColumnSide, how: Circumstances) -> Conversion:
    convert = by_distinct(lambda value: fitted_number(decimal.Decimal(repr(value)), new, how), new.arrow_type)
    return lambda values: convert(values.cast(pa.float64()))


def fitted_number(number: decimal.Decimal, new: ColumnSide, how: Circumstances) -> object:
    """A number as a column of exact numbers holds it."""
    if not number.is_finite():
        return UNKNOWN
    least, greatest = _bounds(new)
    rounded = (
        number.quantize(decimal.Decimal(1).scaleb(-scale_of(new)), context=_DIGITS) if abs(number) < 10**70 else None
    )
    if rounded is None or not least <= rounded <= greatest:
        if how.strict:
            return UNKNOWN
        rounded = greatest if number > 0 else least
    rounded = abs(rounded) if rounded == 0 else rounded
    if pa.types.is_string(new.arrow_type):
        return f"{rounded:f}"
    if pa.types.is_decimal(new.arrow_type):
        return rounded
    return bool(rounded) if pa.types.is_boolean(new.arrow_type) else int(rounded)


def from_exact(new: ColumnSide, how: Circumstances) -> Conversion:
    """Wide decimals as a column of numbers holds them."""
    if new.type_name == YEAR:
        return _to_year(how)
    if new.type_name == BIT:
        return _to_bits(None, new, how)
    if new.type_name in (FLOAT, DOUBLE):
        if len(new.numbers) == 2:
            return _rounded_floats(new, how)
        return lambda values: _floats(values, new, how)
    return _rounded_to_digits(new, how)


def _rounded_to(old: ColumnSide, convert: Conversion) -> Conversion:
    def rounded(values: pa.Array) -> Values:
        numbers = exact(values, max(scale_of(old), _decimal_scale(values.type)))
        return convert(pc.round(numbers, ndigits=0, round_mode="half_towards_infinity"))

    return rounded


def whole_numbers(old: ColumnSide, how: Circumstances, *, is_cut: bool = False) -> Conversion:
    """Numbers rounded to whole ones, as wide decimals; those that have no room in 64 bits are at the ends of these."""
    if old.type_name in INTEGER_BITS:
        return plain(lambda values: exact(values, 0))
    if old.type_name not in (FLOAT, DOUBLE):
        return _rounded_to(old, plain(lambda values: fitted_ends(values.cast(pa.decimal256(_WIDE, 0)), *_BIGINT)))

    def convert(values: pa.Array) -> Values:
        doubles = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
        valid = values.is_valid().to_numpy(zero_copy_only=False)
        within = valid & (np.abs(doubles) < _BIGINT_BEYOND)
        numbers = np.where(within, doubles, 0.0)
        whole = (np.trunc(numbers) if is_cut else np.rint(numbers)).astype(np.int64)
        whole = np.where(within, whole, np.where(doubles > 0, _BIGINT[1], _BIGINT[0]))
        # What MySQL makes of a FLOAT that large is left to the compiler.
        beyond = valid & ~within & (old.type_name == FLOAT and how.vendor is Vendor.MYSQL)
        return where_known(exact(pa.array(whole, mask=~valid), 0), beyond)

    return convert


def _to_bits(old: ColumnSide | None, new: ColumnSide, how: Circumstances) -> Conversion:
    _, greatest = _range(new)
    # MariaDB reads a DECIMAL as a number without sign.
    is_zero_below = old is not None and old.type_name == DECIMAL and how.vendor is not Vendor.MYSQL

    def convert(numbers: pa.Array) -> Values:
        numbers = numbers.cast(pa.decimal256(_WIDE, 0))
        end, least = pa.scalar(decimal.Decimal(greatest), numbers.type), pa.scalar(decimal.Decimal(0), numbers.type)
        below, above = pc.less(numbers, least), pc.greater(numbers, end)
        if how.strict:
            found = where_known(numbers, true_mask(pc.or_(below, above)))
            return Values(_cast_down(found.array, new.arrow_type), found.unknown)
        within = pc.if_else(below, least if is_zero_below else end, pc.if_else(above, end, numbers))
        return Values(_cast_down(within, new.arrow_type))

    return convert


def _to_year(how: Circumstances) -> Conversion:
    """MariaDB and MySQL sql/field.cc: Field_year::store(longlong, bool)."""

    def convert(numbers: pa.Array) -> Values:
        valid = numbers.is_valid().to_numpy(zero_copy_only=False)
        # What is no year is beyond the greatest one, for the numbers to have room in 64 bits.
        within = fitted_ends(numbers.cast(pa.decimal256(_WIDE, 0)), -1, 2156).cast(pa.int64())
        years = within.fill_null(0).to_numpy(zero_copy_only=False)
        short = (years > 0) & (years < 100)
        misfit = valid & ~(short | (years == 0) | ((years > 1900) & (years < 2156)))
        years = np.where(short, years + np.where(years < 70, 2000, 1900), np.where(misfit, 0, years))
        found = pa.array(years, mask=~valid).cast(pa.int32())
        return where_known(found, misfit) if how.strict else Values(found)

    return convert


def fitted_ends(numbers: pa.Array, least: int, greatest: int) -> pa.Array:
    """Wide decimals, those beyond the ends as these."""
    low, high = (pa.scalar(decimal.Decimal(end), numbers.type) for end in (least, greatest))
    return pc.max_element_wise(pc.min_element_wise(numbers, high, skip_nulls=False), low, skip_nulls=False)
