"""What is written is read by `open_log`: files that are renamed, also while they are read, and what a crash left."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_format import open_log
from binlog_format.source_file import LocalDirectory
from binlog_format.structured.files.file_list import list_series
from binlog_format.structured.reader import StructuredLog
from binlog_format.structured.writing import RotatingStream, Session, SessionWriter
from tests.format.structured.plain_reader import Event, events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from binlog_format.source_file import SourceFile
    from binlog_format.structured.event_log import LogBlock

Read = tuple[bytes, int, bytes, bytes]
"""Writer, clock, format, argument bytes."""


def read_events(blocks: Iterable[LogBlock]) -> Iterator[Read]:
    for block in blocks:
        for event in block.events:
            start, size = int(event["start"]), int(event["size"])
            arguments = block.data[start + 20 : start + 4 + size].tobytes()
            writer, source = block.writers[event["writer"]], block.sources[event["source"]]
            yield writer.name, int(event["clock"]), source.format, arguments


def read_log(path: Path) -> list[Read]:
    with open_log(str(path)) as log:
        assert isinstance(log, StructuredLog)
        return list(read_events(log.entries()))


def plain(found: Iterable[Event]) -> list[Read]:
    return [(one.writer.name, one.clock, one.source.format, one.arguments) for one in found]


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 20), st.booleans(), st.booleans()), min_size=1, max_size=25),
    st.integers(300, 3000),
)
def test_rotated_files_are_one_log(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int, bool, bool]], max_bytes: int
) -> None:
    folder = tmp_path_factory.mktemp("log")
    session, clock = Session(), 10**18
    source = session.add_source("{}", "l")
    writers = [SessionWriter(session, id=number, name=f"w{number}", queue_size=200) for number in range(3)]
    with RotatingStream(session, folder / "a.blog", max_bytes=max_bytes) as stream:
        for number, count, has_new_source, is_consumed in steps:
            if has_new_source:
                source = session.add_source(f"{{}} of {number}", "l")
            for _ in range(count):
                clock += 1
                writers[number].add_event(source, clock, clock)
            if is_consumed:
                session.consume(stream)
        session.consume(stream)
    count = sum(one.name.startswith("a.blog") for one in folder.iterdir())
    files = [folder / "a.blog", *(folder / f"a.blog.{number}" for number in range(1, count))]
    written = [event for file in reversed(files) for event in plain(events(file.read_bytes()))]
    assert read_log(folder) == written
    assert sorted(one[1] for one in written) == list(range(10**18 + 1, clock + 1))


def test_log_that_is_renamed_while_it_is_read_loses_nothing(tmp_path: Path) -> None:
    session = Session()
    source = session.add_source("{}", "l")
    count, is_over = 5000, threading.Event()

    def write() -> None:
        writer = SessionWriter(session, name="w")
        with RotatingStream(session, tmp_path / "a.blog", max_bytes=4000) as stream:
            for number in range(count):
                writer.add_event(source, 10**18 + number, number)
                if number % 7 == 0:
                    session.consume(stream)
            session.consume(stream)
        is_over.set()

    found: list[Read] = []
    position = state = None
    thread = threading.Thread(target=write)
    thread.start()
    while True:
        was_over = is_over.is_set()
        if (tmp_path / "a.blog").exists():
            with open_log(str(tmp_path), format_name="structured") as log:
                assert isinstance(log, StructuredLog)
                for block in log.entries(position, None, state):
                    found += read_events([block])
                    position, state = block.next_position, block.state_after
        if was_over:
            break
    thread.join()
    assert [one[1] - 10**18 for one in found] == list(range(count))


@pytest.mark.parametrize("moment", range(1, 5))
def test_rename_in_the_middle_of_a_listing_hides_no_file(tmp_path: Path, moment: int) -> None:
    """Whichever file is being looked at: a file seen under both of its names, or under none, is looked for again."""
    session = Session()
    writer, source = SessionWriter(session), session.add_source("{}", "l")
    with RotatingStream(session, tmp_path / "a.blog", max_bytes=1) as stream:

        def log(number: int) -> None:
            writer.add_event(source, 10**18 + number, number)
            session.consume(stream)

        for number in range(4):
            log(number)
        found = list_series(RenamingDirectory(tmp_path, moment, lambda: log(4)), "a.blog*")
    assert list(found.begun) == [10**18 + number for number in range(5)]
    assert sorted(one.name for one in found.begun.values()) == sorted(one.name for one in tmp_path.glob("a.blog*"))


@pytest.mark.parametrize("moment", range(1, 5))
def test_copy_that_goes_in_the_middle_of_a_listing_is_not_missed(tmp_path: Path, moment: int) -> None:
    """Before either file's start is read, or before they are compared."""
    session = Session()
    writer, source = SessionWriter(session), session.add_source("{}", "l")
    with RotatingStream(session, tmp_path / "a.blog", max_bytes=1 << 20) as stream:
        writer.add_event(source, 10**18, 0)
        session.consume(stream)
    copy = tmp_path / "a.blog.1"
    copy.write_bytes((tmp_path / "a.blog").read_bytes())
    found = list_series(RenamingDirectory(tmp_path, moment, copy.unlink), "a.blog*")
    assert [one.name for one in found.begun.values()] == ["a.blog"]


class RenamingDirectory(LocalDirectory):
    """Something happens before the *moment*-th file is opened."""

    def __init__(self, path: Path, moment: int, happen: Callable[[], None]) -> None:
        super().__init__(str(path))
        self._left = moment
        self._happen = happen

    def open(self, name: str) -> SourceFile:
        self._left -= 1
        if self._left == 0:
            self._happen()
        return super().open(name)


def test_restarted_program_continues_the_log_of_one_that_was_killed(tmp_path: Path) -> None:
    path = tmp_path / "a.blog"
    for run in range(3):
        session = Session()
        source = session.add_source(f"run {run}: {{}}", "l")
        writer = SessionWriter(session)
        with RotatingStream(session, path, max_bytes=600) as stream:
            for number in range(20):
                writer.add_event(source, 10**18 + 100 * run + number, number)
                session.consume(stream)
        path.write_bytes(path.read_bytes()[:-3])  # the last event is lost with the program
    assert [one[1] - 10**18 for one in read_log(tmp_path)] == [
        100 * run + number for run in range(3) for number in range(19)
    ]
