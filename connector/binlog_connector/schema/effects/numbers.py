"""Conversions of numbers, and between numbers and text: `number_effect(old, new, circumstances)`.

Sources: MariaDB sql/field.cc and MySQL sql/field.cc (`Field_*::store`), strings/decimal.c; the manuals' chapters on
"Out-of-Range and Overflow Handling" and "Rounding Behavior". Exact numbers are rounded half away from zero,
approximate ones to the next even number where they become integers.
"""

from __future__ import annotations

import decimal
import re
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

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_connector.schema.effects.conversion import Circumstances, ColumnSide, Conversion, Effect

INTEGER_BITS: Final = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_WIDTHS: Final = {"tinyint": 3, "smallint": 5, "mediumint": 8, "int": 10, "bigint": 20}
"""Digits to which ZEROFILL fills, where the statement gives none."""
YEAR, BIT, DECIMAL, FLOAT, DOUBLE = "year", "bit", "decimal", "float", "double"
_WIDE = 76  # digits of Arrow's widest decimal
_NUMBER = re.compile(r"[ \t]*([+-]?(?:\d{1,40}(?:\.\d{0,30})?|\.\d{1,30}))[ \t]*", re.ASCII)
_WHOLE_NUMBER = re.compile(r"[ \t]*([+-]?\d{1,40})[ \t]*", re.ASCII)
_APPROXIMATE = re.compile(r"[ \t]*([+-]?(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][+-]?\d{1,3})?)[ \t]*", re.ASCII)
_DIGITS = decimal.Context(prec=200, rounding=decimal.ROUND_HALF_UP)
_EXACT_DOUBLE = 1 << 53
_FLOAT_MAX = float(np.finfo(np.float32).max)


def number_effect(old: ColumnSide, new: ColumnSide, how: Circumstances) -> Effect:
    """What becomes of the values of a number when it is another kind of number."""
    if new.type_name == YEAR and old.type_name != YEAR:
        return _to_year(old)
    if new.type_name == BIT and old.type_name != BIT:
        return Unknown(f"{old.type_name.upper()} to BIT")
    if new.type_name in (FLOAT, DOUBLE):
        return _to_float(old, new, how)
    if old.type_name in (FLOAT, DOUBLE):
        return Converted(_from_float(new, how), "numbers are rounded")
    if _holds_all(old, new):
        return SAME if _are_alike(old, new) else Converted(_to_exact_number(old, new, how), "digits are added")
    if how.strict and _are_alike(old, new) and DECIMAL not in (old.type_name, new.type_name):
        return SAME  # the statement would have failed at a value that does not fit
    return Converted(_to_exact_number(old, new, how), "numbers are rounded to the digits that are left")


def _are_alike(old: ColumnSide, new: ColumnSide) -> bool:
    # A DECIMAL of more digits than Arrow has is a text with all its digits, a BIT(1) is a boolean.
    if pa.types.is_boolean(old.arrow_type) != pa.types.is_boolean(new.arrow_type):
        return False
    texts = [pa.types.is_string(side.arrow_type) for side in (old, new)]
    return not any(texts) or (all(texts) and _scale(old) == _scale(new))


def _range(side: ColumnSide) -> tuple[int, int]:
    """The least and the greatest whole number that a column of integers holds."""
    if side.type_name == YEAR:
        return 0, 2155
    if side.type_name == BIT:
        return 0, (1 << (side.numbers[0] if side.numbers else 1)) - 1
    bits = INTEGER_BITS[side.type_name]
    return (0, (1 << bits) - 1) if side.definition.unsigned else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def _scale(side: ColumnSide) -> int:
    return side.numbers[1] if side.type_name == DECIMAL and len(side.numbers) > 1 else 0


def _bounds(side: ColumnSide) -> tuple[decimal.Decimal, decimal.Decimal]:
    if side.type_name != DECIMAL:
        least, greatest = _range(side)
        return decimal.Decimal(least), decimal.Decimal(greatest)
    precision, scale = side.numbers[0], _scale(side)
    greatest_decimal = decimal.Decimal(10**precision - 1).scaleb(-scale, _DIGITS)
    return (decimal.Decimal(0) if side.definition.unsigned else -greatest_decimal), greatest_decimal


def _holds_all(old: ColumnSide, new: ColumnSide) -> bool:
    (least, greatest), (new_least, new_greatest) = _bounds(old), _bounds(new)
    return _scale(new) >= _scale(old) and new_least <= least and greatest <= new_greatest


def exact(values: pa.Array, scale: int) -> pa.Array:
    """Whole numbers, decimals and their texts as the widest decimal with *scale* digits after the point."""
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    return values.cast(pa.decimal256(_WIDE, scale))


def _to_exact_number(old: ColumnSide, new: ColumnSide, how: Circumstances) -> Conversion:
    scale, new_scale = _scale(old), _scale(new)
    least, greatest = _bounds(new)

    def convert(values: pa.Array) -> Values:
        numbers = exact(values, max(scale, _scale_of(values.type)))
        if new_scale < numbers.type.scale:
            numbers = pc.round(numbers, ndigits=new_scale, round_mode="half_towards_infinity")
        return fitted(numbers.cast(pa.decimal256(_WIDE, new_scale)), least, greatest, new, how)

    return convert


def _scale_of(kind: pa.DataType) -> int:
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
        if old.type_name == new.type_name and not (len(old.numbers) == 2 and old.numbers[1] > new.numbers[1]):
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
        other = true_mask(pc.not_equal(after.array, values.cast(new.arrow_type)))
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


def _from_float(new: ColumnSide, how: Circumstances) -> Conversion:
    least, greatest = _bounds(new)
    if new.type_name == DECIMAL:
        return _from_float_to_decimal(new, how)

    def convert(values: pa.Array) -> Values:
        numbers = np.rint(values.cast(pa.float64()).to_numpy(zero_copy_only=False))
        valid = values.is_valid().to_numpy(zero_copy_only=False)
        large = valid & ~(np.abs(numbers) < _EXACT_DOUBLE)
        whole = pa.array(np.where(valid & ~large, numbers, 0).astype(np.int64), mask=~valid)
        return where_unknown_too(fitted(exact(whole, 0), least, greatest, new, how), large)

    return convert


def _from_float_to_decimal(new: ColumnSide, how: Circumstances) -> Conversion:
    convert = by_distinct(lambda value: _rounded(decimal.Decimal(repr(value)), new, how), new.arrow_type)
    return lambda values: convert(values.cast(pa.float64()))


def _rounded(number: decimal.Decimal, new: ColumnSide, how: Circumstances) -> object:
    """A number as a column of exact numbers holds it."""
    if not number.is_finite():
        return UNKNOWN
    least, greatest = _bounds(new)
    rounded = (
        number.quantize(decimal.Decimal(1).scaleb(-_scale(new)), context=_DIGITS) if abs(number) < 10**70 else None
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


def _to_year(old: ColumnSide) -> Effect:
    if old.type_name not in INTEGER_BITS:
        return Unknown(f"{old.type_name.upper()} to YEAR")

    def year(value: object) -> object:
        # MariaDB and MySQL sql/field.cc: Field_year::store(longlong, bool)
        number = int(str(value))
        if number == 0 or 1901 <= number <= 2155:
            return number
        if 0 < number < 100:
            return number + (2000 if number < 70 else 1900)
        return UNKNOWN

    return Converted(by_distinct(year, pa.int32()), "numbers below 100 become years of a century")


def text_of_number(old: ColumnSide) -> Conversion | None:
    """Numbers as a server writes them into a text; None: it is not known how."""
    if old.type_name in (FLOAT, DOUBLE) and not old.numbers and not old.definition.zerofill:
        return by_distinct(_text_of_single if old.type_name == FLOAT else _text_of_double, pa.string())
    if old.type_name in (FLOAT, DOUBLE, BIT):
        return None
    filled = _filled_width(old)

    def convert(values: pa.Array) -> pa.Array:
        if pa.types.is_string(values.type):
            return values  # a DECIMAL of more digits than Arrow has
        if old.type_name == DECIMAL:
            return decimal_text(exact(values, _scale(old)))
        texts = values.cast(pa.string())
        return pc.utf8_lpad(texts, filled, "0") if filled else texts

    return None if filled is None else plain(convert)


def _text_of_double(value: object) -> object:
    # strings/dtoa.c: my_gcvt writes the fewest digits that tell the number, with an exponent where there are too many.
    text = f"{decimal.Decimal(repr(value)):f}" if abs(float(str(value))) < _EXACT_DOUBLE else ""
    return _plain_digits(text, 17)


def _text_of_single(value: object) -> object:
    number = float(str(value))
    return _plain_digits(f"{decimal.Decimal(f'{number:.6g}'):f}" if abs(number) < 10.0**11 else "", 11)


def _plain_digits(text: str, length_max: int) -> object:
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return text if 0 < len(text.lstrip("-")) <= length_max and text != "-0" else UNKNOWN


def _filled_width(old: ColumnSide) -> int | None:
    """Digits to which a number is filled with zeros, 0: to none; None: it is not known."""
    if old.type_name == YEAR:
        return 4
    if old.definition.unsigned and not old.definition.knows("default"):
        return None  # from a table map, which does not state ZEROFILL
    if not old.definition.zerofill:
        return 0
    if old.type_name == DECIMAL:
        return None
    return old.numbers[0] if old.numbers else _WIDTHS[old.type_name]


def number_of_text(new: ColumnSide, how: Circumstances) -> Conversion | None:
    """Texts as a server reads them into a column of numbers; None: it is not known how."""
    if new.type_name in (FLOAT, DOUBLE) and not new.numbers:
        return by_distinct(_approximate(new.type_name == FLOAT), new.arrow_type)
    if new.type_name in INTEGER_BITS or new.type_name == DECIMAL:
        # Into whole numbers, MariaDB cuts a fraction off and MySQL rounds, and not in every version.
        form = _NUMBER if new.type_name == DECIMAL else _WHOLE_NUMBER

        def number(value: object) -> object:
            match = form.fullmatch(str(value))
            return UNKNOWN if match is None else _rounded(decimal.Decimal(match.group(1)), new, how)

        return by_distinct(number, new.arrow_type)
    return None


def _approximate(is_single: bool) -> Callable[[object], object]:
    def number(value: object) -> object:
        match = _APPROXIMATE.fullmatch(str(value))
        found = float(match.group(1)) if match is not None else np.inf
        with np.errstate(over="ignore"):
            found = float(np.float32(found)) if is_single else found
        return found if np.isfinite(found) else UNKNOWN

    return number
