"""Lines in the order of time: `SortedSink`."""

from __future__ import annotations

import mmap
import tempfile
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from binlog_streaming.cli.logs.bread.sinks import event_lines
from binlog_streaming.cli.logs.bread.streams import LogDamage
from binlog_streaming.cli.output import write_output

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from binlog_format.structured.event_log import LogBlock
    from binlog_format.structured.text.lines import LineWriter
    from binlog_streaming.cli.logs.bread.sinks import OnDamage

RUN_SIZE = 32 << 20
"""Bytes of lines that are sorted in memory; more are sorted in parts, in a file that has no name."""
MERGED_ROWS = 1 << 16
"""Lines of each part that are merged at a time."""

_Int64s = np.ndarray[tuple[int], np.dtype[np.int64]]
_UInt64s = np.ndarray[tuple[int], np.dtype[np.uint64]]


class _Lines(NamedTuple):
    """Lines and their clock values, by these: *offsets* has one more than there are lines."""

    clocks: _UInt64s
    offsets: _Int64s
    text: memoryview

    def part(self, start: int, stop: int) -> memoryview:
        """Text of some lines."""
        return self.text[int(self.offsets[start]) : int(self.offsets[stop])]


class SortedSink:
    """Lines on standard output when all have come, by clock value; of equal ones in the order of the log.

    Memory is bounded: from `RUN_SIZE` on, sorted parts wait in temporary files.
    """

    def __init__(self, writer: LineWriter, on_damage: OnDamage | None = None) -> None:
        self._writer = writer
        self._on_damage = on_damage
        self._texts: list[bytes] = []
        self._ends: list[_Int64s] = []
        self._clocks: list[_UInt64s] = []
        self._size = 0
        self._runs: list[_Lines] = []

    def take(self, block: LogBlock) -> None:
        """Keep the lines of a block."""
        for lines in event_lines(self._writer, block, self._on_damage):
            if lines.damage is not None and self._on_damage is None:
                raise LogDamage(str(lines.damage))
            if not len(lines.ends):
                continue
            self._texts.append(bytes(lines.text[: lines.ends[-1]]))
            self._ends.append(lines.ends + self._size)
            self._clocks.append(block.events["clock"][lines.first_row : lines.next_row].copy())
            self._size += len(self._texts[-1])
            if self._size >= RUN_SIZE:
                self._runs.append(_kept(self._sorted()))

    def finish(self) -> None:
        """Write them."""
        if not self._texts and not self._runs:
            return
        last = self._sorted()
        if not self._runs:
            write_output(last.text)
            return
        for text in _merged([*self._runs, last]):
            write_output(text)

    def _sorted(self) -> _Lines:
        """The lines that were taken since the last call."""
        zero = np.zeros(1, dtype=np.int64)
        clocks = np.concatenate([np.zeros(0, dtype=np.uint64), *self._clocks])
        held = _Lines(clocks, np.concatenate([zero, *self._ends]), memoryview(b"".join(self._texts)))
        self._texts, self._ends, self._clocks, self._size = [], [], [], 0
        return _by_clock([held])


def _by_clock(parts: Sequence[_Lines]) -> _Lines:
    """The lines of *parts*, in order."""
    clocks = np.concatenate([part.clocks for part in parts])
    order = np.argsort(clocks, kind="stable")
    arrays = [
        pa.Array.from_buffers(
            pa.large_binary(), len(part.clocks), [None, pa.py_buffer(part.offsets), pa.py_buffer(part.text)]
        )
        for part in parts
    ]
    lines = pa.concat_arrays(arrays).take(pa.array(order))
    _, offsets, text = lines.buffers()
    return _Lines(clocks[order], np.frombuffer(offsets, np.int64, len(order) + 1), memoryview(text or b""))


def _kept(lines: _Lines) -> _Lines:
    """The same lines in a file; it has gone when nobody has them any more."""
    with tempfile.TemporaryFile() as file:
        for part in (lines.clocks.tobytes(), lines.offsets.tobytes(), lines.text):
            file.write(part)
        file.flush()
        mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    count = len(lines.clocks)
    return _Lines(
        np.frombuffer(mapped, np.uint64, count),
        np.frombuffer(mapped, np.int64, count + 1, offset=8 * count),
        mapped[8 * (2 * count + 1) :],
    )


def _merged(runs: Sequence[_Lines]) -> Iterator[memoryview]:
    """Texts of the lines of all *runs*, in order; of equal clock values those of an earlier run come first."""
    places = [0] * len(runs)
    while True:
        waiting = [number for number, run in enumerate(runs) if places[number] < len(run.clocks)]
        if not waiting:
            return
        bound = min(
            runs[number].clocks[min(places[number] + MERGED_ROWS, len(runs[number].clocks)) - 1] for number in waiting
        )
        stops = [int(np.searchsorted(run.clocks, bound, "left")) for run in runs]
        below = [
            _Lines(run.clocks[place:stop], run.offsets[place : stop + 1], run.text)
            for run, place, stop in zip(runs, places, stops, strict=True)
            if place < stop
        ]
        if below:
            yield _by_clock(below).text
        # Any number of lines may have one clock value, as where a program has none.
        for number, run in enumerate(runs):
            start, stop = max(places[number], stops[number]), int(np.searchsorted(run.clocks, bound, "right"))
            for first in range(start, stop, MERGED_ROWS):
                yield run.part(first, min(first + MERGED_ROWS, stop))
            places[number] = max(places[number], stop)
