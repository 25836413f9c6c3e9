"""Replication events on disk: the 19-byte header, type codes and flags; `docs/formats/classic.md` describes them."""

from __future__ import annotations

import struct
from enum import IntEnum

EVENT_HEADER_STRUCT = struct.Struct(
    "<"
    "I"  # timestamp
    "B"  # type
    "I"  # server_id
    "I"  # size
    "I"  # end_log_pos
    "H"  # flags
)
EVENT_HEADER_SIZE = 19
assert EVENT_HEADER_STRUCT.size == EVENT_HEADER_SIZE

XID_BODY_STRUCT = struct.Struct("<Q")

EVENT_TYPE_OFFSET = 4
EVENT_SERVER_ID_OFFSET = 5
EVENT_SIZE_OFFSET = 9
EVENT_END_LOG_POS_OFFSET = 13
EVENT_FLAGS_OFFSET = 17

EVENT_CHECKSUM_SIZE = 4
"""CRC-32 (zlib's polynomial) after an event, where the Format_description event states it."""

EVENT_SIZE_MAX = 1 << 30
"""MariaDB and MySQL refuse larger events (`MAX_MAX_ALLOWED_PACKET`); a larger number is damage."""


class EventType(IntEnum):
    """Type codes of MariaDB 12 and of MySQL 9; a code belongs to both unless its comment names one."""

    QUERY = 2
    STOP = 3
    ROTATE = 4
    INTVAR = 5
    SLAVE = 7
    APPEND_BLOCK = 9
    DELETE_FILE = 11
    RAND = 13
    USER_VAR = 14
    FORMAT_DESCRIPTION = 15
    XID = 16
    BEGIN_LOAD_QUERY = 17
    EXECUTE_LOAD_QUERY = 18
    TABLE_MAP = 19
    WRITE_ROWS_V0 = 20  # MySQL before 5.1.18, as the next two
    UPDATE_ROWS_V0 = 21
    DELETE_ROWS_V0 = 22
    WRITE_ROWS_V1 = 23
    UPDATE_ROWS_V1 = 24
    DELETE_ROWS_V1 = 25
    INCIDENT = 26
    HEARTBEAT = 27
    IGNORABLE = 28
    ROWS_QUERY = 29  # MySQL
    WRITE_ROWS_V2 = 30  # MySQL
    UPDATE_ROWS_V2 = 31  # MySQL
    DELETE_ROWS_V2 = 32  # MySQL
    GTID = 33  # MySQL
    ANONYMOUS_GTID = 34  # MySQL
    PREVIOUS_GTIDS = 35  # MySQL
    TRANSACTION_CONTEXT = 36  # MySQL, group replication
    VIEW_CHANGE = 37  # MySQL, group replication
    XA_PREPARE = 38
    PARTIAL_UPDATE_ROWS = 39  # MySQL
    TRANSACTION_PAYLOAD = 40  # MySQL
    HEARTBEAT_V2 = 41  # MySQL
    GTID_TAGGED = 42  # MySQL
    ANNOTATE_ROWS = 160  # MariaDB, as all that follow
    BINLOG_CHECKPOINT = 161
    MARIADB_GTID = 162
    MARIADB_GTID_LIST = 163
    START_ENCRYPTION = 164
    QUERY_COMPRESSED = 165
    WRITE_ROWS_COMPRESSED_V1 = 166
    UPDATE_ROWS_COMPRESSED_V1 = 167
    DELETE_ROWS_COMPRESSED_V1 = 168
    WRITE_ROWS_COMPRESSED = 169
    UPDATE_ROWS_COMPRESSED = 170
    DELETE_ROWS_COMPRESSED = 171
    PARTIAL_ROW_DATA = 172  # a fragment of a large row event, MariaDB 12.3


# Body of MARIADB_GTID (MariaDB sql/log_event.h: Gtid_log_event): seqno u64, domain u32, flags2 u8, ...
# The server id of the GTID is the one in the event's header.
GTID_SEQNO_OFFSET = EVENT_HEADER_SIZE
GTID_DOMAIN_OFFSET = EVENT_HEADER_SIZE + 8
GTID_FLAGS_OFFSET = EVENT_HEADER_SIZE + 12
GTID_SIZE_MIN = EVENT_HEADER_SIZE + 13

GTID_FLAG_STANDALONE = 0x01  # no end event: one statement that commits itself
GTID_FLAG_GROUP_COMMIT_ID = 0x02  # 8 bytes commit id follow
GTID_FLAG_TRANSACTIONAL = 0x04
GTID_FLAG_ALLOW_PARALLEL = 0x08
GTID_FLAG_WAITED = 0x10
GTID_FLAG_DDL = 0x20
GTID_FLAG_PREPARED_XA = 0x40  # the group ends in XA_PREPARE; its rows are not committed yet
GTID_FLAG_COMPLETED_XA = 0x80  # XA COMMIT or XA ROLLBACK of an earlier one
