"""Entries that are not events: `EventSource`, `WriterProp`, `ClockSync`; `read_metadata` reads one.

Texts are bytes: the format knows no encoding, and files hold what programs put there.

State that a reader needs to continue in the middle of a structured log: `LogState`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from binlog_format.structured.layout import (
    CLOCK_TAG,
    ENTRY_HEAD_SIZE,
    I32_STRUCT,
    METADATA_BIT,
    SIZE_STRUCT,
    SOURCE_TAG,
    TAG_STRUCT,
    U16_STRUCT,
    U64_STRUCT,
    WRITER_TAG,
)

if TYPE_CHECKING:
    from struct import Struct


class ShortEntryError(ValueError):
    """An entry that ends before its known fields do.

    Args:
        needed: Bytes that the next field takes.
        left: Bytes that are left.
    """

    def __init__(self, needed: int, left: int) -> None:
        super().__init__(f"Range overflow {needed} > {left}")
        self.needed = needed
        self.left = left


@dataclass(frozen=True, slots=True)
class EventSource:
    """One place in a program that logs.

    Attributes:
        id: What events name it by.
        severity: `Severity`, or another number of 16 bits.
        category: Identifier; `main` where a program gives none.
        file: As the compiler saw it.
        format: Text with `{}` for each argument.
        argument_tags: Type tags of all arguments, one after the other.
    """

    id: int
    severity: int
    category: bytes
    function: bytes
    file: bytes
    line: int
    format: bytes
    argument_tags: bytes

    def entry(self) -> bytes:
        """Bytes of the entry in a file, size field included."""
        texts = _text(self.category) + _text(self.function) + _text(self.file)
        rest = U64_STRUCT.pack(self.line) + _text(self.format) + _text(self.argument_tags)
        return _entry(SOURCE_TAG, U64_STRUCT.pack(self.id) + U16_STRUCT.pack(self.severity) + texts + rest)


@dataclass(frozen=True, slots=True)
class WriterProp:
    """Writer of the events that follow.

    Attributes:
        id: Free; 0 where a program gives none.
        name: Free; of the library's own per-thread writers: the thread id.
        batch_size: Bytes of the events that directly follow and are this writer's, sizes included: a hint; 0: unknown.
    """

    id: int = 0
    name: bytes = b""
    batch_size: int = 0

    def entry(self) -> bytes:
        """Bytes of the entry in a file, size field included."""
        return _entry(WRITER_TAG, U64_STRUCT.pack(self.id) + _text(self.name) + U64_STRUCT.pack(self.batch_size))


@dataclass(frozen=True, slots=True)
class ClockSync:
    """Ties the log's clock to wall time.

    Attributes:
        clock: The log's clock showed this ...
        frequency: ... (ticks per second; 0, and what is negative as i64: there is none) ...
        ns: ... at this wall time, nanoseconds since 1970 UTC, unsigned as it is stored.
        tz_offset: Seconds to add to UTC for the producer's local time.
    """

    clock: int = 0
    frequency: int = 0
    ns: int = 0
    tz_offset: int = 0
    tz_name: bytes = b""

    def entry(self) -> bytes:
        """Bytes of the entry in a file, size field included."""
        numbers = b"".join(U64_STRUCT.pack(number) for number in (self.clock, self.frequency, self.ns))
        return _entry(CLOCK_TAG, numbers + I32_STRUCT.pack(self.tz_offset) + _text(self.tz_name))


Metadata = EventSource | WriterProp | ClockSync


def read_metadata(payload: bytes) -> Metadata | None:
    """Read an entry that is not an event; bytes after its known fields are ignored.

    Args:
        payload: The entry without its size field, its tag included.

    Returns:
        None: of an unknown kind, or a source with a number that no event has room for.

    Raises:
        ShortEntryError: It ends before its known fields do.
    """
    fields = _Fields(payload)
    tag = fields.number(TAG_STRUCT)
    if tag == SOURCE_TAG:
        number, severity = fields.number(U64_STRUCT), fields.number(U16_STRUCT)
        category, function, file = fields.text(), fields.text(), fields.text()
        line = fields.number(U64_STRUCT)
        source = EventSource(number, severity, category, function, file, line, fields.text(), fields.text())
        return source if number < METADATA_BIT else None
    if tag == WRITER_TAG:
        return WriterProp(fields.number(U64_STRUCT), fields.text(), fields.number(U64_STRUCT))
    if tag == CLOCK_TAG:
        clock, frequency, ns = (fields.number(U64_STRUCT) for _ in range(3))
        return ClockSync(clock, frequency, ns, fields.number(I32_STRUCT), fields.text())
    return None


class _Fields:
    """Takes fields off the start of an entry."""

    def __init__(self, payload: bytes) -> None:
        self._payload = payload
        self._at = 0

    def number(self, field: Struct) -> int:
        left = len(self._payload) - self._at
        if left < field.size:
            raise ShortEntryError(field.size, left)
        self._at += field.size
        number: int = field.unpack_from(self._payload, self._at - field.size)[0]
        return number

    def text(self) -> bytes:
        size = self.number(SIZE_STRUCT)
        left = len(self._payload) - self._at
        if left < size:
            raise ShortEntryError(size, left)
        self._at += size
        return self._payload[self._at - size : self._at]


def _entry(tag: int, fields: bytes) -> bytes:
    return SIZE_STRUCT.pack(TAG_STRUCT.size + len(fields)) + TAG_STRUCT.pack(tag) + fields


def _text(text: bytes) -> bytes:
    return SIZE_STRUCT.pack(len(text)) + text


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
        """Read what `entries` gave. Raises `ValueError`: it is something else."""
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
            entry = read_metadata(entries[at : at + size])
            at += size
            if isinstance(entry, EventSource):
                sources[entry.id] = entry
            elif isinstance(entry, WriterProp):
                writer = entry
            elif isinstance(entry, ClockSync):
                clock_sync = entry
            else:
                raise ValueError("an entry that is not metadata")
        return cls(sources, writer, clock_sync)
