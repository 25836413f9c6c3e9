"""Follows a structured log: files that are rotated and renamed, and what notices that something is lost."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from binlog_connector.following.entry_marks import KnownFile, files_from_text, files_to_text, state_of
from binlog_connector.following.offsets import SourceOffset
from binlog_connector.following.starts import Edge, StartMoment
from binlog_connector.following.tailer import FollowOptions, Tailer
from binlog_format import open_log
from binlog_format.errors import CorruptError, DataLossError, OptionError, StartError
from binlog_format.gtids.gtid_set import parse_gtids
from binlog_format.structured.view import LogsView
from binlog_lab.simulator.structured.program import FIRST_NS, NAME, LoggingProgram

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_connector.following.steps import Step
    from binlog_connector.following.tailer import Start

FAST = FollowOptions(poll_interval=0.01, grace=0.05)
ONE_BY_ONE = FollowOptions(poll_interval=0.01, step_size_max=1)


def numbers_of(step: Step) -> list[int]:
    """First arguments of a step's events: their numbers."""
    return [json.loads(row)[0] for batch in LogsView().batches(step.entries()) for row in batch["args"].to_pylist()]


def taken(tailer: Tailer) -> list[int]:
    """What is there now."""
    numbers: list[int] = []
    while (step := tailer.step(0)) is not None:
        numbers += numbers_of(step)
    return numbers


def look_on(tailer: Tailer) -> None:
    """Until an error ends it."""
    while True:
        tailer.step(0.01)


def tail(
    program: LoggingProgram,
    start: Start = Edge.EARLIEST,
    *,
    how: FollowOptions = FAST,
    saved: SourceOffset | None = None,
) -> Tailer:
    return Tailer(str(program.directory), start, saved=saved, how=how)


def saved_again(offset: SourceOffset) -> SourceOffset:
    return SourceOffset.from_json(json.loads(json.dumps(offset.to_json())))


def test_events_come_once_whatever_becomes_of_the_files(tmp_path: Path) -> None:
    """Each step by another tailer, which begins with the saved offset of the one before."""
    numbers: list[int] = []
    saved: SourceOffset | None = None
    with LoggingProgram(tmp_path / "log") as program:
        for turn in range(12):
            program.log(turn * 7 % 13 + 1)
            if turn % 3 == 1:
                program.rotate()
            with tail(program, saved=saved, how=ONE_BY_ONE if turn % 2 else FAST) as tailer:
                numbers += taken(tailer)
                saved = saved_again(tailer.offset)
        program.log(3)
        with tail(program, saved=saved) as tailer:
            numbers += taken(tailer)
            assert tailer.offset.state
        assert sorted(numbers) == list(range(program.count))
        assert len(list((tmp_path / "log").iterdir())) == 5


def test_offset_carries_what_events_after_it_need(tmp_path: Path) -> None:
    with LoggingProgram(tmp_path) as program:
        program.log(20)
        with tail(program, Edge.LATEST) as tailer:
            offset = saved_again(tailer.offset)
            state = state_of(offset.state)
            assert state is not None
            assert {source.format for source in state.sources.values()} == {b"item {} of {}", b"failed: code={}"}
            program.log(1)
            with open_log(str(tmp_path)) as log:
                assert offset.position < log.end_position()
            assert taken(tailer) == [20]
        with tail(program, saved=offset) as tailer:
            assert taken(tailer) == [20]


def test_starts(tmp_path: Path) -> None:
    with LoggingProgram(tmp_path) as program:
        program.log(9)
        program.rotate()
        program.log(9)
        when = datetime.fromtimestamp(FIRST_NS // 10**9, UTC)
        with tail(program, when) as tailer:
            assert len(taken(tailer)) == 18
        with tail(program, StartMoment(FIRST_NS // 10**9)) as tailer:
            assert len(taken(tailer)) == 18
        with pytest.raises(StartError, match="TIMESTAMP_NOT_FOUND"):
            tail(program, when + timedelta(seconds=1))
        with pytest.raises(OptionError, match="have no GTIDs"):
            tail(program, parse_gtids("0-1-5"))
        with tail(program, how=ONE_BY_ONE) as tailer:
            step = tailer.step(0)
            assert step is not None
            begin = step.end.position
        with tail(program, SourceOffset(begin)) as tailer:
            assert len(taken(tailer)) == 17


def test_unfinished_entry_is_waited_for(tmp_path: Path) -> None:
    with LoggingProgram(tmp_path) as program:
        program.log(2)
        entry = (tmp_path / NAME).read_bytes()[-30:]
        with tail(program) as tailer:
            assert taken(tailer) == [0, 1]
            program.append(entry[:0] + b"\x14\x00\x00")
            assert taken(tailer) == []
            program.append(b"\x00" + (2).to_bytes(8, "little") + bytes(8) + (77).to_bytes(4, "little"))
            assert taken(tailer) == [77]


@pytest.mark.parametrize("cut", [1, 30])
@pytest.mark.parametrize("is_left", [True, False])
def test_an_end_within_an_entry_ends_no_step(tmp_path: Path, cut: int, *, is_left: bool) -> None:
    """Where damage is skipped, sizes tell the end; what was unfinished is completed, or what a killed program left."""
    how = FollowOptions(poll_interval=0.01, ends=True, skip_damaged=True)
    with LoggingProgram(tmp_path) as program:
        program.log(5)
        path = tmp_path / NAME
        rest = path.read_bytes()[-cut:]
        os.truncate(path, path.stat().st_size - cut)
        with tail(program, how=how) as tailer:
            if is_left:
                program.rotate()
            else:
                program.append(rest)
            program.log(3)
            found = taken(tailer)
            assert found[:4] == list(range(4))
            assert (4 in found) is not is_left
        with tail(program, saved=saved_again(tailer.offset)) as tailer:
            assert sorted([*found, *taken(tailer)]) == [number for number in range(8) if number != 4 or not is_left]


def test_removed_file_is_a_named_loss(tmp_path: Path) -> None:
    with LoggingProgram(tmp_path) as program:
        program.log(5)
        with tail(program) as tailer:
            assert len(taken(tailer)) == 5
            saved = saved_again(tailer.offset)
        first = program.rotate()
        program.log(5)
        first.unlink()
        with pytest.raises(DataLossError, match=r"FILE_PURGED.*the file that was being read is gone"):
            tail(program, saved=saved)
        how = FollowOptions(poll_interval=0.01, fail_on_data_loss=False)
        with tail(program, saved=saved, how=how) as tailer:
            assert sorted(taken(tailer)) == list(range(5, 10))


def test_after_the_last_file_is_gone_earlier_ones_are_not_read_again(tmp_path: Path) -> None:
    """What a killed program left of an entry puts the event before it in doubt, but that event has been read."""
    with LoggingProgram(tmp_path) as program:
        program.log(2)
        program.append(b"\x30\x00\x00\x00" + b"\xee" * 11)
        program.rotate()
        program.log(3)
        last = program.rotate()
        how = FollowOptions(poll_interval=0.01, fail_on_data_loss=False, ends=True)
        with tail(program, how=how) as tailer:
            assert sorted(taken(tailer)) == list(range(5))
            saved = saved_again(tailer.offset)
        last.unlink()
        with tail(program, saved=saved, how=how) as tailer:
            assert taken(tailer) == []
            saved = saved_again(tailer.offset)
        program.log(3)
        with tail(program, saved=saved, how=how) as tailer:
            assert sorted(taken(tailer)) == list(range(5, 8))


def test_file_that_was_to_come_is_gone(tmp_path: Path) -> None:
    with LoggingProgram(tmp_path) as program:
        program.log(5)
        program.rotate()
        program.log(5)
        second = program.rotate()
        program.log(5)
        with tail(program, how=ONE_BY_ONE) as tailer:
            step = tailer.step(0)
            assert step is not None
            saved = saved_again(step.end)
        assert [one.read_size for one in saved.files] == [None, None]
        second.unlink()
        with pytest.raises(DataLossError, match=r"FILE_PURGED.*a file is gone that had not been read"):
            tail(program, saved=saved)


def test_passed_file_that_grows_is_a_named_loss(tmp_path: Path) -> None:
    with LoggingProgram(tmp_path) as program:
        program.log(5)
        first = program.rotate()
        program.log(5)
        with tail(program) as tailer:
            assert len(taken(tailer)) == 10
            saved = saved_again(tailer.offset)
            with first.open("ab") as file:
                file.write(b"\x14\x00\x00\x00" + (2).to_bytes(8, "little") + bytes(8) + bytes(4))
            with pytest.raises(DataLossError, match="FILE_GREW"):
                look_on(tailer)
        with pytest.raises(DataLossError, match="FILE_GREW"):
            tail(program, saved=saved)
        how = FollowOptions(poll_interval=0.01, fail_on_data_loss=False)
        with tail(program, saved=saved, how=how) as tailer:
            program.log(1)
            assert taken(tailer) == [10]


def test_cut_and_rewritten_files_are_named(tmp_path: Path) -> None:
    with LoggingProgram(tmp_path) as program:
        program.log(5)
        with tail(program) as tailer:
            taken(tailer)
            saved = saved_again(tailer.offset)
    path = tmp_path / NAME
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])
    with pytest.raises(DataLossError, match=r"TRUNCATED_TRANSACTION.*it was cut"):
        Tailer(str(tmp_path), saved=saved)
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(DataLossError, match="PAGE_REWRITTEN"):
        Tailer(str(tmp_path), saved=saved)
    path.write_bytes(whole + b"\x03\x00\x00\x00abc" + whole)
    with Tailer(str(tmp_path), saved=saved, how=FAST) as tailer, pytest.raises(CorruptError, match="BAD_ENTRY"):
        look_on(tailer)


def test_files_come_back_from_an_offset() -> None:
    files = (KnownFile(5, 100), KnownFile(7), KnownFile(9, 0))
    assert files_from_text(files_to_text(files)) == files
    assert files_from_text("") == ()
    with pytest.raises(ValueError, match="invalid literal"):
        files_from_text("5=x")
