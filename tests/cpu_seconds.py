"""Processor seconds of each test, with all processes that it starts: `pytest -p tests.cpu_seconds`.

Time on the clock depends on what else runs on the machine; this does not. What a test costs includes the fixtures
that are made for it first. At the end: sums by folder, and the most expensive tests; each of them, when it has
ended, is a line of the file that `CPU_SECONDS_FILE` names.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

MOST_EXPENSIVE = 40
PROPERTY = "cpu seconds"
"""Of a report; xdist takes it to the first process."""
_TICKS = os.sysconf("SC_CLK_TCK")


class CpuSeconds:
    """Adds up the processor time of one pytest process, and of those that it started."""

    def __init__(self, place: str | None) -> None:
        self._place = place
        self._used = used_by_tree(os.getpid())
        self._seconds: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Note on the report of each phase what was used since the last one."""
        report = yield
        used = used_by_tree(os.getpid())
        # A process that nobody waited for takes its time with it when it ends.
        report.user_properties.append((PROPERTY, max(used - self._used, 0.0)))
        self._used = used
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add it up."""
        *_, (_, seconds) = [given for given in report.user_properties if given[0] == PROPERTY]
        self._seconds[report.nodeid] = self._seconds.get(report.nodeid, 0.0) + float(str(seconds))
        if report.when == "teardown" and self._place is not None:
            with Path(self._place).open("a", encoding="utf-8") as file:
                file.write(f"{self._seconds[report.nodeid]:.2f}\t{report.nodeid}\n")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Show it."""
        folders: dict[str, float] = {}
        modules: dict[str, float] = {}
        for name, seconds in self._seconds.items():
            path = Path(name.partition("::")[0])
            for sums, key in ((folders, str(path.parent)), (modules, str(path))):
                sums[key] = sums.get(key, 0.0) + seconds
        terminalreporter.section(f"processor seconds: {sum(folders.values()):.0f}")
        for sums in (folders, modules, self._seconds):
            for name, seconds in most_expensive(sums)[:MOST_EXPENSIVE]:
                terminalreporter.write_line(f"{seconds:9.1f}  {name}")
            terminalreporter.write_line("")


def most_expensive(seconds: dict[str, float]) -> list[tuple[str, float]]:
    """The most expensive one first."""
    return sorted(seconds.items(), key=lambda item: -item[1])


def used_by_tree(process: int) -> float:
    """Processor seconds of a process and its descendants, also of those that have ended and were waited for."""
    folder = Path(f"/proc/{process}")
    fields = _read(folder / "stat").rpartition(")")[2].split()
    own = sum(map(int, fields[11:15])) / _TICKS
    with contextlib.suppress(OSError):  # it has just ended
        for task in (folder / "task").iterdir():
            own += sum(used_by_tree(int(child)) for child in _read(task / "children").split())
    return own


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except OSError:  # a process or a thread that has just ended
        return ""


def pytest_configure(config: pytest.Config) -> None:
    """Take part; of several processes the first one writes the file."""
    place = None if hasattr(config, "workerinput") else os.environ.get("CPU_SECONDS_FILE")
    config.pluginmanager.register(CpuSeconds(place), "cpu seconds")
