"""Kill the Spark driver again and again while a writer runs: `Soak`; `python -m tests.soak.kills --kills 50`."""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.feather

from binlog_format import open_log
from binlog_format.views.changes import ChangesView
from tests.soak.driver import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
LONGEST_RUN_S = 120
"""Of one driver until its query runs; only a driver that hangs takes that long."""
FILES_BEFORE = 2
"""Files that the log has when the first driver starts."""
DIES_EARLY = 0.25
"""Share of the drivers that are killed soon after their query was started, often before their first batch."""
LIVES_S = 4.0
"""A driver is killed at a random moment of so many seconds: after that start, or after the end of its first batch."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came out.

    Attributes:
        lost: Changes that the sink does not hold as they are in the log.
        more: Rows of the sink that are not in the log, or are there twice.
        batches: Batches of the query that have been committed.
    """

    kills: int
    changes: int
    lost: int
    more: int
    batches: int


class Soak:
    """A live log, and a query on it whose driver does not live long.

    Args:
        seed: Of the moments of death and of the workload.
    """

    def __init__(self, work: Path, *, seed: int) -> None:
        self.work = work
        self.log = work / "log"
        self._seed = seed
        self._moments = random.Random(seed)

    def run(self, kills: int, tell: Callable[[int], None]) -> Outcome:
        """Kill the driver *kills* times, let the last one catch up, and compare.

        Args:
            tell: Called after each kill with their number.
        """
        writer = self._writer()
        try:
            self._wait_for_log(writer)
            for number in range(1, kills + 1):
                self._kill_one()
                if writer.poll() is not None:
                    raise RuntimeError(f"the writer has ended before kill {number}: {writer.returncode}")
                tell(number)
        finally:
            # As a crash of the server: what is not on disk by now never was.
            writer.kill()
            writer.wait()
        report = self.work / "report.arrow"
        subprocess.run([*self._driver(), "--report", str(report)], check=True, cwd=ROOT, env=_environment())
        return self._compare(kills, report)

    def _writer(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.soak.writer", str(self.log), str(self._seed)]
        return subprocess.Popen(command, cwd=ROOT, env=_environment())

    def _wait_for_log(self, writer: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + LONGEST_RUN_S
        while len(list(self.log.glob("binlog-*.ibb"))) < FILES_BEFORE:
            if writer.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the writer has written no log")
            time.sleep(0.05)

    def _driver(self) -> list[str]:
        return [sys.executable, "-m", "tests.soak.driver", str(self.log), str(self.work)]

    def _kill_one(self) -> None:
        driver = subprocess.Popen(
            self._driver(), cwd=ROOT, env=_environment(), stdout=subprocess.PIPE, start_new_session=True
        )
        assert driver.stdout is not None
        try:
            said = driver.stdout.readline()
            if said != b"running\n":
                raise RuntimeError(f"the driver has ended by itself; see {self.work / 'spark.log'}")
            if self._moments.random() >= DIES_EARLY:
                self._wait_for_commit(driver)
            time.sleep(self._moments.uniform(0, LIVES_S))
            if driver.poll() is not None:
                raise RuntimeError(f"the query has failed; see {self.work / 'spark.log'}")
        finally:
            os.killpg(driver.pid, signal.SIGKILL)  # Python and the JVM, at once
            driver.wait()
            driver.stdout.close()

    def _wait_for_commit(self, driver: subprocess.Popen[bytes]) -> None:
        before = self._commits()
        deadline = time.monotonic() + LONGEST_RUN_S
        while self._commits() == before and driver.poll() is None:
            if time.monotonic() > deadline:
                raise RuntimeError(f"no batch has ended in {LONGEST_RUN_S} s; see {self.work / 'spark.log'}")
            time.sleep(0.05)

    def _commits(self) -> int:
        directory = self.work / "checkpoint" / "commits"
        return sum(file.name.isdigit() for file in directory.iterdir()) if directory.exists() else 0

    def _compare(self, kills: int, report: Path) -> Outcome:
        with open_log(str(self.log)) as log:
            batches = [batch.select(COLUMNS) for batch in ChangesView().batches(log.committed_blocks())]
        wanted = _rows(pa.Table.from_batches(batches))
        held = _rows(pyarrow.feather.read_table(str(report)))
        there = set(held)
        return Outcome(
            kills=kills,
            changes=len(wanted),
            lost=sum(row not in there for row in wanted),
            more=len(held) - len(there & set(wanted)),
            batches=self._commits(),
        )


def _rows(changes: pa.Table) -> list[tuple[object, ...]]:
    return [
        tuple(tuple(value.values()) if isinstance(value, dict) else value for value in row.values())
        for row in changes.to_pylist()
    ]


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT)}


def main() -> int:
    """Kill the driver as often as asked; exit code 1 when a change was lost or came twice."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=None, help="default: another one each time")
    parser.add_argument("--work", type=Path, default=None, help="kept afterwards; default: a temporary directory")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(1 << 31)
    _say(f"seed {seed}\n")
    started = time.monotonic()

    def tell(number: int) -> None:
        start, end = ("\r", "") if sys.stdout.isatty() else ("", "\n")
        _say(f"{start}{number} of {arguments.kills} kills, {time.monotonic() - started:.0f} s{end}")

    with tempfile.TemporaryDirectory(prefix="binlog-stream-soak-") as temporary:
        outcome = Soak(arguments.work or Path(temporary), seed=seed).run(arguments.kills, tell)
    _say(
        f"\n{outcome.kills} kills, {outcome.batches} batches, {outcome.changes} changes in the log: "
        f"{outcome.lost} lost, {outcome.more} too many\n"
    )
    return 1 if outcome.lost or outcome.more else 0


if __name__ == "__main__":
    sys.exit(main())
