"""Table maps that contain more, or something else, than the server wrote.

`renamed_table_map`, `keyed_table_map`, `with_metadata`, `with_bits_of_years`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.events.layout import EVENT_SIZE_OFFSET
from binlog_format.events.table_map_layout import (
    NUMERIC_TYPES,
    TABLE_BODY_OFFSET,
    VARINT_1_BYTE_MAX,
    VARINT_SIZES,
    ColumnType,
    MetadataField,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_EVENT_SIZE_BYTES = 4


def renamed_table_map(event: bytes, database: str, table: str) -> bytes:
    """A table map event of another table with the same columns.

    Args:
        event: Header and body, without checksum, as `parse_table_map` reads them.
    """
    columns = TABLE_BODY_OFFSET
    for _ in range(2):
        columns += event[columns] + 2  # a byte with the size before the name, 0x00 after it
    return _sized(event[:TABLE_BODY_OFFSET] + packed_name(database) + packed_name(table) + event[columns:])


def keyed_table_map(event: bytes, columns: Sequence[int]) -> bytes:
    """A table map event that names a primary key, of one that names none.

    Args:
        event: As `renamed_table_map`.
        columns: Indices of the key's columns, in key order.
    """
    return with_metadata(event, {MetadataField.SIMPLE_PRIMARY_KEY: b"".join(map(packed_varint, columns))})


def with_metadata(event: bytes, fields: Mapping[int, bytes]) -> bytes:
    """A table map event with more optional metadata. *fields*: contents by type, in their order."""
    return _sized(
        event + b"".join(bytes([kind]) + packed_varint(len(content)) + content for kind, content in fields.items())
    )


def _sized(event: bytes) -> bytes:
    size = len(event).to_bytes(_EVENT_SIZE_BYTES, "little")
    return event[:EVENT_SIZE_OFFSET] + size + event[EVENT_SIZE_OFFSET + _EVENT_SIZE_BYTES :]


def packed_varint(number: int) -> bytes:
    """A number as table maps have it."""
    if number <= VARINT_1_BYTE_MAX:
        return bytes([number])
    first, size = next((first, size) for first, size in VARINT_SIZES.items() if number < 1 << 8 * size)
    return bytes([first]) + number.to_bytes(size, "little")


def packed_name(name: str) -> bytes:
    """The name of a database or a table as table maps have it."""
    data = name.encode()
    return bytes([len(data)]) + data + b"\0"


_LAST_WITHOUT_YEARS = 8_00_20
"""MySQL 8.0.12 has no bit for YEAR in SIGNEDNESS (seen on it), nor has the source until here (sql/field.h)."""
_FIRST_WITH_YEARS = 8_00_29
"""Known to have it (`has_signedess_information_type` in sql/field_common_properties.h, a file of 2020)."""


def with_bits_of_years(content: bytes, types: Sequence[ColumnType], server_version: int | None) -> bytes | None:
    """SIGNEDNESS as later versions of MySQL, and MariaDB, write it: with a bit for YEAR, which is always unsigned.

    Without one the bits of later columns come one place earlier.

    Args:
        content: SIGNEDNESS in a table map of MySQL.
        types: Of all columns.
        server_version: See `Block`.

    Returns:
        None: which bit is whose cannot be told.
    """
    numeric = [type_ for type_ in types if type_ in NUMERIC_TYPES]
    if ColumnType.YEAR not in numeric or server_version is None or server_version >= _FIRST_WITH_YEARS:
        return content
    stored = [bool(byte << bit & 0x80) for byte in content for bit in range(8)]
    others = iter(stored)
    inserted = _packed([type_ is ColumnType.YEAR or next(others, False) for type_ in numeric])
    may_lack = _is_of(content, sum(type_ is not ColumnType.YEAR for type_ in numeric))
    may_have = _is_of(content, len(numeric)) and all(
        bit for bit, type_ in zip(stored, numeric, strict=False) if type_ is ColumnType.YEAR
    )
    if server_version <= _LAST_WITHOUT_YEARS or (may_lack and not may_have):
        return inserted
    return content if may_have and (not may_lack or inserted == content) else None


def _is_of(content: bytes, count: int) -> bool:
    """True if these can be the bits of so many columns: those that fill the last byte are 0."""
    bits = int.from_bytes(content, "big")
    return len(content) == (count + 7) // 8 and bits % (1 << (len(content) * 8 - count)) == 0


def _packed(bits: Sequence[bool]) -> bytes:
    size = (len(bits) + 7) // 8
    return (int("".join("01"[bit] for bit in bits), 2) << (size * 8 - len(bits))).to_bytes(size, "big")
