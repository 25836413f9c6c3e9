"""Operation streams on disk (`.ops` files): what a server's sessions did, to be done again by a `BinlogWriter`.

The magic bytes, then operations: a code and its fields, little endian. blob: u32 length and bytes; xid: i32 formatID,
gtrid blob, bqual blob; gtid: u32 domain, u32 server, u64 sequence number; sid: u32 number of a session; cache: u8,
0 transactional, 1 statement.

    Code  OperationCode           Fields
    01    begin               sid
    02    event               sid, cache, blob
    03    spill               sid, cache
    04    commit              sid, u8 flags (1: two-phase), gtid, blob GTID event, [xid]
    05    rollback            sid
    06    XA prepare          sid, u8 engines, xid
    07    XA commit           sid, xid, gtid, blob GTID event
    08    XA rollback         sid, xid
    09    raw commit          blob event
    0a    flush logs          u8 flags (1: a new GTID state follows), [u32 count, gtids]
    0b    savepoint           sid, u32 savepoint
    0c    rollback to         sid, u32 savepoint
    0d    statement start     sid
    0e    statement rollback  sid
    0f    snapshot            blob name, u8 mode (1: with the partial page)
    11    restart             blob Format_description event, may be empty
    12    piece               sid, cache, blob
    13    mark                what is durable up to here
    14    crash               blob Format_description event, may be empty
    80    checkpoint          -
    81    reset master        u32 count, gtids
    82    purge               u64 first file to stay

Codes from 80 on are this program's own.
"""

from __future__ import annotations

import struct
from enum import IntEnum

OPERATIONS_MAGIC = b"IBBOPS1\n"

FieldStruct = struct.Struct
"""Struct of a field that is one number."""

U8_STRUCT = struct.Struct("<B")
U32_STRUCT = struct.Struct("<I")
I32_STRUCT = struct.Struct("<i")
U64_STRUCT = struct.Struct("<Q")
GTID_STRUCT = struct.Struct(
    "<"
    "I"  # domain
    "I"  # server
    "Q"  # seqno
)

COMMIT_FLAG_TWO_PHASE = 0x01
FLUSH_FLAG_NEW_STATE = 0x01
SNAPSHOT_WITH_PARTIAL_PAGE = 1


class OperationCode(IntEnum):
    """Codes of the operations."""

    BEGIN = 0x01
    EVENT = 0x02
    SPILL = 0x03
    COMMIT = 0x04
    ROLLBACK = 0x05
    XA_PREPARE = 0x06
    XA_COMMIT = 0x07
    XA_ROLLBACK = 0x08
    RAW_COMMIT = 0x09
    FLUSH = 0x0A
    SAVEPOINT = 0x0B
    ROLLBACK_TO = 0x0C
    STATEMENT_START = 0x0D
    STATEMENT_ROLLBACK = 0x0E
    SNAPSHOT = 0x0F
    RESTART = 0x11
    PIECE = 0x12
    MARK = 0x13
    CRASH = 0x14
    CHECKPOINT = 0x80
    RESET_MASTER = 0x81
    PURGE = 0x82
