"""The files of a C++ program's structured log as one log: `StructuredLog`."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.block import BLOCK_SIZE
from binlog_format.format_traits import FORMAT_TRAITS, STRUCTURED
from binlog_format.gtids.gtid_set import NO_GTIDS
from binlog_format.log_format import LogFile, Span
from binlog_format.position import BEFORE_ALL, Position, byte_of, position_of
from binlog_format.structured.event_log import EventLog, FoundDamage, ns_of
from binlog_format.structured.file_scan import StructuredFileScan
from binlog_format.structured.files.file_list import list_series
from binlog_format.structured.files.head import EntryWalker
from binlog_format.structured.layout import ENTRY_HEAD_SIZE, NS_PER_SECOND, SIZE_STRUCT
from binlog_format.structured.scan import EntryScanner
from binlog_format.structured.series_scan import SeriesScan, SoundScan, state_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_format.errors import CorruptError
    from binlog_format.source_file import Directory, SourceFile
    from binlog_format.structured.event_log import LogBlock
    from binlog_format.structured.file_scan import OnDamage
    from binlog_format.structured.files.file_list import Series, SeriesFile
    from binlog_format.structured.metadata import ClockSync, LogState


class _DamageFoundError(Exception):
    """Ends a scan at damage."""

    def __init__(self, error: CorruptError, go_on: int) -> None:
        super().__init__(error)
        self.error = error
        self.go_on = go_on


class StructuredLog(EventLog):
    """Files that a program wrote with the library, one after the other: the present one, and those rotated away.

    A file's number is the wall time of its first event, so it stays the same whatever the file is called. A file
    without an event has no number yet: nothing of it can be read. In the newest file an entry whose end is not there is
    *not there yet*; in an older one it is what a killed program left.

    Args:
        only: Name of the one file to read, or a pattern of names; None: all structured logs there are one program's.
        block_size: Bytes to read at a time; blocks are about so large.

    Attributes:
        directory_path: The directory, also when *only* some files of it are read.
    """

    format_name = STRUCTURED
    traits = FORMAT_TRAITS[STRUCTURED]

    def __init__(self, directory: Directory, only: str | None = None, *, block_size: int = BLOCK_SIZE) -> None:
        self.path = directory.path if only is None else directory.path_of(only)
        self.directory_path = directory.path
        self._directory = directory
        self._only = only
        self._block_size = block_size
        self._list()

    def files(self) -> list[LogFile]:
        """The files as they were written; each is walked to its end."""
        series = self._list()
        newest = max(series.begun, default=-1)
        begun = [self._describe(series, file, is_newest=file.file_no == newest) for file in series.begun.values()]
        return begun + [LogFile(file.file_no, file.name, file.size, "empty", 0, {}) for file in series.unwritten]

    def file_sizes(self, first: int, stop: int) -> dict[int, int]:
        """See `Log`."""
        return {number: file.size for number, file in self._list().begun.items() if first <= number < stop}

    def start_position(self) -> Position:
        """The start of the oldest file; of a log without an event, before all files."""
        begun = self._list().begun
        return Position(min(begun), 0, 0) if begun else BEFORE_ALL

    def file_starts(self) -> list[Position]:
        """See `Log`."""
        return [Position(number, 0, 0) for number in self._list().begun]

    def end_position(self) -> Position:
        """See `Log`: walks the newest file."""
        begun = self._list().begun
        return self.span(Position(max(begun), 0, 0)).end if begun else self.start_position()

    def can_start_at(self, position: Position) -> bool:
        """See `Log`: walks the file up to *position*."""
        scan = self._walk(Position(position.file_no, 0, 0), position)
        for _ in scan.blocks():
            continue
        return scan.end == position

    def span(self, start: Position, *, end: Position | None = None, size_max: int | None = None) -> Span:
        """Measure from *start* on; a group is an event.

        Sources are not looked for: an event that lacks its own is found by `entries`.
        """
        span = Span(start, 0, 0, NO_GTIDS, None)
        clock_sync, file_no = None, -1
        scan = self._walk(start, end)
        for file, stretch in scan.blocks():
            if file.file_no != file_no:
                clock_sync, file_no = file.head.clock_sync, file.file_no
            clock_sync = stretch.clock_sync or clock_sync
            size, events = stretch.end - stretch.start, stretch.events
            is_cut = size_max is not None and span.size + size > size_max
            if size_max is not None and is_cut:
                size, events = stretch.fitting(size_max - span.size, events_min=0 if span.groups else 1)
            span = replace(
                span,
                end=position_of(file.file_no, stretch.start + size),
                groups=span.groups + events,
                size=span.size + size,
                last_timestamp=_seconds(stretch.clock(events - 1), clock_sync) if events else span.last_timestamp,
            )
            if is_cut and span.groups:
                return span
        return replace(span, end=scan.end)

    def split(self, start: Position, end: Position, count: int) -> list[Position]:
        """Cut at the first entry after each equal share of the bytes; walks them once."""
        sizes = self.file_sizes(start.file_no, end.file_no)
        total = sum(sizes.values()) - byte_of(start) + byte_of(end)
        targets = [number * total // count for number in range(1, count)]
        cuts: list[Position] = []
        passed = 0
        for file, stretch in self._walk(start, end).blocks():
            within = stretch.starts - stretch.start + passed
            rows = {int(row) for row in np.searchsorted(within, targets) if row < len(within)}
            passed += stretch.end - stretch.start
            cuts += [position_of(file.file_no, int(stretch.starts[row])) for row in sorted(rows)]
            targets = [target for target in targets if target >= passed]
        return [cut for cut in dict.fromkeys(cuts) if start < cut < end]

    def state_at(self, position: Position) -> LogState:
        """The metadata in force at *position*: walks all that is there before it, decodes nothing.

        Damage before it is passed over: an event of a source that was defined there is named when it is read.
        """
        return state_at(self._list(), position, self._block_size)

    def first_damage(self, start: Position, state: LogState | None = None) -> FoundDamage | None:
        """See `EventLog`: reads as `entries` does, from file to file."""
        series = self._list()
        scanner = EntryScanner(self.state_at(start) if state is None else state)
        event_count = 0

        def stop(error: CorruptError, go_on: int) -> None:
            raise _DamageFoundError(error, go_on)

        for file_no in (number for number in series.begun if number >= start.file_no):
            begin = byte_of(start) if file_no == start.file_no else 0
            with closing(series.open(file_no)) as source:
                scan = StructuredFileScan(
                    source, file_no, scanner, start=begin, block_size=self._block_size, on_damage=stop
                )
                last, before, after = None, scanner.state, scanner.state
                try:
                    for block in scan.blocks():
                        event_count += len(block.events)
                        last, before, after = block, after, block.state_after
                except _DamageFoundError as found:
                    go_on = position_of(file_no, found.go_on)
                    at = begin if last is None else last.file_offset + len(last.data)
                    if last is None or _ends_at(source, at, found.go_on):
                        return FoundDamage(found.error, position_of(file_no, at), go_on, event_count, after)
                    sound = EntryScanner(before)
                    rest = _sound_size(last)
                    cut = sound.cut(last.data[:rest], file_no=file_no, file_offset=last.file_offset, path=last.path)
                    event_count -= len(last.events) - (0 if cut.block is None else len(cut.block.events))
                    position = position_of(file_no, last.file_offset + rest)
                    return FoundDamage(found.error, position, go_on, event_count, sound.state)
        return None

    def entries(
        self,
        start: Position | None = None,
        end: Position | None = None,
        state: LogState | None = None,
        *,
        on_damage: OnDamage | None = None,
    ) -> Iterator[LogBlock]:
        """See `Log`."""
        begin = start or self.start_position()
        scanner = EntryScanner(self.state_at(begin) if state is None else state)
        scan = SeriesScan(self._list(), scanner, begin, end, block_size=self._block_size, on_damage=on_damage)
        for _, block in scan.blocks():
            yield block

    def close(self) -> None:
        """Do nothing: no file stays open."""

    def _list(self) -> Series:
        return list_series(self._directory, self._only)

    def _walk(self, start: Position, end: Position | None) -> SoundScan:
        return SoundScan(self._list(), EntryWalker(), start, end, block_size=self._block_size)

    def _describe(self, series: Series, file: SeriesFile, *, is_newest: bool) -> LogFile:
        damaged = 0

        def count_damage(_error: CorruptError, _until: int) -> None:
            nonlocal damaged
            damaged += 1

        scanner = EntryScanner(is_missing_ok=True)
        events, last = 0, None
        with closing(series.open(file.file_no)) as source:
            scan = StructuredFileScan(
                source, file.file_no, scanner, block_size=self._block_size, on_damage=count_damage
            )
            for block in scan.blocks():
                events += len(block.events)
                if len(block.events):
                    event = block.events[-1]
                    last = _seconds(int(event["clock"]), block.clock_syncs[event["clock_sync"]])
            size = source.size()
        clock_sync = scanner.state.clock_sync
        header: dict[str, object] = {
            "timestamp": file.file_no // NS_PER_SECOND,
            "last_timestamp": last,
            "events": events,
            "sources": len(scanner.state.sources),
            "clock_frequency": clock_sync.frequency or None,
            "time_zone": clock_sync.tz_name.decode(errors="replace") or None,
        }
        if damaged:
            header["damaged_places"] = damaged
        return LogFile(file.file_no, file.name, size, "active" if is_newest else "full", scan.stopped_at, header)


def _ends_at(source: SourceFile, entry: int, end: int) -> bool:
    """True if the damaged entry at byte *entry* has a size that leads to *end*, so that those around it are whole."""
    head = np.zeros(ENTRY_HEAD_SIZE, dtype=np.uint8)
    source.read_into(entry, head)
    (size,) = SIZE_STRUCT.unpack_from(head.data)
    return entry + ENTRY_HEAD_SIZE + int(size) == end


def _sound_size(block: LogBlock) -> int:
    """Bytes of the entries that damage after the block leaves beyond doubt."""
    stretch = EntryWalker().cut(block.data, file_no=block.file_no, file_offset=0, path=block.path).block
    sound = None if stretch is None else stretch.sound(len(block.data))
    return 0 if sound is None else sound.end


def _seconds(clock: int, clock_sync: ClockSync | None) -> int | None:
    ns = None if clock_sync is None else ns_of(clock, clock_sync)
    return None if ns is None else ns // NS_PER_SECOND
