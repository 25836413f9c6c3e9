"""Blocks made of classic binlog files in plain Python: an oracle that shares no code with the readers.

It knows only as much of the format as the cut into events and groups needs.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.block import EVENT_DTYPE, EXTENT_DTYPE, GROUP_DTYPE, Block
from binlog_format.kernels import as_bytes
from binlog_format.position import Position

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

FDE, GTID, XID, QUERY, XA_PREPARE, TABLE_MAP = 15, 162, 16, 2, 38, 19
OUTSIDE = {FDE, 4, 3, 161, 163}  # format description, rotate, stop, checkpoint, GTID list


def plain_events(path: Path) -> Iterator[bytes]:
    """Every event of a file, without its checksum."""
    data = path.read_bytes()
    assert data[:4] == b"\xfebin"
    start, checksum_size = 4, 0
    while start < len(data):
        kind, size = data[start + 4], int.from_bytes(data[start + 9 : start + 13], "little")
        event = data[start : start + size]
        if kind == FDE:
            checksum_size = 4
            has_checksums = event[-5] == 1
            yield event[:-4]
            checksum_size = 4 if has_checksums else 0
        else:
            yield event[: size - checksum_size]
        start += size


def plain_groups(path: Path) -> list[list[bytes]]:
    """The events of each group of a file."""
    groups: list[list[bytes]] = []
    for event in plain_events(path):
        if event[4] == GTID:
            groups.append([])
        if event[4] not in OUTSIDE and groups:
            groups[-1].append(event)
    return groups


def gtid_of(group: list[bytes]) -> str:
    """`domain-server-seqno` of a group."""
    seqno, domain = struct.unpack_from("<QI", group[0], 19)
    return f"{domain}-{int.from_bytes(group[0][5:9], 'little')}-{seqno}"


def plain_block(groups: Iterable[list[bytes]], *, begins: bool = True, ends: bool = True, event_no: int = 0) -> Block:
    """One block of *groups*.

    Args:
        groups: Events of each group.
        begins: Whether the first group begins here.
        ends: Whether the last group ends here.
        event_no: Number of the first event in its group.
    """
    groups = list(groups)
    data = b"".join(event for group in groups for event in group)
    group_table = np.zeros(len(groups), dtype=GROUP_DTYPE)
    group_table["gtid_source"] = -1
    event_table = np.zeros(sum(len(group) for group in groups), dtype=EVENT_DTYPE)
    start = row = 0
    for number, group in enumerate(groups):
        first_no = event_no if number == 0 else 0
        group_table[number]["first_event"], group_table[number]["event_count"] = row, len(group)
        group_table[number]["begins"] = begins or number > 0
        group_table[number]["ends"] = ends or number < len(groups) - 1
        group_table[number]["event_no"] = first_no
        for index, event in enumerate(group):
            timestamp, kind, server_id = struct.unpack_from("<IBI", event)
            flags = int.from_bytes(event[17:19], "little")
            event_table[row] = (start, len(event), kind, flags, timestamp, server_id, number, first_no + index)
            start += len(event)
            row += 1
    extents = np.array([(0, 1, 4, len(data))], dtype=EXTENT_DTYPE)
    return Block(as_bytes(data), group_table, event_table, extents, Position(1, 0, start))
