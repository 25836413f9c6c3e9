"""XID events, with which a transaction that was committed ends: `ends_in_xid`."""

from __future__ import annotations

from binlog_format.events.layout import EVENT_HEADER_SIZE, EVENT_HEADER_STRUCT, XID_BODY_STRUCT, EventType

XID_SIZE = EVENT_HEADER_SIZE + XID_BODY_STRUCT.size


def ends_in_xid(data: bytes, *, checksum_size: int = 0) -> bool:
    """True if the last event in *data*, which may begin anywhere, is an XID event."""
    size = XID_SIZE + checksum_size
    if len(data) < size:
        return False
    _, kind, _, stored_size, _, _ = EVENT_HEADER_STRUCT.unpack_from(data, len(data) - size)
    return bool(kind == EventType.XID and stored_size == size)
