"""The demo from its first line to its last: `run_demo(options)`."""

from __future__ import annotations

import contextlib
import os
import shutil
import statistics
import subprocess
import sys
from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from binlog_connector.installing import install_hint
from binlog_format.views.filters import TableFilter
from binlog_lab.demo.failures import DemoError
from binlog_lab.demo.job_run import JobPlace, run_job
from binlog_lab.demo.proof.comparison import Comparison, compare_changelog, compare_mirror, compare_versions
from binlog_lab.demo.proof.targets import read_target, reading_code
from binlog_lab.demo.real_log import find_real_log
from binlog_lab.demo.servers.lake_servers import LakeServers, fetch_servers
from binlog_lab.demo.sources import DemoLogSource, WorkloadSource
from binlog_lab.demo.state import DemoMarkKind, DemoState
from binlog_lab.demo.view import DemoView
from binlog_streaming.lake.table_places import target_uri
from binlog_streaming.settings import Begin, Mode, TableFormat, load_job
from binlog_streaming.settings.text import job_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from binlog_lab.demo.proof.expected_rows import ExpectedTable
    from binlog_streaming.settings import Job, TableRule

REPOSITORY = Path(__file__).resolve().parents[3]
JOB_FILE = REPOSITORY / "conf" / "demo.toml"
OWN_JOB_FILE = "job.toml"
"""Name of the job's file in the demo's directory, where it is not `JOB_FILE`."""
DIRECTORY_VARIABLE = "BINLOG_STREAM_DEMO"
"""Names the demo's directory in the job file."""
FORMAT_VARIABLE = "BINLOG_STREAM_DEMO_FORMAT"
"""Names the format of the tables there."""
MARK = ".binlog-stream-demo"
"""A directory with this file in it was made by a demo, and may be made anew by the next."""
PICTURE = "demo.png"
_COMPARE = {
    Mode.MIRROR: compare_mirror,
    Mode.CHANGELOG: compare_changelog,
    Mode.SCD2: compare_versions,
}


class DemoSource(StrEnum):
    """Source of the log."""

    WORKLOAD = "workload"
    MARIADB = "mariadb"


class DemoStore(StrEnum):
    """Place of the tables."""

    FOLDER = "folder"
    S3 = "s3"


_TABLES = {
    (TableFormat.DELTA, DemoStore.FOLDER): "Delta tables",
    (TableFormat.DELTA, DemoStore.S3): "Delta tables in S3",
    (TableFormat.ICEBERG, DemoStore.FOLDER): "Iceberg tables",
    (TableFormat.ICEBERG, DemoStore.S3): "Iceberg tables in S3",
}


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """Options of the command line.

    Attributes:
        sink: Kind of the tables: Delta or Iceberg.
        rows: Row changes of the workload, or of the server's load, about.
        seconds: Time in which they are written; on a slow machine it takes longer.
        directory: Where log, tables and checkpoint go.
        keep: Leave them there in the end; the picture always stays.
        store: Of the tables: their folder, or an S3 server that the demo starts, for Iceberg with a REST catalog.
    """

    source: DemoSource
    sink: TableFormat
    rows: int
    seconds: float
    directory: Path
    keep: bool
    store: DemoStore = DemoStore.FOLDER


def run_demo(options: DemoOptions) -> bool:
    """Run the main job on a live log, and compare; whether every table equals the expected rows."""
    view = DemoView()
    directory = options.directory.resolve()
    job_file = directory / OWN_JOB_FILE
    source = log_source(options.source, directory, rows=options.rows, seconds=options.seconds, job_file=job_file)
    state = DemoState()
    prepare_directory(directory)
    tables = _TABLES[options.sink, options.store]
    view.title(source.title, tables)
    with view.step("Compiling kernels, once", "Kernels are compiled"):
        compile_kernels()
    with contextlib.ExitStack() as stack:
        servers = (
            stack.enter_context(_servers(options.sink, directory, view)) if options.store is DemoStore.S3 else None
        )
        job, place = demo_job(directory, options.sink, servers, source.begin)
        state.restart_clock()
        stack.enter_context(source)
        source.start(directory / "log", state, view)
        run_job(place, job, source, state, view)
        with view.step("Comparing every row with the expected ones", "Every row is compared"):
            comparisons = list(compare_all(job, source.expected_tables()))
        view.result(comparisons)
        is_proved = source.prove(view)
    view.verdict(comparisons)
    equal = is_proved and all(comparison.is_equal for comparison in comparisons)
    is_kept = options.keep or not equal
    places = [("log", job.source.path), ("tables", str(place.tables))] if is_kept else []
    picture = _picture(state, f"{source.title}, {tables}", directory / PICTURE)
    view.facts([*_facts(state), *places, *picture])
    if is_kept:
        view.code("Look at the tables:", look_at(job, servers))
    else:
        remove_all_but_the_picture(directory)
    return equal


def prepare_directory(directory: Path) -> None:
    """Replace the demo's directory by an empty one."""
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


def remove_all_but_the_picture(directory: Path) -> None:
    """Remove log, tables and checkpoint; the next demo may still use the directory."""
    for path in directory.iterdir():
        if path.name in (MARK, PICTURE):
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def compile_kernels() -> None:
    """Fill the cache of compiled kernels, in a process of its own: the job's workers find it there."""
    result = subprocess.run(
        [sys.executable, "-m", "binlog_lab.demo.kernels"], capture_output=True, text=True, check=False
    )
    if result.returncode:
        lines = result.stderr.strip().splitlines()
        raise DemoError("PROCESS_FAILED", f"compiling kernels: {lines[-1] if lines else 'no message'}")


def demo_job(
    directory: Path,
    sink: TableFormat = TableFormat.DELTA,
    servers: LakeServers | None = None,
    begin: Begin = Begin.CREATED,
) -> tuple[Job, JobPlace]:
    """The job of `conf/demo.toml` on *directory*, also for processes that are started later.

    With its tables in *servers*, or with another *begin*, it has a file of its own, in *directory*.
    """
    os.environ[DIRECTORY_VARIABLE] = str(directory)
    os.environ[FORMAT_VARIABLE] = sink.value
    job = load_job(JOB_FILE)
    tables = Path(job.sink.directory)
    if servers is None and begin is Begin.CREATED:
        return job, JobPlace(JOB_FILE, tables)
    if servers is not None:
        job, tables = replace(job, sink=servers.sink(job.sink)), servers.tables
    job = replace(job, tables=tuple(replace(rule, begin=begin) for rule in job.tables))
    job_file = directory / OWN_JOB_FILE
    job_file.write_text(job_text(job))
    return job, JobPlace(job_file, tables)


def compare_all(job: Job, expected_tables: Sequence[ExpectedTable]) -> Iterator[Comparison]:
    """Compare each target of each table."""
    for expected_table in expected_tables:
        database, _, table = expected_table.name.partition(".")
        rule = _rule(job, database, table)
        for mode in rule.modes:
            yield _COMPARE[mode](expected_table, read_target(job.sink, _uri(job, rule, expected_table.name, mode)))


def look_at(job: Job, servers: LakeServers | None = None) -> list[str]:
    """A few lines of Python that show something of a table, when the demo and its servers have ended."""
    name = "shop.orders"
    rule = _rule(job, *name.split("."))
    uri = _uri(job, rule, name, rule.modes[0])
    return [
        *(reading_code(job.sink, uri) if servers is None else servers.reading_code(uri)),
        'print(table.group_by("status").aggregate([("total", "sum")]).to_pandas())',
    ]


def _uri(job: Job, rule: TableRule, name: str, mode: Mode) -> str:
    database, _, table = name.partition(".")
    return target_uri(job.sink.directory, rule.target, database=database, table=table, mode=mode)


def _rule(job: Job, database: str, table: str) -> TableRule:
    return next(rule for rule in job.tables if TableFilter(rule.select).accepts_name(database, table))


def log_source(
    source: DemoSource, directory: Path, *, rows: int, seconds: float, job_file: Path | None = None
) -> DemoLogSource:
    """Make the source that writes the live log.

    Args:
        rows: Row changes of the workload, or of the server's load, about.
        seconds: Time in which they are written; on a slow machine it takes longer.
        job_file: The job whose tables a server older than its log completes by a snapshot; None: the log has all.
    """
    real = find_real_log()
    if real is None or not JOB_FILE.exists():
        raise DemoError(
            "NO_CHECKOUT",
            "the demo runs from a checkout of the project: it replays a log that is not part of the package",
            hint="Clone the repository and run: make demo",
        )
    if source is DemoSource.MARIADB:
        from binlog_lab.demo.mariadb.source import MariaDbSource

        return MariaDbSource(directory, rows=rows, seconds=seconds, job_file=job_file)
    return WorkloadSource(directory, real, rows=rows, seconds=seconds)


@contextlib.contextmanager
def _servers(sink: TableFormat, directory: Path, view: DemoView) -> Iterator[LakeServers]:
    fetch_servers(sink, view)
    names = "An S3 server runs" if sink is TableFormat.DELTA else "An S3 server and an Iceberg REST catalog run"
    with contextlib.ExitStack() as stack:
        with view.step("Starting the servers", f"{names} on 127.0.0.1"):
            servers = stack.enter_context(LakeServers(directory, sink))
        yield servers


def _picture(state: DemoState, title: str, target: Path) -> list[tuple[str, str]]:
    if find_spec("matplotlib") is None:
        return [("picture", f"none: {install_hint('plot')}")]
    from binlog_lab.demo.picture import draw_picture

    draw_picture(state, title, target)
    return [("picture", str(target))]


def _facts(state: DemoState) -> list[tuple[str, str]]:
    batches = state.batches()
    facts = [("row changes", f"{sum(batch.changes for batch in batches):,} in {len(batches)} batches")]
    # The first batch waits for Spark's workers to start, and the live part begins after it.
    live = sum(batch.changes for batch in batches[1:])
    if live:
        seconds = batches[-1].finished_at - batches[0].finished_at
        busy = sum(batch.seconds for batch in batches[1:])
        rates = f"{live / seconds:,.0f}/s over {seconds:.1f} s, {live / busy:,.0f}/s in batches"
        facts.append(("live part", f"{live:,} row changes: {rates}"))
    now = state.snapshot()
    if now.total_applied < now.total_in_log:
        passed = now.total_in_log - now.total_applied
        facts.append(("passed over", f"{passed:,} row changes before the snapshot of their table, which has them"))
    away = {mark.kind: mark.at for mark in state.marks()}
    if DemoMarkKind.REPEATED in away:
        seconds = away[DemoMarkKind.REPEATED] - away[DemoMarkKind.KILLED]
        facts.append(("kill -9", f"the batch was in the tables {seconds:.1f} s later"))
    lags = [lag for _, lag in state.lags()]
    if lags:
        middle, worst = statistics.median(lags), max(lags)
        facts.append(("lag", f"{middle:.1f} s in the middle, at most {worst:.1f} s, from commit to table"))
    return facts
