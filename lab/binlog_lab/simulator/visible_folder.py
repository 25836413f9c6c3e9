"""The disk between a server and its reader: `VisibleFolder`, the server's folder as the reader sees it now."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from binlog_format.classic.layout import MAGIC_SIZE

if TYPE_CHECKING:
    import random
    from pathlib import Path

    from binlog_format.position import Place

SECTOR = 512
"""Bytes that get to a reader together, or not at all."""


START_SIZE = 64
"""First bytes of a file that tell it from another one of the same name."""
_IN_USE_BYTE = 21
_SIZE_BYTE = 9
"""Place of an event's size in its header."""


class Look(StrEnum):
    """Part of the server's changes that a reader sees."""

    ALL = "all"
    TORN = "torn"
    """The last change of a file up to any byte, all before it whole."""
    NAMES = "names"
    """New files and their names, without their content."""
    PURGE_LATE = "purge late"
    """All that was written; files that are gone are there still."""
    STALE_SIZE = "stale size"
    """A later file, and an earlier one as it was before: attributes that a network file system keeps."""


LOOKS = (*(Look.ALL,) * 3, *(Look.TORN,) * 2, Look.NAMES, Look.PURGE_LATE, Look.STALE_SIZE)
"""Looks of a reader, as often as they come."""


@dataclass(frozen=True, slots=True)
class VisibleFolder:
    """The folder of a reader.

    Attributes:
        server: The server's folder.
        path: The reader's.
        rotten: Byte and bit that are damaged, by the names of files.
    """

    server: Path
    path: Path
    rotten: dict[str, tuple[int, int]] = field(default_factory=dict)

    def rot(self, chance: random.Random) -> str | None:
        """Damage a bit of a file that the server has closed; its name, None: there is no such file that is whole."""
        closed = [path for path in sorted(self.server.iterdir())[:-1] if path.name not in self.rotten]
        if not closed:
            return None
        path = chance.choice(closed)
        self.rotten[path.name] = chance.randrange(max(1, path.stat().st_size)), chance.randrange(8)
        return path.name

    def is_damaged(self, at: Place, page_size: int | None) -> bool:
        """True if the page, or the event, at a place has the damaged bit of a file.

        Args:
            page_size: Of the log; None: it has events without pages.
        """
        found = self.rotten.get(at.name)
        if found is None or at.file != str(self.path / at.name):
            return False
        place, bit = found
        content = bytearray((self.path / at.name).read_bytes())
        if page_size is not None:
            page, damaged = at.page or 0, place // page_size
            is_unwritten = not any(content[page * page_size : (page + 1) * page_size])
            return page == damaged or (page < damaged and is_unwritten)  # the damage looks like a later page
        if place >= len(content):
            return False  # less of the file is seen at this moment
        content[place] ^= 1 << bit
        start = at.byte or 0
        size = int.from_bytes(content[start + _SIZE_BYTE : start + _SIZE_BYTE + 4], "little") if start else MAGIC_SIZE
        return start <= place < start + size

    def is_end_damaged(self, page_size: int | None) -> bool:
        """True if the last page that is written has the damaged bit: it is like one that is not whole yet."""
        if page_size is None:
            return False
        names = sorted(path.name for path in self.path.iterdir())
        for name, (place, _) in self.rotten.items():
            after = (place // page_size + 1) * page_size
            files = [(self.path / later).read_bytes() for later in names if later >= name]
            if files and not any(files[0][after:]) and not any(map(any, files[1:])):
                return True
        return False

    def names(self) -> set[str]:
        """Names of the files that the reader sees."""
        return {path.name for path in self.path.iterdir()}

    def numbers(self) -> set[int]:
        """Numbers of the files that the reader sees."""
        return {_number(name) for name in self.names()}

    def is_first_cut(self, page_size: int | None) -> bool:
        """True if the first file that the reader sees may be cut off, or has no page after its header yet.

        Of one that is gone nobody knows how long it was.
        """
        seen, written = min(self.path.iterdir(), default=None), self._written()
        if seen is None:
            return False
        is_begun = page_size is None or any(seen.read_bytes()[page_size : 2 * page_size])
        return not is_begun or seen.name not in written or seen.stat().st_size < len(written[seen.name])

    def is_stale(self) -> bool:
        """True if a file before the last one that the reader sees is not the server's, or one begins otherwise."""
        written, seen = self._written(), sorted(self.path.iterdir())
        return bool(self.begun_anew()) or any(path.read_bytes() != written.get(path.name) for path in seen[:-1])

    def _written(self) -> dict[str, bytes]:
        """Content of the server's files, with what is damaged."""
        written = {one.name: one.read_bytes() for one in sorted(self.server.iterdir())}
        for name, (place, bit) in self.rotten.items():
            content = bytearray(written.get(name, b""))
            if place < len(content):
                content[place] ^= 1 << bit
                written[name] = bytes(content)
        return written

    def show(self, look: Look, chance: random.Random) -> bool:
        """Let the reader see more of the server's files; False: there was nothing of that kind to show."""
        self.path.mkdir(exist_ok=True)
        written = self._written()
        seen = {one.name: one.read_bytes() for one in sorted(self.path.iterdir())}
        changed = [name for name, content in written.items() if seen.get(name) != content]
        gone = [name for name in seen if name not in written]
        if look is Look.PURGE_LATE and not gone:
            return False
        if look in (Look.TORN, Look.NAMES) and not changed:
            return False
        if look is Look.STALE_SIZE:
            return self._show_stale(written, seen, changed)
        if look is not Look.PURGE_LATE:
            for name in gone:
                (self.path / name).unlink()
        for name in changed:
            content = written[name]
            if name == changed[-1] and look is Look.TORN:
                content = _torn(seen.get(name, b""), content, chance)
            if name not in seen and look is Look.NAMES:
                content = b""
            self._put(name, content)
        return True

    def begun_anew(self) -> frozenset[int]:
        """Numbers of files whose start the reader has seen, and that have another one on the server now.

        The same of those after its newest file, which a crash has taken.
        """
        starts = [
            {path.name: _start(path) for path in sorted(folder.iterdir())}
            for folder in (self.path, self.server)
            if folder.exists()
        ]
        if len(starts) < len((self.path, self.server)):
            return frozenset()
        seen, written = starts
        return frozenset(
            _number(name)
            for name, start in seen.items()
            if (len(start) == START_SIZE and written.get(name, start) != start) or name > max(written)
        )

    def _show_stale(self, written: dict[str, bytes], seen: dict[str, bytes], changed: list[str]) -> bool:
        grown = [name for name in changed if name in seen and len(written[name]) > len(seen[name])]
        later = [name for name in changed if name not in seen and grown and name > grown[0]]
        for name in later:
            self._put(name, written[name])
        return bool(later)

    def _put(self, name: str, content: bytes) -> None:
        path = self.path / name
        if not path.exists():
            path.write_bytes(content)
            return
        with path.open("r+b") as file:
            file.write(content)
            file.truncate()


def _number(name: str) -> int:
    return int("".join(filter(str.isdigit, name)))


def _start(path: Path) -> bytes:
    """First bytes of a file, without the flag of a classic one that is open."""
    start = bytearray(path.read_bytes()[:START_SIZE])
    start[_IN_USE_BYTE : _IN_USE_BYTE + 1] = b"\0" * len(start[_IN_USE_BYTE : _IN_USE_BYTE + 1])
    return bytes(start)


def _torn(before: bytes, after: bytes, chance: random.Random) -> bytes:
    """A write that has come as far as any byte of what differs."""
    common = min(len(before), len(after))
    if before[:common] == after[:common]:
        start, end = common, len(after)
        if start >= end:
            return after
        return after[: chance.randint(start, end)]
    start = next(place for place in range(common) if before[place] != after[place])
    end = next(place for place in range(common, 0, -1) if before[place - 1] != after[place - 1])
    cut = chance.randint(start, max(start, end)) // SECTOR * SECTOR
    return after[:cut] + before[cut:common] + after[common:]
