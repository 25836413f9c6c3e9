"""A real server's log into every kind of sink, as a Spark task does it; also with kill -9 at any step."""

from __future__ import annotations

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from binlog_connector.crash_points import watched
from binlog_format import open_log
from binlog_streaming.job_state.progress import Outcome
from binlog_streaming.lake.target import CrashPoint
from binlog_streaming.settings import Mode, Sink, TableFormat, TableRule
from binlog_streaming.tables.apply import apply_component
from tests.streaming.tables.batches import cut, run, write
from tests.streaming.tables.jobs.test_apply import components
from tests.streaming.tables.lake.sink_cases import COMMIT_ID, MIRROR_SINKS, SINKS, Place
from tests.streaming.tables.oltp import IMAGES, OLTP, TABLES, play, truth

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from binlog_format.log.log import Log
    from tests.streaming.tables.batches import Range

KILLED = """
import sys
from binlog_format import open_log
from binlog_connector.crash_points import watched
from tests.faults.processes import Kill, in_a_process
from tests.streaming.tables.batches import cut, write
from tests.streaming.tables.lake.memory_target import MemoryTargets
from tests.streaming.tables.jobs.test_apply_sinks import OLTP, RULES, write_all

# What is loaded and compiled here is ready in the processes that write; the libraries of the sinks have threads.
with open_log(str(OLTP)) as log:
    for batch in cut(log, 1):
        for rule in RULES:
            write(log, batch, "memory", 0, (rule,), targets=MemoryTargets())

def work():
    with watched(Kill(int(step_no))):
        write_all(directory, table_format, mode)

for line in sys.stdin:
    directory, table_format, mode, step_no = line.split()
    print(in_a_process(work), flush=True)
"""
"""A process that writes what its input names, in a process for each; it prints their statuses."""


@pytest.fixture
def log() -> Iterator[Log]:
    with open_log(str(OLTP)) as opened:
        yield opened


def write_batch(
    log: Log, batch: Range, directory: Path | str, batch_id: int, table_format: TableFormat, mode: Mode
) -> list[Outcome]:
    """All tables of a batch."""
    sink = Sink(directory=str(directory), format=table_format)
    return [table.outcome for table in write(log, batch, directory, batch_id, (TableRule(mode=mode),), sink=sink)]


def write_table(
    log: Log, batch: Range, directory: Path, batch_id: int, table_format: TableFormat, mode: Mode, name: str
) -> Outcome:
    """One table of a batch."""
    sink = Sink(directory=str(directory), format=table_format)
    component = components(log, batch, TableRule(mode=mode))[f"sb.{name}"]
    (progress,) = apply_component(run(directory, batch_id, batch[1], sink=sink), component, log)
    return progress.outcome


def write_all(directory: str, table_format: str, mode: str) -> list[Outcome]:
    """The log in three batches."""
    with open_log(str(OLTP)) as opened:
        return [
            outcome
            for batch_id, batch in enumerate(cut(opened, 3))
            for outcome in write_batch(opened, batch, directory, batch_id, TableFormat(table_format), Mode(mode))
        ]


def check(directory: Path, table_format: TableFormat, mode: Mode) -> None:
    images = 0
    for name in TABLES:
        content = Place(directory, table_format, f"sb/{name}").content()
        images += content.num_rows
        if mode is Mode.MIRROR:
            assert [tuple(row.values()) for row in content.sort_by("id").to_pylist()] == truth(name)
        else:
            assert play(content)[0] == truth(name)
    assert mode is Mode.MIRROR or images == IMAGES


RULES = (TableRule(mode=Mode.CHANGELOG), TableRule(mode=Mode.MIRROR))
CASES = [(form, Mode.CHANGELOG) for form in SINKS] + [(form, Mode.MIRROR) for form in MIRROR_SINKS]
IDS = [f"{form}-{mode}" for form, mode in CASES]


@pytest.mark.parametrize(("table_format", "mode"), CASES, ids=IDS)
def test_tables_equal_the_server(tmp_path: Path, table_format: TableFormat, mode: Mode) -> None:
    assert set(write_all(str(tmp_path), table_format, mode)) == {Outcome.WRITTEN}
    check(tmp_path, table_format, mode)


@pytest.fixture(scope="module")
def killed_writes() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", KILLED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process


@pytest.mark.thorough_where("iceberg")
@pytest.mark.slow
@pytest.mark.parametrize("step_no", [1, 5, 19])
@pytest.mark.parametrize(("table_format", "mode"), CASES, ids=IDS)
def test_kill_at_a_step_then_the_same_batches_again(
    killed_writes: subprocess.Popen[str], tmp_path: Path, table_format: TableFormat, mode: Mode, step_no: int
) -> None:
    """Every table of every batch has two steps or more; the checkpoint knows of nothing."""
    assert killed_writes.stdin is not None
    assert killed_writes.stdout is not None
    killed_writes.stdin.write(f"{tmp_path} {table_format} {mode} {step_no}\n")
    killed_writes.stdin.flush()
    assert killed_writes.stdout.readline() == f"{-signal.SIGKILL}\n"
    assert Outcome.WRITTEN in resume(tmp_path, table_format, mode)
    check(tmp_path, table_format, mode)


def resume(directory: Path, table_format: TableFormat, mode: Mode) -> list[Outcome]:
    """Go on at the first batch that not all tables have, as the checkpoint does."""
    outcomes = []
    with open_log(str(OLTP)) as opened:
        batches = cut(opened, 3)
        touched = [len(components(opened, batch)) for batch in batches]
        first = next(
            (n for n, count in enumerate(touched) if len(has_batch(directory, table_format, n)) < count), len(batches)
        )
        for number in range(first, len(batches)):
            outcomes += write_batch(opened, batches[number], directory, number, table_format, mode)
    return outcomes


def has_batch(directory: Path, table_format: TableFormat, batch_id: int) -> list[str]:
    """Tables that have a batch or a later one."""
    found = []
    for name in TABLES:
        with closing(Place(directory, table_format, f"sb/{name}").target()) as target:
            applied = target.applied(COMMIT_ID)
        if applied is not None and applied.batch_id >= batch_id:
            found.append(name)
    return found


@pytest.mark.parametrize("table_format", SINKS, ids=str)
def test_many_tables_at_once_make_their_first_commit(tmp_path: Path, table_format: TableFormat) -> None:
    """They share a catalog, where the format has one, and make it."""

    def write_one(name: str) -> Outcome:
        with open_log(str(OLTP)) as opened:
            (batch,) = cut(opened, 1)
            return write_table(opened, batch, tmp_path, 0, table_format, Mode.CHANGELOG, name)

    with ThreadPoolExecutor(len(TABLES)) as pool:
        assert set(pool.map(write_one, TABLES)) == {Outcome.WRITTEN}
    check(tmp_path, table_format, Mode.CHANGELOG)


@pytest.mark.parametrize(("table_format", "mode"), CASES, ids=IDS)
def test_twin_that_is_faster_leaves_nothing_to_do(
    log: Log, tmp_path: Path, table_format: TableFormat, mode: Mode
) -> None:
    """A twin of this job commits the batch between the look and the write."""
    first, second = cut(log, 2)
    write_batch(log, first, tmp_path, 0, table_format, mode)
    place = Place(tmp_path, table_format, "sb/sbtest1")
    after_twin: list[object] = []

    def twin(step: CrashPoint) -> None:
        if step is CrashPoint.LOOKED and not after_twin:
            after_twin.append(None)
            with open_log(str(OLTP)) as own:
                write_table(own, second, tmp_path, 1, table_format, mode, "sbtest1")
            after_twin.append(place.state())

    with watched(twin):
        outcome = write_table(log, second, tmp_path, 1, table_format, mode, "sbtest1")
    assert outcome is Outcome.REPEATED
    assert place.state() == after_twin[1]
