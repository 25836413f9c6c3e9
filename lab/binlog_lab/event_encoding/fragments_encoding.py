"""Cut row events into fragments as a MariaDB 12.3 server does: `encode_fragments`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.events.layout import (
    EVENT_CHECKSUM_SIZE,
    EVENT_HEADER_SIZE,
    EVENT_SIZE_OFFSET,
    EventType,
)
from binlog_format.fragments.layout import (
    FRAGMENT_COUNT_MIN,
    FRAGMENT_FLAG_ORIGINAL_SIZE,
    FRAGMENT_STRUCT,
    ORIGINAL_SIZE_STRUCT,
)
from binlog_lab.event_encoding.event_encoding import encode_event

if TYPE_CHECKING:
    from binlog_lab.event_encoding.event_encoding import Origin


def encode_fragments(
    event: bytes, origin: Origin, threshold: int, *, number_first: bool = False, has_checksum: bool = False
) -> list[bytes]:
    """The fragments of a row event that is larger than *threshold*.

    Args:
        event: Header and body, without checksum.
        origin: Of the fragments.
        threshold: `binlog_row_event_fragment_threshold`: bytes of a fragment, a checksum counted whether it has one or
            not.
        number_first: The number of a fragment comes before their total, as in the server's comments; not after it,
            as its code does.
        has_checksum: The header of the original event counts one, as where fragments have one.

    Raises:
        ValueError: The event does not need two fragments.
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
