"""Effects on the values of a column that gets another type: `value_effect(old, new, circumstances)`.

Servers read a value as a number, a text or a time, and store that: MariaDB sql/field_conv.cc and sql/field.h
(`get_copy_func`), MySQL sql/field_conv.cc (`Copy_field::get_copy_func`). MySQL takes the texts of numbers for times and
labels where MariaDB takes the numbers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from binlog_connector.schema.effects import (
    addresses,
    into_times,
    labels,
    number_texts,
    number_times,
    numbers,
    texts,
    times,
)
from binlog_connector.schema.effects.conversion import (
    SAME,
    ColumnSide,
    Converted,
    Same,
    Unknown,
    Values,
    widened,
)
from binlog_format.vendor import Vendor

if TYPE_CHECKING:
    from binlog_connector.schema.effects.conversion import Circumstances, Conversion, Effect

NUMBERS: Final = frozenset(
    {*numbers.INTEGER_BITS, numbers.YEAR, numbers.BIT, numbers.DECIMAL, numbers.FLOAT, numbers.DOUBLE}
)
LABELS: Final = frozenset({"enum", "set"})


def value_effect(old: ColumnSide, new: ColumnSide, how: Circumstances) -> Effect:
    """Effect on all values but NULL."""
    before, after = old.type_name, new.type_name
    if how.dates_are_texts and not {before, after}.isdisjoint(times.TIMES - {times.TIME}):
        return SAME if _is_equal(old, new) else Unknown("its dates are texts in targets (zeroDates = text)")
    if old.definition.compressed and texts.binary_or_text(new) is None:
        return Unknown("how the server reads a COMPRESSED column")
    kinds = texts.binary_or_text(old), texts.binary_or_text(new)
    if before in NUMBERS and after in NUMBERS:
        return numbers.number_effect(old, new, how)
    if None not in kinds:
        return texts.EFFECTS[kinds](old, new, how)
    if before in times.TIMES and after in times.TIMES:
        return _between_times(old, new, how)
    if before in LABELS and after in LABELS:
        return labels.label_effect(old, new, how)
    if before == after and _is_equal(old, new):
        return SAME
    if kinds[1] is not None:
        return _into_text(old, new, how, is_binary=kinds[1] == "binary")
    if kinds[0] is not None:
        return _out_of_text(old, new, how, is_binary=kinds[0] == "binary")
    return _out_of_other(old, new, how)


def _is_equal(old: ColumnSide, new: ColumnSide) -> bool:
    one, other = (
        replace(side.definition, name="", default=None, nullable=True, invisible=False) for side in (old, new)
    )
    return one == other


def _between_times(old: ColumnSide, new: ColumnSide, how: Circumstances) -> Effect:
    if old.type_name == new.type_name or times.TIME not in (old.type_name, new.type_name):
        return times.time_effect(old, new, how)
    if new.type_name == times.TIME:
        return into_times.time_of_moments(old, new, how)
    return into_times.moments_of_times(old, new, how)


def _into_text(old: ColumnSide, new: ColumnSide, how: Circumstances, *, is_binary: bool) -> Effect:
    before = old.type_name
    shown: Conversion | str | None = f"{before.upper()} to {new.type_name.upper()}"
    if before == numbers.BIT and new.type_name.endswith(("text", "blob")):
        return texts.bytes_effect(number_texts.bytes_of_bits(old), new, how)
    if before in NUMBERS:
        shown = number_texts.text_of_number(old)
    elif before in times.TIMES:
        shown = times.text_of_time(old, how)
    elif before in addresses.ADDRESSES and is_binary:
        return texts.bytes_effect(addresses.bytes_of_address(old), new, how)
    elif before in addresses.ADDRESSES:
        shown = addresses.text_of_address(old)
    elif before in LABELS or (before == "json" and not is_binary):
        shown = Values
    if shown is None or isinstance(shown, str):
        return Unknown(shown or f"how the server writes a {before.upper()} as text")
    put = texts.put_into_bytes(new, how) if is_binary else texts.put_into_text(new, how)
    lost = [] if is_binary or before in NUMBERS | times.TIMES else texts.lost_characters(old, new, how)
    return Converted(texts.in_turn([shown, *lost, put]), "values become their texts")


def _out_of_text(old: ColumnSide, new: ColumnSide, how: Circumstances, *, is_binary: bool) -> Effect:
    after = new.type_name
    effect: Effect = _unknown(old, new)
    if after in addresses.ADDRESSES:
        return addresses.address_of(old, new, how)
    if after == "json" and not is_binary and how.vendor is not Vendor.MYSQL:
        return SAME  # MariaDB's JSON is a text
    if after in NUMBERS:
        effect = number_texts.numbers_of_texts(old, new, how)
    elif after in times.TIMES:
        effect = into_times.times_of_texts(new, how)
    elif after in LABELS and new.labels is not None:
        effect = Converted(labels.labels_of_text(old, new, how), f"values become those of a {after.upper()}")
    if is_binary and isinstance(effect, Converted):
        # Bytes are read as ASCII characters; what others are is nothing but other.
        as_text = texts.as_labels(new) if after in LABELS else texts.as_latin
        return replace(effect, convert=texts.in_turn([as_text, effect.convert]))
    return effect


def _out_of_other(old: ColumnSide, new: ColumnSide, how: Circumstances) -> Effect:
    before, after = old.type_name, new.type_name
    if after in addresses.ADDRESSES and before in NUMBERS | times.TIMES | LABELS | addresses.ADDRESSES:
        return addresses.address_of(old, new, how)
    if before in times.TIMES and after in NUMBERS:
        return number_times.numbers_of_times(old, new, how)
    if before in NUMBERS and after in times.TIMES:
        return into_times.times_of_numbers_in(old, new, how)
    convert: Conversion | None = None
    if before in NUMBERS and after in LABELS:
        convert = labels.label_of_number(old, new, how)
    elif before in LABELS and after in NUMBERS:
        convert = _as_number(labels.number_of_label(old), old, new, how)
    elif before in times.TIMES and after in LABELS and new.labels is not None:
        shown = times.text_of_time(old, how)
        if isinstance(shown, str):
            return Unknown(shown)
        convert = texts.in_turn([shown, labels.labels_of_text(old, new, how)])
    elif before in LABELS and after in times.TIMES:
        return into_times.times_of_texts(new, how)
    return _unknown(old, new) if convert is None else Converted(convert, f"values become those of a {after.upper()}")


def _unknown(old: ColumnSide, new: ColumnSide) -> Unknown:
    return Unknown(f"how the server makes {new.type_name.upper()} of {old.type_name.upper()}")


def _as_number(number: Conversion | None, old: ColumnSide, new: ColumnSide, how: Circumstances) -> Conversion | None:
    """A conversion to a BIGINT, and on to another kind of number."""
    if number is None:
        return None
    definition = replace(old.definition, declared="bigint", unsigned=False, charset=None)
    whole = ColumnSide(definition, old.nullable, pa.int64())
    fit = numbers.number_effect(whole, new, how)
    if isinstance(fit, Same):
        return texts.in_turn([number, lambda values: Values(widened(values, new.arrow_type))])
    return texts.in_turn([number, fit.convert]) if isinstance(fit, Converted) else None
