"""Check events alone, whatever groups they belong to: `check_events`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from binlog_format.events.checksum_kernels import crc32
from binlog_format.events.layout import EVENT_HEADER_SIZE, EVENT_SIZE_OFFSET
from binlog_format.kernels import kernel
from binlog_format.memory_kernels import load_u32

if TYPE_CHECKING:
    from binlog_format.kernels import Bytes


class EventCheck(NamedTuple):
    """Result of `check_events`.

    Attributes:
        checked: Bytes of whole, sound events; all that there are when nothing is wrong.
        stored: The checksum of the event there; equals `computed` where its size is what is wrong.
        computed: Of its bytes.
    """

    checked: int
    stored: int
    computed: int


@kernel
def check_events(data: Bytes, size: int, checksum_size: int) -> EventCheck:
    """Go from event to event in `data[:size]`, and compute each one's checksum; 0 for *checksum_size*: sizes alone."""
    p = 0
    while p + EVENT_HEADER_SIZE <= size:
        event_size = load_u32(data, p + EVENT_SIZE_OFFSET)
        if event_size < EVENT_HEADER_SIZE + checksum_size or event_size > size - p:
            break
        if checksum_size > 0:
            body_end = p + event_size - checksum_size
            stored = load_u32(data, body_end)
            computed = int(np.int64(crc32(data, p, body_end)))
            if stored != computed:
                return EventCheck(p, stored, computed)
        p += event_size
    return EventCheck(p, 0, 0)
