"""A batch with statements, killed with kill -9 at each of its steps and done again, each time in a folder of its own.

`python -m tests.streaming.tables.killed_writes FOLDER FORMAT STORY...` does it for some of `STORIES`; the
tables are in FOLDER/STORY/STEP/tables then. A process that only forks stays ready: starting one takes seconds.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from binlog_streaming.settings import Sink, TableFormat
from binlog_streaming.tables.steps import watched
from tests.streaming.tables.memory_target import MemoryTargets
from tests.streaming.tables.statement_stories import ONLY, STEPS_MAX, STORIES, write_story

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_streaming.tables.steps import Step


class Kill:
    """Ends this process at the step with a number, as nobody can be told."""

    def __init__(self, left: int) -> None:
        self._left = left

    def __call__(self, step: Step) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def in_a_process(work: Callable[[], object]) -> int:
    """Do *work* in a process of its own; its exit status, or the number of the signal that ended it, below zero."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:  # reported by the status
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def write_killed(folder: Path, name: str, table_format: TableFormat) -> None:
    """One story, killed at each step in turn, until there is none left to be killed at."""
    story, _ = STORIES[name]
    # What is loaded and compiled here is ready in the others; the libraries of the sinks are not: they have threads.
    write_story(folder / name, story, (ONLY,), MemoryTargets())
    for step in range(1, STEPS_MAX):
        place = folder / name / str(step)
        sink = Sink(directory=str(place / "tables"), format=table_format)

        def write(place: Path = place, sink: Sink = sink) -> None:
            write_story(place, story, (ONLY,), sink=sink)

        def write_until_killed(step: int = step, write: Callable[[], None] = write) -> None:
            with watched(Kill(step)):
                write()

        status = in_a_process(write_until_killed)
        if in_a_process(write) != 0 or status not in (0, -signal.SIGKILL):
            raise SystemExit(f"{name}, step {step}: {status}")
        if status == 0:
            return
    raise SystemExit(f"{name} has more steps")


def main() -> None:
    """Do what the module's text says."""
    folder, table_format, *names = sys.argv[1:]
    for name in names:
        write_killed(Path(folder), name, TableFormat(table_format))


if __name__ == "__main__":
    main()
