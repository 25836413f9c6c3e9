"""GTID lists of MariaDB: `parse_gtid_list`; XA_prepare events: `parse_xa_prepare_event`.

PREVIOUS_GTIDS events: what the files before a MySQL file held; `parse_previous_gtids`.
"""

from __future__ import annotations

import struct
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_format.errors import CorruptError, UnsupportedError
from binlog_format.events.gtid_layout import (
    GTID_LIST_COUNT_MASK,
    GTID_LIST_COUNT_STRUCT,
    GTID_LIST_ENTRY_SIZE,
    GTID_LIST_ENTRY_STRUCT,
    INTERVAL_COUNT_STRUCT,
    INTERVAL_STRUCT,
    PREVIOUS_GTIDS_COUNT_STRUCT,
    PREVIOUS_GTIDS_FORMAT_SHIFT,
    PREVIOUS_GTIDS_TAGGED,
    PREVIOUS_GTIDS_TAGGED_COUNT_MASK,
    PREVIOUS_GTIDS_TAGGED_COUNT_SHIFT,
    TAG_SIZE_MAX,
    UUID_SIZE,
    XA_PREPARE_STRUCT,
)
from binlog_format.events.layout import EVENT_HEADER_SIZE
from binlog_format.gtids.gtid import Gtid, GtidSource
from binlog_format.gtids.gtid_set import GtidSet

if TYPE_CHECKING:
    from collections.abc import Iterator

    Interval = tuple[int, int]


@dataclass(frozen=True, slots=True)
class XaName:
    """Name of an XA transaction, as XA START gave it."""

    format_id: int
    gtrid: bytes
    bqual: bytes

    def __str__(self) -> str:
        return f"X'{self.gtrid.hex()}',X'{self.bqual.hex()}',{self.format_id}"


class EventFields:
    """Reads field after field; what does not fit is damage.

    Args:
        event: Header and body, without a checksum.
        start: Byte of the first field.
    """

    def __init__(self, event: bytes, start: int) -> None:
        self._event = event
        self.place = start

    def take(self, size: int) -> bytes:
        """The next bytes."""
        end = self.place + size
        if end > len(self._event):
            raise CorruptError(
                "BAD_EVENT", f"an event of {len(self._event)} bytes is too short for its fields, which take {end} bytes"
            )
        taken = self._event[self.place : end]
        self.place = end
        return taken

    @property
    def is_at_end(self) -> bool:
        """True if nothing is left."""
        return self.place >= len(self._event)


def parse_xa_prepare_event(event: bytes) -> tuple[XaName, bool]:
    """Read an XA_prepare event, which ends the group of an XA transaction that is prepared.

    Args:
        event: Header and body, without a checksum.

    Returns:
        Its name, and whether it is committed at once (one phase).
    """
    fields = EventFields(event, EVENT_HEADER_SIZE)
    one_phase, format_id, gtrid_size, bqual_size = XA_PREPARE_STRUCT.unpack(fields.take(XA_PREPARE_STRUCT.size))
    return XaName(format_id, fields.take(gtrid_size), fields.take(bqual_size)), bool(one_phase)


def parse_gtid_list(event: bytes) -> tuple[Gtid, ...]:
    """The last GTID of each domain and server, in the order of the event: of one domain the most recent is the last.

    Args:
        event: Header and body, without a checksum.
    """
    start = EVENT_HEADER_SIZE + GTID_LIST_COUNT_STRUCT.size
    if len(event) < start:
        raise CorruptError("BAD_EVENT", f"a Gtid_list event of {len(event)} bytes, expected at least {start}")
    count = GTID_LIST_COUNT_STRUCT.unpack_from(event, EVENT_HEADER_SIZE)[0] & GTID_LIST_COUNT_MASK
    # An empty list is filled up with zeros on some servers, so more bytes are no error.
    if len(event) < start + count * GTID_LIST_ENTRY_SIZE:
        raise CorruptError("BAD_EVENT", f"a Gtid_list event of {len(event)} bytes is too short for {count} GTIDs")
    entries = event[start : start + count * GTID_LIST_ENTRY_SIZE]
    return tuple(Gtid(*entry) for entry in GTID_LIST_ENTRY_STRUCT.iter_unpack(entries))


def parse_previous_gtids(event: bytes) -> GtidSet:
    """The set that a PREVIOUS_GTIDS event holds. *event*: header and body, without a checksum."""
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
