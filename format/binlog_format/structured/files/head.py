"""The start of a structured log's file, which tells what it is and when it was begun: `read_head`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import crc32c

from binlog_format.kernels import empty_bytes
from binlog_format.structured.file_scan import METADATA_SIZES_MIN, StructuredFileScan
from binlog_format.structured.files.search_kernels import find_entries
from binlog_format.structured.files.walk import EntryWalker
from binlog_format.structured.known_metadata import IdTable
from binlog_format.structured.layout import (
    ENTRY_HEAD_SIZE,
    EVENT_SIZE_MIN,
    METADATA_BIT,
    SIZE_STRUCT,
    TAG_STRUCT,
    WRITER_SIZE_MIN,
)
from binlog_format.structured.times import ns_of

if TYPE_CHECKING:
    from binlog_format.kernels import Bytes
    from binlog_format.source_file import SourceFile
    from binlog_format.structured.metadata import ClockSync

HEAD_SIZE = 64 << 10
"""Bytes read at first; more, where all of them are metadata."""

FIRST_ENTRY_MAX = 1 << 20
"""A file whose first entry claims more is something else: no metadata is so large."""

_NUMBER_MAX = (1 << 63) - 1


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
        looks: What it may be.
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
    """Read up to the first event.

    Raises:
        CorruptError: `BAD_ENTRY`: something before it is damaged.
    """
    looks = guess_format(_start(source, HEAD_SIZE))
    if looks in (FormatGuess.OTHER, FormatGuess.UNWRITTEN):
        return FileHead(looks)
    clock_sync: ClockSync | None = None
    for stretch in StructuredFileScan(source, 0, EntryWalker(events_max=1), block_size=HEAD_SIZE).blocks():
        clock_sync = stretch.clock_sync or clock_sync
        if not stretch.events:
            continue
        clock = stretch.clock(0)
        ns = None if clock_sync is None else ns_of(clock, clock_sync)
        number = min(max(clock if ns is None else ns, 0), _NUMBER_MAX)
        end = int(stretch.starts[-1]) + ENTRY_HEAD_SIZE + EVENT_SIZE_MIN
        return FileHead(looks, number, crc32c.crc32c(_start(source, end).data), clock_sync)
    return FileHead(looks)


def _start(source: SourceFile, size: int) -> Bytes:
    buffer = empty_bytes(min(size, source.size()))
    return buffer[: source.read_into(0, buffer)]


def guess_format(data: Bytes) -> FormatGuess:
    """Guess the kind of a file from its start: the names of files do not show it."""
    if len(data) < ENTRY_HEAD_SIZE or not data.any():
        return FormatGuess.UNWRITTEN
    (size,) = SIZE_STRUCT.unpack_from(data.data)
    if not EVENT_SIZE_MIN <= size <= FIRST_ENTRY_MAX:
        return FormatGuess.OTHER
    if len(data) < ENTRY_HEAD_SIZE + TAG_STRUCT.size:
        return FormatGuess.LOG if size >= WRITER_SIZE_MIN else FormatGuess.OTHER
    (tag,) = TAG_STRUCT.unpack_from(data.data, ENTRY_HEAD_SIZE)
    if tag < METADATA_BIT:
        return FormatGuess.CONTINUATION
    if size < METADATA_SIZES_MIN.get(tag, FIRST_ENTRY_MAX + 1):
        return FormatGuess.OTHER
    if len(data) < ENTRY_HEAD_SIZE + size:
        return FormatGuess.LOG
    none = IdTable(())
    is_whole = find_entries(data, 0, 1, len(data), 1, False, none.ids, none.slots) == 0
    return FormatGuess.LOG if is_whole else FormatGuess.OTHER
