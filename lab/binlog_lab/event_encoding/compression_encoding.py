"""Make compressed events as servers do: `compress_event` (MariaDB), `encode_payload` (MySQL)."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np
import zstandard

from binlog_format.events.compression.compression_layout import (
    COMPRESSED_ALGORITHM_ZLIB,
    COMPRESSED_MARK,
    PACKED_1_BYTE_MAX,
    PACKED_2_BYTES,
    PACKED_3_BYTES,
    PACKED_8_BYTES,
    PAYLOAD_COMPRESSION_NONE,
    PAYLOAD_COMPRESSION_ZSTD,
    PAYLOAD_FIELD_COMPRESSION,
    PAYLOAD_FIELD_END,
    PAYLOAD_FIELD_PLAIN_SIZE,
    PAYLOAD_FIELD_SIZE,
    PLAIN_TYPES,
)
from binlog_format.events.layout import EVENT_SIZE_OFFSET, EVENT_TYPE_OFFSET, EventType
from binlog_format.events.query_layout import QUERY_DATABASE_SIZE_OFFSET, QUERY_FIXED_SIZE, QUERY_STATUS_SIZE_OFFSET
from binlog_format.events.table_map_layout import TABLE_BODY_OFFSET
from binlog_lab.event_encoding.event_encoding import Origin, encode_event

if TYPE_CHECKING:
    from collections.abc import Sequence

_V2_TYPES = (EventType.WRITE_ROWS_V2, EventType.UPDATE_ROWS_V2, EventType.DELETE_ROWS_V2)
_UPDATE_TYPES = (EventType.UPDATE_ROWS_V1, EventType.UPDATE_ROWS_V2)


def compress_event(event: bytes, *, level: int = zlib.Z_DEFAULT_COMPRESSION) -> bytes:
    """The form that MariaDB gives a statement or row event with `log_bin_compress`.

    Args:
        event: QUERY, or a row event of version 1 or 2: header and body, without checksum; it has a text, or rows.
        level: Of zlib.
    """
    kind = event[EVENT_TYPE_OFFSET]
    head = plain_head_size(event)
    content = event[head:]
    length = len(content).to_bytes((len(content).bit_length() + 7) // 8, "big")
    mark = COMPRESSED_MARK | COMPRESSED_ALGORITHM_ZLIB | len(length)
    stored = bytearray(event[:head] + bytes([mark]) + length + zlib.compress(content, level))
    stored[EVENT_TYPE_OFFSET] = int(np.flatnonzero(kind == PLAIN_TYPES)[0])
    stored[EVENT_SIZE_OFFSET : EVENT_SIZE_OFFSET + 4] = len(stored).to_bytes(4, "little")
    return bytes(stored)


def plain_head_size(event: bytes) -> int:
    """Bytes of a QUERY or row event that are never compressed: up to its text or its rows."""
    kind = event[EVENT_TYPE_OFFSET]
    if kind == EventType.QUERY:
        status = event[QUERY_STATUS_SIZE_OFFSET : QUERY_STATUS_SIZE_OFFSET + 2]
        return QUERY_FIXED_SIZE + int.from_bytes(status, "little") + event[QUERY_DATABASE_SIZE_OFFSET] + 1
    head = TABLE_BODY_OFFSET
    if kind in _V2_TYPES:
        head += int.from_bytes(event[head : head + 2], "little")
    if event[head] <= PACKED_1_BYTE_MAX:
        columns, head = event[head], head + 1
    else:
        columns, head = int.from_bytes(event[head + 1 : head + 3], "little"), head + 3
    return head + (2 if kind in _UPDATE_TYPES else 1) * ((columns + 7) // 8)


def encode_payload(
    events: Sequence[bytes], origin: Origin, *, compressed: bool = True, plain_size: int | None = None
) -> bytes:
    """The TRANSACTION_PAYLOAD event that MySQL writes with `binlog_transaction_compression`.

    Args:
        events: Inner events, without checksums.
        origin: Of the event itself.
        compressed: With Zstandard; else they stand as they are.
        plain_size: Claimed bytes of the inner events; default: what they have.
    """
    plain = b"".join(events)
    content = zstandard.ZstdCompressor().compress(plain) if compressed else plain
    compression = PAYLOAD_COMPRESSION_ZSTD if compressed else PAYLOAD_COMPRESSION_NONE
    fields = _field(PAYLOAD_FIELD_COMPRESSION, compression)
    if compressed:
        fields += _field(PAYLOAD_FIELD_PLAIN_SIZE, len(plain) if plain_size is None else plain_size)
    fields += _field(PAYLOAD_FIELD_SIZE, len(content)) + packed(PAYLOAD_FIELD_END)
    return encode_event(EventType.TRANSACTION_PAYLOAD, fields + content, origin)


def packed(number: int) -> bytes:
    """A packed integer."""
    if number <= PACKED_1_BYTE_MAX:
        return bytes([number])
    sizes = ((PACKED_2_BYTES, 2), (PACKED_3_BYTES, 3), (PACKED_8_BYTES, 8))
    first, size = next(entry for entry in sizes if number < 1 << (8 * entry[1]))
    return bytes([first]) + number.to_bytes(size, "little")


def _field(kind: int, number: int) -> bytes:
    content = packed(number)
    return packed(kind) + packed(len(content)) + content
