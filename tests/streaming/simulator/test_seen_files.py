"""Files of which other parts are seen than were written: purged since the listing, not begun yet, or as they were."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from binlog_connector.following.log_end import end_of_log
from binlog_connector.following.resume import compare
from binlog_connector.following.watched import WatchedLog
from binlog_format import open_log
from binlog_format.classic.file import find_files
from binlog_format.errors import CorruptError
from binlog_format.formats.opening import detect_format
from binlog_format.source_file import FileEntry, LocalDirectory
from binlog_lab.simulator.classic_server_log import ClassicServerLog
from binlog_lab.simulator.machine import Clock
from binlog_lab.simulator.server import ModelServer
from binlog_lab.simulator.visible_folder import Look, VisibleFolder

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_connector.following.offsets import SourceOffset


class StaleDirectory(LocalDirectory):
    """Lists first what was there before."""

    def __init__(self, path: Path, before: list[FileEntry]) -> None:
        super().__init__(str(path))
        self._before: list[FileEntry] | None = before

    def entries(self) -> list[FileEntry]:
        before, self._before = self._before, None
        return super().entries() if before is None else before


def log_of_two_files(folder: Path, *, is_mysql: bool = False) -> tuple[ModelServer, SourceOffset]:
    """A server whose first file has been read to its end, and which has begun a second one."""
    clock = Clock()
    server = ModelServer.new(ClassicServerLog(folder, int(clock.now), is_mysql=is_mysql, is_synced=True), clock)
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


@pytest.mark.parametrize("is_mysql", [False, True])
def test_nothing_is_said_before_the_start_of_the_next_file_is_there(tmp_path: Path, *, is_mysql: bool) -> None:
    folder = tmp_path / "log"
    server, offset = log_of_two_files(folder, is_mysql=is_mysql)
    server.purge(1)
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    for size in range(4, len(whole)):
        path.write_bytes(whole[:size])
        with WatchedLog(str(folder)) as watched:
            decision = compare(watched, offset)
        assert (decision.loss, decision.is_waiting) == (None, True)
    path.write_bytes(whole)
    with WatchedLog(str(folder)) as watched:
        decision = compare(watched, offset)
    assert (decision.loss, decision.is_waiting) == (None, False)


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
def test_a_later_file_does_not_end_an_earlier_one_of_which_a_part_is_seen(
    tmp_path: Path, *, is_mysql: bool, is_closed: bool
) -> None:
    """A copy that is being made, or attributes that a network file system keeps: groups at the end are missing."""
    server, _ = log_of_two_files(tmp_path / "server", is_mysql=is_mysql)
    folder = VisibleFolder(tmp_path / "server", tmp_path / "log")
    chance = random.Random(1)
    server.transaction(chance)
    folder.show(Look.ALL, chance)
    server.transaction(chance)
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
