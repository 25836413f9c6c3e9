"""`Session`: the sources, clocks and queues of one program, and how they become a structured log.

`Channel`: the bounded queue between one writer and the consumer of its session.

The machine's clock as a `ClockSync`.

`SessionWriter`: adds events to a session, under one id and name.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from binlog_format.structured.layout import EVENT_SIZE_MIN, EVENT_STRUCT, NS_PER_SECOND, SIZE_STRUCT, Severity
from binlog_format.structured.metadata import ClockSync, EventSource, WriterProp
from binlog_format.structured.writing.argument_encoding import compile_encoder
from binlog_format.structured.writing.scalar_encoding import text_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def system_clock_sync() -> ClockSync:
    """A clock that shows nanoseconds since 1970 UTC, as `time.time_ns` does, in the time zone of this process."""
    now = time.time_ns()
    local = time.localtime(now // NS_PER_SECOND)
    return ClockSync(now, NS_PER_SECOND, now, local.tm_gmtoff, os.fsencode(local.tm_zone))


class Channel:
    """Whole entries of one writer, in the order in which they were added; any thread may add and take.

    Args:
        capacity: Bytes that it holds.
    """

    def __init__(self, writer_id: int, writer_name: bytes, capacity: int) -> None:
        self.writer_id = writer_id
        self.writer_name = writer_name
        self._capacity = capacity
        self._lock = threading.Lock()
        self._entries = bytearray()
        self._is_closed = False

    @property
    def size(self) -> int:
        """Bytes that it holds now."""
        return len(self._entries)

    @property
    def is_finished(self) -> bool:
        """True if it is closed and empty: nothing will ever come out of it."""
        with self._lock:
            return self._is_closed and not self._entries

    def add(self, entry: bytes) -> bool:
        """Queue an entry; False: there is no room for it, or the channel is closed, and nothing has changed."""
        with self._lock:
            if self._is_closed or len(self._entries) + len(entry) > self._capacity:
                return False
            self._entries += entry
            return True

    def close(self) -> None:
        """Accept no more entries."""
        # Without the lock: a writer's finalizer may run where its thread holds it.
        self._is_closed = True

    def take_batch(self) -> bytes:
        """All that it holds, after an entry that states whose it is and its size; nothing where it is empty."""
        with self._lock:
            entries, self._entries = self._entries, bytearray()
        if not entries:
            return b""
        return WriterProp(self.writer_id, self.writer_name, len(entries)).entry() + entries


class ChannelList:
    """The channels of a session, in the order in which they were opened: what a writer wrote first comes out first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._channels: list[Channel] = []

    def add(self, channel: Channel) -> None:
        """Append a channel."""
        with self._lock:
            self._channels.append(channel)

    def take_batches(self) -> Iterator[bytes]:
        """Take the queued events, as one batch for each channel that holds some."""
        with self._lock:
            channels = [channel for channel in self._channels if not channel.is_finished]
            self._channels = channels
            batches = [channel.take_batch() for channel in channels]
        return (batch for batch in batches if batch)

    @property
    def queued_size(self) -> int:
        """Bytes in all channels."""
        with self._lock:
            return sum(channel.size for channel in self._channels)


CHANNEL_SIZE = 1 << 20
"""Bytes that a channel holds unless its writer asks for another size."""


class LogStream(Protocol):
    """Destination of a log: an unbuffered file opened for appending, `io.BytesIO`, `RotatingLog`'s own."""

    def write(self, data: bytes, /) -> int:
        """Take *data*, or its first bytes; returns how many."""


@dataclass(frozen=True, slots=True, eq=False)
class LogSource:
    """A source that a session has. *encode*: makes the bytes of an event's arguments of Python values."""

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


class SessionWriter:
    """Adds events; what one writer adds stays in order. Any thread may add.

    Events wait in a queue for `Session.consume`. When it is full, another one follows it, so adding never waits.

    Args:
        id: Written before each batch of its events, with its name.
        queue_size: Bytes of one queue.
    """

    def __init__(self, session: Session, *, id: int = 0, name: str = "", queue_size: int = CHANNEL_SIZE) -> None:
        self._session = session
        self._id = id
        self._name = text_bytes(name)
        self._queue_size = queue_size
        self._lock = threading.Lock()
        self._channel = session.open_channel(id, self._name, queue_size)

    def add_event(self, source: LogSource, clock: int, *args: object) -> None:
        """Queue an event.

        Args:
            clock: Value of the session's clock; 0 by convention for none.
            args: One value for each argument tag of the source.

        Raises:
            ArgumentError: An argument is not what its tag asks for; nothing is queued.
        """
        encoded = source.encode(args)
        head = SIZE_STRUCT.pack(EVENT_SIZE_MIN + len(encoded)) + EVENT_STRUCT.pack(source.definition.id, clock)
        self._add(head + encoded)

    def rename(self, *, id: int, name: str) -> None:
        """Write under another id and name from now on; queued events keep theirs."""
        with self._lock:
            self._id, self._name = id, text_bytes(name)
            self._open_next(self._queue_size)

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Let the session forget this writer when its events are consumed; another event would open a new queue."""
        self._channel.close()

    def _add(self, entry: bytes) -> None:
        with self._lock:
            if not self._channel.add(entry):
                self._open_next(max(self._queue_size, len(entry)))
                self._channel.add(entry)

    def _open_next(self, capacity: int) -> None:
        self._channel.close()
        self._channel = self._session.open_channel(self._id, self._name, capacity)
