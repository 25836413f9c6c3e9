"""Events of a small classic binlog file, in plain Python: an independent reader for tests of the encoders."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HEADER = struct.Struct("<IBIIIH")
CHECKSUM_SIZE = 4


@dataclass(frozen=True, slots=True)
class ClassicEvent:
    """One event; *data* as it would stand in an `.ibb` file: no checksum, end_log_pos 0."""

    type: int
    timestamp: int
    server_id: int
    flags: int
    data: bytes

    @property
    def body(self) -> bytes:
        return self.data[HEADER.size :]


def classic_events(path: Path) -> Iterator[ClassicEvent]:
    """The events of a file with checksums, in order."""
    content = path.read_bytes()
    start = 4
    while start < len(content):
        timestamp, event_type, server_id, size, _, flags = HEADER.unpack_from(content, start)
        body = content[start + HEADER.size : start + size - CHECKSUM_SIZE]
        header = HEADER.pack(timestamp, event_type, server_id, HEADER.size + len(body), 0, flags)
        yield ClassicEvent(event_type, timestamp, server_id, flags, header + body)
        start += size
