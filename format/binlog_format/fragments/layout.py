"""Fragments of row events on disk: PARTIAL_ROW_DATA events (MariaDB 12.3, `sql/log_event.h`: `Partial_rows_log_event`).

A row event larger than `binlog_row_event_fragment_threshold` is not written; fragments of it stand in its place, one
directly after the other. After the 19-byte header of each:

    Offset  Size  Type    Field
    0       4     uint32  number of fragments in the group
    4       4     uint32  number of this one, from 1
    8       1     uint8   flags
    9       8     uint64  size of the original event, its header included, a checksum not; with flag 0x01 alone
    9/17    ..            bytes of the original event, from its header on

The comment of the class in the server's source has the two counters the other way round. Both orders are read: a group
has at least two fragments, and its first one has the number 1, so that fragment shows which order it is.

The original event has no checksum; its header counts one nevertheless where fragments have one (a size of 32 bits: of a
larger event the low ones). With `log_bin_compress` the server cuts the rows before it compresses them: the original
event then has the type of a compressed one, and plain rows.
"""

from __future__ import annotations

import struct

from binlog_format.events.layout import EVENT_HEADER_SIZE

FRAGMENT_STRUCT = struct.Struct(
    "<"
    "I"  # number of fragments, or of this one
    "I"  # the other of the two
    "B"  # flags
)
ORIGINAL_SIZE_STRUCT = struct.Struct("<Q")

FIRST_COUNTER_OFFSET = EVENT_HEADER_SIZE
SECOND_COUNTER_OFFSET = EVENT_HEADER_SIZE + 4
FRAGMENT_FLAGS_OFFSET = EVENT_HEADER_SIZE + 8
ORIGINAL_SIZE_OFFSET = EVENT_HEADER_SIZE + FRAGMENT_STRUCT.size
FIRST_CONTENT_OFFSET = ORIGINAL_SIZE_OFFSET + ORIGINAL_SIZE_STRUCT.size
CONTENT_OFFSET = ORIGINAL_SIZE_OFFSET

FRAGMENT_FLAG_ORIGINAL_SIZE = 0x01  # FL_ORIG_EVENT_SIZE, in the first fragment alone
FRAGMENT_COUNT_MIN = 2

ORIGINAL_SIZE_MIN = EVENT_HEADER_SIZE + 8
"""A header, table id and flags."""
ORIGINAL_SIZE_HIGH_MASK = 0x3FFF_FFFF
"""Bits of the upper half that may be set: a larger number is none that can be counted with."""

ROWS_FLAGS_OFFSET = EVENT_HEADER_SIZE + 6
ROWS_FLAG_STATEMENT_END = 0x0001
