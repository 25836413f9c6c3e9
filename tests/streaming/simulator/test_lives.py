"""Lives of the simulator: none has a defect, a seed is one life, and a known bug is found and made short."""

from __future__ import annotations

import errno
import os
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from binlog_lab.simulator.canaries import CANARIES
from binlog_lab.simulator.disk import Disk, Killed
from binlog_lab.simulator.machine import FIRST_SECOND, Clock, one_machine
from binlog_lab.simulator.run import find_canary, live, run_seeds, shrunk
from binlog_lab.simulator.script import Script

if TYPE_CHECKING:
    from pathlib import Path

CONTENT = b"as it is written"


TABLES_FOUND = (529, 1494, 1803, 2596, 3427, 4657, 5064, 11989, 13183, 75924, 99646)
TOPICS_FOUND = (2485, 3306, 3354, 3982, 6058, 9727, 56967, 60829, 90277)
SWITCH_FOUND = (4718, 5878, 90281, 93064)
JUDGED_FOUND = (1147, 1427, 2806, 2978, 3449, 5279, 11617, 46446, 54492, 55209)
JUDGED_LATER = (58339, 58365, 62517, 62788, 64254, 64828, 65069, 73455, 74514, 74910, 84505)
JUDGED_LAST = (93890, 402872, 406205, 608372)
OTHER_FOUND = (558, 1273, 1952, 2218, 2938, 3283, 4292, 4520, 11520)
LATEST_FOUND = (701423, 703094, 704164, 706094, 708126, 708526, 709305, 722161, 742362, 743872, 748722)
RARE_FOUND = (30232, 30420, 30911, 39355, 40975, 763770, 770206, 770857, 774461, 777911)
READ_AGAIN_FOUND = (781239, 783796, 798770, 799147, 799396, 799465, 802427)
PURGED_LATE_FOUND = (844127, 844584, 847341, 847368, 850729, 860423, 861855, 863059, 876276, 877640, 885158, 891676)
FOUND = (
    *(*TABLES_FOUND, *TOPICS_FOUND, *SWITCH_FOUND, *OTHER_FOUND, *LATEST_FOUND, *RARE_FOUND, *READ_AGAIN_FOUND),
    *PURGED_LATE_FOUND,
    *(*JUDGED_FOUND, *JUDGED_LATER, *JUDGED_LAST),
)
"""Seeds that have found something."""


def test_lives_have_no_defect() -> None:
    assert run_seeds([*range(1, 31), *FOUND]).failing == []


def test_threads_of_something_else_do_not_move_the_clock_of_a_life() -> None:
    """A process may have some: one that waits in a loop would let years pass."""
    clock, began = Clock(), time.monotonic()
    with one_machine(clock, random.Random(1)), ThreadPoolExecutor(1) as other:
        assert other.submit(time.monotonic).result() >= began
        assert other.submit(time.monotonic).result() < FIRST_SECOND
        other.submit(time.sleep, 0.001).result()
        assert clock.now == FIRST_SECOND
        time.sleep(7)
        assert time.monotonic() > FIRST_SECOND + 7


def test_a_seed_is_one_life() -> None:
    for seed in (3, 4, 5):
        assert live(Script.of(seed)).story == live(Script.of(seed)).story


def test_a_seed_is_the_same_life_in_every_process() -> None:
    command = [sys.executable, "-m", "binlog_lab.simulator.run", "--seed", "7"]
    stories = {
        subprocess.run(command, env=os.environ | {"PYTHONHASHSEED": number}, capture_output=True, check=True).stdout
        for number in ("1", "2")
    }
    assert len(stories) == 1
    assert stories.pop().count(b"\n") > 5


def test_a_known_bug_is_found_and_made_short() -> None:
    name = "a rotation skipped"
    seed = find_canary(name, range(1, 1001))
    assert seed is not None
    with CANARIES[name]():
        few = shrunk(Script.of(seed))
        assert len(few.steps) < len(Script.of(seed).steps)
        assert live(few).defect is not None
    assert live(few).defect is None


@pytest.mark.thorough
@pytest.mark.parametrize("name", CANARIES)
def test_known_bugs_are_found(name: str) -> None:
    assert find_canary(name, range(1, 1001)) is not None


def test_steps_that_are_left_out_leave_the_others() -> None:
    script = Script.of(1)
    assert script.only(frozenset({2, 5})).steps == (script.steps[1], script.steps[4])


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    (tmp_path / "job").mkdir()
    return Disk(tmp_path / "job", tmp_path / "log", random.Random(1))


def write(path: Path, *, is_synced: bool) -> None:
    with path.open("wb") as file:
        file.write(CONTENT)
        file.flush()
        if is_synced:
            os.fsync(file.fileno())
    if is_synced:
        folder = os.open(path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)


def test_a_killed_process_changes_nothing_any_more(disk: Disk) -> None:
    disk.at_write[2] = disk.kill
    with disk.installed():
        (disk.root / "a").write_bytes(CONTENT)
        for _ in range(2):
            with pytest.raises(Killed):
                (disk.root / "b").write_bytes(CONTENT)
        with pytest.raises(Killed):
            (disk.root / "a").unlink()
    assert [path.name for path in disk.root.iterdir()] == ["a"]


def test_a_loss_of_power_takes_back_what_was_not_forced_to_the_disk(tmp_path: Path) -> None:
    left = set()
    for seed in range(30):
        disk = Disk(tmp_path / str(seed), tmp_path / "log", random.Random(seed))
        disk.root.mkdir()
        with disk.installed():
            write(disk.root / "synced", is_synced=True)
            write(disk.root / "unsynced", is_synced=False)
            disk.at_write[disk.writes + 1] = disk.lose_power
            with pytest.raises(Killed):
                (disk.root / "unsynced").rename(disk.root / "renamed")
        assert (disk.root / "synced").read_bytes() == CONTENT
        path = disk.root / "unsynced"
        left.add(path.read_bytes() if path.exists() else None)
    assert {None, b"", CONTENT} < left


def test_a_call_fails_as_it_is_told(disk: Disk) -> None:
    disk.at_write[1] = disk.fail(errno.ENOSPC)
    with disk.installed():
        with pytest.raises(OSError, match="No space") as raised:
            (disk.root / "a").write_bytes(CONTENT)
        (disk.root / "a").write_bytes(CONTENT)
    assert raised.value.errno == errno.ENOSPC
