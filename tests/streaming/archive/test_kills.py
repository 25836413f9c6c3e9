"""An archiver that is killed at any moment leaves an archive that is right, and the next one goes on."""

from __future__ import annotations

import random
import signal
import subprocess
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import pytest

from binlog_connector.crash_points import watched
from binlog_format import open_log
from binlog_format.errors import CorruptError, StartError
from binlog_format.source_file import with_archive
from binlog_streaming.archive.archiver import Archiver
from tests.faults.processes import Kill, in_a_process
from tests.program import PROGRAM, run_program
from tests.streaming.archive.growing_logs import GrowingClassic, GrowingInnodb, purge, read_groups
from tests.streaming.archive.test_archiver import OLTP, ROTATION, archive_once, check_archive, manifest_of, stored_files

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_format import Position


def archive_until_killed(log: Path, archive: Path, step: int) -> None:
    with watched(Kill(step)), closing(Archiver(str(log), str(archive))) as one:
        one.archive()


@pytest.mark.parametrize("kind", ["classic", "innodb"])
def test_killed_at_any_step_it_leaves_an_archive_that_is_right(tmp_path: Path, kind: str) -> None:
    server, archive = tmp_path / "server", tmp_path / "archive"
    source = random.Random(1)
    log = GrowingClassic(ROTATION, server, source) if kind == "classic" else GrowingInnodb(server, source, count=40)
    expected: list[bytes] | None = log.groups() if isinstance(log, GrowingClassic) else None
    kills = 0
    for number, _ in enumerate(log.steps()):
        if number < 2 or number % 3:
            continue
        step = source.randint(1, 6)
        kills += in_a_process(partial(archive_until_killed, server, archive, step)) == -signal.SIGKILL
        try:
            with open_log(str(archive)) as archived:
                groups = read_groups(archived)
        except StartError:
            assert not archive.exists() or not manifest_of(archive).files
            continue
        known = log.data() if isinstance(log, GrowingInnodb) else expected
        assert known is not None
        assert groups == known[: len(groups)]
        purge(server, archive)
        with open_log(with_archive(str(server), str(archive))) as union:
            groups = read_groups(union)
            assert groups == known[: len(groups)]
    assert kills > 3
    if isinstance(log, GrowingInnodb):
        log.close()
    archive_once(server, archive)
    with open_log(str(archive)) as archived:
        assert read_groups(archived) == (log.data() if isinstance(log, GrowingInnodb) else expected)
    archive_once(server, archive)
    check_archive(archive)


def end_of(log: Path) -> Position:
    with open_log(str(log)) as opened:
        return opened.end_position()


def test_command_that_is_killed_at_random_goes_on(tmp_path: Path) -> None:
    """Real ends of a real process, while the log grows and is purged."""
    server, archive = tmp_path / "server", tmp_path / "archive"
    log = GrowingClassic(ROTATION, server, random.Random(2))
    steps = log.steps()
    for _ in range(3):
        next(steps)
    for last in (12, 24):
        with subprocess.Popen(
            [PROGRAM, "archive", str(server), "--to", str(archive), "--every", "1ms", "-o", "jsonl"],
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            stored = None
            for number, _ in enumerate(steps):
                # Only what has become whole is stored for sure, and how much of it at once is up to the machine's load.
                if number % 4 == 0 and (end := end_of(server)) != stored:
                    assert '"stored"' in process.stdout.readline()
                    stored = end
                if number == last:
                    break
            process.kill()
        purge(server, archive)
    for _ in steps:
        continue
    done = run_program("archive", server, "--to", archive, "--once")
    assert done.returncode == 0, done.stderr
    with open_log(with_archive(str(server), str(archive))) as union:
        assert read_groups(union) == log.groups()
    check_archive(archive)


def test_command_ends_in_order_when_it_is_stopped(tmp_path: Path) -> None:
    server, archive = tmp_path / "server", tmp_path / "archive"
    for _ in GrowingClassic(ROTATION, server, random.Random(3)).steps():
        continue
    with subprocess.Popen(
        [PROGRAM, "archive", str(server), "--to", str(archive), "--metrics-port", "0"],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(9)]
        assert lines[0].startswith("metrics: http://127.0.0.1:")
        assert lines[-1].startswith("mysql-bin.000008: linked")
        process.send_signal(signal.SIGTERM)
        assert "bytes archived" in process.stdout.read()
    assert process.returncode == 0
    check_archive(archive)


@pytest.mark.parametrize("damage", ["flip", "cut", "remove", "manifest"])
def test_damage_in_the_archive_is_named(tmp_path: Path, damage: str) -> None:
    server, archive = tmp_path / "server", tmp_path / "archive"
    for _ in GrowingClassic(OLTP, server, random.Random(4)).steps():
        continue
    archive_once(server, archive)
    (name,) = stored_files(archive)
    path = archive / ("binlog-archive.json" if damage == "manifest" else name)
    content = path.read_bytes()
    if damage == "remove":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(content[:-1])
    else:
        place = content.index(b'"size":') + 7 if damage == "manifest" else len(content) // 2
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    found = run_program("verify", archive)
    assert found.returncode == 1
    told = found.stdout + found.stderr
    assert "BINLOG_CORRUPT.ARCHIVE" in told
    assert path.name in told
    if damage in ("cut", "remove", "manifest"):
        with pytest.raises(CorruptError, match="ARCHIVE"), open_log(str(archive)) as log:
            read_groups(log)


def test_old_files_are_removed_and_the_rest_stays_readable(tmp_path: Path) -> None:
    server, archive = tmp_path / "server", tmp_path / "archive"
    for _ in GrowingClassic(ROTATION, server, random.Random(5)).steps():
        continue
    archive_once(server, archive)
    files = manifest_of(archive).files
    last_time = max(file.last_time or 0 for file in files[:4])
    with closing(Archiver(str(server), str(archive), clock=lambda: last_time + 1000.0)) as one:
        assert one.remove_old(1_000_000) == []
        removed = one.remove_old(999)
    assert removed == list(files[: len(removed)])
    assert len(removed) >= 4
    assert all((file.last_time or 0) <= last_time for file in removed)
    kept = manifest_of(archive).files
    assert len(kept) + len(removed) == len(files)
    check_archive(archive)
    with open_log(str(archive)) as archived, open_log(str(ROTATION)) as real:
        assert read_groups(archived) == read_groups(real)[-len(read_groups(archived)) :]
