"""Query events on disk (MariaDB and MySQL `Query_log_event`), which `docs/formats/classic.md` describes.

Status variables of Query events on disk (MariaDB `sql/log_event.h`, MySQL `statement_events.h`): `StatusVariable`.

Each is a code of 1 byte and its value. Texts of `Form.TEXT` have 1 byte of length before them, those of
`Form.TEXT_ZERO` a zero after them too; `Form.TEXTS` are a count (254: no texts) and texts that end in a zero.
"""

from __future__ import annotations

import struct
from enum import IntEnum

from binlog_format.events.layout import EVENT_HEADER_SIZE

QUERY_STRUCT = struct.Struct(
    "<"
    "I"  # thread id
    "I"  # seconds
    "B"  # length of the database name
    "H"  # error code
    "H"  # size of the status variables
)
QUERY_FIXED_SIZE = EVENT_HEADER_SIZE + 13
assert EVENT_HEADER_SIZE + QUERY_STRUCT.size == QUERY_FIXED_SIZE

QUERY_DATABASE_SIZE_OFFSET = EVENT_HEADER_SIZE + 8
QUERY_STATUS_SIZE_OFFSET = EVENT_HEADER_SIZE + 11

LOAD_QUERY_FIXED_SIZE = QUERY_FIXED_SIZE + 13
"""EXECUTE_LOAD_QUERY: file id, where the file's name is in the text, what to do with duplicates; then as above."""

INCIDENT_MESSAGE_OFFSET = EVENT_HEADER_SIZE + 3
"""INCIDENT: number u16 (1: LOST_EVENTS), length of the message u8, message (MariaDB sql/log_event.h: INCIDENT)."""


class StatusVariable(IntEnum):
    """Codes of status variables; from 128 on MariaDB's, 14 to 20 MySQL's."""

    FLAGS2 = 0
    SQL_MODE = 1
    CATALOG = 2
    AUTO_INCREMENT = 3
    CHARSET = 4
    TIME_ZONE = 5
    CATALOG_NZ = 6
    LC_TIME_NAMES = 7
    CHARSET_DATABASE = 8
    TABLE_MAP_FOR_UPDATE = 9
    MASTER_DATA_WRITTEN = 10
    INVOKER = 11
    UPDATED_DATABASES = 12
    MICROSECONDS = 13
    COMMIT_TS = 14
    COMMIT_TS2 = 15
    EXPLICIT_DEFAULTS_FOR_TIMESTAMP = 16
    DDL_LOGGED_WITH_XID = 17
    DEFAULT_COLLATION_FOR_UTF8MB4 = 18
    SQL_REQUIRE_PRIMARY_KEY = 19
    DEFAULT_TABLE_ENCRYPTION = 20
    HRNOW = 128
    XID = 129
    GTID_FLAGS3 = 130
    CHARACTER_SET_COLLATIONS = 131


class Form(IntEnum):
    """Form of a value whose size is not fixed."""

    TEXT = -1
    TEXT_ZERO = -2
    TWO_TEXTS = -3
    TEXTS = -4
    ALTER_PHASE = -5
    PAIRS = -6


STATUS_FORMS: dict[int, int] = {
    StatusVariable.FLAGS2: 4,
    StatusVariable.SQL_MODE: 8,
    StatusVariable.CATALOG: Form.TEXT_ZERO,
    StatusVariable.AUTO_INCREMENT: 4,
    StatusVariable.CHARSET: 6,  # collation ids: client, connection, server
    StatusVariable.TIME_ZONE: Form.TEXT,
    StatusVariable.CATALOG_NZ: Form.TEXT,
    StatusVariable.LC_TIME_NAMES: 2,
    StatusVariable.CHARSET_DATABASE: 2,
    StatusVariable.TABLE_MAP_FOR_UPDATE: 8,
    StatusVariable.MASTER_DATA_WRITTEN: 4,
    StatusVariable.INVOKER: Form.TWO_TEXTS,
    StatusVariable.UPDATED_DATABASES: Form.TEXTS,
    StatusVariable.MICROSECONDS: 3,
    StatusVariable.COMMIT_TS: 8,
    StatusVariable.COMMIT_TS2: 8,
    StatusVariable.EXPLICIT_DEFAULTS_FOR_TIMESTAMP: 1,
    StatusVariable.DDL_LOGGED_WITH_XID: 8,
    StatusVariable.DEFAULT_COLLATION_FOR_UTF8MB4: 2,
    StatusVariable.SQL_REQUIRE_PRIMARY_KEY: 1,
    StatusVariable.DEFAULT_TABLE_ENCRYPTION: 1,
    StatusVariable.HRNOW: 3,
    StatusVariable.XID: 8,
    StatusVariable.GTID_FLAGS3: Form.ALTER_PHASE,
    StatusVariable.CHARACTER_SET_COLLATIONS: Form.PAIRS,
}
"""Size of each value in bytes, or its form."""

FLAGS2_STRUCT = struct.Struct("<I")
OPTION_EXPLICIT_TIMESTAMPS = 1 << 24  # MariaDB sql/sql_priv.h: OPTION_EXPLICIT_DEF_TIMESTAMP
SQL_MODE_STRUCT = struct.Struct("<Q")
CHARSET_STRUCT = struct.Struct("<HHH")  # collation ids: client, connection, server

UPDATED_DATABASES_UNKNOWN = 254

# MariaDB sql/log_event.h: FL_*_ALTER_E1: phases of a two-phase ALTER, in GTID_FLAGS3.
ALTER_START = 2
ALTER_COMMIT = 4
ALTER_ROLLBACK = 8
ALTER_ID_SIZE = 8
"""After the flags of COMMIT and ROLLBACK: number of the GTID of START."""

PAIR_SIZE = 4
