"""How far a consumer of a structured log is behind, against what the program has logged.

Amounts per second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from binlog_connector.following.starts import Edge
from binlog_connector.following.tailer import FollowOptions, Tailer
from binlog_connector.metrics import lag as lag_module
from binlog_connector.metrics.follower import Rate
from binlog_connector.metrics.lag import Consumed, Lag, LagMeter
from binlog_lab.simulator.structured.program import FIRST_NS, STEP_NS, LoggingProgram
from tests.faults.clock import FakeClock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from binlog_connector.following.steps import Step


ONE_BY_ONE = FollowOptions(step_size_max=1)


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoggingProgram]:
    monkeypatch.setattr(lag_module, "WALK_SIZE", 300)  # some four events
    with LoggingProgram(tmp_path / "log") as program:
        yield program


def steps(program: LoggingProgram) -> list[Step]:
    """One for each event."""
    found = []
    with Tailer(str(program.directory), Edge.EARLIEST, how=ONE_BY_ONE) as tailer:
        while (step := tailer.step(0)) is not None:
            if step.group_count:
                found.append(step)
    return found


def lag(meter: LagMeter, step: Step) -> Lag:
    return meter.lag(lambda: Consumed(step.end, step.last_timestamp))


def test_events_that_wait_are_counted(program: LoggingProgram) -> None:
    for _ in range(3):
        program.log(20)
        program.rotate()
    taken = steps(program)
    assert [step.group_count for step in taken] == [1] * 60
    sizes = sum(file.stat().st_size for file in program.directory.iterdir())
    meter = LagMeter(str(program.directory))
    for number in (0, 0, 7, 19, 20, 33, 58, 59):
        found = lag(meter, taken[number])
        assert found.transactions == 59 - number
        assert (found.size == 0) == (number == 59)
        assert found.size < sizes
    meter.close()


def test_lag_grows_with_the_log_and_ends_with_it(program: LoggingProgram) -> None:
    program.log(10)
    meter = LagMeter(str(program.directory))
    (*_, last) = steps(program)
    assert lag(meter, last).transactions == 0
    program.log(7)
    found = lag(meter, last)
    assert (found.transactions, found.seconds) == (7, 0)
    program.rotate()
    program.log(4)
    assert lag(meter, last).transactions == 11
    (*_, last) = steps(program)
    assert lag(meter, last) == lag(meter, last)
    assert (lag(meter, last).transactions, lag(meter, last).size) == (0, 0)
    meter.close()


def test_seconds_are_those_between_events(program: LoggingProgram) -> None:
    program.log(2)
    first, _ = steps(program)
    program.count = 42 * 10**9 // STEP_NS
    program.log(1)
    meter = LagMeter(str(program.directory))
    assert first.last_timestamp == FIRST_NS // 10**9
    found = lag(meter, first)
    assert (found.transactions, found.seconds) == (2, 42)
    assert meter.lag(lambda: Consumed(first.start)).seconds == 42, "from the first event that was not taken"
    meter.close()


def test_files_that_have_been_read_may_go(program: LoggingProgram) -> None:
    program.log(30)
    meter = LagMeter(str(program.directory))
    taken = steps(program)
    assert lag(meter, taken[3]).transactions == 26
    old = program.rotate()
    program.log(5)
    (*_, last) = steps(program)[:-2]
    old.unlink()
    assert lag(meter, last).transactions == 2
    program.log(1)
    assert lag(meter, last).transactions == 3
    meter.close()


def test_consumer_that_goes_back_is_counted_anew(program: LoggingProgram) -> None:
    program.log(30)
    taken = steps(program)
    meter = LagMeter(str(program.directory))
    assert [lag(meter, taken[number]).transactions for number in (20, 5, 29, 0)] == [9, 24, 0, 29]
    meter.close()


def test_rate_is_the_mean_of_the_last_ten_seconds() -> None:
    clock = FakeClock()
    rate = Rate(clock)
    assert rate.per_second() == 0
    for _ in range(100):
        clock.now += 0.1
        rate.add(7)
    assert rate.per_second() == pytest.approx(70)
    clock.now += 5
    assert rate.per_second() == pytest.approx(35, rel=0.1)
    clock.now += 6
    assert rate.per_second() == 0
    assert rate.total == 700


def test_rate_of_the_first_moments_is_over_the_time_that_has_passed() -> None:
    clock = FakeClock()
    rate = Rate(clock)
    clock.now += 2
    rate.add(100)
    assert rate.per_second() == pytest.approx(50)


def test_memory_stays_small_however_often_something_is_added() -> None:
    clock = FakeClock()
    rate = Rate(clock)
    for _ in range(100_000):
        clock.now += 0.001
        rate.add(1)
    assert len(rate._slots) < 50
    assert rate.per_second() == pytest.approx(1000, rel=0.05)
