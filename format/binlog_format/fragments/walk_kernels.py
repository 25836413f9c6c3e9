"""The loop of `FragmentWalk`: `walk_fragments` checks each fragment against those before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.events.layout import EventType
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
from binlog_format.memory_kernels import load_u8, load_u32

if TYPE_CHECKING:
    from binlog_format.block import Table
    from binlog_format.kernels import Bytes, Int64s

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
        events: `EVENT_DTYPE`; the first one goes on where the last one of the call before ended.
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
