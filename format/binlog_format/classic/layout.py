"""Classic (version 4) binlog files on disk: names, magic numbers, the Format_description event, classes of events.

A file is 4 bytes of magic and then events, one after the other, each with the header of `binlog_format.events.layout`
and, when the Format_description event at the start states it, a CRC-32 after it. `docs/formats/classic.md` describes
that event (MariaDB `sql/log_event.h`: `Format_description_log_event`).
"""

from __future__ import annotations

import re
import struct
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.events.layout import EVENT_CHECKSUM_SIZE, EVENT_HEADER_SIZE, EventType
from binlog_format.vendor import Vendor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from binlog_format.kernels import Bytes

MAGIC = b"\xfebin"
MAGIC_ENCRYPTED = b"\xfdbin"
"""MySQL encrypts whole files, magic and all; MariaDB encrypts event by event, after START_ENCRYPTION."""
MAGIC_SIZE = 4

# After MySQL's encrypted magic: version u8, then fields of type u8 and a body. The first one is the name of the key in
# the keyring, with its size before it; the events follow at byte 512 (sql/basic_ostream.cc, rpl_log_encryption.h).
MYSQL_ENCRYPTION_KEY_OFFSET = MAGIC_SIZE + 1
MYSQL_ENCRYPTION_FIELD_KEY = 1
MYSQL_ENCRYPTION_HEADER_SIZE = 512

# Body of START_ENCRYPTION (MariaDB `Start_encryption_log_event`).
START_ENCRYPTION_STRUCT = struct.Struct(
    "<"
    "B"  # scheme, 1
    "I"  # key version
    "12s"  # nonce
)
START_ENCRYPTION_SIZE = EVENT_HEADER_SIZE + 17
assert EVENT_HEADER_SIZE + START_ENCRYPTION_STRUCT.size == START_ENCRYPTION_SIZE

FILE_NAME = re.compile(r"(?P<base>.+)\.(?P<number>\d{6,})")
"""`<base>.NNNNNN`; the number takes more digits when it needs them."""

BINLOG_VERSION = 4

FORMAT_DESCRIPTION_STRUCT = struct.Struct(
    "<"
    "H"  # binlog version
    "50s"  # server version
    "I"  # created
    "B"  # size of the event header
)
FORMAT_DESCRIPTION_FIXED_SIZE = EVENT_HEADER_SIZE + 57
assert EVENT_HEADER_SIZE + FORMAT_DESCRIPTION_STRUCT.size == FORMAT_DESCRIPTION_FIXED_SIZE

CHECKSUM_STRUCT = struct.Struct("<I")
assert CHECKSUM_STRUCT.size == EVENT_CHECKSUM_SIZE
FORMAT_DESCRIPTION_TAIL_SIZE = 1 + EVENT_CHECKSUM_SIZE
"""Checksum algorithm and checksum."""

EVENT_FLAG_IN_USE = 0x0001
"""LOG_EVENT_BINLOG_IN_USE_F: only in the Format_description event, while the file is open for writing; a server that
is killed leaves it set. Its checksum is computed without it."""
EVENT_FLAG_IGNORABLE = 0x0080
"""LOG_EVENT_IGNORABLE_F: a reader that does not know the type may pass over the event."""

ROTATE_FIXED_SIZE = 8
"""Before the name of the next file: where its first event is."""

ROWS_FLAGS_OFFSET = EVENT_HEADER_SIZE + 6
ROWS_FLAG_STATEMENT_END = 0x0001

# The fixed parts that the readers of event bodies rely on, by type.
POST_HEADER_SIZES = {
    EventType.QUERY: 13,
    EventType.TABLE_MAP: 8,
    EventType.WRITE_ROWS_V1: 8,
    EventType.UPDATE_ROWS_V1: 8,
    EventType.DELETE_ROWS_V1: 8,
    EventType.WRITE_ROWS_V2: 10,
    EventType.UPDATE_ROWS_V2: 10,
    EventType.DELETE_ROWS_V2: 10,
    EventType.PARTIAL_UPDATE_ROWS: 10,
    EventType.MARIADB_GTID: 19,
}


class ChecksumAlgorithm(IntEnum):
    """Checksum after every event but the Format_description event, which always has one."""

    NONE = 0
    CRC32 = 1


class EventClass(IntEnum):
    """Role of an event type at the borders of event groups."""

    UNKNOWN = 0  # an error, unless the event states that it may be ignored
    CONTROL = 1  # about files, never in a group: passed over
    GTID = 2  # begins a group
    PREFIX = 3  # of a statement in a group: a standalone group does not end with it
    ROWS = 4  # a standalone group ends with the last one of a statement
    QUERY = 5  # the text COMMIT or ROLLBACK ends a group
    END = 6  # ends a group
    PART = 7  # of a group; a standalone one ends with it
    INCIDENT = 8  # the server states that it lost events: a group of its own, in MySQL with a GTID
    FORMAT = 9  # first event of a file, nowhere else
    ENCRYPTION = 10  # what follows cannot be read


class GroupKind(IntEnum):
    """Rule by which the end of a group is found."""

    TRANSACTION = 0  # by an event that states it
    STATEMENT = 1  # it is one statement, and ends with it
    UNDECIDED = 2  # MySQL: the first event after the GTID and prefixes will tell


_COMMON_TYPES = {
    EventClass.CONTROL: (EventType.STOP, EventType.ROTATE, EventType.HEARTBEAT),
    EventClass.PREFIX: (EventType.INTVAR, EventType.RAND, EventType.USER_VAR, EventType.TABLE_MAP),
    EventClass.ROWS: (EventType.WRITE_ROWS_V1, EventType.UPDATE_ROWS_V1, EventType.DELETE_ROWS_V1),
    EventClass.QUERY: (EventType.QUERY,),
    EventClass.END: (EventType.XID, EventType.XA_PREPARE),
    EventClass.PART: (
        EventType.APPEND_BLOCK,
        EventType.DELETE_FILE,
        EventType.BEGIN_LOAD_QUERY,
        EventType.EXECUTE_LOAD_QUERY,
    ),
    EventClass.FORMAT: (EventType.FORMAT_DESCRIPTION,),
    EventClass.INCIDENT: (EventType.INCIDENT,),
}

_MARIADB_TYPES = {
    EventClass.CONTROL: (EventType.BINLOG_CHECKPOINT, EventType.MARIADB_GTID_LIST),
    EventClass.GTID: (EventType.MARIADB_GTID,),
    EventClass.PREFIX: (EventType.ANNOTATE_ROWS, EventType.PARTIAL_ROW_DATA),
    EventClass.ROWS: (
        EventType.WRITE_ROWS_COMPRESSED_V1,
        EventType.UPDATE_ROWS_COMPRESSED_V1,
        EventType.DELETE_ROWS_COMPRESSED_V1,
        EventType.WRITE_ROWS_COMPRESSED,
        EventType.UPDATE_ROWS_COMPRESSED,
        EventType.DELETE_ROWS_COMPRESSED,
    ),
    EventClass.PART: (EventType.QUERY_COMPRESSED,),
    EventClass.ENCRYPTION: (EventType.START_ENCRYPTION,),
}

_MYSQL_TYPES = {
    EventClass.CONTROL: (EventType.PREVIOUS_GTIDS, EventType.HEARTBEAT_V2),
    EventClass.GTID: (EventType.GTID, EventType.ANONYMOUS_GTID, EventType.GTID_TAGGED),
    EventClass.PREFIX: (EventType.ROWS_QUERY, EventType.IGNORABLE),
    EventClass.ROWS: (
        EventType.WRITE_ROWS_V2,
        EventType.UPDATE_ROWS_V2,
        EventType.DELETE_ROWS_V2,
        EventType.PARTIAL_UPDATE_ROWS,
    ),
    EventClass.END: (EventType.TRANSACTION_PAYLOAD,),
    EventClass.PART: (EventType.TRANSACTION_CONTEXT, EventType.VIEW_CHANGE),
}


def _classes(own: Mapping[EventClass, tuple[EventType, ...]]) -> Bytes:
    classes = np.full(256, EventClass.UNKNOWN, dtype=np.uint8)
    for types in (_COMMON_TYPES, own):
        for event_class, codes in types.items():
            classes[list(codes)] = event_class
    return classes


EVENT_CLASSES = {Vendor.MARIADB: _classes(_MARIADB_TYPES), Vendor.MYSQL: _classes(_MYSQL_TYPES)}
"""Event class of each type code, by the vendor of the server that wrote the file."""
