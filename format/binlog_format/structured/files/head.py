"""The start of a structured log's file, which tells what it is and when it was begun: `read_head`.

Search for the entries of a file without earlier definitions: `EntryWalker`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

import crc32c
import numpy as np

from binlog_format.block import BLOCK_SIZE
from binlog_format.errors import CorruptError
from binlog_format.kernels import empty_bytes
from binlog_format.structured.event_log import ns_of
from binlog_format.structured.file_scan import (
    ENTRIES_IN_A_ROW,
    METADATA_SIZE_MAX,
    METADATA_SIZES_MIN,
    Cut,
    StructuredFileScan,
    check_size,
    find_entries_in_file,
)
from binlog_format.structured.files.entry_kernels import find_entries, walk_entries
from binlog_format.structured.layout import (
    ENTRY_HEAD_SIZE,
    EVENT_SIZE_MIN,
    EVENT_STRUCT,
    METADATA_BIT,
    SIZE_STRUCT,
    SOURCE_TAG,
    TAG_STRUCT,
    WRITER_SIZE_MIN,
)
from binlog_format.structured.metadata import ClockSync, ShortEntryError, read_metadata
from binlog_format.structured.scan import IdTable
from binlog_format.structured.scan_kernels import EntryStop

if TYPE_CHECKING:
    from binlog_format.kernels import Bytes, Int64s, Uint64s
    from binlog_format.source_file import SourceFile

_ENTRY_MIN = ENTRY_HEAD_SIZE + TAG_STRUCT.size
_ROWS_MAX = BLOCK_SIZE // _ENTRY_MIN + 1


@dataclass(frozen=True, slots=True)
class FileRange:
    """Whole entries of a file.

    Attributes:
        start: Byte of the file where the first one begins.
        end: After the last one.
        starts: Of each entry, in the file; valid until the next stretch is made, as *counts*.
        counts: Events before each entry, from *start* on.
        clock_sync: The last one; None: there is none.
    """

    start: int
    end: int
    starts: Int64s
    counts: Int64s
    events: int
    clock_sync: ClockSync | None
    data: Bytes

    def fitting(self, size: int, *, events_min: int) -> tuple[int, int]:
        """Bytes of the entries at the start that fit into *size*, or that hold *events_min*; and their events."""
        row = int(np.searchsorted(self.starts, self.start + size, side="right")) - 1
        row = max(row, int(np.searchsorted(self.counts, events_min)))
        if row >= len(self.starts):
            return self.end - self.start, self.events
        return int(self.starts[row]) - self.start, int(self.counts[row])

    def kept(self) -> FileRange:
        """The same, valid longer."""
        return replace(self, starts=self.starts.copy(), counts=self.counts.copy())

    def sound(self, end: int) -> FileRange | None:
        """The entries before byte *end* of the file that damage there leaves beyond doubt; None: there are none.

        The last one may have been cut off, and may hold bytes of what was appended; and again the one before an entry
        of an unknown kind.
        """
        row = int(np.searchsorted(self.starts, end)) - 1
        while row > 0 and (tag := self._tag(row)) >= METADATA_BIT and tag not in METADATA_SIZES_MIN:
            row -= 1
        if row <= 0:
            return None
        last, events = int(self.starts[row]), int(self.counts[row])
        return replace(self, end=last, starts=self.starts[:row], counts=self.counts[:row], events=events)

    def has_events_of(self, source: int) -> bool:
        """True if one of the events is of the source with that id."""
        return bool((self._words(ENTRY_HEAD_SIZE) == source).any())

    def defined_sources(self) -> set[int]:
        """Ids of the sources that are defined in it; not those that no event has room for."""
        sources = self.starts[self._words(ENTRY_HEAD_SIZE) == SOURCE_TAG]
        ids = self._words(ENTRY_HEAD_SIZE + TAG_STRUCT.size, sources)
        return set(ids[ids < METADATA_BIT].tolist())

    def _words(self, offset: int, starts: Int64s | None = None) -> Uint64s:
        """Eight bytes of each entry."""
        at = (self.starts if starts is None else starts) - self.start + offset
        words: Uint64s = self.data[at[:, None] + np.arange(8)].view("<u8")[:, 0]
        return words

    def _tag(self, row: int) -> int:
        (tag,) = TAG_STRUCT.unpack_from(self.data.data, int(self.starts[row]) - self.start + ENTRY_HEAD_SIZE)
        return int(tag)

    def clock(self, event: int) -> int:
        """Clock value of an event, by its number in the stretch."""
        row = int(np.searchsorted(self.counts, event, side="right")) - 1
        at = int(self.starts[row]) - self.start + ENTRY_HEAD_SIZE
        clock: int = EVENT_STRUCT.unpack_from(self.data.data, at)[1]
        return clock


class EntryWalker:
    """A `Cutter` that needs to know nothing of what was before; sources that are missing are not noticed.

    Args:
        events_max: Stop after so many events of each piece of data.
    """

    # Of events nothing is known but that ids are anything: metadata alone tells that entries follow.
    entries_in_a_row = 1

    def __init__(self, events_max: int = 1 << 62) -> None:
        self._events_max = events_max
        self._starts: Int64s = np.zeros(0, dtype=np.int64)
        self._counts: Int64s = np.zeros(0, dtype=np.int64)

    def cut(self, data: Bytes, *, file_no: int, file_offset: int, path: str) -> Cut[FileRange]:
        """See `Cutter`."""
        del file_no, path
        rows = min(len(data) // _ENTRY_MIN, _ROWS_MAX) + 1
        if len(self._starts) < rows:
            self._starts, self._counts = np.zeros(rows, dtype=np.int64), np.zeros(rows, dtype=np.int64)
        found = walk_entries(data, len(data), self._events_max, self._starts, self._counts)
        if not found.entries:
            return Cut(None, EntryStop(found.stop), found.at, found.needed, found.left)
        clock_sync = _clock_sync_at(data, found.last_clock_sync) if found.last_clock_sync >= 0 else None
        stretch = FileRange(
            start=file_offset,
            end=file_offset + found.at,
            starts=self._starts[: found.entries] + file_offset,
            counts=self._counts[: found.entries],
            events=found.events,
            clock_sync=clock_sync,
            data=data,
        )
        return Cut(stretch, EntryStop(found.stop), found.at, found.needed, found.left)

    def source_ids(self, missing: int | None = None) -> IdTable:
        """See `Cutter`: none."""
        return IdTable(() if missing is None else (missing,))

    def check_incomplete(self, start: bytes, size: int) -> tuple[EntryStop, int, int] | None:
        """See `Cutter`."""
        return check_size(start, size)


def _clock_sync_at(data: Bytes, at: int) -> ClockSync | None:
    """The ClockSync there, whose size fits; None: its fields do not, as whoever reads the entries will tell."""
    (size,) = SIZE_STRUCT.unpack_from(data.data, at)
    try:
        found = read_metadata(data[at + ENTRY_HEAD_SIZE : at + ENTRY_HEAD_SIZE + size].tobytes())
    except ShortEntryError:
        return None
    assert isinstance(found, ClockSync)
    return found


class _HeadWalker(EntryWalker):
    """Stops after an event, and knows which sources the file has defined before it."""

    entries_in_a_row = ENTRIES_IN_A_ROW

    def __init__(self) -> None:
        super().__init__(events_max=1)
        self._defined: set[int] = set()

    def cut(self, data: Bytes, *, file_no: int, file_offset: int, path: str) -> Cut[FileRange]:
        """See `Cutter`."""
        found = super().cut(data, file_no=file_no, file_offset=file_offset, path=path)
        if found.block is not None:
            self._defined |= found.block.defined_sources()
        return found

    def source_ids(self, missing: int | None = None) -> IdTable:
        """See `Cutter`."""
        return IdTable([*self._defined, *(() if missing is None else (missing,))])


HEAD_SIZE = 64 << 10
"""Bytes read at first; more, where all of them are metadata."""

_NUMBER_MAX = (1 << 63) - 1

_HOLDERS = ((0, b"\x7fELF"), (0, b"PK\x03\x04"), (257, b"ustar"))
"""Marks of files that may hold copies of logs, and where they are: a program's memory, archives."""

_NO_EVENT_HINT = (
    "No event of this file can be read. If its program does not write to it any more, move it to another folder: "
    "reading goes on with the other files"
)


class FormatGuess(Enum):
    """Kind of a file, guessed from its start."""

    LOG = "metadata"
    CONTINUATION = "an event: of a file that goes on where another one ended"
    UNWRITTEN = "nothing yet"
    OTHER = "no structured log"


@dataclass(frozen=True, slots=True)
class FileHead:
    """The start of a file.

    Attributes:
        number: Wall time of the first event, in nanoseconds since 1970 UTC, by the clock sync before it in the file;
            its clock value where there is none. None: there is no event yet.
        checksum: CRC-32C of all up to the first event's arguments; 0 without an event.
        clock_sync: The last one before the first event.
    """

    looks: FormatGuess
    number: int | None = None
    checksum: int = 0
    clock_sync: ClockSync | None = None

    @property
    def identity(self) -> str:
        """Identity of this file; empty: nothing has been written into it."""
        return "" if self.number is None else f"{self.number}:{self.checksum:08x}"


def read_head(source: SourceFile) -> FileHead:
    """Read up to the first event, past what is damaged before it: whoever reads the entries names that.

    Raises:
        CorruptError: `BAD_ENTRY`: something is damaged, and no event follows.
    """
    start = _start(source, HEAD_SIZE)
    looks = guess_format(start)
    if looks in (FormatGuess.OTHER, FormatGuess.CONTINUATION) and _goes_on_as_log(source, start):
        looks = FormatGuess.LOG
    if looks in (FormatGuess.OTHER, FormatGuess.UNWRITTEN):
        return FileHead(looks)
    clock_sync: ClockSync | None = None
    damage: list[CorruptError] = []
    scan = StructuredFileScan(
        source, 0, _HeadWalker(), block_size=HEAD_SIZE, on_damage=lambda error, _: damage.append(error)
    )
    for stretch in scan.blocks():
        clock_sync = stretch.clock_sync or clock_sync
        if not stretch.events:
            continue
        clock = stretch.clock(0)
        ns = None if clock_sync is None else ns_of(clock, clock_sync)
        number = min(max(clock if ns is None else ns, 0), _NUMBER_MAX)
        end = int(stretch.starts[-1]) + ENTRY_HEAD_SIZE + EVENT_SIZE_MIN
        return FileHead(looks, number, crc32c.crc32c(_start(source, end).data), clock_sync)
    if damage:
        raise CorruptError(damage[0].subclass, damage[0].reason, at=damage[0].at, hint=_NO_EVENT_HINT)
    return FileHead(looks)


def _goes_on_as_log(source: SourceFile, start: Bytes) -> bool:
    """True if a file that does not begin with metadata has some soon: its first bytes are damaged."""
    if any(start[at : at + len(magic)].tobytes() == magic for at, magic in _HOLDERS):
        return False
    return find_entries_in_file(source, IdTable(()), 1, HEAD_SIZE, ENTRIES_IN_A_ROW, window=2 * HEAD_SIZE) is not None


def _start(source: SourceFile, size: int) -> Bytes:
    buffer = empty_bytes(min(size, source.size()))
    return buffer[: source.read_into(0, buffer)]


def guess_format(data: Bytes) -> FormatGuess:
    """Guess the kind of a file from its start: the names of files do not show it."""
    if len(data) < ENTRY_HEAD_SIZE or not data.any():
        return FormatGuess.UNWRITTEN
    (size,) = SIZE_STRUCT.unpack_from(data.data)
    if not EVENT_SIZE_MIN <= size <= METADATA_SIZE_MAX:
        return FormatGuess.OTHER
    if len(data) < ENTRY_HEAD_SIZE + TAG_STRUCT.size:
        return FormatGuess.LOG if size >= WRITER_SIZE_MIN else FormatGuess.OTHER
    (tag,) = TAG_STRUCT.unpack_from(data.data, ENTRY_HEAD_SIZE)
    if tag < METADATA_BIT:
        return FormatGuess.CONTINUATION
    if size < METADATA_SIZES_MIN.get(tag, METADATA_SIZE_MAX + 1):
        return FormatGuess.OTHER
    if len(data) < ENTRY_HEAD_SIZE + size:
        return FormatGuess.LOG
    none = IdTable(())
    is_whole = find_entries(data, 1, len(data), 1, False, none.ids, none.slots) == 0
    return FormatGuess.LOG if is_whole else FormatGuess.OTHER
