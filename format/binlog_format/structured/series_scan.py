"""One pass over the files of a structured log, in the order in which they were written: `SeriesScan`, `SoundScan`."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Generic

from binlog_format.errors import CorruptError, StartError
from binlog_format.position import BEFORE_ALL, Place, Position, byte_of, position_of
from binlog_format.structured.file_scan import METADATA_SIZES_MIN, NO_LIMIT, Made, StructuredFileScan, damaged_entry
from binlog_format.structured.files.head import FileRange
from binlog_format.structured.layout import ENTRY_HEAD_SIZE, METADATA_BIT, SIZE_STRUCT, TAG_STRUCT
from binlog_format.structured.scan import EntryScanner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_format.structured.file_scan import Cutter, OnDamage
    from binlog_format.structured.files.file_list import Series, SeriesFile
    from binlog_format.structured.metadata import LogState


class SeriesScan(Generic[Made]):
    """Reads the entries whose position is in [*start*, *end*).

    Args:
        series: The files, as they were listed before reading starts: the end of one that is not the newest is final.
        cutter: Has come to *start*.
        start: Where an entry begins.
        end: None: the end of the log.
        block_size: Bytes to read at a time.
        on_damage: See `StructuredFileScan`.

    Attributes:
        end: Where the next read starts, once `blocks` has ended.
        unfinished: See `StructuredFileScan`; of the file of *end*.
    """

    def __init__(
        self,
        series: Series,
        cutter: Cutter[Made],
        start: Position,
        end: Position | None,
        *,
        block_size: int,
        on_damage: OnDamage | None = None,
    ) -> None:
        self._series = series
        self._cutter = cutter
        self._start = start
        self._limit = end
        self._block_size = block_size
        self._on_damage = on_damage
        self.end = start
        self.unfinished = b""

    def blocks(self) -> Iterator[tuple[SeriesFile, Made]]:
        """Read file after file; each block with the file that it is of."""
        numbers = self._numbers()
        for index, file_no in enumerate(numbers):
            if self._limit is not None and Position(file_no, 0, 0) >= self._limit:
                return
            is_limited = self._limit is not None and self._limit.file_no == file_no
            with closing(self._series.open(file_no)) as source:
                scan = StructuredFileScan(
                    source,
                    file_no,
                    self._cutter,
                    start=self._start_in(file_no, source.size()),
                    limit=byte_of(self._limit) if self._limit is not None and is_limited else NO_LIMIT,
                    block_size=self._block_size,
                    on_damage=self._on_damage,
                )
                for block in scan.blocks():
                    self.end = position_of(file_no, scan.stopped_at)
                    yield self._series.begun[file_no], block
                self.end, self.unfinished = position_of(file_no, scan.stopped_at), scan.unfinished
            # What is not whole at the end of an older file is what a killed program left of an entry.
            if not is_limited and index + 1 < len(numbers):
                self.end, self.unfinished = Position(numbers[index + 1], 0, 0), b""

    def _numbers(self) -> list[int]:
        """Numbers of the files from *start* on."""
        begun = self._series.begun
        if self._start.file_no in begun or self._start == BEFORE_ALL:
            return [number for number in begun if number >= self._start.file_no]
        at = Place(self._series.path)
        if not begun or self._start.file_no > max(begun):
            raise StartError(
                "POSITION_NOT_FOUND",
                f"position {self._start}: no file of the log was begun at that time, or later",
                at=at,
                hint="It is a position of another log, or the newest files have been removed",
            )
        raise self._series.purged(self._start.file_no)

    def _start_in(self, file_no: int, size: int) -> int:
        start = byte_of(self._start) if self._start.file_no == file_no else 0
        if start > size:
            raise StartError(
                "POSITION_NOT_FOUND",
                f"the file has {size:,} bytes, reading was to start at byte {start:,}",
                at=Place(self._series.directory.path_of(self._series.begun[file_no].name), byte=start),
                hint="The file was cut, or is another one",
            )
        return start


_ENTRY_MAX = 1 << 26
"""Entries that claim more are waited for before the one in front of them is given."""


class SoundScan(SeriesScan[FileRange]):
    """Finds the ends of entries, and holds back the last one before damage, or before an unfinished one in doubt.

    A program that is killed while it writes an entry leaves a part of it. Where another one appends to the file, that
    entry takes its missing bytes from what follows, and seems whole: only what comes after it shows that it is not.
    """

    def blocks(self) -> Iterator[tuple[SeriesFile, FileRange]]:
        """See `SeriesScan`."""
        held: tuple[SeriesFile, FileRange] | None = None
        try:
            for file, stretch in super().blocks():
                if held is not None:
                    yield held
                held = file, stretch.kept()
            is_entry = held is None or not self._is_last(*held) or self._may_be_entry(*held)
        except CorruptError:
            if held is not None:
                yield from self._sound(*held)
            raise
        if held is not None and is_entry:
            yield held
        elif held is not None:
            yield from self._sound(*held)

    def _is_last(self, file: SeriesFile, stretch: FileRange) -> bool:
        return self.end == position_of(file.file_no, stretch.end)

    def _may_be_entry(self, file: SeriesFile, before: FileRange) -> bool:
        """True if what is unfinished after the entries *before* may be an entry of a kind that is known."""
        head = self.unfinished
        if len(head) < ENTRY_HEAD_SIZE:
            return True
        (size,) = SIZE_STRUCT.unpack_from(head)
        if len(head) < ENTRY_HEAD_SIZE + TAG_STRUCT.size:
            return bool(size <= _ENTRY_MAX)
        (tag,) = TAG_STRUCT.unpack_from(head, ENTRY_HEAD_SIZE)
        if tag >= METADATA_BIT:
            return tag in METADATA_SIZES_MIN
        wrong = None if before.has_events_of(tag) else self._scanned(file, before)[1].check_incomplete(head, size)
        if wrong is not None:
            raise damaged_entry(*wrong, Place(self._series.directory.path_of(file.name), byte=before.end))
        return True

    def _sound(self, file: SeriesFile, stretch: FileRange) -> Iterator[tuple[SeriesFile, FileRange]]:
        """The entries before damage without the last one."""
        if not self._is_last(file, stretch):
            yield file, stretch
            return
        size, _ = self._scanned(file, stretch)
        sound = stretch.sound(stretch.start + size)
        self.end = position_of(file.file_no, stretch.start if sound is None else sound.end)
        if sound is not None:
            yield file, sound

    def _scanned(self, file: SeriesFile, stretch: FileRange) -> tuple[int, EntryScanner]:
        """Bytes of *stretch* up to the first event whose source has not been defined, and what has read them."""
        start = position_of(file.file_no, stretch.start)
        scanner = EntryScanner(state_at(self._series, start, self._block_size))
        data = stretch.data[: stretch.end - stretch.start]
        return scanner.cut(data, file_no=file.file_no, file_offset=stretch.start, path=file.name).at, scanner


def state_at(series: Series, position: Position, block_size: int) -> LogState:
    """The metadata in force at *position*; damage before it is passed over."""
    scanner = EntryScanner(is_missing_ok=True)
    start = Position(min(series.begun), 0, 0) if series.begun else BEFORE_ALL
    for _ in SeriesScan(series, scanner, start, position, block_size=block_size, on_damage=lambda *_: None).blocks():
        continue
    return scanner.state
