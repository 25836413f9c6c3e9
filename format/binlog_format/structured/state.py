"""State that a reader needs to continue in the middle of a structured log: `LogState`."""

from __future__ import annotations

from dataclasses import dataclass, field

from binlog_format.structured.layout import ENTRY_HEAD_SIZE, SIZE_STRUCT
from binlog_format.structured.metadata import ClockSync, EventSource, WriterProp, read_metadata


@dataclass(frozen=True, slots=True)
class LogState:
    """The metadata in force at a place; never reset, also not where another file begins.

    Attributes:
        sources: By id.
        writer: Of the events that follow.
        clock_sync: By which their clock values become times.
    """

    sources: dict[int, EventSource] = field(default_factory=dict)
    writer: WriterProp = field(default_factory=WriterProp)
    clock_sync: ClockSync = field(default_factory=ClockSync)

    def entries(self) -> bytes:
        """A structured log that brings a reader to this state: the entries that are in force, and no event."""
        sources = (source.entry() for _, source in sorted(self.sources.items()))
        return b"".join((self.clock_sync.entry(), *sources, self.writer.entry()))

    @classmethod
    def of_entries(cls, entries: bytes) -> LogState:
        """Read what `entries` gave.

        Raises:
            ValueError: It is something else.
        """
        sources: dict[int, EventSource] = {}
        writer, clock_sync = WriterProp(), ClockSync()
        at = 0
        while at < len(entries):
            if len(entries) - at < ENTRY_HEAD_SIZE:
                raise ValueError(f"{len(entries) - at} bytes are left, expected the size of an entry")
            (size,) = SIZE_STRUCT.unpack_from(entries, at)
            at += ENTRY_HEAD_SIZE
            if len(entries) - at < size:
                raise ValueError(f"{len(entries) - at} bytes are left, expected an entry of {size}")
            one = read_metadata(entries[at : at + size])
            at += size
            if isinstance(one, EventSource):
                sources[one.id] = one
            elif isinstance(one, WriterProp):
                writer = one
            elif isinstance(one, ClockSync):
                clock_sync = one
            else:
                raise ValueError("an entry that is not metadata")
        return cls(sources, writer, clock_sync)
