"""Commit records to event groups: `read_commit_headers`, `read_first_events`, `append_groups`.

A commit record begins with 1, 6 or 10 compressed integers, then come event bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.events.event_table_kernels import EVENTS_DONE, EVENTS_TABLE_FULL, cut_events, read_gtid
from binlog_format.events.layout import EVENT_HEADER_SIZE, GTID_SIZE_MIN
from binlog_format.innodb.compressed_int_kernels import read_int
from binlog_format.innodb.groups.forest_kernels import OOB_DONE, OOB_ELSEWHERE, append_oob_sets
from binlog_format.innodb.layout import CHUNK_HEADER_SIZE, CHUNK_KIND_MASK, COMMIT_HEADER_SIZE_MAX, RecordKind
from binlog_format.kernels import kernel
from binlog_format.memory_kernels import copy_bytes, load_u8

if TYPE_CHECKING:
    from binlog_format.block import Table
    from binlog_format.innodb.tables import Joined, Pages, TableWalk
    from binlog_format.kernels import Bytes, Int64s, Uint64s

COMMIT_DONE = 0
COMMIT_BAD_HEADER = -1
"""The integers of a commit record run past its end, or past 64 bits."""
COMMIT_BAD_EVENT = -2
"""The event bytes of a group are no whole number of events, or its GTID event is too short."""
COMMIT_TABLE_FULL = -3
"""The event table has no room for the next group."""
COMMIT_NO_ROOM = -4
"""The data, the groups or the extents have no room for the next group."""
COMMIT_ELSEWHERE = -5
"""The next group's out-of-band data are not all in the window."""

HEAD_SIZE = COMMIT_HEADER_SIZE_MAX + GTID_SIZE_MIN
"""This part of a commit record contains its integers and its GTID."""

_KIND_COMMIT = int(RecordKind.COMMIT)


@kernel
def _copy_record(pages: Bytes, chunks: Table, first: int, end: int, skip: int, size_max: int, data: Bytes) -> int:
    """Join up to *size_max* bytes of a commit record, without the first *skip*; how many they are."""
    chunk_type = chunks["type"]
    chunk_start = chunks["start"]
    chunk_size = chunks["size"]
    to = 0
    for row in range(first, end):
        if int(chunk_type[row]) & CHUNK_KIND_MASK != _KIND_COMMIT:
            continue
        left_out = min(skip, chunk_size[row])
        skip -= left_out
        size = min(chunk_size[row] - left_out, size_max - to)
        copy_bytes(data, to, pages, chunk_start[row] + left_out, size)
        to += size
        if to >= size_max:
            break
    return to


@kernel
def read_commit_integers(head: Bytes, size: int, values: Uint64s) -> int:
    """Decode the integers that a commit record begins with.

    Args:
        head: Its first bytes.
        size: How many there are: all, or at least `COMMIT_HEADER_SIZE_MAX`.
        values: Ten integers: count, first file, first offset, last file, last offset, and the same for the second set;
            zeros where there are none.

    Returns:
        Bytes taken; negative: they cannot be read.
    """
    values[:] = 0
    at = 0
    wanted = 1
    number = 0
    while number < wanted:
        at, value = read_int(head, at, size)
        if at < 0:
            return at
        values[number] = value
        # A count that is not zero brings four more integers, and after the first four a second count.
        if number == 0 and value != 0:
            wanted = 6
        elif number == 5 and value != 0:
            wanted = 10
        number += 1
    return at


@kernel
def read_commit_headers(
    pages: Bytes, chunks: Table, records: Table, record_count: int, head: Bytes, values: Uint64s
) -> tuple[int, int]:
    """Fill the columns of *records* from `header_size` on.

    Args:
        records: `RECORD_DTYPE`, from `link_records`.
        record_count: Rows of it.
        head: Scratch, `HEAD_SIZE` bytes.
        values: Scratch, 10 integers.

    Returns:
        `COMMIT_DONE` or `COMMIT_BAD_HEADER`, and the records done.
    """
    chunk_start = chunks["start"]
    chunk_size = chunks["size"]
    first = records["first"]
    end = records["end"]
    header_size = records["header_size"]
    oob_records = records["oob_records"]
    oob_records_second = records["oob_records_second_set"]
    for record in range(record_count):
        if chunk_size[first[record]] > 0 and load_u8(pages, chunk_start[first[record]]) == 0:
            header_size[record] = 1  # by far the most: no out-of-band data
            oob_records[record] = 0
            oob_records_second[record] = 0
            continue
        size = _copy_record(pages, chunks, first[record], end[record], 0, COMMIT_HEADER_SIZE_MAX, head)
        taken = read_commit_integers(head, size, values)
        if taken < 0 or values[0] >> np.uint64(62) != 0 or values[5] >> np.uint64(62) != 0:
            return COMMIT_BAD_HEADER, record
        header_size[record] = taken
        oob_records[record] = values[0]
        records["first_file_no"][record] = values[1]
        records["first_offset"][record] = values[2]
        records["last_file_no"][record] = values[3]
        records["last_offset"][record] = values[4]
        oob_records_second[record] = values[5]
        records["first_file_no_second_set"][record] = values[6]
        records["first_offset_second_set"][record] = values[7]
        records["last_file_no_second_set"][record] = values[8]
        records["last_offset_second_set"][record] = values[9]
    return COMMIT_DONE, record_count


@kernel
def read_first_events(
    pages: Bytes, chunks: Table, records: Table, record_count: int, head: Bytes, groups: Table
) -> None:
    """Fill timestamp and GTID of *groups*, one row for each record, without joining more than the first event.

    A record whose first event is too short to be told gets no GTID here; reading its events finds the damage.

    Args:
        records: `RECORD_DTYPE`, headers read.
        record_count: Rows of it.
        head: Scratch, `HEAD_SIZE` bytes.
    """
    first = records["first"]
    end = records["end"]
    header_size = records["header_size"]
    for record in range(record_count):
        size = _copy_record(pages, chunks, first[record], end[record], header_size[record], GTID_SIZE_MIN, head)
        groups["has_gtid"][record] = False
        groups["timestamp"][record] = 0
        groups["gtid_source"][record] = -1
        if size >= EVENT_HEADER_SIZE:
            read_gtid(head, 0, size, groups, record)


@kernel
def _join_payload(
    pages: Pages, chunks: Table, first: int, end: int, skip: int, joined: Joined, size: int, extent: int
) -> tuple[int, int]:
    """Join one commit record without its header; return bytes of data and rows of extents in use then."""
    extents = joined.extents
    for row in range(first, end):
        if int(chunks["type"][row]) & CHUNK_KIND_MASK != _KIND_COMMIT:
            continue
        left_out = min(skip, chunks["size"][row])
        skip -= left_out
        byte = chunks["start"][row] + left_out
        length = chunks["size"][row] - left_out
        if length == 0:
            continue
        copy_bytes(joined.data, size, pages.data, byte, length)
        page = chunks["page"][row]
        extents["data_start"][extent] = size
        extents["file_no"][extent] = pages.file_no[page]
        extents["file_offset"][extent] = pages.start[page] + byte - page * pages.page_size
        extents["size"][extent] = length
        extent += 1
        size += length
    return size, extent


@kernel
def _fill_counts(
    groups: Table, group: int, first_event: int, event_count: int, size: int, records: Table, record: int
) -> None:
    """Fill the columns of a group that is whole."""
    groups["first_event"][group] = first_event
    groups["event_count"][group] = event_count
    groups["event_no"][group] = 0
    groups["size"][group] = size
    groups["oob_records"][group] = records["oob_records"][record]
    groups["oob_records_second_set"][group] = records["oob_records_second_set"][record]
    groups["begins"][group] = True
    groups["ends"][group] = True


@kernel
def append_groups(
    pages: Pages,
    chunks: Table,
    records: Table,
    record: int,
    walk: TableWalk,
    joined: Joined,
    groups: Table,
    events: Table,
    used: Int64s,
) -> tuple[int, int, int]:
    """Join commit records and the out-of-band data that they refer to, and cut each group into events.

    Args:
        records: `RECORD_DTYPE`, headers read.
        record: First record to take.
        walk: Knows the out-of-band records that the scan has passed; the rest is scratch.
        joined: Where event bytes go.
        used: Bytes of data and rows of *groups*, *events* and extents used so far; brought up to date.

    Returns:
        `COMMIT_DONE` or why not all records have been taken, the first record not taken, and the byte of the offending
        event; with `COMMIT_BAD_EVENT` bytes and extents of its group are in *used*.
    """
    size, group, event, extent = used[0], used[1], used[2], used[3]
    while record < len(records):
        # What is in use is brought up to date group by group: one that does not come to its end leaves no trace.
        used[0], used[1], used[2], used[3] = size, group, event, extent
        start = size
        row, end = records["first"][record], records["end"][record]
        page = chunks["page"][row]
        file_no = pages.file_no[page]
        file_offset = pages.start[page] + chunks["start"][row] - CHUNK_HEADER_SIZE - page * pages.page_size
        has_room = size + records["size"][record] <= len(joined.data) and extent + end - row <= len(joined.extents)
        if not has_room or group >= len(groups):
            return COMMIT_NO_ROOM, record, size
        skip = records["header_size"][record]
        size, extent = _join_payload(pages, chunks, row, end, skip, joined, size, extent)
        if records["oob_records"][record] > 0:
            commit = (file_no, file_offset)
            code, size, extent = append_oob_sets(pages, records, record, commit, walk, joined, size, extent)
            if code != OOB_DONE:
                return (COMMIT_ELSEWHERE if code == OOB_ELSEWHERE else COMMIT_NO_ROOM), record, size
        code, next_event, at = cut_events(joined.data, start, size, events, event, group, 0)
        is_cut = code == EVENTS_DONE and size > start
        if not is_cut or not read_gtid(joined.data, start, events["size"][event], groups, group):
            if code == EVENTS_TABLE_FULL:
                return COMMIT_TABLE_FULL, record, at
            used[0], used[3] = size, extent
            return COMMIT_BAD_EVENT, record, at
        groups["file_no"][group] = file_no
        groups["page"][group] = pages.start[page] // pages.page_size
        groups["chunk"][group] = chunks["number"][row]
        groups["file_offset"][group] = file_offset
        _fill_counts(groups, group, event, next_event - event, size - start, records, record)
        group += 1
        event = next_event
        record += 1
    used[0], used[1], used[2], used[3] = size, group, event, extent
    return COMMIT_DONE, record, size
