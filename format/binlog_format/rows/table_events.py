"""Row events and the layouts they belong to: `TableMaps.resolve(block)` gives `TableEvents`, one for each layout.

Some row events and their table maps, in a block that is looked at by itself: `table_maps_of`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.errors import CorruptError, UnsupportedError
from binlog_format.events.layout import EVENT_TYPE_OFFSET, EventType
from binlog_format.events.table_map import parse_table_map, unread_layout
from binlog_format.events.table_map_layout import TABLE_BODY_OFFSET, TABLE_ID_OFFSET, TABLE_ID_SIZE
from binlog_format.kernels import empty_bytes
from binlog_format.rows import table_kernels as kernels

if TYPE_CHECKING:
    from binlog_format.block import Block
    from binlog_format.errors import BinlogError
    from binlog_format.events.table_map import TableLayout
    from binlog_format.kernels import Int32s, Int64s
    from binlog_format.vendor import Vendor

# Layouts are forgotten when their bytes are more than this: a log may see any number of tables come and go.
_EXEMPLAR_BYTES_MAX = 64 << 20
_HINT_COUNT = 1024
_PARSED_MAX = 1024
_RADIX_SORTED_MAX = 1 << 16  # NumPy sorts 16-bit numbers in linear time


@dataclass(frozen=True, slots=True)
class TableEvents:
    """The row events of one layout in a block.

    Attributes:
        events: Rows of `Block.events`, ascending.
        is_copied: A snapshot has copied existing rows of the table; they are no changes.
    """

    layout: TableLayout
    events: Int64s
    is_copied: bool = False


class TableMaps:
    """Remembers layouts across blocks, and the tables of a group across its pieces.

    Give it the blocks of one log in their order; a group that comes in pieces needs all its pieces.
    """

    def __init__(self) -> None:
        self._server: tuple[Vendor, int | None] | None = None
        self._forget()
        self._table_map = np.zeros((64, kernels.MAP_FIELDS), dtype=np.int64)
        self._state = np.zeros(kernels.STATE_FIELDS, dtype=np.int64)
        self._state[kernels.STATE_GENERATION] = 1  # the empty map is of generation 0

    def resolve(self, block: Block) -> list[TableEvents]:
        """Sort the row events of *block* by layout; layouts come in the order in which they were first seen.

        Events that carry no rows of a table (`DUMMY_TABLE_ID`) are in none of them. Of a table map that cannot be read
        the layout has the `problem`, and no columns: tables that nobody wants stop nobody.
        """
        if len(block.events) == 0:
            return []
        state = self._state
        state[kernels.STATE_GROUP] = -1
        state[kernels.STATE_FOUND] = 0
        if block.groups["begins"][0]:
            state[kernels.STATE_GENERATION] += 1
            state[kernels.STATE_COUNT] = 0
            server = block.vendor, block.server_version
            if self._exemplar_bytes > _EXEMPLAR_BYTES_MAX or server != self._server:
                self._forget()  # the same bytes of another server may mean something else
                self._server = server
        found = np.empty(len(block.events), dtype=np.int64)
        layouts = np.empty(len(block.events), dtype=np.int32)
        code, row = self._walk(block, 0, found, layouts)
        while code != kernels.DONE:
            if code == kernels.NEW_LAYOUT:
                self._remember(block, row)
            elif code == kernels.NO_ROOM:
                self._grow_table_map()
            else:
                raise _error(block, code, row)
            code, row = self._walk(block, row, found, layouts)
        count = int(state[kernels.STATE_FOUND])
        return self._by_layout(found[:count], layouts[:count])

    def _by_layout(self, rows: Int64s, layouts: Int32s) -> list[TableEvents]:
        counts = np.bincount(layouts)
        numbers = np.flatnonzero(counts)
        if len(numbers) == 1:
            return [TableEvents(self._layouts[numbers[0]], rows)]
        if len(self._layouts) <= _RADIX_SORTED_MAX:
            layouts = layouts.astype(np.uint16)
        order = np.argsort(layouts, kind="stable")
        ends = np.cumsum(counts)
        return [
            TableEvents(self._layouts[number], rows[order[ends[number] - counts[number] : ends[number]]])
            for number in numbers
        ]

    def _walk(self, block: Block, first: int, found: Int64s, layouts: Int32s) -> tuple[int, int]:
        return kernels.resolve_events(
            block.data,
            block.events,
            first,
            self._exemplar_data,
            self._exemplars,
            len(self._layouts),
            self._buckets,
            self._hints,
            self._table_map,
            self._state,
            found,
            layouts,
        )

    def _forget(self) -> None:
        self._layouts: list[TableLayout] = []
        self._exemplar_data = empty_bytes(1 << 14)
        self._exemplar_bytes = 0
        self._exemplars = np.zeros((16, kernels.EXEMPLAR_FIELDS), dtype=np.int64)
        self._buckets = np.full(32, -1, dtype=np.int32)
        self._hints = np.full((_HINT_COUNT, 2), -1, dtype=np.int64)

    def _remember(self, block: Block, row: int) -> None:
        start, size = int(block.events["start"][row]), int(block.events["size"][row])
        content = block.data[start : start + size].tobytes()
        try:
            layout = _parsed(content[TABLE_BODY_OFFSET:], block.vendor, block.server_version)
        except (CorruptError, UnsupportedError) as error:
            problem = type(error)(error.subclass, error.reason, at=block.place(start), hint=error.hint)
            named = unread_layout(content, block.vendor, problem)
            if named is None:
                raise problem from error
            layout = named
        body = block.data[start + TABLE_BODY_OFFSET : start + size]
        number, data_start = len(self._layouts), self._exemplar_bytes
        self._make_room(body.size)
        self._layouts.append(layout)
        self._exemplar_data[data_start : data_start + body.size] = body
        self._exemplar_bytes += body.size
        value = kernels.hash_bytes(body, 0, body.size)
        self._exemplars[number] = data_start, body.size, value
        self._put_into_bucket(number, value)

    def _make_room(self, size: int) -> None:
        needed = self._exemplar_bytes + size
        if needed > self._exemplar_data.size:
            grown = empty_bytes(2 * needed)
            grown[: self._exemplar_bytes] = self._exemplar_data[: self._exemplar_bytes]
            self._exemplar_data = grown
        if len(self._layouts) == len(self._exemplars):
            self._exemplars = np.concatenate([self._exemplars, np.zeros_like(self._exemplars)])
            self._buckets = np.full(2 * len(self._exemplars), -1, dtype=np.int32)
            for number in range(len(self._layouts)):
                self._put_into_bucket(number, int(self._exemplars[number, kernels.EXEMPLAR_HASH]))

    def _put_into_bucket(self, number: int, value: int) -> None:
        bucket = value % len(self._buckets)
        while self._buckets[bucket] >= 0:
            bucket = (bucket + 1) % len(self._buckets)
        self._buckets[bucket] = number

    def _grow_table_map(self) -> None:
        grown = np.zeros((2 * len(self._table_map), kernels.MAP_FIELDS), dtype=np.int64)
        kernels.copy_map(self._table_map, grown, int(self._state[kernels.STATE_GENERATION]))
        self._table_map = grown


_HEADER = bytes([EventType.TABLE_MAP]).rjust(EVENT_TYPE_OFFSET + 1, b"\0").ljust(TABLE_BODY_OFFSET, b"\0")
"""A header and table id for every table map: layouts depend on the type of the event alone, not on time or id."""


@lru_cache(_PARSED_MAX)
def _parsed(body: bytes, vendor: Vendor, server_version: int | None) -> TableLayout:
    # Kept beyond one reader: who follows a log makes one for each step, and steps may have a few rows.
    return parse_table_map(_HEADER + body, vendor, server_version)


def table_maps_of(block: Block, rows: Int64s) -> Int64s:
    """The last table map before each row event with its table id, as a row of `Block.events`; -1: in another block."""
    maps = np.flatnonzero(block.events["type"] == EventType.TABLE_MAP)
    ids, ids_of_maps = _table_ids(block, rows), _table_ids(block, maps)
    found = np.full(len(rows), -1, dtype=np.int64)
    for table_id in np.unique(ids):
        own, its_maps = ids == table_id, maps[ids_of_maps == table_id]
        last = np.searchsorted(its_maps, rows[own]) - 1
        found[own] = np.where(last >= 0, its_maps[last], -1) if len(its_maps) else -1
    return found


def _table_ids(block: Block, rows: Int64s) -> Int64s:
    places = block.events["start"][rows, None] + TABLE_ID_OFFSET + np.arange(TABLE_ID_SIZE)
    return block.data[places].astype(np.int64) @ (1 << 8 * np.arange(TABLE_ID_SIZE))


def _error(block: Block, code: int, row: int) -> BinlogError:
    event = block.events[row]
    kind, start, size = int(event["type"]), int(event["start"]), int(event["size"])
    name = EventType(kind).name
    at = block.place(start)
    if code == kernels.NOT_EXPANDED:
        return UnsupportedError("EVENT_TYPE", f"event type {kind} ({name}): it has not been expanded", at=at)
    if code == kernels.NO_TABLE_MAP:
        return CorruptError("BAD_EVENT", f"{name} event: no table map for its table id in the group before it", at=at)
    if code == kernels.EVENT_BEYOND_DATA:
        return CorruptError("BAD_EVENT", f"{name} event: {size} bytes at {start} are more than was read", at=at)
    return CorruptError("BAD_EVENT", f"{name} event: {size} bytes, at least {TABLE_BODY_OFFSET} expected", at=at)
