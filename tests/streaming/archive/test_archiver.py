"""A log that grows and is purged all the time is archived without a gap, in each format."""

from __future__ import annotations

import os
import random
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from binlog_connector.following.starts import Edge
from binlog_connector.following.tailer import FollowOptions, Tailer
from binlog_format import open_log
from binlog_format.errors import CorruptError, DataLossError, OptionError, StartError, StorageError
from binlog_format.formats.archive_directory import ArchiveDirectory
from binlog_format.formats.opening import verify_log
from binlog_format.source_file import LocalDirectory, with_archive
from binlog_lab.simulator.classic_server_log import ClassicServerLog
from binlog_lab.simulator.machine import Clock
from binlog_lab.simulator.server import ModelServer
from binlog_lab.simulator.server_log import Terms
from binlog_lab.simulator.visible_folder import Look, VisibleFolder
from binlog_streaming.archive import archiver
from binlog_streaming.archive.archive_store import ArchiveStore
from binlog_streaming.archive.archiver import Archiver
from binlog_streaming.lake.store import UNFINISHED
from tests.chance import seed
from tests.corpus import SERVER_CASES
from tests.faults.processes import files_up_to
from tests.streaming.archive.growing_logs import GrowingClassic, GrowingInnodb, join_groups, purge, read_groups

if TYPE_CHECKING:
    from binlog_format.formats.manifest import Manifest
    from binlog_format.source_file import SourceFile

OLTP = SERVER_CASES / "mariadb-11.8" / "oltp_small"
ROTATION = SERVER_CASES / "mariadb-10.11" / "rotation"
REAL_LOGS = [
    ROTATION,
    SERVER_CASES / "mariadb-10.11" / "torn",
    SERVER_CASES / "mysql-9" / "rotation",
    SERVER_CASES / "mysql-9" / "ops_zstd",
    SERVER_CASES / "mariadb-10.11" / "ops_nochecksum",
    SERVER_CASES / "mysql-9" / "torn",
]


def archive_once(log: Path, archive: Path | str) -> None:
    with closing(Archiver(str(log), str(archive))) as one:
        one.archive()


def manifest_of(archive: Path) -> Manifest:
    return ArchiveDirectory(LocalDirectory(str(archive))).manifest


def stored_files(archive: Path) -> set[str]:
    files = (path.relative_to(archive).as_posix() for path in archive.rglob("*") if path.is_file())
    return set(files) - {"binlog-archive.json"}


class ReplacedWhileRead(LocalDirectory):
    """What an object store gives of a manifest that becomes shorter between a look at its size and at its bytes."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._manifest = Path(path) / "binlog-archive.json"
        self._content = self._manifest.read_bytes()
        self._manifest.write_bytes(self._content + b"\x8c\x93\xfb")

    def open(self, name: str) -> SourceFile:
        opened = super().open(name)
        self._manifest.unlink()
        self._manifest.write_bytes(self._content)
        return opened


def test_manifest_that_is_replaced_while_it_is_read_is_not_damaged(tmp_path: Path) -> None:
    for _ in GrowingClassic(ROTATION, tmp_path / "server", random.Random(7)).steps():
        continue
    archive_once(tmp_path / "server", tmp_path / "archive")
    expected = manifest_of(tmp_path / "archive")
    assert ArchiveDirectory(ReplacedWhileRead(str(tmp_path / "archive"))).manifest == expected


def check_archive(archive: Path) -> None:
    """Nothing is there that the manifest does not name, and all of it is sound, apart from events that a test made."""
    assert stored_files(archive) == {part.name for file in manifest_of(archive).files for part in file.parts}
    errors = [finding for finding in verify_log(str(archive)) if finding.is_error]
    assert [error for error in errors if "Format_description" not in error.reason] == []


@pytest.mark.parametrize("real", REAL_LOGS, ids=lambda path: f"{path.parent.name} {path.name}")
def test_classic_log_that_comes_in_pieces_is_archived_byte_by_byte(real: Path, tmp_path: Path) -> None:
    """Archived is always a part of the log from its start on; purged files are read from the archive."""
    server, archive = tmp_path / "server", tmp_path / "archive"
    log = GrowingClassic(real, server, random.Random(f"{seed()} {real.name}"))
    steps = log.steps()
    next(steps)
    expected = log.groups()
    purged = 0
    try:
        one = Archiver(str(server), str(archive))
    except StartError:
        next(steps)  # the first piece was shorter than the magic number
        one = Archiver(str(server), str(archive))
    with closing(one):
        for _ in steps:
            one.archive()
            purged += purge(server, archive)
            if one.files:
                with open_log(with_archive(str(server), str(archive))) as union, open_log(str(archive)) as archived:
                    groups = read_groups(union)
                    assert groups == expected[: len(groups)]
                    assert read_groups(archived) == groups  # whole groups are final at once
        one.archive()
    with open_log(str(archive)) as archived:
        assert read_groups(archived) == expected
    for file in manifest_of(archive).files:
        content = (real / file.name).read_bytes()
        found = b"".join((archive / part.name).read_bytes() for part in file.parts)
        assert found[22:] == content[22 : len(found)]
        assert found[:21] == content[:21]
        assert not file.is_complete or len(found) == len(content)
    assert purged == len(manifest_of(archive).files) - 1
    check_archive(archive)


@pytest.mark.parametrize("case", range(3))
def test_innodb_log_that_is_purged_is_archived_without_a_gap(case: int, tmp_path: Path) -> None:
    server, archive = tmp_path / "server", tmp_path / "archive"
    log = GrowingInnodb(server, random.Random(f"{seed()} {case}"))
    purged = 0
    with closing(Archiver(str(server), str(archive))) as one:
        for _ in log.steps():
            one.archive()
            if one.files:
                with open_log(with_archive(str(server), str(archive))) as union:
                    groups = read_groups(union)
                    assert groups == log.data()[: len(groups)]
                with open_log(str(archive)) as archived:
                    groups = read_groups(archived)
                    assert groups == log.data()[: len(groups)]
        log.close()
        one.archive()
        purged = purge(server, archive)
    assert purged > 1
    with open_log(with_archive(str(server), str(archive))) as union:
        assert read_groups(union) == log.data()
    with open_log(str(archive)) as archived:
        assert read_groups(archived) == log.data()
    assert sum(file.transactions for file in manifest_of(archive).files) == len(log.data())
    check_archive(archive)


def test_finished_files_are_links_on_the_same_file_system_and_copies_elsewhere(tmp_path: Path) -> None:
    server, archive = tmp_path / "server", tmp_path / "archive"
    for _ in GrowingClassic(ROTATION, server, random.Random(0)).steps():
        continue
    archive_once(server, archive)
    sealed = [file for file in manifest_of(archive).files if file.is_sealed]
    assert len(sealed) == len(manifest_of(archive).files) - 1
    for file in sealed:
        (part,) = file.parts
        assert (archive / part.name).samefile(server / file.name)
    other = Path("/dev/shm")
    if not other.is_dir() or other.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second file system at /dev/shm")
    elsewhere = other / f"{tmp_path.name}-{os.getpid()}"
    try:
        archive_once(server, elsewhere)
        for file in sealed:
            assert (elsewhere / f"1/{file.name}").read_bytes() == (server / file.name).read_bytes()
        check_archive(elsewhere)
    finally:
        for path in sorted(elsewhere.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        elsewhere.rmdir()


def test_file_that_goes_while_it_is_archived_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seed 1273: the server had purged it when a link was made, and its place in the archive was named as missing."""
    server, archive = tmp_path / "server", tmp_path / "archive"
    for _ in GrowingClassic(ROTATION, server, random.Random(0)).steps():
        continue
    link = ArchiveStore.link

    def purged_then(self: ArchiveStore, path: str, name: str) -> str | None:
        Path(path).unlink()
        return link(self, path, name)

    monkeypatch.setattr(ArchiveStore, "link", purged_then)
    with pytest.raises(DataLossError, match=r"FILE_PURGED.*file number 1 is not there"):
        archive_once(server, archive)
    assert manifest_of(archive).files == ()


@pytest.mark.parametrize("is_mysql", [False, True])
def test_file_that_is_seen_as_it_was_is_not_taken_for_whole(tmp_path: Path, *, is_mysql: bool) -> None:
    """Seed 558: the archive had it without its last group, as finished, when the next one named what it lacked."""
    log = ClassicServerLog(tmp_path / "server", 0, Terms(), is_mysql=is_mysql, is_synced=True)
    server, folder = ModelServer.new(log, Clock()), VisibleFolder(tmp_path / "server", tmp_path / "seen")
    chance, archive = random.Random(1), tmp_path / "archive"
    server.create(0)
    folder.show(Look.ALL, chance)
    archive_once(folder.path, archive)
    server.create(1)
    server.crash(chance, of_machine=False)
    server.create(2)
    assert folder.show(Look.STALE_SIZE, chance)
    with pytest.raises(CorruptError, match="the file after this one records"):
        archive_once(folder.path, archive)
    (file,) = manifest_of(archive).files
    assert not file.is_complete
    folder.show(Look.ALL, chance)
    archive_once(folder.path, archive)
    with open_log(str(archive)) as archived:
        assert archived.span(archived.start_position()).groups == server.last


def test_ranges_of_a_file_are_joined_while_they_are_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file has few parts, and none is ever changed: it is stored again under another name."""
    monkeypatch.setattr(archiver, "PART_SIZE_MIN", 20_000)
    monkeypatch.setattr(archiver, "PART_SIZE_MAX", 40_000)
    server, archive = tmp_path / "server", tmp_path / "archive"
    seen: dict[str, bytes] = {}
    for _ in GrowingClassic(OLTP, server, random.Random(1)).steps():
        archive_once(server, archive)
        for name in stored_files(archive):
            content = (archive / name).read_bytes()
            assert seen.setdefault(name, content) == content
    sizes = [part.size for part in manifest_of(archive).files[-1].parts]
    assert len(sizes) > 2
    assert all(size >= 20_000 for size in sizes[:-1])
    check_archive(archive)


@pytest.mark.parametrize("through_archive", [True, False], ids=["from the archive", "from both"])
def test_follower_goes_on_where_it_was_on_the_server(tmp_path: Path, through_archive: bool) -> None:
    """Offsets of the server's log, of its archive, and of both are the same."""
    server, archive = tmp_path / "server", tmp_path / "archive"
    log = GrowingClassic(ROTATION, server, random.Random(3))
    paths = [str(server), with_archive(str(server), str(archive)), str(archive)]
    source = random.Random(4)
    found: list[bytes] = []
    offset = None
    for number, _ in enumerate(log.steps()):
        if number == 0:
            continue
        archive_once(server, archive)
        path = str(archive) if through_archive and number % 2 else source.choice(paths)
        with Tailer(path, Edge.EARLIEST, saved=offset, how=FollowOptions(ends=True)) as tailer:
            for step in tailer.steps():
                join_groups(step.blocks(), found)
            offset = tailer.offset
    assert found == log.groups()


def test_follower_of_a_log_that_is_purged_at_once_loses_nothing(tmp_path: Path) -> None:
    """It stops now and then, for longer than the server keeps its files."""
    server, archive = tmp_path / "server", tmp_path / "archive"
    source = random.Random(7)
    log = GrowingInnodb(server, source, count=150)
    path = with_archive(str(server), str(archive))
    found: list[bytes] = []
    offset = None
    purged = 0

    def follow() -> None:
        nonlocal offset
        with Tailer(path, Edge.EARLIEST, saved=offset, how=FollowOptions(ends=True)) as tailer:
            for step in tailer.steps(idle_seconds=0.2):
                join_groups(step.blocks(), found)
            offset = tailer.offset

    with closing(Archiver(str(server), str(archive))) as one:
        for _ in log.steps():
            one.archive()
            if one.files:
                purged += purge(server, archive)
            if one.files and source.random() < 0.1:
                follow()
        log.close()
        one.archive()
        purged += purge(server, archive)
    follow()
    assert purged > 5
    assert found == log.data()


def test_gap_between_archive_and_server_is_named(tmp_path: Path) -> None:
    server, archive = tmp_path / "server", tmp_path / "archive"
    steps = GrowingClassic(ROTATION, server, random.Random(5)).steps()
    while not (server / "mysql-bin.000003").exists():
        next(steps)
    archive_once(server, archive)
    incomplete = manifest_of(archive).files[-1]
    for _ in steps:
        continue
    (server / incomplete.name).unlink()
    with pytest.raises(DataLossError, match=rf"FILE_PURGED.*{incomplete.name}.*first {incomplete.size} bytes"):
        open_log(with_archive(str(server), str(archive)))
    with pytest.raises(DataLossError, match=r"FILE_PURGED.*before it was archived whole"):
        archive_once(server, archive)
    for path in sorted(server.iterdir())[:-1]:
        path.unlink()
    with pytest.raises(DataLossError, match=r"FILE_PURGED.*before it was archived whole"):
        archive_once(server, archive)


def test_log_that_was_reset_is_named_and_the_archive_stays(tmp_path: Path) -> None:
    server, archive = tmp_path / "server", tmp_path / "archive"
    for _ in GrowingClassic(ROTATION, server, random.Random(6)).steps():
        continue
    archive_once(server, archive)
    before = {name: (archive / name).read_bytes() for name in stored_files(archive)}
    for path in server.iterdir():
        path.unlink()
    for _ in GrowingClassic(SERVER_CASES / "mariadb-10.11" / "torn", server, random.Random(6)).steps():
        with pytest.raises((DataLossError, StartError)):
            archive_once(server, archive)
    with pytest.raises(DataLossError, match="LOG_RESET"):
        archive_once(server, archive)
    with pytest.raises(DataLossError, match="LOG_RESET"):
        open_log(with_archive(str(server), str(archive)))
    assert {name: (archive / name).read_bytes() for name in stored_files(archive)} == before


def test_other_server_with_the_same_file_numbers_is_named(tmp_path: Path) -> None:
    """Its files have the same names, and more of them."""
    server, archive = tmp_path / "server", tmp_path / "archive"
    for _ in GrowingClassic(SERVER_CASES / "mariadb-10.11" / "torn", server, random.Random(6)).steps():
        continue
    archive_once(server, archive)
    for path in server.iterdir():
        path.unlink()
    for _ in GrowingClassic(ROTATION, server, random.Random(6)).steps():
        continue
    with pytest.raises(DataLossError, match=r"FILE_REUSED.*mysql-bin\.000003"):
        archive_once(server, archive)
    with (
        pytest.raises(DataLossError, match=r"FILE_REUSED.*has other bytes"),
        open_log(with_archive(str(server), str(archive))) as log,
    ):
        read_groups(log)
    # The files that both have are gone: the GTIDs tell.
    for number in (1, 2, 3):
        (server / f"mysql-bin.00000{number}").unlink()
    with pytest.raises(DataLossError, match=r"(LOG_RESET.*GTIDs|FILE_PURGED)"):
        archive_once(server, archive)


def test_bytes_that_a_crash_took_back_are_named(tmp_path: Path) -> None:
    server, archive = tmp_path / "server", tmp_path / "archive"
    for _ in GrowingClassic(OLTP, server, random.Random(8)).steps():
        continue
    archive_once(server, archive)
    (path,) = server.iterdir()
    content = path.read_bytes()
    path.write_bytes(content[:-100])
    with pytest.raises(DataLossError, match=r"TRUNCATED_TRANSACTION.*were archived"):
        archive_once(server, archive)
    path.write_bytes(content[:-60] + bytes(60))
    with pytest.raises(DataLossError, match=r"PAGE_REWRITTEN.*were archived"):
        archive_once(server, archive)
    with (
        pytest.raises(DataLossError, match=r"FILE_REUSED.*has other bytes"),
        open_log(with_archive(str(server), str(archive))) as log,
    ):
        read_groups(log)


def test_second_archiver_refuses_the_first(tmp_path: Path) -> None:
    server, archive = tmp_path / "server", tmp_path / "archive"
    steps = GrowingClassic(ROTATION, server, random.Random(9)).steps()
    for _ in range(4):
        next(steps)
    with closing(Archiver(str(server), str(archive))) as first:
        first.archive()
        for _ in range(4):
            next(steps)
        with closing(Archiver(str(server), str(archive))) as second:
            for _ in range(4):
                next(steps)
            with pytest.raises(StorageError, match="IN_USE"):
                first.archive()
            second.archive()
            for _ in steps:
                second.archive()
    archive_once(server, archive)  # removes what the first one stored in vain
    check_archive(archive)
    with open_log(str(archive)) as archived, open_log(str(ROTATION)) as real:
        assert read_groups(archived) == read_groups(real)


@pytest.mark.parametrize("size", [3000, 60_000])
def test_full_disk_is_named_and_the_archive_goes_on_when_there_is_room(tmp_path: Path, size: int) -> None:
    server, archive = tmp_path / "server", tmp_path / "archive"
    for _ in GrowingClassic(OLTP, server, random.Random(10)).steps():
        continue
    with files_up_to(size), pytest.raises(StorageError, match="NO_SPACE"):
        archive_once(server, archive)
    archive_once(server, archive)
    check_archive(archive)
    with open_log(str(archive)) as archived, open_log(str(OLTP)) as real:
        assert read_groups(archived) == read_groups(real)


def test_places_that_are_no_archive_of_this_log_are_refused(tmp_path: Path) -> None:
    server, archive = tmp_path / "server", tmp_path / "archive"
    for _ in GrowingClassic(ROTATION, server, random.Random(11)).steps():
        continue
    with pytest.raises(OptionError, match="the server's own directory"):
        archive_once(server, server)
    archive.mkdir()
    (archive / "notes.txt").write_text("mine")
    with pytest.raises(OptionError, match=r"is not an archive, and holds notes\.txt"):
        archive_once(server, archive)
    with pytest.raises(StartError, match=r"PATH_NOT_FOUND.*this is not an archive"):
        open_log(with_archive(str(server), str(archive)))
    with pytest.raises(OptionError, match="expected a directory"):
        archive_once(server / "mysql-bin.000001", tmp_path / "other")


def test_half_of_a_manifest_is_passed_over_and_goes(tmp_path: Path) -> None:
    """What an archiver leaves that is killed while it writes one; the place may be new."""
    half = tmp_path / f"{UNFINISHED}binlog-archive.json"
    half.write_bytes(b"{")
    archive_once(OLTP, tmp_path)
    check_archive(tmp_path)
    assert not half.exists()
