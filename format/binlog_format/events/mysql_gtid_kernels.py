"""Reads MySQL's GTID events into group tables, and numbers their sources: `read_mysql_gtid`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.events.gtid_layout import (
    MYSQL_GTID_SEQNO_OFFSET,
    MYSQL_GTID_SIZE_MIN,
    MYSQL_GTID_UUID_OFFSET,
    SOURCE_KEY_SIZE,
    TAG_SIZE_MAX,
    TAGGED_FIELD_FLAGS,
    TAGGED_FIELD_NUMBER,
    TAGGED_FIELD_TAG,
    TAGGED_FIELD_UUID,
    TAGGED_VERSION,
    UUID_SIZE,
)
from binlog_format.events.layout import EVENT_HEADER_SIZE, EVENT_SERVER_ID_OFFSET, EVENT_TYPE_OFFSET, EventType
from binlog_format.kernels import kernel
from binlog_format.memory_kernels import copy_bytes, load_u8, load_u32, load_u64

if TYPE_CHECKING:
    from binlog_format.block import Table
    from binlog_format.kernels import Bytes, Int32s, Int64s

GTID_READ = 0
GTID_BAD = 1
"""The event is too short, or is not made of the fields it should have."""
GTID_SOURCES_FULL = 2
"""Its source is new, and there is no room for another one."""

_TYPE_ANONYMOUS = int(EventType.ANONYMOUS_GTID)
_TYPE_TAGGED = int(EventType.GTID_TAGGED)


@kernel
def _varint(data: Bytes, at: int, end: int) -> tuple[int, int]:
    # The number and the byte after it; that byte is -1 when it is not in data[at:end], or has more than 63 bits.
    if at < 0 or at >= end:
        return 0, -1
    first = load_u8(data, at)
    extra = 0
    while extra < 8 and (first >> extra) & 1:
        extra += 1
    if at + 1 + extra > end:
        return 0, -1
    value = first >> (extra + 1) if extra < 7 else 0
    shift = 7 - extra if extra < 7 else 0
    for i in range(extra):
        byte = load_u8(data, at + 1 + i)
        if i == 7 and byte > 0x7F:
            return 0, -1
        value |= byte << (shift + 8 * i)
    return value, at + 1 + extra


@kernel
def _signed_varint(data: Bytes, at: int, end: int) -> tuple[int, int]:
    # The same of a signed number of up to 64 bits; a negative one has the byte -1 too.
    if 0 <= at <= end - 9 and load_u8(data, at) == 0xFF:
        low, high = load_u32(data, at + 1), load_u32(data, at + 5)
        return (low >> 1) | (high << 31), -1 if low & 1 else at + 9
    doubled, after = _varint(data, at, end)
    return doubled >> 1, -1 if doubled & 1 else after


@kernel
def _field(data: Bytes, at: int, end: int, number: int) -> int:
    # The byte after a field's number; -1 when another field is there.
    found, at = _varint(data, at, end)
    return at if found == number else -1


@kernel
def _read_tagged(data: Bytes, start: int, size: int, key: Bytes, key_at: int) -> int:
    # Writes the source's key and gives the transaction number; -1 when the event is not as it should be.
    end = start + size
    version, at = _varint(data, start + EVENT_HEADER_SIZE, end)
    message_size, at = _varint(data, at, end)
    if at < 0 or version != TAGGED_VERSION or message_size != size - EVENT_HEADER_SIZE:
        return -1
    _, at = _varint(data, at, end)
    _, at = _varint(data, _field(data, at, end, TAGGED_FIELD_FLAGS), end)
    at = _field(data, at, end, TAGGED_FIELD_UUID)
    for i in range(UUID_SIZE):
        byte, at = _varint(data, at, end)
        if at < 0 or byte > 0xFF:
            return -1
        key[key_at + i] = byte
    number, at = _signed_varint(data, _field(data, at, end, TAGGED_FIELD_NUMBER), end)
    tag_size, at = _varint(data, _field(data, at, end, TAGGED_FIELD_TAG), end)
    if at < 0 or tag_size > TAG_SIZE_MAX or tag_size > end - at:
        return -1
    for i in range(tag_size):
        byte = load_u8(data, at + i)
        if not (byte == 0x5F or 0x61 <= byte <= 0x7A or (i > 0 and 0x30 <= byte <= 0x39)):
            return -1
        key[key_at + UUID_SIZE + i] = byte
    return number


@kernel
def _is_key(keys: Bytes, a: int, b: int) -> bool:
    for i in range(SOURCE_KEY_SIZE // 8):
        if load_u64(keys, a + 8 * i) != load_u64(keys, b + 8 * i):
            return False
    return True


@kernel
def _first_slot(keys: Bytes, at: int, slot_count: int) -> int:
    hashed = 0
    for i in range(SOURCE_KEY_SIZE // 4):
        hashed = ((hashed << 5) ^ (hashed >> 3) ^ (hashed << 11) ^ load_u32(keys, at + 4 * i)) & 0x3FFFFFFF
    return hashed % slot_count


@kernel
def rehash_sources(keys: Bytes, slots: Int32s, count: int) -> None:
    """Enter the first *count* sources into *slots*, which are all free and more."""
    for source in range(count):
        slot = _first_slot(keys, source * SOURCE_KEY_SIZE, len(slots))
        while slots[slot] >= 0:
            slot = (slot + 1) % len(slots)
        slots[slot] = source


@kernel
def _find_source(keys: Bytes, slots: Int32s, counts: Int64s) -> int:
    # The number of the source whose key comes after the known ones; it becomes known. -1: there is no room.
    count = int(counts[0])
    new = count * SOURCE_KEY_SIZE
    last = int(counts[1])
    if last < count and _is_key(keys, last * SOURCE_KEY_SIZE, new):
        return last
    slot = _first_slot(keys, new, len(slots))
    while slots[slot] >= 0:
        if _is_key(keys, slots[slot] * SOURCE_KEY_SIZE, new):
            counts[1] = slots[slot]
            return int(slots[slot])
        slot = (slot + 1) % len(slots)
    # One key more than there are sources has room; half of the slots stay free.
    if (count + 2) * SOURCE_KEY_SIZE > len(keys) or 2 * (count + 1) > len(slots):
        return -1
    slots[slot] = count
    counts[0] = count + 1
    counts[1] = count
    return count


@kernel
def read_mysql_gtid(
    data: Bytes,
    start: int,
    size: int,
    groups: Table,
    group: int,
    keys: Bytes,
    slots: Int32s,
    counts: Int64s,
) -> int:
    """Fill timestamp and GTID of a row of *groups* from its first event, a GTID event of any of the three types.

    Args:
        start: Byte of the event, all of which is there.
        size: Its bytes, checksum not counted.
        keys: Keys of the sources known, and room for another one.
        slots: Hash table of their numbers; -1: free.
        counts: How many sources are known, and the one found last.

    Returns:
        `GTID_READ`, `GTID_BAD` or `GTID_SOURCES_FULL`.
    """
    event_type = load_u8(data, start + EVENT_TYPE_OFFSET)
    if size < MYSQL_GTID_SIZE_MIN and event_type != _TYPE_TAGGED:
        return GTID_BAD
    groups["timestamp"][group] = load_u32(data, start)
    groups["server_id"][group] = load_u32(data, start + EVENT_SERVER_ID_OFFSET)
    groups["domain"][group] = 0
    groups["gtid_flags"][group] = 0
    groups["seqno"][group] = 0
    groups["gtid_source"][group] = -1
    groups["has_gtid"][group] = False
    if event_type == _TYPE_ANONYMOUS:
        return GTID_READ
    key_at = counts[0] * SOURCE_KEY_SIZE
    if key_at + SOURCE_KEY_SIZE > len(keys):
        return GTID_SOURCES_FULL
    for i in range(UUID_SIZE, SOURCE_KEY_SIZE):
        keys[key_at + i] = 0
    if event_type == _TYPE_TAGGED:
        seqno = _read_tagged(data, start, size, keys, key_at)
    else:
        copy_bytes(keys, key_at, data, start + MYSQL_GTID_UUID_OFFSET, UUID_SIZE)
        if load_u8(data, start + MYSQL_GTID_SEQNO_OFFSET + 7) > 0x7F:
            return GTID_BAD
        seqno = load_u32(data, start + MYSQL_GTID_SEQNO_OFFSET)
        seqno |= load_u32(data, start + MYSQL_GTID_SEQNO_OFFSET + 4) << 32
    if seqno <= 0:
        return GTID_BAD
    source = _find_source(keys, slots, counts)
    if source < 0:
        return GTID_SOURCES_FULL
    groups["seqno"][group] = seqno
    groups["gtid_source"][group] = source
    groups["has_gtid"][group] = True
    return GTID_READ
