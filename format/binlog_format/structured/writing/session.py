"""`Session`: the sources, clocks and queues of one program, and how they become a structured log."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from binlog_format.structured.layout import Severity
from binlog_format.structured.metadata import EventSource
from binlog_format.structured.writing.argument_encoding import compile_encoder
from binlog_format.structured.writing.channel import Channel, ChannelList
from binlog_format.structured.writing.clock import system_clock_sync
from binlog_format.structured.writing.scalar_encoding import text_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_format.structured.metadata import ClockSync

CHANNEL_SIZE = 1 << 20
"""Bytes that a channel holds unless its writer asks for another size."""


class LogStream(Protocol):
    """Destination of a log: an unbuffered file opened for appending, `io.BytesIO`, `RotatingLog`'s own."""

    def write(self, data: bytes, /) -> int:
        """Take *data*, or its first bytes; returns how many."""


@dataclass(frozen=True, slots=True, eq=False)
class LogSource:
    """A source that a session has.

    Attributes:
        definition: Its entry.
        encode: Makes the bytes of an event's arguments of Python values.
    """

    definition: EventSource
    encode: Callable[[tuple[object, ...]], bytes]


class Session:
    """The log of one program: writers add events, one consumer at a time writes them to a stream.

    All methods may be called by any thread. A session is not for use in a forked child: make one there.

    Args:
        clock_sync: Of the clock whose values events carry; None: that of `time.time_ns`.
    """

    def __init__(self, clock_sync: ClockSync | None = None) -> None:
        self._lock = threading.Lock()
        # Entries, and how many bytes of them were consumed.
        self._clock_syncs = bytearray((clock_sync or system_clock_sync()).entry())
        self._consumed_clock_syncs = 0
        self._sources = bytearray()
        self._consumed_sources = 0
        self._source_count = 0
        self._channels = ChannelList()
        # Held by the consumer. What it has taken out of queues stays here until a stream has taken it.
        self._consumer_lock = threading.Lock()
        self._unwritten = memoryview(b"")

    def set_clock_sync(self, clock_sync: ClockSync) -> None:
        """Add a clock, which is in force from the next `consume` on: that writes all clocks anew, this one last."""
        with self._lock:
            self._clock_syncs += clock_sync.entry()

    def add_source(
        self,
        format: str | bytes,
        argument_tags: str | bytes = b"",
        *,
        severity: int = Severity.INFO,
        category: str | bytes = b"main",
        function: str | bytes = b"",
        file: str | bytes = b"",
        line: int = 0,
    ) -> LogSource:
        """Make a source for events of this session; ids are 1, 2, 3 ... in the order of calls.

        Args:
            format: Text with `{}` for each argument.
            argument_tags: Type tags of the arguments (docs/structured-logs.md#types); of Python types `tags_of_types`
                makes them.
            severity: `Severity`, or another number of 16 bits.
            category: What part of the program it belongs to.
            function: Name of the function.
            file: Path of the program's source.
            line: In that file.

        Raises:
            ArgumentError: `TAGS`: the tags are none.
        """
        tags = text_bytes(argument_tags)
        encode = compile_encoder(tags)
        with self._lock:
            self._source_count += 1
            definition = EventSource(
                id=self._source_count,
                severity=severity,
                category=text_bytes(category),
                function=text_bytes(function),
                file=text_bytes(file),
                line=line,
                format=text_bytes(format),
                argument_tags=tags,
            )
            self._sources += definition.entry()
        return LogSource(definition, encode)

    def open_channel(self, writer_id: int, writer_name: bytes, capacity: int) -> Channel:
        """Open a queue; a writer opens its next one when it has closed the one before."""
        channel = Channel(writer_id, writer_name, capacity)
        self._channels.add(channel)
        return channel

    @property
    def queued_size(self) -> int:
        """Bytes that no stream has taken."""
        return self._channels.queued_size + len(self._unwritten)

    def consume(self, stream: LogStream) -> int:
        """Write what is new: clocks, sources, then for each channel with events who wrote them, and the events.

        All of it is given to the stream at once. If that raises, nothing is lost: the next call continues with the byte
        at which it stopped. So that call must be given the same stream.

        Returns:
            Bytes written.
        """
        with self._consumer_lock:
            written = self._write(stream)
            # Queues before metadata: of each event that was taken the source was added before.
            batches = b"".join(self._channels.take_batches())
            self._unwritten = memoryview(self._take_new_metadata() + batches)
            return written + self._write(stream)

    def reconsume_metadata(self, stream: LogStream) -> int:
        """Write the clocks and sources again that were consumed: with these a new file can be read alone.

        Returns:
            Bytes written.
        """
        with self._lock:
            clock_syncs = self._clock_syncs[: self._consumed_clock_syncs]
            rest = memoryview(bytes(clock_syncs + self._sources[: self._consumed_sources]))
        size = len(rest)
        while rest:
            rest = rest[stream.write(bytes(rest)) :]
        return size

    def _take_new_metadata(self) -> bytes:
        with self._lock:
            clock_syncs = self._clock_syncs if len(self._clock_syncs) > self._consumed_clock_syncs else b""
            metadata = bytes(clock_syncs + self._sources[self._consumed_sources :])
            self._consumed_clock_syncs = len(self._clock_syncs)
            self._consumed_sources = len(self._sources)
            return metadata

    def _write(self, stream: LogStream) -> int:
        size = len(self._unwritten)
        while self._unwritten:
            self._unwritten = self._unwritten[stream.write(bytes(self._unwritten)) :]
        return size
