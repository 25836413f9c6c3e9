"""A log made of events in memory, in plain Python: blocks, pieces of groups, events cut by pages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.block import EVENT_DTYPE, EXTENT_DTYPE, GROUP_DTYPE, Block
from binlog_format.events.layout import EVENT_HEADER_STRUCT, GTID_FLAG_TRANSACTIONAL
from binlog_format.format_traits import CLASSIC, FORMAT_TRAITS
from binlog_format.gtids.gtid import Gtid, GtidPosition
from binlog_format.kernels import as_bytes, empty_bytes
from binlog_format.log.log import Log
from binlog_format.log_format import Heads, LogFile, Span
from binlog_format.position import Position
from binlog_lab.event_encoding.event_encoding import Origin, QueryContext, encode_gtid, encode_query, encode_xid

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_format.block import Table
    from binlog_format.kernels import Bytes

PAGE_GAP = 7
"""Bytes at the end of each page that belong to no event."""
FIRST_BYTE = 100


@dataclass(slots=True)
class MadeGroup:
    """An event group; `events` without the GTID event."""

    gtid: Gtid | None
    timestamp: int
    events: list[bytes] = field(default_factory=list)
    flags: int = GTID_FLAG_TRANSACTIONAL

    def all_events(self) -> list[bytes]:
        """The group's events; a GTID event first, when it has a GTID."""
        return ([] if self.gtid is None else [encode_gtid(self.gtid, self.timestamp, flags=self.flags)]) + self.events


def query(sql: str, *, database: str = "shop") -> bytes:
    """A QUERY event."""
    return encode_query(sql, Origin(1_700_000_000, 1), QueryContext(database=database))


def xid(number: int = 1) -> bytes:
    """An XID event."""
    return encode_xid(number, Origin(1_700_000_000, 1))


class MadeLog(Log):
    """Groups in one file with pages.

    Args:
        groups: In commit order.
        page_size: Events are cut where a page ends.
        piece_events: A group with more events than that comes in pieces.
    """

    format_name = "made"
    traits = FORMAT_TRAITS[CLASSIC]

    def __init__(
        self, groups: list[MadeGroup], *, page_size: int = 300, block_groups: int = 3, piece_events: int = 1000
    ) -> None:
        self.path = "made"
        self.groups = groups
        self.file = bytearray(FIRST_BYTE)
        self._page_size = page_size
        self._block_groups = block_groups
        self._piece_events = piece_events
        self._starts: list[int] = []
        self._extents: list[list[list[tuple[int, int]]]] = []  # of each event of each group
        for group in groups:
            self._starts.append(len(self.file))
            self._extents.append([self._append(event) for event in group.all_events()])

    def _append(self, event: bytes) -> list[tuple[int, int]]:
        extents = []
        while event:
            room = self._page_size - PAGE_GAP - len(self.file) % self._page_size
            if room <= 0:
                self.file += bytes(self._page_size - len(self.file) % self._page_size)
                continue
            extents.append((len(self.file), min(room, len(event))))
            self.file += event[:room]
            event = event[room:]
        return extents

    def position(self, group: int) -> Position:
        """Where a group starts; after the last one: the end of the log."""
        start = self._starts[group] if group < len(self.groups) else len(self.file)
        return Position(0, start // self._page_size, start % self._page_size)

    def blocks(
        self, start: Position | None = None, end: Position | None = None, *, skips_purged: bool = False
    ) -> Iterator[Block]:
        """Blocks of whole groups, or of pieces."""
        del skips_purged
        pending: list[tuple[int, int, int]] = []
        for index, group in enumerate(self.groups):
            at = self.position(index)
            if (start is not None and at < start) or (end is not None and at >= end):
                continue
            count = len(group.all_events())
            if count <= self._piece_events:
                pending.append((index, 0, count))
                if len(pending) < self._block_groups:
                    continue
            if pending:
                yield self._block(pending)
                pending = []
            if count > self._piece_events:
                for first in range(0, count, self._piece_events):
                    yield self._block([(index, first, min(first + self._piece_events, count))])
        if pending:
            yield self._block(pending)

    def _block(self, parts: list[tuple[int, int, int]]) -> Block:
        groups = np.zeros(len(parts), dtype=GROUP_DTYPE)
        groups["gtid_source"] = -1
        events = np.zeros(sum(end - first for _, first, end in parts), dtype=EVENT_DTYPE)
        pieces: list[tuple[int, int]] = []
        data = bytearray()
        row = 0
        for number, (index, first, end) in enumerate(parts):
            made = self.groups[index]
            at = self.position(index)
            group = groups[number]
            group["file_no"], group["page"], group["chunk"] = at.file_no, at.page, at.chunk
            group["file_offset"] = self._starts[index]
            group["first_event"], group["event_count"], group["event_no"] = row, end - first, first
            group["timestamp"], group["gtid_source"] = made.timestamp, -1
            group["size"] = sum(map(len, made.all_events()[first:end]))
            if made.gtid is not None:
                group["domain"], group["server_id"], group["seqno"] = (
                    made.gtid.domain,
                    made.gtid.server,
                    made.gtid.seqno,
                )
                group["has_gtid"], group["gtid_flags"] = True, made.flags
            group["begins"], group["ends"] = first == 0, end == len(made.all_events())
            for event_no in range(first, end):
                event = made.all_events()[event_no]
                timestamp, kind, server_id, size, _, flags = EVENT_HEADER_STRUCT.unpack_from(event)
                assert size == len(event)
                events[row] = (len(data), size, kind, flags, timestamp, server_id, number, event_no)
                data += event
                pieces += self._extents[index][event_no]
                row += 1
        last, _, last_end = parts[-1]
        whole = last_end == len(self.groups[last].all_events())
        return Block(
            as_bytes(data),
            groups,
            events,
            _extent_table(pieces),
            self.position(last + 1) if whole else self.position(last),
        )

    def read_extents(self, extents: Table) -> Bytes:
        """Join the pieces."""
        out = empty_bytes(int(extents["size"].sum()))
        at = 0
        for _, file_no, offset, size in extents.tolist():
            assert file_no == 0
            out[at : at + size] = np.frombuffer(self.file, dtype=np.uint8)[offset : offset + size]
            at += size
        return out

    def start_position(self) -> Position:
        """Of the first group."""
        return self.position(0)

    def gtid_position_at(self, position: Position) -> GtidPosition:
        """From the groups before it."""
        before = [group.gtid for index, group in enumerate(self.groups) if self.position(index) < position]
        return GtidPosition.of([gtid for gtid in before if gtid is not None])

    def end_position(self) -> Position:
        """After the last group."""
        return self.position(len(self.groups))

    def can_start_at(self, position: Position) -> bool:
        """At groups, and at the end."""
        return any(self.position(index) == position for index in range(len(self.groups) + 1))

    def file_starts(self) -> list[Position]:
        """Of the one file."""
        return [self.start_position()]

    def listed_gtids(self, place: Position) -> tuple[Gtid, ...] | None:
        """The last one of each domain."""
        return tuple(self.gtid_position_at(place).last.values())

    def heads(self, start: Position, end: Position | None) -> Iterator[Heads]:
        """Of blocks."""
        return (Heads(block.groups, block.next_position) for block in self.blocks(start, end))

    def files(self) -> list[LogFile]:
        """The one file."""
        return [LogFile(0, "made", len(self.file), "active", len(self.file), {})]

    def size_before(self, position: Position) -> int:
        """Not used by views."""
        raise NotImplementedError

    def span(self, start: Position, *, end: Position | None = None, size_max: int | None = None) -> Span:
        """Of no use to views."""
        raise NotImplementedError

    def split(self, start: Position, end: Position, count: int) -> list[Position]:
        """Of no use to views."""
        raise NotImplementedError

    def close(self) -> None:
        """Nothing to let go."""


def _extent_table(pieces: list[tuple[int, int]]) -> Table:
    joined: list[list[int]] = []
    for offset, size in pieces:
        if joined and joined[-1][0] + joined[-1][1] == offset:
            joined[-1][1] += size
        else:
            joined.append([offset, size])
    table = np.zeros(len(joined), dtype=EXTENT_DTYPE)
    table["file_offset"] = [offset for offset, _ in joined]
    sizes = np.array([size for _, size in joined], dtype=np.int64)
    table["data_start"], table["size"] = np.cumsum(sizes) - sizes, sizes
    return table
