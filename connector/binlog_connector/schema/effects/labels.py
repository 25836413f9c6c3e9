"""Conversions to and from ENUM and SET: each distinct value is looked at once.

Sources: MariaDB sql/field.cc and MySQL sql/field.cc (`Field_enum::store`, `Field_set::store`): a text is looked for
among the labels under the column's collation, and taken for a number where it is none of them.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

import pyarrow as pa

from binlog_connector.schema.effects import number_texts, numbers
from binlog_connector.schema.effects.conversion import SAME, UNKNOWN, Converted, Unknown, by_distinct
from binlog_connector.schema.parsing.session import BINARY
from binlog_format.rows.values.text import set_text
from binlog_format.vendor import Vendor

if TYPE_CHECKING:
    from binlog_connector.schema.effects.conversion import Circumstances, ColumnSide, Conversion, Effect

_PLACE = re.compile(r"\d+", re.ASCII)
_BITS = re.compile(r"-?\d+", re.ASCII)
_ODD_PLACE = re.compile(r"\s*([+-]?\d+)\s*", re.ASCII)
"""Texts that some servers read as a number."""
_PLACE_SIZE, _BITS_SIZE, _BITS_KNOWN = 6, 19, 62


def label_effect(old: ColumnSide, new: ColumnSide, how: Circumstances) -> Effect:
    """Effect on the labels of an ENUM or SET whose column gets other labels, or changes between the two types."""
    if old.labels is not None and new.labels is None and old.definition.charset != new.definition.charset:
        return Unknown("the server takes the bytes of its labels for text in another character set")
    if old.labels is None or new.labels is None:
        return Unknown("not all labels are known")
    if old.type_name == new.type_name == "enum" and set(old.labels) <= set(new.labels):
        return SAME
    if old.type_name == new.type_name == "set" and _keeps_order(old.labels, new.labels):
        return SAME
    return Converted(labels_of_text(old, new, how), "labels become those of the new list")


def _keeps_order(old: tuple[str, ...], new: tuple[str, ...]) -> bool:
    places = [new.index(label) if label in new else -1 for label in old]
    return -1 not in places and places == sorted(places)


def labels_of_text(old: ColumnSide, new: ColumnSide, how: Circumstances) -> Conversion:
    """Texts as an ENUM or SET takes them."""
    labels = new.labels or ()
    choice = _label_or_place if new.type_name == "enum" else _chosen

    def choose(text: str) -> object:
        # Labels that are bytes are compared with the spaces at their ends.
        return UNKNOWN if text.endswith(" ") and new.definition.charset == BINARY else choice(text, labels, how)

    if not (_is_wide(old) or _is_wide(new)):
        return by_distinct(lambda text: choose(str(text)), pa.string())

    def known(text: object) -> object:
        # Servers do not find the numbers in these texts, or not always.
        found = choose(str(text))
        if not str(text).isprintable():
            return UNKNOWN
        if _ODD_PLACE.fullmatch(str(text)) is None or str(text).strip() in labels or found == "":
            return found
        return "" if new.type_name == "set" and not how.strict else UNKNOWN

    return by_distinct(known, pa.string())


def _is_wide(side: ColumnSide) -> bool:
    return side.definition.charset in number_texts.WIDE_CHARSETS


def _label_or_place(text: str, labels: tuple[str, ...], how: Circumstances) -> object:
    wanted = text.rstrip(" ")
    found = _label(wanted, labels, how)
    if found is not None:
        return found
    number = _ODD_PLACE.fullmatch(wanted)
    if number is not None and len(wanted) < _PLACE_SIZE and 0 <= int(number[1]) <= len(labels):
        if not _PLACE.fullmatch(wanted):
            return UNKNOWN
        return labels[int(wanted) - 1] if int(wanted) else ""
    return UNKNOWN if how.strict else ""


def _chosen(text: str, labels: tuple[str, ...], how: Circumstances) -> object:
    is_padded, text = text.endswith(" "), text.rstrip(" ")
    if text == "":
        return ""
    found = [_label(part, labels, how) for part in text.split(",")]
    if UNKNOWN in found or "" in labels:
        return UNKNOWN
    chosen = set_text(label for label in labels if label in found)
    if None not in found:
        return chosen
    if how.strict and not _PLACE.fullmatch(text):
        return UNKNOWN
    if chosen or not _BITS.fullmatch(text):
        return UNKNOWN if _ODD_PLACE.fullmatch(text) else chosen
    return _set_of_bits(int(text), labels, how) if len(text) < _BITS_SIZE and not is_padded else UNKNOWN


def _set_of_bits(number: int, labels: tuple[str, ...], how: Circumstances, *, is_masked: bool = False) -> object:
    """A set as the bits of a number; MariaDB leaves out bits without a label, MySQL takes none then."""
    if len(labels) > _BITS_KNOWN:
        return UNKNOWN
    if not 0 <= number < 1 << len(labels):
        if how.strict:
            return UNKNOWN
        if how.vendor is Vendor.MYSQL and not is_masked:
            return ""
    return set_text(label for bit, label in enumerate(labels) if number >> bit & 1)


def _label(wanted: str, labels: tuple[str, ...], how: Circumstances) -> object:
    """The label that a text is; None: it is none; UNKNOWN: that depends on the collation."""
    if wanted in labels:
        return wanted
    alike = [label for label in labels if _may_be_equal(wanted, label)]
    if not alike:
        return None
    # Only a strict session tells that there is a label under the collation: it would have failed.
    folded = [label for label in alike if label.casefold() == wanted.casefold()]
    return folded[0] if len(alike) == 1 and folded and how.strict else UNKNOWN


def _may_be_equal(wanted: str, label: str) -> bool:
    """True if two texts are equal in some collation."""
    if wanted.isascii() and wanted.isprintable() and label.isascii() and label.isprintable():
        return wanted.casefold() == label.casefold()
    return not _is_surely_other(wanted, label)


def _is_surely_other(wanted: str, label: str) -> bool:
    return not {_bare(wanted), _bare(wanted, sharp_s="s")} & {_bare(label), _bare(label, sharp_s="s")} and not any(
        map(_is_special, wanted + label)
    )


def _bare(text: str, sharp_s: str = "ss") -> str:
    """A text without accents, and without what some collations leave out."""
    parts = unicodedata.normalize("NFKD", text.replace("\u00df", sharp_s))
    return "".join(part for part in parts if unicodedata.category(part)[0] not in "MC").casefold()


def _is_special(character: str) -> bool:
    """A letter that some collations take for several others."""
    name = unicodedata.name(character, "")
    return (
        name.startswith("LATIN")
        and not character.isascii()
        and character != "\u00df"
        and unicodedata.decomposition(character) == ""
    )


def number_of_label(old: ColumnSide) -> Conversion | None:
    """Labels of an ENUM, or sets of them, as the numbers that they are stored as."""
    labels = old.labels
    if labels is None:
        return None
    # The text of 0 is empty too, and a set with an empty label has texts that are those of another set.
    numbers = {label: number for number, label in enumerate(labels, 1)}
    if old.type_name == "enum":
        zero = UNKNOWN if "" in numbers else 0
        return by_distinct(lambda text: zero if text == "" else numbers.get(str(text), UNKNOWN), pa.int64())

    def bits(text: object) -> object:
        parts = str(text).split(",") if text else []
        if not all(part in numbers for part in parts) or "" in numbers or len(numbers) > 63:
            return UNKNOWN
        return sum(1 << (numbers[part] - 1) for part in parts)

    return by_distinct(bits, pa.int64())


def label_of_number(old: ColumnSide, new: ColumnSide, how: Circumstances) -> Conversion | None:
    """Numbers as an ENUM or SET takes them; None: it is not known how.

    MariaDB takes any number for a place or for bits; MySQL the text of it, but for BIT. MariaDB before 10.2 does one or
    the other, by the type of the number.
    """
    labels = new.labels
    if labels is None or how.is_old_mariadb:
        return None
    if how.vendor is Vendor.MYSQL and old.type_name != numbers.BIT:
        write = number_texts.text_of_number(old)
        if write is None:
            return None
        of_text = by_distinct(lambda text: _of_number_text(str(text), new, labels, how), pa.string())
        return lambda values: write(values).then(of_text)
    wide = numbers.whole_numbers(old, how)
    is_enum = new.type_name == "enum"

    def label(value: object) -> object:
        number = int(str(value))
        if not is_enum:
            return _set_of_bits(number, labels, how, is_masked=True)
        if 0 < number <= len(labels):
            return labels[number - 1]
        return UNKNOWN if how.strict else ""

    of_whole = by_distinct(label, pa.string())
    return lambda values: wide(values).then(of_whole)


def _of_number_text(text: str, new: ColumnSide, labels: tuple[str, ...], how: Circumstances) -> object:
    return _label_or_place(text, labels, how) if new.type_name == "enum" else _chosen(text, labels, how)
