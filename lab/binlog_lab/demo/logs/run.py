"""The demo of structured logs: a live one goes into a Delta table; `run_logs_demo`."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from binlog_lab.demo.logs.load import TABLE, LoadReport
from binlog_lab.demo.processes import JobProcess, LineProcess
from binlog_lab.demo.proof import expected_rows
from binlog_lab.demo.proof.comparison import Comparison, TableDifference, compare_mirror
from binlog_lab.demo.proof.targets import read_target, reading_code
from binlog_lab.demo.run import prepare_directory, remove_all_but_the_picture
from binlog_lab.demo.view import DemoView
from binlog_streaming.settings import Sink

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from binlog_lab.demo.proof.expected_rows import ExpectedTable
    from binlog_lab.demo.reports import DemoJobReport


KILLS = 3
KILLED_AFTER = 3
"""Batches that a process has brought into the table before it is killed."""
LOOK_SECONDS = 0.05
_JOB = """\
checkpoint = "checkpoint"

[source]
path = "log"
format = "structured"
maxBytesPerTrigger = "256k"

[[tables]]
target = "{table}"

[sink]
directory = "tables"
"""


def run_logs_demo(directory: Path, *, threads: int, events: int, seconds: float, keep: bool) -> bool:
    """Write a live log into a table, kill the job again and again, and compare; whether every event is there once.

    Args:
        directory: Where log, table and checkpoint go.
        threads: Of the program that logs.
        seconds: Time that they take.
        keep: Leave the files there in the end.
    """
    view = DemoView()
    directory = directory.resolve()
    prepare_directory(directory)
    view.title(f"{threads} threads that log", "a Delta table", by="run", log="structured log")
    (directory / "log").mkdir()
    (directory / "job.toml").write_text(_JOB.format(table=TABLE))
    run = _Run(directory, view)
    with _load(directory, run, threads=threads, events=events, seconds=seconds) as load:
        load.wait_for_first_report()
        run.follow(load)
    with view.step("Writing what is left", "All of the log is in the table"), run.job(once=True) as last:
        last.wait()
    with view.step("Comparing every event with what was logged", "Every event is compared"):
        (expected,) = expected_rows.load(directory / "truth")
        sink = Sink(directory=str(directory / "tables"))
        uri = f"{sink.directory}/{TABLE}"
        comparison = compare_events(expected, read_target(sink, uri))
    view.result([comparison])
    view.verdict([comparison])
    view.facts(run.facts())
    if comparison.is_equal and not keep:
        remove_all_but_the_picture(directory)
    else:
        view.code("Look at the table:", [*reading_code(sink, uri), "print(table.to_pandas())"])
    return comparison.is_equal


def _load(directory: Path, run: _Run, *, threads: int, events: int, seconds: float) -> LineProcess[LoadReport]:
    arguments = {
        "--directory": directory / "log",
        "--expected": directory / "truth",
        "--threads": threads,
        "--events": events,
        "--seconds": seconds,
    }
    module = "binlog_lab.demo.logs.load"
    return LineProcess(
        [sys.executable, "-m", module, *(str(part) for pair in arguments.items() for part in pair)],
        name=module,
        report=LoadReport,
        log_file=directory / "load.log",
        listener=run.loaded,
    )


class _Run:
    """The job's processes, one after the other, and what they and the load report."""

    def __init__(self, directory: Path, view: DemoView) -> None:
        self._directory = directory
        self._view = view
        self._load = LoadReport(events=0)
        self._batches: list[DemoJobReport] = []
        self._kills = 0

    def loaded(self, report: LoadReport) -> None:
        """The load has gone on."""
        self._load = report

    def job(self, *, once: bool = False) -> JobProcess:
        """Start the job."""
        return JobProcess(
            self._directory / "job.toml",
            log_file=self._directory / "job.log",
            listener=self._reported,
            once=once,
        )

    def follow(self, load: LineProcess[LoadReport]) -> None:
        """Run the job while *load* logs, kill it on the way, and start it again."""
        process = self.job()
        try:
            with self._view.step("Starting the job", "The job follows the log, in a process of its own"):
                process.wait_for_first_report()
                while not self._batches:  # the first batch compiles kernels, once
                    load.check()
                    process.check()
                    time.sleep(LOOK_SECONDS)
            load.go_on()
            doing = "Writing the log into the table while it is written"
            with self._view.step(doing, "The log is written, and was followed") as say:
                since = len(self._batches)
                while not self._load.is_done:
                    load.check()
                    process.check()
                    if len(self._batches) - since >= KILLED_AFTER and self._kills < KILLS:
                        process.kill()
                        self._kills += 1
                        process, since = self.job(), len(self._batches)
                    say(f"{self._load.events:,} events in {self._load.files} files, {self._kills} times kill -9")
                    time.sleep(LOOK_SECONDS)
        finally:
            process.stop()

    def facts(self) -> list[tuple[str, str]]:
        """Facts for the report."""
        batches = len({report.batch_id for report in self._batches})
        return [
            ("log", f"{self._load.events:,} events in {self._load.files} files, renamed while they were read"),
            ("table", f"{batches} batches, by {self._kills + 2} processes, {self._kills} of them killed (kill -9)"),
        ]

    def _reported(self, report: DemoJobReport) -> None:
        if report.event == "batch":
            self._batches.append(report)


def compare_events(expected_table: ExpectedTable, target: pa.Table | None) -> Comparison:
    """Compare every event with the logged ones, and each writer's order with the order in the log."""
    comparison = replace(compare_mirror(expected_table, target), mode="events")
    if target is None or not comparison.is_equal:
        return comparison
    rows = target.flatten().sort_by([(name, "ascending") for name in _POSITION])
    unordered = [
        TableDifference(f"writer={writer.as_py()}", "position", "events in the order of their times", "another order")
        for writer in pc.unique(rows.column("writer"))
        if not _is_ascending(rows.filter(pc.equal(rows.column("writer"), writer)).column("ns").combine_chunks())
    ]
    return replace(comparison, differences=tuple(unordered), difference_count=len(unordered))


_POSITION = ("position.file_no", "position.page", "position.chunk")


def _is_ascending(numbers: pa.Array) -> bool:
    return len(numbers) < 2 or bool(pc.all(pc.less(numbers[:-1], numbers[1:])).as_py())
