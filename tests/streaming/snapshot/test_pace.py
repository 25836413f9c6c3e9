"""Sizes of chunks and limits of rates."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from binlog_streaming.snapshot.run import BYTES_MAX, LOCK_SECONDS, SIZE_MAX, Pace, RateLimit
from tests.faults.clock import FakeClock

ROWS_PER_SECOND = 500_000


def test_chunks_grow_to_the_time_that_locks_may_be_held() -> None:
    pace = Pace(row_size=200)
    for _ in range(20):
        pace.wrote(pace.size, 0.001 + pace.size / ROWS_PER_SECOND)
    assert 0.8 * LOCK_SECONDS < pace.size / ROWS_PER_SECOND <= LOCK_SECONDS


def test_chunks_do_not_shrink_to_nothing_where_each_takes_long() -> None:
    pace = Pace(row_size=200)
    for _ in range(20):
        pace.wrote(pace.size, 0.5)
    assert pace.size >= 1000


def test_locked_rows_make_chunks_smaller_until_one_row_is_waited_for_and_then_larger_again() -> None:
    pace = Pace(row_size=200)
    sizes = []
    while not pace.is_waiting:
        sizes.append(pace.size)
        pace.refused()
    assert sizes[0] > 100
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == pace.size == 1
    for _ in range(20):
        pace.wrote(pace.size, 0.001)
        assert not pace.is_waiting
    assert pace.size > 1000


def test_a_chunk_that_is_not_full_says_nothing_about_the_next_one() -> None:
    pace = Pace(row_size=200)
    size = pace.size
    pace.wrote(size - 1, 5.0)
    assert pace.size == size


@given(
    st.integers(0, 1 << 32),
    st.none() | st.integers(1, 1 << 20),
    st.lists(st.none() | st.floats(0, 10), max_size=60),
)
def test_sizes_stay_in_their_limits(row_size: int, rate: int | None, outcomes: list[float | None]) -> None:
    pace = Pace(row_size, rate)
    for seconds in outcomes:
        assert 1 <= pace.size <= SIZE_MAX
        assert pace.size == 1 or pace.size * row_size <= BYTES_MAX
        assert rate is None or pace.size <= max(1, rate // 10)
        if seconds is None:
            pace.refused()
        else:
            pace.wrote(pace.size, seconds)


@given(st.lists(st.tuples(st.integers(1, 1000), st.floats(0, 0.5)), min_size=1, max_size=50), st.integers(10, 10_000))
def test_a_rate_is_kept_over_any_time(chunks: list[tuple[int, float]], rate: int) -> None:
    clock = FakeClock()
    started = clock.now
    limit = RateLimit(rate, clock=clock, sleep=clock.sleep)
    rows = 0
    for count, seconds in chunks:
        clock.now += seconds
        limit.take(count)
        rows += count
        assert rows <= rate * (clock.now - started) * 1.000001 + 1e-4


def test_without_a_rate_nothing_waits() -> None:
    clock = FakeClock()
    started = clock.now
    RateLimit(None, clock=clock, sleep=clock.sleep).take(1_000_000)
    assert clock.now == started
