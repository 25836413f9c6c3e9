"""A live writer whose pages come late, or in parts: a tailer gets every group once and in order, and no error."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from binlog_format import Position, open_log
from binlog_format.errors import CorruptError
from binlog_format.innodb.layout import PAGE_SIZE_DEFAULT
from binlog_lab.innodb_writer import files
from binlog_lab.innodb_writer.options import WriterOptions
from binlog_lab.innodb_writer.server import BinlogWriter
from tests.faults.writer_os import SECTOR, TornOs
from tests.format.innodb.writer.sessions import Driver, Operation

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from binlog_format.log.log import Log


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


@pytest.mark.thorough_where("^[12]-")
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


def test_torn_header_is_damage_when_there_are_data_after_it(tmp_path: Path) -> None:
    """Then it had been whole: the pages of a file come after its header."""
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
