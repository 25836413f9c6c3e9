"""One pass over the files of a structured log, in the order in which they were written: `SeriesScan`."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Generic

from binlog_format.errors import StartError
from binlog_format.position import BEFORE_ALL, Place, Position
from binlog_format.structured.file_scan import NO_LIMIT, Made, StructuredFileScan
from binlog_format.structured.positions import byte_of, position_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_format.structured.file_scan import Cutter, OnDamage
    from binlog_format.structured.files.file_list import Series, SeriesFile


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

    def blocks(self) -> Iterator[tuple[SeriesFile, Made]]:
        """Read file after file; each block with the file that it is of.

        Raises:
            CorruptError: `BAD_ENTRY`.
            DataLossError: `FILE_PURGED`: the file of *start*, or one after it, is not there any more.
            StartError: `POSITION_NOT_FOUND`: *start* is after the end of its file, or of the log.
        """
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
                self.end = position_of(file_no, scan.stopped_at)
            # What is not whole at the end of an older file is what a killed program left of an entry.
            if not is_limited and index + 1 < len(numbers):
                self.end = Position(numbers[index + 1], 0, 0)

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
