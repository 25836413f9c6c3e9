"""The demo from its first line to its last: `run_demo(options)`."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from binlog_format.views.table_filter import TableFilter
from binlog_streaming.demo.comparison import Comparison, compare_changelog, compare_mirror
from binlog_streaming.demo.failures import DemoError
from binlog_streaming.demo.real_log import find_real_log
from binlog_streaming.demo.sources import LogSource, WorkloadSource
from binlog_streaming.demo.state import DemoState
from binlog_streaming.demo.view import DemoView
from binlog_streaming.settings import Mode, load_job
from binlog_streaming.tables.job import TablesJob
from binlog_streaming.tables.target import target_uri

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from binlog_streaming.demo.truth import TableTruth
    from binlog_streaming.settings import Job, TableRule

REPOSITORY = Path(__file__).resolve().parents[3]
JOB_FILE = REPOSITORY / "conf" / "demo.toml"
DIRECTORY_VARIABLE = "BINLOG_STREAM_DEMO"
"""Names the demo's directory in the job file."""
MARK = ".binlog-stream-demo"
"""A directory with this file in it was made by a demo, and may be made anew by the next."""
STANDSTILL_S = 90.0
"""When the log is complete and no batch ends for so long, what there is is compared."""


class Source(StrEnum):
    """Where the log comes from."""

    WORKLOAD = "workload"
    MARIADB = "mariadb"


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What the command line says.

    Attributes:
        source: Of the log.
        rows: Row changes of the workload, about.
        seconds: Time in which they are written, or for which a server is under load.
        directory: Where log, tables and checkpoint go.
        keep: Leave them there in the end.
    """

    source: Source
    rows: int
    seconds: float
    directory: Path
    keep: bool


def run_demo(options: DemoOptions, view: DemoView | None = None) -> bool:
    """Run the main job on a live log, and compare; whether every table is equal to the truth.

    Raises:
        BinlogError: Something keeps it from running.
    """
    view = view or DemoView()
    directory = options.directory.resolve()
    source = _source(options, directory)
    state = DemoState()
    prepare_directory(directory)
    view.title(source.title)
    with view.step("Compiling kernels, once", "Kernels are compiled"):
        compile_kernels()
    job = demo_job(directory)
    state.restart_clock()
    with source:
        source.start(directory / "log", state, view)
        run_job(job, source, state, view)
        with view.step("Comparing every row with the truth", "Every row is compared"):
            comparisons = list(compare_all(job, source.truths()))
    view.result(comparisons)
    view.verdict(comparisons)
    equal = all(one.is_equal for one in comparisons)
    is_kept = options.keep or not equal
    places = [("log", job.source.path), ("tables", job.sink.directory)]
    view.facts(_facts(state) + (places if is_kept else []))
    if is_kept:
        view.code("Look at the tables:", look_at(job))
    else:
        shutil.rmtree(directory)
    return equal


def prepare_directory(directory: Path) -> None:
    """Make the demo's directory anew.

    Raises:
        DemoError: `DIRECTORY_IN_USE`: there is something in it that no demo made.
    """
    if directory.exists() and not (directory / MARK).exists() and any(directory.iterdir()):
        raise DemoError(
            "DIRECTORY_IN_USE",
            f"{directory}: there are files in it that are not of a demo",
            hint="Name an empty or a new one with --directory",
        )
    if directory.exists():
        shutil.rmtree(directory)
    directory.mkdir(parents=True)
    (directory / MARK).touch()


def compile_kernels() -> None:
    """Fill the cache of compiled kernels, in a process of its own: the job's workers find it there.

    Raises:
        DemoError: `PROCESS_FAILED`.
    """
    result = subprocess.run(
        [sys.executable, "-m", "binlog_streaming.demo.kernels"], capture_output=True, text=True, check=False
    )
    if result.returncode:
        lines = result.stderr.strip().splitlines()
        raise DemoError("PROCESS_FAILED", f"compiling kernels: {lines[-1] if lines else 'no message'}")


def demo_job(directory: Path) -> Job:
    """The job of `conf/demo.toml` on *directory*."""
    os.environ[DIRECTORY_VARIABLE] = str(directory)
    return load_job(JOB_FILE)


def run_job(job: Job, source: LogSource, state: DemoState, view: DemoView) -> None:
    """Run the job until everything that *source* writes is in the tables, or nothing moves any more.

    Raises:
        BinlogError: The source or the job has failed.
    """
    running = _RunningJob(job, state)
    with view.step("Starting Spark", "Spark runs the job conf/demo.toml"):
        running.start()
    moved = [time.monotonic(), -1]
    going_on: list[int] = []

    def is_done() -> bool:
        source.check()
        running.check()
        now = state.snapshot()
        if now.batches and not going_on:
            # Behind the first batch the job is warm, and the live part begins.
            going_on.append(now.batches)
            state.go_live()
            source.go_on()
        if now.batches != moved[1] or not now.is_written:
            moved[:] = [time.monotonic(), now.batches]
        return (now.is_written and now.total_applied >= now.total_in_log) or (
            time.monotonic() - moved[0] > STANDSTILL_S
        )

    try:
        view.progress(state.snapshot, is_done)
    finally:
        running.stop()
    left = state.snapshot()
    if left.total_applied < left.total_in_log:
        view.note(f"[red]Nothing has moved for {STANDSTILL_S:.0f} s; what there is is compared.[/]")


class _RunningJob:
    # The job waits for its end on a thread of its own; this one shows progress.
    def __init__(self, job: Job, state: DemoState) -> None:
        self._job = TablesJob(job, listener=state.batch_done)
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._wait, name="demo-job", daemon=True)

    def start(self) -> None:
        self._job.start()
        self._thread.start()

    def check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        self._job.request_stop()
        self._thread.join()

    def _wait(self) -> None:
        try:
            self._job.wait()
        except BaseException as error:  # raised again by check(), on the thread that can show it
            self._failure = error


def compare_all(job: Job, truths: Sequence[TableTruth]) -> Iterator[Comparison]:
    """Compare each target of each table."""
    for truth in truths:
        database, _, table = truth.name.partition(".")
        rule = _rule(job, database, table)
        for mode in rule.modes:
            target = target_uri(job.sink.directory, rule.target, database=database, table=table, mode=mode)
            yield compare_mirror(truth, target) if mode is Mode.MIRROR else compare_changelog(truth, target)


def look_at(job: Job) -> list[str]:
    """Three lines of Python that show something of a table."""
    rule = _rule(job, "shop", "orders")
    target = target_uri(job.sink.directory, rule.target, database="shop", table="orders", mode=rule.modes[0])
    return [
        "from deltalake import DeltaTable",
        f'orders = DeltaTable("{target}").to_pyarrow_table()',
        'print(orders.group_by("status").aggregate([("total", "sum")]).to_pandas())',
    ]


def _rule(job: Job, database: str, table: str) -> TableRule:
    return next(rule for rule in job.tables if TableFilter(rule.select).accepts_name(database, table))


def _source(options: DemoOptions, directory: Path) -> LogSource:
    real = find_real_log()
    if real is None or not JOB_FILE.exists():
        raise DemoError(
            "NO_CHECKOUT",
            "the demo runs from a checkout of the project: it replays a log that is not part of the package",
            hint="Clone the repository and run: make demo",
        )
    if options.source is Source.MARIADB:
        from binlog_streaming.demo.mariadb_source import MariaDbSource

        return MariaDbSource(directory, seconds=options.seconds)
    return WorkloadSource(directory, real, rows=options.rows, seconds=options.seconds)


def _facts(state: DemoState) -> list[tuple[str, str]]:
    totals = state.totals
    changes = sum(totals.batch_changes)
    facts = [("row changes", f"{changes:,} in {len(totals.batch_changes)} batches")]
    # The first batch waits for Spark's workers to start, and the live part begins behind it.
    live, busy = sum(totals.batch_changes[1:]), sum(totals.batch_seconds[1:])
    if live and totals.first_batch_at is not None and totals.last_batch_at is not None:
        seconds = totals.last_batch_at - totals.first_batch_at
        rates = f"{live / seconds:,.0f}/s over {seconds:.1f} s, {live / busy:,.0f}/s in batches"
        facts.append(("live part", f"{live:,} row changes: {rates}"))
    if totals.lags:
        middle, worst = statistics.median(totals.lags), max(totals.lags)
        facts.append(("lag", f"{middle:.1f} s in the middle, at most {worst:.1f} s, from commit to table"))
    return facts
