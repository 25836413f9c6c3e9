"""kill -9 of the command at several moments, while the log grows: tables equal the truth, and nothing is doubled."""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING

import pytest

from binlog_format.classic.reader import ClassicLog
from binlog_format.formats.directories import open_directory
from binlog_lab.innodb_writer.options import WriterOptions
from binlog_lab.repack.repacker import Repacker
from tests.chance import seed as chance_seed
from tests.chance import some
from tests.streaming.tables.jobs.processes import TIMEOUT_S, RunningJob
from tests.streaming.tables.oltp import OLTP, TABLES, mirror, play_changelog, truth

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.slow]

LOG_FILE = "mysql-bin.000001"
JOB = """
checkpoint = "checkpoint"
[source]
path = "log"
maxBytesPerTrigger = "30k"
[sink]
directory = "tables"
[trigger]
interval = "50ms"
[[tables]]
select = 'sb[.]sbtest[12]'
mode = "mirror"
[[tables]]
mode = "changelog"
"""


class GrowingLog:
    """A live `.ibb` log of several small files, into which a real server's log goes in random pieces.

    Every piece ends in a page that is not full, and is written again with the next one.
    """

    def __init__(self, folder: Path, content: bytes, seed: int) -> None:
        self._content = content
        self._size = 0
        self._random = random.Random(seed)
        (folder / "server").mkdir()
        self._server_file = folder / "server" / LOG_FILE
        self._append(1000)
        options = WriterOptions(max_binlog_size=1 << 18, sync=False)
        self._source = ClassicLog(*open_directory(str(self._server_file.parent)))
        self._repacker = Repacker(self._source, folder / "log", options)

    def _append(self, size: int) -> None:
        with self._server_file.open("ab") as file:
            file.write(self._content[self._size : self._size + size])
        self._size += size

    def grow_to(self, share: float, *, pause_s: float = 0.0, hurry: threading.Event | None = None) -> None:
        """Write until *share* of it is there."""
        end = int(len(self._content) * share)
        while self._size < end:
            self._append(min(self._random.randint(1, 6000), end - self._size))
            self._repacker.run(threading.Event(), follow=False)
            if hurry is not None:
                hurry.wait(pause_s)

    def close(self) -> None:
        """The server shuts down."""
        self._repacker.close()
        self._source.close()


def commits(folder: Path) -> int:
    """Commits of all tables."""
    return len(list(folder.glob("tables/sb/*/_delta_log/*.json")))


def planned(folder: Path) -> int:
    """Batches that Spark has planned; of the last one nothing may be written yet."""
    return len(list(folder.glob("checkpoint/offsets/[0-9]*")))


def finished(folder: Path) -> int:
    """Batches that the checkpoint knows to be written."""
    return len(list(folder.glob("checkpoint/commits/[0-9]*")))


MOMENTS = some((planned, commits, commits, commits, finished), 2)
KILLS = len(MOMENTS)


def wait_for_growth(count: Callable[[Path], int], folder: Path, growth: int, running: RunningJob) -> None:
    """Until *count* has grown; it is what the job leaves on disk, so looking is all that can be done."""
    wanted = count(folder) + growth
    end = time.monotonic() + TIMEOUT_S
    while count(folder) < wanted:
        assert not running.has_ended, running.stderr
        assert time.monotonic() < end, f"{count.__name__} does not grow"
        time.sleep(0.003)


@pytest.mark.thorough
def test_kills_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    seed = chance_seed()
    print(f"seed {seed}")  # noqa: T201 (pytest shows it when the test fails)
    chance = random.Random(seed)
    job_file = tmp_path / "job.toml"
    job_file.write_text(JOB)
    log = GrowingLog(tmp_path, (OLTP / LOG_FILE).read_bytes(), seed)
    log.grow_to(0.1)
    for number in range(KILLS):
        hurry = threading.Event()
        with RunningJob(job_file) as running:
            writer = threading.Thread(
                target=log.grow_to, args=(0.1 + 0.8 * (number + 1) / KILLS,), kwargs={"pause_s": 0.05, "hurry": hurry}
            )
            writer.start()
            wait_for_growth(MOMENTS[number], tmp_path, chance.randint(1, 3), running)
            time.sleep(chance.uniform(0, 0.1))
            # Python workers that outlive their job may still commit, at the same time as the next one.
            running.kill(workers_too=chance.random() < 0.5)
            hurry.set()
            writer.join()
    log.grow_to(1.0)
    log.close()
    with RunningJob(job_file, "--once") as running:
        assert running.wait() == 0, running.stderr
    check(tmp_path / "tables")
    assert len(list((tmp_path / "log").glob("*.ibb"))) > 3


def check(tables: Path) -> None:
    for name in TABLES[:2]:
        assert mirror(tables, name) == truth(name)
    for name in TABLES[2:]:
        assert play_changelog(tables / "sb" / name)[0] == truth(name)
