"""Conversions to and from UUID, INET4 and INET6 of MariaDB: each distinct value is looked at once.

Sources: MariaDB sql/sql_type_fixedbin.h (`Field_fbt`), plugin/type_uuid, plugin/type_inet: a session that is not strict
makes NULL of what is none of them.
"""

from __future__ import annotations

import ipaddress
import re
import uuid
from typing import TYPE_CHECKING

import pyarrow as pa

from binlog_connector.schema.effects import texts
from binlog_connector.schema.effects.conversion import UNKNOWN, Converted, Unknown, Values, by_distinct
from binlog_format.rows.values.addresses import address_texts

if TYPE_CHECKING:
    from binlog_connector.schema.effects.conversion import Circumstances, ColumnSide, Conversion, Effect

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
