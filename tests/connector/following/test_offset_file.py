"""The offset of a follower on the disk."""

from __future__ import annotations

import gc
import json
import os
from pathlib import Path

import pytest

from binlog_connector.following.offsets import KIND, OffsetFile, SourceOffset
from binlog_format.errors import OptionError, StorageError, UnsupportedError
from binlog_format.gtids.gtid_set import parse_gtids
from binlog_format.position import Position
from tests.faults.processes import Killed

OLD = SourceOffset(Position(3, 7, 2), "innodb", "50000:3", parse_gtids("0-1-17,1-2-4"), last_page_crc=0x12345678)
NEW = SourceOffset(Position(3, 8, 0), "innodb", "50000:3", parse_gtids("0-1-18,1-2-4"), last_page_crc=0x9ABCDEF0)


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    file = OffsetFile(tmp_path / "offset.json")
    assert file.load() is None
    for offset in (
        OLD,
        NEW,
        SourceOffset(Position(0, 1, 0)),
        SourceOffset(Position(1, 0, 4), gtid=parse_gtids("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-77")),
    ):
        file.save(offset)
        assert file.load() == offset
    assert [path.name for path in tmp_path.iterdir()] == ["offset.json"]


def test_people_can_read_it(tmp_path: Path) -> None:
    OffsetFile(tmp_path / "offset.json").save(OLD)
    text = (tmp_path / "offset.json").read_text()
    assert text.endswith("}\n")
    assert json.loads(text) == {"kind": KIND, **OLD.to_json()}


class Steps:
    """Counts what `save` asks the operating system for, and ends the process at one of the calls.

    Args:
        monkeypatch: Of the test.
        last: Calls that are made; the one after them is not.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, last: int) -> None:
        self.count = 0
        self.names: list[str] = []
        self._last = last
        for owner, name in ((Path, "open"), (os, "fsync"), (Path, "replace"), (os, "open"), (os, "close")):
            monkeypatch.setattr(owner, name, self._counted(name, getattr(owner, name)))

    def _counted(self, name: str, call: object) -> object:
        def counted(*arguments: object, **options: object) -> object:
            if self.count == self._last:
                raise Killed
            self.count += 1
            self.names.append(name)
            return call(*arguments, **options)  # type: ignore[operator]

        return counted


def test_killed_at_any_step_the_old_or_the_new_offset_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = OffsetFile(tmp_path / "offset.json")
    found: list[SourceOffset | None] = []
    names: list[str] = []
    gc.collect()  # files of other tests that nobody looks at any more would be closed by the calls that are counted
    for last in range(20):
        with monkeypatch.context() as patch:
            file.save(OLD)
            steps = Steps(patch, last)
            try:
                file.save(NEW)
                done = True
            except Killed:
                done = False
            names = steps.names
        found.append(file.load())
        if done:
            break
    assert names == ["open", "fsync", "replace", "open", "fsync", "close"]
    assert len(found) == 7
    assert found == [OLD, OLD, OLD, NEW, NEW, NEW, NEW]


@pytest.mark.parametrize("size", range(0, 60, 7))
def test_half_written_temporary_file_does_no_harm(tmp_path: Path, size: int) -> None:
    file = OffsetFile(tmp_path / "offset.json")
    file.save(OLD)
    data = (tmp_path / "offset.json").read_bytes()
    (tmp_path / ".offset.json.partial").write_bytes(data[:size] + b"x" * 1000)
    assert file.load() == OLD
    file.save(NEW)
    assert file.load() == NEW
    assert [path.name for path in tmp_path.iterdir()] == ["offset.json"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "it is no JSON"),
        (b"\xff\xfe\0", "it is no JSON"),
        (b"[1, 2]", "it is no offset"),
        (b'{"file_no": 1, "page": 2, "chunk": 3}', "it is no offset"),
        (json.dumps({"kind": KIND, "file_no": 1}).encode(), "page: expected a number"),
        (json.dumps({"kind": KIND, **OLD.to_json(), "more": 1}).encode(), "unknown field more"),
        (json.dumps({"kind": KIND, **OLD.to_json(), "gtid": "nonsense"}).encode(), "nonsense"),
        (b" " * (17 << 20), "too large"),
    ],
)
def test_damaged_or_foreign_file_is_named(tmp_path: Path, content: bytes, told: str) -> None:
    path = tmp_path / "offset.json"
    path.write_bytes(content)
    with pytest.raises(OptionError, match=f"INVALID_VALUE.*offset.json: .*{told}") as raised:
        OffsetFile(path).load()
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("size", [1, 30, 100, 150])
def test_cut_file_is_named(tmp_path: Path, size: int) -> None:
    path = tmp_path / "offset.json"
    OffsetFile(path).save(OLD)
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(OptionError, match="INVALID_VALUE"):
        OffsetFile(path).load()


def test_offset_of_a_later_version_is_named(tmp_path: Path) -> None:
    path = tmp_path / "offset.json"
    path.write_text(json.dumps({"kind": KIND, **OLD.to_json(), "version": 99}))
    with pytest.raises(UnsupportedError, match="VERSION"):
        OffsetFile(path).load()


def test_refused_write_is_named_and_the_old_offset_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StorageError, match=r"NOT_FOUND.*/offset\.json: cannot write it: No such file"):
        OffsetFile(tmp_path / "nowhere" / "offset.json").save(OLD)
    file = OffsetFile(tmp_path / "offset.json")
    file.save(OLD)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match=r"NO_SPACE.*No space left on device"):
        file.save(NEW)
    assert file.load() == OLD
    with pytest.raises(StorageError, match=r"FAILED.*cannot read it: Is a directory"):
        OffsetFile(tmp_path).load()
