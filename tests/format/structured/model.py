"""The rules of a structured log in plain Python, entry by entry: what the scan is compared with."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from binlog_format.structured.metadata import ClockSync, EventSource, ShortEntryError, WriterProp, read_metadata

if TYPE_CHECKING:
    from collections.abc import Iterable

    from binlog_format.structured.event_log import LogBlock


class Event(NamedTuple):
    """An event, with what was in force when it was read."""

    offset: int
    size: int
    clock: int
    source: EventSource
    writer: tuple[int, bytes]
    clock_sync: ClockSync


@dataclass
class Model:
    """Reads the bytes of a log; `stop` is why it ended: `end`, `incomplete`, `zero`, `short` or `unknown`."""

    data: bytes
    sources: dict[int, EventSource] = field(default_factory=dict)
    writer: WriterProp = field(default_factory=WriterProp)
    clock_sync: ClockSync = field(default_factory=ClockSync)
    events: list[Event] = field(default_factory=list)
    stop: str = "end"
    at: int = 0

    def read(self) -> Model:
        while self.at < len(self.data):
            stop = self._entry()
            if stop is not None:
                self.stop = stop
                break
        return self

    def _entry(self) -> str | None:
        left = len(self.data) - self.at - 4
        if left < 0:
            return "incomplete"
        (size,) = struct.unpack_from("<I", self.data, self.at)
        if size == 0:
            return "zero"
        if size > left:
            return "incomplete"
        if size < 8:
            return "short"
        payload = self.data[self.at + 4 : self.at + 4 + size]
        (tag,) = struct.unpack_from("<Q", payload)
        if tag >= 1 << 63:
            try:
                one = read_metadata(payload)
            except ShortEntryError:
                return "short"
            if isinstance(one, EventSource):
                self.sources[one.id] = one
            elif isinstance(one, WriterProp):
                self.writer = one
            elif isinstance(one, ClockSync):
                self.clock_sync = one
        elif tag not in self.sources:
            return "unknown"
        elif size < 16:
            return "short"
        else:
            (clock,) = struct.unpack_from("<Q", payload, 8)
            writer = (self.writer.id, self.writer.name)
            self.events.append(Event(self.at, size, clock, self.sources[tag], writer, self.clock_sync))
        self.at += 4 + size
        return None


def events_of(blocks: Iterable[LogBlock]) -> list[Event]:
    """What blocks hold, in the form of the model; each is looked at before the next one is asked for."""
    found = []
    for block in blocks:
        for event in block.events:
            writer = block.writers[event["writer"]]
            found.append(
                Event(
                    block.file_offset + int(event["start"]),
                    int(event["size"]),
                    int(event["clock"]),
                    block.sources[event["source"]],
                    (writer.id, writer.name),
                    block.clock_syncs[event["clock_sync"]],
                )
            )
    return found
