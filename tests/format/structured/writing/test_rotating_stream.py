"""A log in files: rotation, what another process or a crash has left, a full disk, a kill between two bytes."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_format.errors import CorruptError, StorageError
from binlog_format.structured.metadata import ClockSync
from binlog_format.structured.writing import RotatingStream, Session, SessionWriter
from tests.chance import some
from tests.format.structured.plain_reader import check_batch_sizes, entries, events, whole_entries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

CLOCK = ClockSync(10**18, 10**9, 10**18, 3600, b"CET")


def files_of(path: Path) -> list[Path]:
    """Oldest first."""
    numbered = {int(one.suffix[1:]): one for one in path.parent.glob(f"{path.name}.*")}
    return [numbered[number] for number in sorted(numbered, reverse=True)] + [path]


def numbers_in(path: Path) -> list[object]:
    return [number for one in files_of(path) for event in events(one.read_bytes()) for number in event.args]


class Program:
    """Logs 0, 1, 2 ..."""

    def __init__(self) -> None:
        self.session = Session(CLOCK)
        self.source = self.session.add_source("number {}", "l")
        self.writer = SessionWriter(self.session, id=1, name="w")
        self.count = 0

    def log(self, count: int) -> None:
        for number in range(self.count, self.count + count):
            self.writer.add_event(self.source, number, number)
        self.count += count


def test_each_file_can_be_read_alone_and_none_is_larger(tmp_path: Path) -> None:
    path, program = tmp_path / "app.blog", Program()
    with RotatingStream(program.session, path, max_bytes=600) as stream:
        for _ in range(30):
            program.log(3)
            program.session.consume(stream)
        program.source = program.session.add_source("later {}", "l")
        program.log(3)
        program.session.consume(stream)
    files = files_of(path)
    assert len(files) > 3
    for one in files:
        assert next(entries(one.read_bytes())) == CLOCK
        assert one.stat().st_size <= 600
        check_batch_sizes(one.read_bytes())
    assert numbers_in(path) == list(range(93))


def test_oldest_files_are_deleted(tmp_path: Path) -> None:
    path, program = tmp_path / "app.blog", Program()
    with RotatingStream(program.session, path, max_bytes=200, backups=2) as stream:
        for _ in range(10):
            program.log(3)
            program.session.consume(stream)
    assert [one.name for one in files_of(path)] == ["app.blog.2", "app.blog.1", "app.blog"]
    assert numbers_in(path) == list(range(30))[-len(numbers_in(path)) :]


def test_log_that_is_there_is_continued(tmp_path: Path) -> None:
    path = tmp_path / "app.blog"
    for _ in range(3):
        program = Program()
        with RotatingStream(program.session, path) as stream:
            program.log(2)
            program.session.consume(stream)
    assert numbers_in(path) == [0, 1] * 3


def test_session_that_was_consumed_before_brings_its_metadata(tmp_path: Path) -> None:
    program = Program()
    for name in ("a.blog", "b.blog"):
        with RotatingStream(program.session, tmp_path / name) as stream:
            program.log(1)
            program.session.consume(stream)
    assert [numbers_in(tmp_path / name) for name in ("a.blog", "b.blog")] == [[0], [1]]


def test_incomplete_entry_at_the_end_is_cut_off(tmp_path: Path) -> None:
    path, program = tmp_path / "app.blog", Program()
    with RotatingStream(program.session, path) as stream:
        program.log(5)
        program.session.consume(stream)
    whole = path.read_bytes()
    lost = {size: (len(whole) - size - 1) // 28 + 1 for size in range(len(whole) - 60, len(whole))}
    for size, count in lost.items():
        path.write_bytes(whole[:size])
        again = Program()
        with RotatingStream(again.session, path) as stream:
            again.log(1)
            again.session.consume(stream)
        assert numbers_in(path) == [*range(5 - count), 0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"2024-03-10 12:00:00 a log of text\n", r"the first entry has the tag 0x.*: expected metadata"),
        (b"hello", "5 bytes: expected a structured log"),
        (CLOCK.entry() + bytes(8), "byte 0x2f: an entry of 0 bytes: expected at least 8"),
        (CLOCK.entry() + b"\xff\xff\xff\x7f" + bytes((1 << 26) + 1), "an incomplete entry has 67108869 bytes"),
    ],
)
def test_other_files_are_left_alone(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "app.blog"
    path.write_bytes(content)
    with pytest.raises(CorruptError, match=f"BAD_ENTRY.*{message}"):
        RotatingStream(Session(), path)
    assert path.read_bytes() == content


def test_one_process_writes_a_log(tmp_path: Path) -> None:
    path = tmp_path / "app.blog"
    with RotatingStream(Session(), path), pytest.raises(StorageError, match=r"IN_USE.*another process writes this log"):
        RotatingStream(Session(), path)
    RotatingStream(Session(), path).close()


def test_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"NOT_FOUND.*app\.blog: cannot write it"):
        RotatingStream(Session(), tmp_path / "none" / "app.blog")


LARGEST_FILE = 200_000


@pytest.fixture
def make_room() -> Iterator[Callable[[], None]]:
    """Until it is called, the system takes of a write what makes a file `LARGEST_FILE`, and refuses the rest."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, before[1]))
    yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, before)
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


def test_full_disk_loses_nothing(tmp_path: Path, make_room: Callable[[], None]) -> None:
    """A batch that is written in part is written to its end when there is room again."""
    path, program = tmp_path / "app.blog", Program()
    with RotatingStream(program.session, path) as stream:
        program.log(8000)
        with pytest.raises(StorageError, match=r"NO_SPACE.*File too large"):
            program.session.consume(stream)
        assert path.stat().st_size == LARGEST_FILE
        assert len(whole_entries(path.read_bytes())) < LARGEST_FILE
        program.log(10)
        with pytest.raises(StorageError, match="NO_SPACE"):
            program.session.consume(stream)
        resource.setrlimit(
            resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.getrlimit(resource.RLIMIT_FSIZE)[1])
        )
        program.session.consume(stream)
    assert numbers_in(path) == list(range(8010))
    check_batch_sizes(path.read_bytes())


def test_rotation_that_fails_loses_nothing(tmp_path: Path) -> None:
    path, program = tmp_path / "app.blog", Program()
    with RotatingStream(program.session, path, max_bytes=250) as stream:
        program.log(3)
        program.session.consume(stream)
        program.log(3)
        (tmp_path / ".app.blog.new").mkdir()  # where the next file would begin
        with pytest.raises(StorageError, match="cannot write it: Is a directory"):
            program.session.consume(stream)
        (tmp_path / ".app.blog.new").rmdir()
        program.session.consume(stream)
    assert numbers_in(path) == list(range(6))
    assert len(files_of(path)) == 2


@given(st.lists(st.tuples(st.integers(1, 30), st.booleans()), max_size=20), st.integers(100, 2000))
def test_whatever_is_logged_is_in_the_files_once(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, bool]], max_bytes: int
) -> None:
    path, program = tmp_path_factory.mktemp("log") / "app.blog", Program()
    with RotatingStream(program.session, path, max_bytes=max_bytes) as stream:
        for count, has_new_source in steps:
            if has_new_source:
                program.source = program.session.add_source(f"number {{}} of {count}", "l")
            program.log(count)
            program.session.consume(stream)
    assert numbers_in(path) == list(range(program.count))
    for one in files_of(path):
        check_batch_sizes(one.read_bytes())


PROGRAM = """
import sys
from binlog_format.structured.writing import RotatingStream, Session, SessionWriter
session = Session()
source = session.add_source("number {} {}", "l[c")
writer = SessionWriter(session, queue_size=1 << 16)
print("begun", flush=True)
with RotatingStream(session, sys.argv[1], max_bytes=int(sys.argv[2])) as stream:
    for number in range(1 << 40):
        writer.add_event(source, number, number, "x" * (number % 300))
        if number % 37 == 0:
            session.consume(stream)
            print(number, flush=True)
"""


@pytest.mark.parametrize("written", some([5, 40, 300, 700], 2))
def test_kill_leaves_whole_entries_or_an_incomplete_last_one(tmp_path: Path, written: int) -> None:
    """Of all that was consumed nothing is lost, and the next process continues."""
    path = tmp_path / "app.blog"
    for run in range(2):
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(path), "100000"], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(written)]
        process.kill()
        process.wait()
        consumed = [int(line) for line in [*lines, *process.stdout.read().split("\\n")] if line.strip().isdecimal()]
        process.stdout.close()
        path.touch()  # killed between two renames
        data = [one.read_bytes() for one in files_of(path)]
        assert all(whole_entries(one) == one for one in data[:-1])
        found = [event.args[0] for one in data for event in events(whole_entries(one))]
        starts = [at for at, number in enumerate(found) if number == 0]
        assert len(starts) == run + 1
        last = found[starts[-1] :]
        assert last == list(range(len(last)))
        assert len(last) > max(consumed)
