"""Table maps that contain more, or something else, than the server wrote: `renamed_table_map`, `keyed_table_map`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.events.layout import EVENT_SIZE_OFFSET
from binlog_format.events.table_map_layout import TABLE_BODY_OFFSET, VARINT_1_BYTE_MAX, VARINT_SIZES, MetadataField

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    key = b"".join(map(packed_varint, columns))
    return _sized(event + bytes([MetadataField.SIMPLE_PRIMARY_KEY]) + packed_varint(len(key)) + key)


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
