"""A live writer whose pages come late, or in parts: a tailer gets every group once and in order, and no error."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

from binlog_format import Position, open_log
from binlog_format.errors import CorruptError
from binlog_format.innodb.layout import PAGE_SIZE_DEFAULT
from binlog_format.innodb.writer import files
from binlog_format.innodb.writer.options import WriterOptions
from binlog_format.innodb.writer.server import BinlogWriter
from tests.format.innodb.writer.sessions import Driver, Operation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from binlog_format.log import Log

SECTOR = 512


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


class Tailer:
    """Reads what is new, as a follower of the log does."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._position = Position(0, 1, 0)
        self.groups: list[bytes] = []

    def read(self) -> None:
        for block in self._log.blocks(self._position):
            for group in block.groups:
                first = int(group["first_event"])
                events = block.events[first : first + int(group["event_count"])]
                start, end = int(events["start"][0]), int(events["start"][-1] + events["size"][-1])
                data = block.data[start:end].tobytes()
                if group["begins"]:
                    self.groups.append(data)
                else:
                    self.groups[-1] += data
            assert block.next_position is not None
            assert block.next_position >= self._position
            self._position = block.next_position


def _operations(source: random.Random, count: int) -> Iterator[Operation]:
    names = ["event"] * 8 + ["commit"] * 5 + ["group"] * 6 + ["piece", "two_phase", "xa_prepare", "xa_commit"]
    names += ["flush", "checkpoint", "checkpoint", "savepoint", "rollback_to", "rollback", "restart"]
    for _ in range(count):
        name = source.choice(names)
        size = source.choice([source.randint(1, 600), source.randint(400, 9000), 20_000])
        numbers = {"event": (source.choice([0, 0, 1]), size), "piece": (0, source.randint(1, 700)), "group": (size, 0)}
        first, second = numbers.get(name, (source.randrange(3), 0))
        yield name, source.randrange(3), first, second


@pytest.mark.parametrize("in_order", [True, False], ids=["beginning first", "any sectors"])
@pytest.mark.parametrize("page_size", [1024, 4096, 16384])
@pytest.mark.parametrize("seed", range(3))
def test_tailer_of_late_and_torn_pages_gets_every_group_once(
    seed: int, page_size: int, in_order: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a log that stays open, and of one that is opened at each look; header pages are torn, too."""
    source = random.Random(f"{seed} {page_size} {in_order}")
    options = WriterOptions(
        page_size=page_size, max_binlog_size=12 * page_size, state_interval=4 * page_size, cache_size=9000, sync=False
    )
    driver = Driver(tmp_path, options)
    looks = 0
    with open_log(str(tmp_path)) as log:
        tailer = Tailer(log)

        def look() -> None:
            nonlocal looks
            looks += 1
            tailer.read()
            assert tailer.groups == driver.committed[: len(tailer.groups)]
            if looks % 7 == 0:
                with open_log(str(tmp_path)) as fresh:
                    another = Tailer(fresh)
                    another.read()
                # It cannot see a page that has been whole and is torn now, because it is being written again.
                assert another.groups == tailer.groups[: len(another.groups)]

        torn = TornOs(source, look, late_max=5, page_size=page_size, in_order=in_order)
        monkeypatch.setattr(files, "os", torn)
        for operation in _operations(source, 150):
            driver.do(operation)
        driver.writer.close()
        tailer.read()
    assert tailer.groups == driver.committed
    assert len(tailer.groups) > 30
    assert torn.torn > 50


def _log_with_second_header(folder: Path) -> Path:
    """A log whose second file has nothing but its header on disk."""
    with BinlogWriter(folder, WriterOptions(max_binlog_size=1 << 16, sync=False)) as writer:
        writer.raw_commit(b"\x00" * 4 + b"\x1c" + b"\x00" * 4 + b"\x17" + b"\x00" * 13)
        writer.flush_logs()
        writer.kill()
    path = folder / "binlog-000001.ibb"
    assert path.read_bytes()[:1] != b"\0"
    assert not any(path.read_bytes()[PAGE_SIZE_DEFAULT:])
    return path


def _edit(path: Path, byte: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(byte)
        file.write(data)


@pytest.mark.parametrize(
    ("byte", "size"), [(PAGE_SIZE_DEFAULT - SECTOR, SECTOR), (0, SECTOR)], ids=["no end", "no beginning"]
)
def test_torn_header_of_the_newest_file_is_not_there_yet(byte: int, size: int, tmp_path: Path) -> None:
    path = _log_with_second_header(tmp_path)
    good = path.read_bytes()[:PAGE_SIZE_DEFAULT]
    _edit(path, byte, bytes(size))
    with open_log(str(tmp_path)) as log:
        tailer = Tailer(log)
        tailer.read()
        assert len(tailer.groups) == 1
        _edit(path, 0, good)
        tailer.read()
    with BinlogWriter(tmp_path, WriterOptions(max_binlog_size=1 << 16, sync=False)) as writer:
        assert writer.position.file_no == 1


def test_torn_header_is_damage_when_there_are_data_behind_it(tmp_path: Path) -> None:
    """Then it had been whole: the pages of a file come behind its header."""
    path = _log_with_second_header(tmp_path)
    with BinlogWriter(tmp_path, WriterOptions(max_binlog_size=1 << 16, sync=False)) as writer:
        writer.raw_commit(b"x")
    assert path.read_bytes()[PAGE_SIZE_DEFAULT] != 0
    _edit(path, PAGE_SIZE_DEFAULT - SECTOR, bytes(SECTOR))
    with open_log(str(tmp_path)) as log, pytest.raises(CorruptError) as raised:
        Tailer(log).read()
    assert raised.value.condition == "BINLOG_CORRUPT.PAGE_CHECKSUM"


def test_torn_header_is_damage_when_a_later_file_has_begun(tmp_path: Path) -> None:
    """A header is written when all files before its own are complete."""
    path = _log_with_second_header(tmp_path)
    with BinlogWriter(tmp_path, WriterOptions(max_binlog_size=1 << 16, sync=False)) as writer:
        writer.flush_logs()
    _edit(path, PAGE_SIZE_DEFAULT - SECTOR, bytes(PAGE_SIZE_DEFAULT + SECTOR))
    with open_log(str(tmp_path)) as log, pytest.raises(CorruptError) as raised:
        Tailer(log).read()
    assert raised.value.condition == "BINLOG_CORRUPT.PAGE_CHECKSUM"


@pytest.mark.parametrize("byte", [3, 20, 509, 600, PAGE_SIZE_DEFAULT - 1])
def test_flipped_bit_in_the_newest_header_is_damage(byte: int, tmp_path: Path) -> None:
    """No write that was cut off leaves that."""
    path = _log_with_second_header(tmp_path)
    _edit(path, byte, bytes([path.read_bytes()[byte] ^ 8]))
    with open_log(str(tmp_path)) as log, pytest.raises(CorruptError):
        Tailer(log).read()
