"""Lines in the order of time: `SortedSink`, of a log that has an end; `WindowSink`, of any."""

from __future__ import annotations

import mmap
import tempfile
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from binlog_format.messages import count_text
from binlog_format.structured.event_log import carried_times, event_times
from binlog_format.structured.layout import NS_PER_SECOND
from binlog_format.structured.view import HELD_SIZE_MAX, chosen
from binlog_streaming.cli.logs.bread.streams import PAUSE_SECONDS, BreadSink, LogDamage, event_lines
from binlog_streaming.cli.output import write_output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from binlog_format.position import Place
    from binlog_format.structured.event_filter import EventFilter
    from binlog_format.structured.event_log import LogBlock
    from binlog_format.structured.text.lines import Lines, LineWriter
    from binlog_streaming.cli.logs.bread.streams import OnDamage

RUN_SIZE = 32 << 20
"""Bytes of lines that are sorted in memory; more are sorted in parts, in a file that has no name."""
MERGED_ROWS = 1 << 16
"""Lines of each part that are merged at a time."""

_EVER = np.iinfo(np.int64).max

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


class _Gathered:
    """Lines as they come; *size* bytes of them."""

    def __init__(self) -> None:
        self._texts: list[bytes] = []
        self._ends: list[_Int64s] = []
        self._clocks: list[_UInt64s] = []
        self.size = 0

    def add(self, lines: Lines, clocks: _UInt64s) -> None:
        """Add whole lines; *clocks*: of all events of their block."""
        if not len(lines.ends):
            return
        self._texts.append(bytes(lines.text[: lines.ends[-1]]))
        self._ends.append(lines.ends + self.size)
        self._clocks.append(clocks[lines.first_row : lines.next_row].copy())
        self.size += len(self._texts[-1])

    def taken(self) -> _Lines:
        """The lines that were added since the last call."""
        offsets = np.concatenate([np.zeros(1, dtype=np.int64), *self._ends])
        clocks = np.concatenate([np.zeros(0, dtype=np.uint64), *self._clocks])
        text = memoryview(b"".join(self._texts))
        self._texts, self._ends, self._clocks, self.size = [], [], [], 0
        return _Lines(clocks, offsets, text)


class SortedSink(BreadSink):
    """Lines on standard output when all have come, by clock value; of equal ones in the order of the log.

    Memory is bounded: from `RUN_SIZE` on, sorted parts wait in temporary files.
    """

    def __init__(self, writer: LineWriter, on_damage: OnDamage | None) -> None:
        self._writer = writer
        self._on_damage = on_damage
        self._gathered = _Gathered()
        self._runs: list[_Lines] = []

    def take(self, block: LogBlock) -> None:
        """Keep the lines of a block."""
        for lines in event_lines(self._writer, block, self._on_damage):
            if lines.damage is not None and self._on_damage is None:
                raise LogDamage(str(lines.damage))
            self._gathered.add(lines, block.events["clock"])
            if self._gathered.size >= RUN_SIZE:
                self._runs.append(_kept(_by_clock([self._gathered.taken()])))

    def finish(self) -> None:
        """Write them."""
        last = _by_clock([self._gathered.taken()])
        for text in _merged([*self._runs, last]) if self._runs else (last.text,):
            write_output(text)


class WindowSink(BreadSink):
    """Lines on standard output in the order of time, each when a time *window_ns* after its own has been read.

    An event without a time stays after the one before it. If nothing comes for as long as the window, all lines are
    written.

    Args:
        wanted: Which events are written; the time goes on with others, too.
        complain: Called at the end if events came when later ones had been written.
    """

    def __init__(
        self,
        writer: LineWriter,
        window_ns: int,
        wanted: EventFilter,
        complain: Callable[[str], None],
        on_damage: OnDamage | None,
    ) -> None:
        self._writer = writer
        self._window_ns = window_ns
        self._wanted = wanted
        self._complain = complain
        self._on_damage = on_damage
        self._held = _Gathered().taken()
        self._gathered = _Gathered()
        self._oldest: int | None = None
        self._newest = self._last = self._written = 0
        self._taken_at = 0.0
        self._late = _Late()

    def take(self, block: LogBlock) -> None:
        """Keep the lines of a block, and write those that nothing can precede any more."""
        ns, has_time = event_times(block)
        self._newest = int(ns[has_time].max(initial=self._newest))
        found = chosen(block, self._wanted)
        if len(found.events):
            self._keep(found)
        self._taken_at = time.monotonic()
        if self._oldest is None:
            return
        # Not for each line: all that wait are moved.
        if self._newest - self._oldest >= self._window_ns + self._window_ns // 8:
            self._write(self._newest - self._window_ns)
        elif not self._newest:
            self._write(_EVER)
        if len(self._held.part(0, len(self._held.clocks))) + self._gathered.size > HELD_SIZE_MAX:
            self._write(None)

    def pause(self) -> float:
        """Write all lines, if nothing has come for as long as the window."""
        left = self._window_ns / NS_PER_SECOND - (time.monotonic() - self._taken_at)
        if left <= 0:
            self._write(_EVER)
            self._newest = 0  # a clock that was far ahead does not count for ever
        return min(left, PAUSE_SECONDS) if left > 0 else PAUSE_SECONDS

    def finish(self) -> None:
        """Write all lines, and tell what came too late."""
        self._write(_EVER)
        if self._late.count:
            self._complain(f"[bread] Warning: {self._late.told()}")

    def _keep(self, block: LogBlock) -> None:
        ns, has_time = event_times(block)
        times = np.maximum(carried_times(ns, has_time, self._last), 0)
        self._last = int(times[-1])
        self._late.look(block, np.where(has_time, self._written - times, 0))
        self._oldest = int(times.min(initial=_EVER if self._oldest is None else self._oldest))
        for lines in event_lines(self._writer, block, self._on_damage):
            self._gathered.add(lines, times.astype(np.uint64))
            if lines.damage is not None and self._on_damage is None:
                self._write(_EVER)
                write_output(lines.text[lines.ends[-1] if len(lines.ends) else 0 :])
                raise LogDamage(str(lines.damage))

    def _write(self, last: int | None) -> None:
        """Write the lines up to a time; None: the older half of them."""
        lines = _by_clock([self._held, self._gathered.taken()])
        clocks = lines.clocks
        count = len(clocks) // 2 if last is None else int(np.searchsorted(clocks, np.uint64(last), "right"))
        self._held = _Lines(clocks[count:], lines.offsets[count:], lines.text)
        self._oldest = int(clocks[count]) if count < len(clocks) else None
        if count:
            self._written = max(self._written, int(clocks[count - 1]))
            write_output(lines.part(0, count))


@dataclass(slots=True)
class _Late:
    """Events that came when later ones had been written."""

    count: int = 0
    first: Place | None = None
    most_ns: int = 0

    def look(self, block: LogBlock, late_ns: _Int64s) -> None:
        """Count those of a block; *late_ns*: how much later what has been written is."""
        rows = np.flatnonzero(late_ns > 0)
        if not len(rows):
            return
        if self.first is None:
            self.first = block.place(int(block.events["start"][rows[0]]))
        self.count += len(rows)
        self.most_ns = max(self.most_ns, int(late_ns.max()))

    def told(self) -> str:
        return (
            f"{count_text(self.count, 'event')} came too late to be sorted: printed after later ones, by up to "
            f"{self.most_ns / NS_PER_SECOND:.3g} s; the first: {self.first}. A longer --sort-window puts more in order"
            f" (it holds {HELD_SIZE_MAX >> 20} MiB of lines), and -s all of a log that has an end"
        )


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
