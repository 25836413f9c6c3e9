"""Events of one source as typed Arrow columns: `SourceDecoder`.

Search for the values of events: `find_places`, which gets the room that it needs.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from binlog_format.kernels import empty_bytes
from binlog_format.rows.arrow_arrays import strings_array, struct_array
from binlog_format.structured.arguments.arrow_columns import column_array
from binlog_format.structured.arguments.columns import EVENTS_FRAME, NO_SLOT, argument_plan, field_of
from binlog_format.structured.arguments.json_texts import (
    argument_error,
    check_size,
    finished_texts,
    json_types,
    new_failure,
)
from binlog_format.structured.arguments.json_value_kernels import STACK_SHAPE
from binlog_format.structured.arguments.layout import FLOAT_SIZE_MIN, OMITTED_FLOAT_DTYPE, Op
from binlog_format.structured.arguments.place_kernels import (
    FRAME_COUNT,
    FRAME_FIELDS,
    JSON_COUNTS,
    JSON_TEXTS,
    ArgumentSearch,
    JsonRoom,
    find_places,
)
from binlog_format.structured.arguments.value_kernels import GROW, OK, SHORT
from binlog_format.structured.type_layout import COUNT_SIZE
from binlog_format.structured.type_tags import argument_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_format.errors import BinlogError
    from binlog_format.kernels import Bytes, Int32s, Int64s
    from binlog_format.structured.arguments.columns import Plan
    from binlog_format.structured.arguments.json_value_kernels import JsonTypes
    from binlog_format.structured.event_log import LogBlock
    from binlog_format.structured.metadata import EventSource

_JSON_ROOM_PER_BYTE = 4
_GROWTH = 2
_NO_TEXTS = strings_array([])


class FoundValues(NamedTuple):
    """The values from which a plan's columns are made.

    Attributes:
        places: Of each slot, an element of its frame each: a byte of *data*, the end of a list, the number of a text in
            *json*; below 0 where there is none.
        json: Values that become JSON.
    """

    data: Bytes
    places: Sequence[Int32s]
    json: pa.StringArray


class _Search:
    """Runs the program of a plan until what it finds has room."""

    def __init__(self, plan: Plan, types: JsonTypes, block: LogBlock, rows: Int64s) -> None:
        self._plan = plan
        self._types = types
        self._block = block
        self._rows = rows
        self._failure = new_failure()
        self._json_bytes = int(block.events["size"][rows].sum()) if plan.json_steps else 0  # at most
        self._json_room = _JSON_ROOM_PER_BYTE * self._json_bytes

    def values(self) -> FoundValues:
        check_size(len(self._block.data))
        code = GROW
        while code == GROW:
            check_size(self._json_room)
            code, step, lengths, text_count = self._lengths()
            if code == OK:
                bounds = np.zeros(len(self._plan.slot_frames) + 2, dtype=np.int64)
                np.cumsum(lengths[self._plan.slot_frames], out=bounds[1:-1])
                bounds[-1] = NO_SLOT  # steps without a slot have the last
                search = self._search(bounds[self._plan.program["slot"]], int(bounds[-2]), text_count)
                code, step = find_places(search)
            self._json_room *= _GROWTH
        if code != OK:
            raise self._error(code, step)
        places = [search.places[start:end] for start, end in itertools.pairwise(bounds[:-1].tolist())]
        return FoundValues(self._block.data, places, self._texts(search.room))

    def _lengths(self) -> tuple[int, int, Int64s, int]:
        # A code, and the step that it is about; how many elements each frame has; how many texts there are at most.
        lengths: Int64s = np.full(self._plan.frame_count, len(self._rows), dtype=np.int64)
        if self._plan.frame_count == 1:
            return OK, 0, lengths, self._plan.json_steps * len(self._rows)
        search = self._search(np.full(len(self._plan.program), NO_SLOT), 0, 0)
        code, step = find_places(search)
        lengths[EVENTS_FRAME + 1 :] = search.frames[EVENTS_FRAME + 1 :, FRAME_COUNT]
        return code, step, lengths, int(search.room.counts[JSON_TEXTS])

    def _search(self, step_starts: Int64s, place_count: int, text_count: int) -> ArgumentSearch:
        room = JsonRoom(
            types=self._types,
            out=empty_bytes(self._json_room),
            offsets=np.zeros(text_count + 1, dtype=np.int64),
            floats=np.empty(self._json_bytes // FLOAT_SIZE_MIN, dtype=OMITTED_FLOAT_DTYPE),
            counts=np.zeros(JSON_COUNTS, dtype=np.int64),
            stack=np.empty(STACK_SHAPE, dtype=np.int64),
        )
        return ArgumentSearch(
            program=self._plan.program,
            targets=self._plan.targets,
            data=self._block.data,
            events=self._block.events,
            rows=self._rows,
            step_starts=step_starts,
            places=np.full(place_count, -1, dtype=np.int32),
            frames=np.zeros((self._plan.frame_count, FRAME_FIELDS), dtype=np.int64),
            room=room,
            failure=self._failure,
        )

    def _error(self, code: int, number: int) -> BinlogError:
        step, failure = self._plan.program[number], self._failure
        failure["argument"] = step["argument"]
        if code == SHORT and step["op"] != Op.JSON:
            is_counted = step["op"] in (Op.TEXT, Op.LIST, Op.ARRAY)
            failure["needed"] = COUNT_SIZE if is_counted else step["size"]
            if is_counted and failure["left"][0] >= COUNT_SIZE:
                place = int(failure["place"][0])
                count = int.from_bytes(self._block.data[place : place + COUNT_SIZE].tobytes(), "little")
                failure["needed"] = count * step["size"]
                failure["place"] += COUNT_SIZE
                failure["left"] -= COUNT_SIZE
        return argument_error(self._block, code, failure, self._types.nodes["kind"][failure["node"][0]])

    def _texts(self, room: JsonRoom) -> pa.StringArray:
        if not self._plan.json_steps:
            return _NO_TEXTS
        texts, floats = room.counts.tolist()
        return finished_texts(self._block.data, room.out, room.offsets[: texts + 1], room.floats[:floats])


class SourceDecoder:
    """Reads the arguments of a source's events into an Arrow struct with a field for each argument.

    Arguments that have one possible value, and so no bytes, have no field.

    Args:
        source: Decides the names and types of the fields; events of any source with the same argument tags can be read.
    """

    def __init__(self, source: EventSource) -> None:
        self._types = json_types((source.argument_tags,))
        self._plan = argument_plan(source.argument_tags)
        names = argument_names(source.format, len(self._plan.columns))
        named = [(name, column) for name, column in zip(names, self._plan.columns, strict=True) if column is not None]
        self._columns = [column for _, column in named]
        self.type: pa.StructType = pa.struct([field_of(name, column) for name, column in named])

    @property
    def schema(self) -> pa.Schema:
        """The fields of `type`."""
        return pa.schema(list(self.type))

    def decode(self, block: LogBlock, rows: Int64s) -> pa.StructArray:
        """The arguments of events.

        Args:
            rows: Which of `block.events`; all of sources with the argument tags of this one.
        """
        found = _Search(self._plan, self._types, block, rows).values()
        arrays = [column_array(column, found) for column in self._columns]
        return struct_array(self.type, arrays) if arrays else pa.array([{}] * len(rows), self.type)
