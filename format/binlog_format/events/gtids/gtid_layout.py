"""GTID, Gtid_list and XA_prepare events on disk (MariaDB `sql/log_event.h`, all little endian, header left out).

GTID (`Gtid_log_event`), filled up with zeros to 19 bytes:

    Offset  Size  Type    Field
    0       8     uint64  seqno
    8       4     uint32  domain
    12      1     uint8   flags (`GTID_FLAG_...` in layout.py); the fields below are there as these flags set
            8     uint64  commit id                        GROUP_COMMIT_ID
            6+n           XA name: format id i32, sizes of gtrid and bqual u8, both strings   PREPARED_XA, COMPLETED_XA
            1     uint8   more flags (`GTID_EXTRA_...`); 0 or absent: nothing follows
            1     uint8   further engines                  MULTI_ENGINE
            8     uint64  seqno of the START ALTER         COMMIT_ALTER, ROLLBACK_ALTER
            4     uint32  thread id                        THREAD_ID

Gtid_list (`Gtid_list_log_event`): count and flags u32, then for each GTID domain u32, server u32, seqno u64; of the
GTIDs of one domain the most recent one is the last.

XA_prepare (`XA_prepare_log_event`): one phase u8, format id i32, sizes of gtrid and bqual u32, both strings.
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
