"""GTID events of MySQL on disk (`libs/mysql/binlog/event/control_events.h`), the event header left out.

GTID and ANONYMOUS_GTID (`Gtid_event`), little endian; what follows (logical clock, times, versions) is not needed here:

    Offset  Size  Type    Field
    0       1     uint8   flags: 1 when the group may hold statements
    1       16            UUID of the server that committed it first; zeros in ANONYMOUS_GTID
    17      8     int64   number, from 1 on; 0 in ANONYMOUS_GTID

GTID_TAGGED (`Gtid_event` in the format of the library `mysql::serialization`), all of it integers of variable length:

    serialization version, 1
    size of the whole message
    number of the last field that a reader has to know
    then fields, each after its number, ascending:
        0   flags
        1   UUID: 16 integers, one for each byte
        2   transaction number, signed
        3   tag: size, then its bytes as they are
        4.. logical clock, times, versions: not needed here

An integer of variable length takes one byte more for each 1 bit at the low end of its first byte; these bits and the 0
after them do not belong to the number, which is little endian. Of 9 bytes (the first one 0xff) the last 8 are the
number. A signed one is doubled; of a negative number, -1 - n is doubled and 1 added.

PREVIOUS_GTIDS (`Previous_gtids_event`), all integers little endian:

    0       8     uint64  number of sources; with tags: 1 in the highest and the lowest byte, the number between them
    then for each source:
        16                UUID
        ..                only with tags: size of the tag as an integer of variable length, 0: none; then the tag
        8         uint64  number of intervals
        16 each           first number, and the one after the last (int64)
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
