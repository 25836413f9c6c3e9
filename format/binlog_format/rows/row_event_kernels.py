"""Common parts of the walks over row events: codes, the head of an event, the size before a value."""

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
CHANGES_ONLY = -3  # or less: of a JSON value the event has changes (as many bytes from there), and nothing the value

OK = 0
SHORT_HEADER = 1  # the event ends before its first row
WRONG_COLUMN_COUNT = 2  # the event has another number of columns than the table map
VALUE_BEYOND_EVENT = 3  # a value, or a null bitmap, ends beyond the event
EMPTY_ROWS = 4  # rows that take no bytes, and bytes left
NOT_A_ROW_EVENT = 5
EVENT_BEYOND_DATA = 6
NO_ROOM = 7  # more images than there is room for
NOT_WHOLE = 8  # an image does not have all columns, or may have parts of values

BAD_JSON_DIFFS = 9  # options of a partial update that are unknown, or changes that do not fit

# v0 and v1: after table_id and flags, as in a table map. In v2 there are more data before it, which begin with their
# size, the two bytes of the size included (MySQL libs/mysql/binlog/event/rows_event.h: `Rows_event`).
_COLUMNS_OFFSET = TABLE_BODY_OFFSET
_EXTRA_SIZE_MIN = 2

WRITE_V0 = int(EventType.WRITE_ROWS_V0)
UPDATE_V0 = int(EventType.UPDATE_ROWS_V0)
DELETE_V0 = int(EventType.DELETE_ROWS_V0)
WRITE = int(EventType.WRITE_ROWS_V1)
UPDATE = int(EventType.UPDATE_ROWS_V1)
DELETE = int(EventType.DELETE_ROWS_V1)
WRITE_V2 = int(EventType.WRITE_ROWS_V2)
DELETE_V2 = int(EventType.DELETE_ROWS_V2)
PARTIAL_UPDATE = int(EventType.PARTIAL_UPDATE_ROWS)

INSERT_KIND = 0  # `ImageKind` for kernels
BEFORE_KIND = 1
AFTER_KIND = 2
DELETE_KIND = 3


@kernel
def packed_number(data: Bytes, place: int, end: int) -> tuple[int, int]:
    """A number in 1 to 3 bytes and the byte after it; -1 where it does not fit or is larger than any column count."""
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
    """The size that comes before a value, in *prefix* bytes, 1 to 4."""
    if prefix == 1:
        return load_u8(data, place)
    if prefix == 2:
        return load_u16(data, place)
    if prefix == 3:
        return load_u16(data, place) | load_u8(data, place + 2) << 16
    return load_u32(data, place)


@kernel
def row_action(kind: int) -> int:
    """`WRITE`, `UPDATE` or `DELETE` for a row event of any version, 0 for other events."""
    if WRITE <= kind <= DELETE:
        return kind
    if WRITE_V2 <= kind <= DELETE_V2:
        return kind - WRITE_V2 + WRITE
    if kind == PARTIAL_UPDATE:
        return UPDATE
    if WRITE_V0 <= kind <= DELETE_V0:
        return kind - WRITE_V0 + WRITE
    return 0


@kernel
def shares_bitmap(kind: int) -> bool:
    """True if both images of an update share one bitmap of columns, as in version 0."""
    return kind == UPDATE_V0


@kernel
def open_event(data: Bytes, start: int, size: int, kind: int, column_count: int) -> tuple[int, int]:
    """Check the head of a row event.

    Returns:
        Code, and the byte of the first bitmap of present columns (or, for `WRONG_COLUMN_COUNT`, the number found).
    """
    end = start + size
    if start < 0 or size < 0 or end > data.size:
        return EVENT_BEYOND_DATA, 0
    action = row_action(kind)
    if action == 0:
        return NOT_A_ROW_EVENT, 0
    place = start + _COLUMNS_OFFSET
    if kind >= WRITE_V2:
        if place + _EXTRA_SIZE_MIN > end:
            return SHORT_HEADER, 0
        extra = load_u16(data, place)
        if extra < _EXTRA_SIZE_MIN:
            return SHORT_HEADER, 0
        place += extra
    count, place = packed_number(data, place, end)
    if count < 0:
        return SHORT_HEADER, 0
    if count != column_count:
        return WRONG_COLUMN_COUNT, count
    bitmaps = 2 if action == UPDATE and not shares_bitmap(kind) else 1
    if place + ((count + 7) >> 3) * bitmaps > end:
        return SHORT_HEADER, 0
    return OK, place
