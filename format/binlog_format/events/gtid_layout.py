"""Events with GTIDs on disk; `docs/formats/classic.md` describes them.

MariaDB's are GTID, Gtid_list and XA_prepare (`sql/log_event.h`: `Gtid_log_event`, `Gtid_list_log_event`,
`XA_prepare_log_event`).

MySQL's are GTID, ANONYMOUS_GTID, GTID_TAGGED and PREVIOUS_GTIDS (`libs/mysql/binlog/event/control_events.h`:
`Gtid_event`, `Previous_gtids_event`; tagged ones in the format of the library `mysql::serialization`).
"""

from __future__ import annotations

import struct

from binlog_format.events.layout import EVENT_HEADER_SIZE

GTID_FIXED_STRUCT = struct.Struct(
    "<"
    "Q"  # seqno
    "I"  # domain
    "B"  # flags
)
GTID_FIXED_SIZE = 13
assert GTID_FIXED_STRUCT.size == GTID_FIXED_SIZE
GTID_BODY_SIZE_MIN = 19
"""Shorter bodies are filled up with zeros to this (GTID_HEADER_LEN)."""

COMMIT_ID_STRUCT = struct.Struct("<Q")
XA_NAME_STRUCT = struct.Struct(
    "<"
    "i"  # format id
    "B"  # size of gtrid
    "B"  # size of bqual
)
ALTER_SEQNO_STRUCT = struct.Struct("<Q")
THREAD_ID_STRUCT = struct.Struct("<I")

GTID_EXTRA_MULTI_ENGINE = 0x01  # FL_EXTRA_MULTI_ENGINE_E1
GTID_EXTRA_START_ALTER = 0x02  # FL_START_ALTER_E1
GTID_EXTRA_COMMIT_ALTER = 0x04  # FL_COMMIT_ALTER_E1
GTID_EXTRA_ROLLBACK_ALTER = 0x08  # FL_ROLLBACK_ALTER_E1
GTID_EXTRA_THREAD_ID = 0x10  # FL_EXTRA_THREAD_ID

GTID_LIST_COUNT_STRUCT = struct.Struct("<I")
GTID_LIST_COUNT_MASK = 0x0FFFFFFF
"""The four highest bits are flags, which only replication uses."""
GTID_LIST_ENTRY_STRUCT = struct.Struct(
    "<"
    "I"  # domain
    "I"  # server
    "Q"  # seqno
)
GTID_LIST_ENTRY_SIZE = 16
assert GTID_LIST_ENTRY_STRUCT.size == GTID_LIST_ENTRY_SIZE

XA_PREPARE_STRUCT = struct.Struct(
    "<"
    "B"  # one phase: XA COMMIT ... ONE PHASE, committed at once
    "i"  # format id
    "I"  # size of gtrid
    "I"  # size of bqual
)

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
