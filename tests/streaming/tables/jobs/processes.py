"""`binlog-stream run` as a process of its own, in a session of its own, so that all of it can be killed at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

TIMEOUT_S = 300.0


class RunningJob:
    """The command, with JSON lines on standard output. Ends with the `with` block, whatever it takes."""

    def __init__(self, job_file: Path, *arguments: str) -> None:
        self.events: list[dict[str, object]] = []
        self._changed = threading.Condition()
        self._ended = False
        program = [sys.executable, "-c", "from binlog_streaming.cli import main; main()"]
        self._process = subprocess.Popen(
            [*program, "run", str(job_file), "--output", "jsonl", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._errors: list[str] = []
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._readers = [
            threading.Thread(target=self._read_events, args=(self._process.stdout,)),
            threading.Thread(target=lambda stream: self._errors.extend(stream), args=(self._process.stderr,)),
        ]
        for reader in self._readers:
            reader.start()

    def _read_events(self, stream: Iterator[str]) -> None:
        for line in stream:
            with self._changed:
                if line.endswith("\n"):  # a killed process may leave half a line
                    self.events.append(json.loads(line))
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    @property
    def has_ended(self) -> bool:
        """Whether it is over, by itself or not."""
        return self._ended

    @property
    def stderr(self) -> str:
        """What it has printed for people."""
        return "".join(self._errors)

    def wait_for(self, event: str, count: int = 1) -> bool:
        """Whether *event* came *count* times before the process ended."""

        def seen() -> bool:
            return sum(line["event"] == event for line in self.events) >= count

        with self._changed:
            self._changed.wait_for(lambda: seen() or self._ended, TIMEOUT_S)
            return seen()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process alone, as an operator does."""
        self._process.send_signal(number)

    def wait(self) -> int:
        """Exit status."""
        status = self._process.wait(TIMEOUT_S)
        for reader in self._readers:
            reader.join(TIMEOUT_S)
        return status

    def kill(self, *, workers_too: bool) -> None:
        """kill -9 of the command and of Java; of the Python workers too, or these may still write for a moment."""
        for pid, command in list(_session_members(self._process.pid)):
            if workers_too or "pyspark.daemon" not in command:
                _kill(pid)
        self._process.wait(TIMEOUT_S)

    def __enter__(self) -> RunningJob:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill(workers_too=True)
        for reader in self._readers:
            reader.join(TIMEOUT_S)
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # it was faster


def _session_members(session: int) -> Iterator[tuple[int, str]]:
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            command = (entry / "cmdline").read_text().replace("\0", " ")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[3]) == session:
            yield int(entry.name), command
