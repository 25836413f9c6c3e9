"""Events as lines: `put_lines` runs, for each event, the steps that its source and the event format compiled to."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from binlog_format.kernels import kernel
from binlog_format.structured.layout import ARGUMENTS_OFFSET, EVENT_SIZE_MIN
from binlog_format.structured.text.leaf_kernels import (
    NO_ROOM,
    NUMBER_SIZES,
    OK,
    REPORT_STEP,
    VALUE_ROOM,
    overflow,
    put_number,
    put_text,
)
from binlog_format.structured.text.time_kernels import UTC_ZONE, Zone, put_time, wall_ns
from binlog_format.structured.text.value_kernels import put_value
from binlog_format.writing_kernels import put_bytes, put_digits

if TYPE_CHECKING:
    from binlog_format.block import Table
    from binlog_format.kernels import Bytes, Int64s, Uint64s
    from binlog_format.structured.text.leaf_kernels import TextScratch, Types
    from binlog_format.structured.text.time_kernels import Clocks, Times

# Steps of a line.
LITERAL = 0
NUMBER = 1  # the next argument, which is one of these ...
TEXT = 2
VALUE = 3  # ... or something else
WRITER_NAME = 4
WRITER_ID = 5
CLOCK = 6
LOCAL_TIME = 7
UTC_TIME = 8

STEP_ARGUMENT = 2
"""Step of an argument's value: the column with the row of its argument."""

_NO_CLOCK = np.frombuffer(b"no_clock_sync?", dtype=np.uint8).copy()


class Program(NamedTuple):
    """Program that makes lines.

    Attributes:
        steps: Shape (steps, 3): which; of literals, where they start and end; of arguments, their kind if they are
            numbers, the node of their type if they are not, and their row.
        literals: Text of all.
        bounds: From one to the next are the steps of a source.
        sources: Of each row in the block's sources: its place in *bounds*.
        is_utc: Whether times in messages are UTC.
    """

    steps: Int64s
    literals: Bytes
    bounds: Int64s
    sources: Int64s
    is_utc: bool


class Writers(NamedTuple):
    """The block's writers: ids; names, one after the other, and where they start and end."""

    ids: Uint64s
    names: Bytes
    bounds: Int64s


class Context(NamedTuple):
    """Input of lines beside the block's bytes and events.

    Attributes:
        program: What lines consist of.
        times: How times are written; the name of UTC's zone is the first, those of the block's clock syncs follow.
        scratch: Space; its report is filled when an argument is damaged.
    """

    program: Program
    types: Types
    writers: Writers
    clocks: Clocks
    times: Times
    scratch: TextScratch


@kernel
def _zone(clocks: Clocks, sync: int, is_utc: bool) -> Zone:
    return Zone(0, UTC_ZONE) if is_utc else Zone(int(clocks.offsets[sync]), int(sync) + 1)


@kernel
def _put_wall_time(
    out: Bytes, at: int, clock: np.uint64, sync: int, is_utc: bool, clocks: Clocks, times: Times
) -> tuple[int, int]:
    if at + times.size_max > len(out):
        return NO_ROOM, at
    frequency = clocks.frequencies[sync]
    if frequency <= 0:
        return OK, put_bytes(out, at, _NO_CLOCK, 0, len(_NO_CLOCK))
    ns = wall_ns(clock, clocks.clocks[sync], frequency, clocks.ns[sync])
    return OK, put_time(out, at, times, _zone(clocks, sync, is_utc), ns)


@kernel
def put_lines(out: Bytes, data: Bytes, events: Table, row: int, context: Context, ends: Int64s) -> tuple[int, int, int]:
    """Put the lines of events from *row* on to *out*, as many as there is room for.

    Args:
        context: What else lines are made from.
        ends: Of each event, where its line ends; filled.

    Returns:
        `OK`; `NO_ROOM`, and the event without its line; or what is wrong with an argument, and the event. Then the
        place after what has been written, of a damaged event what comes before the damage.
    """
    program, types, writers, clocks, times, scratch = context
    starts, sizes, sources = events["start"], events["size"], events["source"]
    steps, bounds, room, at = program.steps, program.bounds, len(out), 0
    for event in range(row, len(events)):
        line = at
        place = starts[event] + ARGUMENTS_OFFSET
        end = min(place - EVENT_SIZE_MIN + sizes[event], len(data))
        writer, sync = events["writer"][event], events["clock_sync"][event]
        source = program.sources[sources[event]]
        for number in range(bounds[source], bounds[source + 1]):
            step, first, second = steps[number, 0], steps[number, 1], steps[number, 2]
            size = second - first if step == LITERAL else 0
            if step == WRITER_NAME:
                size = writers.bounds[writer + 1] - writers.bounds[writer]
            if at + size + VALUE_ROOM > room:
                return NO_ROOM, event, line
            code = OK
            if step == LITERAL:
                at = put_bytes(out, at, program.literals, first, second)
            elif step == NUMBER:
                size = NUMBER_SIZES[first]
                if end - place < size:
                    return overflow(scratch, size, end - place), event, at
                at = put_number(out, at, data, place, first, scratch.words)
                place += size
            elif step == TEXT:
                code, at, place = put_text(out, room, at, data, place, end, scratch)
            elif step == WRITER_NAME:
                at = put_bytes(out, at, writers.names, writers.bounds[writer], writers.bounds[writer + 1])
            elif step == WRITER_ID:
                at = put_digits(out, at, writers.ids[writer])
            elif step == CLOCK:
                at = put_digits(out, at, events["clock"][event])
            elif step == VALUE:
                zone = _zone(clocks, sync, program.is_utc)
                scratch.report[REPORT_STEP] = number
                code, at, place = put_value(out, room, at, data, place, end, first, types, times, zone, scratch)
            else:
                code, at = _put_wall_time(out, at, events["clock"][event], sync, step == UTC_TIME, clocks, times)
            if code != OK:
                return code, event, line if code == NO_ROOM else at
        ends[event] = at
    return OK, len(events), at
