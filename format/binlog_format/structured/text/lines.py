"""Blocks of a structured log as text: `LineWriter` (lines), `messages` (an Arrow column)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.errors import CorruptError
from binlog_format.kernels import as_bytes, empty_bytes
from binlog_format.structured.event_log import clocks_of
from binlog_format.structured.text.event_format import DateFormat, LinePrograms
from binlog_format.structured.text.float_kernels import SCRATCH_WORDS
from binlog_format.structured.text.leaf_kernels import (
    BAD_ENUM,
    BAD_TAG,
    NO_ROOM,
    OK,
    OVERFLOW,
    REPORT_SIZE,
    TextScratch,
    Types,
)
from binlog_format.structured.text.line_kernels import STEP_ARGUMENT, Context, Writers, put_lines
from binlog_format.structured.text.time_kernels import LAST_SHAPE, Times
from binlog_format.structured.text.value_kernels import STACK_SHAPE, WALK_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from binlog_format.kernels import Bytes, Int64s
    from binlog_format.structured.event_log import LogBlock
    from binlog_format.structured.text.event_format import EventFormat
    from binlog_format.structured.text.line_kernels import Program
    from binlog_format.structured.type_table import TypeTable

DEFAULT_DATE_FORMAT = b"%Y-%m-%d %H:%M:%S.%N"

ROOM = 1 << 20
"""Bytes of lines that are written at once; it grows when one line is longer."""

_ARROW_SIZE_MAX = (1 << 31) - 1

LINE_SIZE_MAX = 1 << 30
"""A few bytes of a damaged or made-up log can describe a line of any length."""


class DamagedArgument(ValueError):
    """An argument that cannot be read; the message is that of the library's reader."""

    def __init__(self, reason: str, row: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.row = row


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of some events of a block, one after the other.

    Attributes:
        text: Bytes; they are valid until more are written.
        ends: Where each line ends in *text*. A damaged event has none, though *text* may go on with a part of it.
        damage: Why the next event cannot be written; None: it can, or there is none.
    """

    first_row: int
    text: memoryview
    ends: Int64s
    damage: DamagedArgument | None = None

    @property
    def next_row(self) -> int:
        """The event after them."""
        return self.first_row + len(self.ends)


class LineWriter:
    """Writes the events of blocks as lines. *event_format*: what a line consists of, its end included."""

    def __init__(self, event_format: EventFormat, date_format: bytes = DEFAULT_DATE_FORMAT) -> None:
        self._programs = LinePrograms(event_format)
        self._date = DateFormat.of(date_format)
        self._out = empty_bytes(ROOM)
        self._scratch = TextScratch(
            stack=np.zeros(STACK_SHAPE, dtype=np.int64),
            walk=np.zeros(WALK_SIZE, dtype=np.int64),
            words=np.zeros(SCRATCH_WORDS, dtype=np.uint64),
            report=np.zeros(REPORT_SIZE, dtype=np.int64),
        )

    def lines(self, block: LogBlock, *, first_row: int = 0) -> Iterator[Lines]:
        """The lines of a block, some at a time; they end at a damaged argument.

        Args:
            first_row: Of the first event to write; to go on after a damaged one.
        """
        program = self._programs.program(block.sources)
        table = self._programs.types
        types = Types(table.nodes, table.members, table.enumerators, table.pool)
        times = self._times(block)
        context = Context(program, types, _writers(block), clocks_of(block.clock_syncs), times, self._scratch)
        ends: Int64s = np.empty(len(block.events), dtype=np.int64)
        is_done = first_row >= len(block.events)
        while not is_done:
            # What leaves 64 bits wraps around; without the compiler NumPy would warn of it.
            with np.errstate(over="ignore"):
                code, stopped, at = put_lines(self._out, block.data, block.events, first_row, context, ends)
            row = int(stopped)
            if code == NO_ROOM and row == first_row:
                self._enlarge(block, row)
                continue
            damage = None if code in (OK, NO_ROOM) else DamagedArgument(self._reason(code, table, program), row)
            yield Lines(first_row, memoryview(self._out.data)[:at], ends[first_row:row], damage)
            first_row, is_done = row, code != NO_ROOM

    def _times(self, block: LogBlock) -> Times:
        names = [b"UTC", *(sync.tz_name.partition(b"\0")[0] for sync in block.clock_syncs)]
        size_max = self._date.size_max + self._date.zone_names * max(map(len, names))
        last = np.full(LAST_SHAPE, -1, dtype=np.int64)
        last_text = empty_bytes(2 * size_max)
        return Times(self._date.steps, self._date.literals, *_joined(names), size_max, last, last_text)

    def _enlarge(self, block: LogBlock, row: int) -> None:
        if len(self._out) >= LINE_SIZE_MAX:
            at = block.place(int(block.events["start"][row]))
            hint = "No program logs so much at once: its type tags let a few bytes stand for many"
            raise CorruptError("BAD_ENTRY", f"the event's line has more than {LINE_SIZE_MAX:,} bytes", at=at, hint=hint)
        self._out = empty_bytes(2 * len(self._out))

    def _reason(self, code: int, table: TypeTable, program: Program) -> str:
        first, second, step = self._scratch.report.tolist()
        if code == OVERFLOW:
            return f"Range overflow {first} > {second}"
        if code == BAD_TAG:
            node = table.nodes[first]
            return f"Invalid arithmetic tag: {_pooled(table, node['name_start'], node['name_size'])}"
        if code == BAD_ENUM:
            return "Invalid enum tag: ''"
        argument = table.arguments[program.steps[step, STEP_ARGUMENT]]
        tag = _pooled(table, argument["tag_start"], argument["tag_size"])
        return f"Recursion limit exceeded while visiting tag: {tag}"


def messages(block: LogBlock, writer: LineWriter) -> pa.BinaryArray:
    """The messages of a block's events, as the bytes that they are. *writer*: made with `MESSAGE_FORMAT`."""
    import pyarrow as pa  # text alone needs none

    texts: list[bytes] = []
    offsets = np.zeros(len(block.events) + 1, dtype=np.int64)
    size = 0
    for lines in writer.lines(block):
        if lines.damage is not None:
            raise damage_error(block, lines.damage)
        texts.append(bytes(lines.text))
        offsets[lines.first_row + 1 : lines.next_row + 1] = lines.ends + size
        size += len(lines.text)
    if size > _ARROW_SIZE_MAX:
        raise CorruptError("BAD_ENTRY", f"the messages of a block have {size:,} bytes", at=block.place(0))
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(b"".join(texts))]
    return pa.Array.from_buffers(pa.binary(), len(block.events), buffers)


def damage_error(block: LogBlock, damage: DamagedArgument) -> CorruptError:
    """The named error for an argument of an event that cannot be read."""
    event = block.events[damage.row]
    source = block.sources[event["source"]]
    text = source.format.decode("utf-8", "replace")
    reason = f"an event of source {source.id} ({text!r}): its arguments: {damage.reason}"
    hint = (
        "They do not fit the types that the source describes: the file is damaged, or a log statement that two "
        "sessions share took the source of another one"
    )
    return CorruptError("BAD_ENTRY", reason, at=block.place(int(event["start"])), hint=hint)


def _pooled(table: TypeTable, start: int, size: int) -> str:
    return table.pool[start : start + size].tobytes().decode("utf-8", "surrogateescape")


def _writers(block: LogBlock) -> Writers:
    ids = np.array([writer.id for writer in block.writers], dtype=np.uint64)
    return Writers(ids, *_joined([writer.name for writer in block.writers]))


def _joined(texts: list[bytes]) -> tuple[Bytes, Int64s]:
    # One after the other, and where they start and end.
    bounds = np.zeros(len(texts) + 1, dtype=np.int64)
    np.cumsum([len(text) for text in texts], out=bounds[1:])
    return as_bytes(b"".join(texts)), bounds
