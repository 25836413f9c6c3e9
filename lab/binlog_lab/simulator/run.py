"""Many lives, on all processors: `python -m binlog_lab.simulator.run --seeds 1000`, which `make simulate` calls.

--seed 77              one life, told line by line
--seed 77 --steps 3,5  the same with some of its steps
--canaries             known bugs, one by one: each must be found
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter, process_time
from typing import TYPE_CHECKING, NamedTuple

from binlog_connector.kafka.publisher import PublishStep
from binlog_lab.simulator.archive_life import ArchiveLife
from binlog_lab.simulator.canaries import CANARIES
from binlog_lab.simulator.life import Life
from binlog_lab.simulator.script import Act, LifeKind, LifeResult, Script
from binlog_lab.simulator.snapshots.snapshot_life import SnapshotLife
from binlog_lab.simulator.structured.program import ProgramAct
from binlog_lab.simulator.structured.program_life import ProgramLife
from binlog_lab.simulator.visible_folder import Look
from binlog_streaming.archive.archive_store import ArchiveCrashPoint
from binlog_streaming.lake.target import CrashPoint

if TYPE_CHECKING:
    from collections.abc import Iterable

_MEMORY = Path("/dev/shm")
_SHRINK_RUNS = 150
_PART = 20
"""Lives that a process lives before it takes the next ones."""
_STEPS = (CrashPoint.LOOKED, CrashPoint.CREATED, CrashPoint.FILES_WRITTEN, CrashPoint.COMMITTED)
WANTED = (
    *map(str, (*Act, *ProgramAct)),
    *(f"look {look}" for look in Look),
    *(f"step {step}" for step in _STEPS),
    *(
        f"{fault} at {call}"
        for fault in ("kill", "power lost")
        for call in ("open", "fsync", "rename", "link", "unlink")
    ),
    *(f"{error} at {call}" for error in ("EIO", "ENOSPC") for call in ("open", "fsync", "rename", "commit, after")),
    *("savepoint", "rollback to savepoint", "ROLLBACK", "XA PREPARE", "XA COMMIT", "XA ROLLBACK", "swapped", "switch"),
    "error BINLOG_CORRUPT",
    "error BINLOG_DATA_LOSS.LOG_RESET",
    "error BINLOG_DATA_LOSS.FILE_PURGED",
    "error BINLOG_DATA_LOSS.TRUNCATED_TRANSACTION",
    *(f"kill at {call}" for call in ("ask for ends", "send", "commit, before", "commit, after")),
    *("EIO at send", "power lost at commit"),
    *(
        f"broker {what}"
        for what in ("reached late", "did not tell at commit", "frozen", "down", "topics lost", "got another publisher")
    ),
    "bucket refused",
    *(f"bucket {what} at PUT if {when}" for what in ("did not tell", "reached late") for when in ("free", "as known")),
    *("broker reached late, from one that was killed, at commit", "error BINLOG_KAFKA.OTHER_PUBLISHER"),
    *(f"step {step}" for step in (*PublishStep, *ArchiveCrashPoint)),
    "archive alone",
    "snapshot for topics",
    "meanwhile",
    "task twice",
    "task late",
)
"""Events that a thousand lives must reach, by the beginnings of their names."""
LIVES = {
    LifeKind.SERVER: Life,
    LifeKind.ARCHIVE: ArchiveLife,
    LifeKind.SNAPSHOT: SnapshotLife,
    LifeKind.PROGRAM: ProgramLife,
}
SMALL = 8
"""Steps of a small life."""
FEW = 1000
"""Lives that must reach all that is to be reached."""


def live(script: Script) -> LifeResult:
    """Live a script, in files that are gone afterwards."""
    root = _MEMORY if os.access(_MEMORY, os.W_OK) else Path(tempfile.gettempdir())
    # Of one size: paths are in files, and a loss of power leaves parts of files.
    return LIVES[script.kind](script, root / f"binlog-stream-life-{os.getpid():07}").live()


def shrunk(script: Script) -> Script:
    """The script with as few steps as still show a defect."""
    numbers, runs, size = [step.number for step in script.steps], 0, max(1, len(script.steps) // 2)
    while runs < _SHRINK_RUNS:
        is_smaller = False
        for start in range(0, len(numbers), size):
            fewer = numbers[:start] + numbers[start + size :]
            runs += 1
            if live(script.only(frozenset(fewer))).defect is not None:
                numbers, is_smaller = fewer, True
                break
        if not is_smaller:
            if size == 1:
                break
            size //= 2
    return script.only(frozenset(numbers))


class Lived(NamedTuple):
    """Lives that were lived.

    Attributes:
        reached: How often what was reached.
        failing: Seeds with a defect.
        seconds: Of the processor, by kind.
    """

    reached: Counter[str]
    failing: list[int]
    lives: Counter[str]
    seconds: Counter[str]


def run_seeds(seeds: Iterable[int]) -> Lived:
    """Live all *seeds*."""
    lived = Lived(Counter(), [], Counter(), Counter())
    for seed in seeds:
        script, started = Script.of(seed), process_time()
        try:
            outcome = live(script)
        except Exception as error:
            error.add_note(f"SEED={seed}")
            raise
        kinds = outcome.kind, f"{outcome.kind}, {SMALL} steps or less" if len(script.steps) <= SMALL else ""
        lived.lives.update(kinds)
        lived.seconds.update(dict.fromkeys(kinds, process_time() - started))
        lived.reached.update(outcome.reached)
        if outcome.named is not None:
            lived.reached[f"named {outcome.named}"] += 1
        if outcome.defect is not None:
            lived.failing.append(seed)
            _say(f"SEED={seed}: {outcome.defect}")
    return lived


def find_canary(name: str, seeds: Iterable[int]) -> int | None:
    """The first seed that finds a known bug; None: none does."""
    with CANARIES[name]():
        return next((seed for seed in seeds if live(Script.of(seed)).defect is not None), None)


def main() -> int:
    """Do what the arguments ask for; 1: there is a defect, or a bug that was not found."""
    _be_quiet()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many lives")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--seed", type=int, help="one life")
    parser.add_argument("--steps", help="of that life, these steps alone")
    parser.add_argument("--canaries", action="store_true", help="see that known bugs are found")
    options = parser.parse_args()
    if options.seed is not None:
        return _tell(Script.of(options.seed), options.steps)
    seeds = range(options.first, options.first + options.seeds)
    return _see_canaries(seeds) if options.canaries else _see_lives(seeds)


def _be_quiet() -> None:
    logging.disable(logging.ERROR)


def _say(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def _tell(script: Script, steps: str | None) -> int:
    if steps is not None:
        script = script.only(frozenset(map(int, filter(None, steps.split(",")))))
    outcome = live(script)
    _say(*outcome.story)
    return int(outcome.defect is not None)


def _see_lives(seeds: range) -> int:
    started = perf_counter()
    lived = Lived(Counter(), [], Counter(), Counter())
    parts = [seeds[first : first + _PART] for first in range(0, len(seeds), _PART)]
    with ProcessPoolExecutor(mp_context=get_context("spawn"), initializer=_be_quiet) as pool:
        for part in pool.map(run_seeds, parts):
            lived.reached.update(part.reached)
            lived.failing.extend(part.failing)
            lived.lives.update(part.lives)
            lived.seconds.update(part.seconds)
    reached, failing = lived.reached, lived.failing
    seconds = perf_counter() - started
    for seed in failing[:3]:
        few = shrunk(Script.of(seed))
        steps = ",".join(str(step.number) for step in few.steps)
        _say("", f"make simulate SEED={seed} STEPS={steps or 0}", *live(few).story)
    _say(*(f"{count:6} {name}" for name, count in sorted(reached.items())))
    lacking = [name for name in WANTED if not any(one.startswith(name) for one in reached)] if len(seeds) >= FEW else []
    if lacking:
        _say(f"never reached: {', '.join(lacking)}")
    for kind, count in sorted(lived.lives.items()):
        if kind:
            _say(f"{count:6} lives: {kind}; {count / lived.seconds[kind]:.1f} a second of a processor")
    _say(f"{len(seeds)} lives in {seconds:.1f} s, {len(seeds) / seconds:.1f} a second; {len(failing)} with a defect")
    return int(bool(failing or lacking))


def _see_canaries(seeds: range) -> int:
    lost = 0
    for name in CANARIES:
        seed = find_canary(name, seeds)
        lost += seed is None
        _say(f"{name}: {'NOT FOUND' if seed is None else f'found by SEED={seed}'}")
    return int(lost > 0)


if __name__ == "__main__":
    sys.exit(main())
