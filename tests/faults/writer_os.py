"""What stands in for `os` in the log's writer, and lets its calls end in the middle, come late or be lost."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tests.faults.processes import Killed

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

SECTOR = 512
"""Bytes that reach a disk together, or not at all."""


class FaultyOs:
    """Stands in for `os` in the writer: the process dies in the middle of a chosen call that changes a file.

    Attributes:
        sectors: How much of the last write reaches the file.
    """

    def __init__(self) -> None:
        self.calls_left = 0
        self.sectors = 0

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)

    def pwritev(self, descriptor: int, pages: Sequence[bytearray], offset: int) -> int:
        return self.pwrite(descriptor, b"".join(pages), offset)

    def pwrite(self, descriptor: int, data: bytes, offset: int) -> int:
        if self._dies():
            os.pwrite(descriptor, data[: self.sectors * SECTOR], offset)
            raise Killed
        return os.pwrite(descriptor, data, offset)

    def ftruncate(self, descriptor: int, size: int) -> None:
        if self._dies():
            raise Killed
        os.ftruncate(descriptor, size)

    def posix_fallocate(self, descriptor: int, offset: int, size: int) -> None:
        if self._dies():
            part = self.sectors * SECTOR
            if part:
                os.posix_fallocate(descriptor, offset, min(size, part))
            raise Killed
        os.posix_fallocate(descriptor, offset, size)

    def _dies(self) -> bool:
        self.calls_left -= 1
        return self.calls_left < 0


class SlowOs:
    """Stands in for `os` in the writer: a write reaches the file in two steps, and somebody looks in between.

    Args:
        look: Called when a part of the write is in the file.
        sectors: How much that part is, for each look.
    """

    def __init__(self, look: Callable[[], None], sectors: Sequence[int]) -> None:
        self._look = look
        self._sectors = sectors

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)

    def pwritev(self, descriptor: int, pages: Sequence[bytearray], offset: int) -> int:
        data = b"".join(pages)
        before = os.pread(descriptor, len(data), offset)
        for sectors in self._sectors:
            part = data[: sectors * SECTOR]
            if len(part) < len(data) and offset > 0:
                os.pwrite(descriptor, part, offset)
                self._look()
                os.pwrite(descriptor, before, offset)
        return os.pwrite(descriptor, data, offset)


class TornOs:
    """Stands in for `os` in the writer: pages reach the files late, and sector by sector.

    A write is put off while up to *late_max* others wait before it, in order, as in the server's queue of pages; what a
    page's owner has changed is in its own memory. When it is a page's turn, parts of it come first: any of its sectors,
    for a page that is written again too. Somebody looks after every part.

    Args:
        source: Of all choices.
        look: Called whenever the files have changed.
        late_max: Writes that may wait.
        in_order: A part of a page is its beginning, as when one process writes while another one reads; else any
            sectors, as when a machine stops.
    """

    def __init__(
        self, source: random.Random, look: Callable[[], None], *, late_max: int, page_size: int, in_order: bool
    ) -> None:
        self._source = source
        self._look = look
        self._late_max = late_max
        self._page_size = page_size
        self._in_order = in_order
        self._late: list[tuple[int, int, bytes]] = []
        self.torn = 0

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)

    def pwritev(self, descriptor: int, pages: Sequence[bytearray], offset: int) -> int:
        for number, page in enumerate(pages):
            self._late.append((descriptor, offset + number * self._page_size, bytes(page)))
        self._catch_up(self._source.randrange(self._late_max + 1))
        return sum(map(len, pages))

    def pwrite(self, descriptor: int, data: bytes, offset: int) -> int:
        self._catch_up(0)
        return os.pwrite(descriptor, data, offset)

    def fdatasync(self, descriptor: int) -> None:
        self._catch_up(0)
        os.fdatasync(descriptor)

    def ftruncate(self, descriptor: int, size: int) -> None:
        self._catch_up(0)
        os.ftruncate(descriptor, size)

    def close(self, descriptor: int) -> None:
        self._catch_up(0)
        os.close(descriptor)

    def _catch_up(self, left: int) -> None:
        while len(self._late) > left:
            self._write_in_parts(*self._late.pop(0))

    def _write_in_parts(self, descriptor: int, offset: int, page: bytes) -> None:
        sectors = list(range(0, len(page), SECTOR))
        if not self._in_order:
            self._source.shuffle(sectors)
        stops = {self._source.randrange(len(sectors)) for _ in range(2)}
        for number, start in enumerate(sectors):
            if number in stops:
                self.torn += os.pread(descriptor, len(page), offset) != page
                self._look()
            os.pwrite(descriptor, page[start : start + SECTOR], offset + start)
        self._look()


class Crashed(Exception):
    """The machine has stopped."""


class LossyOs:
    """Stands in for `os` in the writer: what is written stays in a cache, of which a crash keeps any part."""

    def __init__(self, source: random.Random) -> None:
        self._source = source
        self._paths: dict[int, str] = {}
        self._unsynced: list[tuple[str, int, bytes]] = []  # path, offset, sector as it is on the disk
        self.writes_left = 1 << 30

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)

    def open(self, path: Path, flags: int, mode: int) -> int:
        descriptor = os.open(path, flags, mode)
        self._paths[descriptor] = str(path)
        return descriptor

    def pwritev(self, descriptor: int, pages: Sequence[bytearray], offset: int) -> int:
        return self.pwrite(descriptor, b"".join(pages), offset)

    def pwrite(self, descriptor: int, data: bytes, offset: int) -> int:
        self.writes_left -= 1
        if self.writes_left == 0:
            data = data[: self._source.randrange(len(data) // SECTOR + 1) * SECTOR]
        for start in range(offset // SECTOR * SECTOR, offset + len(data), SECTOR):
            self._unsynced.append((self._paths[descriptor], start, os.pread(descriptor, SECTOR, start)))
        os.pwrite(descriptor, data, offset)
        if self.writes_left == 0:
            raise Crashed
        return len(data)

    def fdatasync(self, descriptor: int) -> None:
        os.fdatasync(descriptor)
        self._unsynced = [write for write in self._unsynced if write[0] != self._paths[descriptor]]

    def lose_power(self) -> None:
        """Take back any of the unsynced writes, newest first: a sector is as it was, or as it was made."""
        for path, offset, before in reversed(self._unsynced):
            if self._source.random() < 0.5 and Path(path).exists():
                with Path(path).open("r+b") as file:
                    file.seek(offset)
                    file.write(before)
        self._unsynced.clear()
