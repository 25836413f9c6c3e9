"""What the walks over row events share: codes, the head of an event, the size before a value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.events.layout import EventType
from binlog_format.events.table_map_layout import TABLE_BODY_OFFSET
from binlog_format.kernels import kernel
from binlog_format.memory_kernels import load_u8, load_u16, load_u32

if TYPE_CHECKING:
    from binlog_format.kernels import Bytes

NULL = -1
ABSENT = -2

OK = 0
SHORT_HEADER = 1  # the event ends before its first row
WRONG_COLUMN_COUNT = 2  # the event has another number of columns than the table map
VALUE_BEYOND_EVENT = 3  # a value, or a null bitmap, ends behind the event
EMPTY_ROWS = 4  # rows that take no bytes, and bytes left
NOT_A_ROW_EVENT = 5
EVENT_BEYOND_DATA = 6
NO_ROOM = 7  # more images than there is room for
NOT_WHOLE = 8  # an image does not have all columns

# v1: behind table_id and flags, as in a table map
_COLUMNS_OFFSET = TABLE_BODY_OFFSET

WRITE = int(EventType.WRITE_ROWS_V1)
UPDATE = int(EventType.UPDATE_ROWS_V1)
DELETE = int(EventType.DELETE_ROWS_V1)

INSERT_KIND = 0  # `ImageKind` for kernels
BEFORE_KIND = 1
AFTER_KIND = 2
DELETE_KIND = 3


@kernel
def _varint(data: Bytes, place: int, end: int) -> tuple[int, int]:
    # The number and the byte behind it; -1 where it does not fit or is larger than any column count.
    if place >= end:
        return -1, place
    first = load_u8(data, place)
    if first < 0xFB:
        return first, place + 1
    if first != 0xFC or place + 3 > end:
        return -1, place
    return load_u16(data, place + 1), place + 3


@kernel
def value_size(data: Bytes, place: int, prefix: int) -> int:
    """The size that stands before a value, in *prefix* bytes, 1 to 4."""
    if prefix == 1:
        return load_u8(data, place)
    if prefix == 2:
        return load_u16(data, place)
    if prefix == 3:
        return load_u16(data, place) | load_u8(data, place + 2) << 16
    return load_u32(data, place)


@kernel
def open_event(data: Bytes, start: int, size: int, kind: int, column_count: int) -> tuple[int, int]:
    """Check the head of a row event v1.

    Returns:
        Code, and the byte of the first bitmap of present columns (or, for `WRONG_COLUMN_COUNT`, the number found).
    """
    end = start + size
    if start < 0 or size < 0 or end > data.size:
        return EVENT_BEYOND_DATA, 0
    if kind != WRITE and kind != UPDATE and kind != DELETE:
        return NOT_A_ROW_EVENT, 0
    count, place = _varint(data, start + _COLUMNS_OFFSET, end)
    if count < 0:
        return SHORT_HEADER, 0
    if count != column_count:
        return WRONG_COLUMN_COUNT, count
    if place + ((count + 7) >> 3) * (2 if kind == UPDATE else 1) > end:
        return SHORT_HEADER, 0
    return OK, place
