"""Row events in place of their fragments: `FragmentJoiner`.

A row event too large to be joined becomes several, whose rows are whole: `RowCutter`. Bytes out of blocks that are kept
for later, and where they lie in the files: `SavedBytes`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from binlog_format.block import BLOCK_SIZE, FROM_FRAGMENTS, PART_FROM_FRAGMENTS, copied, plain_origins
from binlog_format.errors import CorruptError, UnsupportedError
from binlog_format.events.compression.compression_layout import PLAIN_TYPES
from binlog_format.events.compression.renumbering import EventNumbers, next_position
from binlog_format.events.layout import (
    EVENT_HEADER_STRUCT,
    EVENT_SIZE_MAX,
    EVENT_SIZE_OFFSET,
    EVENT_TYPE_OFFSET,
    EventType,
)
from binlog_format.events.table_map import parse_table_map
from binlog_format.events.table_map_layout import TABLE_ID_OFFSET, TABLE_ID_SIZE
from binlog_format.extents import clipped_extents
from binlog_format.fragments import fragment_kernels as kernels
from binlog_format.fragments.fragment_kernels import IS_NEXT, ORIGINAL, SIZE, START, has_size, original_type, rows_end
from binlog_format.fragments.layout import ROWS_FLAG_STATEMENT_END, ROWS_FLAGS_OFFSET
from binlog_format.fragments.walk import FragmentWalk
from binlog_format.kernels import empty_bytes
from binlog_format.memory_kernels import gather
from binlog_format.rows import row_event_kernels as codes
from binlog_format.rows.column_types import value_widths
from binlog_format.rows.partial_image_kernels import open_images

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from binlog_format.block import Block, Table
    from binlog_format.kernels import Bytes, Int32s, Int64s
    from binlog_format.position import Place
    from binlog_format.vendor import Vendor


class SavedBytes(NamedTuple):
    """Bytes saved from a block. *extents*: `EXTENT_DTYPE`, of all of them."""

    data: Bytes
    extents: Table

    def part(self, first: int, end: int) -> SavedBytes:
        """The bytes [first, end), at least one; they are not copied."""
        edges = np.array([first], dtype=np.int64), np.array([end], dtype=np.int64)
        extents = clipped_extents(self.extents, len(self.data), *edges, np.zeros(1, dtype=np.int64))
        return SavedBytes(self.data[first:end], extents)


def taken(block: Block, starts: Int64s, sizes: Int64s) -> SavedBytes:
    """A copy of ranges of a block's bytes, one after the other; each has at least one byte."""
    targets = np.cumsum(sizes) - sizes
    data = empty_bytes(int(sizes.sum()))
    done = gather(block.data, starts, sizes, data, targets)
    assert done, "an event table points outside of its block"
    return SavedBytes(data, clipped_extents(block.extents, len(block.data), starts, starts + sizes, targets))


def joined(stretches: Sequence[SavedBytes]) -> SavedBytes:
    """All of them, one after the other; at least one."""
    if len(stretches) == 1:
        return stretches[0]
    start = 0
    tables = []
    for stretch in stretches:
        extents = copied(stretch.extents)
        extents["data_start"] += start
        start += len(stretch.data)
        tables.append(extents)
    return SavedBytes(np.concatenate([stretch.data for stretch in stretches]), np.concatenate(tables))


class RowsPart(NamedTuple):
    """A row event with some of the rows of the original one.

    Attributes:
        event: Its bytes, and where these lie in the files.
        is_last: No rows follow.
    """

    event: SavedBytes
    is_last: bool


class _Head(NamedTuple):
    """The part of an event before the rows.

    Attributes:
        content: Header, table id, flags, bitmaps; where the type is that of plain rows.
        present: Columns of the images before and after.
        before: How many the (first) image of a row has.
        after: How many the second one has; -1: there is none.
        widths: Of `value_widths`.
    """

    content: SavedBytes
    present: Int32s
    before: int
    after: int
    widths: Int32s


class RowCutter:
    """Takes the bytes of one original event as they arrive, and gives its rows in events of about `BLOCK_SIZE`.

    Where it cuts depends on these bytes alone, not on how they come in: a part is what has whole rows in that many
    bytes from its start; in twice as many, when there is none, and so on. No more than that is kept.

    Args:
        table_maps: By table id.
        at: Where the first fragment is, for messages.
    """

    def __init__(self, size: int, table_maps: Mapping[int, bytes], vendor: Vendor, at: Place | None) -> None:
        self._size = size
        self._table_maps = table_maps
        self._vendor = vendor
        self._at = at
        self._head: _Head | None = None
        self._held: list[SavedBytes] = []
        self._held_size = 0
        self._wanted = BLOCK_SIZE
        self._received = 0

    def feed(self, content: SavedBytes) -> Iterator[RowsPart]:
        """The parts that are whole with the next bytes of the event."""
        at = 0
        while at < len(content.data):
            end = min(len(content.data), at + self._wanted - self._held_size)
            self._held.append(content.part(at, end))
            self._held_size += end - at
            self._received += end - at
            at = end
            if self._held_size == self._wanted or self._received == self._size:
                yield from self._cut()

    def _cut(self) -> Iterator[RowsPart]:
        # What is held: all that is wanted, or all that is left.
        held = joined(self._held)
        if self._head is None:
            self._head = self._open(held)
            held = held.part(len(self._head.content.data), len(held.data))
        head = self._head
        is_last = self._received == self._size
        end = rows_end(held.data, head.present, head.before, head.after, head.widths)
        if end < 0 or (is_last and end < len(held.data)):
            raise self._error("its rows do not fit the table map, or end beyond the event")
        if end:
            yield RowsPart(self._event(head, held.part(0, end), is_last=is_last), is_last)
        self._wanted = BLOCK_SIZE if end else 2 * self._wanted
        self._held = [held.part(end, len(held.data))] if end < len(held.data) else []
        self._held_size = len(held.data) - end

    def _open(self, held: SavedBytes) -> _Head:
        data = held.data
        kind = original_type(data, 0, len(data), PLAIN_TYPES)
        if kind == 0 or not has_size(data, 0, self._size):
            raise self._error("its header is not that of a row event of this size")
        if PLAIN_TYPES[kind]:
            reason = f"a row event of {self._size} bytes in fragments: its rows are compressed"
            raise UnsupportedError("EVENT_TYPE", reason, at=self._at)
        table_id = int.from_bytes(data[TABLE_ID_OFFSET : TABLE_ID_OFFSET + TABLE_ID_SIZE].tobytes(), "little")
        if table_id not in self._table_maps:
            raise self._error("no table map for its table id in the group before it")
        layout = parse_table_map(self._table_maps[table_id], self._vendor)
        widths = value_widths(layout)
        present = np.empty((2, len(widths)), dtype=np.int32)
        code, rows_start, before, after = open_images(data, 0, len(data), kind, len(widths), present)
        if code != codes.OK:
            raise self._error(f"its columns are not those of the table map of {layout.full_name}")
        has_two = codes.row_action(kind) == codes.UPDATE
        head = held.part(0, rows_start)
        head.data[EVENT_TYPE_OFFSET] = kind
        return _Head(head, present, before, after if has_two else -1, widths)

    def _event(self, head: _Head, rows: SavedBytes, *, is_last: bool) -> SavedBytes:
        event = joined([head.content, rows])
        size = np.array([len(event.data)], dtype="<u4").view(np.uint8)
        event.data[EVENT_SIZE_OFFSET : EVENT_SIZE_OFFSET + 4] = size
        if not is_last:
            event.data[ROWS_FLAGS_OFFSET] &= 0xFF ^ ROWS_FLAG_STATEMENT_END
        return event

    def _error(self, reason: str) -> CorruptError:
        return CorruptError("BAD_EVENT", f"row event of {self._size} bytes in fragments: {reason}", at=self._at)


JOINED_SIZE_MAX = EVENT_SIZE_MAX
"""Bytes of an original event that is joined whole, as others of that size are read whole; a larger one is cut."""


@dataclass(slots=True)
class FragmentJoiner:
    """Goes through the blocks of a log, and puts row events in place of their fragments.

    Of a group of fragments that goes on in the next block the bytes are kept: of the whole event, or, where that is
    larger than `JOINED_SIZE_MAX`, of the rows that are not whole yet. When the blocks end before it does, it is not
    there yet: its event group is not whole, and comes again.
    """

    _walk: FragmentWalk = field(default_factory=FragmentWalk)
    _numbers: EventNumbers = field(default_factory=EventNumbers)
    _held: list[SavedBytes] = field(default_factory=list)
    _cutter: RowCutter | None = None
    # The last table maps of the statement at hand, by table id, when its group goes on in the next block.
    _table_maps: dict[int, bytes] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        """True if the next block has to continue with fragments."""
        return self._walk.is_open

    def passed(self, block: Block) -> Block:
        """A block without fragments."""
        self._keep_table_maps(block)
        return self._numbers.passed(block)

    def join(self, block: Block) -> Iterator[Block]:
        """A block with fragments, or one where some should be."""
        if len(block.events) == 0:
            yield block
            return
        found = self._walk.take(block.data, block.events, block.groups, block.place)
        is_first = found[:, IS_NEXT] == 0
        is_first[0] = True
        firsts = np.flatnonzero(is_first)
        ends = np.append(firsts[1:], len(found))
        is_large = found[firsts, ORIGINAL] > JOINED_SIZE_MAX
        is_special = is_large.copy()
        is_special[-1] |= self.is_open
        done = 0
        for number in np.flatnonzero(is_special).tolist():
            first, end = int(firsts[number]), int(ends[number])
            if first > done:
                yield self._joined(block, found, done, first)
            if is_large[number]:
                yield from self._cut(block, found, first, end)
            else:
                self._held.append(_content(block, found, first, end))
                self._leave_out(block, first, end)
            done = end
        if done < len(found):
            yield self._joined(block, found, done, len(found))
        self._keep_table_maps(block)

    def _joined(self, block: Block, found: Int64s, first: int, end: int) -> Block:
        # The events [first, end) of *block*, in which every group of fragments ends.
        held_size = sum(len(stretch.data) for stretch in self._held)
        stretch = joined([*self._held, _content(block, found, first, end)])
        self._held = []
        part = found[first:end]
        is_first = part[:, IS_NEXT] == 0
        is_first[0] = True
        rows = np.flatnonzero(is_first)
        plain = block.events[first:end][rows]
        sizes = np.add.reduceat(part[:, SIZE], rows)
        sizes[0] += held_size
        plain["start"], plain["size"] = np.cumsum(sizes) - sizes, sizes
        origins = plain_origins(plain)
        of_fragments = np.flatnonzero(part[rows, ORIGINAL])
        code, row = kernels.finish_joined(stretch.data, plain, of_fragments, PLAIN_TYPES, origins["inner_no"])
        groups = self._numbers.number(block, first, end, plain)
        whole = replace(
            block,
            data=stretch.data,
            groups=groups,
            events=plain,
            extents=stretch.extents,
            next_position=next_position(block, end),
            origins=origins,
        )
        if code != kernels.FINISHED:
            raise _error(whole, code, row)
        return whole

    def _cut(self, block: Block, found: Int64s, first: int, end: int) -> Iterator[Block]:
        # The events [first, end) of *block*: fragments of one original event.
        if self._cutter is None:
            size, at = int(found[first, ORIGINAL]), block.place(int(block.events["start"][first]))
            self._cutter = RowCutter(size, self._table_maps_before(block, first), block.vendor, at)
        row = end - 1
        self._leave_out(block, first, row)
        for part in self._cutter.feed(_content(block, found, first, end)):
            yield self._part(block, row, part)
            if part.is_last:
                self._cutter = None
        if self._cutter is not None:
            self._leave_out(block, row, end)

    def _part(self, block: Block, row: int, part: RowsPart) -> Block:
        plain = block.events[row : row + 1].copy()
        timestamp, event_type, server_id, size, _, flags = EVENT_HEADER_STRUCT.unpack_from(part.event.data.data)
        plain["timestamp"], plain["type"], plain["server_id"], plain["flags"] = timestamp, event_type, server_id, flags
        plain["start"], plain["size"] = 0, size
        origins = plain_origins(plain)
        origins["inner_no"] = FROM_FRAGMENTS if part.is_last else PART_FROM_FRAGMENTS
        groups = self._numbers.number(block, row, row + 1, plain, is_last=part.is_last)
        return replace(
            block,
            data=part.event.data,
            groups=groups,
            events=plain,
            extents=part.event.extents,
            next_position=next_position(block, row + 1 if part.is_last else row),
            origins=origins,
        )

    def _leave_out(self, block: Block, first: int, end: int) -> None:
        """Leave out the events [first, end), all of one group."""
        if first < end and block.events["event_no"][first] == 0:
            self._numbers.more = 0
        self._numbers.more -= end - first

    def _table_maps_before(self, block: Block, row: int) -> dict[int, bytes]:
        """The last table map of each table before *row*, in its group."""
        group = int(block.events["group"][row])
        first = int(block.groups["first_event"][group])
        rows = first + np.flatnonzero(block.events["type"][first:row] == EventType.TABLE_MAP)
        earlier = {} if block.groups["begins"][group] else self._table_maps
        return earlier | _table_maps(block, rows)

    def _keep_table_maps(self, block: Block) -> None:
        """A server writes the table maps of a statement together, before its rows: the last ones are those that count.

        Costs a look at the types of a block's events, where a group goes on in the next block.
        """
        if len(block.groups) == 0 or block.groups["ends"][-1]:
            self._table_maps = {}
            return
        group = block.groups[-1]
        if group["begins"]:
            self._table_maps = {}
        first = int(group["first_event"])
        rows = first + np.flatnonzero(block.events["type"][first:] == EventType.TABLE_MAP)
        together = rows[rows - np.arange(len(rows)) == rows[-1:] - (len(rows) - 1)]
        self._table_maps |= _table_maps(block, together)


def _table_maps(block: Block, rows: Int64s) -> dict[int, bytes]:
    found = {}
    for start, size in block.events[["start", "size"]][rows].tolist():
        content = block.data[start : start + size].tobytes()
        found[int.from_bytes(content[TABLE_ID_OFFSET : TABLE_ID_OFFSET + TABLE_ID_SIZE], "little")] = content
    return found


def _content(block: Block, found: Int64s, first: int, end: int) -> SavedBytes:
    """Bytes of the events [first, end)."""
    return taken(block, *(np.ascontiguousarray(found[first:end, field]) for field in (START, SIZE)))


def _error(block: Block, code: int, row: int) -> CorruptError:
    event = block.events[row]
    start, size = int(event["start"]), int(event["size"])
    if code == kernels.NOT_ROWS:
        reason = "they make no row event of a kind that MariaDB writes"
    else:
        reason = f"they make an event of {size} bytes, and its header contains another size"
    return CorruptError("BAD_EVENT", f"fragments of a row event: {reason}", at=block.place(start))
