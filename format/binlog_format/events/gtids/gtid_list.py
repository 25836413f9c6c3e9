"""Gtid_list events, which record at the start of a classic file what the files before it held: `parse_gtid_list`."""

from __future__ import annotations

from binlog_format.errors import CorruptError
from binlog_format.events.gtids.gtid_layout import (
    GTID_LIST_COUNT_MASK,
    GTID_LIST_COUNT_STRUCT,
    GTID_LIST_ENTRY_SIZE,
    GTID_LIST_ENTRY_STRUCT,
)
from binlog_format.events.layout import EVENT_HEADER_SIZE
from binlog_format.gtids.gtid import Gtid


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
