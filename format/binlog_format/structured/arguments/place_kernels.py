"""The loop of `source_decoder`: where the values of events are, `find_places`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from binlog_format.kernels import kernel
from binlog_format.memory_kernels import load_u8, load_u32
from binlog_format.structured.arguments.json_value_kernels import write_value
from binlog_format.structured.arguments.layout import Op
from binlog_format.structured.arguments.value_kernels import BAD_VALUE, OK, OUTSIDE, SHORT, fail
from binlog_format.structured.layout import ARGUMENTS_OFFSET, ENTRY_HEAD_SIZE, EVENT_SIZE_MIN
from binlog_format.structured.type_layout import COUNT_SIZE

if TYPE_CHECKING:
    from binlog_format.block import Table
    from binlog_format.kernels import Bytes, Int32s, Int64s
    from binlog_format.structured.arguments.json_value_kernels import JsonTypes

_FIXED = int(Op.FIXED)
_TEXT = int(Op.TEXT)
_LIST = int(Op.LIST)
_NEXT = int(Op.NEXT)
_VARIANT = int(Op.VARIANT)
_JUMP = int(Op.JUMP)
_PRESENT = int(Op.PRESENT)
_JSON = int(Op.JSON)
_ARRAY = int(Op.ARRAY)

# Fields of a frame.
_ELEMENT = 0  # the current one
_END = 1  # the first one that does not belong to the current list
FRAME_COUNT = 2  # all until now
FRAME_FIELDS = 3

# Counts of `JsonRoom`.
JSON_TEXTS = 0
JSON_FLOATS = 1
JSON_COUNTS = 2


class JsonRoom(NamedTuple):
    """Room for values that become JSON.

    Attributes:
        out: Room for the texts.
        offsets: Gets the start of each text, and the end of the last; 0 at first.
        floats: `OMITTED_FLOAT_DTYPE`: gets the floats in them.
        counts: Of the texts, and of the floats; 0 at first.
        stack: Scratch, `STACK_SHAPE`.
    """

    types: JsonTypes
    out: Bytes
    offsets: Int64s
    floats: Table
    counts: Int64s
    stack: Int64s


class ArgumentSearch(NamedTuple):
    """Input of a program, and room for its results.

    Attributes:
        program: `PROGRAM_DTYPE`.
        targets: Steps of the options of variants.
        data: What *events* points into.
        step_starts: Where the slot of each step starts in *places*; below 0: it has none, or only elements are counted.
        places: -1 at first. Gets where values are: bytes of *data*, ends of lists, numbers of JSON texts.
        frames: Shape (number of frames, `FRAME_FIELDS`); 0 at first. Gets how many elements they have.
        room: For JSON.
        failure: `FAILURE_DTYPE`, one row: gets the value that could not be read last.
    """

    program: Table
    targets: Int64s
    data: Bytes
    events: Table
    rows: Int64s
    step_starts: Int64s
    places: Int32s
    frames: Int64s
    room: JsonRoom
    failure: Table


@kernel
def _write_json(
    room: JsonRoom, node: int, depth: int, data: Bytes, place: int, end: int, failure: Table
) -> tuple[int, int]:
    # Code, the byte after the value. Where texts are only counted, all go to the same room.
    text, counting = room.counts[JSON_TEXTS], room.offsets.size == 1
    at, floats = (0, 0) if counting else (room.offsets[text], room.counts[JSON_FLOATS])
    code, after, at, floats = write_value(
        room.types, node, 0, depth, data, place, end, room.out, at, room.floats, floats, room.stack, failure
    )
    if code != OK:
        return code, place
    room.counts[JSON_TEXTS] = text + 1
    if not counting:
        room.offsets[text + 1] = at
        room.counts[JSON_FLOATS] = floats
    return OK, after


@kernel
def _begin_list(data: Bytes, place: int, end: int, size_min: int, frames: Int64s, inner: int) -> int:
    # The byte after the count of a list, which goes to its frame; beyond the end where its elements cannot fit.
    place += COUNT_SIZE
    if place > end:
        return place
    count = load_u32(data, place - COUNT_SIZE)
    if count * size_min > end - place:
        return end + 1
    frames[inner, _ELEMENT] = frames[inner, FRAME_COUNT]
    frames[inner, FRAME_COUNT] += count
    frames[inner, _END] = frames[inner, FRAME_COUNT]
    return place


@kernel
def _read_array(
    data: Bytes, place: int, end: int, size: int, frames: Int64s, inner: int, places: Int32s, slot_start: int
) -> int:
    # A list of elements of one size; the byte after it, beyond the end where they cannot fit.
    place = _begin_list(data, place, end, size, frames, inner)
    if place > end:
        return place
    count = int(frames[inner, _END] - frames[inner, _ELEMENT])
    if slot_start >= 0:
        first = slot_start + frames[inner, _ELEMENT]
        for number in range(count):
            places[first + number] = place + number * size
    return place + count * size


@kernel
def find_places(search: ArgumentSearch) -> tuple[int, int]:
    """Run a program over events; one that cannot be read ends it.

    Returns:
        A code, and the step that it is about. After `GROW` begin anew with more room for JSON.
    """
    program, targets, data, rows = search.program, search.targets, search.data, search.rows
    step_starts, places, frames, room = search.step_starts, search.places, search.frames, search.room
    failure = search.failure
    # Each field is taken once: a view that is made in the loop costs more than a step.
    starts, event_sizes, failed_row = search.events["start"], search.events["size"], failure["row"]
    ops, sizes, next_steps = program["op"], program["size"], program["target"]
    firsts, counts, nodes, depths = program["first"], program["count"], program["node"], program["depth"]
    outer_frames, inner_frames = program["frame"], program["inner"]
    for i in range(rows.size):
        row = rows[i]
        failed_row[0] = row
        place, end = starts[row] + ARGUMENTS_OFFSET, starts[row] + ENTRY_HEAD_SIZE + event_sizes[row]
        if starts[row] < 0 or event_sizes[row] < EVENT_SIZE_MIN or end > data.size:
            return OUTSIDE, 0
        frames[0, _ELEMENT] = i
        code = OK
        step = 0
        while step < ops.size:
            op = ops[step]
            following = step + 1
            start = noted = place
            if op == _FIXED:
                place += sizes[step]
            elif op == _TEXT:
                place += COUNT_SIZE
                place += load_u32(data, start) if place <= end else 0
            elif op == _LIST:
                inner = inner_frames[step]
                place = _begin_list(data, place, end, sizes[step], frames, inner)
                noted = frames[inner, _END]
                following = next_steps[step] if frames[inner, _ELEMENT] == noted else following
            elif op == _ARRAY:
                inner = inner_frames[step]
                place = _read_array(data, place, end, sizes[step], frames, inner, places, step_starts[step + 1])
                noted = frames[inner, _END]
                following = next_steps[step]
            elif op == _NEXT:
                inner = inner_frames[step]
                frames[inner, _ELEMENT] += 1
                following = next_steps[step] if frames[inner, _ELEMENT] < frames[inner, _END] else following
            elif op == _VARIANT:
                index = load_u8(data, place) if place < end else 0
                following = targets[firsts[step] + index] if index < counts[step] else next_steps[step]
                place += sizes[step]
            elif op == _JUMP:
                following = next_steps[step]
            elif op == _JSON:
                noted = room.counts[JSON_TEXTS]
                code, place = _write_json(room, nodes[step], depths[step], data, place, end, failure)
            elif op != _PRESENT:
                code = BAD_VALUE
            if place > end:
                code = SHORT
            if code != OK:
                if op != _JSON:
                    fail(failure, code, nodes[step], start, 0, end - start)
                break
            if step_starts[step] >= 0:
                places[step_starts[step] + frames[outer_frames[step], _ELEMENT]] = noted
            step = following
        if code != OK:
            return code, step
    return OK, 0
