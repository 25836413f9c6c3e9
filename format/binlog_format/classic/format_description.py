"""The Format_description event at the start of every file: `parse_format_description`."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_format.classic.layout import (
    BINLOG_VERSION,
    CHECKSUM_STRUCT,
    EVENT_FLAG_IN_USE,
    FORMAT_DESCRIPTION_FIXED_SIZE,
    FORMAT_DESCRIPTION_STRUCT,
    FORMAT_DESCRIPTION_TAIL_SIZE,
    POST_HEADER_SIZES,
    ChecksumAlgorithm,
)
from binlog_format.errors import CorruptError, UnsupportedError
from binlog_format.events.layout import (
    EVENT_CHECKSUM_SIZE,
    EVENT_FLAGS_OFFSET,
    EVENT_HEADER_SIZE,
    EVENT_HEADER_STRUCT,
    EventType,
)
from binlog_format.vendor import CHECKSUMS_SINCE, Vendor, server_version_of, vendor_of

if TYPE_CHECKING:
    from binlog_format.position import Place

_OLD_TYPES_MAX = EventType.ROWS_QUERY
"""Types that servers without checksums list: at most those of MySQL 5.6.0. Nothing follows them in their event."""


@dataclass(frozen=True, slots=True)
class FormatDescription:
    """Contents of a file's first event, which describes the rest of the file.

    Attributes:
        server_version: For example `10.11.19-MariaDB-log`.
        timestamp: When the file was begun, seconds since 1970 UTC.
        created: Equal to `timestamp` in the first file after a server start, else 0.
        in_use: The file was not closed: it is being written, or its server was killed.
        algorithm: What follows the other events.
    """

    server_version: str
    server_id: int
    timestamp: int
    created: int
    in_use: bool
    algorithm: ChecksumAlgorithm

    @property
    def vendor(self) -> Vendor:
        """Vendor of the server that wrote the file."""
        return vendor_of(self.server_version)

    @property
    def checksum_size(self) -> int:
        """Bytes after every event."""
        return EVENT_CHECKSUM_SIZE if self.algorithm is ChecksumAlgorithm.CRC32 else 0


def parse_format_description(event: bytes, at: Place) -> FormatDescription:
    """Read the whole event, header and checksum included. *event*: exactly the event."""
    timestamp, event_type, server_id, _, _, flags = EVENT_HEADER_STRUCT.unpack_from(event)
    if event_type != EventType.FORMAT_DESCRIPTION:
        raise CorruptError("BAD_EVENT", f"the first event of the file has type {event_type}, expected 15", at=at)
    if len(event) < FORMAT_DESCRIPTION_FIXED_SIZE + FORMAT_DESCRIPTION_TAIL_SIZE:
        raise CorruptError("BAD_EVENT", f"a Format_description event of {len(event)} bytes is too short", at=at)
    version, server_version, created, header_size = FORMAT_DESCRIPTION_STRUCT.unpack_from(event, EVENT_HEADER_SIZE)
    text = server_version.partition(b"\0")[0].decode("utf-8", "replace")
    _check_checksum(event, text, at)
    if version != BINLOG_VERSION or header_size != EVENT_HEADER_SIZE:
        raise UnsupportedError(
            "VERSION",
            f"binlog version {version} with event headers of {header_size} bytes, expected version 4 with 19 bytes",
            at=at,
        )
    algorithm = event[-FORMAT_DESCRIPTION_TAIL_SIZE]
    if algorithm not in ChecksumAlgorithm.__members__.values():
        raise UnsupportedError("VERSION", f"checksum algorithm {algorithm}, expected 0 (none) or 1 (CRC-32)", at=at)
    _check_post_headers(event[FORMAT_DESCRIPTION_FIXED_SIZE:-FORMAT_DESCRIPTION_TAIL_SIZE], at)
    return FormatDescription(
        server_version=text,
        server_id=server_id,
        timestamp=timestamp,
        created=created,
        in_use=bool(flags & EVENT_FLAG_IN_USE),
        algorithm=ChecksumAlgorithm(algorithm),
    )


def _check_checksum(event: bytes, server_version: str, at: Place) -> None:
    covered = bytearray(event[:-EVENT_CHECKSUM_SIZE])
    covered[EVENT_FLAGS_OFFSET] &= ~EVENT_FLAG_IN_USE & 0xFF
    (stored,) = CHECKSUM_STRUCT.unpack_from(event, len(event) - EVENT_CHECKSUM_SIZE)
    computed = zlib.crc32(covered)
    if stored == computed:
        return
    version = server_version_of(server_version)
    names_old = (0, 0, 0) < version < CHECKSUMS_SINCE[vendor_of(server_version)]
    if names_old and len(event) - FORMAT_DESCRIPTION_FIXED_SIZE <= _OLD_TYPES_MAX:  # else a digit of it is damaged
        raise UnsupportedError("VERSION", f"files of server version {server_version} are too old to be read", at=at)
    raise CorruptError(
        "EVENT_CHECKSUM", f"Format_description event CRC-32: stored {stored:#010x}, computed {computed:#010x}", at=at
    )


def _check_post_headers(sizes: bytes, at: Place) -> None:
    for event_type, expected in POST_HEADER_SIZES.items():
        # MySQL's files end their list before MariaDB's own types; those types are then not in the file either.
        if event_type <= len(sizes) and sizes[event_type - 1] not in (expected, 0):
            raise UnsupportedError(
                "VERSION",
                f"the fixed part of {event_type.name} events has {sizes[event_type - 1]} bytes, expected {expected}",
                at=at,
            )
