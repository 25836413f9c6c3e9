"""Tables of a structured log hold each event once, whatever happens to the job and to the files.

What a program calls its categories, functions and files cannot lead out of the sink's directory.
"""

from __future__ import annotations

import contextlib
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import pytest

from binlog_connector.crash_points import watched
from binlog_connector.metrics.exporter import lag_of
from binlog_format.errors import DataLossError, OptionError, SchemaError, StorageError, TableError
from binlog_format.structured.metadata import EventSource
from binlog_lab.demo.proof.targets import read_target
from binlog_lab.simulator.structured.program import FIRST_NS, STEP_NS, LoggingProgram
from binlog_streaming.event_tables.run import EventTablesRun
from binlog_streaming.event_tables.writing import place_of
from binlog_streaming.lake.sinks import sink_type
from binlog_streaming.settings import EventTablesJob, TableFormat, parse_any_job
from binlog_streaming.settings.source_models import EventRule
from binlog_streaming.status.recorder import StatusRecorder
from tests.faults.processes import Kill, in_a_process
from tests.program import run_program

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa


ONE_TABLE = "[[tables]]\n"
BY_SOURCE = '[[tables]]\narguments = "columns"\ntarget = "typed/{category}_{line}"\n'


def job_at(
    folder: Path,
    rules: str = ONE_TABLE + BY_SOURCE,
    *,
    sink: str = "delta",
    source: str = 'format = "structured"',
    batch_size: str = "1k",
) -> EventTablesJob:
    job = parse_any_job(
        f'checkpoint = "checkpoint"\n[source]\npath = "log"\nmaxBytesPerTrigger = "{batch_size}"\n{source}\n'
        f'[sink]\ndirectory = "tables"\nformat = "{sink}"\n{rules}',
        file=folder / "job.toml",
    )
    assert isinstance(job, EventTablesJob)
    return job


def run_once(job: EventTablesJob) -> EventTablesRun:
    running = EventTablesRun(job, once=True)
    running.run()
    return running


def table(job: EventTablesJob, place: str) -> pa.Table:
    uri = f"{job.sink.directory}/{place}"
    if job.sink.format is TableFormat.PARQUET:
        with contextlib.closing(sink_type(job.sink.format).at(job.sink, uri)) as target:
            return target.read().read_all()
    found = read_target(job.sink, uri)
    assert found is not None
    return found


def numbers(rows: pa.Table, column: str = "ns") -> list[int]:
    """Numbers of the events in a table."""
    values = rows.column(column).to_pylist()
    return sorted((value - FIRST_NS) // STEP_NS for value in values) if column == "ns" else sorted(values)


def assert_tables_hold(job: EventTablesJob, count: int) -> None:
    """All events in one table, and those of each source in its own."""
    assert numbers(table(job, "logs")) == list(range(count))
    errors = [number for number in range(count) if number % 10 == 9]
    assert numbers(table(job, "typed/net_20"), "code") == errors
    items = table(job, "typed/shop_10")
    assert numbers(items, "arg0") == [number for number in range(count) if number % 10 != 9]
    assert set(items.column("arg1").to_pylist()) == {"hundreds"}


@pytest.mark.parametrize("sink", ["delta", "iceberg", "parquet"])
def test_events_are_in_the_tables_once(tmp_path: Path, sink: str) -> None:
    with LoggingProgram(tmp_path / "log") as program:
        program.log(40)
        job = job_at(tmp_path, sink=sink, source="")  # the format is detected
        assert run_once(job).progress.batches > 1
        program.rotate()
        program.log(30)
        run_once(job)
        assert run_once(job).progress.batches == 0
        assert_tables_hold(job, 70)


@pytest.mark.parametrize("sink", ["delta", pytest.param("iceberg", marks=pytest.mark.thorough)])
def test_killed_at_each_step_while_files_are_rotated(tmp_path: Path, sink: str) -> None:
    """Each process is killed one step later than the one before, and between them the log grows and is renamed."""
    job: EventTablesJob | None = None

    def until_killed(kill: Kill) -> None:
        with watched(kill):
            run_once(job_at(tmp_path, sink=sink))

    ends = []
    with LoggingProgram(tmp_path / "log") as program:
        for turn, left in enumerate(range(1, 20, 2)):
            program.log(11)
            if turn % 3 == 2:
                program.rotate()
            ends.append(in_a_process(partial(until_killed, Kill(left))))
        assert set(ends) <= {-9, 0}
        assert ends[:4] == [-9] * 4
        job = job_at(tmp_path, sink=sink)
        run_once(job)
        assert_tables_hold(job, program.count)


def test_a_second_process_on_the_same_checkpoint_is_kept_out(tmp_path: Path) -> None:
    """It would give the number of a batch to other events; after the first one has ended, it goes on."""
    with LoggingProgram(tmp_path / "log") as program:
        program.log(40)
        job = job_at(tmp_path)

        def begin_another(_: object) -> None:
            with pytest.raises(StorageError, match="IN_USE"):
                run_once(job)

        first = EventTablesRun(job, once=True, listener=begin_another)
        second = EventTablesRun(job, once=True)  # it has looked at the checkpoint before the first one wrote it
        first.run()
        assert first.progress.batches > 1
        second.run()
        assert second.query_id == first.query_id
        assert second.progress.batches == 0
        assert_tables_hold(job, 40)


def test_new_and_changed_sources(tmp_path: Path) -> None:
    """A source that comes later adds its table; one with more arguments adds columns; with another type, it ends."""
    rules = '[[tables]]\narguments = "columns"\ntarget = "{category}"\n'
    job = job_at(tmp_path, rules)
    with LoggingProgram(tmp_path / "log") as program:
        program.log(10)
        run_once(job)
        program.failure = program.session.add_source("failed: code={} after={}", "ld", category="net")
        program.count = 19
        program.log_with(0.5)
        run_once(job)
        rows = table(job, "net").select(["code", "after"]).to_pylist()
        assert sorted(rows, key=str) == [{"code": 19, "after": 0.5}, {"code": 9, "after": None}]
        program.failure = program.session.add_source("failed: code={}", "d", category="net")
        program.count = 29
        program.log_with()
        with pytest.raises(SchemaError, match=r"SCHEMA_CHANGED.*net .*column code"):
            run_once(job)
        assert len(table(job, "net")) == 2


def test_metrics_tell_what_is_taken_and_what_waits(tmp_path: Path) -> None:
    job = job_at(tmp_path)
    with LoggingProgram(tmp_path / "log") as program:
        program.log(40)
        with StatusRecorder(job) as recorder:
            running = EventTablesRun(job, once=True, listener=recorder.batch)

            running.start(recorder.goes_on_at)
            recorder.started()
            running.wait()
            taken = recorder.progress
            sizes = sum(file.stat().st_size for file in program.directory.iterdir())
            assert (taken.transactions, taken.size.total) == (40, sizes)
            assert taken.rows.total == 80, "each event is in two tables"
            program.rotate()
            program.log(5)
            lag = lag_of(recorder.follower)
        assert lag is not None
        assert lag.transactions == 5


def test_rules_select_events(tmp_path: Path) -> None:
    rules = (
        '[[tables]]\ntarget = "problems"\nmin_severity = "warning"\n'
        "[[tables]]\ntarget = \"by/{severity}\"\nsource_files = '.*\\.cpp'\n"
        '[[tables]]\ntarget = "none"\nformats = "nothing"\n'
    )
    job = job_at(tmp_path, rules)
    with LoggingProgram(tmp_path / "log") as program:
        program.log(20)
    run_once(job)
    assert numbers(table(job, "problems")) == [9, 19] == numbers(table(job, "by/error"))
    assert len(table(job, "by/info")) == 18
    assert read_target(job.sink, f"{job.sink.directory}/none") is None


def test_what_is_lost_or_foreign_is_named(tmp_path: Path) -> None:
    job = job_at(tmp_path)
    with LoggingProgram(tmp_path / "log") as program:
        program.log(20)
        run_once(job)
        other = job_at(tmp_path, '[[tables]]\ntarget = "other"\n')
        with pytest.raises(OptionError, match="tables: this checkpoint was begun with other settings"):
            run_once(other)
        (tmp_path / "checkpoint").rename(tmp_path / "aside")
        with pytest.raises(TableError, match="OTHER_WRITER"):
            run_once(job)
        (tmp_path / "checkpoint" / "events.json").unlink()
        (tmp_path / "aside" / "events.json").rename(tmp_path / "checkpoint" / "events.json")
        first = program.rotate()
        program.log(10)
        first.unlink()
        with pytest.raises(DataLossError, match="FILE_PURGED"):
            run_once(job)
        assert numbers(table(job, "logs")) == list(range(20))


def test_two_rules_with_one_table_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"tables\[1\].target: expected another target"):
        job_at(tmp_path, ONE_TABLE + ONE_TABLE)
    with LoggingProgram(tmp_path / "log") as program:
        program.log(10)
    with pytest.raises(TableError, match="SAME_TARGET"):
        run_once(job_at(tmp_path, '[[tables]]\ntarget = "net"\n[[tables]]\ntarget = "{category}"\n'))


def test_commands_know_such_jobs(tmp_path: Path) -> None:
    with LoggingProgram(tmp_path / "log") as program:
        program.log(20)
    made = run_program("init", tmp_path / "log")
    assert made.returncode == 0, made.stderr
    (tmp_path / "job.toml").write_text(made.stdout)
    with (tmp_path / "job.toml").open("a") as file:
        file.write("port = 0\n")  # of [metrics], the last section
    checked = run_program("check", tmp_path / "job.toml")
    assert checked.returncode == 0, checked.stderr
    assert "logs: events of 2 sources" in checked.stdout
    ran = run_program("run", "--once", tmp_path / "job.toml")
    assert ran.returncode == 0, ran.stderr
    assert "20 changes" in ran.stdout
    assert "metrics: http://127.0.0.1:" in ran.stdout
    arguments = ("--from", "earliest", "--once", "-o", "jsonl", "--metrics-port", "0")
    tailed = run_program("tail", *arguments, tmp_path / "log")
    assert tailed.returncode == 0, tailed.stderr
    assert tailed.stderr.startswith("metrics: http://127.0.0.1:")
    assert len(tailed.stdout.splitlines()) == 20
    refused = run_program("tail", "--tables", "a.b", tmp_path / "log")
    assert refused.returncode == 2
    assert "it has no effect on a structured log" in refused.stderr


@pytest.mark.parametrize(("clock", "year"), [(3_767_225_600_000_000_000, "2089"), (86_400_000_000_000, "1970")])
def test_clock_that_cannot_be_is_named_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, clock: int, year: str
) -> None:
    with LoggingProgram(tmp_path / "log") as program:
        program.log(5)
        run_once(job_at(tmp_path))
        assert "clock" not in caplog.text
        program._writers[0].add_event(program.failure, clock, 5)
        program._writers[0].add_event(program.failure, clock, 6)
        program.session.consume(program._file)
    run_once(job_at(tmp_path))
    assert caplog.text.count("the clock of the program that logs") == 1
    assert f"has the time {year}" in caplog.text


TARGET = "{category}/{function}/{file}/{severity}/{line}_{source_id}"
HOSTILE = [
    b"..",
    b".",
    b"",
    b"/",
    b"../../etc",
    b"a/../../b",
    b"C:\\..\\..\\x",
    b"\x00",
    b"\xff\xfe",
    b"{line}",
    b"\x1b]0;x",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_in_the_directory(name: bytes) -> None:
    source = EventSource(7, 5, category=name, function=name, file=name, line=3, format=b"x", argument_tags=b"")
    place = place_of(EventRule(target=TARGET), source)
    parts = PurePosixPath(place).parts
    assert len(parts) == TARGET.count("/") + 1
    assert all(part.isascii() and part.isprintable() and not set(part) & set("./\\:") for part in parts), place
