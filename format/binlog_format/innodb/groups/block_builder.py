"""Collects event groups into blocks: `BlockBuilder`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from binlog_format.block import BLOCK_SIZE, EXTENT_DTYPE, GROUP_DTYPE, Block, copied
from binlog_format.errors import CorruptError
from binlog_format.events.event_table_kernels import EVENTS_BAD_SIZE, EVENTS_TABLE_FULL, cut_events, read_gtid
from binlog_format.events.layout import EVENT_HEADER_SIZE, EVENT_HEADER_STRUCT
from binlog_format.innodb.groups.commit_kernels import (
    COMMIT_BAD_EVENT,
    COMMIT_NO_ROOM,
    COMMIT_TABLE_FULL,
    append_groups,
)
from binlog_format.innodb.record_kernels import WALK_TABLE_FULL, append_nodes, append_pieces
from binlog_format.innodb.tables import Joined
from binlog_format.kernels import empty_bytes
from binlog_format.position import Place, Position

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_format.block import Table
    from binlog_format.innodb.pages.pages import PageReader
    from binlog_format.innodb.scanner import CommitWindow
    from binlog_format.innodb.tables import Pages, TableWalk
    from binlog_format.kernels import Bytes

EVENTS_MIN = 8192
"""Rows of the event table to begin with; it grows with what a block needs."""

DATA_SIZE_MIN = BLOCK_SIZE + (128 << 10)
"""Bytes of a new data buffer: a block, and the out-of-band record or page that fills it."""

_SIZE, _GROUPS, _EVENTS, _EXTENTS = range(4)


@dataclass(slots=True)
class NodeCursor:
    """Place of reading in a table of out-of-band records.

    Attributes:
        at: Byte in the pages at hand to go on from within it; negative: it has not been begun.
        begun: Its first chunk has been passed.
        skip: Bytes of it to leave out.
    """

    row: int = 0
    at: int = -1
    begun: bool = False
    skip: int = 0


class BlockBuilder:
    """One block under construction; small groups are appended many at a time, a large one piece by piece.

    Args:
        reader: Of the log; for its memory, and for the names in errors.
    """

    def __init__(self, reader: PageReader) -> None:
        self._files = reader.files
        self._event_tables = reader.event_tables
        self._buffers = reader.data_buffers
        self._events: Table = self._event_tables.take(EVENTS_MIN)
        self._groups: Table = np.empty(1024, dtype=GROUP_DTYPE)
        self._extents: Table = np.empty(4096, dtype=EXTENT_DTYPE)
        self._used = np.zeros(4, dtype=np.int64)
        self._data: Bytes = empty_bytes(0)
        self._position = Position(0, 0, 0)  # of the group under construction
        self._group_start = 0  # byte where it, or the piece of it, begins; its row is the one after the others
        self._wanted = 0  # size of data with which the first event of the piece is whole

    @property
    def size(self) -> int:
        """Bytes of event data so far."""
        return int(self._used[_SIZE])

    @property
    def group_count(self) -> int:
        """Groups so far."""
        return int(self._used[_GROUPS])

    def append_groups(self, window: CommitWindow, record: int, walk: TableWalk) -> tuple[int, int]:
        """Take the groups of a window, out-of-band data included as far as they are in the window too.

        Args:
            record: Row of the first commit record to take.
            walk: Knows the out-of-band records that have been passed.

        Returns:
            `COMMIT_DONE`, `COMMIT_NO_ROOM` or `COMMIT_ELSEWHERE`, and the first record not taken.

        Raises:
            CorruptError: `BAD_EVENT`. The groups before it have been taken.
        """
        records = window.records
        chunk_count = int((records["end"][record:] - records["first"][record:]).sum())
        self._reserve(0, len(records) - record, chunk_count)
        pages = window.pages.pages()
        joined = Joined(self._data, self._extents)
        while True:
            code, record, at = append_groups(
                pages, window.chunks, records, record, walk, joined, self._groups, self._events, self._used
            )
            if code == COMMIT_TABLE_FULL:
                self._events = _grown(self._events, 2 * len(self._events))
                continue
            if code == COMMIT_BAD_EVENT:
                error = self._bad_event(at)
                self._group_start = int(self._groups["size"][: self.group_count].sum())
                self.drop_group()
                raise error
            if code == COMMIT_NO_ROOM and self.group_count == 0 and records["oob_records"][record] == 0:
                # Not even one record fits into an empty block: it is as large as a window.
                self._reserve(int(records["size"][record]), 1, chunk_count)
                joined = Joined(self._data, self._extents)
                continue
            return code, record

    def begin_group(self, position: Position, file_offset: int, oob_records: tuple[int, int]) -> None:
        """Begin a group that is appended in parts; `end_group` ends it."""
        self._reserve(0, 1, 0)
        row = self._groups[self.group_count]
        row["file_no"], row["page"], row["chunk"] = position.file_no, position.page, position.chunk
        row["file_offset"] = file_offset
        row["oob_records"], row["oob_records_second_set"] = oob_records
        row["begins"] = True
        row["event_no"] = 0
        self._position = position
        self._group_start = self.size
        self._wanted = 0

    def append_pieces(self, run: Bytes, pieces: Table, skip: int, file_no: int, file_start: int) -> int:
        """Append a part of the group under construction.

        Args:
            run: Bytes of the file.
            pieces: `PIECE_DTYPE`: which of them.
            skip: Bytes to leave out at the start of the pieces.
            file_start: Byte in the file where *run* begins.

        Returns:
            How many bytes are still to be left out.
        """
        self._reserve(int(pieces["size"].sum()), 0, len(pieces))
        self._used[_SIZE], self._used[_EXTENTS], skip = append_pieces(
            run,
            pieces,
            len(pieces),
            skip,
            file_no,
            file_start,
            self._data,
            self.size,
            self._extents,
            int(self._used[_EXTENTS]),
        )
        return skip

    def append_nodes(self, pages: Pages, order: Table, cursor: NodeCursor) -> int:
        """Append the payload of out-of-band records to the group under construction, until it fills a block.

        Args:
            order: `ORDER_DTYPE`: the records.
            cursor: Where in them to begin; brought up to date.

        Returns:
            The code of the kernel of that name; never `WALK_TABLE_FULL`.
        """
        size_wanted = max(BLOCK_SIZE, self._wanted)
        while True:
            joined = Joined(self._data, self._extents)
            code, cursor.row, cursor.at, cursor.begun, cursor.skip, size, extent = append_nodes(
                pages,
                order,
                cursor.row,
                cursor.at,
                cursor.begun,
                cursor.skip,
                joined,
                self.size,
                size_wanted,
                int(self._used[_EXTENTS]),
            )
            self._used[_SIZE], self._used[_EXTENTS] = size, extent
            if code != WALK_TABLE_FULL:
                return code
            self._reserve(pages.page_size, 0, 1)

    def cut_pieces(self) -> Iterator[Block]:
        """Give away what a large group has so far, when it fills a block: the groups before it, then whole events."""
        if self.size < max(BLOCK_SIZE, self._wanted):
            return
        if self.group_count > 0:
            yield self.take(self._position, self._group_start)
            if self.size < BLOCK_SIZE:
                return
        _, event_end, at = self._cut_events()
        if at == self.size:
            # The last event is kept back: it may be the group's last one, and a group ends with an event.
            event_end -= 1
            at = int(self._events["start"][event_end])
        if at == self._group_start:
            # Not even one event can be given: go on until it can.
            self._wanted = max(self.size + 1, at + self._event_size(at))
            return
        self._finish_group(event_end, at, ends=False)
        yield self.take(self._position, at)

    def end_group(self) -> None:
        """End the group under construction."""
        _, event_end, at = self._cut_events()
        if at != self.size or event_end == self._used[_EVENTS]:
            raise self._bad_event(at)
        self._finish_group(event_end, at, ends=True)

    @property
    def ends_with_piece(self) -> bool:
        """The last group began in an earlier block."""
        return self.group_count > 0 and not self._groups["begins"][self.group_count - 1]

    def drop_group(self) -> None:
        """Forget the group under construction: it cannot be read to its end."""
        starts = self._extents["data_start"][: self._used[_EXTENTS]]
        self._used[_EXTENTS] = np.searchsorted(starts, self._group_start)
        self._used[_SIZE] = self._group_start

    def _cut_events(self) -> tuple[int, int, int]:
        """Cut what the group under construction has; give the code, the row after the last event, and the byte."""
        row = self._groups[self.group_count]
        while True:
            code, event_end, at = cut_events(
                self._data,
                self._group_start,
                self.size,
                self._events,
                int(self._used[_EVENTS]),
                self.group_count,
                int(row["event_no"]),
            )
            if code == EVENTS_BAD_SIZE:
                raise self._bad_event(at)
            if code != EVENTS_TABLE_FULL:
                return code, event_end, at
            self._events = _grown(self._events, 2 * len(self._events))

    def _finish_group(self, event_end: int, end: int, *, ends: bool) -> None:
        group = self.group_count
        row = self._groups[group]
        first = int(self._used[_EVENTS])
        row["first_event"] = first
        row["event_count"] = event_end - first
        row["size"] = end - self._group_start
        row["ends"] = ends
        if row["begins"]:
            first_size = int(self._events["size"][first])
            if not read_gtid(self._data, self._group_start, first_size, self._groups, group):
                raise self._bad_event(self._group_start)
        self._used[_GROUPS] += 1
        self._used[_EVENTS] = event_end

    def take(self, next_position: Position, end: int | None = None) -> Block:
        """The block: `data[:end]` with all finished groups; what follows begins the next one."""
        group_count, event_count, extent_count = (int(self._used[i]) for i in (_GROUPS, _EVENTS, _EXTENTS))
        data, size = self._data, self.size
        end = size if end is None else end
        extents = self._extents[:extent_count]
        cut = int(np.searchsorted(extents["data_start"], end))
        given = copied(extents[:cut])
        rest = copied(extents[cut:])
        if cut > 0 and (over := int(given["data_start"][-1] + given["size"][-1]) - end) > 0:
            # The cut goes through an extent: its second part begins the rest.
            rest = np.concatenate([given[-1:], rest])
            given["size"][-1] -= over
            rest["data_start"][0] = end
            rest["file_offset"][0] += rest["size"][0] - over
            rest["size"][0] = over
        groups = copied(self._groups[:group_count])
        # A table that is mostly empty is not worth keeping for these rows.
        is_full = 2 * event_count >= len(self._events)
        events = self._events[:event_count] if is_full else copied(self._events[:event_count])
        if is_full:
            self._events = self._event_tables.take(len(self._events))
        if group_count > 0 and not groups["ends"][-1]:
            self._groups[0] = groups[-1]
            self._groups["begins"][0] = False
            self._groups["event_no"][0] += groups["event_count"][-1]
        else:
            self._groups[0] = self._groups[min(group_count, len(self._groups) - 1)]
        self._used[:] = 0
        self._data = empty_bytes(0)
        self._group_start = 0
        self._wanted = 0
        self._reserve(size - end, 1, len(rest))
        rest["data_start"] -= end
        self._extents[: len(rest)] = rest
        self._used[_EXTENTS] = len(rest)
        self._data[: size - end] = data[end:size]
        self._used[_SIZE] = size - end
        is_sparse = end < len(data) // 2
        data = data[:end].copy() if is_sparse else data[:end]
        return Block(data, groups, events, given, next_position, path_of=self._files.path)

    def _reserve(self, size: int, group_count: int, extent_count: int) -> None:
        """Make room for so much more."""
        wanted = self.size + size
        if wanted > len(self._data) or len(self._data) == 0:
            size = max(wanted, 2 * self.size, DATA_SIZE_MIN)
            grown = cast("Bytes", self._buffers.take(size)) if size == DATA_SIZE_MIN else empty_bytes(size)
            grown[: self.size] = self._data[: self.size]
            self._data = grown
        # One row more, for the group under construction.
        if (wanted := self.group_count + group_count + 1) > len(self._groups):
            self._groups = _grown(self._groups, 2 * wanted)
        if (wanted := int(self._used[_EXTENTS]) + extent_count) > len(self._extents):
            self._extents = _grown(self._extents, 2 * wanted)

    def _event_size(self, at: int) -> int:
        """Size of the event at byte *at*, from its header, as far as the header is there."""
        if self.size - at < EVENT_HEADER_SIZE:
            return EVENT_HEADER_SIZE
        header = self._data[at : at + EVENT_HEADER_SIZE]
        size: int = EVENT_HEADER_STRUCT.unpack(header.tobytes())[3]
        return size

    def _bad_event(self, at: int) -> CorruptError:
        """The event at byte *at* of the data cannot be one."""
        extents = self._extents
        row = max(int(np.searchsorted(extents["data_start"][: self._used[_EXTENTS]], at, side="right")) - 1, 0)
        file_no = int(extents["file_no"][row])
        byte = int(extents["file_offset"][row] + at - extents["data_start"][row])
        rest = self.size - at
        size = self._event_size(at) if rest >= EVENT_HEADER_SIZE else None
        reason = f"an event should begin here, but only {rest} bytes of its group follow"
        if size is not None:
            reason = f"event size {size}, but {rest} bytes of its group follow"
        return CorruptError(
            "BAD_EVENT",
            reason,
            at=Place(self._files.path(file_no), byte=byte),
            hint="The pages have good checksums, but not what a server writes; restore the file",
        )


def _grown(table: Table, rows: int) -> Table:
    grown = np.empty(rows, dtype=table.dtype)
    grown[: len(table)] = table
    return grown
