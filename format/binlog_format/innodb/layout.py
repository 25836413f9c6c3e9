"""The `.ibb` container on disk: page sizes, header fields, chunk types; every constant and struct of the format.

`docs/formats/innodb.md` describes it.
"""

from __future__ import annotations

import struct
from enum import IntEnum

FILE_NAME_PREFIX = "binlog-"
FILE_NAME_SUFFIX = ".ibb"
FILE_NAME_DIGITS = 6
"""Digits of the file number in a name, at least; larger numbers take what they need."""

FILE_NO_MAX = 2**64 - 2
"""The server refuses the number of all ones."""

PAGE_SIZE_LOG2_MIN = 9
PAGE_SIZE_LOG2_MAX = 16
PAGE_SIZE_LOG2_DEFAULT = 14
PAGE_SIZE_MIN = 1 << PAGE_SIZE_LOG2_MIN
PAGE_SIZE_MAX = 1 << PAGE_SIZE_LOG2_MAX
PAGE_SIZE_DEFAULT = 1 << PAGE_SIZE_LOG2_DEFAULT
"""The only size that a server of MariaDB 12.3 writes or accepts."""

PAGE_CHECKSUM_STRUCT = struct.Struct("<I")
PAGE_CHECKSUM_SIZE = 4
assert PAGE_CHECKSUM_STRUCT.size == PAGE_CHECKSUM_SIZE

FIRST_DATA_PAGE = 1
FILE_PAGES_MIN = 4
"""`max_binlog_size` is rounded down to whole pages, to no fewer than these; FLUSH can leave fewer."""

MAGIC = 0x010DFEFE
VERSION_MAJOR = 1
"""A higher major version is refused, any minor version is read."""
VERSION_MINOR = 0

HEADER_STRUCT = struct.Struct(
    "<"
    "I"  # magic
    "I"  # page_size_log2
    "I"  # version_major
    "I"  # version_minor
    "Q"  # file_no
    "Q"  # page_count
    "Q"  # lsn
    "Q"  # state_interval, in pages
    "Q"  # oob_reference_file_no
    "Q"  # xa_reference_file_no
)
HEADER_FIELDS_SIZE = 64
assert HEADER_STRUCT.size == HEADER_FIELDS_SIZE

MAGIC_OFFSET = 0
MAGIC_SIZE = 4
HEADER_CHECKSUM_OFFSET = 508
"""The header's extra CRC-32C covers the bytes before it; it can be checked before the page size is known."""
HEADER_SIZE = HEADER_CHECKSUM_OFFSET + PAGE_CHECKSUM_SIZE
assert HEADER_SIZE == PAGE_SIZE_MIN

NO_XA_REFERENCE = 2**64 - 1


class RecordKind(IntEnum):
    """The low six bits of a chunk's type byte. Readers skip kinds that they do not know."""

    COMMIT = 1
    GTID_STATE = 2
    OOB = 3  # out-of-band: part of a transaction's events, written before its commit record
    DUMMY = 4  # fills the rest of a file that FLUSH cut
    XA_PREPARE = 5
    XA_COMPLETE = 6


NESTED_KINDS = frozenset({RecordKind.GTID_STATE, RecordKind.DUMMY})
"""Only chunks of these may be between the chunks of another record."""

CHUNK_KIND_MASK = 0x3F
CHUNK_LAST = 0x40
CHUNK_CONTINUATION = 0x80

CHUNK_END_OF_DATA = 0x00
"""Stored in place of a type byte: nothing has been written here yet."""
CHUNK_FILLER = 0xFF
"""Stored in place of a type byte: the rest of the page is empty."""

CHUNK_HEADER_STRUCT = struct.Struct(
    "<"
    "B"  # type
    "H"  # length of the data
)
CHUNK_HEADER_SIZE = 3
assert CHUNK_HEADER_STRUCT.size == CHUNK_HEADER_SIZE

CHUNK_SPACE_MIN = 4
"""Bytes before the page's checksum below which the next chunk is in the next page, whatever these bytes are."""
assert CHUNK_SPACE_MIN == CHUNK_HEADER_SIZE + 1

DUMMY_DATA_BYTE = 0xFF

# Compressed integers: the low 3 bits of the first byte are the number of bytes that follow, 7 means 8; the number
# is what the bytes contain, little endian, shifted right by 3.
COMPRESSED_INT_TAG_BITS = 3
COMPRESSED_INT_TAG_MASK = 0x07
COMPRESSED_INT_SIZE_MAX = 9
COMPRESSED_INT_SHORT_SIZE_MAX = 7
"""Seven bytes hold 53 bits; a larger number takes nine, never eight."""

COMMIT_HEADER_INTS_MAX = 10
"""A commit record begins with 1, 6 or 10 integers: n1 [file, offset, file, offset, n2 [file, offset, file, offset]]."""
COMMIT_HEADER_SIZE_MAX = COMMIT_HEADER_INTS_MAX * COMPRESSED_INT_SIZE_MAX

OOB_HEADER_INTS = 5
"""An out-of-band record begins with: index, left file, left offset, right file, right offset."""
OOB_HEADER_SIZE_MAX = OOB_HEADER_INTS * COMPRESSED_INT_SIZE_MAX

OOB_DATA_MAX = 512 << 10
"""Largest payload that the server gives one out-of-band record (`BINLOG_SPILL_MAX`)."""

# XA records, in front of the two strings of the XID; all integers of an XA prepare record follow them.
XA_HEADER_STRUCT = struct.Struct(
    "<"
    "B"  # prepare: number of engines; complete: 0 commit, 1 rollback
    "i"  # formatID
    "B"  # gtrid length
    "B"  # bqual length
)
XA_COMPLETE_COMMIT = 0
XA_COMPLETE_ROLLBACK = 1
XA_PREPARE_INTS = 5
"""Node count, first file, first offset, last file, last offset."""
