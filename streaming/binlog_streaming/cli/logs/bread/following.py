"""Files read with a look at what is damaged, and files that grow and are rotated: `read_file`, `follow`."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from binlog_connector.following.watch import DirectoryWatch
from binlog_format.errors import AccessError, CorruptError
from binlog_format.kernels import empty_bytes
from binlog_format.position import Place
from binlog_format.source_file import LocalFile
from binlog_format.structured.file_scan import FileEnd, StructuredFileScan
from binlog_streaming.cli.logs.bread.streams import OpenFailure

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from binlog_format.structured.scan import EntryScanner
    from binlog_streaming.cli.logs.bread.streams import BreadSink, OnDamage

_COMPARED = 4096
"""Bytes before a place that tell if a file is still the one that was read up to there."""


def read_file(path: str, scanner: EntryScanner, sink: BreadSink, on_damage: OnDamage) -> None:
    """Read a file to its present end, and pass over what is damaged. Raises `OpenFailure`: it is not there."""
    with _opened(Path(path)) as source:
        _read(source, _Reached(), scanner, sink, on_damage, is_complete=True)


def follow(path: str, scanner: EntryScanner, sink: BreadSink, on_damage: OnDamage | None) -> None:
    """Read a file, what is added to it, and the files that take its name, until Ctrl-C.

    Raises:
        OpenFailure: It is not there at first.
    """
    BreadFollower(Path(path), scanner, sink, on_damage).run()


class BreadFollower:
    """Reads a file by its name, like `tail -F`.

    Args:
        scanner: Knows what is in force.
        on_damage: Called instead of raising an error.
    """

    def __init__(self, path: Path, scanner: EntryScanner, sink: BreadSink, on_damage: OnDamage | None) -> None:
        self._path = path
        self._scanner = scanner
        self._sink = sink
        self._on_damage = on_damage
        self._is_stopped = False
        self._known: set[int] = set()

    def run(self) -> None:
        """Read until a signal comes."""
        with ExitStack() as stack:
            # In this order: whatever comes after the list is new.
            self._known = self._inodes()
            waiting = [stack.enter_context(_opened(self._path))]
            watch = stack.enter_context(DirectoryWatch(self._path.parent))
            stack.enter_context(self._stopped_by_signals(watch))
            while not self._is_stopped:
                source = waiting.pop(0)
                waiting += self._follow_one(source, watch, is_last=not waiting)

    def _follow_one(self, source: LocalFile, watch: DirectoryWatch, *, is_last: bool) -> list[LocalFile]:
        """Read a file to its end, which is there when another one has its name; gives the files that come next."""
        reached = _Reached()
        successors: list[LocalFile] = []
        while not self._is_stopped:
            # Looked for first: what is written to the file before they are there is read below.
            if is_last:
                successors = self._successors(source)
            is_complete = not is_last or bool(successors)
            # A file that was cut may have grown past the place since: what was read tells.
            if not reached.is_of(source):
                print(f"[bread] {source.path} has been cut: read from its start", file=sys.stderr)  # noqa: T201
                reached = _Reached()
            try:
                _read(source, reached, self._scanner, self._sink, self._on_damage, is_complete=is_complete)
            except CorruptError:
                if reached.is_of(source):
                    raise
                continue  # it was cut while it was read
            seconds = self._sink.pause()
            sys.stdout.flush()
            if is_complete:
                break
            watch.wait(seconds)
        source.close()
        return successors

    def _successors(self, source: LocalFile) -> list[LocalFile]:
        """The files written after *source*, oldest first, the last of them under the name that is followed."""
        while True:
            try:
                current = LocalFile(self._path)
            except FileNotFoundError:
                return []  # renamed, and the next one is not there yet
            if current.inode == source.inode:
                current.close()
                return []
            between = self._between(current)
            if between is not None:
                self._known |= {file.inode for file in (*between, current)}
                return [*between, current]
            current.close()

    def _between(self, current: LocalFile) -> list[LocalFile] | None:
        """Files that had the name since the last look, but not any more; None: one was renamed at this moment."""
        entries = [entry for entry in self._siblings() if entry.inode() not in {*self._known, current.inode}]
        files = []
        for entry in sorted(entries, key=lambda entry: entry.stat().st_mtime_ns):
            try:
                files.append(LocalFile(Path(entry.path)))
            except FileNotFoundError:
                return None
            if files[-1].inode != entry.inode():
                return None
        return files

    def _inodes(self) -> set[int]:
        try:
            return {entry.inode() for entry in self._siblings()}
        except OSError as error:
            raise OpenFailure(str(self._path)) from error

    def _siblings(self) -> list[os.DirEntry[str]]:
        with os.scandir(self._path.parent) as entries:
            return [entry for entry in entries if entry.name.startswith(self._path.stem) and entry.is_file()]

    @contextmanager
    def _stopped_by_signals(self, watch: DirectoryWatch) -> Iterator[None]:
        # A second one ends at once.
        def handle(number: int, _frame: FrameType | None) -> None:
            self._is_stopped = True
            watch.wake()
            signal.signal(number, signal.SIG_DFL)

        before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


@dataclass(slots=True)
class _Reached:
    # How far a file was read, and the bytes before that place.
    place: int = 0
    before: bytes = b""

    def come_to(self, source: LocalFile, place: int) -> None:
        self.place, self.before = place, _bytes_before(source, place)

    def is_of(self, source: LocalFile) -> bool:
        return source.size() >= self.place and _bytes_before(source, self.place) == self.before


def _bytes_before(source: LocalFile, place: int) -> bytes:
    buffer = empty_bytes(min(place, _COMPARED))
    return buffer[: source.read_into(place - len(buffer), buffer)].tobytes()


def _read(
    source: LocalFile,
    reached: _Reached,
    scanner: EntryScanner,
    sink: BreadSink,
    on_damage: OnDamage | None,
    *,
    is_complete: bool,
) -> None:
    """Read a file from a place to its present end, and note how far that is."""

    def skip(error: CorruptError, following: int) -> None:
        assert on_damage is not None
        if not reached.is_of(source):
            raise error
        on_damage(CorruptError(error.subclass, error.reason, at=error.at, hint=f"Read on at byte {following:#x}"))

    scan = StructuredFileScan(source, 0, scanner, start=reached.place, on_damage=None if on_damage is None else skip)
    for block in scan.blocks():
        reached.come_to(source, scan.stopped_at)  # before anybody sees the block, who may cut the file
        sink.take(block)
    if is_complete and scan.ended is FileEnd.INCOMPLETE:
        left = source.size() - scan.stopped_at
        reason = f"the file ends in the middle of an entry: {left:,} bytes of it are there"
        error = CorruptError("BAD_ENTRY", reason, at=Place(source.path, byte=scan.stopped_at))
        if on_damage is None:
            raise error
        on_damage(error)
    if reached.place != scan.stopped_at:
        reached.come_to(source, scan.stopped_at)


@contextmanager
def _opened(path: Path) -> Iterator[LocalFile]:
    try:
        source = LocalFile(path)
    except (OSError, AccessError) as error:
        raise OpenFailure(str(path)) from error
    try:
        yield source
    finally:
        source.close()
