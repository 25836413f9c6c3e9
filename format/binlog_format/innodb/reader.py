"""The log of a MariaDB 12.3 server with `binlog_storage_engine=innodb`: `InnodbLog`."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, ClassVar

from binlog_format.errors import DataLossError, StartError
from binlog_format.events.query import ends_in_xid
from binlog_format.extents import read_extents
from binlog_format.format_traits import FORMAT_TRAITS, INNODB
from binlog_format.gtids.gtid import GtidPosition
from binlog_format.innodb.files import LogFiles
from binlog_format.innodb.groups.group_reader import GroupReader, group_tail, measure, read_heads
from binlog_format.innodb.gtid_state import file_gtids, read_state
from binlog_format.innodb.layout import FIRST_DATA_PAGE, PAGE_SIZE_DEFAULT
from binlog_format.innodb.log_end import check_file_end, end_position, used_size, written_page_count
from binlog_format.innodb.pages.pages import PageReader
from binlog_format.innodb.scanner import WINDOW_SIZE, CommitScanner
from binlog_format.log.log import Log
from binlog_format.log_format import NO_FILE_GTIDS, Bound, LogFile, Span
from binlog_format.position import Place, Position

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np

    from binlog_format.block import Block, Table
    from binlog_format.format_traits import FormatTraits
    from binlog_format.gtids.gtid import Gtid
    from binlog_format.gtids.gtid_set import GtidPoint
    from binlog_format.innodb.files import OpenFile
    from binlog_format.kernels import Bytes
    from binlog_format.log_format import FileGtids, Heads
    from binlog_format.source_file import Directory

HEADS_PAGES = 16
"""Pages read at a time when a group is looked for: it is mostly near."""


class InnodbLog(Log):
    """`binlog-NNNNNN.ibb` files.

    Args:
        only: Name of the one file to read. Records that go on in the next file are read to their end, and out-of-band
            data is taken from where it is.
    """

    format_name: ClassVar[str] = INNODB
    traits: ClassVar[FormatTraits] = FORMAT_TRAITS[INNODB]

    def __init__(self, directory: Directory, only: str | None = None, *, bound: Bound = Bound.VISIBLE) -> None:
        self.bound = bound
        self.path = directory.path if only is None else f"{directory.path.rstrip('/')}/{only}"
        self._files = LogFiles(directory, only)
        self._reader = PageReader(self._files, check_file_end)

    def files(self) -> list[LogFile]:
        """The files that are there now, by number."""
        self._files.refresh()
        found = []
        for file_no in self._files.numbers():
            size = self._files.size(file_no)
            if size is None:
                continue  # purged between the listing and now
            file = self._files.begun(file_no)
            if file is None:
                found.append(LogFile(file_no, self._files.name(file_no), size, "empty", 0, {}))
                continue
            is_final = self._files.begun(file_no + 1) is not None
            used = size if is_final else used_size(self._reader, file)
            is_full = used >= size - size % file.page_size
            state = "full" if is_full else "active"
            found.append(LogFile(file_no, file.name, size, state, size if is_full else used, _fields(file)))
        return found

    def file_gtids(self, files: Sequence[LogFile]) -> list[FileGtids]:
        """See `Log`: the first and the last state record of each."""
        begun = [(self._files.begun(described.file_no), described.used_size) for described in files]
        return [NO_FILE_GTIDS if file is None else file_gtids(self._reader, file, size) for file, size in begun]

    def file_sizes(self, first: int, stop: int) -> dict[int, int]:
        """See `Log`."""
        sizes = {number: self._files.size(number) for number in self._files.numbers() if first <= number < stop}
        return {number: size for number, size in sizes.items() if size is not None}

    def size_before(self, position: Position) -> int:
        """See `Log`; the page that is being filled counts."""
        file = self._files.begun(position.file_no)
        return (position.page + 1) * (PAGE_SIZE_DEFAULT if file is None else file.page_size)

    def start_position(self) -> Position:
        """The earliest position that is still there."""
        return Position(self._numbers()[0], FIRST_DATA_PAGE, 0)

    def gtid_position_at(self, position: Position) -> GtidPoint:
        """The last GTID of each domain before *position*: the full state of its file, and what was committed since.

        The differential states are not used: after a restart of the server they are incomplete.
        """
        self._files.refresh()
        for file_no in reversed([number for number in self._numbers() if number <= position.file_no]):
            file = self._files.begun(file_no)
            state = None if file is None else read_state(self._reader, file)
            if state is not None:
                start = Position(file_no, FIRST_DATA_PAGE, 0)
                span = measure(self._reader, CommitScanner(self._reader, start, position), start, None)
                return state.position().advanced_by(span.gtids)
        return GtidPosition({})

    def file_starts(self) -> list[Position]:
        """See `Log`."""
        self._files.refresh()
        numbers = self._within_bound(self._numbers())
        while numbers and self._files.begun(numbers[-1]) is None:
            numbers.pop()
        return [Position(number, FIRST_DATA_PAGE, 0) for number in numbers]

    def listed_gtids(self, place: Position) -> tuple[Gtid, ...] | None:
        """See `Log`: the state record at the start of a page."""
        file = self._files.begun(place.file_no)
        state = None if file is None else read_state(self._reader, file, place.page)
        return None if state is None else state.gtids

    def places_of_lists(self, start: Position) -> Sequence[Position]:
        """See `Log`: pages at the header's interval."""
        file = self._files.begun(start.file_no)
        interval = 0 if file is None else file.header.state_interval
        if file is None or interval == 0:
            return ()
        # A fresh server reports bytes where pages are meant: then there is no such page in the file.
        return [Position(start.file_no, page, 0) for page in range(interval, written_page_count(file), interval)]

    def heads(self, start: Position, end: Position | None) -> Iterator[Heads]:
        """See `Log`."""
        file = self._files.begun(start.file_no)
        size = WINDOW_SIZE if file is None else HEADS_PAGES * file.page_size
        scanner = self._scanner(start, end, window_size=size)
        return iter(()) if scanner is None else read_heads(self._reader, scanner)

    def end_position(self) -> Position:
        """The present end of `blocks`, searched from the end of the log."""
        self._files.refresh()
        end = end_position(self._reader, self._within_bound(self._numbers()))
        range_end = self._range_end()
        return end if range_end is None else min(end, range_end)

    def can_start_at(self, position: Position) -> bool:
        """See `Log`: at every chunk."""
        if position > self.end_position():
            return False
        scanner = self._scanner(position, Position(position.file_no, max(position.page, FIRST_DATA_PAGE) + 1, 0))
        try:
            next(iter(() if scanner is None else scanner.windows()), None)
        except StartError:
            return False
        return True

    def span(self, start: Position, *, end: Position | None = None, size_max: int | None = None) -> Span:
        """Measure what is there from *start* on: pages are scanned, events are not joined."""
        scanner = self._scanner(start, end)
        if scanner is None:
            return Span(start, 0, 0, GtidPosition({}), None)
        return measure(self._reader, scanner, start, size_max)

    def split(self, start: Position, end: Position, count: int) -> list[Position]:
        """Page starts that cut [*start*, *end*) into up to *count* parts with about as many pages each."""
        stretches = [
            (file_no, pages)
            for file_no in self._numbers()
            if start.file_no <= file_no <= end.file_no and (pages := self._pages_between(file_no, start, end))
        ]
        total = sum(len(pages) for _, pages in stretches)
        cuts = (part * total // count for part in range(1, count))
        found = {_page_at(stretches, cut) for cut in cuts if cut > 0}
        return sorted(position for position in found if start < position < end)

    def blocks(
        self, start: Position | None = None, end: Position | None = None, *, skips_purged: bool = False
    ) -> Iterator[Block]:
        """Read the groups whose commit record starts in [*start*, *end*).

        The last block can be empty: its `next_position` tells how far reading has come, over records that are no
        groups. When *end* has been reached it is not before *end*; else the data end before it.

        Args:
            start: See `LogFormat.blocks`.
            end: See there.
            skips_purged: See there: of a large transaction whose out-of-band data began in a file that is gone.
        """
        scanner = self._scanner(self.start_position() if start is None else start, end)
        if scanner is not None:
            yield from GroupReader(self._reader, scanner, skips_purged=skips_purged).blocks()

    def read_extents(self, extents: Table) -> Bytes:
        """Join the bytes of *extents*; checksums are not verified."""
        self._files.refresh()
        return read_extents(extents, lambda file_no: nullcontext(self._files.existing(file_no).source))

    def ends_committed(self, group: np.void) -> bool:
        """See `Log`; reads the last record of the group."""
        return ends_in_xid(group_tail(self._reader, int(group["file_no"]), int(group["file_offset"])))

    def close(self) -> None:
        """Close all files."""
        self._files.close()

    def _numbers(self) -> list[int]:
        numbers = self._files.numbers()
        if not numbers:
            raise StartError(
                "NO_LOG_FILES",
                f"{self.path}: there are no binlog files any more",
                hint="The server has removed them, or the directory was emptied",
            )
        return numbers

    def _scanner(
        self, start: Position, end: Position | None, *, window_size: int = WINDOW_SIZE
    ) -> CommitScanner | None:
        """A scanner over files as they are now; None when the first file is not there yet."""
        self._files.refresh()
        if end is not None and end < start:
            raise StartError("START_AFTER_END", f"the range ends at {end}, before its start {start}")
        numbers = self._numbers()
        if start.file_no not in numbers:
            if start == Position(numbers[-1] + 1, min(start.page, FIRST_DATA_PAGE), 0):
                return None
            at = Place(self._files.path(start.file_no))
            if start.file_no > numbers[-1]:
                raise StartError(
                    "POSITION_NOT_FOUND",
                    f"position {start}: the last file is {self._files.name(numbers[-1])}",
                    at=at,
                    hint="The log may have been begun anew (RESET MASTER)",
                )
            raise DataLossError(
                "FILE_PURGED",
                f"position {start}: the file is not there; the first one is {self._files.name(numbers[0])}",
                at=at,
                hint="The server has purged it; start from the earliest position, or bring the file back",
            )
        range_end = self._range_end()
        if range_end is not None:
            if start >= range_end and self.bound is not Bound.VISIBLE:
                return None
            end = range_end if end is None else min(end, range_end)
        return CommitScanner(self._reader, start, end, window_size=window_size)

    def _range_end(self) -> Position | None:
        """The position where reading has to stop, even if more can be read."""
        ends = []
        if self._files.only is not None:
            ends.append(Position(self._files.only + 1, 0, 0))
        if self.bound is Bound.SEALED:
            # The server makes file N+2 when N is on disk and cannot be taken back.
            first = self._files.last_number() - self.traits.unsealed_files + 1
            ends.append(Position(max(first, 0), FIRST_DATA_PAGE, 0))
        return min(ends, default=None)

    def _within_bound(self, numbers: list[int]) -> list[int]:
        """The *numbers* of files that may be read; always includes the first one."""
        end = self._range_end()
        return numbers if end is None else [number for number in numbers if number < end.file_no] or numbers[:1]

    def _pages_between(self, file_no: int, start: Position, end: Position) -> range:
        """Data pages of a file that lie in [*start*, *end*)."""
        file = self._files.begun(file_no)
        if file is None:
            return range(0)
        first = max(start.page, FIRST_DATA_PAGE) if file_no == start.file_no else FIRST_DATA_PAGE
        after = end.page + (1 if end.chunk > 0 else 0)
        count = file.page_count()
        return range(first, min(after, count) if file_no == end.file_no else count)


def _page_at(stretches: list[tuple[int, range]], index: int) -> Position:
    """The start of page *index* of all pages together."""
    for file_no, pages in stretches:
        if index < len(pages):
            return Position(file_no, pages[index], 0)
        index -= len(pages)
    raise IndexError(index)


def _fields(file: OpenFile) -> dict[str, object]:
    header = file.header
    return {
        "version": f"{header.version_major}.{header.version_minor}",
        "page_size": header.page_size,
        "page_count": header.page_count,
        "lsn": header.lsn,
        "state_interval": header.state_interval,
        "oob_reference_file_no": header.oob_reference_file_no,
        "xa_reference_file_no": header.xa_reference_file_no,
    }
