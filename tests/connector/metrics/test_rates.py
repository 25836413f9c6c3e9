"""Amounts per second."""

from __future__ import annotations

import pytest

from binlog_connector.metrics.follower import Rate
from tests.faults.clock import FakeClock


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
