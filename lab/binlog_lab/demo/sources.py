"""Sources of the demo's live log: `DemoLogSource`, and the first of the two, `WorkloadSource`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from binlog_lab.demo.processes import ReportingProcess
from binlog_lab.demo.proof import expected_rows
from binlog_streaming.settings import Begin

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_lab.demo.proof.expected_rows import ExpectedTable
    from binlog_lab.demo.real_log import RealLog
    from binlog_lab.demo.state import DemoState
    from binlog_lab.demo.view import DemoView


class DemoLogSource(ABC):
    """Writes a live log; a context manager that ends whatever it has started."""

    title: str
    begin = Begin.CREATED
    """Setting `begin` of a job that reads this log."""

    def __enter__(self) -> DemoLogSource:
        return self

    @abstractmethod
    def __exit__(self, *_: object) -> None:
        """End all processes."""

    @abstractmethod
    def start(self, log_directory: Path, state: DemoState, view: DemoView) -> None:
        """Write what is in the log at first; returns when it is in the log. Reports go to *state*."""

    @abstractmethod
    def go_on(self) -> None:
        """Write the rest, live."""

    @abstractmethod
    def check(self) -> None:
        """Check that it still runs. Raises `DemoError`: it has failed."""

    @abstractmethod
    def expected_tables(self) -> list[ExpectedTable]:
        """Expected rows of the tables; only when the log is complete."""

    def prove(self, view: DemoView) -> bool:
        """Have the server that wrote the log prove the job's tables; True if all are equal, or without a server."""
        del view
        return True


class WorkloadSource(DemoLogSource):
    """A real server's log, repacked, and after it the project's own workload, live.

    Args:
        directory: For the expected rows and the output of the writing process.
        real: The real server's log.
        rows: Row changes of the workload, about.
        seconds: Time that it takes.
    """

    title = "live workload"

    def __init__(self, directory: Path, real: RealLog, *, rows: int, seconds: float) -> None:
        self._directory = directory
        self._real = real
        self._rows = rows
        self._seconds = seconds
        self._process: ReportingProcess | None = None

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.stop()

    def start(self, log_directory: Path, state: DemoState, view: DemoView) -> None:
        """Start the writing process."""
        arguments = {
            "--directory": log_directory,
            "--expected": self._expected_directory,
            "--real": self._real.directory,
            "--rows": self._rows,
            "--seconds": self._seconds,
        }
        with view.step("Repacking a real server's log", "A real server's log (MariaDB 10.11) is repacked as .ibb"):
            self._process = ReportingProcess(
                "binlog_lab.demo.live_writer",
                ["--wait", "--alter", *(str(part) for pair in arguments.items() for part in pair)],
                log_file=self._directory / "writer.log",
                listener=state.writer_reported,
            )
            self._process.wait_for_first_report()

    def go_on(self) -> None:
        """Start the workload of the process."""
        assert self._process is not None
        self._process.go_on()

    def check(self) -> None:
        """See that the process has not failed."""
        assert self._process is not None
        self._process.check()

    def expected_tables(self) -> list[ExpectedTable]:
        """Rows that the process has saved."""
        return expected_rows.load(self._expected_directory)

    @property
    def _expected_directory(self) -> Path:
        return self._directory / "truth"
