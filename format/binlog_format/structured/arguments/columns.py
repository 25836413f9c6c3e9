"""Arrow columns of a source's arguments, and the steps that find their values: `argument_plan`.

A plan is a program without recursion over the bytes of one event. Each value that a column needs has a *slot*: places
for the elements of a *frame*, which are the events (frame 0) or the elements of all lists of one kind.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from binlog_format.rows.arrow_arrays import strings_array
from binlog_format.structured.arguments.layout import PROGRAM_DTYPE, Op
from binlog_format.structured.type_layout import ENUM_RANGES, INDEX_SIZE, SCALAR_SIZES, SpecialStruct, TypeKind
from binlog_format.structured.type_table import type_table
from binlog_format.structured.type_tags import field_names, parse_tags

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_format.block import Table
    from binlog_format.kernels import Int64s
    from binlog_format.structured.type_tags import TypeNode

NO_SLOT = -1
EVENTS_FRAME = 0
COLUMN_DEPTH_MAX = 32
"""Arguments that are nested deeper become JSON: readers of Arrow and Parquet recurse."""
COLUMN_COUNT_MAX = 1000
"""Sources with more columns get one JSON column: types that refer to each other can need more than the memory."""

NUMBER_TYPES = {
    TypeKind.BOOL: pa.bool_(),
    TypeKind.CHAR: pa.string(),
    TypeKind.INT8: pa.int8(),
    TypeKind.INT16: pa.int16(),
    TypeKind.INT32: pa.int32(),
    TypeKind.INT64: pa.int64(),
    TypeKind.UINT8: pa.int16(),
    TypeKind.UINT16: pa.int32(),
    TypeKind.UINT32: pa.int64(),
    TypeKind.UINT64: pa.decimal128(20, 0),
    TypeKind.FLOAT: pa.float32(),
    TypeKind.DOUBLE: pa.float64(),
    TypeKind.EXTENDED: pa.float64(),
}
"""The smallest signed types that hold them: what Spark has."""
_UNITS = {
    SpecialStruct.TIME_POINT: "ns since 1970-01-01T00:00:00Z",
    SpecialStruct.NANOSECONDS: "ns",
    SpecialStruct.MICROSECONDS: "us",
    SpecialStruct.MILLISECONDS: "ms",
    SpecialStruct.SECONDS: "s",
    SpecialStruct.MINUTES: "min",
    SpecialStruct.HOURS: "h",
}


class ColumnKind(Enum):
    """Way in which a column's values are made from its slot."""

    NUMBER = "number"
    TEXT = "text"
    ENUM = "enum"
    LIST = "list"
    STRUCT = "struct"
    PRESENCE = "presence"
    JSON = "json"


class EnumLabels(NamedTuple):
    """The labels of an enum. *values*: sorted; of `UINT64` their bits."""

    values: Int64s
    texts: pa.StringArray


@dataclass(frozen=True, slots=True)
class ArgumentColumn:
    """A column, or a part of one.

    Attributes:
        slot: Where its values are; of a list: how many elements its frame has after each; of a struct: whether it is
            there (`NO_SLOT`: it always is).
        number: Of a number or an enum: what is stored.
        children: Of a list: its elements; of a struct: its fields.
        labels: Of an enum.
        unit: Of a time or a duration.
    """

    kind: ColumnKind
    type: pa.DataType
    slot: int
    number: TypeKind = TypeKind.EMPTY
    children: tuple[ArgumentColumn, ...] = ()
    labels: EnumLabels | None = None
    unit: str | None = None


class Plan(NamedTuple):
    """Plan for the arguments of a source as columns.

    Attributes:
        columns: Of each argument; None for those without bytes, which have one possible value.
        program: `PROGRAM_DTYPE`.
        targets: Steps of the options of variants.
        json_steps: How many steps write JSON.
    """

    columns: list[ArgumentColumn | None]
    program: Table
    targets: Int64s
    slot_frames: Int64s
    frame_count: int
    json_steps: int


def argument_plan(argument_tags: bytes) -> Plan:
    """The plan of a source."""
    return _Planner(argument_tags).plan()


class _RecursionFoundError(Exception):
    """A struct contains itself: *fields* of it."""

    def __init__(self, fields: bytes) -> None:
        super().__init__(fields)
        self.fields = fields


class _TooManyColumnsError(Exception):
    """An argument is nested too deeply, or has too many columns."""


class _Mark(NamedTuple):
    """Sizes of a plan at some time."""

    steps: int
    targets: int
    slots: int
    frames: int


class _Planner:
    def __init__(self, argument_tags: bytes) -> None:
        self._types = parse_tags(argument_tags)
        self._table = type_table((argument_tags,))
        self._nodes = self._table.nodes
        self._steps: list[dict[str, int]] = []
        self._targets: list[int] = []
        self._slots: list[int] = []
        self._frames = 1
        self._argument = 0
        self._columns_left = 0

    def plan(self) -> Plan:
        columns = []
        for index, argument in enumerate(self._types.arguments):
            self._argument = index
            self._columns_left = COLUMN_COUNT_MAX
            mark = self._mark()
            try:
                columns.append(self._value(argument.node, EVENTS_FRAME, ()))
            except _TooManyColumnsError:
                self._forget(mark)
                columns.append(self._json(argument.node, EVENTS_FRAME, 0))
        rows = [tuple(step.get(name, 0) for name in PROGRAM_DTYPE.names or ()) for step in self._steps]
        program = np.array(rows, dtype=PROGRAM_DTYPE)
        targets, slot_frames = (np.array(numbers, dtype=np.int64) for numbers in (self._targets, self._slots))
        json_steps = sum(step["op"] == Op.JSON for step in self._steps)
        return Plan(columns, program, targets, slot_frames, self._frames, json_steps)

    def _value(self, number: int, frame: int, path: tuple[bytes, ...]) -> ArgumentColumn | None:
        # *path*: of each struct that it is nested in, what describes its fields; of other types nothing.
        self._columns_left -= 1
        if len(path) > COLUMN_DEPTH_MAX or self._columns_left < 0:
            raise _TooManyColumnsError
        node = self._types.nodes[number]
        if self._nodes["no_bytes"][number]:
            return None
        if node.kind in SCALAR_SIZES:
            return self._number(node.kind, frame)
        if node.kind is TypeKind.TEXT:
            return ArgumentColumn(ColumnKind.TEXT, pa.string(), self._noted(Op.TEXT, frame, size=1))
        if node.kind is TypeKind.ENUM:
            return self._enum(number, node, frame)
        if node.kind is TypeKind.SEQUENCE:
            return self._sequence(node, frame, path)
        if node.kind is TypeKind.VARIANT:
            return self._variant(node, frame, path)
        if node.kind is TypeKind.TUPLE:
            names = [f"_{index + 1}" for index in range(len(node.members))]
            return self._fields(node, names, frame, (*path, b""))
        if node.kind is TypeKind.STRUCT:
            return self._struct(number, node, frame, path)
        return ArgumentColumn(ColumnKind.PRESENCE, pa.bool_(), self._noted(Op.BAD, frame, node=number))

    def _number(self, kind: TypeKind, frame: int) -> ArgumentColumn:
        slot = self._noted(Op.FIXED, frame, size=SCALAR_SIZES[kind])
        return ArgumentColumn(ColumnKind.NUMBER, NUMBER_TYPES[kind], slot, kind)

    def _enum(self, number: int, node: TypeNode, frame: int) -> ArgumentColumn:
        if node.integer not in ENUM_RANGES:
            return self._number(node.integer, frame)  # floating: no value of it has a label
        value = pa.int64() if node.integer is not TypeKind.UINT64 else NUMBER_TYPES[TypeKind.UINT64]
        return ArgumentColumn(
            ColumnKind.ENUM,
            pa.struct([pa.field("label", pa.string()), pa.field("value", value)]),
            self._noted(Op.FIXED, frame, size=SCALAR_SIZES[node.integer]),
            node.integer,
            labels=self._labels(number),
        )

    def _labels(self, number: int) -> EnumLabels:
        node = self._table.nodes[number]
        rows = self._table.enumerators[node["first"] : node["first"] + node["count"]]
        rows = rows[rows["label_size"] > 0]
        tags = self._types.tags
        texts = [tags[start : start + size].decode("utf-8", "replace") for _, start, size in rows.tolist()]
        return EnumLabels(np.ascontiguousarray(rows["value"]), strings_array(texts))

    def _sequence(self, node: TypeNode, frame: int, path: tuple[bytes, ...]) -> ArgumentColumn:
        element = node.members[0].node
        if self._nodes["no_bytes"][element]:
            return self._number(TypeKind.UINT32, frame)  # there is no more to it than its count
        inner = self._frames
        self._frames += 1
        size_min = int(self._nodes["size_min"][element])
        slot = self._noted(Op.LIST, frame, inner=inner, size=size_min)
        first = len(self._steps)
        column = self._value(element, inner, (*path, b""))
        assert column is not None, "only types without bytes have no column"
        self._step(Op.NEXT, inner=inner, target=first)
        self._steps[first - 1]["target"] = len(self._steps)
        if [step["op"] for step in self._steps[first:]] == [Op.FIXED, Op.NEXT]:
            self._steps[first - 1]["op"] = Op.ARRAY
        return ArgumentColumn(ColumnKind.LIST, pa.list_(field_of("item", column)), slot, children=(column,))

    def _variant(self, node: TypeNode, frame: int, path: tuple[bytes, ...]) -> ArgumentColumn:
        kinds = [self._types.nodes[member.node].kind for member in node.members]
        if len(kinds) == 2 and (kinds[0] is TypeKind.NULL) != (kinds[1] is TypeKind.NULL):
            (column,) = (option for option in self._options(node, NO_SLOT, frame, path) if option is not None)
            return column
        index = ArgumentColumn(ColumnKind.NUMBER, NUMBER_TYPES[TypeKind.UINT8], self._slot(frame), TypeKind.UINT8)
        options = self._options(node, index.slot, frame, path)
        named = [(f"_{number}", option) for number, option in enumerate(options) if option is not None]
        return _struct_of([("index", index), *named], index.slot)

    def _options(self, node: TypeNode, slot: int, frame: int, path: tuple[bytes, ...]) -> list[ArgumentColumn | None]:
        # Of each option that is not null the column; of a nullable one without bytes, whether it is there.
        variant = len(self._steps)
        first, count = len(self._targets), len(node.members)
        self._step(Op.VARIANT, slot=slot, frame=frame, size=INDEX_SIZE, first=first, count=count)
        self._targets += [0] * count
        jumps, columns = [], []
        for number, member in enumerate(node.members):
            self._targets[first + number] = len(self._steps)
            columns.append(self._option(member.node, slot == NO_SLOT, frame, (*path, b"")))
            jumps.append(len(self._steps))
            self._step(Op.JUMP)
        for step in (variant, *jumps):
            self._steps[step]["target"] = len(self._steps)
        return columns

    def _option(self, number: int, nullable: bool, frame: int, path: tuple[bytes, ...]) -> ArgumentColumn | None:
        if self._types.nodes[number].kind is TypeKind.NULL:
            return None
        column = self._value(number, frame, path)
        if column is None and nullable:
            return ArgumentColumn(ColumnKind.PRESENCE, pa.bool_(), self._noted(Op.PRESENT, frame))
        if column is not None and column.kind is ColumnKind.STRUCT and column.slot == NO_SLOT:
            return replace(column, slot=self._noted(Op.PRESENT, frame))
        return column

    def _struct(self, number: int, node: TypeNode, frame: int, path: tuple[bytes, ...]) -> ArgumentColumn:
        assert node.fields is not None, "a struct without fields has no bytes"
        fields = node.fields.of(self._types.tags)
        if fields in path:
            raise _RecursionFoundError(fields)
        if node.special is not SpecialStruct.NONE:
            return self._special(node, frame, (*path, fields))
        mark = self._mark()
        try:
            return self._fields(node, field_names(self._types, node), frame, (*path, fields))
        except _RecursionFoundError as found:
            if found.fields != fields:
                raise
            self._forget(mark)
            return self._json(number, frame, len(path))

    def _special(self, node: TypeNode, frame: int, path: tuple[bytes, ...]) -> ArgumentColumn:
        column = self._value(node.members[0].node, frame, path)
        assert column is not None, "special structs have bytes"
        unit = _UNITS.get(node.special)
        if unit is None:
            return column
        return ArgumentColumn(ColumnKind.NUMBER, pa.int64(), column.slot, column.number, unit=unit)

    def _fields(self, node: TypeNode, names: list[str], frame: int, path: tuple[bytes, ...]) -> ArgumentColumn:
        columns = [self._value(member.node, frame, path) for member in node.members]
        named = [(name, column) for name, column in zip(names, columns, strict=True) if column is not None]
        return _struct_of(named, NO_SLOT)

    def _json(self, number: int, frame: int, depth: int) -> ArgumentColumn:
        return ArgumentColumn(ColumnKind.JSON, pa.string(), self._noted(Op.JSON, frame, node=number, depth=depth))

    def _noted(self, op: Op, frame: int, **fields: int) -> int:
        slot = self._slot(frame)
        self._step(op, slot=slot, frame=frame, **fields)
        return slot

    def _slot(self, frame: int) -> int:
        self._slots.append(frame)
        return len(self._slots) - 1

    def _step(self, op: Op, **fields: int) -> None:
        self._steps.append({"op": op, "argument": self._argument, "slot": NO_SLOT, **fields})

    def _mark(self) -> _Mark:
        return _Mark(len(self._steps), len(self._targets), len(self._slots), self._frames)

    def _forget(self, mark: _Mark) -> None:
        del self._steps[mark.steps :], self._targets[mark.targets :], self._slots[mark.slots :]
        self._frames = mark.frames


def field_of(name: str, column: ArgumentColumn) -> pa.Field:
    """The field of a column; it can be null."""
    return pa.field(name, column.type, metadata=None if column.unit is None else {"unit": column.unit})


def _struct_of(named: Sequence[tuple[str, ArgumentColumn]], slot: int) -> ArgumentColumn:
    kind = pa.struct([field_of(name, column) for name, column in named])
    return ArgumentColumn(ColumnKind.STRUCT, kind, slot, children=tuple(column for _, column in named))
