"""Fields that writers put into events and readers do not need (MariaDB 10.11 to 12.3, `sql/log_event.h`).

All numbers are little endian. GTID and QUERY: `gtid_layout`, `query_layout`; table maps: `table_map_layout`.

    XID               number u64
    row events (v1)   table id u48, flags u16, number of columns (varint), a bit for each column that is there (updates:
                      twice), then row images: a bit for each NULL, the other values without anything between them
    ROTATE            where the next file's first event is u64, then its name
    FORMAT_DESCRIPTION  version u16, server version 50 bytes, created u32, header size u8, the size of the fixed part of
                      each event type's body u8, checksum algorithm u8, CRC-32 of all that precedes
"""

from __future__ import annotations

import struct

from binlog_format.events.layout import EVENT_HEADER_SIZE
from binlog_format.events.query_layout import QUERY_STRUCT

EVENT_HEADER_TYPE_COUNT = 171
"""Entries of the Format_description event of MariaDB 10.11 to 12.3: types 1 to 171."""

GTID_EVENT_FLAGS = 0x08  # LOG_EVENT_SUPPRESS_USE_F, which the server sets in every GTID event

QUERY_STATUS_FLAGS = b"\x00" + (0x0100_0000).to_bytes(
    4, "little"
)  # Q_FLAGS2_CODE: OPTION_EXPLICIT_DEF_TIMESTAMP, by default
QUERY_STATUS_SQL_MODE = b"\x01"  # Q_SQL_MODE_CODE
DEFAULT_SQL_MODE = 0x5420_0000  # MariaDB's
QUERY_STATUS_CATALOG = b"\x06\x03std"  # Q_CATALOG_NZ_CODE
QUERY_STATUS_CHARSETS_STRUCT = struct.Struct(
    "<"
    "B"  # Q_CHARSET_CODE
    "H"  # character_set_client
    "H"  # collation_connection
    "H"  # collation_server
)
QUERY_STATUS_CHARSETS_CODE = 4
QUERY_STATUS_XID_STRUCT = struct.Struct(
    "<"
    "B"  # Q_XID
    "Q"  # number of the transaction
)
QUERY_STATUS_XID_CODE = 129

ROWS_FLAGS_STRUCT = struct.Struct("<H")
TABLE_MAP_FLAGS = 1  # TM_BIT_LEN_EXACT_F
ROWS_FLAG_STATEMENT_END = 1
ROWS_EVENT_SIZE_MAX = 8192
"""Default of `binlog_row_event_max_size`: what precedes the rows and the rows together, the event's header not."""

FORMAT_DESCRIPTION_STRUCT = struct.Struct(
    "<"
    "H"  # version of the format
    "50s"  # version of the server
    "I"  # created, seconds since 1970 UTC; 0 when the server did not start here
    "B"  # bytes of an event header
)
FORMAT_DESCRIPTION_VERSION = 4
FORMAT_DESCRIPTION_CHECKSUM_OFF = 0
CHECKSUM_STRUCT = struct.Struct("<I")
SIZE_AND_PLACE_STRUCT = struct.Struct(
    "<"
    "I"  # size of the event, its checksum included
    "I"  # end_log_pos
)
ROTATE_STRUCT = struct.Struct("<Q")
MYSQL_GTID_TAIL_STRUCT = struct.Struct(
    "<"
    "Q"  # number
    "B"  # type of the logical clock
    "Q"  # last committed
    "Q"  # sequence number
)
MYSQL_LOGICAL_CLOCK = 2
MYSQL_ROWS_EXTRA = b"\x02\x00"
"""Bytes of row events of version 2 after their flags: the size of more, itself included."""
# Bytes of the fixed part of each event type's body, where there is one.
BODY_PREFIX_SIZES = {
    1: 56,
    2: QUERY_STRUCT.size,
    4: 8,
    6: 18,
    8: 4,
    9: 4,
    10: 4,
    11: 4,
    12: 18,
    15: FORMAT_DESCRIPTION_STRUCT.size + EVENT_HEADER_TYPE_COUNT,
    17: 4,
    18: 26,
    19: 8,
    **dict.fromkeys((23, 24, 25), 8),
    26: 2,
    **dict.fromkeys((30, 31, 32, 39, 40, 41), 10),
    161: 4,
    162: EVENT_HEADER_SIZE,
    163: 4,
    165: 13,
    **dict.fromkeys((166, 167, 168), 8),
    **dict.fromkeys((169, 170, 171), 10),
}

DECIMAL_GROUP_DIGITS = 9
DECIMAL_GROUP_SIZE = 4
DECIMAL_PART_SIZES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
"""Bytes that 0 to 9 digits take."""

DATETIME_OFFSET = 0x80_0000_0000
TIME_OFFSET = 0x80_0000

FLOAT_STRUCT = struct.Struct("<f")
DOUBLE_STRUCT = struct.Struct("<d")
