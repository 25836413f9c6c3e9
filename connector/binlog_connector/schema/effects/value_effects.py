"""Effects on the values of a column that gets another type: `value_effect(old, new, circumstances)`.

Servers read a value as a number, a text or a time, and store that: MariaDB sql/field_conv.cc and sql/field.h
(`get_copy_func`), MySQL sql/field_conv.cc (`Copy_field::get_copy_func`). MySQL takes the texts of numbers for times and
labels where MariaDB takes the numbers.

Conversions to and from UUID, INET4 and INET6 of MariaDB: each distinct value is looked at once.

Sources: MariaDB sql/sql_type_fixedbin.h (`Field_fbt`), plugin/type_uuid, plugin/type_inet: a session that is not strict
makes NULL of what is none of them.
"""

from __future__ import annotations

import ipaddress
import re
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from binlog_connector.schema.effects import labels, number_texts, numbers, texts, time_conversions, times
from binlog_connector.schema.effects.conversion import (
    SAME,
    UNKNOWN,
    ColumnSide,
    Converted,
    Same,
    Unknown,
    Values,
    by_distinct,
    widened,
)
from binlog_connector.schema.parsing.session import BINARY
from binlog_format.rows.declared.declared_types import GEOMETRIES
from binlog_format.rows.json.json_document import BadJsonError, document_of
from binlog_format.rows.json.json_text_changes import texts_of
from binlog_format.rows.values.special_types import address_texts
from binlog_format.vendor import MYSQL_LAST_MEMBER_SINCE, MYSQL_WHOLE_DOUBLES_SINCE, Vendor

if TYPE_CHECKING:
    from binlog_connector.schema.definitions import ColumnDefinition
    from binlog_connector.schema.effects.conversion import Circumstances, Conversion, Effect


NUMBERS: Final = frozenset(
    {*numbers.INTEGER_BITS, numbers.YEAR, numbers.BIT, numbers.DECIMAL, numbers.FLOAT, numbers.DOUBLE}
)
LABELS: Final = frozenset({"enum", "set"})
_ALWAYS_STORED: Final = frozenset({numbers.DECIMAL, *times.TIMES})
"""Types that other digits or another type make other bytes of."""

_YEAR_OF_TWO_DIGITS: Final = "year(2)"
_WHOLE_DOUBLE: Final = r"\.0(?:[,}\]]|$)"
"""Also found in some strings: these are named without need."""


def needs_copy(old: ColumnDefinition, new: ColumnDefinition) -> bool:
    """True if all servers give a column its new type only by storing each row of the table again."""
    if old.generated is not None or new.generated is not None or not (old.knows("declared") and new.knows("declared")):
        return False
    names = {old.type_name, new.type_name}
    if len(names) == 1:
        return names <= _ALWAYS_STORED and old.declared != new.declared
    return bool(names & _ALWAYS_STORED)


def value_effect(old: ColumnSide, new: ColumnSide, how: Circumstances) -> Effect:
    """Effect on all values but NULL."""
    before, after = old.type_name, new.type_name
    if how.dates_are_texts and not {before, after}.isdisjoint(times.MOMENTS):
        return SAME if _is_equal(old, new) else Unknown("its dates are texts in targets (zeroDates = text)")
    if why := _unreadable(old, new, how):
        return Unknown(why)
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
    if {before, after} <= GEOMETRIES:
        return SAME  # servers refuse a value of another kind, or take it as it is
    if kinds[1] is not None:
        return _into_text(old, new, how, is_binary=kinds[1] == "binary")
    if kinds[0] is not None:
        return _out_of_text(old, new, how, is_binary=kinds[0] == "binary")
    return _out_of_other(old, new, how)


def _unreadable(old: ColumnSide, new: ColumnSide, how: Circumstances) -> str:
    """Reason why nobody but the server can read the values; empty: there is none."""
    declared = {old.definition.declared, new.definition.declared}
    if how.vendor is not Vendor.MYSQL and len(declared) > 1 and _YEAR_OF_TWO_DIGITS in declared:
        return "servers read a YEAR(2) as two digits, the log has four"
    if old.definition.compressed and texts.binary_or_text(new) is None:
        return "how the server reads a COMPRESSED column"
    before, after = old.definition.charset, new.definition.charset
    into_wide = before == BINARY and after in number_texts.WIDE_CHARSETS and {old.type_name, new.type_name} & LABELS
    out_of_wide = before in number_texts.WIDE_CHARSETS and after == BINARY and new.type_name in LABELS
    if into_wide or out_of_wide:
        return "labels are compared with bytes, of which a character has several"
    return ""


def _is_equal(old: ColumnSide, new: ColumnSide) -> bool:
    one, other = (
        replace(side.definition, name="", default=None, nullable=True, invisible=False) for side in (old, new)
    )
    return one == other


def _between_times(old: ColumnSide, new: ColumnSide, how: Circumstances) -> Effect:
    if old.type_name == new.type_name or times.TIME not in (old.type_name, new.type_name):
        return times.time_effect(old, new, how)
    if new.type_name == times.TIME:
        return time_conversions.time_of_moments(old, new, how)
    return time_conversions.moments_of_times(old, new, how)


def _into_text(old: ColumnSide, new: ColumnSide, how: Circumstances, *, is_binary: bool) -> Effect:
    before = old.type_name
    shown: Conversion | str | None = f"{before.upper()} to {new.type_name.upper()}"
    if before == numbers.BIT and new.type_name.endswith(("text", "blob")):
        return texts.bytes_effect(number_texts.bytes_of_bits(old), new, how)
    if before in LABELS and is_binary and old.definition.charset in number_texts.WIDE_CHARSETS:
        return texts.bytes_of_text_effect(old, new, how)  # of other character sets ASCII is known alone
    if before in NUMBERS:
        shown = number_texts.text_of_number(old)
    elif before in times.TIMES:
        shown = times.text_of_time(old, how)
    elif before in ADDRESSES and is_binary:
        return texts.bytes_effect(bytes_of_address(old), new, how)
    elif before in ADDRESSES:
        shown = text_of_address(old)
    elif before == "json" and not is_binary:
        shown = _text_of_json(how)
    elif before in LABELS:
        shown = Values
    if shown is None or isinstance(shown, str):
        return Unknown(shown or f"how the server writes a {before.upper()} as text")
    put = texts.put_into_bytes(new, how) if is_binary else texts.put_into_text(new, how)
    lost = [] if is_binary or before in NUMBERS | times.TIMES else texts.lost_characters(old, new, how)
    return Converted(texts.in_turn([shown, *lost, put]), "values become their texts")


def _text_of_json(how: Circumstances) -> Conversion:
    if how.vendor is not Vendor.MYSQL or (how.server_version or 0) >= MYSQL_WHOLE_DOUBLES_SINCE:
        return Values

    def convert(texts: pa.Array) -> Values:
        unknown = pc.fill_null(pc.match_substring_regex(texts, _WHOLE_DOUBLE), False)
        return Values(texts, unknown.to_numpy(zero_copy_only=False))

    return convert


def _json_of_text(version: int) -> Conversion:
    first_counts = version < MYSQL_LAST_MEMBER_SINCE

    def printed(value: object) -> object:
        try:
            text = texts_of([document_of(str(value), first_counts=first_counts)])[0]
        except BadJsonError:
            return UNKNOWN
        shows_whole = version >= MYSQL_WHOLE_DOUBLES_SINCE or not re.search(_WHOLE_DOUBLE, str(text))
        return text if shows_whole else UNKNOWN

    return by_distinct(printed, pa.string())


def _out_of_text(old: ColumnSide, new: ColumnSide, how: Circumstances, *, is_binary: bool) -> Effect:
    after = new.type_name
    effect: Effect = _unknown(old, new)
    if after in ADDRESSES:
        return address_of(old, new, how)
    if after == "json" and not is_binary and how.vendor is not Vendor.MYSQL:
        return SAME  # MariaDB's JSON is a text
    if after == "json" and not is_binary and how.server_version is not None:
        return Converted(_json_of_text(how.server_version), "texts become JSON")
    if after in NUMBERS:
        effect = number_texts.numbers_of_texts(old, new, how)
    elif after in times.TIMES:
        effect = time_conversions.times_of_texts(new, how)
    elif after in LABELS and new.labels is not None:
        effect = Converted(labels.labels_of_text(old, new, how), f"values become those of a {after.upper()}")
    if is_binary and isinstance(effect, Converted):
        # Bytes are read as ASCII characters; what others are is nothing but other.
        as_text = texts.as_labels(new) if after in LABELS else texts.as_latin
        return replace(effect, convert=texts.in_turn([as_text, effect.convert]))
    return effect


def _out_of_other(old: ColumnSide, new: ColumnSide, how: Circumstances) -> Effect:
    before, after = old.type_name, new.type_name
    if after in ADDRESSES and before in NUMBERS | times.TIMES | LABELS | ADDRESSES:
        return address_of(old, new, how)
    if before in times.TIMES and after in NUMBERS:
        return time_conversions.numbers_of_times(old, new, how)
    if before in NUMBERS and after in times.TIMES:
        return time_conversions.times_of_numbers_in(old, new, how)
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
        return time_conversions.times_of_texts(new, how)
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


_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_NO_UUID = re.compile(r"[^0-9a-f-]", re.IGNORECASE)
_NO_INET4, _NO_INET6 = re.compile(r"[^0-9.]"), re.compile(r"[^0-9a-f:.]", re.IGNORECASE)
_UUID_DIGITS, _INET6_PARTS = 32, 8
_ADDRESS_BYTES = {"uuid": 16, "inet6": 16, "inet4": 4}
ADDRESSES = frozenset(_ADDRESS_BYTES)


def text_of_address(old: ColumnSide) -> Conversion:
    """UUID, INET4 and INET6 as the server shows them, from their texts or their bytes."""

    def convert(values: pa.Array) -> Values:
        if not pa.types.is_binary(values.type):
            return Values(values)
        found = bytes_of_address(old)(values)
        return Values(address_texts(old.type_name, found.array), found.unknown)

    return convert


def bytes_of_address(old: ColumnSide) -> Conversion:
    """Bytes of addresses, from the log's bytes, which lack zeros at the end, or from their texts."""
    width = _ADDRESS_BYTES[old.type_name]

    def packed(value: object) -> object:
        if isinstance(value, bytes):
            return value.ljust(width, b"\0") if len(value) <= width else UNKNOWN
        return _packed(old.type_name, str(value)) or UNKNOWN

    return by_distinct(packed, pa.binary())


def address_of(old: ColumnSide, new: ColumnSide, how: Circumstances) -> Effect:
    """Effect on values whose column becomes a UUID, INET4 or INET6."""
    name = new.type_name
    is_text_or_bytes = texts.binary_or_text(old) is not None
    are_inet = old.type_name in ADDRESSES and "uuid" not in (old.type_name, name)
    if are_inet and (old.type_name == "inet6" or not how.strict):
        return Unknown(f"{old.type_name.upper()} to {name.upper()}, which versions do differently")
    if how.strict and not is_text_or_bytes and not are_inet:
        return Unknown(f"{old.type_name.upper()} to {name.upper()}, which a strict session refuses")
    # Live on 10.11 and 11.8: NULL, or the address of zeros alone.
    lax: object = None if new.nullable else b"\0" * _ADDRESS_BYTES[name]
    none = UNKNOWN if how.strict else lax

    def packed(value: object) -> object:
        if old.type_name == "inet4" and isinstance(value, str) and name == "inet6":
            value = f"::ffff:{value}"
        elif not is_text_or_bytes:
            return none
        found = _packed(name, value)
        if found is not None:
            return found
        return none if _is_surely_none(name, value) else UNKNOWN

    def convert(values: pa.Array) -> Values:
        found = by_distinct(packed, pa.binary())(values)
        if pa.types.is_binary(new.arrow_type):
            return found
        return Values(address_texts(name, found.array), found.unknown)

    return Converted(convert, f"values become those of a {name.upper()}")


def no_address(new: ColumnSide) -> pa.Scalar:
    """Value in place of NULL in a column that must not be NULL."""
    packed = pa.array([b"\0" * _ADDRESS_BYTES[new.type_name]], pa.binary())
    return (packed if pa.types.is_binary(new.arrow_type) else address_texts(new.type_name, packed))[0]


def _packed(name: str, value: object) -> bytes | None:
    if isinstance(value, bytes):
        return value if len(value) == _ADDRESS_BYTES[name] else None
    text = str(value)
    try:
        if name == "uuid":
            return uuid.UUID(text).bytes if _UUID.fullmatch(text) else None
        if name == "inet4":
            return ipaddress.IPv4Address(text).packed
        return ipaddress.IPv6Address(text).packed
    except ValueError:
        return None


def _is_surely_none(name: str, value: object) -> bool:
    """True if no version reads a text or bytes as an address; some accept other spellings than these here."""
    if isinstance(value, bytes):
        return True
    text = str(value).strip()
    if name == "uuid":
        return _NO_UUID.search(text) is not None or len(text.replace("-", "")) != _UUID_DIGITS
    if name == "inet4":
        return _NO_INET4.search(text) is not None or text.count(".") != _ADDRESS_BYTES["inet4"] - 1
    if _NO_INET6.search(text) is not None or ":" not in text:
        return "." not in text or _NO_INET4.search(text) is not None or text.count(".") != _ADDRESS_BYTES["inet4"] - 1
    return "::" not in text and "." not in text and text.count(":") != _INET6_PARTS - 1
