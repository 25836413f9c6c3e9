"""A real server's log into every kind of sink, as a Spark task does it; also with kill -9 at any step."""

from __future__ import annotations

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from binlog_format import open_log
from binlog_streaming.settings import Mode, Sink, TableFormat, TableRule
from binlog_streaming.tables.apply import BatchRun, apply_table
from binlog_streaming.tables.progress import Outcome
from binlog_streaming.tables.steps import Step, watched
from tests.streaming.tables.oltp import IMAGES, OLTP, TABLES, play, truth
from tests.streaming.tables.sink_cases import MIRROR_SINKS, SINKS, TICKET, Place
from tests.streaming.tables.test_apply import CHANGELOG, MIRROR, batches

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from binlog_format.log import Log

KILLED = """
import os, signal, sys
from tests.streaming.tables.test_apply_sinks import write_all
from binlog_streaming.tables.steps import watched

left = int(sys.argv[4])

def kill(step):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

with watched(kill):
    write_all(*sys.argv[1:4])
"""


@pytest.fixture
def log() -> Iterator[Log]:
    with open_log(str(OLTP)) as opened:
        yield opened


def run(directory: Path | str, table_format: TableFormat, batch_id: int) -> BatchRun:
    return BatchRun(query_id="q-1", batch_id=batch_id, sink=Sink(directory=str(directory), format=table_format))


def write_all(directory: str, table_format: str, mode: str) -> list[Outcome]:
    """The log in three batches."""
    rule = TableRule(mode=Mode(mode))
    with open_log(str(OLTP)) as opened:
        return [
            progress.outcome
            for batch_id, batch in enumerate(batches(opened, 3))
            for table in batch
            for progress in apply_table(run(directory, TableFormat(table_format), batch_id), table, rule, opened)
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


CASES = [(form, Mode.CHANGELOG) for form in SINKS] + [(form, Mode.MIRROR) for form in MIRROR_SINKS]
IDS = [f"{form}-{mode}" for form, mode in CASES]


@pytest.mark.parametrize(("table_format", "mode"), CASES, ids=IDS)
def test_tables_equal_the_server(tmp_path: Path, table_format: TableFormat, mode: Mode) -> None:
    assert set(write_all(str(tmp_path), table_format, mode)) == {Outcome.WRITTEN}
    check(tmp_path, table_format, mode)


@pytest.mark.slow
@pytest.mark.parametrize("step_no", [1, 4, 5, 19, 31])
@pytest.mark.parametrize(("table_format", "mode"), CASES, ids=IDS)
def test_kill_at_a_step_then_the_same_batches_again(
    tmp_path: Path, table_format: TableFormat, mode: Mode, step_no: int
) -> None:
    """Every table of every batch has three or four steps; the checkpoint knows of nothing."""
    arguments = [str(tmp_path), str(table_format), str(mode), str(step_no)]
    killed = subprocess.run([sys.executable, "-c", KILLED, *arguments], check=False, capture_output=True, timeout=120)
    if table_format is TableFormat.DELTA and step_no > 28:
        assert killed.returncode == 0, killed.stderr  # Delta has fewer steps: two, and one more for the first batch
    else:
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    outcomes = resume(tmp_path, table_format, mode)
    assert Outcome.WRITTEN in outcomes or killed.returncode == 0
    check(tmp_path, table_format, mode)


def resume(directory: Path, table_format: TableFormat, mode: Mode) -> list[Outcome]:
    """Go on at the first batch that not all tables have, as the checkpoint does."""
    rule = TableRule(mode=mode)
    outcomes = []
    with open_log(str(OLTP)) as opened:
        cut = batches(opened, 3)
        first = next(
            (
                number
                for number, batch in enumerate(cut)
                if len(has_batch(directory, table_format, number)) < len(batch)
            ),
            len(cut),
        )
        for number in range(first, len(cut)):
            for table in cut[number]:
                (progress,) = apply_table(run(directory, table_format, number), table, rule, opened)
                outcomes.append(progress.outcome)
    return outcomes


def has_batch(directory: Path, table_format: TableFormat, batch_id: int) -> list[str]:
    """Tables that have a batch or a later one."""
    found = []
    for name in TABLES:
        with closing(Place(directory, table_format, f"sb/{name}").target()) as target:
            applied = target.applied(TICKET)
        if applied is not None and applied.batch_id >= batch_id:
            found.append(name)
    return found


@pytest.mark.parametrize("table_format", SINKS, ids=str)
def test_many_tables_at_once_make_their_first_commit(tmp_path: Path, table_format: TableFormat) -> None:
    """They share a catalog, where the format has one, and make it."""

    def write(number: int) -> Outcome:
        with open_log(str(OLTP)) as opened:
            (batch,) = batches(opened, 1)
            (progress,) = apply_table(run(tmp_path, table_format, 0), batch[number], CHANGELOG, opened)
        return progress.outcome

    with ThreadPoolExecutor(len(TABLES)) as pool:
        assert set(pool.map(write, range(len(TABLES)))) == {Outcome.WRITTEN}
    check(tmp_path, table_format, Mode.CHANGELOG)


@pytest.mark.parametrize(("table_format", "mode"), CASES, ids=IDS)
def test_twin_that_is_faster_leaves_nothing_to_do(
    log: Log, tmp_path: Path, table_format: TableFormat, mode: Mode
) -> None:
    """A twin of this job commits the batch between the look and the write."""
    rule = MIRROR if mode is Mode.MIRROR else CHANGELOG
    cut = batches(log, 2)
    apply_table(run(tmp_path, table_format, 0), cut[0][0], rule, log)
    place = Place(tmp_path, table_format, "sb/sbtest1")
    after_twin: list[object] = []

    def twin(step: Step) -> None:
        if step is Step.LOOKED and not after_twin:
            after_twin.append(None)
            with open_log(str(OLTP)) as own:
                apply_table(run(tmp_path, table_format, 1), cut[1][0], rule, own)
            after_twin.append(place.state())

    with watched(twin):
        (progress,) = apply_table(run(tmp_path, table_format, 1), cut[1][0], rule, log)
    assert progress.outcome is Outcome.REPEATED
    assert place.state() == after_twin[1]
