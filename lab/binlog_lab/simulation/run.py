"""Runs a file of operations: `Simulation` makes a log of it, at once or in real time."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from binlog_format.errors import OptionError
from binlog_lab.innodb_writer.files import find_files
from binlog_lab.innodb_writer.operation_stream import is_operation_stream, read_steps
from binlog_lab.innodb_writer.operations import (
    GROUP_OPERATIONS,
    REDO_OPERATIONS,
    PlacedStep,
    Player,
    replay,
)
from binlog_lab.innodb_writer.options import RedoSync
from binlog_lab.innodb_writer.server import BinlogWriter
from binlog_lab.simulation.json_steps import read_json_steps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from threading import Event

    from binlog_lab.innodb_writer.options import WriterOptions

CHECKPOINT_SECONDS = 0.2
"""Longest time that a committed group waits in memory for the rest of its page, in real time."""

_PROGRESS_SECONDS = 0.1
_SIZE_UNITS = {"B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_RATE = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>[BKMG]?)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SimulatedRate:
    """Rate at which a log is written in real time: *number* per second, of event groups or of event bytes."""

    number: float
    of_bytes: bool

    @classmethod
    def parse(cls, text: str) -> SimulatedRate:
        """Read a number of event groups (`200`), or of bytes with a unit (`500K`, `2M`, `100B`)."""
        match = _RATE.fullmatch(text.strip())
        if match is None or float(match["number"]) == 0:
            raise ValueError(f"rate {text!r}: expected event groups a second (200), or bytes a second (500K, 2M)")
        unit = match["unit"].upper()
        return cls(float(match["number"]) * _SIZE_UNITS.get(unit, 1), bool(unit))


@dataclass(slots=True)
class SimulationProgress:
    """Progress of the simulation.

    Attributes:
        operations: Steps done; a whole group in one line counts as several.
        groups: Event groups committed, those without GTID included, also if a crash has taken them back.
        event_bytes: Handed to the writer.
        crashes: How often the server has crashed.
        source_bytes: Of the file, read.
    """

    operations: int = 0
    groups: int = 0
    event_bytes: int = 0
    crashes: int = 0
    source_bytes: int = 0
    source_size: int = 0


class Simulation:
    """A run of one file of operations.

    Args:
        path: An `.ops` file, or JSON lines.
        target: Directory for the log; must hold none.
        options: Settings of the server. When the operations crash it, a redo log is added.
        snapshots: Folder for the copies that the operations ask for; None: none are made.
        on_progress: Called a few times a second.

    Raises:
        OptionError: There is a log in *target*.
    """

    def __init__(
        self,
        path: Path,
        target: Path,
        options: WriterOptions,
        *,
        snapshots: Path | None = None,
        on_progress: Callable[[SimulationProgress], None] | None = None,
    ) -> None:
        if target.is_dir() and find_files(target):
            raise OptionError("INVALID_VALUE", f"--to {target}: there is a log already; give an empty directory")
        self._path = path
        self._target = target
        self._options = options
        self._snapshots = snapshots
        self._on_progress = on_progress
        self._next_report = 0.0
        self.progress = SimulationProgress(source_size=path.stat().st_size)

    def run(self, stop: Event | None = None, rate: SimulatedRate | None = None) -> None:
        """Do everything, or until *stop* is set, and shut down cleanly.

        Args:
            stop: Ends the run between two operations.
            rate: In real time: committed groups come at this rate, and reach the files by checkpoints.
        """
        options = self._options
        if _crashes(self._path):
            options = replace(options, redo_sync=RedoSync.EXPLICIT)
        with BinlogWriter(self._target, options) as writer:
            clock = None if rate is None else _Clock(rate, writer, stop)
            replay(self._watched(stop, clock), Player(writer, self._snapshots), self._path.name)

    def _watched(self, stop: Event | None, clock: _Clock | None) -> Iterator[PlacedStep]:
        progress = self.progress
        for placed in _steps(self._path):
            if stop is not None and stop.is_set():
                return
            yield placed  # and it is done when the next one is asked for
            step = placed.step
            progress.operations += 1
            progress.event_bytes += len(step.data)
            progress.source_bytes = placed.end
            progress.crashes += step.operation.name == "CRASH"
            if step.operation in GROUP_OPERATIONS:
                progress.groups += 1
                if clock is not None:
                    clock.wait(progress)
            self._report()

    def _report(self) -> None:
        now = time.monotonic()
        if self._on_progress is not None and now >= self._next_report:
            self._next_report = now + _PROGRESS_SECONDS
            self._on_progress(self.progress)


class _Clock:
    """Holds the run to a rate, with checkpoints while it waits."""

    def __init__(self, rate: SimulatedRate, writer: BinlogWriter, stop: Event | None) -> None:
        self._rate = rate
        self._writer = writer
        self._stop = stop
        self._started = time.monotonic()
        self._next_checkpoint = self._started + CHECKPOINT_SECONDS

    def wait(self, progress: SimulationProgress) -> None:
        """Wait until what has been done is due."""
        done = progress.event_bytes if self._rate.of_bytes else progress.groups
        due = self._started + done / self._rate.number
        while True:
            now = time.monotonic()
            if now >= self._next_checkpoint:
                self._writer.checkpoint()
                self._next_checkpoint = now + CHECKPOINT_SECONDS
            if now >= due or (self._stop is not None and self._stop.is_set()):
                return
            pause = min(due, self._next_checkpoint) - now
            if self._stop is None:
                time.sleep(max(0.0, pause))
            else:
                self._stop.wait(max(0.0, pause))


def _steps(path: Path) -> Iterator[PlacedStep]:
    return read_steps(path) if is_operation_stream(path) else read_json_steps(path)


def _crashes(path: Path) -> bool:
    """True if the operations of *path* need a redo log; one takes memory and time."""
    return any(placed.step.operation in REDO_OPERATIONS for placed in _steps(path))
