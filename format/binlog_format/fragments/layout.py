"""Fragments of row events on disk: PARTIAL_ROW_DATA events (MariaDB 12.3, `sql/log_event.h`: `Partial_rows_log_event`).

A row event larger than `binlog_row_event_fragment_threshold` is not written; fragments of it stand in its place, one
directly after the other. `docs/formats/classic.md` describes them.
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
