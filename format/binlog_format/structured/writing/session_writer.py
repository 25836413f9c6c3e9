"""`SessionWriter`: adds events to a session, under one id and name."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from binlog_format.structured.layout import EVENT_SIZE_MIN, EVENT_STRUCT, SIZE_STRUCT
from binlog_format.structured.writing.scalar_encoding import text_bytes
from binlog_format.structured.writing.session import CHANNEL_SIZE

if TYPE_CHECKING:
    from binlog_format.structured.writing.session import LogSource, Session


class SessionWriter:
    """Adds events; what one writer adds stays in order. Any thread may add.

    Events wait in a queue for `Session.consume`. When it is full, another one follows it, so adding never waits.

    Args:
        session: Where the events go.
        id: Written before each batch of its events, with its name.
        name: Free; for example that of the thread.
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
            source: Made by the session.
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
