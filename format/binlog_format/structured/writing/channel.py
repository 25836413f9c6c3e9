"""`Channel`: the bounded queue between one writer and the consumer of its session."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from binlog_format.structured.metadata import WriterProp

if TYPE_CHECKING:
    from collections.abc import Iterator


class Channel:
    """Whole entries of one writer, in the order in which they were added; any thread may add and take.

    Args:
        writer_id: Of the writer.
        writer_name: Of the writer.
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
        """Nothing more will be added."""
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
            channels = [one for one in self._channels if not one.is_finished]
            self._channels = channels
            batches = [one.take_batch() for one in channels]
        return (batch for batch in batches if batch)

    @property
    def queued_size(self) -> int:
        """Bytes in all channels."""
        with self._lock:
            return sum(one.size for one in self._channels)
