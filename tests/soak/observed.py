"""Jobs that soaks kill, and what is seen of them over time: `SoakJob`, `Watch`."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from dataclasses import dataclass, field
from statistics import quantiles
from typing import TYPE_CHECKING

import psutil
from matplotlib.figure import Figure

from binlog_format.errors import BinlogError
from binlog_lab.demo.processes import JobProcess, PublishProcess
from binlog_streaming.settings import load_any_job
from binlog_streaming.status.view import view_of
from tests.program import PROGRAM
from tests.soak.parts import SoakError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Self

    from binlog_streaming.status.model import BatchStatus

LOOK_S = 0.5
MEMORY_LOOKS = 4
"""Looks at batches for one at the memory, which costs more."""
COMMAND_S = 900.0
"""For a command to end; only one that hangs takes that long."""


class SoakJob:
    """`binlog-stream run`, or `publish`, on a job file; one process after the other.

    Args:
        publishes: Whether its sink is Kafka.
    """

    def __init__(self, file: Path, log_file: Path, *, publishes: bool = False) -> None:
        self.file, self.name, self._log_file, self._publishes = file, file.stem, log_file, publishes
        self._process: JobProcess | PublishProcess | None = None
        log_file.touch()
        self._begin = 0

    def start(self) -> None:
        """Start it, unless it runs."""
        if self.has_ended:
            self._begin = self._log_file.stat().st_size
            start = PublishProcess if self._publishes else JobProcess
            self._process = start(self.file, log_file=self._log_file, listener=lambda _: None)

    def kill(self) -> None:
        """SIGKILL to all of its processes."""
        process, self._process = self._process, None
        if process is not None:
            if process.has_ended:
                process.stop()
            else:
                process.kill()

    def stop(self) -> None:
        """SIGTERM; it ends what it has begun."""
        process, self._process = self._process, None
        if process is not None:
            process.stop()

    @property
    def has_ended(self) -> bool:
        """Whether no process runs."""
        return self._process is None or self._process.has_ended

    def check(self) -> None:
        """See that it has not failed. Raises `DemoError`: `PROCESS_FAILED`."""
        if self._process is not None:
            self._process.check()

    def last_error(self) -> str:
        """What the last process has said, on its standard error."""
        lines = self._log_file.read_bytes()[self._begin :].decode(errors="replace").strip().splitlines()
        return next((line for line in reversed(lines) if line.startswith("error: ")), lines[-1] if lines else "nothing")

    def run(self, verb: str, *arguments: object, password: str = "") -> str:
        """Output of a command about the job, which must end well."""
        done = subprocess.run(
            [PROGRAM, verb, str(self.file), *map(str, arguments)],
            env=os.environ | {"BINLOG_STREAM_PASSWORD": password},
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )
        if done.returncode != 0:
            raise SoakError(f"{verb} {self.name}: exit status {done.returncode}:\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def batches(self) -> Sequence[BatchStatus]:
        """The newest ones, as the job has recorded them; none before it has recorded any."""
        with contextlib.suppress(BinlogError):
            return view_of(load_any_job(self.file)).status().state.batches
        return ()

    def oldest_file(self) -> str:
        """Name of the oldest file of its log that it needs."""
        log = view_of(load_any_job(self.file)).status().log
        assert log is not None
        return log.file

    def memory(self) -> int:
        """Bytes of all of its processes; of what they share, each has its part."""
        if self._process is None:
            return 0
        total = 0
        with contextlib.suppress(psutil.NoSuchProcess):
            leader = psutil.Process(self._process.pid)
            for member in (leader, *leader.children(recursive=True)):
                with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                    total += member.memory_full_info().pss
        return total


@dataclass(slots=True)
class Seen:
    """What was seen of a job.

    Attributes:
        lags: By end of the batch (seconds since 1970 UTC): from the commit on the server to the target, in seconds.
        memory: By time: bytes; 0 where it does not run.
    """

    lags: dict[float, float] = field(default_factory=dict)
    memory: list[tuple[float, int]] = field(default_factory=list)

    def has_taken_since(self, moment: float) -> bool:
        """Whether a batch is done with something that was committed after *moment*."""
        return any(end - lag > moment for end, lag in list(self.lags.items()))

    def percentiles(self) -> str:
        """Lags, in words."""
        lags = sorted(self.lags.values())
        if len(lags) < 2:
            return "too few batches"
        cuts = quantiles(lags, n=100, method="inclusive")
        named = ", ".join(f"p{cut} {cuts[cut - 1]:.1f} s" for cut in (50, 90, 99))
        return f"{named}, longest {lags[-1]:.1f} s ({len(lags)} batches)"


class Watch(threading.Thread):
    """Look at jobs while it is entered."""

    def __init__(self, jobs: Sequence[SoakJob]) -> None:
        super().__init__(daemon=True)
        self._jobs, self._ends = jobs, threading.Event()
        self.seen = {job.name: Seen() for job in jobs}
        self.began = time.time()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self.join()

    def run(self) -> None:
        """Look until it is stopped."""
        looks = 0
        while not self._ends.wait(LOOK_S):
            for job in self._jobs:
                seen = self.seen[job.name]
                for batch in job.batches():
                    if batch.lag_seconds is not None:
                        seen.lags[batch.finished_at] = batch.lag_seconds
                if looks % MEMORY_LOOKS == 0:
                    seen.memory.append((time.time(), job.memory()))
            looks += 1

    def draw(self, target: Path, faults: Sequence[tuple[float, str]]) -> None:
        """Memory and lag over time, with the faults, as a PNG."""
        figure = Figure(figsize=(16, 8), dpi=120, facecolor="white", layout="constrained")
        memory, lag = figure.subplots(2, 1, sharex=True)
        for name, seen in self.seen.items():
            memory.plot(
                [(at - self.began) / 60 for at, _ in seen.memory],
                [size / (1 << 20) for _, size in seen.memory],
                label=name,
            )
            lags = sorted(seen.lags.items())
            lag.plot(
                [(at - self.began) / 60 for at, _ in lags], [one for _, one in lags], ".-", linewidth=0.7, label=name
            )
        for axes in (memory, lag):
            for at, _ in faults:
                axes.axvline((at - self.began) / 60, color="#999999", linewidth=0.6)
            axes.set_ylim(bottom=0)
            axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
        for at, fault in faults:
            memory.annotate(
                fault, ((at - self.began) / 60, 1.01), xycoords=("data", "axes fraction"), rotation=60, fontsize=6
            )
        memory.set_ylabel("memory, PSS (MiB)")
        lag.set_ylabel("commit to target (s)")
        lag.set_xlabel("minutes")
        figure.savefig(target)
