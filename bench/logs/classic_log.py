"""A classic binlog file with a CRC-32 after each event, as a server writes it: `ClassicWriter`."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Self

from binlog_format.classic.layout import CHECKSUM_STRUCT, MAGIC, ChecksumAlgorithm
from binlog_format.events.gtid_layout import GTID_LIST_COUNT_STRUCT
from binlog_format.events.layout import (
    EVENT_CHECKSUM_SIZE,
    EVENT_END_LOG_POS_OFFSET,
    EVENT_HEADER_SIZE,
    EVENT_SIZE_OFFSET,
    EventType,
)
from binlog_lab.event_encoding.event_encoding import encode_event, encode_format_description

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from binlog_format.gtids.gtid import Gtid
    from binlog_lab.event_encoding.event_encoding import Origin

FILE_NAME = "mariadb-bin.000001"
_ALGORITHM_OFFSET = -EVENT_CHECKSUM_SIZE - 1  # in the Format_description event
_WRITTEN_AT_ONCE = 4 << 20


class ClassicWriter:
    """Writes one file, which a Stop event ends; a context manager.

    Args:
        directory: Made if it is not there.
        origin: Of the events that the server itself writes.
        server_version: What the file contains of its server.

    Attributes:
        size: Bytes of the file so far.
    """

    def __init__(self, directory: Path, origin: Origin, *, server_version: str = "10.11.19-MariaDB-log") -> None:
        self.size = 0
        self._origin = origin
        self._waiting = bytearray(MAGIC)
        directory.mkdir(parents=True, exist_ok=True)
        self._file = (directory / FILE_NAME).open("wb")
        description = bytearray(encode_format_description(server_version, origin.timestamp, origin))
        description[_ALGORITHM_OFFSET] = ChecksumAlgorithm.CRC32
        self._append(bytes(description[:-EVENT_CHECKSUM_SIZE]))
        self._append(encode_event(EventType.MARIADB_GTID_LIST, GTID_LIST_COUNT_STRUCT.pack(0), origin))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._append(encode_event(EventType.STOP, b"", self._origin))
        self._write()
        self._file.close()

    def write_group(self, gtid: Gtid, gtid_event: bytes, events: Sequence[bytes]) -> None:
        """Append a group; events have no checksums, and may be joined."""
        del gtid  # the event records it
        self._append(gtid_event)
        for joined in events:
            self._append(joined)

    def _append(self, events: bytes) -> None:
        at = 0
        while at < len(events):
            size = int.from_bytes(events[at + EVENT_SIZE_OFFSET : at + EVENT_SIZE_OFFSET + 4], "little")
            self._append_one(events[at : at + size])
            at += size
        if len(self._waiting) >= _WRITTEN_AT_ONCE:
            self._write()

    def _append_one(self, event: bytes) -> None:
        size = len(event) + EVENT_CHECKSUM_SIZE
        end = (self.size + len(self._waiting) + size) & 0xFFFFFFFF  # as in files of more than 4 GiB
        head = event[:EVENT_SIZE_OFFSET] + size.to_bytes(4, "little") + end.to_bytes(4, "little")
        assert len(head) == EVENT_END_LOG_POS_OFFSET + 4 < EVENT_HEADER_SIZE
        covered = head + event[len(head) :]
        self._waiting += covered
        self._waiting += CHECKSUM_STRUCT.pack(zlib.crc32(covered))

    def _write(self) -> None:
        self.size += self._file.write(self._waiting)
        self._waiting.clear()
