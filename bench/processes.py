"""Processor time and memory of this process and all that it started: `ProcessTree`, `MemoryWatch`."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

INTERVAL_S = 0.5
_TICKS = os.sysconf("SC_CLK_TCK")


class Role(StrEnum):
    """What a process of a job does."""

    DRIVER = "driver"
    """This process."""
    JVM = "jvm"
    WORKERS = "workers"
    """Everything else: Spark's Python processes, the planner of a query included."""


@dataclass(frozen=True, slots=True)
class _Seen:
    pid: int
    parent: int
    name: str
    cpu_s: float
    ended_cpu_s: float  # of children that have ended, and that were waited for


def cpu_seconds() -> dict[Role, float]:
    """Processor time so far, that of children that have ended included, by role. Linux only."""
    found = _by_role()
    seconds = {role: sum(one.cpu_s for one in seen) for role, seen in found.items()}
    # What has ended was a Python process; the JVM stays.
    seconds[Role.WORKERS] += sum(one.ended_cpu_s for seen in found.values() for one in seen)
    return seconds


def resident_bytes() -> dict[Role, list[int]]:
    """Memory of each process that is resident now, by role; of what they share, each has its part. Linux only."""
    return {role: [_proportional_bytes(one.pid) for one in seen] for role, seen in _by_role().items()}


class MemoryWatch(threading.Thread):
    """Look at the memory several times a second, within `with`.

    Attributes:
        peaks: The most that each role had, in bytes.
        largest: The most that one process of each role had.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peaks = dict.fromkeys(Role, 0)
        self.largest = dict.fromkeys(Role, 0)
        self._ends = threading.Event()

    def run(self) -> None:
        """Look until it is stopped."""
        while not self._ends.wait(INTERVAL_S):
            now = resident_bytes()
            self.peaks = {role: max(self.peaks[role], sum(now[role])) for role in Role}
            self.largest = {role: max(self.largest[role], *now[role], 0) for role in Role}

    def __enter__(self) -> None:
        self.start()

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self.join()


def _by_role() -> dict[Role, list[_Seen]]:
    processes = _all_processes()
    own = os.getpid()
    found: dict[Role, list[_Seen]] = {role: [] for role in Role}
    found[Role.DRIVER].append(processes[own])
    mine = {own}
    # A parent has a smaller number than its children, unless the numbers have begun anew: then once more.
    for _ in range(2):
        for pid, seen in sorted(processes.items()):
            if seen.parent in mine and pid not in mine:
                mine.add(pid)
                found[Role.JVM if seen.name == "java" else Role.WORKERS].append(seen)
    return found


def _all_processes() -> dict[int, _Seen]:
    processes = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
        # The name is in parentheses and may hold anything; numbers of fields: proc(5).
        name = text[text.index("(") + 1 : text.rindex(")")]
        fields = text[text.rindex(")") + 2 :].split()
        own, ended = ((int(fields[at]) + int(fields[at + 1])) / _TICKS for at in (11, 13))  # user, system
        pid = int(path.parent.name)
        processes[pid] = _Seen(pid, int(fields[1]), name, own, ended)
    return processes


def _proportional_bytes(pid: int) -> int:
    # Workers are forked from one process, with all libraries: added up, what is resident would count these many times.
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    line = next((line for line in text.splitlines() if line.startswith("Pss:")), "Pss: 0 kB")
    return int(line.split()[1]) << 10
