"""Numbers of the structured format (docs/formats/structured.md).

Blocks of queued entries in the memory of a program that logs (docs/formats/structured.md), 64 bits.
"""

from __future__ import annotations

import struct
from enum import IntEnum

import numpy as np

SIZE_STRUCT = struct.Struct("<I")
"""Size field before each entry: the number of bytes that follow."""

TAG_STRUCT = struct.Struct("<Q")
"""Start of each entry: the id of an event's source, or the kind of metadata."""

NS_PER_SECOND = 1_000_000_000
NS_PER_MICRO = 1_000
"""Times are nanoseconds since 1970 UTC."""

U64_STRUCT = struct.Struct("<Q")
I32_STRUCT = struct.Struct("<i")
U16_STRUCT = struct.Struct("<H")

METADATA_BIT = 1 << 63
SOURCE_TAG = (1 << 64) - 1
WRITER_TAG = (1 << 64) - 2
CLOCK_TAG = (1 << 64) - 3

EVENT_STRUCT = struct.Struct("<QQ")
"""Start of an event: source id, clock value. Its arguments follow."""

ENTRY_HEAD_SIZE = SIZE_STRUCT.size
EVENT_SIZE_MIN = EVENT_STRUCT.size
SOURCE_SIZE_MIN = 46
WRITER_SIZE_MIN = 28
CLOCK_SIZE_MIN = 40

# From the size field of a WriterProp on: its key, which is its id and its name, and where in it the name's size is.
WRITER_KEY_OFFSET = ENTRY_HEAD_SIZE + TAG_STRUCT.size
WRITER_NAME_SIZE_OFFSET = WRITER_KEY_OFFSET + U64_STRUCT.size

SOURCE_CATEGORY_OFFSET = ENTRY_HEAD_SIZE + TAG_STRUCT.size + U64_STRUCT.size + U16_STRUCT.size
"""The same of an EventSource's first text, ..."""
CLOCK_NAME_SIZE_OFFSET = ENTRY_HEAD_SIZE + TAG_STRUCT.size + 3 * U64_STRUCT.size + I32_STRUCT.size
"""... and of the size of a ClockSync's name."""

NESTING_MAX = 2048
"""Values nested as deeply as this cannot be read; 2047 levels around a number can."""

SINGULAR_MAX = 32
"""Elements without bytes and with one possible value are shown one by one up to here, then once and counted."""


class Severity(IntEnum):
    """Severity of a source; other numbers occur."""

    TRACE = 32
    DEBUG = 64
    INFO = 128
    WARNING = 256
    ERROR = 512
    CRITICAL = 1024
    NO_LOGS = 32768


# One row per event, in file order.
LOG_EVENT_DTYPE = np.dtype(
    [
        ("start", np.int64),  # byte of the entry's size field in `LogBlock.data`
        ("size", np.int64),  # bytes after that field: source id, clock value, arguments
        ("clock", np.uint64),  # clock value
        ("source", np.int32),  # row in `LogBlock.sources`
        ("writer", np.int32),  # row in `LogBlock.writers`
        ("clock_sync", np.int32),  # row in `LogBlock.clock_syncs`
    ]
)
ARGUMENTS_OFFSET = ENTRY_HEAD_SIZE + EVENT_SIZE_MIN
"""Distance from an event's `start` to its arguments, which take `size` - 16 bytes."""


METADATA_MAGIC = struct.pack("<Q", 0xFE214F726E35BDBC)
DATA_MAGIC = struct.pack("<Q", 0xFE213F716D34BCBC)

METADATA_STRUCT = struct.Struct(
    "<"
    "Q"  # session: its address
    "Q"  # size: of the entries that follow
)
DATA_STRUCT = struct.Struct(
    "<"
    "Q"  # session
    "Q"  # write_index: next byte to write
    "Q"  # data_end: end of what is valid when writing has begun anew at the start
    "Q"  # capacity: of the bytes that follow
    "Q"  # buffer: where they were; ignored
    "Q"  # read_index: next byte to consume
)
