from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from binlog_streaming.lake.key_lookup import cover, key_cover, meeting

_NUMBERS = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(_NUMBERS, min_size=1, max_size=60, unique=True), st.integers(1, 20))
def test_cover_holds_all_values_in_few_ranges(values: list[int], count_max: int) -> None:
    starts, ends = cover(np.array(sorted(values), np.int64), count_max)
    assert len(starts) == len(ends) <= count_max
    assert (starts <= ends).all()
    assert (ends[:-1] < starts[1:]).all()
    assert all(((starts <= value) & (value <= ends)).any() for value in values)
    assert set(starts.tolist()) | set(ends.tolist()) <= set(values)


def test_cover_cuts_at_the_widest_gaps() -> None:
    starts, ends = cover(np.array([1, 2, 3, 100, 101, 5000], np.int64), 3)
    assert list(zip(starts.tolist(), ends.tolist(), strict=True)) == [(1, 3), (100, 101), (5000, 5000)]


@given(st.lists(_NUMBERS, min_size=1, max_size=30), st.lists(st.tuples(_NUMBERS, _NUMBERS), max_size=20))
def test_files_meet_ranges_when_a_value_of_a_range_may_be_in_them(
    values: list[int], files: list[tuple[int, int]]
) -> None:
    ranges = key_cover(pa.chunked_array([values], pa.int64()))
    assert ranges is not None
    least, greatest = (np.array([pick(file) for file in files], np.int64) for pick in (min, max))
    expected = [
        any(start <= max(file) and min(file) <= end for start, end in zip(*ranges, strict=True)) for file in files
    ]
    assert meeting(ranges, least, greatest).tolist() == expected


def test_keys_without_ranges() -> None:
    assert key_cover(pa.chunked_array([["a"]])) is None
    assert key_cover(pa.chunked_array([], pa.int32())) is None
