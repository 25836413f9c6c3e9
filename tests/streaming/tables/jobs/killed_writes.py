"""A batch with statements, killed with kill -9 at each of its steps and done again, each time in a folder of its own.

`python -m tests.streaming.tables.jobs.killed_writes FOLDER FORMAT STRIDE STORY...` does it for some of `STORIES`, at
every STRIDE-th step; the tables are in FOLDER/STORY/STEP/tables then. A process that only forks stays ready: starting
one takes seconds.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from binlog_connector.crash_points import watched
from binlog_streaming.settings import Sink, TableFormat
from tests.faults.processes import Kill, in_a_process
from tests.streaming.tables.lake.memory_target import MemoryTargets
from tests.streaming.tables.statements.statement_stories import ONLY, STEPS_MAX, STORIES, write_story

if TYPE_CHECKING:
    from collections.abc import Callable


def write_killed(folder: Path, name: str, table_format: TableFormat, stride: int) -> None:
    """One story, killed at each step in turn, until there is none left to be killed at."""
    story, _ = STORIES[name]
    # What is loaded and compiled here is ready in the others; the libraries of the sinks are not: they have threads.
    write_story(folder / name, story, (ONLY,), MemoryTargets())
    for step in range(1, STEPS_MAX, stride):
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
    folder, table_format, stride, *names = sys.argv[1:]
    for name in names:
        write_killed(Path(folder), name, TableFormat(table_format), int(stride))


if __name__ == "__main__":
    main()
