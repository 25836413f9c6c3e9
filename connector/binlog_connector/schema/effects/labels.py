"""Conversions to and from ENUM and SET, UUID, INET4 and INET6: each distinct value is looked at once.

Sources: MariaDB sql/field.cc and MySQL sql/field.cc (`Field_enum::store`, `Field_set::store`): a text is looked for
among the labels under the column's collation, and taken for a number where it is none of them.
"""

from __future__ import annotations

import ipaddress
import re
import uuid
from typing import TYPE_CHECKING

import pyarrow as pa

from binlog_connector.schema.effects.conversion import SAME, UNKNOWN, Converted, Unknown, Values, by_distinct
from binlog_format.rows.values.addresses import address_texts
from binlog_format.vendor import Vendor

if TYPE_CHECKING:
    from binlog_connector.schema.effects.conversion import Circumstances, ColumnSide, Conversion, Effect

_NUMBER = re.compile(r"\s*[+-]?\d")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_ADDRESS_BYTES = {"uuid": 16, "inet6": 16, "inet4": 4}
ADDRESSES = frozenset(_ADDRESS_BYTES)


def label_effect(old: ColumnSide, new: ColumnSide, how: Circumstances) -> Effect:
    """What becomes of the labels of an ENUM or SET when its column has other ones, or is the other of the two."""
    if old.labels is not None and new.labels is None and old.definition.charset != new.definition.charset:
        return Unknown("MariaDB takes the bytes of its labels for text in another character set")
    if old.labels is None or new.labels is None:
        return Unknown("not all labels are known")
    if old.type_name == new.type_name == "enum" and set(old.labels) <= set(new.labels):
        return SAME
    if old.type_name == new.type_name == "set" and _keeps_order(old.labels, new.labels):
        return SAME
    if old.type_name == "set" and new.type_name == "enum":
        return Unknown("SET to ENUM")
    return Converted(labels_of_text(new, how), "labels become those of the new list")


def _keeps_order(old: tuple[str, ...], new: tuple[str, ...]) -> bool:
    places = [new.index(label) if label in new else -1 for label in old]
    return -1 not in places and places == sorted(places)


def labels_of_text(new: ColumnSide, how: Circumstances) -> Conversion:
    """Texts as an ENUM or SET takes them."""
    labels = new.labels or ()
    if new.type_name == "enum":
        return by_distinct(lambda text: _label(str(text), labels, how), pa.string())

    def chosen(text: object) -> object:
        parts = str(text).split(",") if text else []
        if any(_NUMBER.match(part) for part in parts if part not in labels):
            return UNKNOWN  # a text that begins as a number may be taken for one
        found = {_label(part, labels, how) for part in parts}
        return UNKNOWN if UNKNOWN in found else ",".join(label for label in labels if label in found)

    return by_distinct(chosen, pa.string())


def _label(text: str, labels: tuple[str, ...], how: Circumstances) -> object:
    wanted = text.rstrip(" ")
    if wanted in labels:
        return wanted
    folded = [label for label in labels if label.casefold() == wanted.casefold()]
    # Only a strict session tells that there is a label under the collation: it would have failed.
    if len(folded) == 1 and how.strict:
        return folded[0]
    if wanted == "" and not how.strict:
        return ""
    if not folded and wanted.isdecimal() and wanted.isascii() and 0 < int(wanted) <= len(labels):
        return labels[int(wanted) - 1]
    # In a lax session a text that is no label under any collation becomes the empty text.
    if not how.strict and not folded and wanted.isascii() and wanted.isprintable() and all(map(str.isascii, labels)):
        return ""
    return UNKNOWN


def number_of_label(old: ColumnSide) -> Conversion | None:
    """Labels of an ENUM, or sets of them, as the numbers that they are stored as."""
    labels = old.labels
    if labels is None:
        return None
    numbers = {label: number for number, label in enumerate(labels, 1)}
    if old.type_name == "enum":
        return by_distinct(
            lambda text: 0 if text == "" and "" not in numbers else numbers.get(str(text), UNKNOWN), pa.int64()
        )

    def bits(text: object) -> object:
        parts = str(text).split(",") if text else []
        if not all(part in numbers for part in parts) or len(numbers) > 63:
            return UNKNOWN
        return sum(1 << (numbers[part] - 1) for part in parts)

    return by_distinct(bits, pa.int64())


def label_of_number(old: ColumnSide, new: ColumnSide, how: Circumstances) -> Conversion | None:
    """Numbers as an ENUM takes them: in MySQL a label that is called so, else the place of one."""
    labels = new.labels
    if labels is None or new.type_name != "enum" or old.definition.zerofill:
        return None

    def label(value: object) -> object:
        number = int(str(value))
        if str(number) in labels and how.vendor is Vendor.MYSQL:
            return str(number)
        if 0 < number <= len(labels):
            return labels[number - 1]
        return UNKNOWN if how.strict else ""

    return by_distinct(label, pa.string())


def text_of_address(old: ColumnSide) -> Conversion:
    """UUID, INET4 and INET6 as the server shows them, from their texts or their bytes."""

    def convert(values: pa.Array) -> Values:
        if not pa.types.is_binary(values.type):
            return Values(values)
        width = _ADDRESS_BYTES[old.type_name]
        # The log, and so a target, lacks zeros at the end.
        found = by_distinct(lambda value: _filled_up(value, width), pa.binary())(values)
        return Values(address_texts(old.type_name, found.array), found.unknown)

    return convert


def address_of(old: ColumnSide, new: ColumnSide, how: Circumstances) -> Conversion | None:
    """Texts, bytes and INET4 addresses as a UUID, INET4 or INET6 takes them; None: it is not known how."""
    if old.type_name in ADDRESSES and (old.type_name, new.type_name) != ("inet4", "inet6"):
        return None
    if not how.strict and not old.type_name.endswith(("char", "text")):
        return None  # some versions make NULL of it

    def packed(value: object) -> object:
        if old.type_name == "inet4" and isinstance(value, str):
            value = f"::ffff:{value}"
        return _packed(new.type_name, value) or UNKNOWN

    def convert(values: pa.Array) -> Values:
        found = by_distinct(packed, pa.binary())(values)
        if pa.types.is_binary(new.arrow_type):
            return found
        return Values(address_texts(new.type_name, found.array), found.unknown)

    return convert


def _filled_up(value: object, width: int) -> object:
    return value.ljust(width, b"\0") if isinstance(value, bytes) and len(value) <= width else UNKNOWN


def _packed(name: str, value: object) -> bytes | None:
    if isinstance(value, bytes):
        if name == "inet6" and len(value) == _ADDRESS_BYTES["inet4"]:
            return ipaddress.IPv6Address(f"::ffff:{ipaddress.IPv4Address(value)}").packed
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
