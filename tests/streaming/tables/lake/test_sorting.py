"""Integers in order: places, numbers, unions and complements."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_streaming.lake.key_lookup import ascending, complement, distinct, integers, union

_INT64 = st.integers(-(2**63), 2**63 - 1)


@given(st.one_of(st.lists(st.integers(-3, 3)), st.lists(_INT64), st.lists(st.integers(2**62, 2**62 + 9))))
def test_places_are_those_of_a_stable_sort(numbers: list[int]) -> None:
    values = np.array(numbers, np.int64)
    order, begins = ascending(values)
    assert order.tolist() == np.argsort(values, kind="stable").tolist()
    ordered = sorted(numbers)
    assert begins.tolist() == [place == 0 or ordered[place] != ordered[place - 1] for place in range(len(ordered))]


@given(st.one_of(st.lists(st.integers(-3, 3)), st.lists(_INT64)))
def test_each_value_has_its_number(numbers: list[int]) -> None:
    values = np.array(numbers, np.int64)
    known, own = distinct(values)
    assert known.tolist() == sorted(set(numbers))
    assert known[own].tolist() == numbers


@given(st.lists(st.lists(_INT64), min_size=1))
def test_union_has_each_value_once(runs: list[list[int]]) -> None:
    found = union([np.array(run, np.int64) for run in runs])
    assert found.tolist() == sorted({number for run in runs for number in run})


@given(st.integers(0, 50), st.sets(st.integers(0, 60)))
def test_complement_has_what_is_left(count: int, numbers: set[int]) -> None:
    left = complement(count, np.array(sorted(numbers), np.int64))
    assert left.tolist() == [number for number in range(count) if number not in numbers]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([1, -1], pa.int8()), [1, -1]),
        (pa.array([2**64 - 1, 0], pa.uint64()), [-1, 0]),
        (pa.chunked_array([[1], [2]]), [1, 2]),
        (pa.array([], pa.int32()), []),
        (pa.array([1, None]), None),
        (pa.array(["a"]), None),
        (pa.array([True]), None),
    ],
)
def test_what_counts_as_integers(column: pa.Array, expected: list[int] | None) -> None:
    values = integers(column)
    assert (None if values is None else values.tolist()) == expected
