"""Make replication events as a server with an `.ibb` log does: `encode_gtid`, `encode_query` and the others.

Events have no checksum and an end_log_pos of 0. Table maps and row events: `table_encoding.TableSpec`.
Compressed events are made of others: `compress_event` (MariaDB), `encode_payload` (MySQL).
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
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
from binlog_format.events.gtid_layout import COMMIT_ID_STRUCT, GTID_BODY_SIZE_MIN, GTID_FIXED_STRUCT
from binlog_format.events.layout import (
    EVENT_CHECKSUM_SIZE,
    EVENT_HEADER_SIZE,
    EVENT_HEADER_STRUCT,
    EVENT_SIZE_OFFSET,
    EVENT_TYPE_OFFSET,
    GTID_FLAG_ALLOW_PARALLEL,
    GTID_FLAG_DDL,
    GTID_FLAG_GROUP_COMMIT_ID,
    GTID_FLAG_STANDALONE,
    GTID_FLAG_TRANSACTIONAL,
    XID_BODY_STRUCT,
    EventType,
)
from binlog_format.events.query import parse_query
from binlog_format.events.query_layout import (
    QUERY_DATABASE_SIZE_OFFSET,
    QUERY_FIXED_SIZE,
    QUERY_STATUS_SIZE_OFFSET,
    QUERY_STRUCT,
)
from binlog_format.events.table_map_layout import TABLE_BODY_OFFSET
from binlog_format.fragments.layout import (
    FRAGMENT_COUNT_MIN,
    FRAGMENT_FLAG_ORIGINAL_SIZE,
    FRAGMENT_STRUCT,
    ORIGINAL_SIZE_STRUCT,
)
from binlog_lab.event_encoding.encoding_layout import (
    BODY_PREFIX_SIZES,
    CHECKSUM_STRUCT,
    DEFAULT_SQL_MODE,
    EVENT_HEADER_TYPE_COUNT,
    FORMAT_DESCRIPTION_CHECKSUM_OFF,
    FORMAT_DESCRIPTION_STRUCT,
    FORMAT_DESCRIPTION_VERSION,
    GTID_EVENT_FLAGS,
    QUERY_STATUS_CATALOG,
    QUERY_STATUS_CHARSETS_CODE,
    QUERY_STATUS_CHARSETS_STRUCT,
    QUERY_STATUS_FLAGS,
    QUERY_STATUS_SQL_MODE,
    QUERY_STATUS_XID_CODE,
    QUERY_STATUS_XID_STRUCT,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_format.gtids.gtid import Gtid


TRANSACTION_FLAGS = GTID_FLAG_TRANSACTIONAL | GTID_FLAG_ALLOW_PARALLEL
"""GTID flags of a transaction on InnoDB tables."""
DDL_FLAGS = GTID_FLAG_STANDALONE | GTID_FLAG_ALLOW_PARALLEL | GTID_FLAG_DDL
"""GTID flags of a DDL statement."""

_BODY_PREFIXES = bytes(BODY_PREFIX_SIZES.get(number, 0) for number in range(1, EVENT_HEADER_TYPE_COUNT + 1))
UTF8MB4_COLLATION = 45  # utf8mb4_general_ci
LATIN1_COLLATION = 8  # latin1_swedish_ci


@dataclass(frozen=True, slots=True)
class Origin:
    """Writer and time of an event: *timestamp* in seconds since 1970 UTC."""

    timestamp: int
    server_id: int


def encode_event(event_type: EventType, body: bytes, origin: Origin, *, flags: int = 0) -> bytes:
    """An event: header and *body*."""
    header = EVENT_HEADER_STRUCT.pack(
        origin.timestamp, event_type, origin.server_id, EVENT_HEADER_SIZE + len(body), 0, flags
    )
    return header + body


def encode_gtid(gtid: Gtid, timestamp: int, *, flags: int = TRANSACTION_FLAGS, commit_id: int | None = None) -> bytes:
    """The GTID event that opens a group; *commit_id* is the same in all groups of one group commit."""
    commit = b""
    if commit_id is not None:
        flags |= GTID_FLAG_GROUP_COMMIT_ID
        commit = COMMIT_ID_STRUCT.pack(commit_id)
    body = (GTID_FIXED_STRUCT.pack(gtid.seqno, gtid.domain, flags) + commit).ljust(GTID_BODY_SIZE_MIN, b"\0")
    return encode_event(EventType.MARIADB_GTID, body, Origin(timestamp, gtid.server), flags=GTID_EVENT_FLAGS)


@dataclass(frozen=True, slots=True)
class QueryContext:
    """Fields of a Query event beside its SQL.

    Attributes:
        database: The current database; empty for none.
        collation_id: Of client, connection and server.
        connection_id: Of the connection; None: *collation_id*.
        xid: Number of the transaction, which DDL statements carry.
        error_code: That the statement ended with.
    """

    database: str = ""
    thread_id: int = 1
    collation_id: int = UTF8MB4_COLLATION
    xid: int | None = None
    error_code: int = 0
    connection_id: int | None = None
    sql_mode: int = DEFAULT_SQL_MODE


def encode_query(sql: str, origin: Origin, context: QueryContext | None = None, *, flags: int = 0) -> bytes:
    """A Query event: a DDL statement, or a statement logged as text."""
    context = context or QueryContext()
    charset = context.collation_id
    connection = charset if context.connection_id is None else context.connection_id
    status = (
        QUERY_STATUS_FLAGS
        + QUERY_STATUS_SQL_MODE
        + context.sql_mode.to_bytes(8, "little")
        + QUERY_STATUS_CATALOG
        + QUERY_STATUS_CHARSETS_STRUCT.pack(QUERY_STATUS_CHARSETS_CODE, charset, connection, charset)
    )
    if context.xid is not None:
        status += QUERY_STATUS_XID_STRUCT.pack(QUERY_STATUS_XID_CODE, context.xid)
    database = context.database.encode()
    fixed = QUERY_STRUCT.pack(context.thread_id, 0, len(database), context.error_code, len(status))
    return encode_event(EventType.QUERY, fixed + status + database + b"\0" + sql.encode(), origin, flags=flags)


def encode_xid(xid: int, origin: Origin) -> bytes:
    """The XID event that ends a transaction."""
    return encode_event(EventType.XID, XID_BODY_STRUCT.pack(xid), origin)


def encode_annotate_rows(sql: str, origin: Origin) -> bytes:
    """The statement whose row events follow."""
    return encode_event(EventType.ANNOTATE_ROWS, sql.encode(), origin)


def encode_format_description(server_version: str, created: int, origin: Origin) -> bytes:
    """The Format_description event that a server start puts into an `.ibb` log.

    It records that events have no checksum, and has one itself, as every Format_description event of MariaDB.
    """
    body = (
        FORMAT_DESCRIPTION_STRUCT.pack(FORMAT_DESCRIPTION_VERSION, server_version.encode(), created, EVENT_HEADER_SIZE)
        + _BODY_PREFIXES
        + bytes([FORMAT_DESCRIPTION_CHECKSUM_OFF])
    )
    event = encode_event(EventType.FORMAT_DESCRIPTION, body + bytes(EVENT_CHECKSUM_SIZE), origin)
    covered = event[:-EVENT_CHECKSUM_SIZE]
    return covered + CHECKSUM_STRUCT.pack(zlib.crc32(covered))


def encode_fragments(
    event: bytes, origin: Origin, threshold: int, *, number_first: bool = False, has_checksum: bool = False
) -> list[bytes]:
    """The fragments of a row event that is larger than *threshold*.

    Args:
        event: Header and body, without checksum.
        threshold: `binlog_row_event_fragment_threshold`: bytes of a fragment, a checksum counted whether it has one or
            not.
        number_first: The number of a fragment comes before their total, as in the server's comments; not after it,
            as its code does.
        has_checksum: The header of the original event counts one, as where fragments have one.
    """
    room = threshold - EVENT_HEADER_SIZE - FRAGMENT_STRUCT.size - EVENT_CHECKSUM_SIZE
    first = room - ORIGINAL_SIZE_STRUCT.size
    if first < 1 or len(event) <= first:
        raise ValueError(f"{len(event)} bytes make no {FRAGMENT_COUNT_MIN} fragments of {threshold}")
    size = (len(event) + (EVENT_CHECKSUM_SIZE if has_checksum else 0)) & 0xFFFF_FFFF
    event = event[:EVENT_SIZE_OFFSET] + size.to_bytes(4, "little") + event[EVENT_SIZE_OFFSET + 4 :]
    contents = [event[:first], *(event[start : start + room] for start in range(first, len(event), room))]
    fragments = []
    for number, content in enumerate(contents, 1):
        counters = (number, len(contents)) if number_first else (len(contents), number)
        flags = FRAGMENT_FLAG_ORIGINAL_SIZE if number == 1 else 0
        body = FRAGMENT_STRUCT.pack(*counters, flags)
        if number == 1:
            body += ORIGINAL_SIZE_STRUCT.pack(len(event))
        fragments.append(encode_event(EventType.PARTIAL_ROW_DATA, body + content, origin))
    return fragments


def query_with_text(event: bytes, text: bytes) -> bytes:
    """The Query event *event* with another statement; without a checksum, as it was."""
    head = bytearray(event[: len(event) - len(parse_query(event).text)])
    head[EVENT_SIZE_OFFSET : EVENT_SIZE_OFFSET + 4] = (len(head) + len(text)).to_bytes(4, "little")
    return bytes(head) + text


_V2_TYPES = (EventType.WRITE_ROWS_V2, EventType.UPDATE_ROWS_V2, EventType.DELETE_ROWS_V2)
_UPDATE_TYPES = (EventType.UPDATE_ROWS_V1, EventType.UPDATE_ROWS_V2)


def compress_event(event: bytes) -> bytes:
    """The form that MariaDB gives a statement or row event with `log_bin_compress`.

    Args:
        event: QUERY, or a row event of version 1 or 2: header and body, without checksum; it has a text, or rows.
    """
    kind = event[EVENT_TYPE_OFFSET]
    head = plain_head_size(event)
    content = event[head:]
    length = len(content).to_bytes((len(content).bit_length() + 7) // 8, "big")
    mark = COMPRESSED_MARK | COMPRESSED_ALGORITHM_ZLIB | len(length)
    stored = bytearray(event[:head] + bytes([mark]) + length + zlib.compress(content))
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


def encode_payload(events: Sequence[bytes], origin: Origin, *, compressed: bool = True) -> bytes:
    """The TRANSACTION_PAYLOAD event that MySQL writes with `binlog_transaction_compression`.

    Args:
        events: Inner events, without checksums.
        origin: Of the event itself.
        compressed: With Zstandard; else they stand as they are.
    """
    plain = b"".join(events)
    content = zstandard.ZstdCompressor().compress(plain) if compressed else plain
    compression = PAYLOAD_COMPRESSION_ZSTD if compressed else PAYLOAD_COMPRESSION_NONE
    fields = _field(PAYLOAD_FIELD_COMPRESSION, compression)
    if compressed:
        fields += _field(PAYLOAD_FIELD_PLAIN_SIZE, len(plain))
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
