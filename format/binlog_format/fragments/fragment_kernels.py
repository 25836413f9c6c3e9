"""The loop of `FragmentWalk`: `walk_fragments` checks each fragment against those before it.

Kernels of the joining of fragments: `finish_joined`, `rows_end`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.block import FROM_FRAGMENTS, NOT_INNER
from binlog_format.events.compression.compression_kernels import rows_head_size
from binlog_format.events.compression.compression_layout import (
    COMPRESSED_ALGORITHM_ZLIB,
    COMPRESSED_LENGTH_SIZE_MASK,
    COMPRESSED_LENGTH_SIZE_MAX,
    COMPRESSED_MARK,
    ZLIB_HEADER_MULTIPLE,
    ZLIB_METHOD_DEFLATE,
    ZLIB_METHOD_MASK,
)
from binlog_format.events.layout import (
    EVENT_CHECKSUM_SIZE,
    EVENT_FLAGS_OFFSET,
    EVENT_SERVER_ID_OFFSET,
    EVENT_SIZE_OFFSET,
    EVENT_TYPE_OFFSET,
    EventType,
)
from binlog_format.fragments.layout import (
    CONTENT_OFFSET,
    FIRST_CONTENT_OFFSET,
    FIRST_COUNTER_OFFSET,
    FRAGMENT_COUNT_MIN,
    FRAGMENT_FLAG_ORIGINAL_SIZE,
    FRAGMENT_FLAGS_OFFSET,
    ORIGINAL_SIZE_HIGH_MASK,
    ORIGINAL_SIZE_MIN,
    ORIGINAL_SIZE_OFFSET,
    SECOND_COUNTER_OFFSET,
)
from binlog_format.kernels import kernel
from binlog_format.memory_kernels import load_u8, load_u16, load_u32
from binlog_format.rows.partial_image_kernels import image_end
from binlog_format.rows.row_event_kernels import DELETE, OK, WRITE

if TYPE_CHECKING:
    from binlog_format.block import Table
    from binlog_format.kernels import Bytes, Int32s, Int64s


WALKED = 0
TOO_SHORT = 1
UNKNOWN_FLAGS = 2
BAD_COUNTERS = 3
"""The first fragment of a group has not the number 1 of at least two; a later one does not count on."""
NO_ORIGINAL_SIZE = 4
SECOND_ORIGINAL_SIZE = 5
BAD_ORIGINAL_SIZE = 6
NO_CONTENT = 7
TOO_LARGE = 8
"""The fragments have more bytes than the original event."""
TOO_SMALL = 9
"""The last fragment does not complete the original event."""
INTERRUPTED = 10
"""Another event stands where the next fragment should be, or the event group has ended."""

# Fields of the state: of the group of fragments at hand.
TOTAL = 0  # 0: none is open
NUMBER = 1  # of the last fragment
NUMBER_FIRST = 2  # 1: the number of a fragment comes before their total
ORIGINAL_SIZE = 3
DONE_SIZE = 4  # bytes of the original event that were there
FOUND_FIRST = 5  # what the first and
FOUND_SECOND = 6  # the second counter of the fragment at hand are
STATE_FIELDS = 7

# Fields of what is found about each event.
START = 0  # byte where its own bytes begin, or those of the original event that it carries
SIZE = 1
IS_NEXT = 2  # 1: it carries on the original event of the event before
ORIGINAL = 3  # size of the original event that it is a fragment of; 0: it is none
FOUND_FIELDS = 4

_FRAGMENT = int(EventType.PARTIAL_ROW_DATA)


@kernel
def _open_group(data: Bytes, start: int, size: int, flags: int, state: Int64s) -> int:
    first, second = state[FOUND_FIRST], state[FOUND_SECOND]
    if first >= FRAGMENT_COUNT_MIN and second == 1:
        state[NUMBER_FIRST] = 0
        total = first
    elif first == 1 and second >= FRAGMENT_COUNT_MIN:
        state[NUMBER_FIRST] = 1
        total = second
    else:
        return BAD_COUNTERS
    if flags & FRAGMENT_FLAG_ORIGINAL_SIZE == 0:
        return NO_ORIGINAL_SIZE
    if size < FIRST_CONTENT_OFFSET:
        return TOO_SHORT
    high = load_u32(data, start + ORIGINAL_SIZE_OFFSET + 4)
    original = load_u32(data, start + ORIGINAL_SIZE_OFFSET) | (high & ORIGINAL_SIZE_HIGH_MASK) << 32
    if original < ORIGINAL_SIZE_MIN or high > ORIGINAL_SIZE_HIGH_MASK:
        return BAD_ORIGINAL_SIZE
    state[TOTAL] = total
    state[NUMBER] = 1
    state[ORIGINAL_SIZE] = original
    state[DONE_SIZE] = 0
    return WALKED


@kernel
def _go_on(flags: int, state: Int64s) -> int:
    first, second = state[FOUND_FIRST], state[FOUND_SECOND]
    total, number = (second, first) if state[NUMBER_FIRST] else (first, second)
    if total != state[TOTAL] or number != state[NUMBER] + 1:
        return BAD_COUNTERS
    if flags & FRAGMENT_FLAG_ORIGINAL_SIZE != 0:
        return SECOND_ORIGINAL_SIZE
    state[NUMBER] = number
    return WALKED


@kernel
def walk_fragments(data: Bytes, events: Table, state: Int64s, found: Int64s) -> tuple[int, int]:
    """Check the fragments among *events*, in order, and note what each event brings.

    Args:
        events: `EVENT_DTYPE`; the first event follows the last one of the call before.
        state: `STATE_FIELDS`, carried over from call to call.
        found: Shape (length of *events*, `FOUND_FIELDS`).

    Returns:
        Code (`WALKED`, ...) and the row of *events* that it is about. After another code than `WALKED` *state* is of
        no more use.
    """
    starts, sizes, types, groups = events["start"], events["size"], events["type"], events["group"]
    for row in range(len(events)):
        start, size = int(starts[row]), int(sizes[row])
        if state[TOTAL] != 0 and (types[row] != _FRAGMENT or (row > 0 and groups[row] != groups[row - 1])):
            return INTERRUPTED, row
        found[row, START] = start
        found[row, SIZE] = size
        found[row, IS_NEXT] = 0
        found[row, ORIGINAL] = 0
        if types[row] != _FRAGMENT:
            continue
        if start < 0 or size < CONTENT_OFFSET or start + size > data.size:
            return TOO_SHORT, row
        flags = load_u8(data, start + FRAGMENT_FLAGS_OFFSET)
        if flags & ~FRAGMENT_FLAG_ORIGINAL_SIZE != 0:
            return UNKNOWN_FLAGS, row
        state[FOUND_FIRST] = load_u32(data, start + FIRST_COUNTER_OFFSET)
        state[FOUND_SECOND] = load_u32(data, start + SECOND_COUNTER_OFFSET)
        is_first = state[TOTAL] == 0
        code = _open_group(data, start, size, flags, state) if is_first else _go_on(flags, state)
        if code != WALKED:
            return code, row
        offset = FIRST_CONTENT_OFFSET if is_first else CONTENT_OFFSET
        if size == offset:
            return NO_CONTENT, row
        found[row, START] = start + offset
        found[row, SIZE] = size - offset
        found[row, IS_NEXT] = not is_first
        found[row, ORIGINAL] = state[ORIGINAL_SIZE]
        state[DONE_SIZE] += size - offset
        if state[DONE_SIZE] > state[ORIGINAL_SIZE]:
            return TOO_LARGE, row
        if state[NUMBER] == state[TOTAL]:
            if state[DONE_SIZE] != state[ORIGINAL_SIZE]:
                return TOO_SMALL, row
            state[TOTAL] = 0
    return WALKED, len(events)


FINISHED = 0
NOT_ROWS = 1
"""The joined fragments are not a row event."""
OTHER_SIZE = 2
"""The header of the original event contains another size."""

_FIRST_COMPRESSED = int(EventType.WRITE_ROWS_COMPRESSED_V1)
_LAST_COMPRESSED = int(EventType.DELETE_ROWS_COMPRESSED_V1)
_UINT32 = 0xFFFF_FFFF


@kernel
def _are_compressed(data: Bytes, start: int, size: int, kind: int) -> bool:
    # Whether the rows of an event of a compressed type are so: the mark, a length, and a zlib stream after them.
    head = rows_head_size(data, start, size, kind)
    if head < 0 or head + 1 > size:
        return False
    mark = load_u8(data, start + head)
    length_size = mark & COMPRESSED_LENGTH_SIZE_MASK
    if mark != COMPRESSED_MARK | COMPRESSED_ALGORITHM_ZLIB | length_size or length_size == 0:
        return False
    if length_size > COMPRESSED_LENGTH_SIZE_MAX or head + length_size + 3 > size:
        return False
    first, second = load_u8(data, start + head + length_size + 1), load_u8(data, start + head + length_size + 2)
    return first & ZLIB_METHOD_MASK == ZLIB_METHOD_DEFLATE and (first << 8 | second) % ZLIB_HEADER_MULTIPLE == 0


@kernel
def original_type(data: Bytes, start: int, size: int, plain_types: Bytes) -> int:
    """The type that an original event is to have: compressed only where its rows are.

    Args:
        size: Bytes of it that are there.
        plain_types: `PLAIN_TYPES`.

    Returns:
        The type; 0 when it is no row event of a kind that MariaDB writes (version 1).
    """
    if size < ORIGINAL_SIZE_MIN or start + size > data.size:
        return 0
    kind = int(data[start + EVENT_TYPE_OFFSET])
    if WRITE <= kind <= DELETE:
        return kind
    if kind < _FIRST_COMPRESSED or kind > _LAST_COMPRESSED:
        return 0
    return kind if _are_compressed(data, start, size, kind) else int(plain_types[kind])


@kernel
def has_size(data: Bytes, start: int, size: int) -> bool:
    """True if the header at *start* has this *size* (low 32 bits only), with or without a checksum."""
    stored = load_u32(data, start + EVENT_SIZE_OFFSET)
    return stored == size & _UINT32 or stored == (size + EVENT_CHECKSUM_SIZE) & _UINT32


@kernel
def finish_joined(data: Bytes, events: Table, rows: Int64s, plain_types: Bytes, inner_nos: Int64s) -> tuple[int, int]:
    """Give events that were joined from fragments the header of a whole event, and their rows in the event table.

    Args:
        data: What the events are in; type and size in their headers are set.
        events: `EVENT_DTYPE`: start and size are there, what a header tells is filled in.
        plain_types: `PLAIN_TYPES`.
        inner_nos: Column of `ORIGIN_DTYPE`, for all *events*.

    Returns:
        Code (`FINISHED`, ...) and the row of *events* that it is about.
    """
    starts, sizes, types = events["start"], events["size"], events["type"]
    flags, timestamps, server_ids = events["flags"], events["timestamp"], events["server_id"]
    for i in range(len(rows)):
        row = rows[i]
        start, size = int(starts[row]), int(sizes[row])
        kind = original_type(data, start, size, plain_types)
        if kind == 0:
            return NOT_ROWS, row
        if not has_size(data, start, size):
            return OTHER_SIZE, row
        data[start + EVENT_TYPE_OFFSET] = kind
        for k in range(4):
            data[start + EVENT_SIZE_OFFSET + k] = (size >> (8 * k)) & 0xFF
        types[row] = kind
        flags[row] = load_u16(data, start + EVENT_FLAGS_OFFSET)
        timestamps[row] = load_u32(data, start)
        server_ids[row] = load_u32(data, start + EVENT_SERVER_ID_OFFSET)
        inner_nos[row] = NOT_INNER if kind >= _FIRST_COMPRESSED else FROM_FRAGMENTS
    return FINISHED, 0


@kernel
def rows_end(data: Bytes, present: Int32s, before: int, after: int, widths: Int32s) -> int:
    """The byte after the last whole row of *data*, which begins with a row; -1: a row takes no bytes.

    Args:
        data: Rows, the last one perhaps in part.
        present: Shape (2, column count): the columns of the images before and after.
        before: Columns of the (first) image of a row.
        after: Columns of the second one; -1: there is none.
        widths: Of `value_widths`.
    """
    place = 0
    while place < data.size:
        end, code = image_end(data, place, data.size, present[0], before, widths)
        if code == OK and after >= 0:
            end, code = image_end(data, end, data.size, present[1], after, widths)
        if code != OK:
            break
        if end == place:
            return -1
        place = end
    return place
