"""Cut the bytes of a classic binlog file into events and groups: `scan_groups`; check events alone: `check_events`."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from binlog_format.classic.layout import (
    EVENT_FLAG_IGNORABLE,
    ROWS_FLAG_STATEMENT_END,
    ROWS_FLAGS_OFFSET,
    EventClass,
    GroupKind,
)
from binlog_format.events.checksum_kernels import crc32
from binlog_format.events.event_table_kernels import query_text_start, read_gtid
from binlog_format.events.layout import (
    EVENT_FLAGS_OFFSET,
    EVENT_HEADER_SIZE,
    EVENT_SERVER_ID_OFFSET,
    EVENT_SIZE_MAX,
    EVENT_SIZE_OFFSET,
    EVENT_TYPE_OFFSET,
    GTID_FLAG_STANDALONE,
    GTID_FLAGS_OFFSET,
    GTID_SIZE_MIN,
    EventType,
)
from binlog_format.events.mysql_gtid_kernels import GTID_READ, GTID_SOURCES_FULL, read_mysql_gtid
from binlog_format.events.query_layout import QUERY_FIXED_SIZE
from binlog_format.kernels import as_bytes, kernel
from binlog_format.memory_kernels import load_u8, load_u16, load_u32
from binlog_format.position import VIRTUAL_PAGE_SIZE

if TYPE_CHECKING:
    from binlog_format.block import Table
    from binlog_format.kernels import Bytes, Int32s, Int64s


class ScanError(IntEnum):
    """Kinds of damage to the event at `ClassicScan.place_next`."""

    NONE = 0
    EVENT_SIZE = 1  # stored: the size it claims
    CHECKSUM = 2  # stored, computed
    TOO_SHORT = 3  # stored: its type; the fixed part does not fit
    NESTED = 4  # stored: its type; it cannot be inside a group
    OUTSIDE = 5  # stored: its type; it cannot be outside of groups
    UNREADABLE = 6  # stored: its type; of a class that ends reading
    UNKNOWN = 7  # stored: its type; nothing is known of it, and it may not be ignored
    GTID = 8  # stored: its type; its GTID cannot be read
    SOURCES_FULL = 9  # not wrong: scan again with room for more sources


class ClassicScan(NamedTuple):
    """Result of `scan_groups`; bytes count from the start of the data.

    Attributes:
        error: `ScanError`.
        stored: See `ScanError`.
        computed: See `ScanError`.
        groups_done: Groups that end in the data; the tables may hold one more that does not.
        events_done: Events of those.
        done: All before this byte is done: ended groups, and events between groups.
        data_done: End of the last ended group, 0 without one.
        events: Events in the table, those of the group that does not end here included.
        place_next: After the last whole event.
        size_next: Size of the event there, which is not whole; 0 when not even its header is.
        kind: `GroupKind` of the group that does not end here.
    """

    error: int
    stored: int
    computed: int
    groups_done: int
    events_done: int
    done: int
    data_done: int
    events: int
    place_next: int
    size_next: int
    kind: int


# Plain numbers: Numba gives members of an enum a type of their own.
_CONTROL = int(EventClass.CONTROL)
_GTID = int(EventClass.GTID)
_PREFIX = int(EventClass.PREFIX)
_ROWS = int(EventClass.ROWS)
_QUERY = int(EventClass.QUERY)
_END = int(EventClass.END)
_INCIDENT = int(EventClass.INCIDENT)
_FORMAT = int(EventClass.FORMAT)
_TYPE_MARIADB_GTID = int(EventType.MARIADB_GTID)
_TYPE_INCIDENT = int(EventType.INCIDENT)
_UNKNOWN_CLASS = int(EventClass.UNKNOWN)
_TRANSACTION = int(GroupKind.TRANSACTION)
_STATEMENT = int(GroupKind.STATEMENT)
_UNDECIDED = int(GroupKind.UNDECIDED)
_OK = int(ScanError.NONE)
_EVENT_SIZE = int(ScanError.EVENT_SIZE)
_CHECKSUM = int(ScanError.CHECKSUM)
_TOO_SHORT = int(ScanError.TOO_SHORT)
_NESTED = int(ScanError.NESTED)
_OUTSIDE = int(ScanError.OUTSIDE)
_UNREADABLE = int(ScanError.UNREADABLE)
_UNKNOWN = int(ScanError.UNKNOWN)
_BAD_GTID = int(ScanError.GTID)
_SOURCES_FULL = int(ScanError.SOURCES_FULL)

_COMMIT = as_bytes(b"COMMIT")
_ROLLBACK = as_bytes(b"ROLLBACK")
_BEGIN = as_bytes(b"BEGIN")
_XA_START = as_bytes(b"XA START ")


@kernel
def _is_text(data: Bytes, p: int, text: Bytes) -> bool:
    # The bit that tells small from capital letters does not count; with it cleared only letters can be equal.
    for i in range(len(text)):
        if load_u8(data, p + i) & 0xDF != text[i] & 0xDF:
            return False
    return True


@kernel
def _query_ends_group(data: Bytes, p: int, size: int) -> bool:
    text = query_text_start(data, p)
    length = p + size - text
    if length == len(_COMMIT):
        return _is_text(data, text, _COMMIT)
    if length == len(_ROLLBACK):
        return _is_text(data, text, _ROLLBACK)
    return False


@kernel
def _group_kind(data: Bytes, p: int, size: int, event_class: int) -> int:
    # MySQL: what the first event of a group after its GTID tells of the group.
    if event_class == _PREFIX or event_class == _UNKNOWN_CLASS:
        return _UNDECIDED
    if event_class != _QUERY:
        return _STATEMENT if event_class == _INCIDENT else _TRANSACTION
    text = query_text_start(data, p)
    length = p + size - text
    if length == len(_BEGIN) and _is_text(data, text, _BEGIN):
        return _TRANSACTION
    if length > len(_XA_START) and _is_text(data, text, _XA_START):
        return _TRANSACTION
    return _STATEMENT


@kernel
def _ends_group(data: Bytes, p: int, size: int, event_class: int, kind: int) -> bool:
    if event_class == _GTID or kind == _UNDECIDED:
        return False
    if kind == _STATEMENT:
        if event_class == _ROWS:
            return load_u16(data, p + ROWS_FLAGS_OFFSET) & ROWS_FLAG_STATEMENT_END != 0
        return event_class != _PREFIX and event_class != _UNKNOWN_CLASS
    return event_class == _END or (event_class == _QUERY and _query_ends_group(data, p, size))


@kernel
def _check_event(
    data: Bytes, p: int, body_size: int, event_class: int, in_group: bool, verify: bool
) -> tuple[int, int, int]:
    # Returns ScanError, stored, computed; the whole event is there, and its checksum when `verify`.
    if verify:
        stored = load_u32(data, p + body_size)
        computed = int(np.int64(crc32(data, p, p + body_size)))
        if stored != computed:
            return _CHECKSUM, stored, computed
    event_type = load_u8(data, p + EVENT_TYPE_OFFSET)
    error = _OK
    if event_class >= _FORMAT:
        error = _UNREADABLE
    elif event_class == _GTID or event_class == _CONTROL:
        if in_group:
            error = _NESTED
        elif event_class == _GTID and body_size < GTID_SIZE_MIN:
            error = _TOO_SHORT
    elif event_class == _UNKNOWN_CLASS:
        if load_u16(data, p + EVENT_FLAGS_OFFSET) & EVENT_FLAG_IGNORABLE == 0:
            error = _UNKNOWN
    elif not in_group and event_class != _INCIDENT:
        if load_u16(data, p + EVENT_FLAGS_OFFSET) & EVENT_FLAG_IGNORABLE == 0:
            error = _OUTSIDE
    elif event_class == _QUERY:
        if body_size < QUERY_FIXED_SIZE:
            error = _TOO_SHORT
    elif event_class == _ROWS and body_size < ROWS_FLAGS_OFFSET + 2:
        error = _TOO_SHORT
    return error, event_type, 0


@kernel
def _read_gtid(
    data: Bytes,
    p: int,
    size: int,
    groups: Table,
    row: int,
    keys: Bytes,
    slots: Int32s,
    counts: Int64s,
) -> tuple[int, int]:
    # Returns ScanError and GroupKind.
    event_type = load_u8(data, p + EVENT_TYPE_OFFSET)
    if event_type == _TYPE_INCIDENT:
        read_gtid(data, p, size, groups, row)  # there is none
        return _OK, _STATEMENT
    if event_type == _TYPE_MARIADB_GTID:
        read_gtid(data, p, size, groups, row)
        is_statement = load_u8(data, p + GTID_FLAGS_OFFSET) & GTID_FLAG_STANDALONE != 0
        return _OK, _STATEMENT if is_statement else _TRANSACTION
    code = read_mysql_gtid(data, p, size, groups, row, keys, slots, counts)
    if code == GTID_READ:
        return _OK, _UNDECIDED
    return _SOURCES_FULL if code == GTID_SOURCES_FULL else _BAD_GTID, _UNDECIDED


@kernel
def _begin_group(groups: Table, row: int, file_no: int, file_offset: int) -> None:
    groups["file_no"][row] = file_no
    groups["page"][row] = file_offset // VIRTUAL_PAGE_SIZE
    groups["chunk"][row] = file_offset % VIRTUAL_PAGE_SIZE
    groups["file_offset"][row] = file_offset
    groups["event_no"][row] = 0
    groups["oob_records"][row] = 0
    groups["oob_records_second_set"][row] = 0
    groups["begins"][row] = True
    groups["ends"][row] = False


@kernel
def _add_event(events: Table, row: int, data: Bytes, p: int, size: int, group: int, event_no: int) -> None:
    events["start"][row] = p
    events["size"][row] = size
    events["type"][row] = data[p + EVENT_TYPE_OFFSET]
    events["flags"][row] = load_u16(data, p + EVENT_FLAGS_OFFSET)
    events["timestamp"][row] = load_u32(data, p)
    events["server_id"][row] = load_u32(data, p + EVENT_SERVER_ID_OFFSET)
    events["group"][row] = group
    events["event_no"][row] = event_no


@kernel
def scan_groups(
    data: Bytes,
    size: int,
    file_no: int,
    file_offset: int,
    limit: int,
    checksum_size: int,
    verify: bool,
    classes: Bytes,
    open_group: bool,
    kind: int,
    groups: Table,
    events: Table,
    keys: Bytes,
    slots: Int32s,
    counts: Int64s,
) -> ClassicScan:
    """Fill the tables with what begins in `data[:size]`, up to the first event that is not whole.

    *file_offset* is the byte of the file where the data begins, and an event. No group is begun at byte *limit* of the
    file or after it. With *open_group* the data goes on with a group, whose row is the first one of *groups*, its
    `event_no` that of the first event here; *kind* belongs to it. Scanning stops when a table is full. *keys*, *slots*
    and *counts* are those of `read_mysql_gtid`.
    """
    group = 0 if open_group else -1
    in_group = open_group
    event_no = groups["event_no"][0] if open_group else 0
    p, event, first_event, group_size, size_next = 0, 0, 0, 0, 0
    groups_done, events_done, done, data_done = 0, 0, 0, 0
    error, stored, computed = _OK, 0, 0
    while in_group or (file_offset + p < limit and group + 1 < len(groups)):
        if event == len(events) or p + EVENT_HEADER_SIZE > size:
            break
        event_size = load_u32(data, p + EVENT_SIZE_OFFSET)
        if event_size < EVENT_HEADER_SIZE + checksum_size or event_size > EVENT_SIZE_MAX:
            error, stored = _EVENT_SIZE, event_size
            break
        if p + event_size > size:
            size_next = event_size
            break
        body_size = event_size - checksum_size
        event_class = load_u8(classes, load_u8(data, p + EVENT_TYPE_OFFSET))
        error, stored, computed = _check_event(data, p, body_size, event_class, in_group, verify and checksum_size > 0)
        if error != _OK:
            break
        if event_class == _GTID or (event_class == _INCIDENT and not in_group):
            error, kind = _read_gtid(data, p, body_size, groups, group + 1, keys, slots, counts)
            if error != _OK:
                stored = load_u8(data, p + EVENT_TYPE_OFFSET)
                break
            group, in_group, event_no, first_event, group_size = group + 1, True, 0, event, 0
            _begin_group(groups, group, file_no, file_offset + p)
        elif kind == _UNDECIDED and in_group:
            kind = _group_kind(data, p, body_size, event_class)
        if in_group:
            _add_event(events, event, data, p, body_size, group, event_no)
            event, event_no, group_size = event + 1, event_no + 1, group_size + body_size
            groups["first_event"][group] = first_event
            groups["event_count"][group] = event - first_event
            groups["size"][group] = group_size
            if _ends_group(data, p, body_size, event_class, kind):
                in_group = False
                groups["ends"][group] = True
                groups_done, events_done, data_done = group + 1, event, p + event_size
        p += event_size
        if not in_group:
            done = p
    return ClassicScan(error, stored, computed, groups_done, events_done, done, data_done, event, p, size_next, kind)


class EventCheck(NamedTuple):
    """Result of `check_events`.

    Attributes:
        checked: Bytes of whole, sound events; all that there are when nothing is wrong.
        stored: The checksum of the event there; equals `computed` where its size is what is wrong.
        computed: Of its bytes.
    """

    checked: int
    stored: int
    computed: int


@kernel
def check_events(data: Bytes, size: int, checksum_size: int) -> EventCheck:
    """Go from event to event in `data[:size]`, and compute each one's checksum; 0 for *checksum_size*: sizes alone."""
    p = 0
    while p + EVENT_HEADER_SIZE <= size:
        event_size = load_u32(data, p + EVENT_SIZE_OFFSET)
        if event_size < EVENT_HEADER_SIZE + checksum_size or event_size > size - p:
            break
        if checksum_size > 0:
            body_end = p + event_size - checksum_size
            stored = load_u32(data, body_end)
            computed = int(np.int64(crc32(data, p, body_end)))
            if stored != computed:
                return EventCheck(p, stored, computed)
        p += event_size
    return EventCheck(p, 0, 0)
