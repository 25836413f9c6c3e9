"""Rows among the packets of a server's answer: `find_rows`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.kernels import kernel
from binlog_format.memory_kernels import load_u8, load_u16

if TYPE_CHECKING:
    from binlog_format.kernels import Bytes, Int64s

MORE = 0  # the data end within a packet
LAST = 1  # the packet after the last row
FAILED = 2  # the server's error
LARGE = 3  # a row of several packets
FULL = 4  # no room for more rows
DAMAGED = 5  # no row

PACKET_HEADER = 4
PACKET_MAX = 0xFFFFFF
_LAST_PACKET_MAX = 9


@kernel
def find_rows(data: Bytes, place: int, end: int, starts: Int64s, ends: Int64s) -> tuple[int, int, int]:
    """Find rows in whole packets.

    Args:
        place: Where a packet begins.
        end: Of the data.
        starts: Gets where the content of each row begins.
        ends: Gets where it ends.

    Returns:
        How many rows there are; where the next packet begins; why there are no more.
    """
    count = 0
    while count < starts.size:
        if place + PACKET_HEADER > end:
            return count, place, MORE
        size = load_u16(data, place) | load_u8(data, place + 2) << 16
        if size == PACKET_MAX:
            return count, place, LARGE
        content = place + PACKET_HEADER
        if content + size > end:
            return count, place, MORE
        first = load_u8(data, content) if size else 1
        if first == 0xFE and size < _LAST_PACKET_MAX:
            return count, place, LAST
        if first == 0xFF:
            return count, place, FAILED
        if first != 0:
            return count, place, DAMAGED
        starts[count], ends[count] = content, content + size
        count += 1
        place = content + size
    return count, place, FULL
