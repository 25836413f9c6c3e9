"""Parts of every life: one machine with its clock and its disk, processes that end there, and the result: `AnyLife`."""

from __future__ import annotations

import errno
import shutil
from abc import ABC, abstractmethod
from contextlib import ExitStack, nullcontext
from random import Random
from typing import TYPE_CHECKING

from deltalake.exceptions import DeltaError

from binlog_connector.crash_points import watched
from binlog_format.errors import BinlogError
from binlog_lab.simulator.disk import RARE_CALLS, Disk, Killed
from binlog_lab.simulator.machine import Clock, forget_process, one_machine
from binlog_lab.simulator.script import LifeResult
from binlog_lab.simulator.verdict import DefectError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from enum import StrEnum
    from pathlib import Path

    from binlog_lab.simulator.script import LifeStep, Script

RUNS_TO_CATCH_UP = 3
"""Runs within which a job without faults has to reach the end of the log."""
_RARE_SHARE = 0.25
"""Faults that are put at rare calls, of all faults of the disk."""


class AnyLife(ABC):
    """A life.

    Args:
        folder: For its files; removed at its end.
    """

    def __init__(self, script: Script, folder: Path) -> None:
        self.script = script
        self.outcome = LifeResult()
        self._folder = folder
        self._clock = Clock()
        self._rare_calls: tuple[str, ...] = RARE_CALLS
        self._disk = Disk(folder / "job", folder / "log-", Random(script.seed))
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)

    def live(self) -> LifeResult:
        """Live it."""
        with ExitStack() as machine:
            machine.enter_context(one_machine(self._clock, Random(f"ids {self.script.seed}")))
            machine.enter_context(self._surroundings())
            machine.callback(self._end)
            try:
                self._begin()
                for step in self.script.steps:
                    self._clock.sleep(1)
                    self._do(step)
                    if self.outcome.named is not None:
                        return self.outcome
                self._catch_up()
            except (DefectError, BinlogError, DeltaError) as error:  # the last two: of files that are to be looked at
                self.outcome.defect = str(error)
                self._tell(f"DEFECT: {error}")
        return self.outcome

    def _surroundings(self) -> AbstractContextManager[None]:
        """Services elsewhere, which are there all the time, for the job and for the verdict."""
        return nullcontext()

    @abstractmethod
    def _begin(self) -> None:
        """Do what comes before all steps."""

    @abstractmethod
    def _do(self, step: LifeStep) -> None:
        """Let a step happen."""

    @abstractmethod
    def _catch_up(self) -> None:
        """Faults end: the job has to reach the end of the log."""

    def _end(self) -> None:
        forget_process()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _tell(self, line: str) -> None:
        self.outcome.story.append(line)

    # --- processes of the job ------------------------------------------------------------------------------------

    def _put_fault(
        self,
        step: LifeStep,
        chance: Random,
        process: str,
        kinds: Sequence[str],
        calls: int,
        others: Callable[[str, int], None] | None = None,
    ) -> str:
        """Let a fault happen at a call of the next process.

        Args:
            process: Its name in the story.
            kinds: Of faults, as often as they come up; empty: none.
            calls: The fault is at one of so many calls.
            others: Gets a kind that is not of the disk, and the call; None: nothing happens at calls then.

        Returns:
            The kind.
        """
        kind, at, disk = chance.choice(kinds), chance.randint(1, calls), self._disk
        actions = self._disk_actions()
        rare, where = Random(f"rare call {step.seed}"), f"call {at}"
        if kind == "meanwhile":
            disk.at_read[at] = lambda: self._meanwhile(step)
        elif kind in actions and rare.random() < _RARE_SHARE:
            call, nth = rare.choice(self._rare_calls), rare.randint(1, 3)
            disk.at_nth[call, nth], where = actions[kind], f"{call} {nth}"
        elif kind in actions:
            disk.at_write[at] = actions[kind]
        elif kind and others is not None:
            others(kind, at)
        self._tell(f"{step.number}. {process} runs{f', {kind} at {where}' if kind else ''}")
        return kind

    def _disk_actions(self) -> dict[str, Callable[[], None]]:
        """Faults of the disk, by kind."""
        disk = self._disk
        return {
            "kill": disk.kill,
            "power": disk.lose_power,
            "EIO": disk.fail(errno.EIO),
            "ENOSPC": disk.fail(errno.ENOSPC),
        }

    @abstractmethod
    def _meanwhile(self, step: LifeStep) -> None:
        """Let something happen to the log while a process reads it."""

    def _process(
        self, work: Callable[[], None], installed: AbstractContextManager[None]
    ) -> tuple[BaseException | None, list[str]]:
        """A process that does *work*, with faults that were put before it.

        Returns:
            What ended it, None: it ended by itself; and what has happened in it.
        """
        disk, error = self._disk, None
        disk.reached.clear()
        with disk.installed(), watched(self._at_crash_point), installed:
            try:
                work()
            except (Killed, Exception) as raised:
                error = raised
        forget_process()
        faults = list(disk.reached)
        self.outcome.reached |= set(faults)
        disk.restart()
        return error, faults

    def _at_crash_point(self, step: StrEnum) -> None:
        if self._disk.is_dead:
            raise Killed
        self.outcome.reached.add(f"step {step}")

    def _named(self, error: BaseException) -> BinlogError:
        """The error that ended a process. Raises `DefectError`: it has no name."""
        if not isinstance(error, BinlogError):
            raise DefectError(f"an error without a name: {type(error).__name__}: {error}") from error
        self._tell(f"   {error.condition}: {error.reason[:160]}")
        self.outcome.reached.add(f"error {error.condition}")
        return error
