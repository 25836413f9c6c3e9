"""Query events on disk (MariaDB and MySQL `Query_log_event`).

Offset  Size  Type    Field
0       19            event header
19      4     uint32  thread id of the session
23      4     uint32  seconds that the statement took
27      1     uint8   d: length of the database name
28      2     uint16  error code
30      2     uint16  s: size of the status variables
32      s             status variables
32+s    d             database name
32+s+d  1             zero
33+s+d  ..            text of the statement, to the end of the event
"""

from __future__ import annotations

import struct

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
