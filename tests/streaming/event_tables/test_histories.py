"""Random histories of a program that logs, of its files, and of the job that reads them: every event once, or in a gap.

`BINLOG_STREAM_HISTORIES=500` runs so many; the number of a history is its seed.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from binlog_connector.crash_points import watched
from binlog_format.errors import BinlogError
from binlog_format.position import Position
from binlog_lab.simulator.structured.program import FIRST_NS, NAME, STEP_NS, LoggingProgram
from binlog_streaming.event_tables.run import EventTablesRun
from binlog_streaming.event_tables.state import EventTablesStateFile
from tests.faults.processes import Kill, files_up_to, in_a_process
from tests.streaming.event_tables.test_losses import gaps
from tests.streaming.event_tables.test_run import ONE_TABLE, job_at, numbers, run_once, table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from binlog_streaming.settings import EventTablesJob

COUNT = int(os.environ.get("BINLOG_STREAM_HISTORIES", "8"))
SOURCE = 'format = "structured"\nfailOnDataLoss = false\nskipDamaged = true'
PAGE = 16 << 10


@dataclass
class History:
    """A folder with a log, what was logged there, and its job.

    Attributes:
        folder: Of the log, the checkpoint and the tables.
        random: Chooses what happens.
        places: Of each event, by its number, the last byte of its entry.
        rotated: Numbers of the files that were renamed, by their present path.
        known: Numbers of files that the job has seen.
        unseen: Events of files that came and went between two looks of the job, which leaves no trace.
        steps: What happened, for the message of a failure.
    """

    folder: Path
    random: random.Random
    program: LoggingProgram = field(init=False)
    places: dict[int, Position] = field(default_factory=dict)
    rotated: dict[Path, int] = field(default_factory=dict)
    known: set[int] = field(default_factory=set)
    unseen: set[int] = field(default_factory=set)
    steps: list[str] = field(default_factory=list)
    _first: int | None = None

    def __post_init__(self) -> None:
        self.program = LoggingProgram(self.folder / "log")

    @property
    def job(self) -> EventTablesJob:
        return job_at(self.folder, ONE_TABLE, source=SOURCE, batch_size=f"{self.random.choice((256, 1024, 65536))}")

    @property
    def _number(self) -> int:
        """Number of the present file, which has an event: the time of the first one."""
        assert self._first is not None
        return FIRST_NS + self._first * STEP_NS

    def log(self) -> None:
        for _ in range(self.random.randint(1, 12)):
            number = self.program.count
            self.program.log()
            self._first = number if self._first is None else self._first
            last = (self.folder / "log" / NAME).stat().st_size - 1
            self.places[number] = Position(self._number, last // PAGE, last % PAGE)

    def rotate(self) -> None:
        if self._first is not None:
            self.rotated[self.program.rotate()] = self._number
            self._first = None

    def rename(self) -> None:
        """As logrotate does, which renames all older files."""
        for number, path in enumerate(sorted(self.rotated)):
            new = path.with_name(f"{NAME}.old.{self.program.count}.{number}")
            path.rename(new)
            self.rotated[new] = self.rotated.pop(path)

    def purge(self) -> None:
        """Only of what the job has seen: a file that comes and goes between two looks leaves no trace."""
        seen = sorted(path for path, number in self.rotated.items() if number in self.known)
        for path in seen[: self.random.randint(0, len(seen))]:
            path.unlink()
            del self.rotated[path]

    def cut(self) -> None:
        """The program opens its log anew, and what was there is gone."""
        if self._first is not None:
            if self._number not in self.known:
                self.unseen |= set(range(self._first, self.program.count))
            (self.folder / "log" / NAME).open("wb").close()
            self.program.session.reconsume_metadata(self.program._file)
            self._first = None
            self.log()

    def tear(self) -> None:
        """The program is killed within a write, and begins another file."""
        if self._first is not None:
            self.program.append(b"\x30\x00\x00\x00" + self.random.randbytes(self.random.randint(0, 20)))
            self.rotate()

    def damage(self) -> None:
        """Within a file: before its first event it may give the file another time, so another name in gaps."""
        if self._first is not None:
            garbage = b"\xff\x00\x00\x00" + bytes(60), b"\x02\x00\x00\x00xy", self.random.randbytes(40)
            self.program.append(self.random.choice(garbage))
            self.program.session.reconsume_metadata(self.program._file)

    def run(self) -> None:
        run_once(self.job)
        self._look()

    def run_a_batch(self) -> None:
        running = EventTablesRun(self.job, once=True, listener=lambda _: running.stop())
        running.run()
        self._look()

    def kill(self) -> None:
        job, left = self.job, self.random.randint(1, 25)

        def work() -> None:
            with watched(Kill(left)):
                run_once(job)

        in_a_process(work)

    def fill_disk(self) -> None:
        job, size = self.job, self.random.choice((0, 300, 2000, 6000))

        def work() -> None:
            with files_up_to(size):
                try:
                    run_once(job)
                except BinlogError:
                    return

        assert in_a_process(work) == 0

    def _look(self) -> None:
        """Note which files the job knows: a run that only repeats a batch sees no new ones."""
        start = EventTablesStateFile(self.job).start
        assert start is not None
        self.known |= {start.position.file_no, *(file.file_no for file in start.files)}

    def check(self) -> None:
        """Every event is in the table once, or within a gap that is named."""
        self.log()
        run_once(self.job)
        run_once(self.job)
        found = Counter(numbers(table(self.job, "logs")))
        told = f"{self.steps}: "
        assert [number for number, count in found.items() if count > 1] == [], told
        assert set(found) <= set(self.places), told
        # One that goes on before its start goes on in a file without an event, which has no number yet.
        # That of a single event that was left out has a byte in place of a range; none of those that are logged here.
        named = [
            (Position.parse(gap["start"]), Position.parse(gap["go_on"]), gap)
            for gap in gaps(self.job)
            if "byte" not in gap["start"]
        ]
        for number, place in self.places.items():
            if number not in found and number not in self.unseen:
                is_named = any(
                    (start <= place and (place < end or end < start)) or f"number is {place.file_no}" in gap["reason"]
                    for start, end, gap in named
                )
                assert is_named, f"{told}{number} at {place}: {named}"


ACTIONS: dict[str, int] = {
    "log": 8, "rotate": 3, "rename": 1, "purge": 2, "cut": 1, "tear": 1, "damage": 1,
    "run": 2, "run_a_batch": 3, "kill": 3, "fill_disk": 1,
}  # fmt: skip


@pytest.mark.parametrize("seed", range(COUNT))
def test_every_event_once_or_in_a_named_gap(tmp_path: Path, seed: int) -> None:
    history = History(tmp_path, random.Random(seed))
    actions: dict[str, Callable[[], None]] = {name: getattr(history, name) for name in ACTIONS}
    with history.program:
        history.log()
        for name in history.random.choices(list(ACTIONS), weights=list(ACTIONS.values()), k=14):
            history.steps.append(name)
            actions[name]()
        history.check()
