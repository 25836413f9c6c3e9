"""PREVIOUS_GTIDS events: what the files before a MySQL file held; `parse_previous_gtids`."""

from __future__ import annotations

import struct
import uuid
from typing import TYPE_CHECKING

from binlog_format.errors import CorruptError, UnsupportedError
from binlog_format.events.gtids.mysql_gtid_layout import (
    INTERVAL_COUNT_STRUCT,
    INTERVAL_STRUCT,
    PREVIOUS_GTIDS_COUNT_STRUCT,
    PREVIOUS_GTIDS_FORMAT_SHIFT,
    PREVIOUS_GTIDS_TAGGED,
    PREVIOUS_GTIDS_TAGGED_COUNT_MASK,
    PREVIOUS_GTIDS_TAGGED_COUNT_SHIFT,
    TAG_SIZE_MAX,
    UUID_SIZE,
)
from binlog_format.events.layout import EVENT_HEADER_SIZE
from binlog_format.gtids.gtid import GtidSource
from binlog_format.gtids.gtid_set import GtidSet

if TYPE_CHECKING:
    from collections.abc import Iterator

    Interval = tuple[int, int]


def parse_previous_gtids(event: bytes) -> GtidSet:
    """The set that a PREVIOUS_GTIDS event holds.

    Args:
        event: Header and body, without a checksum.

    Raises:
        CorruptError: `BAD_EVENT`: it does not end where its sources do, or an interval is none.
        UnsupportedError: `VERSION`: a format that is not known.
    """
    try:
        return GtidSet.of(_intervals(event))
    except (struct.error, IndexError) as error:
        raise CorruptError(
            "BAD_EVENT", f"a PREVIOUS_GTIDS event of {len(event)} bytes is too short for its sources"
        ) from error


def _intervals(event: bytes) -> Iterator[tuple[GtidSource, Interval]]:
    (count,) = PREVIOUS_GTIDS_COUNT_STRUCT.unpack_from(event, EVENT_HEADER_SIZE)
    form = count >> PREVIOUS_GTIDS_FORMAT_SHIFT
    if form not in (0, PREVIOUS_GTIDS_TAGGED):
        raise UnsupportedError("VERSION", f"a PREVIOUS_GTIDS event of format {form}, expected 0 or 1")
    if form == PREVIOUS_GTIDS_TAGGED:
        count = (count >> PREVIOUS_GTIDS_TAGGED_COUNT_SHIFT) & PREVIOUS_GTIDS_TAGGED_COUNT_MASK
    at = EVENT_HEADER_SIZE + PREVIOUS_GTIDS_COUNT_STRUCT.size
    for _ in range(count):
        server = str(uuid.UUID(bytes=_part(event, at, UUID_SIZE)))
        at += UUID_SIZE
        tag = b""
        if form == PREVIOUS_GTIDS_TAGGED:
            size = event[at] >> 1  # at most 32: one byte
            if event[at] & 1 or size > TAG_SIZE_MAX:
                raise CorruptError("BAD_EVENT", f"a PREVIOUS_GTIDS event with a tag that has no size at byte {at}")
            tag = _part(event, at + 1, size)
            at += 1 + size
        (interval_count,) = INTERVAL_COUNT_STRUCT.unpack_from(event, at)
        at += INTERVAL_COUNT_STRUCT.size
        for _ in range(interval_count):
            first, after = INTERVAL_STRUCT.unpack_from(event, at)
            at += INTERVAL_STRUCT.size
            if not 1 <= first < after:
                raise CorruptError("BAD_EVENT", f"a PREVIOUS_GTIDS event with an interval from {first} to {after - 1}")
            yield GtidSource(server, tag.decode("ascii", "replace")), (first, after - 1)
    if at != len(event):
        raise CorruptError("BAD_EVENT", f"a PREVIOUS_GTIDS event of {len(event)} bytes, its sources take {at}")


def _part(event: bytes, at: int, size: int) -> bytes:
    if at + size > len(event):
        raise IndexError(at)
    return event[at : at + size]
