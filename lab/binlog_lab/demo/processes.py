"""Processes of the demo that report progress: `ReportingProcess` is one of its modules, `JobProcess` the job."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Generic, Self, TypeVar

import msgspec
import psutil

from binlog_lab.demo.failures import DemoError
from binlog_lab.demo.reports import DemoJobReport, DemoPublishReport, WriterReport

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

STOP_PATIENCE_S = 10.0
JOB_STOP_PATIENCE_S = 40.0
"""The job finishes its batch, and then Java has to go."""

_ERROR = re.compile(r"error: |\w*(Error|Exception): ")

ReportType = TypeVar("ReportType", bound=msgspec.Struct)


class LineProcess(Generic[ReportType]):
    """A process that writes lines of JSON to its standard output; a context manager that ends it.

    Args:
        command: The program and its arguments.
        name: For messages.
        log_file: Where its standard error goes.
        listener: Called with each report, on a thread of this object's.
        own_session: Signals from the terminal do not reach it.
    """

    stop_patience_s = STOP_PATIENCE_S

    def __init__(
        self,
        command: Sequence[str],
        *,
        name: str,
        report: type[ReportType],
        log_file: Path,
        listener: Callable[[ReportType], None],
        own_session: bool = False,
    ) -> None:
        self._name = name
        self._decoder = msgspec.json.Decoder(report)
        self._log_file = log_file
        self._listener = listener
        with log_file.open("ab") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=own_session,
            )
        self._first = threading.Event()
        self._has_reported = False
        self._thread = threading.Thread(target=self._listen, name=name, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """True when it runs no more."""
        return self._process.poll() is not None

    def wait_for_first_report(self) -> None:
        """Return when it has reported something. Raises `DemoError`: the process ended before."""
        self._first.wait()
        if not self._has_reported:
            self._process.wait()
        self.check()

    def check(self) -> None:
        """See that it has not failed."""
        status = self._process.poll()
        if status:
            lines = self._log_file.read_text(errors="replace").strip().splitlines()
            telling = [line for line in lines if _ERROR.match(line)] or lines
            raise DemoError(
                "PROCESS_FAILED",
                f"{self._name}: exit status {status}: {telling[-1] if telling else 'no output'}",
                hint=f"All its output is in {self._log_file}",
            )

    def wait(self) -> None:
        """Return when it has ended by itself, and all its reports have been heard.

        Raises:
            DemoError: It has failed.
        """
        self._process.wait()
        self._thread.join()
        self.check()

    def go_on(self) -> None:
        """Write a line to it: it is waiting for one."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended: check() tells why
            self._process.stdin.write(b"\n")
            self._process.stdin.close()

    def stop(self) -> None:
        """End it, if it has not ended by itself."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(self.stop_patience_s)
            except subprocess.TimeoutExpired:
                self.kill()
        self._let_go()

    def kill(self) -> int:
        """Kill it, and all processes that it has started, as a crash of the machine would; returns how many."""
        count = kill_family(self._process.pid)
        self._process.wait()
        self._let_go()
        return count

    def _let_go(self) -> None:
        self._thread.join()
        assert self._process.stdout is not None
        assert self._process.stdin is not None
        self._process.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.endswith(b"\n"):
                break  # cut off by a kill
            try:
                report = self._decoder.decode(line)
            except msgspec.DecodeError:  # Java writes warnings there, and why it does not start
                with self._log_file.open("ab") as log:
                    log.write(line)
                continue
            self._listener(report)
            self._has_reported = True
            self._first.set()
        self._first.set()


class ReportingProcess(LineProcess[WriterReport]):
    """A Python module as a process of its own.

    Args:
        module: With a `main`.
        arguments: Of the command line.
        log_file: Where its standard error goes.
        listener: Called with each report, on a thread of this object's.
    """

    def __init__(
        self, module: str, arguments: Sequence[str], *, log_file: Path, listener: Callable[[WriterReport], None]
    ) -> None:
        command = [sys.executable, "-m", module, *arguments]
        super().__init__(command, name=module, report=WriterReport, log_file=log_file, listener=listener)


class JobProcess(LineProcess[DemoJobReport]):
    """`binlog-stream run` on a job file: Python, Java, and Spark's Python workers.

    Args:
        job_file: The job; `${NAME}` in it is taken from this process's environment.
        log_file: Where its standard error goes.
        listener: Called with each report, on a thread of this object's.
        once: Whether it ends at what is in the log when it starts.
    """

    stop_patience_s = JOB_STOP_PATIENCE_S

    def __init__(
        self, job_file: Path, *, log_file: Path, listener: Callable[[DemoJobReport], None], once: bool = False
    ) -> None:
        program = "from binlog_streaming.cli import main; main()"
        command = [sys.executable, "-c", program, "run", str(job_file), "--output", "jsonl"]
        super().__init__(
            [*command, "--once"] if once else command,
            name=f"binlog-stream run {job_file.name}",
            report=DemoJobReport,
            log_file=log_file,
            listener=listener,
            own_session=True,
        )


class PublishProcess(LineProcess[DemoPublishReport]):
    """`binlog-stream publish` on a job file.

    Args:
        log_file: Where its standard error goes.
        listener: Called with each report, on a thread of this object's.
        once: Whether it ends at what is in the log when it starts.
    """

    def __init__(
        self, job_file: Path, *, log_file: Path, listener: Callable[[DemoPublishReport], None], once: bool = False
    ) -> None:
        program = "from binlog_streaming.cli import main; main()"
        command = [sys.executable, "-c", program, "publish", str(job_file), "--output", "jsonl"]
        name = f"binlog-stream publish {job_file.name}"
        super().__init__(
            [*command, "--once"] if once else command,
            name=name,
            report=DemoPublishReport,
            log_file=log_file,
            listener=listener,
            own_session=True,
        )


def kill_family(pid: int) -> int:
    """SIGKILL to a process that leads a group of its own, and to all that it has started; returns how many there were.

    Spark's Python workers have a group of their own too. Whole groups are killed, so no worker gets away that is just
    being started.
    """
    leader = psutil.Process(pid)
    members = []
    for member in (leader, *leader.children(recursive=True)):
        with contextlib.suppress(ProcessLookupError):  # it has ended
            members.append((member, os.getpgid(member.pid)))
    groups = {group for _, group in members} - {os.getpgrp()}
    for group in sorted(groups):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
    for member, group in members:
        if group not in groups:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.kill()
    return len(members)
