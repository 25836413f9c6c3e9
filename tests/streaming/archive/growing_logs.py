"""Logs that grow and are purged while they are archived: `GrowingClassic`, `GrowingInnodb`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from binlog_format import open_log
from binlog_format.formats.archive_directory import ArchiveDirectory
from binlog_format.innodb.header import file_number
from binlog_format.source_file import LocalDirectory
from binlog_lab.innodb_writer.options import WriterOptions
from tests.format.innodb.writer.sessions import Driver

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from binlog_format.block import Block
    from binlog_format.log.log import Log

PAGE_SIZE = 1024

_FLAGS_BYTE = 21
"""Of the Format_description event: 1 in it says that the file is open."""

_CLASSIC_NAME = re.compile(r".+\.\d{6}")


class GrowingClassic:
    """A real server's log, which comes a few bytes at a time: cuts fall anywhere."""

    def __init__(self, real: Path, folder: Path, source: random.Random) -> None:
        self.folder = folder
        self._real = sorted(path for path in real.iterdir() if _CLASSIC_NAME.fullmatch(path.name))
        self._source = source
        folder.mkdir(parents=True, exist_ok=True)

    def steps(self) -> Iterator[None]:
        """Each one adds some bytes; a server's flag of the open file is set while it grows."""
        for real in self._real:
            content = real.read_bytes()
            shown = content[:_FLAGS_BYTE] + bytes([content[_FLAGS_BYTE] | 1]) + content[_FLAGS_BYTE + 1 :]
            path = self.folder / real.name
            done = 0
            while done < len(content):
                start, done = done, done + self._source.randint(1, max(len(content) // 4, 40))
                with path.open("ab") as file:
                    file.write(shown[start:done])
                if done >= len(content):
                    with path.open("r+b") as file:
                        file.write(content[: _FLAGS_BYTE + 1])
                yield

    def groups(self) -> list[bytes]:
        """All that the log ever held."""
        with open_log(str(self._real[0].parent)) as log:
            return read_groups(log)


class GrowingInnodb:
    """What our writer writes, as a server would, with its own copy of what is purged.

    Args:
        count: Operations.
    """

    def __init__(self, folder: Path, source: random.Random, count: int = 60) -> None:
        self.folder = folder
        self._source = source
        self._count = count
        options = WriterOptions(
            page_size=PAGE_SIZE,
            max_binlog_size=8 * PAGE_SIZE,
            state_interval=4 * PAGE_SIZE,
            cache_size=1000,
            sync=False,
        )
        self.driver = Driver(folder, options)

    def steps(self) -> Iterator[None]:
        """Each one is a transaction, a part of one, or something that a server does."""
        names = ["event"] * 8 + ["commit"] * 5 + ["group"] * 6 + ["flush", "checkpoint", "restart"]
        for _ in range(self._count):
            name = self._source.choice(names)
            size = self._source.choice([self._source.randint(1, 600), self._source.randint(400, 3000)])
            first, second = {"event": (0, size), "group": (size, 0)}.get(name, (0, 0))
            self.driver.do((name, self._source.randrange(3), first, second))
            yield

    def close(self) -> None:
        """Write everything out."""
        self.driver.do(("flush", 0, 0, 0))
        self.driver.do(("flush", 0, 0, 0))
        self.driver.writer.close()

    def data(self) -> list[bytes]:
        """All groups that were ever committed."""
        return self.driver.committed


def read_groups(log: Log) -> list[bytes]:
    """The bytes of all groups, each with its events joined."""
    return join_groups(log.blocks())


def join_groups(blocks: Iterable[Block], found: list[bytes] | None = None) -> list[bytes]:
    """The same of some blocks; added to *found*."""
    found = [] if found is None else found
    for block in blocks:
        data = block.data.tobytes()
        for group in block.groups:
            events = block.events[group["first_event"] :][: group["event_count"]]
            joined = b"".join(
                data[start : start + size] for start, size in zip(events["start"], events["size"], strict=True)
            )
            if group["begins"]:
                found.append(joined)
            else:
                found[-1] += joined
    return found


def purge(folder: Path, archive: Path) -> int:
    """Remove what the archive has whole, as `PURGE BINARY LOGS` does; how many files."""
    known = ArchiveDirectory(LocalDirectory(str(archive)))
    removed = 0
    numbers = sorted(path.name for path in folder.iterdir() if file_number(path.name) is not None)
    for file in known.manifest.files:
        path = folder / file.name
        is_open = file.name in numbers[-2:] or not file.is_complete
        if not is_open and path.exists() and file != known.manifest.files[-1]:
            path.unlink()
            removed += 1
    return removed
