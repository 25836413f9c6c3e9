"""Table maps that contain more, or something else, than the server wrote.

`renamed_table_map`, `keyed_table_map`, `with_metadata`, `with_bits_of_years`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.events.layout import EVENT_SIZE_OFFSET
from binlog_format.events.table_map_layout import (
    NUMERIC_TYPES,
    TABLE_BODY_OFFSET,
    VARINT_1_BYTE_MAX,
    VARINT_SIZES,
    ColumnType,
    MetadataField,
)
from binlog_format.vendor import MYSQL_WITHOUT_YEAR_BITS_UNTIL, MYSQL_YEAR_BITS_SINCE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from binlog_format.kernels import Bytes

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


def with_bits_of_years(content: bytes, types: Sequence[ColumnType], server_version: int | None) -> bytes | None:
    """SIGNEDNESS as later versions of MySQL, and MariaDB, write it: with a bit for YEAR, which is always unsigned.

    Without one the bits of later columns come one place earlier.

    Args:
        content: SIGNEDNESS in a table map of MySQL.
        types: Of all columns.
        server_version: See `Block`.

    Returns:
        None: the column of each bit is not known.
    """
    numeric = [type_ for type_ in types if type_ in NUMERIC_TYPES]
    if ColumnType.YEAR not in numeric or server_version is None or server_version >= MYSQL_YEAR_BITS_SINCE:
        return content
    is_year = np.array([type_ is ColumnType.YEAR for type_ in numeric])
    stored = np.unpackbits(np.frombuffer(content, np.uint8))
    count = len(numeric) - int(is_year.sum())
    may_have_years = _fits(stored, len(numeric)) and bool(stored[: len(numeric)][is_year].all())
    if not _fits(stored, count):
        return content if may_have_years else None
    unsigned = np.ones(len(numeric), np.uint8)
    unsigned[~is_year] = stored[:count]
    inserted = np.packbits(unsigned).tobytes()
    is_known = server_version <= MYSQL_WITHOUT_YEAR_BITS_UNTIL or not may_have_years
    return inserted if is_known or inserted == content else None


def _fits(stored: Bytes, count: int) -> bool:
    """True if these bits, of whole bytes, can be those of so many columns: the others in the last byte are 0."""
    return len(stored) == (count + 7) // 8 * 8 and not stored[count:].any()
