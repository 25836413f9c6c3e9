"""GTID events of MySQL on disk: GTID, ANONYMOUS_GTID, GTID_TAGGED and PREVIOUS_GTIDS.

`docs/formats/classic.md` describes them (MySQL `libs/mysql/binlog/event/control_events.h`: `Gtid_event`,
`Previous_gtids_event`; tagged ones in the format of the library `mysql::serialization`).
"""

from __future__ import annotations

import struct

from binlog_format.events.layout import EVENT_HEADER_SIZE

MYSQL_GTID_UUID_OFFSET = EVENT_HEADER_SIZE + 1
MYSQL_GTID_SEQNO_OFFSET = EVENT_HEADER_SIZE + 17
MYSQL_GTID_SIZE_MIN = EVENT_HEADER_SIZE + 25
UUID_SIZE = 16

TAGGED_VERSION = 1
TAGGED_FIELD_FLAGS = 0
TAGGED_FIELD_UUID = 1
TAGGED_FIELD_NUMBER = 2
TAGGED_FIELD_TAG = 3
TAG_SIZE_MAX = 32

SOURCE_KEY_SIZE = UUID_SIZE + TAG_SIZE_MAX
"""Bytes that stand for a source in memory: UUID, then the tag filled up with zeros."""

PREVIOUS_GTIDS_COUNT_STRUCT = struct.Struct("<Q")
PREVIOUS_GTIDS_FORMAT_SHIFT = 56
PREVIOUS_GTIDS_TAGGED = 1
PREVIOUS_GTIDS_TAGGED_COUNT_SHIFT = 8
PREVIOUS_GTIDS_TAGGED_COUNT_MASK = (1 << 48) - 1
INTERVAL_COUNT_STRUCT = struct.Struct("<Q")
INTERVAL_STRUCT = struct.Struct(
    "<"
    "q"  # first number
    "q"  # the number after the last one
)
"""A signed number: MySQL's numbers end at 2^63 - 2."""
