"""Groups of a log as plain values, to be compared with a manifest or with another reading."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.gtids.gtid import Gtid
from binlog_format.position import Position

if TYPE_CHECKING:
    from collections.abc import Iterable

    from binlog_format.block import Block
    from binlog_format.log.log import Log


@dataclass(frozen=True, slots=True)
class ReadGroup:
    """One event group, put together from its pieces."""

    position: Position
    file_offset: int
    gtid: str | None
    oob_records: int
    oob_records_second_set: int
    event_types: tuple[int, ...]
    data: bytes

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()


def read_groups(log: Log, start: Position | None = None, end: Position | None = None) -> list[ReadGroup]:
    """All groups of a range; every block is checked on the way."""
    return collect(log.blocks(start, end))


def collect(blocks: Iterable[Block]) -> list[ReadGroup]:
    """Put the groups of *blocks* together."""
    found: list[ReadGroup] = []
    pieces: list[tuple[np.void, tuple[int, ...], bytes]] = []
    for block in blocks:
        check_block(block)
        for group in block.groups:
            assert bool(group["begins"]) == (not pieces)
            assert group["event_no"] == sum(len(types) for _, types, _ in pieces)
            events = block.events[group["first_event"] : group["first_event"] + group["event_count"]]
            start = int(events["start"][0])
            data = block.data[start : start + int(group["size"])].tobytes()
            pieces.append((group, tuple(events["type"].tolist()), data))
            if group["ends"]:
                found.append(_joined(pieces))
                pieces = []
    return found


def _joined(pieces: list[tuple[np.void, tuple[int, ...], bytes]]) -> ReadGroup:
    group = pieces[0][0]
    gtid = Gtid(int(group["domain"]), int(group["server_id"]), int(group["seqno"]))
    return ReadGroup(
        Position(int(group["file_no"]), int(group["page"]), int(group["chunk"])),
        int(group["file_offset"]),
        str(gtid) if group["has_gtid"] else None,
        int(group["oob_records"]),
        int(group["oob_records_second_set"]),
        tuple(code for _, types, _ in pieces for code in types),
        b"".join(data for _, _, data in pieces),
    )


def check_block(block: Block) -> None:
    """What every block promises."""
    events, groups, extents = block.events, block.groups, block.extents
    assert np.array_equal(events["start"], np.cumsum(events["size"]) - events["size"])
    assert events["size"].sum() == len(block.data) == groups["size"].sum() == extents["size"].sum()
    assert np.array_equal(extents["data_start"], np.cumsum(extents["size"]) - extents["size"])
    assert np.array_equal(np.repeat(np.arange(len(groups)), groups["event_count"]), events["group"])
    assert np.array_equal(groups["first_event"], np.cumsum(groups["event_count"]) - groups["event_count"])
    first = np.repeat(groups["first_event"] - groups["event_no"], groups["event_count"])
    assert np.array_equal(events["event_no"], np.arange(len(events)) - first)
