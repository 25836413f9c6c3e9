"""Search for the entries of a file without earlier definitions: `EntryWalker`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.block import BLOCK_SIZE
from binlog_format.structured.file_scan import Cut, check_size
from binlog_format.structured.files.walk_kernels import walk_entries
from binlog_format.structured.known_metadata import IdTable
from binlog_format.structured.layout import ENTRY_HEAD_SIZE, EVENT_STRUCT, SIZE_STRUCT, TAG_STRUCT
from binlog_format.structured.metadata import ClockSync, ShortEntryError, read_metadata
from binlog_format.structured.scan_kernels import EntryStop

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_format.kernels import Bytes

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
        events: In all.
        clock_sync: The last one; None: there is none.
        data: The entries.
    """

    start: int
    end: int
    starts: NDArray[np.int64]
    counts: NDArray[np.int64]
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

    def clock(self, event: int) -> int:
        """Clock value of an event, by its number in the stretch."""
        row = int(np.searchsorted(self.counts, event, side="right")) - 1
        at = int(self.starts[row]) - self.start + ENTRY_HEAD_SIZE
        clock: int = EVENT_STRUCT.unpack_from(self.data.data, at)[1]
        return clock


class EntryWalker:
    """A `Cutter` that needs to know nothing of what was before; sources that are missing are not noticed.

    Args:
        events_max: EntryStop after so many events of each piece of data.
    """

    # Of events nothing is known but that ids are anything: metadata alone tells that entries follow.
    entries_in_a_row = 1

    def __init__(self, events_max: int = 1 << 62) -> None:
        self._events_max = events_max
        self._starts: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._counts: NDArray[np.int64] = np.zeros(0, dtype=np.int64)

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
