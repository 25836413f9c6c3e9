"""Compressed events on disk: MariaDB's single ones, MySQL's compressed transactions.

`docs/formats/classic.md` describes them (MariaDB `sql/log_event.cc`: `query_event_uncompress`,
`row_log_event_uncompress`; MySQL `libs/mysql/binlog/event/codecs/binary.cpp`).
"""

from __future__ import annotations

import numpy as np

from binlog_format.events.layout import EventType

COMPRESSED_MARK = 0x80
COMPRESSED_ALGORITHM_MASK = 0x70
COMPRESSED_ALGORITHM_ZLIB = 0x00
COMPRESSED_LENGTH_SIZE_MASK = 0x07
COMPRESSED_LENGTH_SIZE_MAX = 4

ZLIB_RATIO_MAX = 1032
"""No zlib stream grows to more than this many times its size (`zlib.net/zlib_tech.html`)."""

# The first two bytes of a zlib stream (RFC 1950, section 2.2): the method, and together a multiple of 31.
ZLIB_METHOD_MASK = 0x0F
ZLIB_METHOD_DEFLATE = 8
ZLIB_HEADER_MULTIPLE = 31

PLAIN_TYPES = np.zeros(256, dtype=np.uint8)
"""Plain type of each event type that MariaDB compresses, by type code; 0 for all other types."""
for _stored, _plain in {
    EventType.QUERY_COMPRESSED: EventType.QUERY,
    EventType.WRITE_ROWS_COMPRESSED_V1: EventType.WRITE_ROWS_V1,
    EventType.UPDATE_ROWS_COMPRESSED_V1: EventType.UPDATE_ROWS_V1,
    EventType.DELETE_ROWS_COMPRESSED_V1: EventType.DELETE_ROWS_V1,
    EventType.WRITE_ROWS_COMPRESSED: EventType.WRITE_ROWS_V2,
    EventType.UPDATE_ROWS_COMPRESSED: EventType.UPDATE_ROWS_V2,
    EventType.DELETE_ROWS_COMPRESSED: EventType.DELETE_ROWS_V2,
}.items():
    PLAIN_TYPES[_stored] = _plain

FORM_PLAIN = 0
FORM_COMPRESSED = 1
FORM_PAYLOAD = 2
FORM_FRAGMENT = 3
STORED_FORMS = np.zeros(256, dtype=np.uint8)
"""Stored form of events, by type code: `FORM_...`."""
STORED_FORMS[PLAIN_TYPES != 0] = FORM_COMPRESSED
STORED_FORMS[EventType.TRANSACTION_PAYLOAD] = FORM_PAYLOAD
STORED_FORMS[EventType.PARTIAL_ROW_DATA] = FORM_FRAGMENT

PAYLOAD_FIELD_END = 0
PAYLOAD_FIELD_SIZE = 1
PAYLOAD_FIELD_COMPRESSION = 2
PAYLOAD_FIELD_PLAIN_SIZE = 3
PAYLOAD_COMPRESSION_ZSTD = 0
PAYLOAD_COMPRESSION_NONE = 255
PACKED_1_BYTE_MAX = 250
PACKED_2_BYTES, PACKED_3_BYTES, PACKED_8_BYTES = 252, 253, 254

# Frames of Zstandard (RFC 8878, section 3.1.1): magic; descriptor; window size, unless single segment; id of a
# dictionary; size of the content; blocks; checksum.
ZSTD_MAGIC = 0xFD2FB528
ZSTD_MAGIC_SIZE = 4
ZSTD_CONTENT_SIZE_SHIFT = 6
ZSTD_CONTENT_SIZE_SIZES = np.array([0, 2, 4, 8], dtype=np.int64)
ZSTD_CONTENT_SIZE_2_BYTES_FROM = 256
"""Content sizes of two bytes are stored minus this number."""
ZSTD_SINGLE_SEGMENT = 0x20
"""There is no window size; a content size of no bytes has one."""
ZSTD_RESERVED = 0x08
ZSTD_CHECKSUM = 0x04
ZSTD_DICTIONARY_MASK = 0x03
ZSTD_CHECKSUM_SIZE = 4
ZSTD_BLOCK_HEADER_SIZE = 3
ZSTD_BLOCK_LAST = 0x1
ZSTD_BLOCK_TYPE_SHIFT = 1
ZSTD_BLOCK_TYPE_MASK = 0x3
ZSTD_BLOCK_RLE = 1
ZSTD_BLOCK_RESERVED = 3
ZSTD_BLOCK_SIZE_SHIFT = 3
ZSTD_BLOCK_PLAIN_SIZE_MAX = 128 << 10
