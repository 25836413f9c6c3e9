"""Files of which other parts are seen than were written: purged since the listing, not begun yet, or as they were."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from binlog_connector.following.log_end import end_of_log, end_position, offset_at
from binlog_connector.following.resume import compare
from binlog_connector.following.switching import Ignored, find_switch
from binlog_connector.following.tailer import FollowOptions, Tailer
from binlog_connector.following.watched import WatchedLog, file_start
from binlog_format import open_log
from binlog_format.classic.file import find_files
from binlog_format.classic.reader import ClassicLog
from binlog_format.errors import CorruptError, DataLossError, StartError, SwitchError
from binlog_format.events.layout import EVENT_HEADER_SIZE
from binlog_format.formats.opening import detect_format
from binlog_format.source_file import FileEntry, LocalDirectory
from binlog_lab.simulator.classic_server_log import ClassicServerLog
from binlog_lab.simulator.machine import Clock
from binlog_lab.simulator.server import ModelServer
from binlog_lab.simulator.server_log import InnodbServerLog, Terms
from binlog_lab.simulator.visible_folder import Look, VisibleFolder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_connector.following.offsets import SourceOffset
    from binlog_format.gtids.gtid_set import GtidPoint
    from binlog_format.log_format import GtidStart, Span
    from binlog_format.position import Position
    from binlog_format.source_file import SourceFile


class StaleDirectory(LocalDirectory):
    """Lists first what was there before."""

    def __init__(self, path: Path, before: list[FileEntry]) -> None:
        super().__init__(str(path))
        self._before: list[FileEntry] | None = before

    def entries(self) -> list[FileEntry]:
        before, self._before = self._before, None
        return super().entries() if before is None else before


class GrowingDirectory(LocalDirectory):
    """Shows more when a file of that number is opened."""

    def __init__(self, folder: VisibleFolder, number: int) -> None:
        super().__init__(str(folder.path))
        self._folder = folder
        self._number = number

    def open(self, name: str) -> SourceFile:
        if name.endswith(f"{self._number:06}"):
            self._folder.show(Look.ALL, random.Random(0))
        return super().open(name)


class PurgedLog(ClassicLog):
    """Loses its first file after each look at where it begins, as long as there is another one."""

    def start_position(self) -> Position:
        start = super().start_position()
        names = sorted(Path(self.path).iterdir())
        if len(names) > 1:
            names[0].unlink()
        return start


def log_of_two_files(folder: Path, *, is_mysql: bool = False) -> tuple[ModelServer, SourceOffset]:
    """A server whose first file has been read to its end, and which has begun a second one."""
    clock = Clock()
    server = ModelServer.new(
        ClassicServerLog(folder, int(clock.now), Terms(), is_mysql=is_mysql, is_synced=True), clock
    )
    server.create(0)
    with WatchedLog(str(folder)) as watched:
        offset = end_of_log(watched)
    server.rotate()
    return server, offset


def test_a_file_that_is_purged_after_the_listing_was_read_to_its_end(tmp_path: Path) -> None:
    server, offset = log_of_two_files(tmp_path / "log")
    with WatchedLog(str(tmp_path / "log")) as watched:
        assert list(watched.names()) == [1, 2]
        assert server.purge(1) == [1]
        decision = compare(watched, offset)
    assert decision.loss is None
    assert decision.offset.position.file_no == 2


def beginnings(path: Path, first: int) -> Iterator[None]:
    """Let a file have its first bytes alone, one more at each step; it is whole in the end."""
    whole = path.read_bytes()
    for size in range(first, len(whole)):
        path.write_bytes(whole[:size])
        yield
    path.write_bytes(whole)


@pytest.mark.parametrize("is_mysql", [False, True])
def test_nothing_is_said_before_the_start_of_the_next_file_is_there(tmp_path: Path, *, is_mysql: bool) -> None:
    folder = tmp_path / "log"
    server, offset = log_of_two_files(folder, is_mysql=is_mysql)
    server.purge(1)
    (path,) = folder.iterdir()
    for _ in beginnings(path, 4):
        with WatchedLog(str(folder)) as watched:
            decision = compare(watched, offset)
        assert (decision.loss, decision.is_waiting) == (None, True)
    with WatchedLog(str(folder)) as watched:
        decision = compare(watched, offset)
    assert (decision.loss, decision.is_waiting) == (None, False)


@pytest.mark.parametrize("is_mysql", [False, True])
def test_nothing_is_lost_if_the_start_of_the_next_file_comes_between_two_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_mysql: bool
) -> None:
    """Seed 4657: its GTIDs were not there yet, its groups were."""
    folder = tmp_path / "log"
    server, offset = log_of_two_files(folder, is_mysql=is_mysql)
    server.purge(1)
    server.create(1)
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    path.write_bytes(whole[:30])
    with WatchedLog(str(folder)) as watched:
        span = watched.log.span

        def late_span(start: Position) -> Span:
            path.write_bytes(whole)
            return span(start)

        monkeypatch.setattr(watched.log, "span", late_span)
        decision = compare(watched, offset)
    assert (decision.loss, decision.is_waiting, decision.offset.gtid) == (None, False, offset.gtid)


@pytest.mark.parametrize("is_mysql", [False, True])
def test_a_file_that_is_purged_before_an_earlier_one_was_read_to_its_end(tmp_path: Path, *, is_mysql: bool) -> None:
    """A listing that shows the earlier one still."""
    folder = tmp_path / "log"
    server, _ = log_of_two_files(folder, is_mysql=is_mysql)
    server.create(1)
    with WatchedLog(str(folder)) as watched:
        offset = end_of_log(watched)
    server.rotate()
    last = max(folder.iterdir())
    whole = last.read_bytes()
    (folder / last.name.replace("3", "2")).unlink()
    for size in (*range(4, len(whole)), len(whole)):
        last.write_bytes(whole[:size])
        with WatchedLog(str(folder)) as watched:
            assert list(watched.names()) == [1, 3]
            decision = compare(watched, offset)
            assert end_position(watched).file_no in (1, 3)
        assert (decision.loss, decision.is_waiting) == (None, size < len(whole))
    assert decision.offset.position.file_no == 3


@pytest.mark.parametrize("is_mysql", [False, True])
def test_files_between_two_others_are_passed_only_if_they_had_no_groups(tmp_path: Path, *, is_mysql: bool) -> None:
    folder = tmp_path / "log"
    server, _ = log_of_two_files(folder, is_mysql=is_mysql)
    server.rotate()
    server.create(1)
    server.create(2)
    server.rotate()
    files = sorted(folder.iterdir())
    files[1].unlink()
    with open_log(str(folder)) as log:
        assert log.span(log.start_position()).groups == server.last
        files[2].unlink()
        with pytest.raises(DataLossError, match="file number 2 is not there"):
            log.span(log.start_position())
        files[3].write_bytes(files[3].read_bytes()[:30])  # the start of which is not there yet
        assert log.span(log.start_position()).end.file_no == 1


@pytest.mark.parametrize("is_mysql", [False, True])
def test_a_log_that_records_nothing_before_it_is_not_the_one_that_was_read(tmp_path: Path, *, is_mysql: bool) -> None:
    """A server that has lost all groups, and purged the files that had them; or another server."""
    _, offset = log_of_two_files(tmp_path / "log", is_mysql=is_mysql)
    other = ClassicServerLog(tmp_path / "other", int(Clock().now), Terms(), is_mysql=is_mysql, is_synced=True)
    other.rotate(int(Clock().now))
    assert other.purge(1) == [1]
    with WatchedLog(str(tmp_path / "other")) as watched:
        decision = compare(watched, offset)
    assert decision.loss is not None
    assert decision.loss.subclass == "LOG_RESET"
    assert "records that nothing was logged before it, read was up to GTID" in decision.reason


@pytest.mark.parametrize("keeps", [1, 2])
def test_files_are_found_though_those_of_the_listing_are_purged(tmp_path: Path, keeps: int) -> None:
    folder = tmp_path / "log"
    server, _ = log_of_two_files(folder)
    before = LocalDirectory(str(folder)).entries()
    server.rotate()
    server.purge(keeps)
    assert detect_format(StaleDirectory(folder, before), None) == "classic"
    assert set(find_files(StaleDirectory(folder, before))) == ({3} if keeps == 1 else {1, 2})


@pytest.mark.parametrize("is_mysql", [False, True])
@pytest.mark.parametrize("is_closed", [True, False])
@pytest.mark.parametrize("is_of_other", [False, True])
def test_a_later_file_does_not_end_an_earlier_one_of_which_a_part_is_seen(
    tmp_path: Path, *, is_mysql: bool, is_closed: bool, is_of_other: bool
) -> None:
    """A copy that is being made, or attributes that a network file system keeps: groups at the end are missing.

    Seed 45547: they are the first ones of another server.
    """
    server, _ = log_of_two_files(tmp_path / "server", is_mysql=is_mysql)
    folder = VisibleFolder(tmp_path / "server", tmp_path / "log")
    chance = random.Random(1)
    server.create(1)
    folder.show(Look.ALL, chance)
    if is_of_other:
        server.log.terms.begin(server.last + 1)
    server.create(2)
    if is_closed:
        server.rotate()
    else:
        server.crash(chance, of_machine=False)
    assert folder.show(Look.STALE_SIZE, chance)
    with open_log(str(tmp_path / "log")) as log, pytest.raises(CorruptError, match="the file ends here, but the file"):
        log.span(log.start_position())
    folder.show(Look.ALL, chance)
    with open_log(str(tmp_path / "log")) as log:
        assert log.span(log.start_position()).groups == server.last


@pytest.mark.parametrize("is_mysql", [False, True])
@pytest.mark.parametrize("is_closed", [True, False])
def test_a_file_that_grows_while_it_is_read_is_read_again(tmp_path: Path, *, is_mysql: bool, is_closed: bool) -> None:
    server, _ = log_of_two_files(tmp_path / "server", is_mysql=is_mysql)
    folder = VisibleFolder(tmp_path / "server", tmp_path / "log")
    chance = random.Random(1)
    server.create(1)
    folder.show(Look.ALL, chance)
    server.create(2)
    if is_closed:
        server.rotate()
    else:
        server.crash(chance, of_machine=False)
    assert folder.show(Look.STALE_SIZE, chance)
    log = ClassicLog(GrowingDirectory(folder, 3))
    first = log.span(log.start_position())
    assert first.groups == server.last - 1
    assert log.span(first.end).groups == 1


def test_damage_is_at_the_event_that_has_the_bit_and_nowhere_else(tmp_path: Path) -> None:
    folder = VisibleFolder(tmp_path / "log", tmp_path / "seen")
    _, end = log_of_two_files(folder.server)
    first = min(folder.server.iterdir())
    with open_log(str(folder.server)) as log:
        start = int(next(iter(log.blocks())).groups[0]["file_offset"])
    for place in random.Random(0).sample(range(start, end.position.chunk), 20):
        folder.rotten[first.name] = place, 3
        folder.show(Look.ALL, random.Random(0))
        with open_log(str(folder.path)) as log, pytest.raises(CorruptError) as raised:
            list(log.blocks())
        at = raised.value.at
        assert at is not None
        assert folder.is_damaged(at, None), (place, at)
        assert not folder.is_damaged(replace(at, byte=place + 1), None)
        assert not folder.is_damaged(replace(at, file=str(first)), None)


def test_a_damaged_gtid_is_named_and_not_as_missing_in_the_next_file(tmp_path: Path) -> None:
    """Seed 60829: by headers alone the file lacked what the next one records."""
    folder = tmp_path / "log"
    server, _ = log_of_two_files(folder)
    server.create(1)
    with open_log(str(folder)) as log:
        place = int(list(log.blocks())[-1].groups[-1]["file_offset"])
    server.crash(random.Random(1), of_machine=False)
    path = sorted(folder.iterdir())[1]
    content = bytearray(path.read_bytes())
    content[place + EVENT_HEADER_SIZE] ^= server.last  # its number is 0 then
    path.write_bytes(content)
    with open_log(str(folder)) as log, pytest.raises(CorruptError, match="EVENT_CHECKSUM") as raised:
        log.span(log.start_position())
    assert raised.value.at is not None
    assert raised.value.at.byte == place


def test_a_log_whose_first_file_has_a_damaged_start_is_a_log(tmp_path: Path) -> None:
    """The error is about that file, and not that there are none."""
    folder = tmp_path / "log"
    log_of_two_files(folder)
    path = min(folder.iterdir())
    path.write_bytes(b"\xff" + path.read_bytes()[1:])
    with open_log(str(folder)) as log, pytest.raises(CorruptError, match=rf"HEADER.*{path.name}: byte 0x0"):
        list(log.blocks())


@pytest.mark.parametrize("is_mysql", [False, True])
def test_a_switch_passes_a_newest_file_whose_start_is_not_there_yet(tmp_path: Path, *, is_mysql: bool) -> None:
    folder = tmp_path / "log"
    server, offset = log_of_two_files(folder, is_mysql=is_mysql)
    server.create(1)
    server.rotate()
    for _ in itertools.chain(beginnings(max(folder.iterdir()), 0), ["whole"]):
        with WatchedLog(str(folder)) as watched:
            assert find_switch(watched, offset, ignored=Ignored()).gtid == offset.gtid


def test_a_log_that_is_purged_while_a_switch_is_planned_is_named_as_purged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seed 52039: the place that was found was before the log's start then."""
    server, offset = log_of_two_files(tmp_path / "log")
    with WatchedLog(str(tmp_path / "log")) as watched:
        position_of = watched.log.position_of

        def purged_then(place: GtidPoint) -> GtidStart:
            found = position_of(place)
            server.purge(1)
            return found

        monkeypatch.setattr(watched.log, "position_of", purged_then)
        with pytest.raises(SwitchError, match=r"PURGED.*were purged while it was looked at"):
            find_switch(watched, offset, ignored=Ignored())


@pytest.mark.parametrize("is_mysql", [False, True])
def test_a_log_of_which_no_start_is_there_yet_is_not_one_without_gtids(tmp_path: Path, *, is_mysql: bool) -> None:
    folder = tmp_path / "log"
    server, offset = log_of_two_files(folder, is_mysql=is_mysql)
    server.purge(1)
    (path,) = folder.iterdir()
    for _ in beginnings(path, 4):
        with WatchedLog(str(folder)) as watched, pytest.raises(StartError, match="not there yet") as raised:
            find_switch(watched, offset, ignored=Ignored())
        assert raised.value.condition == "BINLOG_START.NO_LOG_FILES"


@pytest.mark.parametrize("is_mysql", [False, True])
def test_gtids_before_a_log_are_those_of_a_file_that_is_still_there(tmp_path: Path, *, is_mysql: bool) -> None:
    """Seed 4718: the first file was purged between the look at its name and that at its GTIDs."""
    folder = tmp_path / "log"
    server, offset = log_of_two_files(folder, is_mysql=is_mysql)
    server.rotate()
    with PurgedLog(LocalDirectory(str(folder))) as log:
        start, gtids = log.gtids_before_start()
    assert (start.file_no, gtids) == (3, offset.gtid)


def test_no_offset_is_made_of_bytes_that_a_crash_has_taken(tmp_path: Path) -> None:
    """Seed 5064: nothing would show later that they were read."""
    folder = tmp_path / "log"
    _, offset = log_of_two_files(folder)
    path = min(folder.iterdir())
    path.write_bytes(path.read_bytes()[: offset.position.chunk - 1])
    with WatchedLog(str(folder)) as watched, pytest.raises(DataLossError, match="TRUNCATED_TRANSACTION"):
        offset_at(watched, offset.position, gtid=offset.gtid)


def test_a_log_whose_groups_were_all_read_and_purged_is_read_to_its_end_once(tmp_path: Path) -> None:
    """Seed 56967: the end that was set, the start of what is left, was before the place from which reading went on."""
    folder, clock = tmp_path / "log", Clock()
    log = InnodbServerLog(folder, int(clock.now), Terms(), page_size=512, is_synced=True)
    server = ModelServer.new(log, clock)
    server.create(0)
    server.rotate()
    server.rotate()
    log.flush()
    with WatchedLog(str(folder)) as watched:
        last = file_start(max(watched.names()))
        offset = offset_at(watched, last, gtid=watched.log.gtid_position_at(last))
    assert server.purge(2) == [0]
    with Tailer(str(folder), saved=offset, how=FollowOptions(ends=True)) as tailer:
        for step in tailer.steps():
            assert step.start.position <= step.end.position
            assert list(step.blocks()) == []


@pytest.mark.parametrize("is_mysql", [False, True])
def test_a_purged_file_after_one_that_a_killed_server_left_is_named(tmp_path: Path, *, is_mysql: bool) -> None:
    """Seed 11520: what a later file records was missed in the first one, which was named as damaged."""
    folder = tmp_path / "log"
    server, _ = log_of_two_files(folder, is_mysql=is_mysql)
    server.crash(random.Random(1), of_machine=False)
    server.create(1)
    server.rotate()
    server.create(2)
    paths = sorted(folder.iterdir())
    before = [number for number, last in server.log.last_in_file.items() if last < server.last]
    paths[before[-1] - 1].unlink()
    with open_log(str(folder)) as log, pytest.raises(DataLossError, match=f"FILE_PURGED.*file number {before[-1]} "):
        log.span(log.start_position())
