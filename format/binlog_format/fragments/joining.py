"""Row events in place of their fragments: `FragmentJoiner`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.block import FROM_FRAGMENTS, PART_FROM_FRAGMENTS, plain_origins
from binlog_format.errors import CorruptError
from binlog_format.events.compression.compression_layout import PLAIN_TYPES
from binlog_format.events.compression.renumbering import EventNumbers, next_position
from binlog_format.events.layout import EVENT_HEADER_STRUCT, EVENT_SIZE_MAX, EventType
from binlog_format.events.table_map_layout import TABLE_ID_OFFSET, TABLE_ID_SIZE
from binlog_format.fragments import joining_kernels as kernels
from binlog_format.fragments.cutting import RowCutter, SavedBytes, joined, taken
from binlog_format.fragments.walk import FragmentWalk
from binlog_format.fragments.walk_kernels import IS_NEXT, ORIGINAL, SIZE, START

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_format.block import Block
    from binlog_format.fragments.cutting import RowsPart
    from binlog_format.kernels import Int64s

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
