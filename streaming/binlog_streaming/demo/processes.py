"""Processes of the demo: `ReportingProcess` runs one that says how far it is."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import msgspec

from binlog_streaming.demo.failures import DemoError
from binlog_streaming.demo.reports import WriterReport

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

STOP_PATIENCE_S = 10.0


class ReportingProcess:
    """A Python module as a process of its own; a context manager that ends it.

    Args:
        module: With a `main`.
        arguments: Of the command line.
        log_file: Where its standard error goes.
        listener: Called with each report, on a thread of this object's.
    """

    def __init__(
        self, module: str, arguments: Sequence[str], *, log_file: Path, listener: Callable[[WriterReport], None]
    ) -> None:
        self._module = module
        self._log_file = log_file
        self._listener = listener
        with log_file.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
            )
        self._first = threading.Event()
        self._has_reported = False
        self._thread = threading.Thread(target=self._listen, name=module, daemon=True)
        self._thread.start()

    def __enter__(self) -> ReportingProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def wait_for_first_report(self) -> None:
        """Return when there is something to read in the log.

        Raises:
            DemoError: The process ended before.
        """
        self._first.wait()
        if not self._has_reported:
            self._process.wait()
        self.check()

    def go_on(self) -> None:
        """Write a line to it: it is waiting for one."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended: check() says why
            self._process.stdin.write(b"\n")
            self._process.stdin.close()

    def check(self) -> None:
        """See that it has not failed.

        Raises:
            DemoError: `PROCESS_FAILED`, with the last line that it said.
        """
        status = self._process.poll()
        if status:
            lines = self._log_file.read_text(errors="replace").strip().splitlines()
            raise DemoError(
                "PROCESS_FAILED",
                f"{self._module}: exit status {status}: {lines[-1] if lines else 'it said nothing'}",
                hint=f"All that it said is in {self._log_file}",
            )

    def wait(self) -> None:
        """Return when it has ended by itself, and all its reports have been heard.

        Raises:
            DemoError: It has failed.
        """
        self._process.wait()
        self._thread.join()
        self.check()

    def stop(self) -> None:
        """End it, if it has not ended by itself."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(STOP_PATIENCE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._thread.join()
        assert self._process.stdout is not None
        assert self._process.stdin is not None
        self._process.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        decoder = msgspec.json.Decoder(WriterReport)
        for line in self._process.stdout:
            self._listener(decoder.decode(line))
            self._has_reported = True
            self._first.set()
        self._first.set()
