"""Follows a structured log while a program writes it and rotation renames its files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from binlog_connector import Edge, Tailer
from binlog_format.errors import DataLossError
from tests.format.structured.model import events_of
from tests.format.structured.test_reader import HEAD, NS, at, rotate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from binlog_connector import SourceOffset

WAIT_SECONDS = 0.05
"""For what does not come: what is on disk before a look is found by it."""


def read(tailer: Tailer) -> list[int]:
    """All that is there now."""
    return [
        (one.clock - NS) // 1000
        for step in tailer.steps(idle_seconds=WAIT_SECONDS)
        for one in events_of(step.entries())
    ]


def resumed(folder: Path, saved: SourceOffset) -> tuple[list[int], SourceOffset]:
    with Tailer(str(folder / "app.blog*"), saved=saved) as tailer:
        found = read(tailer)
        return found, tailer.offset


def log_of(folder: Path, *steps: int) -> None:
    """One more file."""
    if (folder / "app.blog").exists():
        rotate(folder)
    (folder / "app.blog").write_bytes(HEAD + b"".join(map(at, steps)))


def test_each_event_comes_once_whatever_files_are_called(tmp_path: Path) -> None:
    log_of(tmp_path)
    with Tailer(str(tmp_path / "app.blog*"), Edge.EARLIEST) as tailer:
        assert read(tailer) == []
        with (tmp_path / "app.blog").open("ab") as file:
            file.write(at(1) + at(2)[:7])
            file.flush()
            assert read(tailer) == [1]
            file.write(at(2)[7:])
        assert read(tailer) == [2]
        log_of(tmp_path)
        assert read(tailer) == []
        log_of(tmp_path, 3)
        log_of(tmp_path, 4, 5)
        assert read(tailer) == [3, 4, 5]
        saved = tailer.offset
    log_of(tmp_path, 6)
    found, saved = resumed(tmp_path, saved)
    assert found == [6]
    for old in tmp_path.glob("app.blog.*"):
        old.unlink()
    log_of(tmp_path, 7)
    assert resumed(tmp_path, saved)[0] == [7]


def put_in_place(path: Path, content: bytes) -> None:
    """Another file with the name of one that was not renamed."""
    other = path.with_name("other")
    other.write_bytes(content)
    other.rename(path)


@pytest.mark.parametrize(
    ("condition", "damage"),
    [
        ("FILE_GREW", lambda folder: (folder / "app.blog.1").write_bytes(HEAD + at(1) + at(2))),
        ("FILE_GREW", lambda folder: (folder / "app.blog.7").write_bytes(HEAD + at(2))),
        ("TRUNCATED_TRANSACTION", lambda folder: (folder / "app.blog").write_bytes(HEAD + at(3))),
        ("PAGE_REWRITTEN", lambda folder: (folder / "app.blog").write_bytes(HEAD + at(3) + at(5) + at(6))),
        ("FILE_PURGED", lambda folder: put_in_place(folder / "app.blog", HEAD + at(8))),
        ("FILE_PURGED", lambda folder: (folder / "app.blog").unlink()),
    ],
)
def test_what_was_lost_is_named(tmp_path: Path, condition: str, damage: Callable[[Path], object]) -> None:
    log_of(tmp_path, 1)
    log_of(tmp_path, 3, 4)
    with Tailer(str(tmp_path / "app.blog*"), Edge.EARLIEST) as tailer:
        assert read(tailer) == [1, 3, 4]
        saved = tailer.offset
    assert resumed(tmp_path, saved) == ([], saved)
    damage(tmp_path)
    with pytest.raises(DataLossError) as raised:
        resumed(tmp_path, saved)
    assert raised.value.subclass == condition


def test_what_a_killed_program_left_is_no_growth(tmp_path: Path) -> None:
    (tmp_path / "app.blog").write_bytes(HEAD + at(1) + at(2)[:9])
    log_of(tmp_path, 3)
    with Tailer(str(tmp_path / "app.blog*"), Edge.EARLIEST) as tailer:
        assert read(tailer) == [1, 3]
        saved = tailer.offset
    assert resumed(tmp_path, saved)[0] == []
