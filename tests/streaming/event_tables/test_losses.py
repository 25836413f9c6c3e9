"""A job over a structured log goes on from everywhere, and names what it lacks in its table of gaps."""

from __future__ import annotations

import os
import signal
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from binlog_connector.crash_points import watched
from binlog_format.errors import CorruptError, DataLossError, StartError
from binlog_lab.simulator.structured.program import NAME, LoggingProgram
from binlog_streaming.event_tables.run import EventTablesRun
from binlog_streaming.event_tables.writing import table_rows
from binlog_streaming.job_state.checkpoint import BatchStep
from tests.connector.damaged_program import NOISE, damaged_before_first_event, damaged_log
from tests.faults.processes import Kill, in_a_process
from tests.streaming.event_tables.test_run import job_at, numbers, run_once, table

if TYPE_CHECKING:
    from collections.abc import Callable
    from enum import StrEnum

    from binlog_streaming.settings import EventTablesJob

ACCEPTING = 'format = "structured"\nfailOnDataLoss = false'


def gaps(job: EventTablesJob) -> list[dict[str, Any]]:
    """Rows of the job's table of gaps, oldest first."""
    places = [path.name for path in (Path(job.sink.directory) / "_binlog_stream").glob("gaps_*")]
    rows = [row for place in places for row in table(job, f"_binlog_stream/{place}").to_pylist()]
    return sorted(rows, key=lambda row: row["found_at"])


def killed_at(step: BatchStep, job: Callable[[], EventTablesJob]) -> None:
    """A process that runs the job is killed at a step of its first batch."""

    def kill(reached: StrEnum) -> None:
        if reached is step:
            os.kill(os.getpid(), signal.SIGKILL)

    def work() -> None:
        with watched(kill):
            run_once(job())

    assert in_a_process(work) == -signal.SIGKILL


@pytest.mark.parametrize("sink", ["delta", pytest.param("iceberg", marks=pytest.mark.thorough)])
@pytest.mark.parametrize("step", [BatchStep.BEGUN, BatchStep.IN_TABLES])
def test_file_of_a_batch_that_was_under_way_is_gone(tmp_path: Path, step: BatchStep, sink: str) -> None:
    with LoggingProgram(tmp_path / "log") as program:
        program.log(20)
        killed_at(step, lambda: job_at(tmp_path, source=ACCEPTING, sink=sink))
        program.rotate().unlink()
        program.log(10)
        with pytest.raises(DataLossError, match="FILE_PURGED"):
            run_once(job_at(tmp_path, sink=sink))
        job = job_at(tmp_path, source=ACCEPTING, sink=sink)
        run_once(job)
        found = numbers(table(job, "logs"))
        assert found[-10:] == list(range(20, 30))
        assert found[:-10] == list(range(len(found) - 10)), "the batch, or nothing of it"
        assert bool(found[:-10]) is (step is BatchStep.IN_TABLES)
        (gap,) = gaps(job)
        assert (gap["condition"], gap["certain"]) == ("BINLOG_DATA_LOSS.FILE_PURGED", True)
        assert run_once(job).progress.batches == 0
        assert len(gaps(job)) == 1


def three_files(program: LoggingProgram) -> list[Path]:
    """Files with ten events each; the last one is that which the program writes to."""
    files = []
    for turn in range(3):
        program.log(10)
        if turn < 2:
            files.append(program.rotate())
    return [*files, program.directory / NAME]


@pytest.mark.parametrize("gone", [0, 1])
def test_files_go_between_planning_and_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: int) -> None:
    """A file between two others leaves no trace in what is read: it is counted what was planned."""
    with LoggingProgram(tmp_path / "log") as program:
        files = three_files(program)

        def remove_first(*batch: Any) -> Any:
            files[gone].unlink(missing_ok=True)
            return table_rows(*batch)

        monkeypatch.setattr("binlog_streaming.event_tables.run.table_rows", remove_first)
        big = 'format = "structured"\nfailOnDataLoss = {}'
        named = job_at(tmp_path, source=big.format("true"), batch_size="1m")
        with pytest.raises(DataLossError, match="FILE_PURGED"):
            run_once(named)
        job = job_at(tmp_path, source=big.format("false"), batch_size="1m")
        run_once(job)
        kept = [number for number in range(30) if number // 10 != gone]
        assert numbers(table(job, "logs")) == kept
        (gap,) = gaps(job)
        assert gap["condition"] == "BINLOG_DATA_LOSS.FILE_PURGED"


def test_what_is_left_of_a_batch_is_in_tables_that_hold_the_batch(tmp_path: Path) -> None:
    source = ACCEPTING
    with LoggingProgram(tmp_path / "log") as program:
        files = three_files(program)
        killed_at(BatchStep.IN_TABLES, lambda: job_at(tmp_path, source=source, batch_size="1m"))
        files[2].open("wb").close()  # the rest of the batch ends before its last event
    with LoggingProgram(tmp_path / "log") as again:
        again.count = 100
        again.log(10)
        job = job_at(tmp_path, source=source, batch_size="1m")
        run_once(job)
        assert numbers(table(job, "logs")) == [*range(30), *range(100, 110)]
        assert [gap["condition"] for gap in gaps(job)] == ["BINLOG_DATA_LOSS.FILE_PURGED"]


def test_program_that_opens_its_log_anew_is_a_restart(tmp_path: Path) -> None:
    """It cuts its file, as the examples of the library do; all that was there had been read."""
    job = job_at(tmp_path)
    path = tmp_path / "log" / NAME
    with LoggingProgram(tmp_path / "log") as program:
        program.log(10)
        run_once(job)
        path.open("wb").close()
        assert run_once(job).progress.batches == 0, "nothing has been written yet"
    with LoggingProgram(tmp_path / "log") as again:
        again.count = 100
        again.log(10)
        run_once(job)
        assert numbers(table(job, "logs")) == [*range(10), *range(100, 110)]
        (gap,) = gaps(job)
        assert not gap["certain"]
        assert "has begun this file anew" in gap["reason"]


def test_what_was_cut_before_it_was_read_is_a_loss(tmp_path: Path) -> None:
    job = job_at(tmp_path)
    with LoggingProgram(tmp_path / "log") as program:
        program.log(40)
        running = EventTablesRun(job, once=True, listener=lambda _: running.stop())
        running.run()
        (tmp_path / "log" / NAME).open("wb").close()
    with LoggingProgram(tmp_path / "log") as again:
        again.count = 100
        again.log(10)
        with pytest.raises(DataLossError, match="FILE_PURGED"):
            run_once(job)


@pytest.mark.parametrize("start", ["", '\nstartingOffsets = "latest"'])
def test_first_file_is_waited_for(tmp_path: Path, start: str) -> None:
    (tmp_path / "log").mkdir()
    job = job_at(tmp_path, source=f'format = "structured"{start}')
    with pytest.raises(StartError, match="NO_LOG_FILES"):
        run_once(job)
    taken = threading.Event()
    running = EventTablesRun(job, listener=lambda _: taken.set())
    running.start()
    thread = threading.Thread(target=running.wait)
    thread.start()
    try:
        with LoggingProgram(tmp_path / "log") as program:
            program.log(5)
            assert taken.wait(60)
    finally:
        running.stop()
        thread.join()
    assert numbers(table(job, "logs")) == list(range(5))


SKIPPING = 'format = "structured"\nskipDamaged = true'


def test_damage_is_skipped_and_named(tmp_path: Path) -> None:
    given = damaged_log(tmp_path / "log")
    with pytest.raises(CorruptError, match="BAD_ENTRY"):
        run_once(job_at(tmp_path))
    (tmp_path / "skipping").mkdir()
    (tmp_path / "log").rename(tmp_path / "skipping" / "log")
    job = job_at(tmp_path / "skipping", source=SKIPPING)
    run_once(job)
    assert numbers(table(job, "logs")) == given
    found = gaps(job)
    assert {gap["condition"] for gap in found} == {"BINLOG_CORRUPT.BAD_ENTRY"}
    reasons = " ".join(gap["reason"] for gap in found)
    for part in ("source 0,", "source 999", "too short", "argument"):
        assert part in reasons, reasons
    assert all("byte 0x" in gap["reason"] for gap in found)
    assert run_once(job).progress.batches == 0
    assert len(gaps(job)) == len(found)


@pytest.mark.parametrize("instead_of_start", [False, True])
@pytest.mark.parametrize("noise", NOISE)
def test_damage_before_the_first_event_of_a_file_is_skipped(
    tmp_path: Path, noise: str, *, instead_of_start: bool
) -> None:
    given = damaged_before_first_event(tmp_path / "log", NOISE[noise], instead_of_start=instead_of_start)
    with pytest.raises(CorruptError, match="BAD_ENTRY"):
        run_once(job_at(tmp_path))
    job = job_at(tmp_path, source=SKIPPING)
    run_once(job)
    assert numbers(table(job, "logs")) == given
    assert [gap["condition"] for gap in gaps(job)] == ["BINLOG_CORRUPT.BAD_ENTRY"]


def test_file_without_an_event_that_can_be_read_is_moved_away(tmp_path: Path) -> None:
    job = job_at(tmp_path, source=SKIPPING)
    with LoggingProgram(tmp_path / "log") as program:
        program.log(5)
        program.rotate()
        program.append(NOISE["too short"])
    with pytest.raises(CorruptError, match=r"No event of this file can be read.* move it to another folder"):
        run_once(job)
    (tmp_path / "log" / NAME).rename(tmp_path / NAME)
    run_once(job)
    assert numbers(table(job, "logs")) == list(range(5))


def test_damage_is_skipped_once_whenever_the_job_is_killed(tmp_path: Path) -> None:
    given = damaged_log(tmp_path / "log")

    def until_killed(kill: Kill) -> None:
        with watched(kill):
            run_once(job_at(tmp_path, source=SKIPPING))

    for left in (2, 3, 5, 8, 13):
        in_a_process(partial(until_killed, Kill(left)))
    job = job_at(tmp_path, source=SKIPPING)
    run_once(job)
    assert numbers(table(job, "logs")) == given
    places = [(gap["start"], gap["reason"]) for gap in gaps(job)]
    assert len(places) == len(set(places)) >= 4
