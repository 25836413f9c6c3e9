"""Waiting for a live log to grow: `DirectoryWatch`.

Example:
    ::

        with DirectoryWatch("/var/lib/mysql") as watch:
            while not stopped:
                read_what_is_there()
                watch.wait(timeout=10)

The watch begins when it is made, so that nothing is missed between looking and waiting: what changed since the last
`wait` ends the next one at once.
"""

from __future__ import annotations

import os
import queue
import time
from typing import TYPE_CHECKING

from watchdog.events import (
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from watchdog.observers.api import BaseObserver

POLL_INTERVAL_SECONDS = 0.2
"""Seconds between looks at the directory, in addition to the operating system's events, which do not cross the network
and run out on busy machines."""

# Not opened or closed: our own reading causes those.
_CHANGES: list[type[FileSystemEvent]] = [FileCreatedEvent, FileModifiedEvent, FileMovedEvent, FileDeletedEvent]

_Snapshot = frozenset[tuple[str, int, int]]


class DirectoryWatch:
    """Tells when files of a directory change; a context manager.

    Args:
        path: The directory. For a URL there is nothing to watch: every wait ends after *poll_interval*.
        poll_interval: Seconds between looks at the directory.
    """

    def __init__(self, path: str | os.PathLike[str], *, poll_interval: float = POLL_INTERVAL_SECONDS) -> None:
        self._path = os.fspath(path)
        self._poll_interval = poll_interval
        self._is_local = "://" not in self._path
        self._changed = _Flag()
        self._observer = self._start_observer() if self._is_local else None
        self._snapshot = self._look()

    def __enter__(self) -> DirectoryWatch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait(self, timeout: float) -> bool:
        """Wait until something changes, or has changed since the last call.

        Args:
            timeout: Seconds; 0 only looks.

        Returns:
            Whether something may have changed. False: the time is over and nothing has.
        """
        deadline = time.monotonic() + timeout
        while True:
            left = deadline - time.monotonic()
            if self._changed.wait(max(0.0, min(left, self._poll_interval))):
                return True  # the next look will find the change, too: a wait too short costs less than one more look
            if not self._is_local:
                return True
            snapshot = self._look()
            if snapshot != self._snapshot:
                self._snapshot = snapshot
                return True
            if left <= self._poll_interval:
                return False

    def forget(self) -> None:
        """Forget what has changed so far, or who has called `wake`: whoever calls this looks right after it."""
        self._changed.wait(0)

    def wake(self) -> None:
        """End a wait in another thread, or the next one, at once; signal handlers may call it."""
        self._changed.set()

    def close(self) -> None:
        """Stop watching."""
        if self._observer is not None:
            self._observer.stop()
            self._observer.join()
            self._observer = None

    def _start_observer(self) -> BaseObserver | None:
        observer = Observer()
        try:
            observer.schedule(_Setter(self._changed), self._path, recursive=False, event_filter=_CHANGES)
            observer.start()
        except OSError:
            # No inotify, or no watches left: looking at the directory has to do.
            return None
        observer.name = "directory-watch"
        return observer

    def _look(self) -> _Snapshot:
        return frozenset(self._files()) if self._is_local else frozenset()

    def _files(self) -> Iterator[tuple[str, int, int]]:
        try:
            with os.scandir(self._path) as entries:
                for entry in entries:
                    try:
                        status = entry.stat()
                    except FileNotFoundError:
                        continue  # deleted since the listing
                    yield entry.name, status.st_size, status.st_mtime_ns
        except FileNotFoundError:
            return  # the directory itself is gone: the reader reports it


class _Flag:
    """Like `threading.Event`, but a signal handler may set it.

    A handler runs inside whatever the thread was doing: with the event's own lock held it would wait for itself.
    """

    def __init__(self) -> None:
        self._set: queue.SimpleQueue[None] = queue.SimpleQueue()  # its `put` is reentrant, alone of all queues

    def set(self) -> None:
        if self._set.empty():
            self._set.put(None)

    def wait(self, timeout: float) -> bool:
        """Wait until it is set, and clear it; False: the time is over."""
        try:
            self._set.get(timeout=timeout)
        except queue.Empty:
            return False
        while not self._set.empty():
            self._set.get_nowait()  # this thread alone takes
        return True


class _Setter(FileSystemEventHandler):
    def __init__(self, changed: _Flag) -> None:
        self._changed = changed

    def on_any_event(self, _event: FileSystemEvent) -> None:
        self._changed.set()
