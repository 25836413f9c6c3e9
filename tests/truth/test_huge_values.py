"""Values around and beyond 16 MB in compressed logs, by their hashes."""

from __future__ import annotations

import pytest

from tests.truth.cases import HUGE, case
from tests.truth.comparison import Comparison
from tests.truth.reading import json_changes, typed_changes


@pytest.mark.parametrize("name", HUGE)
def test_huge_values_in_json(name: str) -> None:
    truth = case(name)
    assert Comparison(truth).compare(json_changes(truth.path), truth.logged()).changes == 5


@pytest.mark.parametrize("name", HUGE)
def test_huge_values_typed(name: str) -> None:
    truth = case(name)
    assert Comparison(truth, typed=True).compare(typed_changes(truth.path, "t.h"), truth.logged()).changes == 5
