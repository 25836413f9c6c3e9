"""What a decoder found in a file: `Found`, which must be the same for all of them, and `Run`, what that took."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


@dataclass(slots=True)
class Found:
    """Counts of row changes, and sums over the images before and after of all of them.

    Attributes:
        int_sum: Of the values of integer columns.
        text_size: Bytes of the values of text columns.
        byte_sum: Of those bytes; 0 when it was not asked for.
    """

    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    int_sum: int = 0
    text_size: int = 0
    byte_sum: int = 0

    @property
    def changes(self) -> int:
        """Row changes."""
        return self.inserts + self.updates + self.deletes


@dataclass(frozen=True, slots=True)
class Run:
    """What one pass over a file took."""

    seconds: float
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class Process:
    """A process that has ended."""

    output: str
    run: Run


class PeerError(Exception):
    """A peer cannot be built or run, or found something else."""


def run_process(
    command: Sequence[str], *, directory: Path | None = None, environment: Mapping[str, str] | None = None
) -> Process:
    """Run a program to its end; processor time is its own. Raises `PeerError`: it failed."""
    started = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=directory, env={**os.environ, **(environment or {})}
    )
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started
    process.stdout.close()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise PeerError(f"{command[0]} ended with status {process.returncode}")
    return Process(output, Run(seconds, usage.ru_utime + usage.ru_stime))


def parse_found(line: str) -> Found:
    """What a program printed, as one line of JSON; fields that say something else are left out."""
    fields = json.loads(line)
    return Found(**{name: fields[name] for name in Found.__slots__})


def last_pass(process: Process) -> tuple[Found, Run]:
    """The last pass of a program that prints a line, and what it took, for each."""
    line = process.output.splitlines()[-1]
    fields = json.loads(line)
    return parse_found(line), Run(fields["seconds"], fields["cpu_seconds"])


def median_run(runs: Sequence[Run]) -> Run:
    """The median of each number."""
    return Run(
        statistics.median(run.seconds for run in runs),
        statistics.median(run.cpu_seconds for run in runs),
    )
