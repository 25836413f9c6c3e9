"""Events as a server writes them into an `.ibb` log: `detached_events`, `detached_format_description`.

No checksums, an end_log_pos of 0, no XA in GTID events.
"""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.classic.layout import (
    CHECKSUM_STRUCT,
    EVENT_FLAG_IN_USE,
    FORMAT_DESCRIPTION_TAIL_SIZE,
    ChecksumAlgorithm,
)
from binlog_format.events.gtid_layout import GTID_EXTRA_MULTI_ENGINE
from binlog_format.events.layout import (
    EVENT_CHECKSUM_SIZE,
    EVENT_END_LOG_POS_OFFSET,
    EVENT_FLAGS_OFFSET,
    GTID_FLAG_COMPLETED_XA,
    GTID_FLAG_STANDALONE,
)
from binlog_format.kernels import empty_bytes
from binlog_lab.event_encoding.gtid_events import XA_FLAGS, encode_gtid_event, parse_gtid_event
from binlog_lab.repack.detach_kernels import copy_detached

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_format.block import Block


def detached_events(block: Block) -> tuple[bytes, NDArray[np.int64]]:
    """All events of *block*, one after the other, and where each begins; one number more is where the last ends."""
    sizes = np.ascontiguousarray(block.events["size"])
    places = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=places[1:])
    target = empty_bytes(int(places[-1]))
    written = copy_detached(block.data, np.ascontiguousarray(block.events["start"]), sizes, target)
    assert written == len(target), "a block's events lie in its data"
    return target.tobytes(), places


def detached_gtid_event(event: bytes) -> bytes:
    """A GTID event without XA name, XA flags and count of further engines.

    Args:
        event: Header and body, without checksum, end_log_pos 0.
    """
    parsed = parse_gtid_event(event)
    flags = parsed.flags & ~XA_FLAGS
    if parsed.flags & GTID_FLAG_COMPLETED_XA:
        flags &= ~GTID_FLAG_STANDALONE  # the group has the events of its XA PREPARE now, and an end
    extra_flags = parsed.extra_flags & ~GTID_EXTRA_MULTI_ENGINE
    if flags == parsed.flags and extra_flags == parsed.extra_flags:
        return event
    return encode_gtid_event(replace(parsed, flags=flags, extra_flags=extra_flags))


def detached_format_description(event: bytes) -> bytes:
    """A Format_description event not in use, checksums off.

    The checksum at its end stays there and is valid, as in every Format_description event.

    Args:
        event: Header and body, with checksum.
    """
    changed = bytearray(event)
    changed[EVENT_END_LOG_POS_OFFSET:EVENT_FLAGS_OFFSET] = bytes(EVENT_FLAGS_OFFSET - EVENT_END_LOG_POS_OFFSET)
    changed[EVENT_FLAGS_OFFSET] &= ~EVENT_FLAG_IN_USE & 0xFF
    changed[-FORMAT_DESCRIPTION_TAIL_SIZE] = ChecksumAlgorithm.NONE
    changed[-EVENT_CHECKSUM_SIZE:] = CHECKSUM_STRUCT.pack(zlib.crc32(changed[:-EVENT_CHECKSUM_SIZE]))
    return bytes(changed)
