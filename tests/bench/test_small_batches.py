"""Small batches: the benchmarks work on a part of their data, and a table of 2,000 small batches stays in shape."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bench.registry import chosen, set_share

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def some_data() -> Iterator[None]:
    set_share(0.02)
    yield
    set_share(1.0)


@pytest.mark.usefixtures("some_data")
def test_they_give_numbers() -> None:
    for one in chosen(["lake.small.*", "lake.delta_log.*"]):
        assert one.measure() > 0, one.name


@pytest.mark.thorough
def test_a_log_of_2000_small_batches_is_small_and_read_as_fast_as_a_new_one() -> None:
    size, ratio = chosen(["lake.delta_log.mb", "lake.delta_log.read_ratio"])
    assert size.measure() < 5
    assert ratio.measure() < 1.2
