"""Parts of a pass over a file's bytes: a `Cutter` cuts them at entries and gives a `Cut` for each block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from binlog_format.structured.layout import (
    CLOCK_SIZE_MIN,
    CLOCK_TAG,
    ENTRY_HEAD_SIZE,
    EVENT_SIZE_MIN,
    METADATA_BIT,
    SOURCE_SIZE_MIN,
    SOURCE_TAG,
    TAG_STRUCT,
    WRITER_SIZE_MIN,
    WRITER_TAG,
)
from binlog_format.structured.scan_kernels import EntryStop

if TYPE_CHECKING:
    from binlog_format.kernels import Bytes
    from binlog_format.structured.known_metadata import IdTable

Made = TypeVar("Made", covariant=True)

ENTRIES_IN_A_ROW = 3
"""Bytes in which so many entries follow one another are taken for a log; fewer, where the file ends with them."""

METADATA_SIZES_MIN = {SOURCE_TAG: SOURCE_SIZE_MIN, WRITER_TAG: WRITER_SIZE_MIN, CLOCK_TAG: CLOCK_SIZE_MIN}
"""Smallest sizes of entries of the known kinds."""


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
            file_no: Of the file that they are in.
            file_offset: Byte of `data[0]` in it.
            path: Of the file, for messages.
        """

    def source_ids(self, missing: int | None = None) -> IdTable:
        """Those that events are known to be of here; *missing* counts as one."""

    def check_incomplete(self, start: bytes, size: int) -> tuple[EntryStop, int, int] | None:
        """Check an entry of which only the start is there; None: it is right so far.

        Args:
            start: What is there, its size field included; what tells its kind will do.
            size: What it claims.

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
    size_min = EVENT_SIZE_MIN if tag < METADATA_BIT else METADATA_SIZES_MIN.get(tag, 0)
    return (EntryStop.SHORT, size_min, size) if size < size_min else None
