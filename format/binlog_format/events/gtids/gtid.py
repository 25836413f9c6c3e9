"""GTID events, which open a group, and GTID lists: `parse_gtid_event`, `encode_gtid_event`, `parse_gtid_list`.

PREVIOUS_GTIDS events: what the files before a MySQL file held; `parse_previous_gtids`.
"""

from __future__ import annotations

import struct
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_format.errors import CorruptError, UnsupportedError
from binlog_format.events.gtids.gtid_layout import (
    ALTER_SEQNO_STRUCT,
    COMMIT_ID_STRUCT,
    GTID_BODY_SIZE_MIN,
    GTID_EXTRA_COMMIT_ALTER,
    GTID_EXTRA_MULTI_ENGINE,
    GTID_EXTRA_ROLLBACK_ALTER,
    GTID_EXTRA_THREAD_ID,
    GTID_FIXED_STRUCT,
    GTID_LIST_COUNT_MASK,
    GTID_LIST_COUNT_STRUCT,
    GTID_LIST_ENTRY_SIZE,
    GTID_LIST_ENTRY_STRUCT,
    THREAD_ID_STRUCT,
    XA_NAME_STRUCT,
    XA_PREPARE_STRUCT,
)
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
from binlog_format.events.layout import (
    EVENT_HEADER_SIZE,
    EVENT_HEADER_STRUCT,
    GTID_FLAG_COMPLETED_XA,
    GTID_FLAG_GROUP_COMMIT_ID,
    GTID_FLAG_PREPARED_XA,
    GTID_SIZE_MIN,
    EventType,
)
from binlog_format.gtids.gtid import Gtid, GtidSource
from binlog_format.gtids.gtid_set import GtidSet

if TYPE_CHECKING:
    from collections.abc import Iterator

    Interval = tuple[int, int]


XA_FLAGS = GTID_FLAG_PREPARED_XA | GTID_FLAG_COMPLETED_XA


@dataclass(frozen=True, slots=True)
class XaName:
    """Name of an XA transaction, as XA START gave it."""

    format_id: int
    gtrid: bytes
    bqual: bytes

    def __str__(self) -> str:
        return f"X'{self.gtrid.hex()}',X'{self.bqual.hex()}',{self.format_id}"


@dataclass(frozen=True, slots=True)
class GtidEvent:
    """Contents of a GTID event.

    Attributes:
        gtid: Its server is the one in the event's header.
        timestamp: Seconds since 1970 UTC.
        header_flags: Flags in the event's header.
        flags: `GTID_FLAG_...`.
        commit_id: The same in all groups of one group commit.
        xa_name: Of the XA transaction that the group prepares or ends.
        extra_flags: `GTID_EXTRA_...`.
        extra_engines: Engines with two-phase commit beside the first one; 0 without the field.
        alter_seqno: Seqno of the START ALTER that this group ends.
        thread_id: Of the session.
    """

    gtid: Gtid
    timestamp: int
    header_flags: int
    flags: int
    commit_id: int | None = None
    xa_name: XaName | None = None
    extra_flags: int = 0
    extra_engines: int = 0
    alter_seqno: int | None = None
    thread_id: int | None = None


class _Fields:
    """Reads field after field; what does not fit is damage."""

    def __init__(self, event: bytes, start: int) -> None:
        self._event = event
        self.place = start

    def take(self, size: int) -> bytes:
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
        return self.place >= len(self._event)


def parse_gtid_event(event: bytes) -> GtidEvent:
    """Read a GTID event; *event* is header and body, without a checksum.

    Raises:
        CorruptError: `BAD_EVENT`: it is too short for what its flags announce.
    """
    if len(event) < GTID_SIZE_MIN:
        raise CorruptError("BAD_EVENT", f"a GTID event of {len(event)} bytes, expected at least {GTID_SIZE_MIN}")
    timestamp, _, server_id, _, _, header_flags = EVENT_HEADER_STRUCT.unpack_from(event)
    seqno, domain, flags = GTID_FIXED_STRUCT.unpack_from(event, EVENT_HEADER_SIZE)
    fields = _Fields(event, GTID_SIZE_MIN)
    commit_id = xa_name = alter_seqno = thread_id = None
    extra_flags = extra_engines = 0
    if flags & GTID_FLAG_GROUP_COMMIT_ID:
        (commit_id,) = COMMIT_ID_STRUCT.unpack(fields.take(COMMIT_ID_STRUCT.size))
    if flags & XA_FLAGS:
        format_id, gtrid_size, bqual_size = XA_NAME_STRUCT.unpack(fields.take(XA_NAME_STRUCT.size))
        xa_name = XaName(format_id, fields.take(gtrid_size), fields.take(bqual_size))
    if not fields.is_at_end:
        (extra_flags,) = fields.take(1)
    if extra_flags & GTID_EXTRA_MULTI_ENGINE:
        (extra_engines,) = fields.take(1)
    if extra_flags & (GTID_EXTRA_COMMIT_ALTER | GTID_EXTRA_ROLLBACK_ALTER):
        (alter_seqno,) = ALTER_SEQNO_STRUCT.unpack(fields.take(ALTER_SEQNO_STRUCT.size))
    if extra_flags & GTID_EXTRA_THREAD_ID:
        (thread_id,) = THREAD_ID_STRUCT.unpack(fields.take(THREAD_ID_STRUCT.size))
    return GtidEvent(
        gtid=Gtid(domain, server_id, seqno),
        timestamp=timestamp,
        header_flags=header_flags,
        flags=flags,
        commit_id=commit_id,
        xa_name=xa_name,
        extra_flags=extra_flags,
        extra_engines=extra_engines,
        alter_seqno=alter_seqno,
        thread_id=thread_id,
    )


def encode_gtid_event(event: GtidEvent) -> bytes:
    """The bytes of *event*, without a checksum and with an end_log_pos of 0; fields are written as its flags set.

    Raises:
        ValueError: A flag announces a field that is None.
    """
    parts = [GTID_FIXED_STRUCT.pack(event.gtid.seqno, event.gtid.domain, event.flags)]
    if event.flags & GTID_FLAG_GROUP_COMMIT_ID:
        parts.append(COMMIT_ID_STRUCT.pack(_present(event.commit_id)))
    if event.flags & XA_FLAGS:
        name = event.xa_name
        if name is None:
            raise ValueError("the flags of a GTID event announce an XA name, there is none")
        parts.append(XA_NAME_STRUCT.pack(name.format_id, len(name.gtrid), len(name.bqual)))
        parts += (name.gtrid, name.bqual)
    if event.extra_flags:
        parts.append(bytes([event.extra_flags]))
    if event.extra_flags & GTID_EXTRA_MULTI_ENGINE:
        parts.append(bytes([event.extra_engines]))
    if event.extra_flags & (GTID_EXTRA_COMMIT_ALTER | GTID_EXTRA_ROLLBACK_ALTER):
        parts.append(ALTER_SEQNO_STRUCT.pack(_present(event.alter_seqno)))
    if event.extra_flags & GTID_EXTRA_THREAD_ID:
        parts.append(THREAD_ID_STRUCT.pack(_present(event.thread_id)))
    body = b"".join(parts).ljust(GTID_BODY_SIZE_MIN, b"\0")
    header = EVENT_HEADER_STRUCT.pack(
        event.timestamp, EventType.MARIADB_GTID, event.gtid.server, EVENT_HEADER_SIZE + len(body), 0, event.header_flags
    )
    return header + body


def parse_xa_prepare_event(event: bytes) -> tuple[XaName, bool]:
    """Read an XA_prepare event, which ends the group of an XA transaction that is prepared.

    Args:
        event: Header and body, without a checksum.

    Returns:
        Its name, and whether it is committed at once (one phase).

    Raises:
        CorruptError: `BAD_EVENT`: it is too short.
    """
    fields = _Fields(event, EVENT_HEADER_SIZE)
    one_phase, format_id, gtrid_size, bqual_size = XA_PREPARE_STRUCT.unpack(fields.take(XA_PREPARE_STRUCT.size))
    return XaName(format_id, fields.take(gtrid_size), fields.take(bqual_size)), bool(one_phase)


def _present(value: int | None) -> int:
    if value is None:
        raise ValueError("the flags of a GTID event announce a field that it does not have")
    return value


def parse_gtid_list(event: bytes) -> tuple[Gtid, ...]:
    """The last GTID of each domain and server, in the order of the event: of one domain the most recent is the last.

    Args:
        event: Header and body, without a checksum.

    Raises:
        CorruptError: `BAD_EVENT`: its size is not that of its list.
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
