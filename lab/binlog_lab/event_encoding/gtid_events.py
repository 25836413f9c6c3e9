"""GTID events of MariaDB, which open a group: `parse_gtid_event`, `encode_gtid_event`."""

from __future__ import annotations

from dataclasses import dataclass

from binlog_format.errors import CorruptError
from binlog_format.events.gtid_events import EventFields, XaName
from binlog_format.events.gtid_layout import (
    ALTER_SEQNO_STRUCT,
    COMMIT_ID_STRUCT,
    GTID_BODY_SIZE_MIN,
    GTID_EXTRA_COMMIT_ALTER,
    GTID_EXTRA_MULTI_ENGINE,
    GTID_EXTRA_ROLLBACK_ALTER,
    GTID_EXTRA_THREAD_ID,
    GTID_FIXED_STRUCT,
    THREAD_ID_STRUCT,
    XA_NAME_STRUCT,
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
from binlog_format.gtids.gtid import Gtid

XA_FLAGS = GTID_FLAG_PREPARED_XA | GTID_FLAG_COMPLETED_XA


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


def parse_gtid_event(event: bytes) -> GtidEvent:
    """Read a GTID event; *event* is header and body, without a checksum."""
    if len(event) < GTID_SIZE_MIN:
        raise CorruptError("BAD_EVENT", f"a GTID event of {len(event)} bytes, expected at least {GTID_SIZE_MIN}")
    timestamp, _, server_id, _, _, header_flags = EVENT_HEADER_STRUCT.unpack_from(event)
    seqno, domain, flags = GTID_FIXED_STRUCT.unpack_from(event, EVENT_HEADER_SIZE)
    fields = EventFields(event, GTID_SIZE_MIN)
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
    """The bytes of *event*, without a checksum and with an end_log_pos of 0; fields are written as its flags set."""
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


def _present(value: int | None) -> int:
    if value is None:
        raise ValueError("the flags of a GTID event announce a field that it does not have")
    return value
