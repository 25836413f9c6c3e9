"""The loop of `TableMaps.resolve`: which layout each row event has, without looking at a table map twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.events.event_table_kernels import expect_event
from binlog_format.events.layout import EventType
from binlog_format.events.table_map_layout import (
    DUMMY_TABLE_ID,
    TABLE_BODY_OFFSET,
    TABLE_ID_OFFSET,
)
from binlog_format.kernels import kernel
from binlog_format.memory_kernels import load_u8, load_u16, load_u32, load_u64
from binlog_format.rows.row_event_kernels import row_action

if TYPE_CHECKING:
    from binlog_format.block import Table
    from binlog_format.kernels import Bytes, Int32s, Int64s

DONE = 0
NEW_LAYOUT = 1  # the table map's bytes are new: remember them, and go on at the same event
NO_ROOM = 2  # too many tables in this group: grow its map, and go on at the same event
EVENT_TOO_SHORT = 3
NO_TABLE_MAP = 4
NOT_EXPANDED = 5  # rows compressed or in fragments, which `expanded` makes plain events of
EVENT_BEYOND_DATA = 6

_TABLE_MAP = int(EventType.TABLE_MAP)
_PAYLOAD = int(EventType.TRANSACTION_PAYLOAD)
_FIRST_STORED = int(EventType.WRITE_ROWS_COMPRESSED_V1)
_LAST_STORED = int(EventType.PARTIAL_ROW_DATA)
assert _LAST_STORED == int(EventType.DELETE_ROWS_COMPRESSED) + 1

# Layout of a map of table ids: open addressing, `MAP_LAYOUT` valid where `MAP_GENERATION` is the current one.
MAP_ID = 0
MAP_LAYOUT = 1
MAP_GENERATION = 2
MAP_FIELDS = 3

# Fields of `state`.
STATE_GENERATION = 0  # of the group at hand; every group has its own
STATE_COUNT = 1  # table ids of that group in the map
STATE_GROUP = 2  # row of the group table, -1 at the start of a block
STATE_FOUND = 3  # row events found in the block so far
STATE_FIELDS = 4

# Fields of an exemplar.
EXEMPLAR_START = 0
EXEMPLAR_SIZE = 1
EXEMPLAR_HASH = 2
EXEMPLAR_FIELDS = 3


@kernel
def _table_id(data: Bytes, start: int) -> int:
    return load_u32(data, start + TABLE_ID_OFFSET) | load_u16(data, start + TABLE_ID_OFFSET + 4) << 32


@kernel
def hash_bytes(data: Bytes, start: int, size: int) -> int:
    """FNV-1a of 32 bits; only to find candidates, whose bytes are then compared."""
    value = 2166136261
    for i in range(start, start + size):
        value = ((value ^ load_u8(data, i)) * 16777619) & 0xFFFFFFFF
    return value


@kernel
def _same_bytes(data: Bytes, start: int, other: Bytes, other_start: int, size: int) -> bool:
    whole = size - (size & 7)
    for i in range(0, whole, 8):
        if load_u64(data, start + i) != load_u64(other, other_start + i):
            return False
    for i in range(whole, size):
        if data[start + i] != other[other_start + i]:
            return False
    return True


@kernel
def _find_layout(
    data: Bytes, start: int, size: int, exemplar_data: Bytes, exemplars: Int64s, exemplar_count: int, buckets: Int32s
) -> int:
    # Layout of these table map bytes, or -1. Buckets: open addressing by hash, -1 is free.
    value = hash_bytes(data, start, size)
    mask = buckets.size - 1
    bucket = value & mask
    for _ in range(buckets.size):
        layout = int(buckets[bucket])
        if layout < 0 or layout >= exemplar_count:
            return -1
        if (
            exemplars[layout, EXEMPLAR_HASH] == value
            and exemplars[layout, EXEMPLAR_SIZE] == size
            and _same_bytes(data, start, exemplar_data, exemplars[layout, EXEMPLAR_START], size)
        ):
            return layout
        bucket = (bucket + 1) & mask
    return -1


@kernel
def _map_slot(table_map: Int64s, table_id: int, generation: int) -> int:
    # Where the id is, or where it would be put; the map is never full.
    mask = len(table_map) - 1
    slot = (table_id ^ (table_id >> 12)) & mask
    while table_map[slot, MAP_GENERATION] == generation and table_map[slot, MAP_ID] != table_id:
        slot = (slot + 1) & mask
    return slot


@kernel
def _layout_of_map(
    data: Bytes,
    start: int,
    size: int,
    table_id: int,
    exemplar_data: Bytes,
    exemplars: Int64s,
    exemplar_count: int,
    buckets: Int32s,
    hints: Int64s,
) -> int:
    # What a server said last about a table is mostly still true: only if it is not, the bytes are hashed.
    body = start + TABLE_BODY_OFFSET
    body_size = size - TABLE_BODY_OFFSET
    hint = table_id & (len(hints) - 1)
    layout: int = hints[hint, 1]
    if (
        hints[hint, 0] == table_id
        and layout < exemplar_count
        and exemplars[layout, EXEMPLAR_SIZE] == body_size
        and _same_bytes(data, body, exemplar_data, exemplars[layout, EXEMPLAR_START], body_size)
    ):
        return layout
    layout = _find_layout(data, body, body_size, exemplar_data, exemplars, exemplar_count, buckets)
    if layout >= 0:
        hints[hint, 0] = table_id
        hints[hint, 1] = layout
    return layout


@kernel
def _put(table_map: Int64s, state: Int64s, table_id: int, layout: int) -> None:
    # From here on in this group, the table id means this layout.
    slot = _map_slot(table_map, table_id, state[STATE_GENERATION])
    if table_map[slot, MAP_GENERATION] != state[STATE_GENERATION]:
        state[STATE_COUNT] += 1
    table_map[slot, MAP_ID] = table_id
    table_map[slot, MAP_LAYOUT] = layout
    table_map[slot, MAP_GENERATION] = state[STATE_GENERATION]


@kernel
def _note(state: Int64s, found: Int64s, layouts: Int32s, row: int, layout: int) -> None:
    at = state[STATE_FOUND]
    found[at] = row
    layouts[at] = layout
    state[STATE_FOUND] = at + 1


@kernel
def _enter_group(state: Int64s, group: int) -> None:
    # At the start of a block, a group that goes on from the block before keeps its tables.
    if state[STATE_GROUP] >= 0:
        state[STATE_GENERATION] += 1
        state[STATE_COUNT] = 0
    state[STATE_GROUP] = group


@kernel
def resolve_events(
    data: Bytes,
    events: Table,
    first: int,
    exemplar_data: Bytes,
    exemplars: Int64s,
    exemplar_count: int,
    buckets: Int32s,
    hints: Int64s,
    table_map: Int64s,
    state: Int64s,
    found: Int64s,
    layouts: Int32s,
) -> tuple[int, int]:
    """Find the layout of every row event from row *first* of *events* on.

    Args:
        data: What *events* (`EVENT_DTYPE`) point into.
        events: All of a block.
        exemplar_data: Table map bytes (from the database name on) of all layouts known.
        exemplars: Shape (capacity, `EXEMPLAR_FIELDS`): where they are.
        buckets: Layouts by hash; a power of two, never full.
        hints: Shape (power of two, 2): table id and its last layout.
        table_map: Shape (power of two, `MAP_FIELDS`): layouts by table id in the group at hand.
        state: `STATE_FIELDS`, carried over from call to call.
        found: As long as *events*: gets the rows of *events* that are row events of a table.
        layouts: As long: gets the layout of each of them.

    Returns:
        A code and the row of *events* that it is about.
    """
    starts = events["start"]
    sizes = events["size"]
    types = events["type"]
    groups = events["group"]
    for row in range(first, len(events)):
        expect_event(data, starts, row)
        if groups[row] != state[STATE_GROUP]:
            _enter_group(state, groups[row])
        kind = int(types[row])
        is_rows = row_action(kind) != 0
        if kind == _PAYLOAD or _FIRST_STORED <= kind <= _LAST_STORED:
            return NOT_EXPANDED, row
        if kind != _TABLE_MAP and not is_rows:
            continue
        start = starts[row]
        size = sizes[row]
        if start < 0 or size < 0 or start + size > data.size:
            return EVENT_BEYOND_DATA, row
        if size < TABLE_BODY_OFFSET:
            return EVENT_TOO_SHORT, row
        table_id = _table_id(data, start)
        generation = state[STATE_GENERATION]
        if is_rows:
            if table_id != DUMMY_TABLE_ID:
                slot = _map_slot(table_map, table_id, generation)
                if table_map[slot, MAP_GENERATION] != generation:
                    return NO_TABLE_MAP, row
                _note(state, found, layouts, row, table_map[slot, MAP_LAYOUT])
            continue
        if 2 * (state[STATE_COUNT] + 1) > len(table_map):
            return NO_ROOM, row
        layout = _layout_of_map(data, start, size, table_id, exemplar_data, exemplars, exemplar_count, buckets, hints)
        if layout < 0:
            return NEW_LAYOUT, row
        _put(table_map, state, table_id, layout)
    return DONE, len(events)


@kernel
def copy_map(source: Int64s, target: Int64s, generation: int) -> None:
    """Put what the group at hand has in *source* into *target*, an empty map."""
    for slot in range(len(source)):
        if source[slot, MAP_GENERATION] == generation:
            place = _map_slot(target, source[slot, MAP_ID], generation)
            for field in range(MAP_FIELDS):  # a whole row at once is copied to new memory first
                target[place, field] = source[slot, field]
