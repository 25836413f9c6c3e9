"""GTID, Gtid_list and XA_prepare events of MariaDB on disk; `docs/formats/classic.md` describes them.

In the server: `sql/log_event.h`, `Gtid_log_event`, `Gtid_list_log_event`, `XA_prepare_log_event`.
"""

from __future__ import annotations

import struct

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
