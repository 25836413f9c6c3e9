"""Reads the entries of a file, and tells what is damaged from what is not there yet: `StructuredFileScan`.

Parts of a pass over a file's bytes: a `Cutter` cuts them at entries and gives a `Cut` for each block.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import numpy as np

from binlog_format.block import BLOCK_SIZE, Recycler
from binlog_format.errors import CorruptError
from binlog_format.kernels import empty_bytes
from binlog_format.position import Place
from binlog_format.structured.files.entry_kernels import find_entries
from binlog_format.structured.layout import (
    CLOCK_SIZE_MIN,
    CLOCK_TAG,
    ENTRY_HEAD_SIZE,
    EVENT_SIZE_MIN,
    METADATA_BIT,
    SIZE_STRUCT,
    SOURCE_SIZE_MIN,
    SOURCE_TAG,
    TAG_STRUCT,
    WRITER_SIZE_MIN,
    WRITER_TAG,
)
from binlog_format.structured.scan_kernels import EntryStop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from binlog_format.kernels import Bytes
    from binlog_format.source_file import SourceFile
    from binlog_format.structured.scan import IdTable

    OnDamage = Callable[[CorruptError, int], None]
    """Called with what is damaged, and the byte of the file where reading goes on."""


Made = TypeVar("Made", covariant=True)

ENTRIES_IN_A_ROW = 3
"""Bytes in which so many entries follow one another are taken for a log; fewer, where the file ends with them."""

METADATA_SIZES_MIN = {SOURCE_TAG: SOURCE_SIZE_MIN, WRITER_TAG: WRITER_SIZE_MIN, CLOCK_TAG: CLOCK_SIZE_MIN}
"""Smallest sizes of entries of the known kinds."""

METADATA_SIZE_MAX = 1 << 20
"""No metadata is so large: an entry that claims more is damaged, and a file that begins with one is something else."""


@dataclass(frozen=True, slots=True)
class Cut(Generic[Made]):
    """The part that a cutter has cut off.

    Attributes:
        block: The whole entries before *at*; None: there are none.
        stop: Why it ended there: never `METADATA`.
        at: Byte of the first entry that was not taken.
        needed: See `EntryStop`.
        left: See `EntryStop`.
    """

    block: Made | None
    stop: EntryStop
    at: int
    needed: int
    left: int


class Cutter(Protocol[Made]):
    """Cuts a log's bytes into entries.

    Attributes:
        entries_in_a_row: So many tell that an entry which claims more bytes than there are is damaged.
    """

    entries_in_a_row: int

    def cut(self, data: Bytes, *, file_no: int, file_offset: int, path: str) -> Cut[Made]:
        """Cut *data* up to the first entry that is not whole, or cannot be taken; entries before it are taken.

        To go on, give the bytes from there on: more of them after `INCOMPLETE`, others after a damaged entry.

        Args:
            data: Entries; it may be kept in the block.
            file_offset: Byte of `data[0]` in the file.
        """

    def source_ids(self, missing: int | None = None) -> IdTable:
        """Ids of the known sources of events here; *missing* counts as one."""

    def check_incomplete(self, start: bytes, size: int) -> tuple[EntryStop, int, int] | None:
        """Check an entry of which only the start is there; None: it is right so far.

        Args:
            start: What is there, its size field included; what tells its kind will do.

        Returns:
            As in `Cut`: why it cannot be taken, and `needed` and `left`.
        """


def check_size(start: bytes, size: int) -> tuple[EntryStop, int, int] | None:
    """`Cutter.check_incomplete` as far as nothing before the entry is known."""
    if size < TAG_STRUCT.size:
        return EntryStop.SHORT, TAG_STRUCT.size, size
    if len(start) < ENTRY_HEAD_SIZE + TAG_STRUCT.size:
        return None
    (tag,) = TAG_STRUCT.unpack_from(start, ENTRY_HEAD_SIZE)
    if tag >= METADATA_BIT and size > METADATA_SIZE_MAX:
        return EntryStop.INCOMPLETE, size, 0
    size_min = EVENT_SIZE_MIN if tag < METADATA_BIT else METADATA_SIZES_MIN.get(tag, 0)
    return (EntryStop.SHORT, size_min, size) if size < size_min else None


_DAMAGED_HINT = "The file is damaged, or is no structured log; `bread --skip-damaged` reads what follows"
_SOURCE_HINT = (
    "The file before this one, which defines it, is missing, or its log statement is shared by two sessions of a "
    "program, and the other one defines it"
)

_KNOWN_BY = ENTRY_HEAD_SIZE + TAG_STRUCT.size
"""Bytes that tell what an entry is."""

NO_LIMIT = 1 << 62
"""After every byte of a file."""


class FileEnd(Enum):
    """Reason why a scan ended."""

    END = "the end of the file"
    LIMIT = "the limit"
    INCOMPLETE = "an entry whose end is not in the file"
    ZEROS = "zeros up to the end of the file, which no program has written over yet"


class StructuredFileScan(Generic[Made]):
    """Reads the entries that begin in `[start, limit)` of a file.

    Args:
        cutter: Has come to *start*: an `EntryScanner`, or an `EntryWalker`.
        start: An entry begins there.
        limit: No entry is begun from there on.
        block_size: Bytes to read at a time.
        on_damage: Called instead of raising an error; reading goes on at the next place that looks like entries.

    Attributes:
        ended: Why, once `blocks` has ended.
        stopped_at: The byte of the first entry that was not read.
        unfinished: The start of that entry, as far as it is there and tells what it is, where it is incomplete.
    """

    def __init__(
        self,
        source: SourceFile,
        file_no: int,
        cutter: Cutter[Made],
        *,
        start: int = 0,
        limit: int = NO_LIMIT,
        block_size: int = BLOCK_SIZE,
        on_damage: OnDamage | None = None,
    ) -> None:
        self._source = source
        self._file_no = file_no
        self._cutter = cutter
        self._limit = limit
        self._block_size = block_size
        self._on_damage = on_damage
        self._buffers = Recycler(np.dtype(np.uint8))
        self.ended = FileEnd.END
        self.stopped_at = start
        self.unfinished = b""

    def blocks(self) -> Iterator[Made]:
        """Read; ends with `ended` and `stopped_at` set.

        Raises:
            CorruptError: `BAD_ENTRY`. What was before it has been given.
        """
        entry_size = ENTRY_HEAD_SIZE  # of the first one, as far as it is known
        while self.stopped_at < self._limit:
            data = self._read(max(min(self._block_size, self._limit - self.stopped_at), entry_size))
            cut = self._cutter.cut(data, file_no=self._file_no, file_offset=self.stopped_at, path=self._source.path)
            self.stopped_at += cut.at
            if cut.block is not None:
                yield cut.block
            entry_size = ENTRY_HEAD_SIZE
            if cut.stop is EntryStop.END and not len(data):
                self.ended = FileEnd.END
                return
            if cut.stop in (EntryStop.END, EntryStop.TABLE_FULL):
                continue
            if cut.stop in (EntryStop.INCOMPLETE, EntryStop.INCOMPLETE_SIZE):
                entry_size = ENTRY_HEAD_SIZE + (cut.needed if cut.stop is EntryStop.INCOMPLETE else 0)
                # Before a byte is asked for: whatever size an entry claims, so much must be there.
                if self.stopped_at + entry_size <= self._source.size():
                    continue
            elif cut.stop is EntryStop.ZERO and self._is_zero_tail():
                self.ended = FileEnd.ZEROS
                return
            damage = self._damage(cut, data[cut.at :])
            if damage is None:
                self.ended = FileEnd.INCOMPLETE
                self.unfinished = data[cut.at : cut.at + _KNOWN_BY].tobytes()
                return
            self._pass_over(damage, cut, data[cut.at :])
            entry_size = ENTRY_HEAD_SIZE
        self.ended = FileEnd.LIMIT

    def _read(self, size: int) -> Bytes:
        size = min(size, max(0, self._source.size() - self.stopped_at))
        buffer = self._buffer(size)
        return buffer[: self._source.read_into(self.stopped_at, buffer)]

    def _buffer(self, size: int) -> Bytes:
        return self._buffers.take(max(size, self._block_size))[:size].view(np.uint8)

    def _is_zero_tail(self) -> bool:
        at = self.stopped_at
        while True:
            buffer = self._buffer(self._block_size)
            size = self._source.read_into(at, buffer)
            if buffer[:size].any():
                return False
            if size < len(buffer):
                return True
            at += size

    def _damage(self, cut: Cut[Made], entry: Bytes) -> CorruptError | None:
        """Error of the entry at which reading stopped; None: the entry is only incomplete."""
        at = Place(self._source.path, byte=self.stopped_at)
        if cut.stop is EntryStop.INCOMPLETE_SIZE:
            return None
        if cut.stop is not EntryStop.INCOMPLETE:
            return damaged_entry(cut.stop, cut.needed, cut.left, at)
        wrong = self._cutter.check_incomplete(entry[:_KNOWN_BY].tobytes(), cut.needed)
        if wrong is not None:
            return damaged_entry(*wrong, at)
        # Not after the bytes that were read: the program may have written the rest of the entry, and more, since then.
        size = min(len(entry), 1 + self._block_size)
        following = self._search(self.stopped_at + 1, self.stopped_at + size, count=self._cutter.entries_in_a_row)
        if following is None:
            return None
        return CorruptError(
            "BAD_ENTRY",
            f"an entry claims {cut.needed:,} bytes, the file ends after {cut.left:,}, and other entries follow at byte "
            f"{following:#x}",
            at=at,
            hint=_DAMAGED_HINT,
        )

    def _pass_over(self, damage: CorruptError, cut: Cut[Made], entry: Bytes) -> None:
        if self._on_damage is None:
            raise damage
        following = self._after_entry(cut, entry)
        if following is None:
            following = self._search(self.stopped_at + 1, NO_LIMIT)
        self.stopped_at = self._source.size() if following is None else following
        self._on_damage(damage, self.stopped_at)

    def _after_entry(self, cut: Cut[Made], entry: Bytes) -> int | None:
        """The end of an entry whose size alone may be right; None: nothing that looks like an entry is there."""
        if cut.stop not in (EntryStop.SHORT, EntryStop.UNKNOWN_SOURCE):
            return None
        (size,) = SIZE_STRUCT.unpack_from(entry.data)
        end = self.stopped_at + ENTRY_HEAD_SIZE + int(size)
        missing = cut.needed if cut.stop is EntryStop.UNKNOWN_SOURCE else None
        is_last = end + ENTRY_HEAD_SIZE + EVENT_SIZE_MIN > self._source.size()
        return end if is_last or self._search(end, end + 1, count=1, missing=missing) is not None else None

    def _search(
        self, start: int, limit: int, *, count: int = ENTRIES_IN_A_ROW, missing: int | None = None
    ) -> int | None:
        return find_entries_in_file(
            self._source, self._cutter.source_ids(missing), start, limit, count, window=2 * self._block_size
        )


def damaged_entry(stop: EntryStop, needed: int, left: int, at: Place) -> CorruptError:
    """The error for an entry that a scan could not take. *needed*: see `EntryStop`. *left*: see `EntryStop`."""
    if stop is EntryStop.UNKNOWN_SOURCE:
        return CorruptError(
            "BAD_ENTRY", f"an event of source {needed}, which has not been defined", at=at, hint=_SOURCE_HINT
        )
    if stop is EntryStop.ZERO:
        reason = "an entry claims a size of 0 bytes, and the file goes on after it"
    elif stop is EntryStop.INCOMPLETE:
        reason = f"metadata claims {needed:,} bytes: none is so large"
    else:
        assert stop is EntryStop.SHORT
        reason = f"an entry is too short: its next field takes {needed:,} bytes, {left:,} are left"
    return CorruptError("BAD_ENTRY", reason, at=at, hint=_DAMAGED_HINT)


def find_entries_in_file(
    source: SourceFile, known: IdTable, start: int, limit: int, count: int, *, window: int
) -> int | None:
    """The first byte in [*start*, *limit*) where entries seem to follow one another.

    An entry counts when its size fits and it is an event of a known source, or metadata of a known kind whose fields
    fit.

    Args:
        limit: No entry is looked for from there on.
        window: Bytes to look at at a time; a row of entries that takes more than half of it is not found.

    Returns:
        None: there is no such place.
    """
    buffer = empty_bytes(window)
    while start < limit:
        size = source.read_into(start, buffer)
        is_end = size < window
        looked_at = min(size if is_end else window // 2, limit - start)
        found = find_entries(buffer, looked_at, size, count, is_end, known.ids, known.slots)
        if found >= 0:
            return start + found
        if is_end:
            return None
        start += looked_at
    return None
