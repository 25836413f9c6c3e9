"""A look at the files of a log reads those that may have changed, and no others."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from binlog_format.formats.opening import detect_format, open_live_files
from binlog_format.source_file import LocalDirectory
from binlog_format.structured.files.file_list import SETTLED_NS
from binlog_format.structured.reader import StructuredLog
from tests.format.structured.model import events_of
from tests.format.structured.test_reader import HEAD, NS, at

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_format.source_file import SourceFile

FILES = 40
BEGUN_NS = 1_700_000_000 * 10**9


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of files that are opened, as they are."""
    names: list[str] = []
    open_file = LocalDirectory.open

    def counted(self: LocalDirectory, name: str) -> SourceFile:
        names.append(name)
        return open_file(self, name)

    monkeypatch.setattr(LocalDirectory, "open", counted)
    return names


def write(path: Path, content: bytes, number: int) -> None:
    """A file that was written a minute after the one before."""
    path.write_bytes(content)
    moment = BEGUN_NS + number * 60 * 10**9
    os.utime(path, ns=(moment, moment))


def log_of(folder: Path) -> StructuredLog:
    return StructuredLog(LocalDirectory(str(folder)))


def numbers(log: StructuredLog) -> list[int]:
    return [(one.clock - NS) // 1000 for one in events_of(log.entries())]


def test_second_look_reads_the_newest_file_alone(tmp_path: Path, opened: list[str]) -> None:
    for number in range(FILES):
        write(tmp_path / f"{number:03}.blog", HEAD + at(number), number)
    (tmp_path / "notes.txt").write_text("no log")
    os.utime(tmp_path / "notes.txt", ns=(BEGUN_NS, BEGUN_NS))
    assert detect_format(LocalDirectory(str(tmp_path)), None) == "structured"
    log = log_of(tmp_path)
    assert len(set(opened)) == FILES + 1
    opened.clear()
    assert len(log_of(tmp_path).file_starts()) == FILES, "another object, of another batch"
    open_live_files(str(tmp_path), "structured").look()
    assert set(opened) == {f"{FILES - 1:03}.blog"}
    write(tmp_path / "next.blog", HEAD + at(FILES), FILES)
    opened.clear()
    assert len(log.file_starts()) == FILES + 1
    assert set(opened) <= {f"{FILES - 1:03}.blog", "next.blog"}
    assert numbers(log) == list(range(FILES + 1))


@pytest.mark.parametrize("later", [1, SETTLED_NS - 1])
def test_file_that_takes_the_name_of_another_is_noticed(tmp_path: Path, later: int) -> None:
    """Also where it has the same size, and a coarse clock shows the same time."""
    for name, step in (("app.blog", 2), ("app.blog.1", 1)):
        (tmp_path / name).write_bytes(HEAD + at(step))
    moments = {"app.blog": BEGUN_NS + later, "app.blog.1": BEGUN_NS}

    def as_if_then() -> None:
        for name, moment in moments.items():
            os.utime(tmp_path / name, ns=(moment, moment))

    as_if_then()
    log = log_of(tmp_path)
    assert numbers(log) == [1, 2]
    (tmp_path / "app.blog").rename(tmp_path / "app.blog.1")
    (tmp_path / "app.blog").write_bytes(HEAD + at(3))
    as_if_then()
    assert numbers(log) == [2, 3]


def test_file_that_was_written_anew_is_noticed(tmp_path: Path) -> None:
    for number in range(3):
        write(tmp_path / f"{number}.blog", HEAD + at(number), number)
    log = log_of(tmp_path)
    assert numbers(log) == [0, 1, 2]
    write(tmp_path / "0.blog", HEAD + at(7), 1)
    assert numbers(log) == [1, 2, 7]
    write(tmp_path / "1.blog", HEAD + at(5) + at(6), 1)
    assert numbers(log) == [2, 5, 6, 7]


def test_wrong_head_is_found_out_when_the_file_is_opened(tmp_path: Path) -> None:
    """A file in the place of another one, in all that a listing shows the same."""
    for number in range(3):
        write(tmp_path / f"{number}.blog", HEAD + at(number), number)
    log = log_of(tmp_path)
    assert numbers(log) == [0, 1, 2]
    write(tmp_path / "0.blog", HEAD + at(9), 0)
    with pytest.raises(Exception, match="FILE_PURGED"):
        list(log.entries())
    assert numbers(log) == [1, 2, 9]
