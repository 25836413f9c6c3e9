"""Files of a program as one log: their order, numbers and parts, whatever they are called."""

from __future__ import annotations

import contextlib
import os
import random
import struct
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_connector.following.steps import measure
from binlog_format import BinlogError, CorruptError, DataLossError, Position, StartError, UnsupportedError, open_log
from binlog_format.formats.directories import open_directory
from binlog_format.formats.opening import open_live_files, verify_log
from binlog_format.position import BEFORE_ALL
from binlog_format.structured.metadata import ClockSync
from binlog_format.structured.reader import StructuredLog
from tests.connector.damaged_program import NOISE, damaged_before_first_event
from tests.format.structured.logs import defined, event, log_entries, source
from tests.format.structured.model import Model, events_of

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_format.structured.event_log import EventLog

NS = 1_710_072_000_000_000_000
SYNC = ClockSync(NS, 10**9, NS, 3600, b"CET")
HEAD = SYNC.entry() + source(1).entry()
"""What each file of one session begins with, also after a rotation."""


def at(step: int) -> bytes:
    """An event, so many microseconds after the session's start."""
    return event(1, NS + 1000 * step)


def opened(path: Path | str, **how: int) -> StructuredLog:
    directory, only = open_directory(str(path))
    return StructuredLog(directory, only, **how)


def steps(log: EventLog, start: Position | None = None, end: Position | None = None) -> list[int]:
    return [(one.clock - NS) // 1000 for one in events_of(log.entries(start, end))]


def rotate(folder: Path, *, keep: int = 9) -> None:
    """Rename as log rotation does: app.blog -> app.blog.1 -> app.blog.2 ..."""
    for number in range(keep, 0, -1):
        old = folder / f"app.blog.{number}"
        if old.exists():
            old.rename(folder / f"app.blog.{number + 1}")
    (folder / "app.blog").rename(folder / "app.blog.1")


def test_numbers_stay_when_files_are_renamed_and_removed(tmp_path: Path) -> None:
    live = tmp_path / "app.blog"
    live.write_bytes(HEAD + at(1) + at(2))
    (first,) = opened(tmp_path).file_starts()
    rotate(tmp_path)
    live.write_bytes(HEAD)
    log = opened(tmp_path / "app.blog*")
    assert log.file_starts() == [first]
    assert [(file.name, file.state) for file in log.files()] == [("app.blog.1", "active"), ("app.blog", "empty")]
    assert log.end_position() == Position(first.file_no, 0, len(HEAD + at(1) + at(2)))
    live.write_bytes(HEAD + at(3))
    rotate(tmp_path)
    live.write_bytes(HEAD + at(4))
    starts = log.file_starts()
    assert starts[0] == first
    assert [file.name for file in log.files()] == ["app.blog.2", "app.blog.1", "app.blog"]
    assert steps(log) == [1, 2, 3, 4]
    (tmp_path / "app.blog.2").unlink()
    assert log.file_starts() == starts[1:]
    with pytest.raises(DataLossError, match="was rotated away and removed before it was read to its end") as raised:
        list(log.entries(first))
    assert raised.value.condition == "BINLOG_DATA_LOSS.FILE_PURGED"


def test_a_log_without_an_event_begins_before_all(tmp_path: Path) -> None:
    live = tmp_path / "app.blog"
    for content in (b"", b"\0" * 100, HEAD, HEAD + at(1)[:-1]):
        live.write_bytes(content)
        with open_log(str(live), format_name="structured") as log:
            assert (log.start_position(), log.end_position()) == (BEFORE_ALL, BEFORE_ALL)
            assert log.span(BEFORE_ALL).groups == 0
            assert [file.state for file in log.files()] == ["empty"]
    live.write_bytes(HEAD + at(1))
    assert steps(opened(tmp_path), BEFORE_ALL) == [1]
    files = open_live_files(str(live), "structured")
    assert files.names().keys() == {log.start_position().file_no}


def test_the_metadata_of_older_files_holds_in_later_ones(tmp_path: Path) -> None:
    (tmp_path / "a.blog").write_bytes(HEAD + at(1))
    (tmp_path / "b.blog").write_bytes(at(2) + at(3))
    with pytest.raises(CorruptError, match=r"source 1, which has not been defined\. The file before this one"):
        list(opened(tmp_path / "b.blog").entries())
    log = opened(tmp_path / "*.blog")
    assert steps(log) == [1, 2, 3]
    second = log.file_starts()[1]
    assert steps(log, second) == [2, 3]
    assert log.state_at(second).clock_sync == SYNC
    assert set(log.state_at(second).sources) == {1}


@pytest.mark.parametrize("tail", [at(2)[:10], at(2)[:3], bytes(40)])
def test_what_a_killed_program_left_is_waited_for_only_in_the_newest_file(tmp_path: Path, tail: bytes) -> None:
    (tmp_path / "a.blog").write_bytes(HEAD + at(1) + tail)
    log = opened(tmp_path)
    reached = log.span(log.start_position()).end
    assert reached.chunk == len(HEAD + at(1))
    assert [one.condition for one in verify_log(str(tmp_path))] == ["NOT_YET"]
    (tmp_path / "b.blog").write_bytes(HEAD + at(5))
    assert log.span(reached).end == Position(log.file_starts()[1].file_no, 0, len(HEAD + at(5)))
    assert steps(log, reached) == [5]
    assert [(one.condition, one.is_error) for one in verify_log(str(tmp_path))] == [("NOTE", False)]


def test_a_size_that_was_damaged_is_no_end_of_the_log(tmp_path: Path) -> None:
    """Not of the newest file, where it would be waited for, and not of an older one, where it would be passed over."""
    damaged = struct.pack("<I", 1 << 20) + at(2)[4:]
    (tmp_path / "a.blog").write_bytes(HEAD + at(1) + damaged + SYNC.entry() + at(3))
    log = opened(tmp_path)
    for _ in range(2):
        with pytest.raises(CorruptError, match="claims 1,048,576 bytes") as raised:
            log.span(log.start_position())
        assert raised.value.at is not None
        assert raised.value.at.byte == len(HEAD + at(1))
        (tmp_path / "b.blog").write_bytes(HEAD + at(9))
    skipped: list[int] = []
    blocks = log.entries(on_damage=lambda _, until: skipped.append(until))
    assert [(one.clock - NS) // 1000 for one in events_of(blocks)] == [1, 3, 9]
    assert skipped == [len(HEAD + at(1) + damaged)]
    assert [one.condition for one in verify_log(str(tmp_path))] == ["BINLOG_CORRUPT.BAD_ENTRY", "NOTE"]


APPENDED = HEAD + at(7) + at(8) + at(9)


@pytest.mark.parametrize("missing", [1, 5, len(SYNC.entry()) + 3])
def test_an_entry_that_was_cut_off_is_held_back_when_its_end_is_another_one_s(tmp_path: Path, missing: int) -> None:
    killed = HEAD + at(1) + event(1, NS, b"-" * 60)[:-missing]
    before = Position(NS + 1000, 0, len(HEAD + at(1)))
    (tmp_path / "a.blog").write_bytes(killed + APPENDED)
    log = opened(tmp_path)
    with pytest.raises(CorruptError, match="BAD_ENTRY"):
        log.span(log.start_position())
    assert measure(log, log.start_position(), 1 << 20).end == before
    found = log.first_damage(log.start_position())
    assert found is not None
    assert (found.position, found.event_count) == (before, 1)
    assert steps(log, found.go_on) == [7, 8, 9]


def test_damage_at_the_end_is_found_by_who_passes_over_it(tmp_path: Path) -> None:
    """Metadata that claims more than any has, with too little after it to tell damage from an unfinished entry."""
    start = Position(NS + 1000, 0, len(HEAD + at(1)))
    (tmp_path / "a.blog").write_bytes(HEAD + at(1) + struct.pack("<IQ", 1 << 21, (1 << 64) - 1) + bytes(20))
    log = opened(tmp_path)
    with pytest.raises(CorruptError, match="claims 2,097,152 bytes"):
        log.span(start)
    found = log.first_damage(start)
    assert found is not None
    assert (found.position, found.event_count) == (start, 0)
    assert "claims 2,097,152 bytes" in found.error.reason


@pytest.mark.parametrize("tail", [at(3)[:-1], source(2).entry()[:20], at(3)[:3], struct.pack("<I", 1 << 20)])
def test_an_entry_before_an_unfinished_one_is_given(tmp_path: Path, tail: bytes) -> None:
    (tmp_path / "a.blog").write_bytes(HEAD + source(2).entry() + at(1) + at(2) + tail)
    log = opened(tmp_path)
    end = Position(NS + 1000, 0, len(HEAD + source(2).entry() + at(1) + at(2)))
    assert log.end_position() == log.span(log.start_position()).end == end


@pytest.mark.parametrize("tail", [b"\xff\xff\xff\x7f", struct.pack("<IQ", 60, (1 << 64) - 9)])
def test_an_entry_before_an_unfinished_one_in_doubt_is_held_back(tmp_path: Path, tail: bytes) -> None:
    (tmp_path / "a.blog").write_bytes(HEAD + at(1) + at(2) + tail)
    log = opened(tmp_path)
    span = log.span(log.start_position())
    assert (span.end, span.groups) == (Position(NS + 1000, 0, len(HEAD + at(1))), 1)
    assert log.end_position() == span.end


def test_what_is_unfinished_and_no_entry_is_damage_that_holds_back_the_entry_before_it(tmp_path: Path) -> None:
    file, whole = tmp_path / "a.blog", HEAD + at(1) + at(2)
    file.write_bytes(whole + event(77, NS)[:-1])
    log = opened(tmp_path)
    with pytest.raises(CorruptError, match="an event of source 77, which has not been defined"):
        log.span(log.start_position())
    assert measure(log, log.start_position(), 1 << 20).end == Position(NS + 1000, 0, len(HEAD + at(1)))
    file.write_bytes(whole + source(77).entry() + event(77, NS)[:-1])
    assert opened(tmp_path).end_position() == Position(NS + 1000, 0, len(whole + source(77).entry()))


def test_of_entries_that_were_cut_off_hardly_one_is_given(tmp_path: Path) -> None:
    """There are no checksums: bytes of two programs may look like entries by chance."""
    chance, file, wrong = random.Random(5), tmp_path / "a.blog", 0
    for _ in range(300):
        first, second = (b"".join(at(step) + event(1, step, chance.randbytes(60)) for step in range(5)) for _ in "ab")
        size = chance.randrange(len(HEAD + first) - 170, len(HEAD + first))
        file.write_bytes((HEAD + first)[:size] + HEAD + second)
        log = opened(tmp_path)
        with contextlib.suppress(CorruptError):
            for block in log.entries(log.start_position(), measure(log, log.start_position(), 1 << 20).end):
                whole = {HEAD + first, HEAD + second}
                entries = [block.data[one["start"] :][: 4 + one["size"]].tobytes() for one in block.events]
                wrong += any(not any(entry in text for text in whole) for entry in entries)
    assert wrong <= 6


def test_copies_count_once_and_what_cannot_be_ordered_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.blog").write_bytes(HEAD + at(1) + at(2))
    (tmp_path / "half-copied").write_bytes(HEAD + at(1))
    assert steps(opened(tmp_path)) == [1, 2]
    (tmp_path / "half-copied").write_bytes(HEAD + at(1) + at(3))
    with pytest.raises(StartError, match="begin with events of the same time") as raised:
        opened(tmp_path)
    assert raised.value.condition == "BINLOG_START.CONFLICTING_OPTIONS"


def test_two_files_that_begin_without_a_time_cannot_be_ordered_and_one_can(tmp_path: Path) -> None:
    (tmp_path / "app.blog.1").write_bytes(HEAD + event(1, 0) + at(1) + event(1, 0))
    (tmp_path / "app.blog").write_bytes(HEAD + at(2) + event(1, 0) + at(3))
    assert [one.clock and (one.clock - NS) // 1000 for one in events_of(opened(tmp_path).entries())] == [
        0,
        1,
        0,
        2,
        0,
        3,
    ]
    (tmp_path / "app.blog").write_bytes(HEAD + event(1, 0) + at(3))
    with pytest.raises(StartError, match=r"without a time \(clock 0\)") as raised:
        opened(tmp_path)
    assert raised.value.condition == "BINLOG_START.CONFLICTING_OPTIONS"
    assert "Give the path of one file" in str(raised.value)
    one_by_one = [steps(opened(tmp_path / name)) for name in ("app.blog.1", "app.blog")]
    assert [found[1] for found in one_by_one] == [1, 3]


@pytest.mark.parametrize("instead_of_start", [False, True])
@pytest.mark.parametrize("noise", NOISE)
def test_damage_before_the_first_event_is_passed_over(tmp_path: Path, noise: str, *, instead_of_start: bool) -> None:
    """Events without metadata after it are found by the sources that the file defined before."""
    given = damaged_before_first_event(tmp_path, NOISE[noise], instead_of_start=instead_of_start)
    log = opened(tmp_path)
    damage: list[CorruptError] = []
    found = list(log.entries(on_damage=lambda error, _: damage.append(error)))
    assert sum(len(block.events) for block in found) == len(given)
    assert [error.condition for error in damage] == ["BINLOG_CORRUPT.BAD_ENTRY"]
    assert [file.name for file in log.files()] == ["app.blog.1", "app.blog"]
    with pytest.raises(CorruptError, match=r"app\.blog: byte 0x"):
        list(log.entries())


@pytest.mark.parametrize("begin", [b"\x7fELF".ljust(4096), b"PK\x03\x04".ljust(60), bytes(257) + b"ustar".ljust(255)])
def test_copies_of_logs_within_other_files_are_not_of_the_log(tmp_path: Path, begin: bytes) -> None:
    log = HEAD + SYNC.entry() + at(1)
    (tmp_path / "app.blog").write_bytes(log)
    (tmp_path / "other").write_bytes(begin + HEAD + SYNC.entry() + at(2))
    assert steps(opened(tmp_path)) == [1]


def test_patterns_name_files_of_one_log(tmp_path: Path) -> None:
    (tmp_path / "app.blog").write_bytes(HEAD + at(2))
    (tmp_path / "app.blog.1").write_bytes(HEAD + at(1))
    (tmp_path / "app.blog.2.gz").write_bytes(b"\x1f\x8b rotated, packed and read long ago")
    (tmp_path / "other.blog").write_bytes(HEAD + at(9))
    (tmp_path / "readme.txt").write_text("not a log, but it is in the folder")
    with open_log(str(tmp_path / "app.blog*")) as log:
        assert (log.format_name, log.path) == ("structured", f"{tmp_path}/app.blog*")
        assert log.events is not None
        assert steps(log.events) == [1, 2]
    with open_log(str(tmp_path)) as log:
        assert [file.name for file in log.files()] == ["app.blog.1", "app.blog", "other.blog"]
    with pytest.raises(UnsupportedError, match=r"readme\.txt: byte 0x0: the file does not begin as a structured log"):
        open_log(str(tmp_path / "*"))
    with pytest.raises(BinlogError, match="NO_LOG_FILES"):
        open_log(str(tmp_path / "nothing*"))


def test_rows_and_gtids_are_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "app.blog").write_bytes(HEAD + at(1))
    with (
        open_log(str(tmp_path)) as log,
        pytest.raises(UnsupportedError, match="has events of a program, no row"),
    ):
        next(iter(log.changes()))


@given(
    entries=log_entries(),
    files=st.integers(1, 4),
    block_size=st.integers(30, 300),
    count=st.integers(1, 5),
    size_max=st.integers(1, 400),
)
def test_parts_give_the_whole(
    tmp_path_factory: pytest.TempPathFactory,
    entries: list[bytes],
    files: int,
    block_size: int,
    count: int,
    size_max: int,
) -> None:
    folder = tmp_path_factory.mktemp("log")
    parts = [entries[index::files] for index in range(files)]
    whole = b""
    for number, part in enumerate(parts):
        # Metadata is carried over: the sources are in the first file alone.
        head = ClockSync(NS, 10**9, NS + number * 1000).entry() + (b"".join(defined()) if number == 0 else b"")
        content = head + event(1, NS) + b"".join(part)
        (folder / f"{number}.blog").write_bytes(content)
        whole += content
    expected = [one[1:] for one in Model(whole).read().events]
    log = opened(folder, block_size=block_size)
    start, end = log.start_position(), log.end_position()
    span = log.span(start)
    assert (span.end, span.groups, span.size) == (end, len(expected), len(whole))
    cuts = [start, *log.split(start, end, count), end]
    assert cuts == sorted(set(cuts))
    read = [one[1:] for cut, after in pairwise(cuts) for one in events_of(log.entries(cut, after))]
    assert read == expected
    assert all(log.can_start_at(cut) for cut in cuts)
    # In steps, as who follows it reads it; the state goes with the position.
    position, state, groups = start, log.state_at(start), 0
    while (step := log.span(position, size_max=size_max)).groups:
        for block in log.entries(position, step.end, state):
            groups += len(block.events)
            state = block.state_after
        position = step.end
        assert log.state_at(position) == state
    assert (groups, step.end) == (len(expected), end)  # metadata may follow the last event


def test_live_files_see_growth_renaming_and_cuts(tmp_path: Path) -> None:
    live = tmp_path / "app.blog"
    live.write_bytes(HEAD + at(1))
    files = open_live_files(str(tmp_path / "app.blog*"), "structured")
    (number,) = files.names()
    seen = files.look()
    assert files.look() == seen
    end = Position(number, 0, len(HEAD + at(1)))
    consumed, identity = files.consumed(end), files.identity(number)
    assert consumed == HEAD + at(1)
    with live.open("ab") as file:
        file.write(at(2))
    grown = files.look()
    assert grown != seen
    rotate(tmp_path)
    assert (files.consumed(end), files.identity(number), files.look()) == (consumed, identity, grown)
    live.write_bytes(HEAD + at(3))
    begun = files.look()
    assert begun.file_no > number
    assert (files.consumed(end), files.identity(number)) == (consumed, identity)
    os.truncate(tmp_path / "app.blog.1", len(HEAD + at(1)) - 1)
    assert files.consumed(end) is None
    assert files.look() != begun
    (tmp_path / "app.blog.1").unlink()
    assert (files.consumed(end), files.identity(number)) == (None, "")
    assert list(files.names()) == [begun.file_no]
