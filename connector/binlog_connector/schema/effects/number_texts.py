"""Numbers that servers read in texts, and texts that they write of numbers: `numbers_of_texts`, `text_of_number`.

Sources: strings/ctype-simple.c of MariaDB and MySQL (`my_strntoll_8bit`, `my_strntoull10rnd_8bit`), strings/decimal.c
and strings/dtoa.c. A number is read from the beginning of a text until it ends; there is 0 where there is none. MariaDB
reads a whole number for columns of these, MySQL any number, which it rounds; both read a whole one for BIT, and round
for YEAR.
"""

from __future__ import annotations

import decimal
import re
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_connector.schema.effects import numbers
from binlog_connector.schema.effects.conversion import (
    UNKNOWN,
    Converted,
    Values,
    by_distinct,
    by_form,
    plain,
    true_mask,
    where_unknown_too,
)
from binlog_format.vendor import Vendor

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_connector.schema.effects.conversion import Circumstances, ColumnSide, Conversion, Effect

_WHOLE = re.compile(r"[ \t]*([+-]?\d+)", re.ASCII)
_ANY = re.compile(r"[ \t]*([+-]?(?:\d+(?:\.\d*)?|\.\d+))([eE][+-]?\d+)?", re.ASCII)
_YEAR = re.compile(r"\d{1,9}(?:\.\d{1,9}(?=[^eE\d]|\Z)|(?=[^.eE\d]|\Z))", re.ASCII)
_NO_YEAR = re.compile(r"[^\d\s.+-]|\Z|-[1-9]\d*\Z", re.ASCII)
_POWER = re.compile(r"([1-9]\d{0,2})[eE](\d{1,9})(?!\d)", re.ASCII)
_USUAL, _MINUS_ZERO = r"^-?\d{1,18}$", r"^-0+$"
_ODD_NUMBER, _ODD_YEAR = r"^\s*[+-]\D", r"^\s*([+-](\D|0)|0+(\D|$))"
WIDE_CHARSETS = frozenset({"utf16", "utf16le", "utf32", "ucs2"})
_WIDTHS: Final = {"tinyint": 3, "smallint": 5, "mediumint": 8, "int": 10, "bigint": 20}
"""Digits to which ZEROFILL fills, where the statement gives none."""
_WITH_EXPONENT, _DOUBLE_DIGITS = decimal.Decimal(10) ** 15, 15
_DIGITS_MAX: Final = 18
_DECIMAL_DIGITS_MAX: Final = 60
_EXPONENT_MAX: Final = 300
_SINGLE_MAX, _DOUBLE_MAX = float(np.finfo(np.float32).max), float(np.finfo(np.float64).max)


class _Read(NamedTuple):
    number: decimal.Decimal
    misfit: bool


_NONE = _Read(decimal.Decimal(0), misfit=True)


def numbers_of_texts(old: ColumnSide, new: ColumnSide, how: Circumstances) -> Effect:
    """Effect on texts, or bytes as such, whose column becomes a number."""
    others = _slow(new, how)
    if old.definition.charset in WIDE_CHARSETS:
        others = _without_odd(others, new)
    fit = numbers.from_exact(new, how)
    what = "texts are read as numbers"
    without = _MINUS_ZERO if new.type_name in (numbers.FLOAT, numbers.DOUBLE) else None
    if new.type_name == numbers.YEAR:
        return Converted(others, what)

    def usual(texts: pa.Array) -> pa.Array:
        return texts.cast(pa.int64())

    def convert(texts: pa.Array) -> Values:
        # Where a usual one may not fit, all are looked at one by one.
        unknown_or_read = by_form(_USUAL, without, usual, _nothing)(texts)
        if unknown_or_read.unknown is not None:
            return others(texts)
        found = fit(numbers.exact(unknown_or_read.array, 0))
        return found if found.unknown is None else others(texts)

    return Converted(convert, what)


def _without_odd(convert: Conversion, new: ColumnSide) -> Conversion:
    """*convert* without what servers read in another way in character sets whose characters have two bytes or more."""
    odd = _ODD_YEAR if new.type_name == numbers.YEAR else _ODD_NUMBER

    def known(texts: pa.Array) -> Values:
        return where_unknown_too(convert(texts), true_mask(pc.match_substring_regex(texts, odd)))

    return known


def _nothing(texts: pa.Array) -> Values:
    unknown = texts.is_valid().to_numpy(zero_copy_only=False)
    return Values(pa.nulls(len(texts), pa.int64()), unknown if unknown.any() else None)


def _slow(new: ColumnSide, how: Circumstances) -> Conversion:
    if new.type_name in (numbers.FLOAT, numbers.DOUBLE):
        read = by_distinct(lambda text: _approximate(str(text), new, how), pa.float64())
        if len(new.numbers) == 2:
            fit = numbers.from_exact(new, how)
            return lambda texts: read(texts).then(fit)
        return lambda texts: Values((found := read(texts)).array.cast(new.arrow_type, safe=False), found.unknown)
    reader: Callable[[str, Circumstances], _Read | None]
    if new.type_name == numbers.YEAR:
        reader = _year
    elif new.type_name == numbers.BIT or (new.type_name != numbers.DECIMAL and how.vendor is not Vendor.MYSQL):
        reader = _whole
    else:
        reader = _exact if new.type_name == numbers.DECIMAL else _rounded

    def number(text: object) -> object:
        found = reader(str(text), how)
        # Not every server refuses a text for BIT; if one does, no text like that is left.
        if found is None or (found.misfit and how.strict and new.type_name != numbers.BIT):
            return UNKNOWN
        if new.type_name == numbers.YEAR:
            return int(found.number)
        if new.type_name == numbers.BIT and found.number < 0:
            return UNKNOWN if how.strict else numbers.fitted_number(decimal.Decimal(1 << 64), new, how)
        return numbers.fitted_number(found.number, new, how)

    return by_distinct(number, new.arrow_type)


def _nothing_read(text: str) -> _Read | None:
    """Result if no number is found: none, or one after white space that not every server skips."""
    return None if _ANY.match(text.strip()) else _NONE


def _has_garbage(rest: str) -> bool:
    return bool(rest.strip(" "))


def _may_go_on(rest: str) -> bool:
    """True if servers may read an exponent here: some skip white space in it (`1e 5`)."""
    return rest[:1] in ("e", "E")


def _whole(text: str, _how: Circumstances) -> _Read | None:
    match = _WHOLE.match(text)
    if match is None:
        return _nothing_read(text)
    if len(match[1].lstrip("+-").lstrip("0")) > _DIGITS_MAX:
        return None
    return _Read(decimal.Decimal(match[1]), _has_garbage(text[match.end() :]))


def _rounded(text: str, _how: Circumstances) -> _Read | None:
    match = _ANY.match(text)
    if match is None:
        return _nothing_read(text)
    number = _decimal(match)
    if number is None or _may_go_on(text[match.end() :]):
        return None
    garbage = _has_garbage(text[match.end() :])
    if number.adjusted() > _DECIMAL_DIGITS_MAX:
        return _Read(number, misfit=True)
    whole = number.to_integral_value(decimal.ROUND_HALF_UP)
    if number.adjusted() >= _DIGITS_MAX or (match[2] and whole != number):
        return None
    return _Read(whole, garbage)


def _exact(text: str, _how: Circumstances) -> _Read | None:
    match = _ANY.match(text)
    if match is None:
        return _nothing_read(text)
    number = _decimal(match)
    if number is None or _may_go_on(text[match.end() :]) or len(number.as_tuple().digits) > _DECIMAL_DIGITS_MAX:
        return None
    if abs(number.adjusted()) < _DECIMAL_DIGITS_MAX or number.adjusted() > _EXPONENT_MAX:
        return _Read(number, _has_garbage(text[match.end() :]))
    return None


def _decimal(match: re.Match[str]) -> decimal.Decimal | None:
    exponent = int((match[2] or "e0")[1:])
    if not -_EXPONENT_MAX < exponent < 10 * _EXPONENT_MAX * 10:
        return None
    return decimal.Decimal(match[1] + (match[2] or ""))


def _approximate(text: str, new: ColumnSide, how: Circumstances) -> object:
    match = _ANY.match(text)
    if match is None:
        return UNKNOWN if how.strict or _nothing_read(text) is None else 0.0
    number = float(match[0].strip(" \t"))
    if number == 0 and how.vendor is not Vendor.MYSQL and match[0].lstrip().startswith("-"):
        return 0.0 if how.is_compared else UNKNOWN  # MariaDB 10.2 keeps the sign, as MySQL does
    end = _SINGLE_MAX if new.type_name == numbers.FLOAT else _DOUBLE_MAX
    misfit = abs(number) > end or _has_garbage(text[match.end() :])
    if (misfit and how.strict) or (number < 0 and new.definition.unsigned):
        return UNKNOWN
    return min(max(number, -end), end)


def _year(text: str, how: Circumstances) -> _Read | None:
    # sql/field.cc: Field_year::store(const char *, ...); 0 of four bytes is no year, any other is 2000.
    match = _YEAR.match(text)
    if match is None:
        return _NONE if _is_no_year(text) else None
    number = int(decimal.Decimal(match[0]).to_integral_value(decimal.ROUND_HALF_UP))
    if text[match.end() : match.end() + 1] == "." and how.vendor is not Vendor.MYSQL:
        number = int(match[0].replace(".", ""))  # a second point takes the first one away
    garbage = _has_garbage(text[match.end() :])
    if 100 <= number <= 1900 or number > 2155:
        return _NONE
    if number == 0:
        if not text.isascii():
            return None
        return _Read(decimal.Decimal(0 if len(text) == 4 else 2000), garbage)
    if number < 100:
        number += 2000 if number < 70 else 1900
    return _Read(decimal.Decimal(number), garbage)


def _is_no_year(text: str) -> bool:
    stripped = text.strip()
    if _NO_YEAR.match(stripped):
        return True
    power = _POWER.match(stripped)
    if power is None or stripped[:1] != text[:1]:
        return False
    number: int = int(power[1]) * int(10 ** min(int(power[2]), 9))
    return 100 <= number <= 1900 or number > 2155


def text_of_number(old: ColumnSide) -> Conversion | None:
    """Numbers as a server writes them into a text; None: it is not known how."""
    if old.type_name in (numbers.FLOAT, numbers.DOUBLE):
        if old.definition.zerofill:
            return None
        if len(old.numbers) == 2:
            return by_distinct(lambda value: _text_with_digits(value, old.numbers[1]), pa.string())
        return by_distinct(_text_of_single if old.type_name == numbers.FLOAT else _text_of_double, pa.string())
    filled = _filled_width(old)

    def convert(values: pa.Array) -> pa.Array:
        if pa.types.is_string(values.type):
            return values  # a DECIMAL of more digits than Arrow has
        if old.type_name == numbers.DECIMAL:
            return numbers.decimal_text(numbers.exact(values, numbers.scale_of(old)))
        texts = (values.cast(pa.int8()) if pa.types.is_boolean(values.type) else values).cast(pa.string())
        return pc.utf8_lpad(texts, filled, "0") if filled else texts

    return None if filled is None else plain(convert)


def bytes_of_bits(old: ColumnSide) -> Conversion:
    """BIT values as the bytes that they are stored in."""
    width = ((old.numbers[0] if old.numbers else 1) + 7) // 8

    def packed(value: object) -> object:
        assert isinstance(value, int)
        return int(value).to_bytes(width, "big")

    return by_distinct(packed, pa.binary())


def _text_with_digits(value: object, digits: int) -> object:
    text = f"{float(str(value)):.{digits}f}"
    return UNKNOWN if text.startswith("-") and not text.strip("-0.") else text


def _text_of_double(value: object) -> object:
    # strings/dtoa.c: my_gcvt writes the fewest digits that tell the number, with an exponent where there are too many.
    return _shown(decimal.Decimal(repr(value)), 17)


def _text_of_single(value: object) -> object:
    return _shown(decimal.Decimal(f"{float(str(value)):.6g}"), 12)


def _shown(number: decimal.Decimal, length_max: int) -> object:
    if abs(number) >= _WITH_EXPONENT:
        digits = "".join(map(str, number.normalize().as_tuple().digits))
        point = "." if len(digits) > 1 else ""
        text = f"{digits[0]}{point}{digits[1:]}e{number.adjusted()}"
        return ("-" if number < 0 else "") + text if len(digits) <= _DOUBLE_DIGITS else UNKNOWN
    text = f"{number:f}" if abs(number) < numbers.EXACT_DOUBLE else ""
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return text if 0 < len(text) <= length_max and text != "-0" else UNKNOWN


def _filled_width(old: ColumnSide) -> int | None:
    """Digits to which a number is filled with zeros, 0: to none; None: it is not known."""
    if old.type_name in (numbers.YEAR, numbers.BIT):
        return 4 if old.type_name == numbers.YEAR else 0
    if old.definition.unsigned and not old.definition.knows("default"):
        return None  # from a table map, which does not state ZEROFILL
    if not old.definition.zerofill:
        return 0
    if old.type_name == numbers.DECIMAL:
        return None
    return old.numbers[0] if old.numbers else _WIDTHS[old.type_name]
